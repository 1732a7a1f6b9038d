"""``pine-boost fleet``: many models with one policy, on this machine or on a Dask cluster.

A folder per job, summary.csv and summary.html. Run again, it does only what is not done. Exit code
1 when a job failed, 2 when none failed but one holds no promise, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pine_boost.cli import INTERRUPTED, options
from pine_boost.cli.words import in_flags

EXAMPLES = """examples:
  pine-boost fleet jobs.csv -o smaller --alpha 0.1 --time-limit 60
  pine-boost fleet models/ -o smaller --workers 4
  pine-boost fleet jobs.csv -o smaller --compress --fidelity 0.99 --dask tcp://scheduler:8786

jobs.csv has the columns name, model, fit and cal (prune) or val (compress), and if needed
threshold; paths are relative to it. A folder has a folder for each job, with model.*, fit.*,
cal.* or val.*."""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("jobs", metavar="JOBS", help="CSV file, or folder of folders")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="folder to write")
    options.add_reading_options(parser)
    parser.add_argument("--workers", type=int, default=-1, metavar="N", help="processes (-1: one per core)")
    parser.add_argument("--dask", metavar="ADDRESS", help="run on this Dask scheduler instead")
    options.add_flag(parser, "--reports", "a report.html for every job")
    policy = parser.add_argument_group("policy")
    options.add_flag(policy, "--compress", "compress_booster, not prune")
    policy.add_argument("--fidelity", type=float, default=0.99, help="with --compress (0.99)")
    policy.add_argument("--confidence", type=float, default=0.95, help="with --compress (0.95)")
    policy.add_argument("--alpha", type=float, default=0.1, help="without --compress (0.1)")
    policy.add_argument("--indifference", type=options.indifference, default=0.0, metavar="SHARE")
    policy.add_argument("--time-limit", type=float, metavar="SECONDS", help="for each job")
    policy.add_argument("--seed", type=int, default=0, metavar="N")
    options.add_threshold(parser)
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Run the fleet, say how it went."""
    from dataclasses import asdict

    from pine_boost.fleet import run_fleet

    try:
        found = run_fleet(
            arguments.jobs,
            arguments.output,
            method="compress" if arguments.compress else "prune",
            options=_policy(arguments),
            n_jobs=arguments.workers,
            dask=arguments.dask,
            trust_pickle=arguments.trust_pickle,
            reports=arguments.reports,
            callback=_show,
        )
    except KeyboardInterrupt as end:
        if not end.args:  # before there was a summary
            raise
        print(
            f"pine-boost: interrupted; {end}. Written to {arguments.output}: summary.html, "
            "summary.csv; the same command does the rest.",
            file=sys.stderr,
        )
        return INTERRUPTED
    if arguments.json:
        rows = [asdict(row) for row in found.rows]
        options.print_json([row | {"error": in_flags(row["error"])} for row in rows])
    else:
        print(f"{found.summary()}. Written to {found.folder}: summary.html, summary.csv")
    if found.failed:
        return 1
    return 2 if any(row.status.startswith("NOT_") for row in found.rows) else 0


def _policy(arguments: argparse.Namespace) -> dict[str, Any]:
    policy: dict[str, Any] = {"random_state": arguments.seed}
    if arguments.compress:
        policy |= {"fidelity": arguments.fidelity, "confidence": arguments.confidence}
    else:
        policy |= {"alpha": arguments.alpha, "indifference": arguments.indifference}
    if arguments.time_limit is not None:
        policy["time_limit"] = arguments.time_limit
    if (threshold := options.thresholds(arguments)) is not None:
        policy["threshold"] = threshold
    return policy


def _show(row: Any, done: int, total: int) -> None:
    what = f"{row.leaves_before} -> {row.leaves_after} leaves" if row.leaves_after else in_flags(row.error)
    again = " (done before)" if row.done_before else ""
    print(f"{done}/{total} {row.name}: {row.status}{again} {what[:300]}", file=sys.stderr)
