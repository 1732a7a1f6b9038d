"""Why an input lies outside a region: true changes, in words."""

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError
from pine_boost.model.reference import native_margins
from pine_boost.region import Domain
from tests.support.regions import fitted_region, forest_and_rows


def test_explanations_name_the_surprising_part():
    forest, X = forest_and_rows()
    X[:, 3] = np.abs(X[:, 3])
    region = fitted_region(forest, X, domain=Domain(lower={3: 0.0}))
    odd = X[int(np.argmax(region.score(X)))]
    told = region.explain(odd)
    assert not told.inside
    assert told.score == region.score([odd])[0]
    assert told.score > region.tau
    excess = [reason.excess for reason in told.reasons]
    assert excess == sorted(excess, reverse=True)
    assert excess[0] > 0
    assert all(name.startswith("f") for reason in told.reasons for name in reason.features)
    assert "outside the region" in str(told)
    likely = region.explain(X[int(np.argmin(region.score(X)))])
    assert likely.inside
    assert sum(r.excess for r in likely.reasons) < sum(excess)
    beyond = np.array([0.0, 1.0, 0.0, -1e6])
    impossible = region.explain(beyond)
    assert impossible.reasons[0].features == ("f3",)
    assert impossible.reasons[0].excess == np.inf
    with pytest.raises(InvalidInputError, match="one row"):
        region.explain(X[:2])


@pytest.mark.parametrize("score", ["leaf-support", "isolation-forest"])
def test_explanations_of_tree_scores_are_true_changes(score):
    forest, X = forest_and_rows()
    region = fitted_region(forest, X, score=score)
    odd = int(np.argmax(region.score(X)))
    told = region.explain(X[odd])
    assert told.reasons
    name = told.reasons[0].features[0]
    states = np.tile(region.states(X[odd : odd + 1]), (region.space.axes[int(name[1:])].n_states, 1))
    states[:, int(name[1:])] = np.arange(len(states))
    assert region.score_tables is not None
    best = region.score_tables.score(states).min()
    assert told.reasons[0].excess == (told.score - best) / region.score_tables.scale


def test_an_undecided_original_is_a_reason():
    forest, X = forest_and_rows()
    region = fitted_region(forest, X, indifference=0.05, alpha=0.2)
    distance = np.abs(native_margins(forest, X)[:, 0] - region.cuts[0])
    told = region.explain(X[int(np.argmin(distance))], model=forest)
    assert not told.inside
    assert told.reasons[0].text.startswith("the original is undecided")
