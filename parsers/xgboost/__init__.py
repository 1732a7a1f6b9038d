"""Reading and writing XGBoost models."""
