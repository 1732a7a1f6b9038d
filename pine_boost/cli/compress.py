"""``pine-boost compress``: a model file and tables in, a folder with a much smaller model out.

The folder holds the native model, compression.json and report.html. Ctrl-C ends the path and tests
what it has come to. Refuses validation rows that cannot carry the promise.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from pine_boost.cli import INTERRUPTED, options, output

EXAMPLES = """examples:
  pine-boost compress model.json --fit train.csv --val holdout.csv -o compressed
  pine-boost compress model.txt --fit train.parquet --val val.parquet --fidelity 0.995 --json
  pine-boost compress regressor.json --fit train.csv --val val.csv --tolerance 0.5"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    options.add_model_options(parser)
    data = options.data_group(parser)
    data.add_argument("--fit", required=True, metavar="FILE", help="rows that shape the model")
    data.add_argument("--val", required=True, metavar="FILE", help="unseen rows for the test")
    data.add_argument("--test", metavar="FILE", help="further rows to measure on")
    data.add_argument("--segments", metavar="COLUMN", help="count changed rows per value of it")
    output.add_output(parser, "compressed")
    promise = parser.add_argument_group("promise")
    promise.add_argument(
        "--fidelity",
        type=float,
        default=0.99,
        metavar="SHARE",
        help="share of future inputs that keep their answer (0.99)",
    )
    promise.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        metavar="SHARE",
        help="of that statement, over the draw of --val (0.95)",
    )
    promise.add_argument(
        "--tolerance",
        type=float,
        metavar="T",
        help="classifiers: no probability moves by more either; regressors and "
        "rankers: no raw value does (required there)",
    )
    options.add_flag(promise, "--allow-overlap", "go on if --val repeats --fit: only MEASURED then")
    options.add_spent(promise)
    options.add_threshold(parser)
    search = parser.add_argument_group("search")
    search.add_argument(
        "--unit", default="leaf", choices=("leaf", "tree"), help="collapse subtrees, or drop whole trees only (leaf)"
    )
    search.add_argument(
        "--time-limit", type=float, metavar="SECONDS", help="test then what the path has come to (no limit)"
    )
    search.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of everything random: same seed, same result (0)"
    )
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Compress, save, say what was promised."""
    from pine_boost.compress import compress_booster
    from pine_boost.compression.record import RECORD
    from pine_boost.compression.result import owned_files
    from pine_boost.options import require_seconds
    from pine_boost.progress import Progress

    require_seconds(arguments.time_limit)
    given = options.read_given_model(arguments, decision="value")
    names = [*output.model_names(given, report=not arguments.no_report), RECORD]
    given.require_writable()
    output.require_place(arguments, names, owned_files)
    X_fit, X_val = (options.read_rows(path, given) for path in (arguments.fit, arguments.val))
    test = options.read_data(arguments.test, given)
    limit = arguments.time_limit
    if limit is not None:
        limit = max(limit - (time.monotonic() - arguments.started), 0.001 * limit)
    progress = Progress(time_limit=limit, option="--time-limit")
    try:
        result = compress_booster(
            given.source,
            X_fit,
            X_val,
            fidelity=arguments.fidelity,
            confidence=arguments.confidence,
            tolerance=arguments.tolerance,
            unit=arguments.unit,
            threshold=options.thresholds(arguments),
            time_limit=limit,
            random_state=arguments.seed,
            callback=progress,
            allow_overlap=arguments.allow_overlap,
            segments=arguments.segments,
            spent=arguments.spent,
        )
    finally:
        progress.close()
    files = result.files(None if arguments.no_report else X_val)
    folder = output.write_results(arguments, files, [RECORD], owned_files)
    measured = None if test is None else result.evaluate(test.X)
    if arguments.json:
        options.print_json(describe(result, folder, measured))
    else:
        print(result.summary())
        if measured is not None:
            print(f"On {len(test.X)} test rows: {measured:.2%} keep their answer.")
        print(f"Written to {folder}: {', '.join(sorted(files))}")
    return exit_code(result)


def exit_code(result: Any) -> int:
    """0 validated (or measured), 2 nothing smaller passed, 130 interrupted."""
    if result.record.stopped == "interrupted":
        print("pine-boost: interrupted; written is what passed the test by then", file=sys.stderr)
        return INTERRUPTED
    return 2 if result.status == "NOT_VALIDATED" else 0


def describe(result: Any, folder: Any, measured: float | None = None) -> dict[str, Any]:
    """A result for machines."""
    from dataclasses import asdict

    r = result.record
    names = (
        "status",
        "claim",
        "fidelity",
        "confidence",
        "tolerance",
        "n_val",
        "n_changed",
        "bound",
        "trees_before",
        "trees_after",
        "leaves_before",
        "leaves_after",
        "seconds",
        "stopped",
        "attack_distance",
        "proved_distance",
        "proved_largest",
        "proved_rows",
    )
    document = {name: getattr(r, name) for name in names}
    document["path"] = result.path_table()
    document["segments"] = [asdict(segment) for segment in r.segments]
    document["folder"] = str(folder)
    document["model"] = next(name for name in result.files() if name.startswith("model."))
    if measured is not None:
        document["test_fidelity"] = measured
    return document
