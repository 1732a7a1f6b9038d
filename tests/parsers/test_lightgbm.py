"""LightGBM reader against the native library, bit for bit, and where its label changes."""

import itertools
import struct

import lightgbm as lgb
import numpy as np
import pytest
from scipy import sparse

from pine_boost.errors import InvalidInputError, MalformedModelError, UnsupportedModelError
from pine_boost.exporters import export
from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.reference import find_leaves, native_margins
from pine_boost.model.rules import MissingRule, SplitKind
from pine_boost.parsers import read_model
from pine_boost.parsers.lightgbm.read import class_gap, one_against_all_guard, read_lightgbm, read_objective
from pine_boost.parsers.lightgbm.write import write_document
from tests.support.grids import grid_forest, integer_margins
from tests.support.lightgbm_models import BASE, CONFIGS, raw, rows_for, table, trained
from tests.support.lightgbm_texts import leaf, split, text_of


@pytest.mark.parametrize("name", CONFIGS)
def test_margins_and_leaves_equal_the_native_ones(name):
    booster = trained(name)
    forest = read_model(booster).forest
    X = rows_for(forest)
    leaves = find_leaves(forest, X)
    n_inner = np.array(
        [
            np.count_nonzero(forest.kind[a:b] != SplitKind.LEAF)
            for a, b in zip(forest.tree_offset[:-1], forest.tree_offset[1:], strict=True)
        ]
    )
    native_leaves = booster.predict(X, pred_leaf=True, num_threads=1).reshape(len(X), -1)
    np.testing.assert_array_equal(leaves - forest.tree_offset[:-1] - n_inner, native_leaves)
    np.testing.assert_array_equal(native_margins(forest, X), raw(booster, X))
    single = np.vstack([raw(booster, row[None]) for row in X[:40]])
    np.testing.assert_array_equal(native_margins(forest, X[:40]), single)


@pytest.mark.parametrize("name", CONFIGS)
def test_text_is_written_back_byte_for_byte(name):
    text = trained(name).model_to_string().encode()
    assert write_document(read_lightgbm(text).document) == text


@pytest.mark.parametrize("name", CONFIGS)
def test_decision_gives_the_native_class(name):
    booster = trained(name)
    forest = read_lightgbm(booster).forest
    X = rows_for(forest)
    margins = native_margins(forest, X)
    output = booster.predict(X, num_threads=1)
    if forest.n_outputs == 1:
        np.testing.assert_array_equal(margins[:, 0] > forest.decision.cuts[0], output > 0.5)
    else:
        top = np.sort(margins, axis=1)
        assert np.all(top[:, -1] - top[:, -2] > forest.decision.guard)
        np.testing.assert_array_equal(margins.argmax(axis=1), output.argmax(axis=1))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_drop_and_reweight_against_native_leaf_indices(name, seed):
    """The sum is taken over leaf indices that the original reports, not over our own walk."""
    booster = trained(name)
    model = read_lightgbm(booster)
    forest = model.forest
    random = np.random.default_rng(seed)
    before = booster.model_to_string()
    weights = None if seed is None else random.choice([0.0, 0.0, 0.5, 1.0, 1.7], forest.n_trees)
    pruned = grid_forest(forest, weights)
    written = export(model, pruned)
    assert booster.model_to_string() == before
    X = rows_for(forest)
    leaf = booster.predict(X, pred_leaf=True, num_threads=1).reshape(len(X), -1)
    total = np.tile(pruned.intercept_int, (len(X), 1))
    for tree in pruned.kept:
        nodes = np.arange(forest.tree_offset[tree], forest.tree_offset[tree + 1])
        leaf_nodes = nodes[forest.kind[nodes] == SplitKind.LEAF]
        total[:, forest.tree_output[tree]] += pruned.value_int[leaf_nodes[leaf[:, tree]], 0]
    np.testing.assert_array_equal(raw(written, X), total / 2.0**pruned.grid)
    single = np.vstack([raw(written, row[None]) for row in X[:20]])
    np.testing.assert_array_equal(single, total[:20] / 2.0**pruned.grid)
    if seed is None:  # 8 roundings to 2**-40 and a slope of at most 1/2 of the probability per margin
        assert np.abs(written.predict(X) - booster.predict(X)).max() < 2.0**-35
        assert written.num_trees() == booster.num_trees()
    # probabilities too: the rf exporter must still divide by the original number of rounds
    divisor = forest.n_trees // forest.n_outputs if "rf" in name else 1
    margins = total / 2.0**pruned.grid / divisor
    sigmoid = float(CONFIGS[name].get("sigmoid", 1))
    with np.errstate(over="ignore"):
        if forest.objective == "multiclass":
            expected = np.exp(margins - margins.max(axis=1, keepdims=True))
            expected /= expected.sum(axis=1, keepdims=True)
        else:
            expected = 1 / (1 + np.exp(-sigmoid * margins))
    output = written.predict(X).reshape(len(X), -1)
    np.testing.assert_allclose(output, expected, rtol=1e-12, atol=0)
    if forest.n_outputs == 1:
        np.testing.assert_array_equal(output[:, 0] > 0.5, total[:, 0] > 0)
    again = read_lightgbm(written)
    np.testing.assert_array_equal(native_margins(again.forest, X), total / 2.0**pruned.grid)
    assert write_document(again.document) == written.model_to_string().encode()


@pytest.mark.parametrize("name", ["binary", "rf", "multiclass", "ova"])
def test_nothing_kept_leaves_the_intercept(name):
    model = read_lightgbm(trained(name))
    pruned = grid_forest(model.forest, np.zeros(model.forest.n_trees))
    written = export(model, pruned)
    margins = raw(written, table()[0][:5])
    assert np.any(pruned.intercept_int)
    np.testing.assert_array_equal(margins, np.tile(pruned.intercept_int / 2.0**pruned.grid, (5, 1)))


def test_one_class_tree_kept_makes_constant_trees_of_the_others():
    model = read_lightgbm(trained("multiclass"))
    weights = np.zeros(model.forest.n_trees)
    weights[4] = 2.0  # class 1 of round 1
    written = export(model, grid_forest(model.forest, weights))
    assert written.num_trees() == 3
    info = [tree["num_leaves"] for tree in written.dump_model()["tree_info"]]
    assert info[0] == info[2] == 1
    assert info[1] > 1


def test_prior_is_split_off_the_first_round():
    y = table()[1]
    prior = np.log(y.mean() / (1 - y.mean()))
    bias = read_lightgbm(trained("binary")).forest.tree_bias
    assert abs(bias[0] - prior) < 1e-5 * abs(prior)
    assert not np.any(bias[1:])
    assert not np.any(read_lightgbm(trained("no_prior")).forest.tree_bias)
    log_prior = np.log(np.bincount(table()[2]) / len(y))
    bias = read_lightgbm(trained("multiclass")).forest.tree_bias
    np.testing.assert_allclose(bias[:3], log_prior, rtol=1e-5)
    assert not np.any(bias[3:])


def test_constant_model_of_one_leaf():
    X, y, _ = table()
    booster = lgb.train({**BASE, "objective": "binary"}, lgb.Dataset(np.zeros((len(X), 1)), y), 3)
    model = read_lightgbm(booster)
    assert model.forest.n_trees == 1
    assert model.forest.tree_bias[0] == model.forest.value[0, 0]
    np.testing.assert_array_equal(native_margins(model.forest, X[:3, :1]), raw(booster, X[:3, :1]))
    pruned = grid_forest(model.forest)
    written = export(model, pruned)
    assert raw(written, X[:1, :1])[0, 0] == pruned.value_int[0, 0] / 2.0**pruned.grid


def test_threads_and_sparse_rows_agree_with_the_export():
    model = read_lightgbm(trained("zero_as_missing"))
    pruned = grid_forest(model.forest)
    written = export(model, pruned)
    X = np.nan_to_num(table()[0])
    expected = integer_margins(pruned, X)[:, 0] / 2.0**pruned.grid
    assert not model.forest.sparse_zero_is_missing
    csr = sparse.csr_matrix(X)
    np.testing.assert_array_equal(written.predict(csr, raw_score=True), expected)
    np.testing.assert_array_equal(written.predict(X, raw_score=True, num_threads=2), expected)


def test_float32_input_is_widened_exactly():
    booster = trained("binary")
    forest = read_lightgbm(booster).forest
    X = rows_for(forest)
    with np.errstate(over="ignore"):
        X32 = X.astype(np.float32)
    native = booster.predict(X32, raw_score=True, num_threads=1)
    np.testing.assert_array_equal(native_margins(forest, X32.astype(np.float64))[:, 0], native)


SIGMOIDS = ("1", "2", "0.5", "0.7", "3", "10", "0.1", "0.123457", "1e-05", "37.5")


def constant_model(value, sigmoid, n_averaged):
    """The text of a binary model whose margin is this value; the mean of some trees where there are any."""
    blocks = [leaf(value)] + [leaf(0.0)] * (n_averaged - 1)
    return text_of(blocks, f"binary sigmoid:{sigmoid}", average=n_averaged > 0)


def probability(text):
    return lgb.Booster(model_str=text).predict(np.zeros((1, 1)), num_threads=1)[0]


def largest_without(is_one, highest=1.0):
    """The largest double in [0, highest] for which ``is_one`` is still false, by bisection."""
    low, high = 0, struct.unpack("<q", struct.pack("<d", highest))[0]
    while high - low > 1:
        middle = (low + high) // 2
        if is_one(struct.unpack("<d", struct.pack("<q", middle))[0]):
            high = middle
        else:
            low = middle
    return float(struct.unpack("<d", struct.pack("<q", low))[0])


@pytest.mark.parametrize("sigmoid", SIGMOIDS)
@pytest.mark.parametrize("n_averaged", [0, 3, 7])
def test_binary_cut_is_the_native_boundary(sigmoid, n_averaged):
    def is_one(value):
        p = probability(constant_model(value, sigmoid, n_averaged))
        return bool(np.argmax([1.0 - p, p]) == 1)  # as LGBMClassifier does

    boundary = largest_without(is_one)
    decision = read_lightgbm(constant_model(1.0, sigmoid, n_averaged).encode()).forest.decision
    assert abs(decision.cuts[0] - boundary) <= decision.guard
    if sigmoid == "1" and n_averaged == 0:
        assert decision.cuts[0] == boundary
        assert decision.guard == 0


@pytest.mark.parametrize("threshold", [0.5, 0.1, 0.9, 0.3333, 0.999, 1e-6, 1 - 1e-9])
@pytest.mark.parametrize("sigmoid", ["1", "0.7", "3"])
@pytest.mark.parametrize("n_averaged", [0, 7])
def test_threshold_cut_covers_the_native_boundary(threshold, sigmoid, n_averaged):
    text = constant_model(1.0, sigmoid, n_averaged)
    decision = read_lightgbm(text.encode(), threshold=threshold).forest.decision
    assert decision.thresholds == (threshold,)
    sign = 1.0 if decision.cuts[0] >= 0 else -1.0
    for compare in (np.greater, np.greater_equal):
        boundary = sign * largest_without(
            lambda x: (
                bool(compare(probability(constant_model(sign * x, sigmoid, n_averaged)), threshold)) == (sign > 0)  # noqa: B023
            ),
            1e4,
        )
        assert abs(decision.cuts[0] - boundary) <= decision.guard
    assert decision.guard < 1e-4 * (1 + abs(decision.cuts[0]))


@pytest.mark.parametrize("gap", [0.0, 2.0**-55, 2.0**-53, 2.0**-52, 2.0**-51, 2.0**-47])
@pytest.mark.parametrize("average", [False, True])
def test_softmax_order_beyond_the_guard(gap, average):
    random = np.random.default_rng(3)
    for base in (0.0, *random.normal(size=15) * 4):
        values = np.array([base, base + gap, base - 1.0])
        text = text_of([leaf(v) for v in values.tolist()], "multiclass num_class:3", 3, average)
        forest = read_lightgbm(text.encode()).forest
        native = int(np.argmax(probability(text)))
        if values[1] - values[0] > forest.decision.guard:
            assert native == 1
        assert native in (0, 1)


@pytest.mark.parametrize("sigmoid", ["1", "0.3", "4"])
@pytest.mark.parametrize("score", [-600.0, -30.0, -1.0, 0.0, 1.0, 8.0, 20.0, 25.0])
def test_one_against_all_order_beyond_the_guard(sigmoid, score):
    base = score / float(sigmoid)
    blocks = [leaf(base), leaf(base), leaf(base - 1)]
    text = text_of(blocks, f"multiclassova num_class:3 sigmoid:{sigmoid}", 3)
    scores = np.array([base, base, base - 1])
    line = f"multiclassova num_class:3 sigmoid:{sigmoid}"
    guard = class_gap(read_objective(line, 3), 1, scores, scores)  # without the headroom
    assert guard < read_lightgbm(text.encode()).forest.decision.guard
    for factor in (1.01, 2.0, 7.3):
        for winner in (0, 1):
            values = [base, base, base - 1]
            values[winner] += factor * guard
            blocks = [leaf(v) for v in values]
            text = text_of(blocks, f"multiclassova num_class:3 sigmoid:{sigmoid}", 3)
            assert int(np.argmax(probability(text))) == winner


def test_one_against_all_that_saturates_is_refused():
    text = text_of([leaf(40.0), leaf(50.0), leaf(0.0)], "multiclassova num_class:3 sigmoid:1", 3)
    assert int(np.argmax(probability(text))) == 0  # both are 1.0: the lower score wins natively
    with pytest.raises(UnsupportedModelError, match="multiclass"):
        read_lightgbm(text.encode())
    with pytest.raises(UnsupportedModelError):
        one_against_all_guard(1.0, np.array([-800.0, -900.0]), np.array([-800.0, -900.0]))


@pytest.mark.parametrize("decision_type", [0, 2, 4, 6, 8, 10])
@pytest.mark.parametrize(
    "threshold",
    [
        "0",
        "-0",
        "1",
        "-1",
        "1.0000000180025095e-35",
        "-1.0000000180025095e-35",
        "5e-324",
        "2e-35",
        "-2e-35",
        "inf",
        "-inf",
        "1e300",
        "0.1",
    ],
)
def test_every_missing_type_default_side_and_threshold(decision_type, threshold):
    edge = float(threshold)
    values = [
        edge,
        np.nextafter(edge, np.inf),
        np.nextafter(edge, -np.inf),
        np.nan,
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        LIGHTGBM_ZERO,
        -LIGHTGBM_ZERO,
        np.nextafter(LIGHTGBM_ZERO, 1),
        np.nextafter(-LIGHTGBM_ZERO, -1),
        1e-36,
        -1e-36,
        1.0,
        -1.0,
        3.0,
        np.inf,
        -np.inf,
        1e308,
    ]
    X = np.array(values)[:, None]
    text = text_of([split(threshold, decision_type)], "binary sigmoid:1")
    forest = read_lightgbm(text.encode()).forest
    assert MissingRule(forest.missing[0]).name == ("NAN_IS_ZERO", "ZERO_IS_MISSING", "DEFAULT")[decision_type >> 2]
    native = lgb.Booster(model_str=text).predict(X, raw_score=True, num_threads=1)
    np.testing.assert_array_equal(native_margins(forest, X)[:, 0], native)


@pytest.mark.parametrize("decision_type", [1, 3, 5, 7, 9, 11])
@pytest.mark.parametrize("words", ["5", "4294967295", "0 1", "2147483648 0 3"])
def test_every_kind_of_category(decision_type, words):
    special = [
        -0.5,
        -1.0,
        -0.0,
        1e-36,
        1.9,
        np.nan,
        np.inf,
        -np.inf,
        1e300,
        -1e300,
        2.0**31 - 1,
        2.0**31,
        2.0**31 + 2,
        2.0**32,
        2.0**32 + 2,
        2.0**53,
        -(2.0**31),
        -(2.0**32) + 1,
    ]
    X = np.array([*range(100), *special])[:, None]
    text = text_of([split("0", decision_type, words)], "binary sigmoid:1")
    forest = read_lightgbm(text.encode()).forest
    native = lgb.Booster(model_str=text).predict(X, pred_leaf=True, num_threads=1)
    np.testing.assert_array_equal(find_leaves(forest, X) - 1, native.reshape(-1, 1))


def test_a_threshold_for_several_classes_is_refused():
    several = text_of([leaf(1.0)] * 3, "multiclass num_class:3", 3).encode()
    with pytest.raises(InvalidInputError, match="per-class"):
        read_lightgbm(several, threshold=0.5)


def test_several_thresholds_make_bands():
    text = text_of([leaf(1.0)], "binary sigmoid:2").encode()
    forest = read_lightgbm(text, threshold=(0.25, 0.5, 0.75)).forest
    assert forest.classes == (0, 1, 2, 3)
    np.testing.assert_allclose(forest.decision.cuts, [-np.log(3) / 2, 0, np.log(3) / 2])


def test_objectives_without_classes_need_a_threshold():
    names = (
        "regression",
        "regression sqrt",
        "poisson",
        "lambdarank",
        "cross_entropy_lambda",
        "cross_entropy",
        "quantile",
        "something_new",
    )
    for name in names:
        text = text_of([leaf(1.5), leaf(0.25)], name).encode()
        with pytest.raises(UnsupportedModelError, match=name.split()[0]):
            read_lightgbm(text)
        if name != "cross_entropy":
            forest = read_lightgbm(text, threshold=1.5).forest
            assert forest.decision.cuts == (1.5,)
            assert forest.decision.guard == 0
            assert forest.classes == (0, 1)
    average = text_of([leaf(1.5), leaf(0.25)], "regression", average=True)
    forest = read_lightgbm(average.encode(), threshold=0.875).forest
    assert probability(average) == 0.875
    assert forest.decision.cuts == (1.75,)  # of the sum
    custom = text_of([leaf(1.0)] * 2, "regression", 2).encode()
    with pytest.raises(UnsupportedModelError, match="outputs"):
        read_lightgbm(custom, threshold=0.5)


@pytest.mark.parametrize(
    ("line", "num_class"),
    [
        ("binary", 1),
        ("binary sigmoid:0", 1),
        ("binary sigmoid:-1", 1),
        ("binary sigmoid:nan", 1),
        ("binary sigmoid:1", 2),
        ("multiclass num_class:3", 2),
        ("multiclass num_class:1", 1),
        ("multiclassova num_class:3", 3),
        ("binary sigmoid:1 x:2", 1),
        ("binary sigmoid:1e999", 1),
    ],
)
def test_damaged_objectives_are_refused(line, num_class):
    with pytest.raises(MalformedModelError, match="objective"):
        read_objective(line, num_class)


def test_margin_sums_run_in_file_order():
    for order in itertools.permutations([1e16, 1.0, -1e16, 3.0]):
        text = text_of([leaf(v) for v in order], "binary sigmoid:1")
        native = lgb.Booster(model_str=text).predict(np.zeros((1, 1)), raw_score=True)
        assert native_margins(read_lightgbm(text.encode()).forest, np.zeros((1, 1))) == native
