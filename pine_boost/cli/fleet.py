"""``pine-boost fleet``: prune, compress or accelerate many models, on this machine or on a Dask cluster.

Writes a folder per job, summary.csv and summary.html; a second run does only what is not done. Exit
code 1 if a job failed, 2 if none failed but one holds no promise, 130 after Ctrl-C.

Examples
--------
  pine-boost fleet jobs.csv -o smaller --alpha 0.1 --time-limit 60
  pine-boost fleet models/ -o smaller --workers 4
  pine-boost fleet jobs.csv -o smaller --method compress --fidelity 0.99 --dask tcp://scheduler:8786

jobs.csv has the columns name, model, fit and cal (prune) or val (compress, accelerate); paths are relative to
it. Further columns named after options (alpha, time_limit, ...) hold for their job. A folder has a
folder for each job, with model.*, fit.*, cal.* or val.*.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

from pine_boost.cli import INTERRUPTED, flags
from pine_boost.options import METHODS, Option, fleet_options, option_of
from pine_boost.progress import Progress

_RUN = ("method", "n_jobs", "dask", "reports")
# every option of prune, compress and accelerate that has a flag, with its entry in the table for each method
_FOR_ALL: dict[str, dict[str, Option]] = {}
for _method in METHODS:
    for _name in fleet_options(_method):
        if (_option := option_of(f"{_method}_booster", _name)).flag_name:
            _FOR_ALL.setdefault(_name, {})[_method] = _option


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    flags.add_arguments(parser, "fleet", "jobs output", output={"required": True})
    flags.add_options(parser, "run_fleet", _RUN)
    group = parser.add_argument_group("options for all jobs")
    for name, options in _FOR_ALL.items():
        method, option = next(iter(options.items()))
        unset = replace(option, default=False if option.default is False else None)
        flags.add_option(group, unset, option.help(f"{method}_booster", _remark(name)))


def _remark(name: str) -> str:
    """The methods that have an option, unless all do, and its default in each."""
    options = _FOR_ALL[name]
    methods = "" if len(options) == len(METHODS) else ", ".join(options)
    defaults = {option.default_in_words: method for method, option in options.items()}
    if len(defaults) > 1:
        shown = ", ".join(f"{word} for {method}" for word, method in defaults.items())
    else:
        shown = next(iter(defaults))
    return "; ".join(part for part in (methods, f"default: {shown}" if shown else "") if part)


def main(arguments: argparse.Namespace) -> int:
    """Run the fleet and print how it went."""
    from pine_boost.fleet import run_fleet

    options = {name: getattr(arguments, name) for name in _FOR_ALL} | {"threshold": flags.thresholds(arguments)}
    try:
        with Progress(kept="what is done is kept"):
            found = run_fleet(
                arguments.jobs,
                arguments.output,
                options={name: value for name, value in options.items() if value is not None and value is not False},
                callback=_show,
                **{name: getattr(arguments, name) for name in (*_RUN, "trust_pickle")},
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
    said = f"{found.summary()}. Written to {found.folder}: summary.html, summary.csv"
    flags.answer(arguments, found.rows, said)
    if found.failed:
        return 1
    return 2 if any(row.status.startswith("NOT_") for row in found.rows) else 0


def _show(row: Any, done: int, total: int) -> None:
    what = f"{row.leaves_before} -> {row.leaves_after} leaves" if row.leaves_after else row.error
    again = " (done before)" if row.done_before else ""
    print(f"{done}/{total} {row.name}: {row.status}{again} {what[:300]}", file=sys.stderr)
