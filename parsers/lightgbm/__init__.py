"""Reading and writing lightgbm models."""
