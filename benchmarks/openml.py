"""Fetch what OpenML has of the twelve data sets (python -m benchmarks.openml --out FOLDER).

In comes a folder; out go CSV files as `benchmarks.data` reads them (label last, whole numbers).
Needs a network, is never called by tests, and refuses a table whose shape is not the paper's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.paper import listed

# Name and version on OpenML, rows and features of the paper. COMPAS and FICO are binarised by
# hand elsewhere, ELEC2 and PoL balanced by FIPE's authors: their files come with eminyous/fipe.
SOURCES: dict[str, tuple[str, int, int, int]] = {
    "Adult": ("adult", 1, 32561, 14),
    "Balance-Scale": ("balance-scale", 1, 625, 4),
    "Breast-Cancer-Wisconsin": ("breast-w", 1, 683, 9),
    "HTRU2": ("HTRU2", 1, 17898, 8),
    "JM1": ("jm1", 1, 10885, 21),
    "Pima-Diabetes": ("diabetes", 1, 768, 8),
    "Seeds": ("seeds", 1, 210, 7),
    "Spambase": ("spambase", 1, 4601, 57),
}


def fetch(name: str) -> Any:
    """One data set as a frame, label last.

    Raises
    ------
    SystemExit
        OpenML does not have it, or has another table under that name.
    """
    from sklearn.datasets import fetch_openml

    if name not in SOURCES:
        raise SystemExit(
            f"{name} is not on OpenML in the paper's form; take <{name}>.full.csv from "
            "github.com/eminyous/fipe (tests/datasets-for-tests) or eminyous/fipe-experiments."
        )
    title, version, n_rows, n_features = SOURCES[name]
    frame = fetch_openml(title, version=version, as_frame=True, parser="auto").frame
    target = fetch_openml(title, version=version, as_frame=True, parser="auto").target.name
    if name == "Breast-Cancer-Wisconsin":
        frame = frame.dropna()
    label = frame.pop(target).astype("category").cat.codes
    if frame.shape != (n_rows, n_features):
        raise SystemExit(
            f"OpenML's {title} (version {version}) has the shape {frame.shape}; the paper's "
            f"{name} has {(n_rows, n_features)}. Nothing was written."
        )
    return frame.assign(label=label)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.openml", description=__doc__)
    parser.add_argument("--datasets", type=listed, default=list(SOURCES), metavar="A,B")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.datasets:
        path = options.out / f"{name}.csv"
        fetch(name).to_csv(path, index=False)
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
