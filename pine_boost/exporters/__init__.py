"""Exporters: from a PrunedForest back to a native model of the kind that came in."""
