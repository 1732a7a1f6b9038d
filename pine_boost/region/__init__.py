"""The in-distribution region: plausibility scores, conformal calibration."""
