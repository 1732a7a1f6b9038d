"""Fuzz target: live scikit-learn ensembles whose tree arrays were written into.

There are no files to read (a pickle is only loaded when trusted), so what is damaged are the arrays
of a fitted model, as another tool or bad memory might leave them.
"""

from __future__ import annotations

import copy
from functools import cache
from random import Random
from typing import Any

import numpy as np

from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from tests.fuzz.driver import Target, main

_ODD = (-3, -2, -1, 0, 1, 2, 5, 1000, 2**31 - 1, 0.5, -1e308, 1e39, 1e-320)
_ARRAYS = ("children_left", "children_right", "feature", "threshold", "value")


@cache
def healthy() -> list[Any]:
    """A forest, gradient boosting and histogram boosting."""
    from sklearn import ensemble

    X = np.random.default_rng(0).normal(size=(200, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    return [
        ensemble.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y),
        ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0).fit(X, y),
        ensemble.HistGradientBoostingClassifier(max_iter=3, max_depth=2, random_state=0).fit(X, y),
    ]


def damage(random: Random, model: Any) -> Any:
    """One to three numbers of the trees."""
    model = copy.deepcopy(model)
    for _ in range(random.randint(1, 3)):
        odd = random.choice((*_ODD, float("nan"), float("inf")))
        if hasattr(model, "_predictors"):
            nodes = model._predictors[random.randint(0, 2)][0].nodes
            column = nodes[random.choice(sorted(nodes.dtype.names))]
        else:
            tree = np.ravel(model.estimators_)[random.randint(0, 2)].tree_
            column = getattr(tree, random.choice(_ARRAYS))
        if column.flags.writeable:
            place = np.unravel_index(random.randint(0, column.size - 1), column.shape)
            if column.dtype.kind in "iub":
                odd = 0 if np.isnan(odd) or np.isinf(odd) else int(odd)
                limits = None if column.dtype.kind == "b" else np.iinfo(column.dtype)
                odd = odd if limits is None else max(min(odd, limits.max), limits.min)
            with np.errstate(over="ignore"):
                column[place] = odd
    return model


def check(model: Any) -> None:
    """Refused, or a Forest whose walk ends (the native predict is not asked: it would crash)."""
    forest = read_model(model).forest
    X = np.random.default_rng(1).normal(size=(5, forest.n_features))
    with np.errstate(over="ignore", invalid="ignore"):
        native_margins(forest, X)


TARGET = Target("scikit-learn trees", healthy, damage, check)

if __name__ == "__main__":
    main(TARGET)
