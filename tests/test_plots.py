"""The anytime curve of a search as a plot."""

from __future__ import annotations

import pytest

from pine_boost.plots import plot_history
from pine_boost.search.search_result import Moment


def test_the_curve_shows_what_was_proved_once_and_twice_and_the_bound() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    history = (Moment(0.1, 12, 1, 1), Moment(0.2, 9, 1, 1), Moment(0.6, 9, 2, 8))
    ax = plot_history(history, 30, "round", 1.0)
    once, twice, bound = ax.get_lines()
    assert list(once.get_xdata()) == [0.0, 0.1, 0.2, 0.6, 1.0]
    assert list(once.get_ydata()) == [30, 12, 9, 9, 9]
    assert list(twice.get_xdata()) == [0.0, 0.6, 1.0]
    assert list(twice.get_ydata()) == [30, 9, 9]
    assert list(bound.get_ydata()) == [1, 1, 1, 8, 8]
    assert ax.get_ylabel() == "rounds of the best model"
    matplotlib.pyplot.close(ax.figure)
