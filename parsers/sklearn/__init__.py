"""Reading and writing sklearn models."""
