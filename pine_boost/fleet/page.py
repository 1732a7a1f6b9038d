"""The summary of a fleet: one table for people, one for machines.

In come rows; out go an HTML page without scripts or requests, and CSV. Failures come first; nothing
is promised here, every job's own certificate does that.
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import asdict, fields

from pine_boost._version import __version__
from pine_boost.fleet.work import FAILED, Policy, Row
from pine_boost.report.style import STYLE

_GOOD = ("CERTIFIED", "VALIDATED")
# how both files begin, by which a later run knows its own
CSV_START = ",".join(entry.name for entry in fields(Row)).encode()
PAGE_START = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Fleet: """


def summary_csv(rows: Sequence[Row]) -> bytes:
    """One line per job."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=[entry.name for entry in fields(Row)])
    writer.writeheader()
    for row in rows:
        writer.writerow(asdict(row))
    return text.getvalue().encode()


def summary_page(rows: Sequence[Row], policy: Policy) -> str:
    """A page of all jobs, failures first."""
    failed = [row for row in rows if row.status == FAILED]
    good = [row for row in rows if row.status in _GOOD]
    before, after = (sum(getattr(r, f"leaves_{when}") or 0 for r in good) for when in _WHEN)
    shrunk = f", {before:,} → {after:,} leaves in all" if before else ""
    options = ", ".join(f"{name}={value}" for name, value in sorted(policy.options.items()))
    badge = "warn" if failed else "good"
    words = f"{len(failed)} failed" if failed else "none failed"
    return f"""{PAGE_START.decode()}{len(rows)} models</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>
<body><main>
<span class="badge {badge}">{words}</span>
<h1>{len(rows)} models, {len(good)} smaller with a promise of their own{shrunk}</h1>
<p class="kind">{html.escape(policy.method)} {html.escape(options)} · pine_boost {__version__}</p>
{_failures(failed)}<section><h2>All jobs</h2><div class="scroll"><table><thead><tr>
<th>job</th><th>status</th><th>trees</th><th>leaves</th><th>seconds</th><th></th></tr></thead>
<tbody>{"".join(_line(row) for row in rows)}</tbody></table></div>
<p class="note">What is promised of a model, and under which conditions, says the certificate or
record in its own folder.</p></section>
</main></body></html>
"""


_WHEN = ("before", "after")


def _failures(failed: Sequence[Row]) -> str:
    if not failed:
        return ""
    items = "".join(f"<tr><td>{html.escape(row.name)}</td><td>{html.escape(row.error)}</td></tr>" for row in failed)
    return f"<section><h2>Failed</h2><table><tbody>{items}</tbody></table></section>\n"


def _line(row: Row) -> str:
    name = html.escape(row.name)
    link = name if row.status == FAILED or row.leaves_after is None else (f'<a href="{name}/">{name}</a>')
    badge = "good" if row.status in _GOOD else "warn"
    again = "done before" if row.done_before else ""
    return (
        f'<tr><td>{link}</td><td><span class="badge {badge}">{html.escape(row.status)}</span></td>'
        f"<td>{_change(row.trees_before, row.trees_after)}</td>"
        f"<td>{_change(row.leaves_before, row.leaves_after)}</td>"
        f"<td>{row.seconds:.1f}</td><td>{again}</td></tr>\n"
    )


def _change(before: int | None, after: int | None) -> str:
    return "" if before is None or after is None else f"{before:,} → {after:,}"
