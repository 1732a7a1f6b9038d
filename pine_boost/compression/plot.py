"""The path as a curve: share of answers kept against leaves left, with bounds and the target.

In comes a record; out goes a matplotlib Axes. Draws only what was tested.
"""

from __future__ import annotations

from typing import Any

from pine_boost.axes import given_or_new
from pine_boost.compression.record import FIRST_CHAIN, CompressionRecord


def plot_path(record: CompressionRecord, ax: Any = None) -> Any:
    """Draw the tested sizes; returns the Axes."""
    ax = given_or_new(ax)
    path = [size for size in record.path if size.chain == FIRST_CHAIN]
    leaves = [size.leaves for size in path]
    kept = [1 - size.n_changed / record.n_val for size in path]
    ax.plot(leaves, kept, marker="o", label="kept on X_val")
    ax.plot(
        leaves,
        [size.bound for size in path],
        marker=".",
        linestyle=":",
        label=f"exact bound, confidence {record.confidence:g}",
    )
    ax.axhline(record.fidelity, color="grey", linewidth=1, label=f"target {record.fidelity:g}")
    accepted = [size for size in record.path if size.accepted]
    if accepted:
        chosen = min(accepted, key=lambda size: size.leaves)
        ax.plot(
            [chosen.leaves],
            [1 - chosen.n_changed / record.n_val],
            marker="*",
            markersize=14,
            linestyle="",
            color="tab:green",
            label=f"returned: {chosen.leaves} leaves",
        )
    ax.set_xlabel(f"leaves (original: {record.leaves_before})")
    ax.set_ylabel("share of answers kept")
    ax.legend()
    return ax
