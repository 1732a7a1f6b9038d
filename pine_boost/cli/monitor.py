"""``pine-boost monitor``: count live inputs against a region; made for cron.

The state file remembers the batches, and a table is counted once. Exit code 3 means alarm.

Examples
--------
  pine-boost monitor pruned/region.json today.parquet --state monitor.json
  pine-boost monitor pruned monday.csv tuesday.csv --state monitor.json --page monitor.html
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from pine_boost.cli import flags, output
from pine_boost.cli.saved_input import read_prepared, read_region
from pine_boost.files import file_digest, save_file

ALARM = 3


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    flags.add_arguments(
        parser,
        "monitor",
        "region model data state level page force",
        data={"nargs": "+"},
        state={"required": True},
        level={"type": float, "default": 0.05},
    )


def main(arguments: argparse.Namespace) -> int:
    """Count the tables and print the status."""
    from pine_boost.monitoring.page import BEGINNING, write_page
    from pine_boost.monitoring.region_monitor import load_state, watch

    output.require_file(arguments, arguments.page, BEGINNING)
    region, given, _ = read_region(arguments)
    model, state = None if given is None else given.parsed, Path(arguments.state)
    for data in arguments.data:
        rows, digest = read_prepared(data, given, region.schema), file_digest(Path(data))
        if state.exists() and load_state(state, region).has_counted(digest):
            print(f"pine-boost: {data} was counted before and is skipped", file=sys.stderr)
        status = watch(region, rows, state, model=model, name=Path(data).name, digest=digest, level=arguments.level)
    if arguments.page is not None:
        save_file(arguments.page, write_page(load_state(state, region)).encode())
    flags.answer(arguments, {**asdict(status), "alarm": status.alarm}, status)
    return ALARM if status.alarm else 0
