"""What was proved, in words and in JSON; proved anew by anyone."""
