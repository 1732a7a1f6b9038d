"""Reading and writing xgboost models."""
