"""Matplotlib plots of results: the best size over time, and the tested sizes of a compression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pine_boost.errors import needing
from pine_boost.options import plural

if TYPE_CHECKING:
    from pine_boost.compression.record import CompressionRecord
    from pine_boost.search.search_result import Moment


def given_or_new(ax: Any) -> Any:
    """The Axes given by the user, or those of a new figure."""
    if ax is not None:
        return ax
    with needing("A plot needs matplotlib", "plot"):
        from matplotlib import pyplot
    return pyplot.subplots(figsize=(6, 4), layout="constrained")[1]


def plot_history(history: tuple[Moment, ...], units_before: int, unit: str, seconds: float, ax: Any = None) -> Any:
    """Plot the smallest size proved once and twice over the seconds of a search; returns the Axes."""
    ax = given_or_new(ax)
    end = max([seconds, *(moment.seconds for moment in history)])
    for proofs, label, style in ((1, "proved once", ":"), (2, "proved twice", "-")):
        moments = [moment for moment in history if moment.proofs >= proofs]
        sizes, smallest = [], units_before
        for moment in moments:
            smallest = min(smallest, moment.units)
            sizes.append(smallest)
        times = [0.0, *(moment.seconds for moment in moments), end]
        values = [units_before, *sizes, smallest]
        ax.plot(times, values, drawstyle="steps-post", linestyle=style, marker=".", label=label)
    bounds = [0.0, *(moment.seconds for moment in history), end]
    needed = [1, *(moment.lower_bound for moment in history)]
    ax.plot(bounds, [*needed, needed[-1]], drawstyle="steps-post", color="grey", linewidth=1, label="at least")
    ax.set_ylim(0, 1.05 * units_before)
    ax.set_xlabel("seconds")
    ax.set_ylabel(f"{plural(unit)} of the best model")
    ax.legend()
    return ax


def plot_path(record: CompressionRecord, ax: Any = None) -> Any:
    """Plot the tested sizes, their bounds and the target; returns the Axes."""
    ax = given_or_new(ax)
    path, unit = record.path, record.minimize
    costs = [size.cost for size in path]
    ax.plot(costs, [1 - size.n_changed / record.n_val for size in path], marker="o", label="kept on X_val")
    label = f"exact bound, confidence {record.confidence:g}"
    ax.plot(costs, [size.bound for size in path], marker=".", linestyle=":", label=label)
    if record.fidelity is not None:
        ax.axhline(record.fidelity, color="grey", linewidth=1, label=f"target {record.fidelity:g}")
    chosen = record.returned()
    if chosen is not None:
        kept = 1 - chosen.n_changed / record.n_val
        star = {"marker": "*", "markersize": 14, "linestyle": "", "color": "tab:green"}
        ax.plot([chosen.cost], [kept], label=f"returned: {chosen.cost:.0f} {unit}", **star)
    ax.set_xlabel(f"{unit} (original: {record.minimized[0]:.0f})")
    ax.set_ylabel("share of answers kept")
    ax.legend()
    return ax
