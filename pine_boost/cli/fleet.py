"""``pine-boost fleet``: prune or compress many models, on this machine or on a Dask cluster.

Writes a folder per job, summary.csv and summary.html; a second run does only what is not done. Exit
code 1 if a job failed, 2 if none failed but one holds no promise, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, fields
from typing import Any

from pine_boost.cli import INTERRUPTED, flags
from pine_boost.options import AccelerateOptions, CompressOptions, Options, option_of

EXAMPLES = """examples:
  pine-boost fleet jobs.csv -o smaller --alpha 0.1 --time-limit 60
  pine-boost fleet models/ -o smaller --workers 4
  pine-boost fleet jobs.csv -o smaller --method compress --fidelity 0.99 --dask tcp://scheduler:8786

jobs.csv has the columns name, model, fit and cal (prune) or val (compress); paths are relative to
it. Further columns named after options (alpha, time_limit, ...) hold for their job. A folder has a
folder for each job, with model.*, fit.*, cal.* or val.*."""
_RUN = ("method", "n_jobs", "dask", "reports", "trust_pickle")
_NAMES = {entry.name: None for kind in (Options, CompressOptions, AccelerateOptions) for entry in fields(kind)}
_FOR_ALL = [name for name in _NAMES if name != "n_jobs" and option_of("", name).flag_name]


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("jobs", metavar="JOBS", help="CSV file with a line per job, or folder with a folder per job.")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="Folder to write.")
    flags.add_options(parser, "run_fleet", _RUN)
    group = parser.add_argument_group("options for all jobs (the defaults are those of the method)")
    unset = {name: None for name in _FOR_ALL if option_of("", name).default is not False}
    flags.add_options(group, "", _FOR_ALL, **unset)
    flags.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Run the fleet and print how it went."""
    from pine_boost.fleet import run_fleet

    options = {name: getattr(arguments, name) for name in _FOR_ALL} | {"threshold": flags.thresholds(arguments)}
    try:
        found = run_fleet(
            arguments.jobs,
            arguments.output,
            options={name: value for name, value in options.items() if value is not None and value is not False},
            callback=_show,
            **{name: getattr(arguments, name) for name in _RUN},
        )
    except KeyboardInterrupt as end:
        if not end.args:  # before there was a summary
            raise
        print(
            f"pine-boost: interrupted; {end}. Written to {arguments.output}: summary.html, summary.csv. The same "
            "command does the rest.",
            file=sys.stderr,
        )
        return INTERRUPTED
    if arguments.json:
        flags.print_json([asdict(row) for row in found.rows])
    else:
        print(f"{found.summary()}. Written to {found.folder}: summary.html, summary.csv")
    if found.failed:
        return 1
    return 2 if any(row.status.startswith("NOT_") for row in found.rows) else 0


def _show(row: Any, done: int, total: int) -> None:
    what = f"{row.leaves_before} -> {row.leaves_after} leaves" if row.leaves_after else row.error
    again = " (done before)" if row.done_before else ""
    print(f"{done}/{total} {row.name}: {row.status}{again} {what[:300]}", file=sys.stderr)
