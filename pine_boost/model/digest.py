"""The identity of a model: one digest over everything that routes an input or adds to a margin.

A live model and its file have the same digest, regardless of which libraries are installed.
"""

from __future__ import annotations

import hashlib

import numpy as np

from pine_boost.model.forest import Forest

_DIGESTED = (
    "tree_offset",
    "feature",
    "threshold",
    "left",
    "right",
    "default_left",
    "kind",
    "missing",
    "set_left",
    "category_offset",
    "category",
    "value",
    "tree_output",
    "intercept",
    "arithmetic",
    "comparison",
    "category_rule",
    "n_outputs",
    "n_features",
    "library",
    "feature_categories",
)


def forest_digest(forest: Forest) -> str:
    """Return a SHA-256 over everything in a Forest that routes an input or adds to a margin.

    It is equal for a live model and its file; changing one leaf, threshold or category changes it.
    It is a digest of values: -0.0 counts as 0.0, since no comparison or sum distinguishes them.
    Labels and names are not part of it, because a file does not hold what a wrapper adds.
    """
    digest = hashlib.sha256()
    for name in _DIGESTED:
        value = getattr(forest, name)
        digest.update(name.encode())
        if isinstance(value, np.ndarray):
            digest.update(str((value.dtype.str, value.shape)).encode())
            digest.update(np.ascontiguousarray(value + 0.0 if value.dtype.kind == "f" else value).tobytes())
        elif name == "arithmetic":
            digest.update(np.dtype(value).str.encode())
        elif name == "feature_categories":
            named = [None if c is None else [str(entry) for entry in c] for c in value]
            digest.update(repr(named if any(named) else []).encode())
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()
