"""One cell of the paper's experiments: train, prune, measure on the test rows.

The split and the model depend only on the description of the cell.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.models import fit

COLUMNS = (
    "dataset",
    "model",
    "trees",
    "depth",
    "objective",
    "score",
    "seed",
    "alpha",
    "pruning_rate",
    "fidelity",
    "fidelity_in_region",
    "coverage",
    "accuracy_before",
    "accuracy_after",
    "time_s",
    "rounds",
    "lower_bound",
    "status",
    "leaf_pruning_rate",
    "once_s",
    "twice_s",
    "fewest_s",
)
KEY_COLUMNS = COLUMNS[:8]
MODELS = ("xgboost", "random-forest", "lightgbm")
FAITHFUL = "faithful"
# The paper does not name the learning rate; 0.1 is the default of its published script and of
# FIPE's, which also pass the seed of the split to the model.
LEARNING_RATE = 0.1


@dataclass(frozen=True)
class Cell:
    """Everything that decides a row of results.csv.

    ``alpha`` is "faithful" or a number as text, so that a finished cell is found by its text.
    """

    dataset: str
    model: str = "xgboost"
    trees: int = 30
    depth: int = 2
    objective: str = "l0"
    score: str = "chow-liu"
    bins: int = 4
    seed: int = 0
    alpha: str = "0.1"
    time_limit: float = 60.0
    folder: str | None = None
    reweight: str = "tree"
    unit: str = "round"
    indifference: str = "0"

    @property
    def objective_label(self) -> str:
        """The objective as results.csv names it, with what differs from the paper's setting.

        ``-leaf``: leaf values of their own; ``-leaves``: leaves are counted, subtrees become
        leaves; ``-i`` and a share or ``auto``: undecided inputs are left out.
        """
        label = self.objective
        if self.unit == "leaf":
            label += "-leaves"
        elif self.reweight == "leaf":
            label += "-leaf"
        return label if self.indifference == "0" else f"{label}-i{self.indifference}"

    @property
    def score_label(self) -> str:
        """The score as results.csv names it; other bin counts than the paper's 4 are added."""
        return self.score if self.bins == 4 else f"{self.score}-b{self.bins}"

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns."""
        return (
            self.dataset,
            self.model,
            str(self.trees),
            str(self.depth),
            self.objective_label,
            self.score_label,
            str(self.seed),
            self.alpha,
        )


def train(model: str, trees: int, depth: int, seed: int, X: Any, y: Any) -> Any:
    """Train one of the ensembles of the paper."""
    options: dict[str, Any] = {} if model == "random-forest" else {"learning_rate": LEARNING_RATE}
    if model == "lightgbm":
        options["num_leaves"] = min(31, 2**depth)
    return fit(model, trees, X, y, seed=seed, max_depth=depth, **options)


def warm_up() -> None:
    """Import the solver and the rest once per process, so that no cell is charged for it."""
    from pine_boost import Domain, prune_booster

    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    model = train("xgboost", 5, 2, 0, X, y)
    prune_booster(model, X[:150], X[150:], alpha=0.2, domain=Domain(never_missing=True))


def alpha_of(label: str) -> float:
    """The number behind a label of the alpha column."""
    return 0.0 if label == FAITHFUL else float(label)


def run_cell(cell: Cell) -> list[dict[str, Any]]:
    """Run one cell; a list of one row, as the runner wants it."""
    return [measure_cell(cell)[0]]


def measure_cell(cell: Cell) -> tuple[dict[str, Any], float]:
    """Run one cell; its row, and the processor seconds of pruning (children's too)."""
    from pine_boost import prune_booster

    warm_up()
    table = data.load(cell.dataset, cell.folder)
    parts = data.split(table, cell.seed)
    model = train(cell.model, cell.trees, cell.depth, cell.seed, parts.X_fit, parts.y_fit)
    further: dict[str, Any] = {} if cell.unit == "leaf" else {"reweight": cell.reweight}
    # named only where it is chosen: earlier commits, which are compared with, do not know "auto"
    if cell.indifference != "0":
        further["indifference"] = indifference_of(cell.indifference)
    started, spent = time.perf_counter(), sum(os.times()[:4])
    result = prune_booster(
        model,
        parts.X_fit,
        parts.X_cal,
        alpha=alpha_of(cell.alpha),
        score=cell.score,
        n_bins=cell.bins,
        objective=cell.objective,
        unit=cell.unit,
        domain=table.domain(),
        time_limit=cell.time_limit,
        random_state=cell.seed,
        **further,
    )
    seconds, spent = time.perf_counter() - started, sum(os.times()[:4]) - spent
    return row_of(cell, result, result.evaluate(parts.X_test, parts.y_test), seconds), spent


def row_of(cell: Cell, result: Any, evaluation: Any, seconds: float) -> dict[str, Any]:
    """One line of results.csv."""
    labels = dict(zip(KEY_COLUMNS, cell.key, strict=True))
    measured = {
        "pruning_rate": percent(result.pruning_rate),
        "fidelity": percent(evaluation.fidelity),
        "fidelity_in_region": percent(evaluation.fidelity_in_region),
        "coverage": percent(evaluation.coverage.share),
        "accuracy_before": percent(evaluation.accuracy_before),
        "accuracy_after": percent(evaluation.accuracy_after),
        "time_s": f"{seconds:.3f}",
        "rounds": result.search.rounds,
        "lower_bound": result.certificate.lower_bound,
        "status": result.status,
        "leaf_pruning_rate": percent(leaves_removed(result)),
        **answer_times(result.search),
    }
    return {**labels, **measured}


def answer_times(search: Any) -> dict[str, str]:
    """Seconds until a model of the final size was proved once, twice, and to be the fewest.

    Empty where that never happened. The original itself needs no proof.
    """
    final = [moment for moment in search.history if moment.units <= search.n_kept]

    def first(seconds: list[float]) -> str:
        return f"{min(seconds):.3f}" if seconds else ""

    once = [at.seconds for at in final] if search.pruned is not None else [0.0]
    twice = [at.seconds for at in final if at.proofs > 1] if search.pruned is not None else [0.0]
    fewest = [at.seconds for at in final if at.lower_bound >= search.n_kept]
    return {"once_s": first(once), "twice_s": first(twice), "fewest_s": first(fewest)}


def leaves_removed(result: Any) -> float:
    """Share of the leaves that are gone, whatever was counted."""
    return 1 - float(result.certificate.leaves_after) / result.certificate.leaves_before


def indifference_of(label: str) -> float | str:
    """What `prune_booster` takes for a label: a share, or the word itself."""
    return label if label == "auto" else float(label)


def percent(share: float) -> str:
    """A share as percent with four decimals (one row of 38 474 is 0.0026 %)."""
    return f"{100 * share:.4f}"
