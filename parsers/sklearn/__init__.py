"""Reading scikit-learn models."""
