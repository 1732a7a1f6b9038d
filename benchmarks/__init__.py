"""Benchmarks: the paper's experiments, the search's own figures, large models and serving.

Run each as a module, for example ``python -m benchmarks.paper --help``; see README.md here.
"""
