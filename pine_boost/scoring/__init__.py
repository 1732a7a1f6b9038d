"""Scorers: the same classes as a native model, in microseconds."""
