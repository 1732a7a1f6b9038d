"""The native libraries themselves: the only truth."""
