"""The inequalities of exact.py, searched for violations; grids on which native sums are exact."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import xgboost
from hypothesis import example, given, settings, target
from hypothesis import strategies as st

from pine_boost.model import exact
from pine_boost.model.forest import Decision
from pine_boost.model.grid import fold_intercept, native_grid
from pine_boost.model.reference import native_margins
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import forest_subtrees
from pine_boost.proof.problem import required_int
from tests.support.bruteforce import exact_margins
from tests.support.forests import LIGHTGBM, MANNERS, XGBOOST, random_forest, random_rows
from tests.support.grids import grid_forest, integer_margins

DETERMINISTIC = settings(derandomize=True, deadline=None, max_examples=100)
FLOAT_TYPES = (np.float32, np.float64)
magnitudes = st.floats(-1e6, 1e6, allow_nan=False, width=32)


def _constants(leaves, intercept=0.0, arithmetic=np.float32):
    """A forest of single-leaf trees: its margin is one fixed sum."""
    return replace(
        random_forest(np.random.default_rng(0), len(leaves), depth=0, n_features=1),
        value=np.asarray(leaves, dtype=arithmetic).astype(np.float64)[:, None],
        intercept=np.array([float(arithmetic(intercept))]),
        arithmetic=arithmetic,
        decision=Decision((0.0,)),
    )


def _rounding_error(forest):
    native = Fraction(native_margins(forest, np.zeros((1, 1)))[0, 0].item())
    return abs(native - exact_margins(forest, np.zeros((1, 1)))[0][0])


@pytest.mark.parametrize("arithmetic", FLOAT_TYPES)
def test_no_sum_leaves_the_band(arithmetic):
    @DETERMINISTIC
    @given(st.lists(magnitudes, min_size=1, max_size=40), magnitudes)
    @example([1e6] * 40, 0.3)
    @example([2.0**-24] * 40, 1.0)
    @example([2.0**-24 * 3, -1.0, 1.0] * 12, 2.0**24)
    def search(leaves, intercept):
        forest = _constants(leaves, intercept, arithmetic)
        band = Fraction(exact.summation_band(forest))
        error = _rounding_error(forest)
        assert error <= band
        if band:
            target(float(error / band))

    search()


@pytest.mark.parametrize("arithmetic", FLOAT_TYPES)
def test_no_climb_leaves_the_band(arithmetic):
    """Change one leaf at a time so that the error, as a share of the band, grows."""
    rng = np.random.default_rng(0)
    unit = exact.UNIT_ROUNDOFF[arithmetic]
    largest = Fraction(0)
    for _ in range(4):
        # 1 + half an ulp each time is the textbook worst case; start near it
        leaves = np.concatenate([[1.0], rng.choice([1.0, 1.5, 0.75, 3.0], 11) * unit])
        best = Fraction(0)
        for _ in range(80):
            trial = leaves.copy()
            place = rng.integers(len(leaves))
            trial[place] *= rng.choice([0.5, 2.0, 1 + 2.0**-9, 1 - 2.0**-9, -1.0])
            forest = _constants(trial, 0.0, arithmetic)
            band = Fraction(exact.summation_band(forest))
            error = _rounding_error(forest)
            assert error <= band
            share = error / band if band else Fraction(0)
            if share >= best:
                leaves, best = trial, share
        largest = max(largest, best)
    assert largest > Fraction(1, 2)  # the search comes close, so it could have found a violation


@pytest.mark.parametrize("manner", MANNERS, ids=lambda m: f"{m.library}-{m.comparison.name}")
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_band_of_forests(manner, n_outputs):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        forest = random_forest(rng, 12, 3, 4, n_outputs, manner=manner, categorical=(2,))
        value = forest.value * 10.0 ** rng.integers(-4, 5, size=forest.value.shape)
        value = value.astype(forest.arithmetic).astype(np.float64)
        forest = replace(forest, value=value)
        X = random_rows(rng, forest, 80)
        band = Fraction(exact.summation_band(forest))
        assert band > 0
        sums = exact_margins(forest, X)
        for native, true in zip(native_margins(forest, X).tolist(), sums, strict=True):
            for a, b in zip(native, true, strict=True):
                assert abs(Fraction(a) - b) <= band


@pytest.mark.parametrize("arithmetic", FLOAT_TYPES)
def test_exact_means_exact_in_any_order(arithmetic):
    rng = np.random.default_rng(1)
    precision = exact.PRECISION[arithmetic]
    n_exact = 0
    for _ in range(80):
        grid = int(rng.integers(0, 12))
        room = int(rng.integers(precision - 8, precision + 2))  # around the limit
        leaves = rng.integers(-(2**room) // 16, 2**room // 16 + 1, size=16) / 2.0**grid
        leaves = leaves.astype(arithmetic).astype(np.float64)
        forest = _constants(leaves, 0.0, arithmetic)
        if not exact.is_exact(forest):
            continue
        n_exact += 1
        assert exact.summation_band(forest) == 0.0
        for _ in range(3):
            shuffled = _constants(rng.permutation(leaves), 0.0, arithmetic)
            assert _rounding_error(shuffled) == 0
    assert 10 < n_exact < 80


def test_slack_is_never_exact_and_widens_the_band():
    forest = _constants([1.0, 0.5])
    assert exact.is_exact(forest)
    slack = replace(forest, slack=1e-3)
    assert not exact.is_exact(slack)
    assert exact.summation_band(slack) >= 1e-3


@DETERMINISTIC
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=6))
@example([0.0, -0.0])
@example([5e-324])
@example([2.0**-60, 3 * 2.0**-60])
@example([2.0**-61])
@example([1.7976931348623157e308])
def test_dyadic_exponent(numbers):
    denominator = max([Fraction(number).denominator for number in numbers], default=1)
    exponent = denominator.bit_length() - 1
    found = exact.dyadic_exponent(np.array(numbers, dtype=np.float64))
    assert found == (None if exponent > 60 else exponent)


@DETERMINISTIC
@given(st.floats(1e-30, 1e38), st.sampled_from([2**23, 2**52, exact.ROW_LIMIT // 4]))
def test_integer_scale_is_the_largest_that_fits(row_sum, limit):
    scale = exact.integer_scale(row_sum, limit)
    assert scale <= 60
    # the logarithm may round: at most one part in 2**40 beyond, and callers leave half free
    assert Fraction(row_sum) * Fraction(2) ** scale <= limit * (1 + Fraction(1, 2**40))
    if scale < 60:
        assert Fraction(row_sum) * Fraction(2) ** (scale + 1) >= limit * (1 - Fraction(1, 2**40))


def test_one_grid_unit_clears_every_cut_and_guard():
    finest32, finest64 = 2.0 ** -exact.MAX_GRID[np.float32], 2.0 ** -exact.MAX_GRID[np.float64]
    assert finest32 > exact.XGBOOST_LOGISTIC_CUT
    assert finest32 / 2 > exact.SOFTMAX_GUARD_FLOAT32
    assert finest64 > exact.LIGHTGBM_BINARY_CUT
    assert finest64 / 2 > exact.SOFTMAX_GUARD_FLOAT64


@pytest.mark.parametrize("manner", MANNERS, ids=lambda m: f"{m.library}-{m.comparison.name}")
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_pruned_margins_are_integers_over_the_grid(manner, n_outputs):
    """The written leaves, added in native floats in three orders, give the solver's integers."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        forest = random_forest(rng, 12, 3, 4, n_outputs, manner=manner, categorical=(2,))
        pruned = grid_forest(forest, rng.uniform(0, 2, 12) * (rng.random(12) < 0.7))
        X = random_rows(rng, forest, 100)
        expected = np.ldexp(integer_margins(pruned, X).astype(np.float64), -pruned.grid)
        for order in (np.arange(12), np.arange(12)[::-1], rng.permutation(12)):
            assert np.array_equal(_float_sums(pruned, X, order), expected)


def _float_sums(pruned, X, order):
    """Margins of a pruned forest in the native float type, trees added in the given order."""
    forest = pruned.forest
    value = np.ldexp(pruned.value_int.astype(np.float64), -pruned.grid)
    leaves = replace(forest, value=value, intercept=np.zeros(forest.n_outputs))
    from pine_boost.model.reference import find_leaves

    found = find_leaves(leaves, X)
    table = leaves.leaf_vectors().astype(forest.arithmetic)
    constant = np.ldexp(pruned.intercept_int.astype(np.float64), -pruned.grid)
    total = np.tile(constant.astype(forest.arithmetic), (len(X), 1))
    for tree in order:
        total += table[found[:, tree]]
    assert total.dtype == forest.arithmetic
    return total


@pytest.mark.parametrize("probability", [1e-3, 0.05, 0.3, 0.5, 0.77, 0.999])
def test_probability_guard_against_the_native_sigmoid(probability):
    """XGBoost's own float32 sigmoid, fed with margins: beyond the guard its side is certain."""
    X = np.array([[0.0], [1.0]])
    booster = xgboost.train(
        {"objective": "binary:logistic", "max_depth": 1, "nthread": 1, "base_score": 0.5},
        xgboost.DMatrix(X, np.array([0.0, 1.0])),
        num_boost_round=1,
    )
    leaf = booster.predict(xgboost.DMatrix(X[:1]), output_margin=True)[0]
    cut = float(np.log(probability / (1 - probability)))
    guard = exact.probability_guard(probability, np.float32)
    steps = np.unique(np.concatenate([np.linspace(-6, 6, 4001) * guard, [-guard, guard]]))
    base = (cut + steps - float(leaf)).astype(np.float32)
    data = xgboost.DMatrix(np.zeros((len(base), 1)), base_margin=base)
    margin = booster.predict(data, output_margin=True).astype(np.float64)
    above = booster.predict(data) > probability
    certain = np.abs(margin - cut) > guard
    assert np.array_equal(above[certain], margin[certain] > cut)
    assert certain.sum() > 2000


def test_required_distance_leaves_room_for_guard_and_rounding():
    plain = _constants([1.0])
    for grid in (0, 5, 20):
        cuts, off = required_int(plain, grid)
        assert (cuts.tolist(), off) == ([0], 1)
    for cut, guard in ((0.3, 1e-6), (-2.2, 1e-9), (1e-3, 0.25)):
        forest = replace(plain, decision=Decision((cut,), guard=guard, thresholds=(0.5,)))
        for grid in (3, 12, 20):
            cuts, off = required_int(forest, grid)
            nearest = Fraction(int(cuts[0]) + off, 2**grid)
            assert nearest - Fraction(cut) > Fraction(guard)
            nearest = Fraction(int(cuts[0]) - off, 2**grid)
            assert Fraction(cut) - nearest > Fraction(guard)


def test_absent_bins_are_told_from_costs_and_add_up_within_a_word():
    n_features, n_pairs_and_trees = 2**22, 2**29
    assert exact.COST_LIMIT < exact.ABSENT
    assert exact.ROW_LIMIT < exact.ABSENT
    absent = n_features * exact.ABSENT
    assert absent + (n_features + n_pairs_and_trees) * exact.COST_LIMIT < 2**63


@pytest.mark.parametrize(("n_classes", "objective"), [(1, "binary:logistic"), (3, "multi:softprob")])
def test_links_err_by_less_than_a_claim_allows_for(n_classes, objective):
    assert 16 * exact.UNIT_ROUNDOFF[np.float32] <= exact.LINK_ERROR
    labels = {"num_class": n_classes} if n_classes > 1 else {}
    data = xgboost.DMatrix(np.zeros((6, 1)), np.arange(6) % max(2, n_classes))
    booster = xgboost.train({"objective": objective, "nthread": 1, **labels}, data, 1)
    base = np.random.default_rng(0).uniform(-20, 20, (200_000, n_classes)).astype(np.float32)
    rows = xgboost.DMatrix(np.zeros((len(base), 1)), base_margin=base)
    margin = booster.predict(rows, output_margin=True).astype(np.float64)
    native = booster.predict(rows)
    if n_classes == 1:
        sure, gap = np.maximum(native, 1 - native), np.abs(margin)
    else:
        second, first = np.sort(native, axis=1)[:, -2:].T
        sure, gap = first / (first + second), np.diff(np.sort(margin, axis=1)[:, -2:])[:, 0]
    off = float(np.abs(sure - 1 / (1 + np.exp(-gap))).max())
    assert off < exact.LINK_ERROR / 2


def test_the_largest_leaf_of_each_tree_and_output_is_of_leaves_or_of_values_given():
    forest = random_forest(np.random.default_rng(0), n_trees=4, n_outputs=2)
    units = np.arange(forest.n_nodes)[:, None] * -1
    own, given_values = exact.largest_leaf(forest), exact.largest_leaf(forest, units)
    for tree in range(forest.n_trees):
        nodes = np.arange(forest.tree_offset[tree], forest.tree_offset[tree + 1])
        leaves = nodes[forest.kind[nodes] == SplitKind.LEAF]
        output = forest.tree_output[tree]
        assert own[tree, output] == np.abs(forest.value[leaves]).max()
        assert given_values[tree, output] == nodes[-1]
        assert own[tree, 1 - output] == given_values[tree, 1 - output] == 0
    assert given_values.dtype == np.int64


def test_sums_below_the_largest_stay_finite_in_any_order():
    unit = exact.UNIT_ROUNDOFF[np.float32]
    assert exact.LARGEST_SUM_FLOAT32 * np.exp(2.0**23 * unit) < exact.FLOAT32_MAX
    terms = np.full(2**12, exact.LARGEST_SUM_FLOAT32 / 2**12, dtype=np.float32)
    assert np.isfinite(np.cumsum(terms, dtype=np.float32)).all()


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("n_kept", [0, 1, 6])
def test_every_margin_grows_by_the_intercept(n_kept, vector):
    forest = random_forest(np.random.default_rng(0), 6, 3, 3, 3, vector_leaves=vector)
    subtrees = forest_subtrees(forest)
    before = forest.value[subtrees.leaf_node]
    after, intercept, kept = before.copy(), np.array([1.0, 2.0, 4.0]), np.arange(n_kept)
    left_over = fold_intercept(forest, subtrees.leaf_tree, after, intercept, kept)
    grown = left_over.copy()
    for tree in kept:  # one leaf of each kept tree: all of its leaves grow alike
        own = slice(subtrees.leaf_offset[tree], subtrees.leaf_offset[tree + 1])
        step = after[own] - before[own]
        assert np.allclose(step, step[0], atol=1e-12)
        grown[slice(None) if vector else forest.tree_output[tree]] += step[0] if vector else step[0, 0]
    assert np.allclose(grown, intercept)
    dropped = ~np.isin(subtrees.leaf_tree, kept)
    assert np.array_equal(after[dropped], before[dropped])


@pytest.mark.parametrize("manner", MANNERS)
def test_sums_on_the_grid_are_exact_and_no_finer_grid_has_the_spare_bits(manner):
    forest = random_forest(np.random.default_rng(1), 8, 3, 3, manner=manner)
    subtrees = forest_subtrees(forest)
    value, left_over = 2.0**20 * forest.value, np.zeros(1)
    grid = native_grid(forest, subtrees.leaf_tree, value[subtrees.leaf_node], left_over, spare_bits=1)
    largest = float(exact.largest_leaf(forest, value).sum())
    room = 2.0 ** (exact.PRECISION[manner.arithmetic] - 1)
    assert largest * 2.0**grid <= room
    assert grid == exact.MAX_GRID[manner.arithmetic] or largest * 2.0 ** (grid + 1) > room
    total_int = exact.largest_leaf(forest, exact.to_units(value, grid)).sum()
    assert manner.arithmetic(total_int) == total_int


def test_a_coarser_limit_holds():
    for manner in (XGBOOST, LIGHTGBM):
        forest = random_forest(np.random.default_rng(1), 2, 2, 3, manner=manner)
        subtrees = forest_subtrees(forest)
        value = forest.value[subtrees.leaf_node]
        assert native_grid(forest, subtrees.leaf_tree, value, np.zeros(1), spare_bits=3, finest=5) == 5
