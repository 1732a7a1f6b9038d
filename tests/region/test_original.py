"""Which model a region takes for its original, and what it says without it."""

from dataclasses import replace

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError
from pine_boost.model.rules import SplitKind
from pine_boost.region import Region, fit_region
from tests.support.forests import random_forest, random_rows


def _problem():
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 12, 3, 4, categorical=(1,))
    return forest, random_rows(rng, forest, 1000)


def _fit(forest, X, **options):
    return fit_region(forest, X[:500], X[500:], alpha=0.1, **options)


def test_a_region_with_indifference_explains_nothing_without_the_model():
    forest, X = _problem()
    region = _fit(forest, X, indifference=0.05)
    undecided = X[~region.contains(X, model=forest) & region.tables.contains(region.states(X))]
    assert len(undecided) > 0
    assert not region.explain(undecided[0], model=forest).inside
    with pytest.raises(InvalidInputError, match="pass model="):
        region.explain(undecided[0])


@pytest.mark.parametrize("indifference", [0.0, 0.05])
def test_only_the_original_is_taken_for_the_original(indifference):
    forest, X = _problem()
    region = _fit(forest, X, indifference=indifference)
    leaf = np.flatnonzero(forest.kind == SplitKind.LEAF)[0]
    value = forest.value.copy()
    value[leaf] = np.nextafter(value[leaf], 9)
    other = replace(forest, value=value)
    explain = lambda X, model: region.explain(X[0], model=model)  # noqa: E731 - one of three
    for ask in (region.contains, region.coverage, explain):
        ask(X[:3], model=forest)
        with pytest.raises(InvalidInputError, match="digest differs"):
            ask(X[:3], model=other)


def test_a_model_with_a_threshold_is_read_with_it():
    from sklearn import ensemble

    from pine_boost.parsers import read_model

    rng = np.random.default_rng(1)
    X = rng.normal(size=(900, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=900) > 0).astype(int)
    model = ensemble.RandomForestClassifier(n_estimators=8, max_depth=4, random_state=0, n_jobs=1)
    model.fit(X[:300], y[:300])
    parsed = read_model(model, threshold=0.3)
    region = fit_region(parsed, X[300:600], X[600:], alpha=0.2, indifference=0.05)
    inside = region.contains(X, model=parsed)
    assert np.array_equal(region.contains(X, model=model), inside)
    again = Region.from_json(region.to_json())
    assert np.array_equal(again.contains(X, model=model), inside)
