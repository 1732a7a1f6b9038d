"""What fitting a region hands on: the states of X_fit, converted once."""

from __future__ import annotations

import numpy as np
import pytest

from pine_boost.options import SCORE_NAMES
from pine_boost.region import Domain, fit_region
from pine_boost.region.fitting import fit_with_states
from tests.support.forests import MANNERS, Manner, random_forest, random_rows

pytest.importorskip("sklearn")


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("manner", MANNERS)
def test_the_states_of_x_fit_come_with_the_region(manner: Manner, score: str) -> None:
    rng = np.random.default_rng(5)
    forest = random_forest(rng, 4, 3, 3, manner=manner, categorical=(1,))
    X_fit, X_cal = random_rows(rng, forest, 150), random_rows(rng, forest, 60)
    fitted = fit_with_states(forest, X_fit, X_cal, alpha=0.2, score=score)
    assert np.array_equal(fitted.fit_states, fitted.region.states(X_fit))
    assert fitted.region == fit_region(forest, X_fit, X_cal, alpha=0.2, score=score)


def test_without_tables_there_are_possible_inputs_to_begin_with() -> None:
    forest = random_forest(np.random.default_rng(6), 4, 3, 3)
    domain = Domain(never_missing=True, lower={0: 0.0})
    fitted = fit_with_states(forest, alpha=0, domain=domain)
    assert len(np.unique(fitted.fit_states, axis=0)) > 10
    assert fitted.region.tables.contains(fitted.fit_states).all()
