"""Benchmarks: the paper's experiments, default-sized models, limits and speed.

Run each as a module, for example ``python -m benchmarks.paper --help``; see README.md in this folder.
"""
