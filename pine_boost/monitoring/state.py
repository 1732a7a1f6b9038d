"""Store the state of a monitor in one small JSON file that survives restarts and concurrent writers.

The file is read, changed and replaced under a lock. A state of another region raises.
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
from pine_boost.json_fields import canonical, require
from pine_boost.monitoring.region_monitor import Batch, MonitorStatus, RegionMonitor
from pine_boost.region.region import Region

FORMAT = "pine_boost monitor"


def to_json(monitor: RegionMonitor) -> dict[str, Any]:
    """Return a monitor as plain JSON data."""
    fields = {
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
    return f.write_document(fields, FORMAT)


def from_json(document: str | bytes | Mapping[str, Any], region: Region) -> RegionMonitor:
    """Read a monitor from the output of `to_json`."""
    with f.reading("monitor state", "Begin a new one"):
        data = f.read(f.open_document(document, FORMAT), _FIELDS)
        if data.pop("region") != region.fingerprint():
            raise InvalidInputError(
                "This monitor state belongs to another region; use another state file, or its own region."
            )
        monitor = RegionMonitor(region, data.pop("level"))
        for name, value in data.items():
            setattr(monitor, name, value)
        monitor.batches = list(monitor.batches)
        for batch in monitor.batches:
            require(batch.n_inside <= batch.n_rows, "a batch has more rows inside than rows")
        sums = {name: sum(getattr(batch, name) for batch in monitor.batches) for name in ("n_rows", "n_inside")}
        for name, kept in sums.items():
            stated = getattr(monitor, name)
            fits = kept == stated if monitor.n_dropped == 0 else kept <= stated
            require(fits, f"'batches' and {name!r} do not agree")
        require(monitor.n_inside <= monitor.n_rows, "'n_inside' is larger than 'n_rows'")
        highest = max((batch.evidence for batch in monitor.batches), default=1.0)
        require(monitor.largest_evidence >= max(highest, 1.0), "'largest_evidence' is below that of a batch")
    return monitor


_FIELDS: dict[str, f.Reader] = {
    "region": f.digest,
    "level": f.SHARE,
    **dict.fromkeys(("n_rows", "n_inside", "n_dropped"), f.integer(0, 2**53)),
    **dict.fromkeys(("n_measured", "largest_evidence"), f.number(0)),
    "costs": f.mapping(f.number()),
    "batches": f.sequence(f.record_of(Batch)),
}


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
    """Count one batch in a state file, which is created if it does not exist.

    Reading, counting and replacing the file happen under a lock, so several processes may count
    into one file; a crash leaves the state as it was before. A batch whose digest was counted
    before is not counted again. ``level`` is used for a new state.
    """
    path = Path(state)
    if path.exists():
        load_state(path, region)  # a file that is not a state of this region is not locked at all
    with _locked(path):
        monitor = load_state(path, region) if path.exists() else RegionMonitor(region, level)
        if not monitor.has_counted(digest):
            monitor.update(X, model=model, margins=margins, name=name, digest=digest)
            with clear_errors(path):
                write_file(path, canonical(monitor.to_json()).encode())
        return monitor.status()


def load_state(path: Path, region: Region) -> RegionMonitor:
    """Read the monitor from a state file."""
    return from_json(read_limited(path, REGION_LIMIT, "monitor state"), region)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a path: a separate file next to it, because the state file itself is replaced."""
    lock = path.with_name(path.name + ".lock")
    with clear_errors(lock):  # only around the lock, not around the work under it
        file = lock.open("a")
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]  # Windows only
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
    with file:
        yield
