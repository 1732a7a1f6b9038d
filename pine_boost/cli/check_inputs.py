"""``pine-boost check-inputs``: show which rows of a table a certificate covers, and why it does not cover the others.

Needs neither the solver nor the training library. A region with indifference needs the original.

Examples
--------
  pine-boost check-inputs pruned today.csv
  pine-boost check-inputs pruned/region.json today.parquet --model model.json --limit 3 --json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

import numpy as np

from pine_boost.cli import flags
from pine_boost.cli.saved_input import read_prepared, read_region
from pine_boost.errors import InvalidInputError
from pine_boost.model.digits import percent_down, percent_up, rest_of
from pine_boost.tables.native import take_rows

_NOT_CERTIFIED = " No smaller model was certified for it; the folder holds the original."


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    limit = {"type": int, "default": 10}
    flags.add_arguments(parser, "check_inputs", "region model data limit", limit=limit)


def main(arguments: argparse.Namespace) -> int:
    """Print the coverage, then the rows outside with reasons."""
    region, given, is_certified = read_region(arguments)
    model = None if given is None else given.parsed
    if region.n_cal == 0 and region.alpha > 0:
        raise InvalidInputError(
            f"{arguments.region} comes from a search that stopped before its region was calibrated, so it says nothing "
            "about inputs. Run the search again with more time."
        )
    remark = "" if is_certified else _NOT_CERTIFIED
    X = read_prepared(arguments.data, given, region.schema)
    if region.delta is not None and model is None:
        raise InvalidInputError(
            f"{arguments.region} leaves out inputs near the decision boundary of the original; pass it with --model."
        )
    coverage = region.coverage(X, model=model)
    inside = region.contains(X, model=model)
    outside = np.flatnonzero(~inside)
    explained = [
        (int(row), region.explain(take_rows(X, np.array([row])), model=model))
        for row in outside[: max(arguments.limit, 0)]
    ]
    document = {
        **asdict(coverage),
        "share": coverage.share,
        "alpha": region.alpha,
        "rows_outside": outside,
        "explained": [
            {"row": row, "score": e.score, "tau": e.tau, "reasons": [r.text for r in e.reasons]} for row, e in explained
        ],
    }
    lines = [
        f"{coverage.n_inside} of {coverage.n_rows} rows ({coverage.share:.2%}) lie in the region "
        f"(true share {percent_down(coverage.low)} to {percent_up(coverage.high)}; at least "
        f"{percent_down(rest_of(region.alpha))} was calibrated).{remark}",
        *(f"row {row}: {explanation}" for row, explanation in explained),
    ]
    if len(outside) > len(explained):
        lines.append(f"... and {len(outside) - len(explained)} more rows outside (--limit)")
    flags.answer(arguments, document, "\n".join(lines))
    return 0
