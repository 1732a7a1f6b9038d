"""Integrations with model registries."""
