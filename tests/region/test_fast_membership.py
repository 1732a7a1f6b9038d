"""The compiled form of a region gives the same integers as the tables, on every kind of axis."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from pine_boost.errors import MalformedModelError
from pine_boost.kernels.compiled import CompiledTrees
from pine_boost.kernels.numpy_twin import NumpyTrees
from pine_boost.kernels.wellformed_arrays import require_wellformed_region
from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.routing import route
from pine_boost.model.rules import Comparison
from pine_boost.model.states import build_space
from pine_boost.options import SCORE_NAMES
from pine_boost.region import Condition, Domain, Region, fit_region
from pine_boost.region.membership import compile_membership
from pine_boost.region.score_tables import PairTable, RegionTables, ScoreTables, TreeCost, score_of_leaves
from tests.support.forests import LIGHTGBM, MANNER_NAMES, MANNERS, XGBOOST, random_forest, random_rows

TINY = [0.0, -0.0, 1e-36, -1e-36, LIGHTGBM_ZERO, -LIGHTGBM_ZERO, 1e-40, 5e-324]
HUGE = [1e300, -1e300, 3.4028235e38, np.inf, -np.inf]


def _values_around(space, feature):
    """Every edge, its neighbours in both float types, and the odd numbers."""
    axis = space.axes[feature]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        single = axis.edges.astype(np.float32)
        around = [np.nextafter(axis.edges, side) for side in (-np.inf, np.inf)]
        around += [np.nextafter(single, np.float32(side)) for side in (-np.inf, np.inf)]
    odd = [*TINY, *HUGE] if axis.codes is None else [0.0, -1.0, 2.5, 99.0]
    missing = [np.nan] if axis.missing_state >= 0 else []
    return np.concatenate([axis.edges, single, *around, odd, missing])


def _rows_around(rng, forest, space):
    around = [_values_around(space, feature) for feature in range(space.n_features)]
    n_rows = max(300, *(len(values) for values in around))
    X = random_rows(rng, forest, n_rows)
    for feature, values in enumerate(around):
        X[rng.permutation(n_rows)[: len(values)], feature] = values
    return X


def _states_by_the_kernel(space, X, numpy_twin=False):
    """The states of every feature as scores: a cost table that numbers the states."""
    n_states = space.n_states
    found = []
    for feature, count in enumerate(n_states):
        bins = [np.arange(n) if j == feature else np.zeros(n, dtype=np.int64) for j, n in enumerate(n_states)]
        unary = [np.arange(count) if j == feature else np.zeros(1, dtype=np.int64) for j in range(len(n_states))]
        allowed = tuple(np.ones(n, dtype=bool) for n in n_states)
        compiled = compile_membership(space, RegionTables(allowed), ScoreTables(tuple(bins), tuple(unary)))
        found.append((_twin(compiled) if numpy_twin else compiled).score(X))
    return np.stack(found, axis=1)


def _twin(compiled):
    """The same region bound to the kernel in numpy."""
    assert isinstance(compiled.trees, CompiledTrees | NumpyTrees)
    if isinstance(compiled.trees, NumpyTrees):
        return compiled
    return replace(compiled, trees=NumpyTrees(compiled.flat, None, None, compiled.sums))


@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize("n_thresholds", [2, 8, 60, 400])
def test_the_kernel_finds_the_states(manner, n_thresholds):
    rng = np.random.default_rng(n_thresholds)
    forest = random_forest(rng, 40, 5, 4, manner=manner, categorical=(1,), n_thresholds=n_thresholds)
    extra = np.array([*TINY, *HUGE, *rng.normal(size=20)])
    if manner.comparison is Comparison.FLOAT32_LESS:
        with np.errstate(over="ignore", under="ignore"):
            extra = extra.astype(np.float32).astype(np.float64)
    for space in (build_space(forest), build_space(forest, [extra, None, None, extra])):
        X = _rows_around(rng, forest, space)
        assert np.array_equal(_states_by_the_kernel(space, X), space.states(X))
        assert np.array_equal(_states_by_the_kernel(space, X, numpy_twin=True), space.states(X))
        # rows of a Fortran-ordered matrix are the same rows
        assert np.array_equal(_states_by_the_kernel(space, np.asfortranarray(X)), space.states(X))


@pytest.mark.parametrize("kind", ["clustered", "wide", "narrow", "many"])
def test_edges_of_every_spacing(kind):
    rng = np.random.default_rng(0)
    edges = {
        "clustered": np.concatenate([[-1e30, 1e30], rng.normal(size=60)]),
        "wide": np.concatenate([[-3.4e38, 3.4e38], rng.normal(size=30)]),
        "narrow": 1 + np.arange(20) * 2.0**-23,
        "many": rng.normal(size=700) ** 9,
    }[kind]
    for manner in MANNERS:
        forest = random_forest(rng, 2, 0, 2, manner=manner)  # no edges of its own
        own = edges
        if manner is XGBOOST:
            own = edges.astype(np.float32).astype(np.float64)
        space = build_space(forest, [own, own])
        X = _rows_around(rng, forest, space)
        assert np.array_equal(_states_by_the_kernel(space, X), space.states(X))


@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize("depth", [0, 1, 2, 5, 9])
def test_sums_over_trees_are_those_of_the_walk(manner, depth):
    rng = np.random.default_rng(depth)
    early = 0.02 if depth == 9 else 0.15
    forest = random_forest(rng, 9, depth, 4, manner=manner, categorical=(1,), leaf_probability=early)
    space = build_space(forest)
    trees = route(forest, space)
    X = random_rows(rng, forest, 500, missing=0.3 if forest.accepts_missing else 0.0)
    leaves = trees.leaves(space.states(X))
    allowed = tuple(np.ones(n, dtype=bool) for n in space.n_states)
    for value in (
        rng.integers(-1000, 1000, trees.n_leaves),
        rng.integers(0, 2, trees.n_leaves),  # many splits between equal values
        rng.integers(2**29, 2**31, trees.n_leaves),  # sums past 32 bits
        np.zeros(trees.n_leaves, dtype=np.int64),
    ):
        score = score_of_leaves(space, TreeCost(trees, value, True), 1)
        compiled = compile_membership(space, RegionTables(allowed), score)
        assert np.array_equal(compiled.score(X), value[leaves].sum(axis=1))
        assert np.array_equal(_twin(compiled).score(X), value[leaves].sum(axis=1))


def test_a_small_table_over_many_states_is_not_written_out():
    """A region file of a megabyte would otherwise take 7 GB, for one row."""
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 5, 3, 2, manner=XGBOOST)
    space = build_space(forest, [np.arange(30_000.0)] * 2)
    bins = tuple(np.arange(n) % 2 for n in space.n_states)  # no two neighbours alike
    pair = PairTable(0, 1, np.array([[0, 3], [5, 7]]))
    score = ScoreTables(bins, (np.zeros(2, dtype=np.int64),) * 2, (pair,))
    tables = RegionTables(tuple(np.ones(n, dtype=bool) for n in space.n_states), score=score, tau=5)
    X = rng.uniform(-10, 30_010, (200, 2))
    expected = pair.cost[bins[0][space.states(X)[:, 0]], bins[1][space.states(X)[:, 1]]]
    compiled = compile_membership(space, tables, score)
    assert compiled.trees is None
    assert np.array_equal(compiled.score(X), expected)
    assert np.array_equal(compiled.contains(X), expected <= 5)


@pytest.mark.parametrize("rank", [-1, 2**31 - 1, 10_000])
def test_ranks_that_no_library_writes_are_refused(rank):
    region = _region(XGBOOST, "isolation-forest", 3, False)[0]
    document = region.to_json()
    trees = document["score"]["trees"]
    inner = [node for node, left in enumerate(trees["left"]) if left >= 0 and trees["feature"][node] != 1]
    trees["rank"][inner[0]] = rank
    with pytest.raises(MalformedModelError, match="names no threshold"):
        Region.from_json(document)


def test_tables_that_are_too_short_never_reach_the_kernel():
    region = _region(XGBOOST, "chow-liu", 3, True)[0]
    compiled = compile_membership(region.space, region.tables, region.score_tables)
    flat, sums = compiled.flat, compiled.sums
    require_wellformed_region(flat, sums)
    last = int(np.argmax(sums.offset))
    damaged = [
        replace(sums, cost=sums.cost[: sums.offset[last] + 1]),
        replace(sums, offset=sums.offset + len(sums.cost)),
        replace(sums, offset=np.full_like(sums.offset, 2**63 - 1)),
        replace(sums, first=sums.first + np.int32(flat.n_columns)),
        replace(sums, second=sums.second - np.int32(1)),
        replace(sums, width=sums.width * np.int32(1000)),
        replace(sums, group_end=sums.group_end + np.int32(1)),
        replace(sums, limit=sums.limit[:-1]),
        replace(sums, leaf_cost=np.zeros(0, dtype=np.int64)),
        replace(sums, cost=sums.cost.astype(np.int32)),
        replace(sums, cost=np.full_like(sums.cost, 2**62)),
        replace(sums, leaf_cost=np.full_like(sums.leaf_cost, -(2**63))),
    ]
    for wrong in damaged:
        with pytest.raises(MalformedModelError):
            require_wellformed_region(flat, wrong)
    category = int(np.flatnonzero(flat.source_known >= 0)[0])
    place = flat.source_column[category] + 1
    wider = {
        "source_column": flat.source_column + (np.arange(len(flat.source_column)) > category).astype(np.int32),
        "column_base": np.insert(flat.column_base, place, 0).astype(np.int32),
        "column_nan": np.insert(flat.column_nan, place, 0).astype(np.int32),
        "column_zero": np.insert(flat.column_zero, place, -1).astype(np.int32),
    }
    with pytest.raises(MalformedModelError, match="several columns"):
        require_wellformed_region(replace(flat, n_columns=flat.n_columns + 1, **wider), sums)


def _region(manner, score, seed, with_domain):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 12, 4, 4, manner=manner, categorical=(1,), n_thresholds=20)
    X = random_rows(rng, forest, 1200)
    X[:, 2] = np.where(rng.random(1200) < 0.6, X[:, 0], X[:, 2])
    domain = None
    if with_domain:
        domain = Domain(lower={0: -9.0}, forbidden=[(Condition(0, lower=0.5), Condition(3, upper=-0.5))])
        X = X[~(X[:, 0] < -9) & ~((X[:, 0] >= 0.5) & (X[:, 3] <= -0.5))]
    half = len(X) // 2
    region = fit_region(forest, X[:half], X[half:], alpha=0.2, score=score, domain=domain)
    probe = np.concatenate([X, _rows_around(rng, forest, region.space)])
    if manner.comparison is Comparison.FLOAT32_VALUE_LESS_EQUAL:
        # scikit-learn's trees refuse what is no finite float32
        finite = np.abs(probe) <= np.finfo(np.float32).max
        probe = probe[(finite | np.isnan(probe)).all(axis=1)]
    return region, probe


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize("with_domain", [False, True])
def test_compiled_regions_give_the_same_integers(manner, score, with_domain):
    region, probe = _region(manner, score, len(score), with_domain)
    states = region.space.states(probe)
    expected = region.score_tables.score(states)
    inside = region.tables.contains(states)
    assert 0 < inside.sum() < len(probe)
    compiled = compile_membership(region.space, region.tables, region.score_tables)
    for engine in (compiled, _twin(compiled)):
        assert np.array_equal(engine.score(probe), expected)
        for table in (probe, np.asfortranarray(probe)):
            assert np.array_equal(engine.contains(table), inside)
        assert np.array_equal([engine.contains(row[None])[0] for row in probe[:50]], inside[:50])
        assert engine.contains(probe[:0]).shape == (0,)
    # exactly at tau a row is inside, one below it is not
    for tau in np.quantile(expected, [0.05, 0.5, 0.95], method="nearest"):
        tables = replace(region.tables, tau=int(tau))
        shifted = compile_membership(region.space, tables, region.score_tables)
        assert np.array_equal(shifted.contains(probe), tables.contains(states))
    # the public way, for many rows and for few
    many = np.tile(probe, (9, 1))
    assert np.array_equal(region.contains(many), np.tile(inside, 9))
    assert np.array_equal(region.score(many), np.tile(expected, 9))
    assert np.array_equal(region.contains(probe), inside)
    assert np.array_equal(region.score(probe[:1]), expected[:1])
    whole = region.with_alpha(0.0)
    assert np.array_equal(whole.contains(many), whole.tables.contains(whole.space.states(many)))
    assert np.array_equal(whole.score(many), region.score(many))


@pytest.mark.parametrize("n_bins", [2, 16, 40, 300])
def test_pair_tables_of_every_size(n_bins):
    rng = np.random.default_rng(n_bins)
    forest = random_forest(rng, 3, 2, 3, manner=LIGHTGBM, categorical=(2,), n_categories=300)
    edges = np.unique(rng.normal(size=n_bins - 1))
    space = build_space(forest, [edges, edges])
    counts = space.n_states.tolist()
    bins = [np.arange(count) for count in counts]
    bins[2] = np.arange(counts[2]) % 2  # few bins of many categories
    unary = [rng.integers(0, 9, int(b.max()) + 1) for b in bins]
    pairs = [
        PairTable(i, j, rng.integers(0, 2**20, (len(unary[i]), len(unary[j]))))
        for i, j in product(range(3), repeat=2)
        if i != j
    ]
    score = ScoreTables(tuple(bins), tuple(unary), tuple(pairs))
    allowed = tuple(np.ones(count, dtype=bool) for count in counts)
    X = _rows_around(rng, forest, space)
    compiled = compile_membership(space, RegionTables(allowed), score)
    assert np.array_equal(compiled.score(X), score.score(space.states(X)))
    assert compiled.contains(X).all()


def test_a_region_is_compiled_once_and_stays_equal():
    region, probe = _region(XGBOOST, "isolation-forest", 3, False)
    before = region.fingerprint()
    many = np.tile(probe, (9, 1))
    region.contains(many)
    assert region.compiled is region.compiled
    assert region.fingerprint() == before
    assert region == Region.from_json(region.to_json())
    # another alpha is another region: it must not inherit the old threshold
    other = region.with_alpha(0.5)
    assert np.array_equal(other.contains(many), other.score(many) <= other.tau)
    assert other.contains(many).sum() < region.contains(many).sum()
