"""What people deploy around a model: Pipelines, thresholds, calibration, frozen estimators."""
