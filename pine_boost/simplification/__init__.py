"""Lossless simplification: what no input can tell apart is written once, what none reaches goes."""
