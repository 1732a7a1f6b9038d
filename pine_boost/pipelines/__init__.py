"""Handle what is deployed around a model: Pipelines, thresholds, calibration, frozen estimators."""
