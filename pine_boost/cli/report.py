"""``pine-boost report``: write the HTML report of a saved result anew.

In come a folder that ``prune`` wrote and, for speed and the inputs outside the region, the original
model and rows; out goes report.html in that folder. Refuses models that are not the certificate's.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pine_boost.cli import options

EXAMPLES = """examples:
  pine-boost report pruned
  pine-boost report pruned --original model.json --data test.csv"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("folder", metavar="DIR", help="folder that prune or sweep wrote")
    parser.add_argument("--original", metavar="MODEL", help="the model before pruning")
    parser.add_argument("--data", metavar="FILE", help="rows for coverage and speed")
    parser.add_argument("--label", metavar="COLUMN", help="column of the data to leave out")
    options.add_reading_options(parser)
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Render and replace report.html."""
    from pine_boost.files import clear_errors, write_file
    from pine_boost.region.region import Region
    from pine_boost.report.report import render_folder_report
    from pine_boost.tables.files import read_table

    folder = Path(arguments.folder)
    X = None
    if arguments.data is not None:
        schema = Region.load(folder / "region.json").schema
        X = read_table(arguments.data, schema, arguments.label).X
    page = render_folder_report(
        folder,
        arguments.original,
        X,
        _curve_beside(folder),
        trust_pickle=arguments.trust_pickle,
    )
    path = folder / "report.html"
    with clear_errors(path):
        write_file(path, page.encode())
    if arguments.json:
        options.print_json({"report": str(path)})
    else:
        print(f"Written to {path}")
    return 0


def _curve_beside(folder: Path) -> list[dict[str, Any]]:
    """The table of the sweep that the folder belongs to, if there is one."""
    path = folder.parent / "sweep.json"
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows
