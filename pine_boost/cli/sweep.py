"""``pine-boost sweep``: one model pruned for many alphas.

Writes sweep.json and sweep.csv and one folder per alpha as ``prune`` does; every report shows the
trade-off. Refuses what ``prune`` refuses.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from pine_boost.cli import options, output
from pine_boost.errors import InvalidInputError
from pine_boost.model.digits import exactly

EXAMPLES = """examples:
  pine-boost sweep model.json --fit train.csv --cal holdout.csv -o tradeoff
  pine-boost sweep model.json --fit train.csv --cal holdout.csv --alphas 0.05,0.1,0.2 --json"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    options.add_model_options(parser)
    options.add_data_options(parser)
    output.add_output(parser, "sweep")
    parser.add_argument("--alphas", metavar="A,B,...", help="grid (0,0.05,0.1,0.2,0.4,0.6,0.8)")
    options.add_search_options(parser)
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Sweep, save, print the table."""
    from pine_boost.certificate.saved import REPORT, SWEEP_CSV, SWEEP_JSON
    from pine_boost.cli.prune import exit_code
    from pine_boost.progress import Progress
    from pine_boost.report.report import render_report
    from pine_boost.sweeping import ALPHAS, sweep

    given = options.read_given_model(arguments)
    given.require_writable()
    report_seconds = output.seconds_for_report(arguments)
    keywords = options.search_arguments(arguments, report_seconds)
    alphas = _read_grid(arguments.alphas)
    names = output.result_names(given, report=not arguments.no_report)
    output.require_place(
        arguments, [SWEEP_CSV, SWEEP_JSON] + [f"alpha-{alpha:g}/{name}" for alpha in alphas or ALPHAS for name in names]
    )
    X_fit, X_cal = (options.read_rows(path, given) for path in (arguments.fit, arguments.cal))
    test = options.read_test(arguments, given)
    progress = Progress(time_limit=arguments.time_limit, option="--time-limit")
    try:
        swept = sweep(
            given.source, X_fit, X_cal, alphas=alphas, callback=progress.of_alpha, spent=arguments.spent, **keywords
        )
    finally:
        progress.close()
    rows = swept.table()
    X_test, measured = _measure(swept, given, test, rows)
    folder = _write(arguments, swept, rows)
    if not arguments.no_report:
        for result in swept:
            inner = getattr(result, "inner", result)  # the page is about the ensemble
            output.write_report(
                folder / _place(result) / REPORT,
                partial(render_report, inner, X_test, rows),
                report_seconds / len(swept),
            )
    if arguments.json:
        options.print_json({"seconds": swept.seconds, "folder": str(folder), "table": rows})
    else:
        print(swept)
        print(f"Written to {folder}: sweep.csv, sweep.json and a folder per alpha")
    code = max(exit_code(result) for result in swept)
    missing = [alpha for alpha in alphas or () if alpha not in swept.alphas]
    if missing:
        print(
            f"pine-boost: no result for alpha {', '.join(map(exactly, missing))}; the same command does them all",
            file=sys.stderr,
        )
    measured.require(folder)
    return code


def _measure(swept: Any, given: Any, test: Any, rows: list[dict[str, Any]]) -> tuple[Any, output.Measured]:
    """Add fidelity and coverage to the rows, all or none; what a report shows, and what failed."""
    measured = output.Measured()
    columns = []
    for result in swept:
        measured = output.measure(result, given, test)
        if measured.failed is not None:
            return None, measured
        if test is not None:
            e = measured.evaluation
            columns.append({"fidelity": e.fidelity, "coverage": e.coverage.share})
    for row, more in zip(rows, columns, strict=False):
        row.update(more)
    return measured.rows, measured


def _read_grid(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InvalidInputError(f"--alphas {text!r}: numbers with commas between them.") from error


def _write(arguments: argparse.Namespace, swept: Any, rows: list[dict[str, Any]]) -> Any:
    """All files of all alphas at once, the certificates and the table last."""
    from pine_boost.certificate.saved import CERTIFICATE, SWEEP_CSV, SWEEP_JSON, table_csv, table_json

    files = {f"{_place(result)}/{name}": contents for result in swept for name, contents in result.files().items()}
    files |= {SWEEP_CSV: table_csv(rows), SWEEP_JSON: table_json(rows)}
    last = [name for name in files if name.endswith(CERTIFICATE)]
    return output.write_results(arguments, files, [*last, SWEEP_JSON])


def _place(result: Any) -> str:
    return f"alpha-{result.certificate.alpha:g}"
