"""Run the slow tests and write their times and results to docs/robustness.md (python -m benchmarks.slow_tests).

A file that was run at this commit is not run again; a failure is an answer.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from benchmarks.data import ROOT
from benchmarks.frames import values
from benchmarks.ledger import code_commit
from benchmarks.machine import record_run
from benchmarks.pages import SLOW_TESTS
from benchmarks.runner import RESULTS, Job, read_rows, run_jobs

KEY_COLUMNS = ("file", "commit")
COLUMNS = (*KEY_COLUMNS, "date", "tests", "failed", "seconds")


def find_files() -> list[str]:
    """Test files with a slow test, as pytest collects them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "slow", "tests"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted({line.partition("::")[0] for line in found.splitlines() if "::" in line})


def run_file(question: tuple[str, str]) -> list[dict[str, Any]]:
    """The slow tests of one file, by pytest in a process of its own."""
    file, commit = question
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "slow", file, f"--junitxml={report}"], cwd=ROOT, check=False
        )
        suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    counts = {
        name: sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    }
    return [
        {
            "file": file,
            "commit": commit,
            "date": time.strftime("%Y-%m-%d"),
            "tests": counts["tests"],
            "failed": counts["failures"] + counts["errors"] + counts["skipped"],
            "seconds": f"{sum(float(suite.get('time', '0')) for suite in suites):.0f}",
        }
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_tests", description=__doc__)
    parser.add_argument("--files", nargs="+", help="default: every file with a slow test")
    parser.add_argument("--jobs", type=int, default=1, help="files side by side")
    parser.add_argument("--out", type=Path, default=RESULTS / "slow_tests.csv")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="FOLDER", help="of docs/")
    options = parser.parse_args(arguments)
    if arguments is None:
        record_run(options.out)
    commit = code_commit()
    jobs = [Job((file, commit), (file, commit)) for file in options.files or find_files()]
    failures = run_jobs(run_file, jobs, options.out, COLUMNS, KEY_COLUMNS, n_workers=options.jobs)
    print(f"wrote {SLOW_TESTS.update(options.out.parent, options.root)}")
    failed = values(read_rows(options.out), "failed").sum()
    return 1 if failures or failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
