"""Two speeds of the region: leaves over states against XGBoost's pred_leaf, and membership.

In come sizes on the command line; out goes a table of seconds, one thread each. Asserts nothing:
the targets are 5 times pred_leaf for leaves, and 2 s for a million rows of 20 features.

Run: python benchmarks/evaluation.py [--rows 1000000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pine_boost.parsers import read_model
from pine_boost.region import fit_region
from pine_boost.routing import route
from pine_boost.states import build_space


def best_of(repeats: int, function: Callable[[], Any]) -> float:
    """Shortest wall time in seconds; the machine may be busy with other things."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()

    import xgboost

    rng = np.random.default_rng(0)
    train = rng.normal(size=(20_000, options.features))
    label = (train[:, 0] * train[:, 1] + train[:, 2] > 0).astype(int)
    model = xgboost.XGBClassifier(
        n_estimators=options.trees, max_depth=options.depth, n_jobs=1, random_state=0
    ).fit(train, label)
    forest = read_model(model).forest
    space = build_space(forest)
    trees = route(forest, space)
    X = rng.normal(size=(options.rows, options.features))

    booster = model.get_booster()
    booster.set_param({"nthread": 1})
    data = xgboost.DMatrix(X, nthread=1)
    native = best_of(options.repeats, lambda: booster.predict(data, pred_leaf=True))
    to_states = best_of(options.repeats, lambda: space.states(X))
    states = space.states(X)
    to_leaves = best_of(options.repeats, lambda: trees.leaves(states))
    print(f"{options.rows} rows, {options.trees} trees of depth {options.depth}, 1 thread")
    print(f"  xgboost pred_leaf      {native:8.2f} s")
    print(f"  states                 {to_states:8.2f} s")
    print(f"  leaves over states     {to_leaves:8.2f} s")
    print(f"  ratio (target < 5)     {(to_states + to_leaves) / native:8.2f}")
    for score in ("chow-liu", "leaf-support"):
        region = fit_region(forest, train[:10_000], train[10_000:], alpha=0.1, score=score)
        seconds = best_of(options.repeats, partial(region.contains, X))
        print(f"  contains, {score:12s} {seconds:8.2f} s")


if __name__ == "__main__":
    main()
