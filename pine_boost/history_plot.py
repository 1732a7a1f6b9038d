"""The anytime curve: how small a model was proved by when, once and twice, and the bound.

In comes what a search found; out goes a matplotlib Axes. Draws only what was proved.
"""

from __future__ import annotations

from typing import Any

from pine_boost.axes import given_or_new
from pine_boost.search.search_result import Moment


def plot_history(history: tuple[Moment, ...], units_before: int, unit: str, seconds: float, ax: Any = None) -> Any:
    """Draw the sizes over the seconds of a search; returns the Axes."""
    ax = given_or_new(ax)
    end = max([seconds, *(moment.seconds for moment in history)])
    for proofs, label, style in ((1, "proved once", ":"), (2, "proved twice", "-")):
        moments = [moment for moment in history if moment.proofs >= proofs]
        sizes, smallest = [], units_before
        for moment in moments:
            smallest = min(smallest, moment.units)
            sizes.append(smallest)
        times = [0.0, *(moment.seconds for moment in moments), end]
        ax.plot(
            times, [units_before, *sizes, smallest], drawstyle="steps-post", linestyle=style, marker=".", label=label
        )
    bounds = [0.0, *(moment.seconds for moment in history), end]
    needed = [1, *(moment.lower_bound for moment in history)]
    ax.plot(bounds, [*needed, needed[-1]], drawstyle="steps-post", color="grey", linewidth=1, label="at least")
    ax.set_ylim(0, 1.05 * units_before)
    ax.set_xlabel("seconds")
    ax.set_ylabel(f"{unit}s of the best model")
    ax.legend()
    return ax
