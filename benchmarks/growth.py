"""Time and memory against the size of the problem (python -m benchmarks.growth).

Every size runs in a process of its own on generated data. Running out of time is an answer, not an error.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import train, warm_up
from benchmarks.data import ROOT
from benchmarks.frames import texts, where
from benchmarks.machine import record_run
from benchmarks.measuring import Measured, measured, run_child, say
from benchmarks.paper import listed
from benchmarks.runner import RESULTS, Job, read_rows, run_jobs

FIGURE = ROOT / "docs" / "growth.svg"
STYLES = {"prune": "o-", "compress": "s-", "verify": "^--", "contains": "d:"}
MEASURES = {"seconds": "seconds", "peak_mb": "megabytes added"}


def draw(results: Path, figure_path: Path = FIGURE) -> Path:
    """One column per axis, seconds above, memory below, both logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "pine_boost"  # the same file from the same numbers
    import matplotlib.pyplot as plt

    rows = read_rows(results)
    axes = texts(rows, "axis")
    figure, panels = plt.subplots(2, len(axes), figsize=(2.7 * len(axes), 5), squeeze=False)
    for column, axis in enumerate(axes):
        for line, (measure, label) in enumerate(MEASURES.items()):
            panel = panels[line][column]
            for step, style in STYLES.items():
                here = [row for row in where(rows, axis=axis, step=step) if row[measure] and float(row[measure]) > 0]
                here.sort(key=lambda row: int(row["size"]))
                x = [int(row["size"]) for row in here]
                panel.plot(x, [float(row[measure]) for row in here], style, ms=3, lw=1, label=step)
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_xlabel(axis, fontsize=8)
            panel.tick_params(labelsize=7)
            if column == 0:
                panel.set_ylabel(label, fontsize=8)
    limits = texts(rows, "time_limit")
    panels[0][0].legend(fontsize=6, title=f"time_limit {limits[0]} s" if limits else None)
    figure.tight_layout()
    figure_path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(figure_path, metadata={"Date": None})
    plt.close(figure)
    return figure_path


AXES = {
    "trees": (10, 30, 100, 200, 500),
    "depth": (2, 3, 4, 6, 8),
    "features": (5, 20, 50, 100, 200),
    "rows": (1_000, 10_000, 100_000, 1_000_000),
    "classes": (2, 3, 5, 10, 20),
}
# a statistic takes models on which no proof ends
FURTHER = {"trees": (1000,), "depth": (10,), "features": (500,)}
ALPHA = 0.1
COMPRESS_LIMIT = 60.0  # what a compression may take; a shorter limit would hide how it grows
FIDELITY = 0.99  # of a compression, or the highest below it that the rows can carry
LEVELS = 8
CALLS = ("prune", "compress")  # contains and verify are measured after prune
KEY_COLUMNS = ("axis", "size", "call")
COLUMNS = (
    *KEY_COLUMNS,
    "trees",
    "depth",
    "features",
    "rows",
    "classes",
    "step",
    "time_limit",
    "seconds",
    "cpu_s",
    "peak_mb",
    "size_before",
    "size_after",
    "unit",
    "answer",
)


@dataclass(frozen=True)
class Size:
    """A model and its data; the defaults are what an axis leaves alone."""

    axis: str
    call: str = "prune"
    trees: int = 30
    depth: int = 3
    features: int = 10
    rows: int = 10_000
    classes: int = 2
    time_limit: float = 10.0

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns."""
        return (self.axis, str(getattr(self, self.axis)), self.call)


def sizes_of(axes: list[str], calls: list[str], time_limit: float) -> list[Size]:
    """One size per step of each axis, for each call; a compression ends by itself, or at 60 s."""
    limits = {"compress": max(time_limit, COMPRESS_LIMIT)}
    return [
        replace(Size(axis, call, time_limit=limits.get(call, time_limit)), **{axis: value})
        for call in calls
        for axis in axes
        for value in AXES[axis] + (FURTHER.get(axis, ()) if call == "compress" else ())
    ]


def known_calls() -> list[str]:
    """Those that this version of pine_boost has."""
    import pine_boost

    return [call for call in CALLS if hasattr(pine_boost, f"{call}_booster")]


def generate(size: Size) -> tuple[Any, Any]:
    """Whole numbers of 0 to 8, as in a questionnaire, and one measured number; five matter.

    Few values make splits repeat, so that there is something to prune and something to prove.
    """
    random = np.random.default_rng(0)
    half = LEVELS / 2
    Z = random.normal(size=(size.rows, size.features)) * half / 2
    whole = np.arange(size.features) != 1  # a measured number: no two rows are the same
    Z[:, whole] = np.round(Z[:, whole]).clip(-half, half)
    signal = Z[:, 0] + 0.7 * Z[:, 1] + (Z[:, 2] > 0) * Z[:, 3] + half / 2 * (Z[:, 4] > 1)
    signal += random.normal(scale=0.3 * half / 2, size=size.rows)
    cuts = np.quantile(signal, np.arange(1, size.classes) / size.classes)
    return (Z + half).astype(np.float32), np.searchsorted(cuts, signal)


def run_steps(size: Size) -> list[dict[str, Any]]:
    """Body of the child: one call on one model, and after prune contains and verify."""
    import pine_boost

    X, y = generate(size)
    n_fit = int(0.8 * len(X))
    native = train("xgboost", size.trees, size.depth, 0, X[:n_fit], y[:n_fit])
    warm_up()
    options = {"alpha": ALPHA}
    if size.call == "compress":
        from pine_boost.compression.fixed_sequence import highest_fidelity

        options = {"fidelity": min(FIDELITY, highest_fidelity(len(X) - n_fit, 0.95))}
    function = getattr(pine_boost, f"{size.call}_booster")
    call = partial(function, native, X[:n_fit], X[n_fit:], time_limit=size.time_limit, **options)
    try:
        run = measured(call)
    except pine_boost.PineBoostError as error:
        answer = f"REFUSED {type(error).__name__}: {error}".splitlines()[0]
        return [_row(size, size.call, None, answer)]
    result = run.answer
    if size.call == "compress":
        sizes = {"size_before": result.leaves_before, "size_after": result.leaves_after}
        return [{**_row(size, "compress", run, result.status), **sizes, "unit": "leaves"}]
    certificate = result.certificate
    sizes = {"size_before": certificate.units_before, "size_after": certificate.units_kept}
    first = {**_row(size, "prune", run, result.status), **sizes, "unit": "rounds"}
    return [first, *_after_prune(pine_boost, native, result, X, size)]


def _row(size: Size, step: str, run: Measured[Any] | None, answer: str) -> dict[str, Any]:
    return {
        "axis": size.axis,
        "size": getattr(size, size.axis),
        "call": size.call,
        "trees": size.trees,
        "depth": size.depth,
        "features": size.features,
        "rows": size.rows,
        "classes": size.classes,
        "step": step,
        "time_limit": size.time_limit,
        "seconds": f"{run.seconds:.6f}" if run else "",
        "cpu_s": f"{run.cpu_s:.2f}" if run else "",
        "peak_mb": f"{run.peak_mb:.1f}" if run else "",
        "answer": answer,
    }


def _after_prune(pine_boost: Any, native: Any, result: Any, X: Any, size: Size) -> list[dict[str, Any]]:
    """Contains on all rows, and verify where there is something to verify."""
    run = measured(lambda: result.region.contains(X))
    answer = f"{len(X) / run.seconds:.0f} rows/s, {run.answer.mean():.1%} inside"
    rows = [_row(size, "contains", run, answer)]
    if result.status == "CERTIFIED":
        run = measured(
            lambda: pine_boost.verify(
                native, result.model, result.region, result.certificate, time_limit=size.time_limit
            )
        )
        answer = {True: "agrees", False: "differs", None: "out of time"}[run.answer.agrees]
        rows.append(_row(size, "verify", run, answer))
    return rows


def run_size(size: Size) -> list[dict[str, Any]]:
    """One size in a process of its own."""
    said, _ = run_child("benchmarks.growth", asdict(size), hard_limit=20 * size.time_limit + 300)
    return list(said)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--axes", type=listed, default=list(AXES), metavar="A,B")
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds per step")
    parser.add_argument("--out", type=Path, default=RESULTS / "growth.csv")
    parser.add_argument("--draw", action="store_true", help="only draw docs/growth.svg")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.cell:
        say(run_steps(Size(**json.loads(options.cell))))
        return 0
    unknown = [axis for axis in options.axes if axis not in AXES]
    if unknown:
        parser.error(f"--axes {unknown[0]}: accepted are {', '.join(AXES)}")
    failures = 0
    if not options.draw:
        if arguments is None:
            record_run(options.out)
        sizes = sizes_of(options.axes, known_calls(), options.time_limit)
        jobs = [Job(size.key, size) for size in sizes]
        failures = run_jobs(run_size, jobs, options.out, COLUMNS, KEY_COLUMNS, n_workers=0)
    if options.out.exists() and arguments is None:
        from benchmarks.growth import draw

        print(f"wrote {draw(options.out)}")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
