"""The state of a monitor: one small JSON file that restarts and several writers do not harm.

In come a region, a path and tables; out goes the status after each. The file is read, changed and
replaced in one step under a lock. Refuses a state of another region.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pine_boost import json_fields as f
from pine_boost.errors import InvalidInputError
from pine_boost.files import REGION_LIMIT, clear_errors, read_limited, write_file
from pine_boost.json_fields import require
from pine_boost.monitoring.monitor import Batch, MonitorStatus, RegionMonitor
from pine_boost.region.region import Region
from pine_boost.region.storage import canonical

FORMAT = "pine_boost monitor"
FORMAT_VERSION = 1


def to_json(monitor: RegionMonitor) -> dict[str, Any]:
    """Plain JSON data of a monitor."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "region": monitor.region.fingerprint(),
        "level": monitor.level,
        "n_rows": monitor.n_rows,
        "n_inside": monitor.n_inside,
        "n_measured": monitor.n_measured,
        "n_dropped": monitor.n_dropped,
        "largest_evidence": monitor.largest_evidence,
        "costs": dict(sorted(monitor.costs.items())),
        "batches": [asdict(batch) for batch in monitor.batches],
    }


def from_json(document: str | bytes | Mapping[str, Any], region: Region) -> RegionMonitor:
    """A monitor from what `to_json` gave."""
    with f.reading("monitor state", "Begin a new one"):
        data = f.parse(document)
        require(data.get("format") == FORMAT, f"'format' is not {FORMAT!r}")
        require(data.get("format_version") == FORMAT_VERSION, "'format_version' is not 1")
        f.keys(
            data,
            "format format_version region level n_rows n_inside n_measured n_dropped largest_evidence costs batches",
        )
        if f.text(data, "region") != region.fingerprint():
            raise InvalidInputError(
                "This monitor state belongs to another region; use another state file, or the region it was begun with."
            )
        level = f.number(data, "level")
        require(0 < level < 1, "'level' is no level")
        monitor = RegionMonitor(region, level)
        monitor.n_rows = f.integer(data, "n_rows", 0)
        monitor.n_inside = f.integer(data, "n_inside", 0, monitor.n_rows)
        monitor.n_measured = f.number(data, "n_measured")
        monitor.n_dropped = f.integer(data, "n_dropped", 0)
        monitor.largest_evidence = f.number(data, "largest_evidence")
        costs = f.mapping(data, "costs")
        monitor.costs = {key: f.number(costs, key) for key in costs}
        monitor.batches = [_batch(f.as_mapping(entry)) for entry in f.sequence(data, "batches")]
        kept = sum(batch.n_rows for batch in monitor.batches)
        inside = sum(batch.n_inside for batch in monitor.batches)
        is_whole = monitor.n_dropped == 0
        require(
            kept <= monitor.n_rows and (kept == monitor.n_rows or not is_whole), "'batches' and 'n_rows' do not agree"
        )
        require(
            inside <= monitor.n_inside and (inside == monitor.n_inside or not is_whole),
            "'batches' and 'n_inside' do not agree",
        )
        highest = max((batch.evidence for batch in monitor.batches), default=1.0)
        require(monitor.largest_evidence >= max(highest, 1.0), "'largest_evidence' is below that of a batch")
        require(monitor.n_measured >= 0, "'n_measured' is negative")
    return monitor


def _batch(data: Mapping[str, Any]) -> Batch:
    f.keys(data, "n_rows n_inside date name digest evidence")
    n_rows = f.integer(data, "n_rows", 1)
    return Batch(
        n_rows,
        f.integer(data, "n_inside", 0, n_rows),
        f.text(data, "date"),
        f.text(data, "name"),
        f.text(data, "digest"),
        f.number(data, "evidence"),
    )


def watch(
    region: Region,
    X: Any,
    state: str | os.PathLike[str],
    *,
    model: Any = None,
    margins: Any = None,
    name: str = "",
    digest: str = "",
    level: float = 0.05,
) -> MonitorStatus:
    """Count one batch in the state file at a path, which is begun if it is not there.

    Reading, counting and replacing the file happen under a lock, so that several processes may
    count into one file; a crash in the middle leaves the state as it was before. A batch whose
    digest was counted before is not counted again. ``level`` is that of a new state.
    """
    path = Path(state)
    if path.exists():
        load_state(path, region)  # what is no state of this region is not even locked
    with _locked(path):
        monitor = load_state(path, region) if path.exists() else RegionMonitor(region, level)
        if not monitor.has_counted(digest):
            monitor.update(X, model=model, margins=margins, name=name, digest=digest)
            with clear_errors(path):
                write_file(path, canonical(monitor.to_json()).encode())
        return monitor.status()


def load_state(path: Path, region: Region) -> RegionMonitor:
    """The monitor of a state file."""
    return from_json(read_limited(path, REGION_LIMIT, "monitor state"), region)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone with a path; the lock is a file beside it, because the state itself is replaced."""
    lock = path.with_name(path.name + ".lock")
    with clear_errors(lock):  # not around what is done under the lock: its errors are its own
        file = lock.open("a")
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]  # Windows only
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
    with file:
        yield
