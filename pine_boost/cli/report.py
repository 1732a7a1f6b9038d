"""``pine-boost report``: write the HTML report of a saved result again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pine_boost.cli import flags

EXAMPLES = """examples:
  pine-boost report pruned
  pine-boost report pruned --original model.json --data test.csv"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("folder", metavar="DIR", help="Folder that prune, sweep or compress wrote.")
    parser.add_argument("--original", metavar="MODEL", help="The original model.")
    parser.add_argument(
        "--data", metavar="FILE", help="Rows for coverage and speed; for a compression its validation rows."
    )
    parser.add_argument("--label", metavar="COLUMN", help="Column of the data to leave out.")
    flags.add_reading(parser)
    flags.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Render and replace report.html."""
    from pine_boost.certificate.saved import REPORT, read_saved, result_folders
    from pine_boost.files import clear_errors, write_file
    from pine_boost.pipelines.given import read_named_model
    from pine_boost.report.report import render_folder_report

    written = []
    for folder in result_folders(arguments.folder):
        saved = read_saved(folder)
        original = X = given = None
        if arguments.original is not None:
            given = read_named_model(
                arguments.original, saved.certificate.thresholds, trust_pickle=arguments.trust_pickle
            )
            original = given.wrapper.inner
        if arguments.data is not None:
            columns = given or saved.region.schema
            X = flags.read_data(arguments.data, columns, arguments.label).X
            X = X if given is None else given.wrapper.rows(X)
        page = render_folder_report(folder, original, X, _curve_beside(folder), trust_pickle=arguments.trust_pickle)
        path = folder / REPORT
        with clear_errors(path):
            write_file(path, page.encode())
        written.append(str(path))
        if not arguments.json:
            print(f"Written to {path}")
    if arguments.json:
        flags.print_json({"report": written[0] if len(written) == 1 else written})
    return 0


def _curve_beside(folder: Path) -> list[dict[str, Any]]:
    """The table of the sweep that the folder belongs to, if there is one."""
    from pine_boost.certificate.saved import SWEEP_JSON, read_table

    path = folder.resolve().parent / SWEEP_JSON
    return read_table(path) if path.is_file() else []
