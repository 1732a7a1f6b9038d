"""Plausibility scores."""
