"""How small a model gets if only accuracy must be kept (python -m benchmarks.accuracy).

Every method may lose 0.5 % of accuracy on the validation rows; accuracy is measured on test rows. The methods named
"-style" are our own short versions of published ones, written from their papers:
LOP (Devos et al., ICML 2025): level by level, an L1 logistic regression scales and shifts every subtree.
ForestPrune (Liu, Mazumder 2023): every tree is cut at a depth of its own, chosen by coordinate descent.
"""

from __future__ import annotations

import argparse
import inspect
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import data
from benchmarks.cells import percent
from benchmarks.frames import markdown
from benchmarks.machine import record_run
from benchmarks.models import fit
from benchmarks.paper import add_data_options, add_run_options, check_data, listed
from benchmarks.runner import RESULTS, Job, read_rows, run_jobs

MAX_LOSS = 0.005
MODELS = ("xgboost-4", "xgboost-6", "xgboost-8", "random-forest")
KEY_COLUMNS = ("dataset", "model", "seed", "method")
COLUMNS = (
    *KEY_COLUMNS,
    *("leaves_before", "leaves_after", "leaves_kept", "val_before", "val_after", "test_before", "test_after"),
    *("n_val", "cpu_s", "status"),
)
_STRENGTHS = np.geomspace(1e-3, 3.0, 9)  # of the L1 penalty of LOP, strongest first
_LEVELS = 8  # of LOP
_ROWS = 8000  # fit rows of ForestPrune
_SIZES = ((1, 2, 3, 5, 8, 13, 20, 35, 60), (1, 2, 3, 4, 6, 8))  # trees and depths of retrained models


@dataclass(frozen=True)
class Cell:
    """A model on a split, and what makes it smaller."""

    dataset: str
    model: str
    seed: int
    method: str
    folder: str | None = None
    trees: int = 100

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns."""
        return (self.dataset, self.model, str(self.seed), self.method)


def train(model: str, seed: int, X: Any, y: Any, trees: int, depth: int | None = None) -> Any:
    """XGBoost of a depth or a random forest, one thread; ``depth`` instead of the model's own."""
    if model == "random-forest":
        return fit(model, trees, X, y, seed=seed, max_depth=depth)
    depth = depth or int(model.removeprefix("xgboost-"))
    return fit("xgboost", trees, X, y, seed=seed, max_depth=depth, learning_rate=0.1)


class Ensemble:
    """A model over the leaves of its trees, and the rows of a split."""

    def __init__(self, cell: Cell) -> None:
        from pine_boost.model.routing import route
        from pine_boost.model.shape import original_shape
        from pine_boost.model.states import build_space
        from pine_boost.model.trimming import forest_subtrees
        from pine_boost.parsers import read_model

        self.parts = data.split(data.load(cell.dataset, cell.folder, "dummies"), cell.seed)
        self.native = train(cell.model, cell.seed, self.parts.X_fit, self.parts.y_fit, cell.trees)
        self.cell, self.parsed = cell, read_model(self.native)
        self.forest = self.parsed.forest
        space = build_space(self.forest)
        trees = route(self.forest, space)
        self.fit, self.val, self.test = (
            trees.leaves(space.states(X.astype(np.float64)))
            for X in (self.parts.X_fit, self.parts.X_cal, self.parts.X_test)
        )
        self.subtrees = forest_subtrees(self.forest)
        self.original = original_shape(self.forest, self.subtrees)
        self.least = self.accuracy(self.original, "val") - MAX_LOSS

    def accuracy(self, shape: Any, part: str) -> float:
        """Accuracy of a shape on the validation or test rows."""
        from pine_boost.model.shape import margins

        leaves, y = (self.val, self.parts.y_cal) if part == "val" else (self.test, self.parts.y_test)
        return float(np.mean(self.forest.decision.classes(margins(shape, self.forest, leaves)) == y))

    def native_accuracies(self, model: Any) -> list[float]:
        """Accuracy of another model's ``predict`` on the validation and the test rows."""
        parts = self.parts
        rows = (parts.X_cal, parts.y_cal), (parts.X_test, parts.y_test)
        return [float(np.mean(model.predict(X) == y)) for X, y in rows]

    def leaves_of(self, shape: Any) -> int:
        """Leaves once equal neighbours are merged; constant trees need none."""
        subtrees = self.subtrees
        changes = np.concatenate([[0], np.cumsum((shape.value[1:] != shape.value[:-1]).any(axis=1))])
        constant = changes[subtrees.last - 1] == changes[subtrees.first]
        return int(np.count_nonzero(constant & (subtrees.parent >= 0) & ~constant[subtrees.parent]))

    def best(self, shapes: Iterator[Any]) -> Any:
        """The shape of fewest leaves that loses no more than is allowed on the validation rows."""
        passed = [shape for shape in shapes if self.accuracy(shape, "val") >= self.least]
        return min([*passed, self.original], key=self.leaves_of)


def by_path(ensemble: Ensemble) -> Any:
    """The path of compress_booster without its test."""
    from pine_boost.budget import Budget
    from pine_boost.compression.path import find_path, set_up
    from pine_boost.tables.rows import MemoryRows

    rows = MemoryRows(ensemble.parts.X_fit.astype(np.float64))
    task = set_up(ensemble.parsed, "leaves", rows, ensemble.cell.seed, Budget.of())
    candidates = find_path(task, 1.0, Budget.of()).best
    return ensemble.best(candidate.shape for candidate in candidates)


def by_slicing(ensemble: Ensemble) -> Any:
    """The first trees."""
    from pine_boost.compression.path import slices

    return ensemble.best(slices(ensemble.forest, ensemble.subtrees, ensemble.forest.n_trees))


def _depths(ensemble: Ensemble) -> npt.NDArray[np.int64]:
    depth = np.zeros(ensemble.forest.n_nodes, dtype=np.int64)
    for number, level in enumerate(ensemble.subtrees.levels):
        depth[level] = number
    return depth


def _cut_at(ensemble: Ensemble, level: int) -> npt.NDArray[np.int64]:
    """The node at which the path to each leaf ends if trees are cut at a level."""
    depth, node = _depths(ensemble), ensemble.subtrees.leaf_node.copy()
    while np.any(deeper := depth[node] > level):
        node[deeper] = ensemble.subtrees.parent[node[deeper]]
    return node


def by_depths(ensemble: Ensemble) -> Any:
    """ForestPrune-style: each tree at a depth of its own, the squared distance to the original's sums plus a price."""
    from pine_boost.model.shape import Shape

    leaves, original, subtrees = ensemble.fit[:_ROWS], ensemble.original, ensemble.subtrees
    n_levels = len(subtrees.levels)
    reach = np.bincount(ensemble.fit.ravel(), minlength=len(original.owner)) + 1e-3
    values, sizes = [], []
    for level in range(n_levels):
        owner = _cut_at(ensemble, level)
        weight = np.bincount(owner, reach, minlength=ensemble.forest.n_nodes)
        sums = [
            np.bincount(owner, reach * column, minlength=ensemble.forest.n_nodes)[owner] for column in original.value.T
        ]
        values.append(np.stack(sums, axis=1) / weight[owner][:, None])
        begins = np.concatenate([[True], owner[1:] != owner[:-1]])
        count = np.bincount(subtrees.leaf_tree, begins, minlength=ensemble.forest.n_trees)
        sizes.append(np.where(count > 1, count, 0.0))
    value, size = np.stack(values), np.stack(sizes)  # (levels, leaves, width), (levels, trees)
    scale = float(np.var(original.value[leaves].sum(axis=1), axis=0).sum()) / size[-1].sum()

    def pruned(price: float) -> Shape:
        chosen = np.full(ensemble.forest.n_trees, n_levels - 1)
        rest = np.zeros((len(leaves), original.value.shape[1]))  # what the cuts have taken away
        for _ in range(3):
            for tree in range(ensemble.forest.n_trees):
                moved = value[-1][leaves[:, tree]] - value[:, leaves[:, tree]]
                rest -= moved[chosen[tree]]
                loss = ((rest + moved) ** 2).sum(axis=2).mean(axis=1) + price * scale * size[:, tree]
                chosen[tree] = int(np.argmin(loss))
                rest += moved[chosen[tree]]
        shift = value[-1].copy()
        for level in range(n_levels):
            own = chosen[subtrees.leaf_tree] == level
            shift[own] = value[level][own]
        return Shape(original.owner, shift, original.intercept)

    return ensemble.best(pruned(price) for price in np.geomspace(1e-4, 30.0, 16))


def by_levels(ensemble: Ensemble) -> Any:
    """LOP-style: level by level, the strongest L1 penalty that keeps the accuracy; two classes only."""
    from pine_boost.model.shape import Shape

    forest, subtrees, original = ensemble.forest, ensemble.subtrees, ensemble.original
    if forest.n_outputs > 2:
        return None
    value = original.value[:, -1] - (original.value[:, 0] if forest.n_outputs > 1 else 0.0)

    def shape_of(value: Any, constant: float) -> Shape:
        """Sums above 0 are class 1, written in the forest's own outputs."""
        if forest.n_outputs == 1:
            intercept = np.array([constant + forest.decision.cuts[0]])
            return Shape(original.owner, value[:, None], intercept)
        return Shape(original.owner, np.stack([0 * value, value], axis=1), np.array([0.0, constant]))

    best = original
    for level in range(min(_LEVELS, len(subtrees.levels) - 1)):
        owner = _cut_at(ensemble, level)
        nodes, number = np.unique(owner, return_inverse=True)
        for strength in _STRENGTHS:
            shift, scaled, added = _fit_level(ensemble, value, number, len(nodes), strength)
            found = scaled[number] * value + shift[number]
            shape = shape_of(found, added)
            if ensemble.accuracy(shape, "val") >= ensemble.least:
                value, best = found, shape
                break
        if ensemble.leaves_of(best) == 0:
            break
    return best


def _fit_level(ensemble: Ensemble, value: Any, number: Any, n_nodes: int, strength: float) -> tuple[Any, Any, float]:
    """Shift and scale of every node of a level, and the intercept, by L1 logistic regression on the fit rows."""
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    leaves = ensemble.fit
    n_rows, n_trees = leaves.shape
    start, column = np.arange(n_rows + 1) * n_trees, number[leaves].ravel()
    size = (n_rows, n_nodes)
    inside = sparse.csr_matrix((np.ones(column.size), column, start), size)
    scaled = sparse.csr_matrix((value[leaves].ravel(), column, start), size)
    model = LogisticRegression(penalty="l1", C=strength, solver="liblinear", max_iter=60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, and of scikit-learn about the penalty's name
        model.fit(sparse.hstack([inside, scaled]).tocsr(), ensemble.parts.y_fit)
    found = model.coef_[0]
    return found[:n_nodes], found[n_nodes:], float(model.intercept_[0])


def by_retraining(ensemble: Ensemble) -> Any:
    """A model of the same kind with fewer or shallower trees."""
    from pine_boost.parsers import read_model

    cell, parts = ensemble.cell, ensemble.parts
    deepest = {"random-forest": 99}.get(cell.model) or int(cell.model.removeprefix("xgboost-"))
    found: list[tuple[int, float, float]] = []
    for trees, depth in product(*_SIZES):
        if depth <= deepest and trees <= cell.trees:
            model = train(cell.model, cell.seed, parts.X_fit, parts.y_fit, trees, depth)
            accuracies = ensemble.native_accuracies(model)
            if accuracies[0] >= ensemble.least:
                found.append((read_model(model).forest.n_leaves, *accuracies))
    return min(found, default=None)


def by_test(ensemble: Ensemble) -> Any:
    """compress_booster with labels: the only method with a promise about future accuracy."""
    from pine_boost import compress_booster

    parts: Any = ensemble.parts
    options: dict[str, Any] = {"y_val": parts.y_cal, "max_loss": MAX_LOSS, "minimize": "leaves"}
    result = compress_booster(
        ensemble.native, parts.X_fit, parts.X_cal, random_state=ensemble.cell.seed, verbose=False, **options
    )
    return (result.leaves_after, *ensemble.native_accuracies(result.model), result.status)


METHODS: dict[str, Callable[[Ensemble], Any]] = {
    "compress (no test)": by_path,
    "slicing": by_slicing,
    "retraining": by_retraining,
    "ForestPrune-style": by_depths,
    "LOP-style": by_levels,
    "compress (tested)": by_test,
}


def run_cell(cell: Cell) -> list[dict[str, Any]]:
    """Train, make smaller by one method, measure."""
    ensemble = Ensemble(cell)
    started = time.process_time()
    found = METHODS[cell.method](ensemble)
    cpu_s, status, original = time.process_time() - started, "", ensemble.original
    before = tuple(ensemble.accuracy(original, part) for part in ("val", "test"))
    if found is None:
        numbers, status = (ensemble.leaves_of(original), *before), "not applicable: the original"
    elif isinstance(found, tuple):
        numbers, status = found[:3], found[3] if len(found) > 3 else ""
    else:
        numbers = (ensemble.leaves_of(found), ensemble.accuracy(found, "val"), ensemble.accuracy(found, "test"))
    n_leaves = ensemble.leaves_of(original)
    return [
        {
            **dict(zip(KEY_COLUMNS, cell.key, strict=True)),
            "leaves_before": n_leaves,
            "leaves_after": numbers[0],
            "leaves_kept": percent(numbers[0] / n_leaves),
            "val_before": percent(before[0]),
            "val_after": percent(numbers[1]),
            "test_before": percent(before[1]),
            "test_after": percent(numbers[2]),
            "n_val": len(ensemble.val),
            "cpu_s": f"{cpu_s:.1f}",
            "status": status,
        }
    ]


def table(rows: list[dict[str, str]]) -> str:
    """Leaves kept and accuracy lost on test rows, by model and method; cells without an answer do not count."""
    lines = []
    for model, method in product(MODELS, METHODS):
        own = [row for row in rows if (row["model"], row["method"]) == (model, method)]
        if METHODS[method] is by_levels:  # two classes only
            own = [row for row in own if not row["status"]]
        if not own:
            continue
        kept = [float(row["leaves_kept"]) for row in own]
        lost = [float(row["test_before"]) - float(row["test_after"]) for row in own]
        spread = f"{np.median(kept):.1f} ({min(kept):.1f} to {max(kept):.1f})"
        lines.append((model, method, len(own), spread, f"{np.mean(lost):.2f}"))
    header = ("model", "method", "data sets", "leaves kept, %", "test accuracy lost, points (mean)")
    return markdown(header, lines)


def main(arguments: list[str] | None = None) -> int:
    """Run what is not in the file yet, then print the table."""
    from pine_boost import compress_booster

    has_test = "max_loss" in inspect.signature(compress_booster).parameters
    offered = [method for method in METHODS if has_test or METHODS[method] is not by_test]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--models", type=listed, default=list(MODELS), metavar="A,B")
    parser.add_argument("--methods", type=listed, default=offered, metavar="A,B")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS / "accuracy.csv")
    add_run_options(parser)
    parser.set_defaults(time_limit=600.0)
    options = parser.parse_args(arguments)
    check_data(options, parser)
    if arguments is None:
        record_run(options.out)
    cells = [
        Cell(dataset, model, seed, method, options.data, options.trees)
        for seed, dataset, model, method in product(  # an unfinished file has every kind of model on its data sets
            range(options.seeds), options.datasets, options.models, options.methods
        )
    ]
    failures = run_jobs(
        run_cell,
        [Job(cell.key, cell) for cell in cells],
        options.out,
        COLUMNS,
        KEY_COLUMNS,
        n_workers=options.jobs,
        hard_limit=options.time_limit,
    )
    print(table(read_rows(options.out)))
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
