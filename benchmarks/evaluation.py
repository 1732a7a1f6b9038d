"""Speed of the region: leaves over states against XGBoost's pred_leaf, and membership.

Prints seconds for each score and model size, in one thread and in two. Nothing is asserted; the targets are 5 times
pred_leaf for leaves and 2 s for the membership of a million rows of 20 features.

Run: python -m benchmarks.evaluation [--rows 1000000]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import Forest
from pine_boost.model.routing import route
from pine_boost.model.states import build_space
from pine_boost.parsers import read_model
from pine_boost.region import Region, fit_region
from pine_boost.region.membership import compile_membership
from pine_boost.region.scores.fit_score import SCORE_NAMES

SIZES = ((30, 2), (100, 6))  # the paper's size, and XGBoost's default


def best_of(repeats: int, function: Callable[[], Any]) -> tuple[float, float]:
    """Shortest wall and processor seconds; the machine may be busy with other things."""
    wall, processor = [], []
    for _ in range(repeats):
        start, start_processor = time.perf_counter(), time.process_time()
        function()
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - start_processor)
    return min(wall), min(processor)


def halves(region: Region, X: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Membership of the two halves of X, a thread each."""
    middle = len(X) // 2
    with ThreadPoolExecutor(2) as pool:
        return np.concatenate(list(pool.map(region.contains, (X[:middle], X[middle:]))))


def print_leaves(model: Any, forest: Forest, X: npt.NDArray[np.float64], repeats: int) -> None:
    """Leaves over states against the native ones."""
    import xgboost

    space = build_space(forest)
    trees = route(forest, space)
    booster = model.get_booster()
    booster.set_param({"nthread": 1})
    data = xgboost.DMatrix(X, nthread=1)
    native, _ = best_of(repeats, lambda: booster.predict(data, pred_leaf=True))
    to_states, _ = best_of(repeats, lambda: space.states(X))
    states = space.states(X)
    to_leaves, _ = best_of(repeats, lambda: trees.leaves(states))
    print(f"  xgboost pred_leaf      {native:8.2f} s")
    print(f"  states                 {to_states:8.2f} s")
    print(f"  leaves over states     {to_leaves:8.2f} s")
    print(f"  ratio (target < 5)     {(to_states + to_leaves) / native:8.2f}")


def print_membership(forest: Forest, train: npt.NDArray[np.float64], X: npt.NDArray[np.float64], repeats: int) -> None:
    """Membership for each score; every verdict of a part is compared with that of the tables."""
    middle = len(train) // 2
    print("  contains                  wall   processor   two threads   compiling")
    for score in SCORE_NAMES:
        region = fit_region(forest, train[:middle], train[middle:], alpha=0.1, score=score)
        part = X[:20_000]
        expected = region.tables.contains(region.space.states(part))
        if not np.array_equal(region.contains(part), expected):
            raise SystemExit(f"{score}: compiled and plain membership differ")
        wall, processor = best_of(repeats, partial(region.contains, X))
        threads, _ = best_of(repeats, partial(halves, region, X))
        compiling, _ = best_of(repeats, partial(compile_membership, region.space, region.tables, region.score_tables))
        print(f"    {score:18s} {wall:7.2f} s {processor:9.2f} s {threads:11.2f} s {compiling:9.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()

    import xgboost

    rng = np.random.default_rng(0)
    train = rng.normal(size=(20_000, options.features))
    label = (train[:, 0] * train[:, 1] + train[:, 2] > 0).astype(int)
    X = rng.normal(size=(options.rows, options.features))
    for n_trees, depth in SIZES:
        model = xgboost.XGBClassifier(n_estimators=n_trees, max_depth=depth, n_jobs=1, random_state=0).fit(train, label)
        forest = read_model(model).forest
        load = os.getloadavg()[0]
        print(
            f"{options.rows} rows, {options.features} features, {n_trees} trees of depth {depth} "
            f"(load of the machine before: {load:.1f})"
        )
        print_leaves(model, forest, X, options.repeats)
        print_membership(forest, train, X, options.repeats)


if __name__ == "__main__":
    main()
