"""The machine and the commands behind a results folder (python -m benchmarks.machine)."""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
import time
from importlib import metadata
from pathlib import Path

from benchmarks.ledger import Entry, code_commit, note

LIBRARIES = ("ortools", "numpy", "xgboost", "lightgbm", "catboost", "scikit-learn", "treelite", "tl2cgen")


def describe_machine() -> str:
    """One line: processor, cores, memory, system, library versions."""
    processor = platform.processor() or platform.machine()
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    memory = "unknown memory"
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            memory = f"{int(line.split()[1]) / 2**20:.0f} GB"
            break
    versions = ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)
    return (
        f"{processor}, {os.cpu_count()} cores, {memory}, {platform.system()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def record_run(out: Path) -> None:
    """Note this process's command, commit and machine beside the file that it writes."""
    folder = out.parent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine.txt").write_text(describe_machine() + "\n", encoding="utf-8")
    module = Path(sys.argv[0]).stem
    command = f"python -m benchmarks.{module} {shlex.join(sys.argv[1:])}".strip()
    date = time.strftime("%Y-%m-%d")
    note(folder, Entry(out.name, code_commit(), date, "", command))


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []


def _version(name: str) -> str:
    for candidate in (name, f"{name}-cpu"):
        try:
            return metadata.version(candidate)
        except metadata.PackageNotFoundError:
            continue
    return "absent"


def main(arguments: list[str] | None = None) -> int:
    argparse.ArgumentParser(prog="python -m benchmarks.machine", description=__doc__).parse_args(arguments)
    print(describe_machine())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
