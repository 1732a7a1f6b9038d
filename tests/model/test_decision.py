"""Which side of a cut margins lie on, who wins a tie, and how far off they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pine_boost.model.forest import Decision
from pine_boost.model.rules import Tie


@pytest.mark.parametrize(("tie", "on_cuts"), [(Tie.LOWEST, [0, 1]), (Tie.HIGHEST, [1, 2])])
def test_a_margin_on_a_cut_falls_to_the_side_that_wins_ties(tie: Tie, on_cuts: list[int]) -> None:
    decision = Decision((0.0, 1.0), tie)
    assert decision.classes(np.array([[0.0], [1.0]])).tolist() == on_cuts
    assert decision.classes(np.array([[-0.5], [0.5], [1.5]])).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("tie", "winner"), [(Tie.LOWEST, 0), (Tie.HIGHEST, 1)])
def test_level_classes_fall_to_the_one_that_wins_ties(tie: Tie, winner: int) -> None:
    classes = Decision((), tie).classes(np.array([[2.0, 2.0, 1.0], [0.0, 1.0, 3.0]]))
    assert classes.tolist() == [winner, 2]


@pytest.mark.parametrize("float_type", [np.float32, np.float64])
def test_distances_are_double_whatever_the_margins_are(float_type: Any) -> None:
    cut = Decision((0.1, 2.0)).distance(np.array([[0.5], [1.75]], dtype=float_type))
    assert cut.dtype == np.float64
    assert cut.tolist() == [0.5 - 0.1, 0.25]
    between = Decision(()).distance(np.array([[1.0, -2.0, 4.0]], dtype=float_type))
    assert between.dtype == np.float64
    assert between.tolist() == [3.0]
