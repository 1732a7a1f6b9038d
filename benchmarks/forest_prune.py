"""ForestPrune beside ours on the binary data sets (python -m benchmarks.forest_prune).

In come data sets, seeds and depths; out goes one CSV line per model and method with leaves removed,
fidelity and fidelity in our region at alpha 0.8, as in the paper's two tables; a method that gives
up toss-ups is measured in the region that it promises.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.cells import indifference_of, percent, train, warm_up
from benchmarks.paper import add_data_options, add_run_options, begin, listed
from benchmarks.pruning_rules.depth_cuts import forest_prune, layers_of
from benchmarks.runner import RESULTS, Job, run_jobs

BINARY = tuple(name for name in data.DATASETS if name not in ("Balance-Scale", "Seeds"))
ALPHA = 0.8
KEY_COLUMNS = ("dataset", "trees", "depth", "seed")
COLUMNS = (
    *KEY_COLUMNS,
    "method",
    "leaves_before",
    "leaves_after",
    "leaf_pruning_rate",
    "fidelity",
    "fidelity_in_region",
    "accuracy_before",
    "accuracy_after",
    "time_s",
    "status",
)


@dataclass(frozen=True)
class Case:
    """One trained model."""

    dataset: str
    depth: int
    seed: int
    time_limit: float
    folder: str | None
    trees: int = 30
    indifference: tuple[str, ...] = ("0",)

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns."""
        return (self.dataset, str(self.trees), str(self.depth), str(self.seed))


@dataclass(frozen=True, eq=False)
class Smaller:
    """What a method made of a model: its classes of the test rows and its size."""

    after: Any
    n_leaves: int
    seconds: float
    status: str
    inside: Any = None  # test rows in the region of its own; None: in that of alpha alone


def run_case(case: Case) -> list[dict[str, Any]]:
    """Every method on one model."""
    from pine_boost.parsers import read_model
    from pine_boost.region.fitting import fit_region

    warm_up()
    table = data.load(case.dataset, case.folder)
    parts = data.split(table, case.seed)
    native = train("xgboost", case.trees, case.depth, case.seed, parts.X_fit, parts.y_fit)
    forest = read_model(native).forest
    before = native.predict(parts.X_test)
    inside = fit_region(forest, parts.X_fit, parts.X_cal, alpha=ALPHA, domain=table.domain()).contains(parts.X_test)
    methods: dict[str, Callable[[], Smaller]] = {
        "ForestPrune": lambda: _depth_cuts(native, forest, parts, polish=True),
        "ForestPrune, weights kept": lambda: _depth_cuts(native, forest, parts, polish=False),
        "pine_boost": lambda: _pruned(native, parts, table, case, reweight="tree"),
    }
    for label in case.indifference:
        words = "" if label == "0" else f", indifference {label}"
        options = {} if label == "0" else {"indifference": indifference_of(label)}
        methods[f"pine_boost, unit leaf{words}"] = partial(_pruned, native, parts, table, case, unit="leaf", **options)
    rows = []
    for method, run in methods.items():
        smaller = run()
        same = smaller.after == before
        within = inside if smaller.inside is None else smaller.inside
        rows.append(
            {
                **dict(zip(KEY_COLUMNS, case.key, strict=True)),
                "method": method,
                "leaves_before": _leaves(forest),
                "leaves_after": smaller.n_leaves,
                "leaf_pruning_rate": percent(1 - smaller.n_leaves / _leaves(forest)),
                "fidelity": percent(same.mean()),
                "fidelity_in_region": percent(same[within].mean() if within.any() else np.nan),
                "accuracy_before": percent((before == parts.y_test).mean()),
                "accuracy_after": percent((smaller.after == parts.y_test).mean()),
                "time_s": f"{smaller.seconds:.3f}",
                "status": smaller.status,
            }
        )
    return rows


def _depth_cuts(native: Any, forest: Any, parts: data.Split, *, polish: bool) -> Smaller:
    started = time.perf_counter()
    layers = layers_of(native, forest)
    cut = forest_prune(layers, parts.X_fit, parts.y_fit, parts.X_cal, parts.y_cal, polish=polish)
    seconds = time.perf_counter() - started
    return Smaller(cut.predict(parts.X_test), cut.n_leaves, seconds, "NO GUARANTEE")


def _pruned(native: Any, parts: data.Split, table: data.Table, case: Case, **options: Any) -> Smaller:
    from pine_boost import prune_booster
    from pine_boost.parsers import read_model

    started = time.perf_counter()
    result = prune_booster(
        native,
        parts.X_fit,
        parts.X_cal,
        alpha=ALPHA,
        domain=table.domain(),
        time_limit=case.time_limit,
        random_state=case.seed,
        **options,
    )
    seconds = time.perf_counter() - started
    n_leaves = _leaves(read_model(result.model).forest)
    after, inside = (result.model.predict(parts.X_test), result.region.contains(parts.X_test, model=native))
    return Smaller(after, n_leaves, seconds, result.status, inside)


def _leaves(forest: Any) -> int:
    return int((forest.left < 0).sum())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forest_prune", description=__doc__)
    add_data_options(parser, BINARY)
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0..n-1 (default 5)")
    parser.add_argument("--depth", type=listed, default=["2", "4"], metavar="A,B")
    parser.add_argument("--out", type=Path, default=RESULTS / "forest_prune.csv")
    parser.add_argument(
        "--indifference", type=listed, default=["0"], metavar="0,auto", help="of the rows that count leaves"
    )
    add_run_options(parser)
    options = begin(parser, arguments)
    cases = [
        Case(dataset, int(depth), seed, options.time_limit, options.data, indifference=tuple(options.indifference))
        for seed, depth, dataset in product(range(options.seeds), options.depth, options.datasets)
    ]
    failures = run_jobs(
        run_case,
        [Job(case.key, case) for case in cases],
        options.out,
        COLUMNS,
        KEY_COLUMNS,
        n_workers=options.jobs,
        hard_limit=4 * options.time_limit + 300,
    )
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
