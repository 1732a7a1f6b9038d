"""What was proved, in words and in JSON, and how to prove it again."""
