"""The region on real tables and real models: every kind of table, every library, every edge."""

from dataclasses import replace

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from scipy import sparse

from pine_boost.errors import InvalidInputError
from pine_boost.model.routing import route
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import build_space
from pine_boost.options import SCORE_NAMES
from pine_boost.parsers import read_model
from pine_boost.proof.cpsat.encoding import encode_region
from pine_boost.region import Region, fit_region
from pine_boost.region.score_tables import PairTable, ScoreTables
from tests.support.bruteforce import all_states
from tests.support.forests import random_forest, random_rows
from tests.support.grids import feature_edges

NAMES = ["age", "income", "rate"]


def _data(n_rows=600):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(n_rows, 3)), 1)
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0.1).astype(int)
    return X, y


def _xgboost(X, y):
    import xgboost

    return xgboost.XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1).fit(X, y)


def _lightgbm(X, y):
    import lightgbm

    return lightgbm.LGBMClassifier(n_estimators=12, num_leaves=8, n_jobs=1, verbosity=-1, min_child_samples=5).fit(X, y)


def _sklearn(X, y):
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(n_estimators=12, max_depth=3, random_state=0).fit(X, y)


def _native_leaves(model, X):
    if type(model).__module__.startswith("lightgbm"):
        leaves = model.booster_.predict(X, pred_leaf=True, num_threads=1)
    else:
        leaves = model.apply(X)
    return np.asarray(leaves).reshape(len(X), -1)


LIBRARIES = [
    pytest.param(_xgboost, id="xgboost"),
    pytest.param(_lightgbm, id="lightgbm"),
    pytest.param(_sklearn, id="sklearn"),
]


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("train", LIBRARIES)
def test_a_value_on_an_edge_falls_where_the_native_trees_put_it(train, score):
    """Along one feature the native leaves change exactly where the model's states do.

    Two neighbouring floats around each threshold, the threshold itself: values that the native
    library sends to the same leaves of every tree have the same state of the model and so the same
    bin of Chow-Liu and the same Leaf Support; the isolation forest adds edges of its own.
    """
    X, y = _data()
    model = train(X, y)
    forest = read_model(model).forest
    region = fit_region(forest, X[:300], X[300:], alpha=0.1, score=score)
    base = build_space(forest)
    for feature in range(3):
        values = np.sort(feature_edges(forest, feature))
        values = values[np.abs(values) < 1e20]  # NaN and what scikit-learn refuses go
        rows = np.tile(X[:1], (len(values), 1))
        rows[:, feature] = values
        native = _native_leaves(model, rows)
        changes = np.any(native[1:] != native[:-1], axis=1)
        # other features are fixed, so a state may change without a leaf, never the reverse
        moved = base.states(rows)[1:, feature] != base.states(rows)[:-1, feature]
        assert changes.any()
        assert not np.any(changes & ~moved)
        on_edge = np.isin(values, forest.threshold[forest.feature == feature])
        assert on_edge.sum() >= 2
        scores = region.score(rows)
        if score == "leaf-support":
            assert np.array_equal(scores[1:][~changes], scores[:-1][~changes])
        if score == "chow-liu":
            assert np.array_equal(scores[1:][~moved], scores[:-1][~moved])
            _check_bin_edges(region, model, forest, X, feature)
        # the tables over states have the same edges as the kernel
        assert np.array_equal(region.score_tables.score(region.states(rows)), scores)


def _check_bin_edges(region, model, forest, X, feature):
    """Each boundary between bins is a threshold t: t itself is in the bin of t's native side."""
    bins = region.score_tables.bins[feature]
    axis = region.space.axes[feature]
    boundaries = axis.edges[np.flatnonzero(np.diff(bins[: axis.n_intervals]))]
    assert len(boundaries) >= 2
    is_split = (forest.kind == SplitKind.NUMERIC) & (forest.feature == feature)
    for threshold in boundaries:
        assert np.any(forest.threshold[is_split] == threshold)
        step = np.abs(threshold) * 1e-6 + 1e-9
        rows = np.repeat(X, 3, axis=0)
        rows[:, feature] = np.tile([threshold - step, threshold, threshold + step], len(X))
        native = _native_leaves(model, rows).reshape(len(X), 3, -1)
        below, above = (np.all(native[:, 1] == native[:, k]) for k in (0, 2))
        left, on, right = bins[region.space.states(rows[:3])[:, feature]]
        assert left != right
        assert below != above  # natively the threshold belongs to one side
        assert on == (left if below else right)


def _tables_of(kind, X):
    if kind == "pandas":
        return pandas.DataFrame(X, columns=NAMES)
    if kind == "polars":
        return polars.DataFrame(dict(zip(NAMES, X.T, strict=True)))
    if kind == "pyarrow":
        return pyarrow.table(dict(zip(NAMES, X.T, strict=True)))
    if kind == "sparse":
        return sparse.csr_matrix(np.nan_to_num(X))
    return X.tolist() if kind == "list" else X


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "sparse", "list", "numpy"])
@pytest.mark.parametrize("train", LIBRARIES[:2])
def test_every_kind_of_table_gives_the_same_region(train, kind):
    X, y = _data()
    model = train(pandas.DataFrame(X, columns=NAMES), y)
    forest = read_model(model).forest
    dense = X
    if kind == "sparse" and train is _xgboost:
        dense = np.where(X == 0, np.nan, X)  # an absent entry is missing there, zero in LightGBM
    table = _tables_of(kind, X)
    expected = fit_region(forest, dense[:300], dense[300:], alpha=0.1)
    fit, cal = (_tables_of(kind, part) for part in (X[:300], X[300:]))
    region = fit_region(forest, fit, cal, alpha=0.1)
    assert region == expected
    assert np.array_equal(region.contains(table), expected.contains(dense))
    assert np.array_equal(region.score(table), expected.score(dense))
    assert np.array_equal(region.states(table), expected.states(dense))
    assert 0 < region.coverage(table).n_inside < len(X)


def test_one_row_of_every_kind_is_explained():
    X, y = _data()
    forest = read_model(_xgboost(pandas.DataFrame(X, columns=NAMES), y)).forest
    region = fit_region(forest, X[:300], X[300:], alpha=0.1)
    odd = X[:1].copy()
    odd[0, 1] = np.nan
    expected = region.explain(odd)
    assert not expected.inside
    assert expected.reasons[0].features == ("income",)
    frame = pandas.DataFrame(odd, columns=NAMES)
    rows = [odd[0], odd[0].tolist(), tuple(odd[0].tolist()), frame]
    rows += [_tables_of("polars", odd), _tables_of("pyarrow", odd)]
    for row in rows:
        assert region.explain(row) == expected
    # a Series has lost the types of its columns; the message says how to keep them
    with pytest.raises(InvalidInputError, match=r"one row: X.iloc\[\[i\]\]"):
        region.explain(frame.iloc[0])


def test_wrong_columns_are_refused_in_every_call():
    X, y = _data()
    forest = read_model(_xgboost(pandas.DataFrame(X, columns=NAMES), y)).forest
    region = fit_region(forest, X[:300], X[300:], alpha=0.1)
    wrong = pandas.DataFrame(X, columns=["age", "income", "height"])
    for call in (region.contains, region.score, region.coverage, region.states):
        with pytest.raises(InvalidInputError, match="height"):
            call(wrong)
    with pytest.raises(InvalidInputError, match="height"):
        fit_region(forest, wrong[:300], X[300:], alpha=0.1)
    with pytest.raises(InvalidInputError, match="height"):
        fit_region(forest, X[:300], wrong[300:], alpha=0.1)


@pytest.mark.parametrize("cycle", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_users_own_pairs_in_numpy_and_in_the_solver(seed, cycle):
    """Any graph of pairs, not only a tree; negative costs, two tables of one pair."""
    from tests.support.encoding import solver_members

    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 3, 2, 3, n_thresholds=3)
    space = build_space(forest)
    graph = [(0, 1), (1, 2), (2, 0), (1, 0)] if cycle else [(2, 1), (0, 1)]
    score = _random_score(rng, space, graph)
    X = random_rows(rng, forest, 400)
    region = fit_region(forest, X[:200], X[200:], alpha=0.3, score=score)
    assert region.score_name == "custom"
    everything = all_states(space)
    expected = _scores_by_hand(score, everything)
    assert np.array_equal(region.tables.score.score(everything), expected)
    for tau in (region.tau, region.tau - 1, int(expected.min())):
        tables = replace(region.tables, tau=tau)
        inside = tables.contains(everything)
        assert np.array_equal(inside, tables.permits(everything) & (expected <= tau))
        members = {tuple(row) for row in everything[inside].tolist()}
        assert solver_members(forest, space, tables) == members
    again = Region.from_json(region.to_json())
    assert again == region
    assert encode_region(space, again.tables, route(forest, space)).feasible


def _random_score(rng, space, graph):
    bins = tuple(np.arange(n) // 2 for n in space.n_states)
    counts = [int(b.max()) + 1 for b in bins]
    unary = tuple(rng.integers(-50, 50, count) for count in counts)
    pairs = tuple(PairTable(i, j, rng.integers(-100, 100, (counts[i], counts[j]))) for i, j in graph)
    return ScoreTables(bins, unary, pairs, scale=7)


def _scores_by_hand(score, states):
    total = []
    for row in states:
        bins = [int(table[state]) for table, state in zip(score.bins, row, strict=True)]
        cost = sum(int(unary[b]) for unary, b in zip(score.unary, bins, strict=True))
        cost += sum(int(pair.cost[bins[pair.first], bins[pair.second]]) for pair in score.pairs)
        total.append(cost)
    return np.array(total)
