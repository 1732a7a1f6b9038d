"""Reading and writing CatBoost models."""
