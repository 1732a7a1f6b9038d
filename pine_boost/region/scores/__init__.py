"""Plausibility scores: one file each."""
