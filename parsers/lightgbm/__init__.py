"""Reading and writing LightGBM models."""
