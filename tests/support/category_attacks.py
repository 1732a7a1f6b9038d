"""Models of pandas categories, and tables with every category at every threshold.

In comes the name of a kind; out go a trained model, its rows, and rows that hold all categories,
those that no training row had, strangers where the library reads them, gaps, and numbers on
thresholds and one unit in the last place beside them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from pine_boost.model.forest import Forest
from tests.support.category_tables import models_of_categories
from tests.support.grids import feature_edges

COLOURS = ("red", "green", "blue", "pink", "grey", "never")  # the last in no training row
STRANGER = "stranger"  # not even a category of the training table
KINDS = ("xgboost", "xgboost partition-3", "lightgbm", "lightgbm-3", "histogram", "histogram-3")


def coloured_rows(n_classes: int, n_rows: int = 500, seed: int = 5) -> tuple[Any, np.ndarray]:
    """One category and two numbers, gaps in all three, and noisy labels that need them all."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    code = rng.integers(0, len(COLOURS), n_rows)
    X = np.round(rng.normal(size=(n_rows, 2)), 1)
    signal = np.isin(code, [1, 3]) * 1.5 + X[:, 0] * np.where(code == 2, -1, 1) + 0.5 * X[:, 1]
    noisy = signal + rng.normal(0, 0.6, n_rows)
    y = np.digitize(noisy, np.quantile(noisy, np.arange(1, n_classes) / n_classes))
    X[rng.random(X.shape) < 0.1] = np.nan
    code[rng.random(n_rows) < 0.15] = -1
    colour = pd.Categorical.from_codes(code, categories=list(COLOURS))
    return pd.DataFrame({"colour": colour, "number": X[:, 0], "size": X[:, 1]}), y


@cache
def coloured_model(kind: str) -> Any:
    """A small model of a kind, trained on the first half of `coloured_rows`, without one colour."""
    n_classes = 3 if kind.endswith("-3") else 2
    X, y = coloured_rows(n_classes)
    trained = (np.arange(len(X)) < len(X) // 2) & (X["colour"] != COLOURS[-1]).to_numpy()
    X, y = X[trained], y[trained]
    few = 12 if n_classes == 2 else 5
    library = kind.split("-")[0].split()[0]
    size = {
        "xgboost": {"n_estimators": few, "max_depth": 5 - n_classes, "max_cat_to_onehot": 100},
        "lightgbm": {"n_estimators": few, "num_leaves": 11 - 2 * n_classes, "min_data_per_group": 1},
        "histogram": {"max_iter": few, "max_leaf_nodes": 8 - n_classes, "early_stopping": False, "random_state": 0},
    }[library]
    if "partition" in kind:
        size["max_cat_to_onehot"] = 1
    return models_of_categories()[library].set_params(**size).fit(X, y)


def coloured_attack(forest: Forest, *, strangers: bool, n_rows: int = 6000) -> Any:
    """Rows drawn from all categories, gaps and edges of the forest's numbers together."""
    import pandas as pd

    rng = np.random.default_rng(0)
    values: list[Any] = [*COLOURS, None, *([STRANGER] if strangers else [])]
    numbers = {}
    for name, feature in (("number", 1), ("size", 2)):
        usual = np.round(rng.normal(size=n_rows), 1)
        on_edges = rng.choice(feature_edges(forest, feature), n_rows)
        numbers[name] = np.where(rng.random(n_rows) < 0.7, on_edges, usual)
    drawn = [values[i] for i in rng.integers(0, len(values), n_rows)]
    known = [value for value in values if value is not None]
    return pd.DataFrame({"colour": pd.Categorical(drawn, categories=known), **numbers})


def native_distance(model: Any, X: Any) -> np.ndarray:
    """How far the library's own margin of each row is from the decision."""
    library = type(model).__module__.partition(".")[0]
    if library == "xgboost":
        margins = model.predict(X, output_margin=True)
    elif library == "lightgbm":
        margins = model.predict(X, raw_score=True)
    else:
        margins = model.decision_function(X)
    margins = np.asarray(margins, dtype=np.float64)
    if margins.ndim == 1:
        return np.abs(margins)
    best = np.sort(margins, axis=1)
    return best[:, -1] - best[:, -2]
