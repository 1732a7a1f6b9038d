"""``pine-boost compress``: compress a model, test it on unseen rows and write it with its record.

Examples
--------
  pine-boost compress model.json --fit train.csv --val holdout.csv -o compressed
  pine-boost compress model.txt --fit train.parquet --val val.parquet --fidelity 0.995 --json
  pine-boost compress model.json --fit train.csv --val holdout.csv --label y --max-loss 0.005
  pine-boost compress regressor.json --fit train.csv --val val.csv --tolerance 0.5
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from pine_boost.cli import flags, output
from pine_boost.options import CompressOptions
from pine_boost.tables.table_files import label_if_any

_ROWS = ("X_fit", "X_val", "allow_overlap", "segments", "spent")
_SEARCH = tuple(entry.name for entry in fields(CompressOptions) if entry.name not in _ROWS)


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    flags.add_arguments(parser, "compress", "model")
    flags.add_arguments(flags.add_data(parser, "compress_booster", _ROWS), "compress", "label test")
    flags.add_arguments(parser, "result", "output force no_report", output={"default": "compressed"})
    flags.add_options(parser.add_argument_group("search"), "compress_booster", _SEARCH)


def main(arguments: argparse.Namespace) -> int:
    """Compress, save and print the summary."""
    from pine_boost import committee
    from pine_boost.compress import compress_booster
    from pine_boost.compression.record import RECORD

    with flags.progress_of(arguments) as progress:
        given, is_average = flags.read_given_or_average(arguments)
        report = not arguments.no_report
        names = committee.FILES if is_average else output.result_names(given, RECORD, report=report)
        given.require_writable()
        output.require_place(arguments, names)
        X_fit = flags.read_rows(arguments.X_fit, given, arguments.label)
        X_val, y_val = flags.read_labelled(arguments.X_val, given, arguments.label)
        test = arguments.test and flags.read_data(arguments.test, given, label_if_any(arguments.label))
        options = flags.call_options(arguments, (*_SEARCH, "allow_overlap", "segments", "spent"))
        result = compress_booster(given.source, X_fit, X_val, y_val=y_val, callback=progress, **options)
    is_short = output.was_interrupted(result)
    files = result.files(None if arguments.no_report or is_short else X_val)
    folder = output.write_results(arguments, files)
    measured = None if test is None or is_short else result.evaluate(test.X)
    tested = [] if measured is None else [f"On {len(test.X)} test rows: {measured:.2%} keep their answer."]
    lines = [result.summary(), *tested, f"Written to {folder}: {', '.join(sorted(files))}"]
    flags.answer(arguments, describe(result, folder, measured), "\n".join(lines))
    return exit_code(result)


def exit_code(result: Any) -> int:
    """0 validated, non-inferior or measured, 2 nothing smaller passed, 130 interrupted."""
    kept = "the original: nothing smaller" if result.status == "NOT_VALIDATED" else "what"
    return output.exit_code(result, f"{kept} had passed the test by then")


def describe(result: Any, folder: Any, measured: float | None = None) -> dict[str, Any]:
    """A result for programs."""
    more = {"folder": str(folder)} | ({} if measured is None else {"test_fidelity": measured})
    if not hasattr(result, "record"):  # of several ensembles
        return {**result.to_dict(), **more, "model": next(iter(result.files()))}
    promise = ("status", "claim", "fidelity", "confidence", "tolerance", "n_val", "n_changed", "bound")
    losses = ("max_loss", "loss", "loss_before", "loss_after")
    sizes = ("trees_before", "trees_after", "leaves_before", "leaves_after", "minimize", "work_before", "work_after")
    run = ("seconds", "stopped")
    distances = ("attack_distance", "proved_distance", "proved_largest", "proved_rows")
    document = {name: getattr(result.record, name) for name in (*promise, *losses, *sizes, *run, *distances)}
    figures = result.side_by_side.by_name()
    return {
        **document,
        **{name: figures[name] for name in ("bytes_before", "bytes_after")},
        "path": result.path_table(),
        "segments": result.record.segments,
        "model": next(name for name in result.files() if name.startswith("model.")),
        **more,
    }
