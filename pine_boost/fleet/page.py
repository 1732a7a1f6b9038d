"""The summary of a fleet: an HTML page for people and CSV for programs; failures come first."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields

from pine_boost._version import __version__
from pine_boost.fleet.work import FAILED, Policy, Row
from pine_boost.report.pages import beginning_of, render

_GOOD = ("CERTIFIED", "VALIDATED")
# how both files begin, by which a later run recognises its own
CSV_START = ",".join(entry.name for entry in fields(Row)).encode()
PAGE_START = beginning_of("Fleet: ")


def summary_csv(rows: Sequence[Row]) -> bytes:
    """One line per job."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=[entry.name for entry in fields(Row)])
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue().encode()


def summary_page(rows: Sequence[Row], policy: Policy) -> str:
    """A page of all jobs."""
    good = [row for row in rows if row.status in _GOOD]
    before, after = (sum(getattr(row, f"leaves_{when}") or 0 for row in good) for when in ("before", "after"))
    options = ", ".join(f"{name}={value}" for name, value in sorted(policy.options.items()))
    return render(
        "fleet.html",
        f"Fleet: {len(rows)} models",
        rows=[asdict(row) for row in rows],
        failed=[(row.name, row.error) for row in rows if row.status == FAILED],
        good=_GOOD,
        n_good=len(good),
        shrunk=f", {before:,} → {after:,} leaves in all" if before else "",
        what=f"{policy.method} {options}".strip(),
        version=__version__,
    )
