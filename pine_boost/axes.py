"""Where a plot is drawn: the axes that a user gave, or those of a new figure.

In comes what a user passed as ``ax``; out go matplotlib Axes. Refuses where matplotlib is missing.
"""

from __future__ import annotations

from typing import Any

from pine_boost.errors import MissingDependencyError


def given_or_new(ax: Any) -> Any:
    """The axes themselves, or those of a new figure where there are none."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingDependencyError("A plot needs matplotlib; install pine-boost[plot].") from error
    return pyplot.subplots(figsize=(6, 4), layout="constrained")[1]
