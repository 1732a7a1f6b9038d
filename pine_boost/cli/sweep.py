"""``pine-boost sweep``: one model pruned for many alphas.

Writes sweep.json and sweep.csv and one folder per alpha as ``prune`` does; every report shows the
trade-off. Refuses what ``prune`` refuses.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from pine_boost.cli import options
from pine_boost.errors import InvalidInputError

EXAMPLES = """examples:
  pine-boost sweep model.json --fit train.csv --cal holdout.csv -o tradeoff
  pine-boost sweep model.json --fit train.csv --cal holdout.csv --alphas 0.05,0.1,0.2 --json"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.epilog = EXAMPLES
    options.add_model_options(parser)
    options.add_data_options(parser)
    parser.add_argument("-o", "--output", metavar="DIR", default="sweep",
                        help="folder to write (sweep)")  # fmt: skip
    parser.add_argument("--alphas", metavar="A,B,...", help="grid (0,0.05,0.1,0.2,0.4,0.6,0.8)")
    options.add_search_options(parser)
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Sweep, save, print the table."""
    from pine_boost.cli.progress import Progress
    from pine_boost.sweeping import sweep
    from pine_boost.tables.files import read_table
    from pine_boost.tables.matrix import schema_of

    model, parsed = options.read_given_model(arguments)
    schema = schema_of(parsed.forest)
    keywords = options.search_arguments(arguments)
    alphas = _read_grid(arguments.alphas)
    fit = read_table(arguments.fit, schema).X
    cal = None if arguments.cal is None else read_table(arguments.cal, schema).X
    test = None if arguments.test is None else read_table(arguments.test, schema, arguments.label)
    progress = Progress(unit=arguments.unit)
    try:
        swept = sweep(model, fit, cal, alphas=alphas, callback=progress.of_alpha, **keywords)
    finally:
        progress.close()
    rows = swept.table()
    if test is not None:
        for row, result in zip(rows, swept, strict=True):
            measured = result.evaluate(test.X, test.y)
            row.update(fidelity=measured.fidelity, coverage=measured.coverage.share)
    folder = _save(swept, rows, Path(arguments.output), None if test is None else test.X)
    if arguments.json:
        options.print_json({"seconds": swept.seconds, "folder": str(folder), "table": rows})
    else:
        print(swept)
        print(f"Written to {folder}: sweep.csv, sweep.json and a folder per alpha")
    return 0 if all(result.status == "CERTIFIED" for result in swept) else 2


def _read_grid(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InvalidInputError(f"--alphas {text!r}: numbers with commas between them.") from error


def _save(swept: Any, rows: list[dict[str, Any]], folder: Path, X: Any) -> Path:
    """A new folder appears complete or not at all."""
    from pine_boost.result import write_file

    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file; name a folder to write to.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    is_new = not folder.exists()
    target = folder
    if is_new:
        target = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        target.chmod(0o755)
    try:
        for result in swept:
            result.save(target / f"alpha-{result.certificate.alpha:g}", X, rows)
        write_file(target / "sweep.csv", text.getvalue().encode())
        write_file(target / "sweep.json", (json.dumps(rows, indent=1) + "\n").encode())
        if is_new:
            os.rename(target, folder)
    except BaseException:
        if is_new:
            shutil.rmtree(target, ignore_errors=True)
        raise
    return folder
