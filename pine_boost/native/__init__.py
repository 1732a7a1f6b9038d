"""Predictions of the native libraries, which every claim is about."""
