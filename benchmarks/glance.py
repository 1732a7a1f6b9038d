"""Size against kept classes for every way to a smaller model (python -m benchmarks.glance).

All methods are compared at the same number of leaves, on test rows that nothing has used. Draws docs/glance.svg.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.cells import percent, train, warm_up
from benchmarks.defaults import CONFIDENCE, FIDELITY, SHARES, Baselines, train_default
from benchmarks.machine import record_run
from benchmarks.paper import add_data_options, add_run_options, check_data, listed
from benchmarks.pruning_rules import RULES, rounds_of
from benchmarks.runner import RESULTS, Job, run_jobs

SMALL, DEFAULT = "30x2", "100x6"  # trees and depth
ALPHAS = (0.05, 0.1, 0.2, 0.4, 0.8)
PROVED, VALIDATED, SLICING, RETRAINING = "proved", "validated", "slicing", "retraining"
# of the fifteen in rules.csv: the best at depth 2 and the best at depth 4
BEST_RULES = ("error_ambiguity", "reduced_error")
OTHERS = {"slice_fidelity": SLICING, "retrained_fidelity": RETRAINING}
KEY_COLUMNS = ("dataset", "model", "seed")
COLUMNS = (*KEY_COLUMNS, "size", "method", "leaves_before", "leaves_after", "leaves_kept", "fidelity", "status")


@dataclass(frozen=True)
class Glance:
    """One model on one split."""

    dataset: str
    model: str
    seed: int
    time_limit: float
    folder: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns."""
        return (self.dataset, self.model, str(self.seed))


class Trial:
    """A trained model, its test rows, and the lines measured on them."""

    def __init__(self, glance: Glance) -> None:
        from pine_boost.parsers import read_model

        self.glance = glance
        encoding = "paper" if glance.model == SMALL else "dummies"
        self.table = data.load(glance.dataset, glance.folder, encoding)
        parts = self.parts = data.split(self.table, glance.seed)
        if glance.model == SMALL:
            self.native = train("xgboost", 30, 2, glance.seed, parts.X_fit, parts.y_fit)
        else:
            self.native = train_default("xgboost-0.1", glance.seed, parts.X_fit, parts.y_fit)
        self.parsed = read_model(self.native)
        self.n_leaves = self.parsed.forest.n_leaves
        self.before = self.native.predict(parts.X_test)
        self.baselines = Baselines(self.parsed, parts, glance.seed, 2 if glance.model == SMALL else 6)
        self.lines: list[dict[str, Any]] = []

    def prune(self, **options: Any) -> Any:
        """Proved, with the region fitted on the training rows; None where that is refused."""
        from pine_boost import prune_booster
        from pine_boost.errors import RegionError

        try:
            return prune_booster(
                self.native,
                self.parts.X_fit,
                self.parts.X_cal,
                domain=self.table.domain(),
                time_limit=self.glance.time_limit,
                random_state=self.glance.seed,
                **options,
            )
        except RegionError:
            return None

    def kept(self, native: Any) -> float:
        """Share of test rows with the original's class, by the native library."""
        return float(np.mean(native.predict(self.parts.X_test) == self.before))

    def add(self, size: str, method: str, leaves: int, fidelity: float, status: str) -> None:
        """One line."""
        self.lines.append(
            {
                **dict(zip(KEY_COLUMNS, self.glance.key, strict=True)),
                "size": size,
                "method": method,
                "leaves_before": self.n_leaves,
                "leaves_after": leaves,
                "leaves_kept": percent(leaves / self.n_leaves),
                "fidelity": percent(fidelity),
                "status": status,
            }
        )

    def add_others(self, sizes: Sequence[tuple[str, int]], *, with_path: bool) -> None:
        """Slicing, retraining, the rules and the path of compression at these leaves."""
        X, status = self.parts.X_test, "NO GUARANTEE"
        members = rounds_of(self.parsed.forest, self.parts.X_fit).members(self.parts.y_fit)
        test = rounds_of(self.parsed.forest, X)
        shapes = {}
        if with_path:
            shapes = self.baselines.path([leaves / self.n_leaves for _, leaves in sizes])
        for size, leaves in sizes:
            for column, text in self.baselines.fidelities(leaves, X).items():
                if column in OTHERS:
                    self.add(size, OTHERS[column], leaves, float(text) / 100, status)
            n_rounds = max(1, round(test.n_rounds * leaves / self.n_leaves))
            for rule in BEST_RULES:
                same = test.predict(RULES[rule](members, n_rounds)) == self.before
                self.add(size, rule, leaves, float(np.mean(same)), status)
            shape = shapes.get(leaves / self.n_leaves)
            if shape is not None:
                fidelity = self.baselines.fidelity_of(shape, X)
                self.add(size, VALIDATED, shape.n_leaves, fidelity, "PATH")


def run_glance(glance: Glance) -> list[dict[str, Any]]:
    """Every way on one model."""
    warm_up()
    trial = Trial(glance)
    if glance.model == SMALL:
        sizes = []
        for alpha in ALPHAS:
            result = trial.prune(alpha=alpha)
            leaves = result.certificate.leaves_after
            trial.add(f"{alpha:g}", PROVED, leaves, trial.kept(result.model), result.status)
            sizes.append((f"{alpha:g}", leaves))
        trial.add_others(sizes, with_path=True)
        return trial.lines
    result = trial.prune(alpha=0.1, indifference="auto")
    if result is None:
        trial.add("0.1", PROVED, trial.n_leaves, 1.0, "REFUSED")
    else:
        leaves = result.certificate.leaves_after
        trial.add("0.1", PROVED, leaves, trial.kept(result.model), result.status)
    leaves = _compressed(trial)
    trial.add_others([("returned", leaves)], with_path=False)
    shares = [(f"{100 * share:g}", int(share * trial.n_leaves)) for share in SHARES]
    trial.add_others(shares, with_path=True)
    return trial.lines


def _compressed(trial: Trial) -> int:
    """What compress_booster returns for 99 %, or for the most that few rows can carry."""
    from pine_boost import compress_booster
    from pine_boost.compression.fixed_sequence import highest_fidelity

    parts = trial.parts
    target = min(FIDELITY, highest_fidelity(len(parts.X_cal), CONFIDENCE))
    result = compress_booster(
        trial.native, parts.X_fit, parts.X_cal, fidelity=target, confidence=CONFIDENCE, random_state=trial.glance.seed
    )
    trial.add("returned", VALIDATED, result.leaves_after, trial.kept(result.model), result.status)
    return int(result.leaves_after)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.glance", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--models", type=listed, default=[SMALL, DEFAULT], metavar="A,B")
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0..n-1 (default 1)")
    parser.add_argument("--out", type=Path, default=RESULTS / "glance.csv")
    parser.add_argument("--draw", action="store_true", help="only draw docs/glance.svg")
    add_run_options(parser)
    parser.set_defaults(time_limit=15.0)
    options = parser.parse_args(arguments)
    failures = 0
    if not options.draw:
        if not set(options.models) <= {SMALL, DEFAULT}:
            parser.error(f"--models {','.join(options.models)}: accepted are {SMALL}, {DEFAULT}")
        check_data(options, parser)
        if arguments is None:
            record_run(options.out)
        cells = [
            Glance(dataset, model, seed, options.time_limit, options.data)
            for seed, model, dataset in product(range(options.seeds), options.models, options.datasets)
        ]
        failures = run_jobs(
            run_glance,
            [Job(cell.key, cell) for cell in cells],
            options.out,
            COLUMNS,
            KEY_COLUMNS,
            n_workers=options.jobs,
            hard_limit=10 * options.time_limit + 600,
        )
    elif options.out.exists():
        from benchmarks.glance_figure import draw

        print(f"wrote {draw(options.out)}")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
