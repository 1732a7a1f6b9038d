"""The proved distance from the decision: no native input beyond it changes its class."""

from fractions import Fraction

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble

import pine_boost
from pine_boost.compression.distance import exact_distance, prove_distance, rounded_up
from pine_boost.native.predict import predict_classes, predict_margins
from pine_boost.parsers import read_model
from tests.support.grids import edge_rows
from tests.support.native_models import make_table
from tests.support.xgboost_models import edit_trees, leaves_of

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

KINDS = {
    "xgboost": (lambda: xgboost.XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1), 2),
    "xgboost classes": (lambda: xgboost.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1), 3),
    "lightgbm": (lambda: lightgbm.LGBMClassifier(n_estimators=12, num_leaves=6, n_jobs=1, verbose=-1), 2),
    "forest": (lambda: ensemble.RandomForestClassifier(8, max_depth=4, random_state=0), 3),
}


@pytest.fixture(scope="module", params=KINDS)
def both(request):
    make, n_classes = KINDS[request.param]
    X, y = make_table(n_classes, n_rows=1000, missing=False)
    model = make().fit(X[:600], y[:600])
    result = pine_boost.compress_booster(model, X[:600], X[600:], fidelity=0.85)
    assert result.leaves_after < result.leaves_before
    return X, result.original, result.compressed, result.record


def _farthest_change(X, before, after):
    """The largest distance at which a class changes natively, over rows mixed from edges."""
    rng = np.random.default_rng(0)
    edges = np.concatenate([X, edge_rows(before.forest, X[:4], limit=20)])
    edges = edges[np.isfinite(edges).all(axis=1)]
    mixed = np.stack([rng.permutation(np.tile(column, 8)) for column in edges.T], axis=1)
    rows = np.concatenate([edges, mixed])
    changed = predict_classes(before, rows) != predict_classes(after, rows)
    assert changed.any()
    margins, _ = predict_margins(before, rows)
    return float(before.forest.decision.distance(margins)[changed].max())


def test_no_input_beyond_the_distance_changes(both):
    X, before, after, record = both
    seen = _farthest_change(X, before, after)
    trees = _compared(before.forest, after.forest, record)
    found = exact_distance(before.forest, after.forest, trees)
    distance, largest = found
    assert seen <= distance <= largest
    assert record.proved_distance is None or record.proved_distance >= distance
    # another choice of trees is looser or tighter, and never wrong
    n_trees = before.forest.n_trees
    for other in (range(len(trees)), range(n_trees - len(trees), n_trees)):
        another = exact_distance(before.forest, after.forest, tuple(other))
        assert seen <= another[0]


def _compared(original, smaller, record):
    if record.proved_trees:
        return tuple(record.proved_trees)
    return tuple(range(int(np.count_nonzero(np.diff(smaller.tree_offset) > 1))))


def test_a_model_is_no_distance_from_itself(both):
    _, before, *_ = both
    every = tuple(range(before.forest.n_trees))
    found = exact_distance(before.forest, before.forest, every)
    assert found[0] < 1e-4 * found[1]  # the roundings of both
    proved = prove_distance(before.forest, before.forest, every)
    assert found[0] <= proved[0] <= 1.0001 * float(found[0])


def test_numbers_by_hand():
    """One split whose two leaves become +1: below it the class changes, at its own distance."""
    X = np.array([[-1.0], [1.0]] * 20)
    model = xgboost.XGBClassifier(
        n_estimators=1, max_depth=1, learning_rate=1.0, reg_lambda=0.0, base_score=0.5, n_jobs=1
    ).fit(X, (X[:, 0] > 0).astype(int))
    before = read_model(model)
    low, high = sorted(before.forest.value[before.forest.left < 0, 0])
    assert low < 0 < high

    def make_all_one(trees):
        for node in leaves_of(trees[0]):
            trees[0]["split_conditions"][node] = 1.0

    after = read_model(edit_trees(model.get_booster(), make_all_one))
    found = exact_distance(before.forest, after.forest, (0,))
    assert abs(float(found[0]) + low) < 1e-5
    assert abs(float(found[1]) - max(high, -low)) < 1e-5


def test_what_cannot_be_compared_is_not_said(both):
    _, before, after, record = both
    trees = _compared(before.forest, after.forest, record)
    reversed_ones = [trees[::-1]] * (len(trees) > 1)
    for wrong in ((*trees, before.forest.n_trees), (-1, *trees[1:]), trees[1:], *reversed_ones):
        assert exact_distance(before.forest, after.forest, wrong) is None


@pytest.mark.parametrize("number", [Fraction(1, 3), Fraction(10**9 + 1, 7), Fraction(1, 10**12)])
def test_rounding_goes_up(number):
    rounded = rounded_up(number)
    assert number <= rounded <= number * (1 + Fraction(2, 10**5))
    assert len(repr(float(rounded)).replace(".", "").strip("0")) <= 10
