"""Levels and candidates of the test in compress_booster, simulated (python -m benchmarks.levels).

One path for each model; then X_val is drawn many times from rows that neither the model nor the path has seen. All
alternatives are valid and judge the same draws. What is compared is the share of the leaves gone.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.compression import CONFIDENCE, FIDELITY, train_default
from benchmarks.paper import add_data_options, listed

DATASETS = ("ELEC2", "FICO", "JM1", "PoL", "Spambase")  # whose sizes vary most between seeds
MAX_LOSS = 0.005
KEPT = {"one test": (1.0,), "0.7 + 0.3": (0.7, 0.3), "0.5 + 0.5": (0.5, 0.5), "4 x 0.25": (0.25,) * 4}
LOST = {"loss, one test": (1.0,), "loss, 0.9 + 0.1": (0.9, 0.1), "loss, 0.5 + 0.5": (0.5, 0.5)}
LEVELS = {f"{n} levels": np.geomspace(0.0004, 6.0, n) for n in (8, 24, 200)}
BEST = "best size that passes"


def simulate(name: str, seed: int, folder: str | None, n_draws: int, minimize: str) -> dict[str, Any]:
    """Share gone in each draw, by alternative."""
    from pine_boost.budget import Budget
    from pine_boost.compression.fixed_sequence import allowances, allowed, expected_share, judge
    from pine_boost.compression.goal import Goal
    from pine_boost.compression.loss import Target, most_lost
    from pine_boost.compression.path import find_path, set_up
    from pine_boost.compression.reading import open_rows, schema_of
    from pine_boost.compression.shape import margins
    from pine_boost.compression.validation import choose
    from pine_boost.parsers import read_model

    parts = data.split(data.load(name, folder, "dummies"), seed)
    native = train_default("xgboost-0.1", seed, parts.X_fit, parts.y_fit)
    forest = read_model(native, decision="value").forest
    goal, schema, n_val = Goal(forest, True, None), schema_of(forest), len(parts.X_cal)
    task = set_up(goal, minimize, open_rows(parts.X_fit, schema), seed, Budget.of(None))
    X_fresh = np.concatenate([np.asarray(parts.X_cal), np.asarray(parts.X_test)])
    labels = np.searchsorted(native.classes_, np.concatenate([parts.y_cal, parts.y_test]))
    leaves = task.trees.leaves(task.space.states(X_fresh).astype(np.int32))
    before = forest.decision.classes(margins(task.original, forest, leaves))
    whole = task.cost.of(task.original)
    random = np.random.default_rng(seed)
    draws = [random.permutation(len(labels))[:n_val] for _ in range(n_draws)]

    def counts(chain: Sequence[Any]) -> list[list[tuple[float, int, int, int]]]:
        """Cost, changed, lost and gained rows of each candidate in each draw."""
        after = np.array([forest.decision.classes(margins(shape.shape, forest, leaves)) for shape in chain])
        changed, lost, gained = after != before, (before == labels) & (after != labels), after == labels
        gained &= before != labels
        costs = [candidate.cost for candidate in chain]
        return [
            list(zip(costs, *(rows[:, draw].sum(axis=1).tolist() for rows in (changed, lost, gained)), strict=True))
            for draw in draws
        ]

    def gone(counted: Sequence[Any], tests: Sequence[Callable[[Any], bool]]) -> list[float]:
        return [
            100 * (1 - min([whole, *(count[0] for count, accepted in judge(draw, tests) if accepted)]) / whole)
            for draw in counted
        ]

    def kept(most: Sequence[int]) -> list[Callable[[Any], bool]]:
        return [lambda count, limit=limit: count[1] <= limit for limit in most]

    level, found = 1.0 - CONFIDENCE, {}
    share = expected_share(n_val, FIDELITY, CONFIDENCE)
    path, _ = find_path(task, share, Budget.of(None), forest)
    ours = allowances(n_val, FIDELITY, CONFIDENCE)
    counted = counts(choose(path, share))
    found["ours"] = gone(counted, kept(ours))
    for text, shares in KEPT.items():
        found[text] = gone(counted, kept([allowed(n_val, FIDELITY, 1.0 - level * part) for part in shares]))
    found[BEST] = [
        100 * (1 - min([whole, *(count[0] for count in draw if count[1] <= ours[0])]) / whole) for draw in counted
    ]
    for text, levels in LEVELS.items():
        found[text] = gone(counts(choose(path, share, levels)), kept(ours))
    share = Target(n_val, CONFIDENCE, None, MAX_LOSS).aim()
    path, _ = find_path(task, share, Budget.of(None), forest)
    counted = counts(choose(path, share))
    for text, shares in LOST.items():
        tables = [most_lost(n_val, MAX_LOSS, level * part) for part in shares]
        tests = [lambda n, t=table: n[3] < len(t) and n[2] <= t[n[3]] for table in tables]
        found[text] = gone(counted, tests)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print means over all draws, and the mean over the models of the standard deviation between draws."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.levels", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.set_defaults(datasets=list(DATASETS))
    parser.add_argument("--seeds", type=listed, default=["0", "1"], metavar="A,B")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--minimize", default="leaves")
    options = parser.parse_args(arguments)
    found = defaultdict(list)
    for seed in options.seeds:
        for name in options.datasets:
            for text, gone in simulate(name, int(seed), options.data, options.draws, options.minimize).items():
                found[text].append((np.mean(gone), np.std(gone)))
    print("| alternative | gone % | between draws |\n|---|---|---|")
    for text, numbers in found.items():
        mean, spread = np.mean(numbers, axis=0)
        print(f"| {text} | {mean:.1f} | {spread:.1f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
