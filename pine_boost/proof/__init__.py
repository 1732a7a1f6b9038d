"""The trusted kernel: the problem, and the complete methods that prove or refute."""
