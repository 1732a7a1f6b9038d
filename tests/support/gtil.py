"""Margins by Treelite's own reference predictor, on the input type that a model needs."""

from typing import Any

import numpy as np
import treelite

from pine_boost.model.forest import Forest
from pine_boost.model.rules import Comparison


def gtil_margins(converted: Any, forest: Forest, X: np.ndarray, margin: bool = True) -> np.ndarray:
    """gtil on the input type that the docstring of to_treelite asks for."""
    rows = X
    if forest.comparison is not Comparison.FLOAT64_LESS_EQUAL:
        rows = X.astype(np.float32)
    if forest.arithmetic is np.float64:
        rows = rows.astype(np.float64)
    found = treelite.gtil.predict(converted, rows, nthread=1, pred_margin=margin)
    return found.reshape(len(X), -1)
