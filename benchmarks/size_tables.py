"""Default-sized models: proved, proved without undecided inputs, and validated, side by side.

A model that was refused or not proved counts as nothing removed.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median

from benchmarks.compression import RETURNED
from benchmarks.frames import Rows, markdown, mean, number, texts, where
from benchmarks.runner import read_rows

# name, model of large.csv, model of defaults.csv
LIBRARIES = (
    ("XGBoost, learning rate 0.1", "xgboost-0.1", "xgboost-0.1"),
    ("XGBoost", "xgboost", "xgboost-0.3"),
    ("LightGBM", "lightgbm", "lightgbm"),
    ("HistGradientBoosting", "histgb", "histgb"),
    ("RandomForest", "random-forest", "random-forest"),
)
FITS = ("training", "unseen")
AUTO = "auto"


def read_proved(folder: Path) -> Rows:
    """Lines of large.csv; those from before the choice of fit used unseen rows."""
    return [{"fit": "unseen", **row} for row in read_rows(folder / "large.csv")]


def read_validated(folder: Path) -> Rows:
    """Lines of defaults.csv about what compress_booster returned."""
    return where(read_rows(folder / "defaults.csv"), size=RETURNED)


def _questions(proved: Rows) -> list[tuple[str, str]]:
    """Pairs of fit and indifference that were run: training rows first, 0 first."""
    found = {(row["fit"], row["indifference"]) for row in proved}
    return sorted(found, key=lambda pair: (FITS.index(pair[0]), pair[1] == AUTO, pair[1]))


def _heading(fit: str, indifference: str) -> str:
    given_up = "" if indifference == "0" else f", indifference {indifference}"
    return f"proved{given_up}, region of {fit} rows"


def default_sizes(folder: Path) -> str:
    """One line per library: leaves removed %, means over data sets and seeds."""
    proved, validated = read_proved(folder), read_validated(folder)
    questions = _questions(proved)
    lines = []
    for name, large, default in LIBRARIES:
        ours = where(validated, model=default)
        cells = [_proved_in_short(where(proved, model=large, fit=f, indifference=i)) for f, i in questions]
        if not ours and set(cells) <= {"-"}:
            continue
        n_models = f"{len(ours)} on {len(texts(ours, 'dataset'))} data sets" if ours else "-"
        lines.append(
            (
                name,
                *cells,
                number(mean(ours, "leaves_gone")),
                n_models,
                number(mean(ours, "fidelity"), 2),
                number(mean(ours, "sliced_gone")),
            )
        )
    header = (
        "100 trees",
        *(_heading(*question) for question in questions),
        "validated",
        "models",
        "test fidelity %",
        "slicing by the same test",
    )
    return markdown(header, lines) if lines else ""


def _proved_in_short(rows: Rows) -> str:
    if not rows:
        return "-"
    smaller = sum(row["status"] == "CERTIFIED" and float(row["pruning_rate"]) > 0 for row in rows)
    removed = [float(row["leaf_pruning_rate"] or 0) for row in rows]
    return f"{sum(removed) / len(rows):.1f} ({smaller} of {len(rows)} smaller)"


def at_default_size(folder: Path, leaves_per_tree: float) -> dict[str, int]:
    """The figures of `claims.AT_DEFAULT_SIZE`: models whose trees have so many leaves or more."""
    large = [
        row
        for row in where(read_proved(folder), fit="training")
        if row["trees"] and int(row["leaves"]) >= leaves_per_tree * int(row["trees"])
    ]
    plain, auto = (
        [float(row["pruning_rate"] or 0) for row in where(large, indifference=share)] for share in ("0", AUTO)
    )
    return {
        "models": len(plain),
        "smaller": sum(rate > 0 for rate in plain),
        "median_auto": math.ceil(median(auto)),
        "least_auto": math.floor(min(auto)),
        "most_auto": math.ceil(max(auto)),
    }


def library_sections(folder: Path) -> list[tuple[str, str]]:
    """A table per library: data set by data set."""
    return [
        (f"Default sizes: {name} (leaves removed %)", library_table(folder, default)) for name, _, default in LIBRARIES
    ]


def library_table(folder: Path, model: str) -> str:
    """The table of the library with this model in defaults.csv."""
    (large,) = [large for _, large, default in LIBRARIES if default == model]
    return _library(where(read_proved(folder), model=large), where(read_validated(folder), model=model))


def _library(proved: Rows, validated: Rows) -> str:
    questions = _questions(proved)
    lines = []
    for dataset in dict.fromkeys([*texts(proved, "dataset"), *texts(validated, "dataset")]):
        ours = where(validated, dataset=dataset)
        cells = [
            _outcome(where(proved, dataset=dataset, fit=fit, indifference=indifference))
            for fit, indifference in questions
        ]
        lines.append(
            (
                dataset,
                *cells,
                len(ours) or "-",
                number(mean(ours, "leaves_gone")),
                number(mean(ours, "fidelity"), 2),
                number(mean(ours, "sliced_gone")),
                number(mean(ours, "slice_fidelity"), 2),
                number(mean(ours, "retrained_fidelity"), 2),
            )
        )
    header = (
        "data set",
        *(_heading(*question) for question in questions),
        "seeds",
        "validated",
        "test fidelity %",
        "slicing by the same test",
        "fidelity of a slice of our size %",
        "retrained to our size %",
    )
    return markdown(header, lines) if lines else ""


def _outcome(rows: Rows) -> str:
    """Leaves removed, or why there are none."""
    if not rows:
        return "-"
    if any(row["status"].startswith(("REFUSED", "FAILED")) for row in rows):
        return "refused"
    if any(row["status"] != "CERTIFIED" for row in rows):
        return "no proof in time"
    return number(mean(rows, "leaf_pruning_rate"))
