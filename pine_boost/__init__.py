"""Smaller tree ensembles that provably predict the same class on in-distribution inputs."""

from pine_boost._version import __version__

__all__ = ["__version__"]
