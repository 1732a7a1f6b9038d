"""``pine-boost sweep``: prune one model for many alphas and write a folder for each.

Examples
--------
  pine-boost sweep model.json --fit train.csv --cal holdout.csv -o tradeoff
  pine-boost sweep model.json --fit train.csv --cal holdout.csv --alphas 0.05,0.1,0.2 --json
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pine_boost.certificate.saved import SWEEP_CSV, SWEEP_JSON, table_csv, table_json
from pine_boost.cli import flags, output
from pine_boost.cli.prune import add_search, exit_code, search
from pine_boost.errors import InvalidInputError
from pine_boost.model.digits import exactly

_SEARCH = ("alphas", *(name for name in flags.SEARCH if name != "alpha"))


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    add_search(parser, "sweep", _SEARCH, "sweep")


def main(arguments: argparse.Namespace) -> int:
    """Sweep, save and print the table."""
    from pine_boost.sweeping import ALPHAS, sweep

    arguments.alphas = alphas = _read_grid(arguments.alphas)
    folders = [f"alpha-{alpha:g}/" for alpha in alphas or ALPHAS]
    given, test, swept = search(arguments, sweep, _SEARCH, folders, (SWEEP_CSV, SWEEP_JSON))
    rows = swept.table()
    X_test, failed = _measure(swept, given, test, rows)
    places = {f"alpha-{result.certificate.alpha:g}": result for result in swept}
    files = {
        f"{place}/{name}": contents for place, result in places.items() for name, contents in result.files().items()
    }
    files |= {SWEEP_CSV: table_csv(rows), SWEEP_JSON: table_json(rows)}  # the table last
    folder = output.write_results(arguments, files)
    for place, result in places.items():
        output.write_report(arguments, result, folder / place, X_test, rows, len(swept))
    said = f"{swept}\nWritten to {folder}: sweep.csv, sweep.json and a folder per alpha"
    flags.answer(arguments, {"seconds": swept.seconds, "folder": str(folder), "table": rows}, said)
    code = max(exit_code(result) for result in swept)
    missing = [alpha for alpha in alphas or () if alpha not in swept.alphas]
    if missing:
        listed = ", ".join(map(exactly, missing))
        print(f"pine-boost: no result for alpha {listed}; run the same command again", file=sys.stderr)
    output.require_measured(failed, folder)
    return code


def _measure(swept: Any, given: Any, test: Any, rows: list[dict[str, Any]]) -> tuple[Any, Exception | None]:
    """Add fidelity and coverage to the rows, all or none; the test rows, and what failed."""
    columns, X_test = [], None
    for result in swept:
        evaluation, X_test, failed = output.measure(result, given, test)
        if failed is not None:
            return None, failed
        if evaluation is not None:
            columns.append({"fidelity": evaluation.fidelity, "coverage": evaluation.coverage.share})
    for row, more in zip(rows, columns, strict=False):
        row.update(more)
    return X_test, None


def _read_grid(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InvalidInputError(f"--alphas must be numbers separated by commas, got {text!r}.") from error
