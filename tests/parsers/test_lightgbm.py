"""LightGBM into the IR and back; the native library is the only truth, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from pine_boost.exporters import export
from pine_boost.model.reference import find_leaves, native_margins
from pine_boost.model.rules import SplitKind
from pine_boost.parsers import read_model
from pine_boost.parsers.lightgbm.read import read_lightgbm
from pine_boost.parsers.lightgbm.write import write_document
from tests.support.grids import grid_forest, integer_margins

lgb = pytest.importorskip("lightgbm")

from tests.support.lightgbm_models import BASE, CONFIGS, raw, rows_for, table, trained  # noqa: E402  (needs lightgbm)


@pytest.mark.parametrize("name", CONFIGS)
def test_margins_and_leaves_equal_the_native_ones(name: str) -> None:
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
def test_text_is_written_back_byte_for_byte(name: str) -> None:
    text = trained(name).model_to_string().encode()
    assert write_document(read_lightgbm(text).document) == text


@pytest.mark.parametrize("name", CONFIGS)
def test_decision_gives_the_native_class(name: str) -> None:
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
def test_export_of_everything_is_the_integer_sum(name: str) -> None:
    booster = trained(name)
    before = booster.model_to_string()
    model = read_lightgbm(booster)
    pruned = grid_forest(model.forest)
    written = export(model, pruned)
    X = rows_for(model.forest)
    expected = integer_margins(pruned, X) / 2.0**pruned.grid
    np.testing.assert_array_equal(raw(written, X), expected)
    single = np.vstack([raw(written, row[None]) for row in X[:20]])
    np.testing.assert_array_equal(single, expected[:20])
    # 8 roundings to 2**-40 and a slope of at most 1/2 of the probability per margin
    assert np.abs(written.predict(X) - booster.predict(X)).max() < 2.0**-35
    assert written.num_trees() == booster.num_trees()
    assert booster.model_to_string() == before


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(2))
def test_drop_and_reweight_against_native_leaf_indices(name: str, seed: int) -> None:
    """The sum is taken over leaf indices that the original reports, not over our own walk."""
    booster = trained(name)
    model = read_lightgbm(booster)
    forest = model.forest
    random = np.random.default_rng(seed)
    weights = random.choice([0.0, 0.0, 0.5, 1.0, 1.7], forest.n_trees)
    pruned = grid_forest(forest, weights)
    written = export(model, pruned)
    X = rows_for(forest)
    leaf = booster.predict(X, pred_leaf=True, num_threads=1).reshape(len(X), -1)
    total = np.tile(pruned.intercept_int, (len(X), 1))
    for tree in pruned.kept:
        nodes = np.arange(forest.tree_offset[tree], forest.tree_offset[tree + 1])
        leaf_nodes = nodes[forest.kind[nodes] == SplitKind.LEAF]
        total[:, forest.tree_output[tree]] += pruned.value_int[leaf_nodes[leaf[:, tree]], 0]
    np.testing.assert_array_equal(raw(written, X), total / 2.0**pruned.grid)
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
def test_nothing_kept_leaves_the_intercept(name: str) -> None:
    model = read_lightgbm(trained(name))
    pruned = grid_forest(model.forest, np.zeros(model.forest.n_trees))
    written = export(model, pruned)
    margins = raw(written, table()[0][:5])
    assert np.any(pruned.intercept_int)
    np.testing.assert_array_equal(margins, np.tile(pruned.intercept_int / 2.0**pruned.grid, (5, 1)))


def test_one_class_tree_kept_makes_constant_trees_of_the_others() -> None:
    model = read_lightgbm(trained("multiclass"))
    weights = np.zeros(model.forest.n_trees)
    weights[4] = 2.0  # class 1 of round 1
    written = export(model, grid_forest(model.forest, weights))
    assert written.num_trees() == 3
    info = [tree["num_leaves"] for tree in written.dump_model()["tree_info"]]
    assert info[0] == info[2] == 1
    assert info[1] > 1


def test_prior_is_split_off_the_first_round() -> None:
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


def test_constant_model_of_one_leaf() -> None:
    X, y, _ = table()
    booster = lgb.train({**BASE, "objective": "binary"}, lgb.Dataset(np.zeros((len(X), 1)), y), 3)
    model = read_lightgbm(booster)
    assert model.forest.n_trees == 1
    assert model.forest.tree_bias[0] == model.forest.value[0, 0]
    np.testing.assert_array_equal(native_margins(model.forest, X[:3, :1]), raw(booster, X[:3, :1]))
    pruned = grid_forest(model.forest)
    written = export(model, pruned)
    assert raw(written, X[:1, :1])[0, 0] == pruned.value_int[0, 0] / 2.0**pruned.grid


def test_threads_and_sparse_rows_agree_with_the_export() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    model = read_lightgbm(trained("zero_as_missing"))
    pruned = grid_forest(model.forest)
    written = export(model, pruned)
    X = np.nan_to_num(table()[0])
    expected = integer_margins(pruned, X)[:, 0] / 2.0**pruned.grid
    assert not model.forest.sparse_zero_is_missing
    csr = sparse.csr_matrix(X)
    np.testing.assert_array_equal(written.predict(csr, raw_score=True), expected)
    np.testing.assert_array_equal(written.predict(X, raw_score=True, num_threads=2), expected)


def test_float32_input_is_widened_exactly() -> None:
    booster = trained("binary")
    forest = read_lightgbm(booster).forest
    X = rows_for(forest)
    with np.errstate(over="ignore"):
        X32 = X.astype(np.float32)
    native = booster.predict(X32, raw_score=True, num_threads=1)
    np.testing.assert_array_equal(native_margins(forest, X32.astype(np.float64))[:, 0], native)
