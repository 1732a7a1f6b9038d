"""Default-sized models: proved, proved without undecided inputs, and validated, side by side.

A model that was refused or not proved counts as nothing removed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.frames import Rows, markdown, mean, number, table, texts, where
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


def _questions(proved: Rows) -> list[tuple[str, str]]:
    """Pairs of fit and indifference that were run: training rows first, 0 first."""
    found = {(row["fit"], row["indifference"]) for row in proved}
    return sorted(found, key=lambda pair: (FITS.index(pair[0]), pair[1] == AUTO, pair[1]))


def _heading(fit: str, indifference: str) -> str:
    given_up = "" if indifference == "0" else f", indifference {indifference}"
    return f"proved{given_up}, region of {fit} rows"


def default_sizes(folder: Path) -> str:
    """One line per library: leaves removed %, median and range over the medians of the data sets."""
    proved, validated = read_proved(folder), read_rows(folder / "defaults.csv")
    found = [
        (name, where(proved, model=large), where(validated, model=default))
        for name, large, default in LIBRARIES
        if where(proved, model=large) or where(validated, model=default)
    ]
    columns = {
        "100 trees": lambda library: library[0],
        **{
            _heading(*question): lambda library, question=question: _in_short(
                _asked(library[1], *question), "leaf_pruning_rate"
            )
            for question in _questions(proved)
        },
        "validated": lambda library: _in_short(library[2], "leaves_gone"),
        "models": lambda library: _models(library[2]),
        "test fidelity %": lambda library: number(mean(library[2], "fidelity"), 2),
    }
    return table(columns, found)


def _asked(proved: Rows, fit: str, indifference: str) -> Rows:
    return where(proved, fit=fit, indifference=indifference)


def _models(validated: Rows) -> str:
    return f"{len(validated)} on {len(texts(validated, 'dataset'))} data sets" if validated else "-"


def _by_dataset(rows: Rows, column: str) -> dict[str, float]:
    """The median of every data set; what was refused or not proved counts as 0."""
    return {
        dataset: median(float(row[column] or 0) for row in where(rows, dataset=dataset))
        for dataset in texts(rows, "dataset")
    }


def _in_short(rows: Rows, column: str) -> str:
    found = _by_dataset(rows, column).values()
    return f"{median(found):.1f} ({min(found):.1f} to {max(found):.1f})" if found else "-"


def what_to_expect(folder: Path) -> str:
    """One line per size and call: times as fast, or what was removed, median and range over data sets."""
    header = ("model", "call", "median", "least", "most", "data sets with less than 5 % removed")
    lines = _expected(folder, LIBRARIES[1:])
    return markdown(header, lines) if lines else ""


def expected_in_short(folder: Path) -> str:
    """The same for the libraries that a newcomer looks for, without the names of the data sets."""
    lines = []
    for model, call, middle, *extremes, _ in _expected(folder, LIBRARIES[1:2]):
        least, most = (extreme.partition(" (")[0] for extreme in extremes)
        lines.append((model, call, middle, f"{least} to {most}"))
    return markdown(("model", "call", "median", "range over the data sets"), lines) if lines else ""


def _expected(folder: Path, libraries: Sequence[tuple[str, str, str]]) -> list[tuple[str, ...]]:
    """Model, call, median, least, most, and how many data sets lost next to nothing."""
    small = where(read_rows(folder / "paper_leaf.csv"), depth=2, trees=30, objective="l0-leaf", alpha="0.1")
    proved, validated = where(read_proved(folder), fit="training"), read_rows(folder / "defaults.csv")
    lines = [*_speeds(folder)]
    lines += [("30 trees of depth 2, XGBoost", "`prune_booster`, alpha 0.1", *_spread(small, "pruning_rate"))]
    for name, large, default in libraries:
        size = f"100 trees, default settings of {name}"
        for indifference, words in (("0", ""), (AUTO, ', `indifference="auto"`')):
            rows = where(proved, model=large, indifference=indifference)
            lines.append((size, f"`prune_booster`, alpha 0.1{words}", *_spread(rows, "leaf_pruning_rate")))
        tested = where(validated, model=default, target="0.99")  # the other data sets have too few rows for 99 %
        call = f"`compress_booster`, 99 %, the {len(texts(tested, 'dataset'))} data sets with enough rows"
        lines.append((size, call, *_spread(tested, "leaves_gone")))
    return [line for line in lines if line[2]]


def _spread(rows: Rows, column: str) -> tuple[str, str, str, str]:
    """Median over the data sets, the lowest and the highest of them by name, and how many lost next to nothing."""
    found = _by_dataset(rows, column)
    few = sum(value < 5 for value in found.values())
    return (*_extremes(found, " %"), f"{few} of {len(found)}") if found else ("", "", "", "")


def _extremes(found: dict[str, float], unit: str) -> tuple[str, str, str]:
    least, most = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    named = (f"{_rounded(found[name])}{unit} ({name})" for name in (least, most))
    return (f"{_rounded(median(found.values()))}{unit}", *named)


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def _speeds(folder: Path) -> list[tuple[str, str, str, str, str, str]]:
    """How many times as fast as the library's own predict a proved scorer of default size is."""
    native = where(read_rows(folder / "scoring.csv"), engine="native predict")
    lines = []
    for model, name in (("xgboost-100x6", "100 trees of depth 6, XGBoost"), ("lightgbm-100x31", "100 trees, LightGBM")):
        for batch, words in (("1", "one row"), ("100000", "100 000 rows")):
            own = where(native, model=model, batch=batch)
            if own:
                found = {row["dataset"]: float(row["times_as_fast"]) for row in own}
                lines.append((name, f"`accelerate_booster`, {words}", *_extremes(found, "x"), "-"))
    return lines


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
    return _library(where(read_proved(folder), model=large), where(read_rows(folder / "defaults.csv"), model=model))


def _library(proved: Rows, validated: Rows) -> str:
    datasets = dict.fromkeys([*texts(proved, "dataset"), *texts(validated, "dataset")])
    columns = {
        "data set": lambda rows: rows[0],
        **{
            _heading(*question): lambda rows, question=question: _outcome(_asked(rows[1], *question))
            for question in _questions(proved)
        },
        "seeds": lambda rows: len(rows[2]) or "-",
        "validated": lambda rows: number(mean(rows[2], "leaves_gone")),
        "test fidelity %": lambda rows: number(mean(rows[2], "fidelity"), 2),
        "tested for %": lambda rows: number(100 * mean(rows[2], "target")),
    }
    return table(columns, [(name, where(proved, dataset=name), where(validated, dataset=name)) for name in datasets])


def _outcome(rows: Rows) -> str:
    """Leaves removed, or why there are none."""
    if not rows:
        return "-"
    if any(row["status"].startswith(("REFUSED", "FAILED")) for row in rows):
        return "refused"
    if any(row["status"] != "CERTIFIED" for row in rows):
        return "no proof in time"
    return number(mean(rows, "leaf_pruning_rate"))
