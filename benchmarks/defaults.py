"""Compress models of default size (python -m benchmarks.defaults).

Reports the leaves removed for 99 % at 95 % confidence and the test fidelity, beside slicing, retraining and random
trees at the same number of leaves.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import data
from benchmarks.cells import percent
from benchmarks.machine import record_run
from benchmarks.paper import add_data_options, add_run_options, check_data, listed
from benchmarks.runner import RESULTS, Job, read_rows, run_jobs

KEY_COLUMNS = ("dataset", "model", "seed", "size")
COLUMNS = (
    *KEY_COLUMNS,
    "target",
    "n_val",
    "n_fresh",
    "trees_before",
    "trees_after",
    "leaves_before",
    "leaves_after",
    "leaves_gone",
    "changed",
    "bound",
    "fidelity",
    "slice_fidelity",
    "retrained_fidelity",
    "random_fidelity",
    "sliced_gone",
    "accuracy_before",
    "accuracy_after",
    "time_s",
    "cpu_s",
    "status",
)
MODELS = ("xgboost-0.1", "xgboost-0.3", "lightgbm", "histgb", "random-forest", "catboost")
LARGE_MODEL = "xgboost-500x8"  # 500 trees of depth 8; run when it is asked for
RETURNED, SHARES = "returned", (0.5, 0.25, 0.1)
FIDELITY, CONFIDENCE = 0.99, 0.95
LARGE = ("Adult", "COMPAS-ProPublica", "ELEC2", "FICO", "HTRU2", "JM1", "PoL", "Spambase")
FIRST = "xgboost-0.1"
MOST_ROUNDS = 200  # of a booster that is trained on the original's outputs


@dataclass(frozen=True)
class CompressionCell:
    """One model of the size people run, on one split."""

    dataset: str
    model: str
    seed: int
    folder: str | None = None
    time_limit: float = 300.0
    trees: int = 100

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns of its first line."""
        return (self.dataset, self.model, str(self.seed), RETURNED)


def train_default(model: str, seed: int, X: Any, y: Any, trees: int = 100) -> Any:
    """The libraries' own defaults, one thread; XGBoost at two learning rates, and a large one."""
    if model.startswith("xgboost-"):
        from xgboost import XGBClassifier

        trees, depth, rate = (
            (500, 8, 0.1) if model == LARGE_MODEL else (trees, 6, float(model.removeprefix("xgboost-")))
        )
        booster = XGBClassifier(
            n_estimators=trees, max_depth=depth, learning_rate=rate, random_state=seed, n_jobs=1, verbosity=0
        )
        return booster.fit(X, y)
    from benchmarks.large import train_default as train

    return train(model, trees, seed, X, y)


def run_compression(cell: CompressionCell) -> list[dict[str, Any]]:
    """Train, compress, measure on rows that nothing has seen."""
    from pine_boost import compress_booster
    from pine_boost.compression.fixed_sequence import highest_fidelity, lower_bound

    table = data.load(cell.dataset, cell.folder, "dummies")
    parts = data.split(table, cell.seed)
    model = train_default(cell.model, cell.seed, parts.X_fit, parts.y_fit, cell.trees)
    n_val = len(parts.X_cal)
    target = FIDELITY
    if lower_bound(0, n_val, CONFIDENCE) < target:  # a small data set: the highest that fits
        target = highest_fidelity(n_val, CONFIDENCE)
    started, started_cpu = time.perf_counter(), time.process_time()
    result = compress_booster(
        model,
        parts.X_fit,
        parts.X_cal,
        fidelity=target,
        minimize="leaves",
        confidence=CONFIDENCE,
        random_state=cell.seed,
        time_limit=cell.time_limit,
    )
    seconds, seconds_cpu = time.perf_counter() - started, time.process_time() - started_cpu
    baselines = Baselines(result.original, parts, cell.seed)
    record, leaves = result.record, result.leaves_after
    labels = {"dataset": cell.dataset, "model": cell.model, "seed": cell.seed}
    first = {
        **labels,
        "size": RETURNED,
        "target": f"{target:g}",
        "n_val": n_val,
        "n_fresh": len(parts.X_test),
        "trees_before": record.trees_before,
        "trees_after": record.trees_after,
        "leaves_before": record.leaves_before,
        "leaves_after": leaves,
        "leaves_gone": percent(result.compression_rate),
        "changed": record.n_changed,
        "bound": f"{record.bound:.6f}",
        "fidelity": percent(result.evaluate(parts.X_test)),
        **baselines.fidelities(leaves, parts.X_test),
        "sliced_gone": percent(baselines.sliced(parts.X_cal, target)),
        "accuracy_before": percent(float(np.mean(model.predict(parts.X_test) == parts.y_test))),
        "accuracy_after": percent(float(np.mean(result.model.predict(parts.X_test) == parts.y_test))),
        "time_s": f"{seconds:.1f}",
        "cpu_s": f"{seconds_cpu:.1f}",
        "status": result.status,
    }
    if cell.seed > 0:  # the curve is drawn once; it takes as long as the compression itself
        return [first]
    fresh = np.concatenate([parts.X_cal, parts.X_test])
    return [first, *({**labels, **line} for line in _curve(baselines, fresh))]


def _curve(baselines: Baselines, fresh: Any) -> Iterator[dict[str, Any]]:
    """The path at given shares of the leaves, beside the other ways there."""
    n_before = baselines.original.n_leaves
    for share, shape in baselines.path().items():
        yield {
            "size": f"{100 * share:g}",
            "n_fresh": len(fresh),
            "leaves_before": n_before,
            "leaves_after": shape.n_leaves,
            "leaves_gone": percent(1 - shape.n_leaves / n_before),
            "fidelity": percent(baselines.fidelity_of(shape, fresh)),
            **baselines.fidelities(int(share * n_before), fresh),  # ours may be smaller
        }


class Baselines:
    """Other ways to the same number of leaves, and the path itself at given sizes."""

    def __init__(self, parsed: Any, parts: data.Split, seed: int, depth: int = 6) -> None:
        from pine_boost.compression.goal import Goal
        from pine_boost.compression.shape import original_shape
        from pine_boost.model.routing import route
        from pine_boost.model.states import build_space
        from pine_boost.model.trimming import forest_subtrees

        self.goal = Goal(parsed.forest)
        self.parts, self.seed, self.depth = parts, seed, depth
        self.space = build_space(parsed.forest)
        self.trees = route(parsed.forest, self.space)
        self.subtrees = forest_subtrees(parsed.forest)
        self.original = original_shape(parsed.forest, self.subtrees)
        self.leaves_of_tree = np.diff(self.trees.leaf_offset)

    def path(self, shares: Sequence[float] = SHARES) -> dict[float, Any]:
        """The largest shapes with at most these shares that the product may choose."""
        from pine_boost.budget import Budget
        from pine_boost.compression.path import find_path, set_up
        from pine_boost.compression.validation import undominated
        from pine_boost.tables.rows import MemoryRows

        fit = MemoryRows(self.parts.X_fit.astype(np.float64))
        task = set_up(self.goal, "leaves", fit, self.seed, Budget.of())
        candidates, _ = find_path(task, 1.0, Budget.of(), self.goal.forest)
        found: dict[float, Any] = {}
        for candidate in undominated(candidates):  # largest first
            for share in shares:
                if share not in found and candidate.cost <= share * self.original.n_leaves:
                    found[share] = candidate.shape
        return found

    def fidelity_of(self, shape: Any, X: Any) -> float:
        """Share of rows with the original's class."""
        return float(np.mean(self._classes(shape, X) == self._classes(self.original, X)))

    def fidelities(self, n_leaves: int, X: Any) -> dict[str, str]:
        """Slicing, retraining and random trees with at most so many leaves."""
        before = self._classes(self.original, X)
        return {
            "slice_fidelity": percent(self.fidelity_of(self._sliced_to(n_leaves), X)),
            "retrained_fidelity": percent(float(np.mean(self._retrained(n_leaves, X) == before))),
            "random_fidelity": percent(self.fidelity_of(self._random_to(n_leaves), X)),
        }

    def sliced(self, X_val: Any, target: float) -> float:
        """Share of the leaves that slicing alone loses by the same test, from the largest down."""
        from pine_boost.compression.fixed_sequence import allowed, in_order
        from pine_boost.compression.path import slices

        shapes = list(slices(self.goal.forest, self.subtrees, 1000))
        before = self._classes(self.original, X_val)
        counts = (int(np.sum(self._classes(shape, X_val) != before)) for shape in shapes)
        most = allowed(len(X_val), target, CONFIDENCE)
        tested = list(in_order(counts, len(X_val), CONFIDENCE, (most,)))
        passed = [s for s, test in zip(shapes, tested, strict=False) if test.accepted]
        n_leaves = passed[-1].n_leaves if passed else self.original.n_leaves
        return 1 - n_leaves / self.original.n_leaves

    def _margins(self, shape: Any, X: Any) -> Any:
        from pine_boost.compression.shape import margins

        leaves = self.trees.leaves(self.space.states(X.astype(np.float64)))
        return margins(shape, self.goal.forest, leaves)

    def _classes(self, shape: Any, X: Any) -> npt.NDArray[np.int64]:
        return self.goal.forest.decision.classes(self._margins(shape, X))

    def _sliced_to(self, n_leaves: int) -> Any:
        from pine_boost.compression.shape import slice_shape

        rounds = self.goal.forest.tree_round
        of_round = np.cumsum(np.bincount(rounds, weights=self.leaves_of_tree))
        n_rounds = max(1, int(np.searchsorted(of_round, n_leaves, side="right")))
        return slice_shape(self.goal.forest, self.subtrees, n_rounds)

    def _random_to(self, n_leaves: int) -> Any:
        from pine_boost.compression.shape import GONE, Shape

        original, subtrees = self.original, self.subtrees
        order = np.random.default_rng(self.seed).permutation(len(self.leaves_of_tree))
        n_kept = max(1, int(np.searchsorted(np.cumsum(self.leaves_of_tree[order]), n_leaves, "right")))
        kept = np.isin(subtrees.leaf_tree, order[:n_kept])
        scale = len(order) / n_kept  # dropped trees would only shift the sum
        value = np.where(kept[:, None], scale * original.value, 0.0)
        return Shape(np.where(kept, original.owner, GONE), value, original.intercept)

    def _retrained(self, n_leaves: int, X: Any) -> npt.NDArray[np.int64]:
        """A new XGBoost on the original's outputs: its first rounds with at most so many leaves."""
        import xgboost

        fit = self.parts.X_fit
        values = self._margins(self.original, fit)
        classes = self.goal.forest.decision.classes(values)
        if values.shape[1] == 1:
            parameters = {"objective": "reg:squarederror"}
            target = values[:, 0] - self.goal.forest.decision.cuts[0]
        elif values.shape[1] == 2:
            parameters = {"objective": "reg:squarederror"}
            target = values[:, 1] - values[:, 0]
        else:
            parameters = {"objective": "multi:softprob", "num_class": values.shape[1]}
            target = classes
        parameters |= {"max_depth": self.depth, "eta": 0.3, "nthread": 1, "base_score": 0.0}
        train = xgboost.DMatrix(fit, target, nthread=1)
        n_outputs = parameters.get("num_class", 1)
        per_round = min(40, 2**self.depth) * int(n_outputs)
        booster, n_rounds, counts = None, 0, [0]
        while sum(counts) < n_leaves and n_rounds < MOST_ROUNDS:  # as few rounds as it takes
            n_more = max(2, (n_leaves - sum(counts)) // per_round)
            n_rounds += n_more
            booster = xgboost.train(parameters, train, num_boost_round=n_more, xgb_model=booster)
            counts = [tree.count("leaf=") for tree in booster.get_dump()]
        assert booster is not None
        of_round = np.cumsum(np.array(counts).reshape(-1, int(n_outputs)).sum(axis=1))
        n_first = max(1, int(np.searchsorted(of_round, n_leaves, side="right")))
        predicted = booster.predict(xgboost.DMatrix(X, nthread=1), iteration_range=(0, min(n_first, len(of_round))))
        if predicted.ndim == 2:
            return np.asarray(predicted.argmax(axis=1))
        return (predicted > 0).astype(np.int64)


def cells_of(options: argparse.Namespace) -> list[CompressionCell]:
    """All cells, those of the stated target first."""
    cells = [
        CompressionCell(dataset, model, seed, options.data, options.time_limit, options.trees)
        for model in options.models
        for seed in range(options.seeds)
        for dataset in options.datasets
    ]
    return sorted(cells, key=_urgency)


def _urgency(cell: CompressionCell) -> tuple[int, ...]:
    if cell.model == FIRST and cell.dataset in LARGE:
        return (int(cell.seed > 1), 0, cell.seed)
    return (int(cell.seed > 0), 1, cell.seed)


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Markdown: one line per data set and model, means over the seeds."""
    groups: dict[tuple[str, str], list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        if row["size"] == RETURNED:
            groups[row["model"], row["dataset"]].append(row)
    lines = [
        "| model | data set | seeds | target | leaves gone % | slicing by the same test % | "
        "test fidelity % | slice, same leaves | retrained | random trees | time s | of them CPU |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    columns = (
        "leaves_gone",
        "sliced_gone",
        "fidelity",
        "slice_fidelity",
        "retrained_fidelity",
        "random_fidelity",
        "time_s",
        "cpu_s",
    )
    for (model, dataset), found in sorted(groups.items()):
        means = [f"{np.mean([float(row[c]) for row in found]):.2f}" for c in columns]
        lines.append(f"| {model} | {dataset} | {len(found)} | {found[0]['target']} | " + " | ".join(means) + " |")
    return "\n".join(lines)


def reached(rows: Sequence[Mapping[str, str]]) -> str:
    """The targets and what came of them, for XGBoost at learning rate 0.1."""
    found = [row for row in rows if row["model"] == FIRST and row["dataset"] in LARGE and row["size"] == RETURNED]
    if not found:
        return "No line of XGBoost at learning rate 0.1 on the eight larger data sets yet."
    gone = {
        name: np.mean([float(row["leaves_gone"]) for row in found if row["dataset"] == name])
        for name in LARGE
        if any(row["dataset"] == name for row in found)
    }
    low = [
        f"{row['dataset']} seed {row['seed']}: {row['fidelity']} %"
        for row in found
        if float(row["fidelity"]) < 99 - 200 * np.sqrt(0.01 * 0.99 / int(row["n_fresh"]))
    ]
    least = min(gone, key=lambda name: gone[name])
    slowest, busiest = (max(float(row[c]) for row in found) for c in ("time_s", "cpu_s"))
    return "\n".join(
        [
            f"{len(found)} lines, {len(gone)} data sets: {np.mean(list(gone.values())):.1f} % of the "
            f"leaves gone in the mean (to reach: 55), least {least} {gone[least]:.1f} % (15), "
            + ", ".join(f"{name} {gone[name]:.1f} % (80)" for name in ("COMPAS-ProPublica", "HTRU2") if name in gone)
            + ".",
            f"Test fidelity below 99 % by more than two binomial errors: {'; '.join(low) or 'none'}.",
            f"Slowest run {slowest:.0f} s, {busiest:.0f} s of one core (60).",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Run what is not in the file yet, then print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--models", type=listed, default=list(MODELS), metavar="A,B")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=100, help="the libraries' default is 100")
    parser.add_argument("--table", action="store_true", help="print the table, run nothing")
    parser.add_argument("--memory-limit", type=float, default=4.0, help="gigabytes per process")
    parser.add_argument("--out", type=Path, default=RESULTS / "defaults.csv")
    add_run_options(parser)
    parser.set_defaults(time_limit=300.0)  # a busy machine must not change what is found
    options = parser.parse_args(arguments)
    failures = 0
    if not options.table:
        check_data(options, parser)
        if arguments is None:
            record_run(options.out)
        cells = cells_of(options)
        failures = run_jobs(
            run_compression,
            [Job(cell.key, cell) for cell in cells],
            options.out,
            COLUMNS,
            KEY_COLUMNS,
            n_workers=options.jobs,
            hard_limit=4 * options.time_limit + 300,
            memory_limit=options.memory_limit,
        )
    rows = read_rows(options.out)
    print(table(rows))
    print(reached(rows))
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
