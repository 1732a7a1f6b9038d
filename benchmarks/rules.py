"""Pruning rules without a guarantee at the sizes that ours reached (python -m benchmarks.rules).

In come results of benchmarks.paper (how many rounds were kept in every cell); out goes one line per
cell and rule. `--as-published` measures as the paper did instead: its sizes, no intercept.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.cells import alpha_of, percent, train
from benchmarks.machine import record_run
from benchmarks.paper import add_data_options
from benchmarks.pruning_rules import DEPARTURES, RULES, Members
from benchmarks.pruning_rules.heuristics import heuristic_orders
from benchmarks.published import ALPHA_ORDER, paper_l0
from benchmarks.rounds import IntArray, Rounds, rounds_of
from benchmarks.runner import RESULTS, Job, read_rows, run_jobs

KEY_COLUMNS = ("dataset", "model", "trees", "depth", "seed")
COLUMNS = (*KEY_COLUMNS, "alpha", "method", "kept", "pruning_rate", "fidelity", "fidelity_in_region", "accuracy")
PUBLISHED_COLUMNS = (*KEY_COLUMNS, "method", "source", "fidelity")
DEPTHS = ("2", "4")
SOURCES = (RESULTS / "paper_l0.csv", RESULTS / "depth.csv")


@dataclass(frozen=True)
class Sizes:
    """One trained model and how many rounds are to be kept at each alpha."""

    dataset: str
    model: str
    trees: int
    depth: int
    seed: int
    kept: tuple[tuple[str, int], ...]
    folder: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns."""
        return (self.dataset, self.model, str(self.trees), str(self.depth), str(self.seed))


def sizes_of(rows: list[dict[str, str]], folder: str | None) -> list[Sizes]:
    """Group the cells of results files by their model."""
    kept: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for row in rows:
        if row["objective"] == "l0" and row["score"] == "chow-liu" and row["model"] == "xgboost":
            count = round(int(row["trees"]) * (1 - float(row["pruning_rate"]) / 100))
            key = tuple(row[c] for c in KEY_COLUMNS)
            kept.setdefault(key, []).append((row["alpha"], count))
    return [
        Sizes(key[0], key[1], int(key[2]), int(key[3]), int(key[4]), tuple(counts), folder)
        for key, counts in kept.items()
    ]


def published_sizes(sizes: Sizes) -> Sizes:
    """The paper's mean sizes, its six alphas; the nearest whole number of rounds."""
    paper = paper_l0()
    kept = []
    for alpha in ALPHA_ORDER[1:]:
        rate = paper[sizes.dataset, alpha, "pruning_rate"][0]
        kept.append((alpha, max(1, round(sizes.trees * (1 - rate / 100)))))
    return replace(sizes, kept=tuple(kept))


@dataclass(frozen=True, eq=False)
class Trained:
    """A model of the experiment with the rows that rules and judges see."""

    parts: data.Split
    native: Any
    parsed: Any
    table: data.Table

    @classmethod
    def of(cls, sizes: Sizes) -> Trained:
        """Train it as benchmarks.paper does."""
        from pine_boost.parsers import read_model

        table = data.load(sizes.dataset, sizes.folder)
        parts = data.split(table, sizes.seed)
        native = train(sizes.model, sizes.trees, sizes.depth, sizes.seed, parts.X_fit, parts.y_fit)
        return cls(parts, native, read_model(native), table)

    def members(self, *, with_intercept: bool) -> Members:
        """What a rule sees: the rounds on the fit rows, with their labels."""
        rounds = rounds_of(self.parsed.forest, self.parts.X_fit)
        intercept = Rounds(rounds.intercept[None, None], rounds.intercept).scores()[0, 0]
        return Members(rounds.scores(), self.parts.y_fit, intercept if with_intercept else 0.0)


def compare(sizes: Sizes) -> list[dict[str, Any]]:
    """Fidelity of every rule at every size, on the test rows, as the native model decides."""
    from pine_boost.region.fitting import fit_region

    trained = Trained.of(sizes)
    parts, forest = trained.parts, trained.parsed.forest
    members = trained.members(with_intercept=True)
    orders = heuristic_orders(trained.parsed)
    test, before = rounds_of(forest, parts.X_test), trained.native.predict(parts.X_test)
    found: dict[tuple[str, int], IntArray] = {}
    rows = []
    for alpha, kept in sizes.kept:
        region = fit_region(forest, parts.X_fit, parts.X_cal, alpha=alpha_of(alpha), domain=trained.table.domain())
        inside = region.contains(parts.X_test)
        for method in (*RULES, *orders):
            if (method, kept) not in found:  # several alphas often keep as many
                choose = RULES.get(method)
                found[method, kept] = choose(members, kept) if choose else orders[method][:kept]
            after = test.predict(found[method, kept])
            same = after == before
            rows.append(
                {
                    **dict(zip(KEY_COLUMNS, sizes.key, strict=True)),
                    "alpha": alpha,
                    "method": method,
                    "kept": kept,
                    "pruning_rate": percent(1 - kept / sizes.trees),
                    "fidelity": percent(same.mean()),
                    "fidelity_in_region": percent(same[inside].mean() if inside.any() else np.nan),
                    "accuracy": percent((after == parts.y_test).mean()),
                }
            )
    return rows


def compare_as_published(sizes: Sizes) -> list[dict[str, Any]]:
    """Mean fidelity over the paper's six alphas and sizes, without intercept before and after."""
    trained = Trained.of(sizes)
    members = trained.members(with_intercept=False)
    with_intercept = rounds_of(trained.parsed.forest, trained.parts.X_test)
    test = Rounds(with_intercept.margins, np.zeros_like(with_intercept.intercept))
    before = test.predict(np.arange(test.n_rounds))
    orders = heuristic_orders(trained.parsed)
    rules = [("paper", name, rule) for name, rule in RULES.items()]
    rules += [("library", name, rule) for name, rule in DEPARTURES.items()]
    rules += [("heuristic", name, lambda _, kept, order=order: order[:kept]) for name, order in orders.items()]
    rows = []
    for source, name, rule in rules:
        chosen = {kept: test.predict(rule(members, kept)) for _, kept in sizes.kept}
        same = [(chosen[kept] == before).mean() for _, kept in sizes.kept]
        labels = dict(zip(KEY_COLUMNS, sizes.key, strict=True))
        rows.append({**labels, "method": name, "source": source, "fidelity": percent(float(np.mean(same)))})
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--results", type=Path, nargs="+", default=list(SOURCES), metavar="CSV")
    parser.add_argument("--as-published", action="store_true")
    parser.add_argument("--out", type=Path, help="default: rules.csv or rules_published.csv")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    rows = [row for path in options.results for row in read_rows(path)]
    rows = [
        row for row in rows if row["dataset"] in options.datasets and row["trees"] == "30" and row["depth"] in DEPTHS
    ]
    sizes = sizes_of(rows, options.data)
    if options.as_published:
        paper = {key[0] for key in paper_l0()}
        sizes = [published_sizes(s) for s in sizes if s.depth == 2 and s.dataset in paper]
    if not sizes:
        parser.error("no cells in --results; run python -m benchmarks.paper first.")
    out = options.out or RESULTS / ("rules_published.csv" if options.as_published else "rules.csv")
    if arguments is None:
        record_run(out)
    function = compare_as_published if options.as_published else compare
    columns = PUBLISHED_COLUMNS if options.as_published else COLUMNS
    jobs = [Job(s.key, s) for s in sizes]
    failures = run_jobs(function, jobs, out, columns, KEY_COLUMNS, n_workers=options.jobs)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
