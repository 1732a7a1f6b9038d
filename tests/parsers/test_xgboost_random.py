"""Hypothesis: random small XGBoost documents and rows against the native library."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.exporters import export
from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from pine_boost.parsers.xgboost.document import XGBoostDocument
from pine_boost.parsers.xgboost.intercept import constant_document
from pine_boost.parsers.xgboost.trees import Trees
from pine_boost.parsers.xgboost.ubjson import read_ubjson, write_ubjson
from pine_boost.parsers.xgboost.write import write_document
from tests.support.grids import edge_rows, grid_forest, integer_margins

xgboost = pytest.importorskip("xgboost")

N_FEATURES = 3
THRESHOLDS = [0.0, -0.0, 0.1, -1.5, 1e-45, -1e-40, 3.4e38, 16777216.0, 0.30000001192092896]
leaves = st.floats(-8, 8, width=32)
thresholds = st.one_of(st.sampled_from(THRESHOLDS), st.floats(-3, 3, width=32))


def _grow(draw):
    """One tree: a leaf, some leaf split, and so on; columns of the nodes and their sets."""
    left, feature, condition, default, categorical = [-1], [0], [draw(leaves)], [0], [0]
    sets = [[]]
    for _ in range(draw(st.integers(0, 5))):
        open_leaves = [i for i, child in enumerate(left) if child < 0]
        node = draw(st.sampled_from(open_leaves))
        left[node] = len(left)
        feature[node] = draw(st.integers(0, N_FEATURES - 1))
        default[node] = draw(st.integers(0, 1))
        # the last feature is categorical, the others numeric
        categorical[node] = int(feature[node] == N_FEATURES - 1)
        if categorical[node]:
            sets[node] = sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=5)))
        condition[node] = draw(thresholds)
        for _ in range(2):
            left.append(-1)
            feature.append(0)
            condition.append(draw(leaves))
            default.append(0)
            categorical.append(0)
            sets.append([])
    return (left, feature, condition, default, categorical), sets


@st.composite
def forests(draw, n_trees):
    """The trees of a document, grown by splitting random leaves."""
    grown = [_grow(draw) for _ in range(n_trees)]
    sizes = [len(table[0]) for table, _ in grown]
    categories = [codes for _, sets in grown for codes in sets]
    offset = np.concatenate([[0], np.cumsum(sizes)])
    left, feature, condition, default, categorical = (
        np.concatenate([np.array(table[k]) for table, _ in grown]) for k in range(5)
    )
    left = np.where(left < 0, -1, left + np.repeat(offset[:-1], sizes))
    numbers = condition.astype(np.float32)
    return Trees(
        offset=offset,
        left=left,
        right=np.where(left < 0, -1, left + 1),
        split_index=feature,
        condition=numbers,
        default_left=default == 1,
        is_categorical=categorical == 1,
        base_weight=numbers,
        loss_change=np.zeros_like(numbers),
        sum_hessian=np.zeros_like(numbers),
        category_offset=np.concatenate([[0], np.cumsum([len(s) for s in categories])]),
        category=np.array([c for s in categories for c in s], dtype=np.int64),
    )


@st.composite
def documents(draw):
    """A document of one to four random trees."""
    n_outputs = draw(st.sampled_from([1, 3]))
    n_trees = draw(st.integers(1, 4))
    trees = draw(forests(n_trees))
    output = draw(st.lists(st.integers(0, n_outputs - 1), min_size=n_trees, max_size=n_trees))
    objective = {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "1"}}
    score = draw(st.floats(np.float32(0.01), np.float32(0.99), width=32))
    if n_outputs == 3:
        objective = {"name": "multi:softprob", "softmax_multiclass_param": {"num_class": "3"}}
    return XGBoostDocument(
        file_format=draw(st.sampled_from(["json", "ubj"])),
        version=(3, 2, 0),
        objective=objective,
        base_score=(score,),
        n_classes=0 if n_outputs == 1 else 3,
        n_features=N_FEATURES,
        trees=trees,
        tree_output=np.array(output),
        round_offset=np.array([0, n_trees]),
        n_parallel=1,
        weight_drop=None,
        feature_names=("a", "größe", "c d"),
        feature_types=("float", "float", "c"),
        attributes={},
        cats=None,
        boost_from_average="1",
        leaf_vector_size=1,
    )


def margins_of(booster, rows):
    data = xgboost.DMatrix(rows, nthread=1, feature_names=booster.feature_names, feature_types=["float", "float", "c"])
    return booster.predict(data, output_margin=True).reshape(len(rows), -1)


@settings(max_examples=120, deadline=None)
@given(documents(), st.integers(0, 2**32 - 1))
def test_random_model_reads_and_exports_exactly(document, seed):
    random = np.random.default_rng(seed)
    contents = write_document(document, document.file_format)
    booster = xgboost.Booster({"nthread": 1}, model_file=bytearray(contents))
    rows = random.normal(size=(20, N_FEATURES))
    rows[:, 2] = random.integers(0, 45, len(rows))
    model = read_model(contents)
    probe = edge_rows(model.forest, rows, limit=12, seed=seed)
    np.testing.assert_array_equal(native_margins(model.forest, probe), margins_of(booster, probe))
    weights = random.choice([0.0, 0.5, 1.0, -1.25], model.forest.n_trees)
    pruned = grid_forest(model.forest, weights)
    exported = xgboost.Booster({"nthread": 1}, model_file=bytearray(export(model, pruned)))
    expected = np.ldexp(integer_margins(pruned, probe).astype(float), -pruned.grid)
    np.testing.assert_array_equal(margins_of(exported, probe), expected.astype(np.float32))


@settings(max_examples=60, deadline=None)
@given(documents())
def test_rewriting_a_document_changes_no_byte(document):
    contents = write_document(document, document.file_format)
    again = read_model(contents).document
    assert write_document(again, document.file_format) == contents


def test_a_chain_of_depth_two_hundred():
    depth = 200
    n_nodes = 2 * depth + 1
    inner = np.arange(n_nodes) % 2 == 0
    inner[-1] = False
    left = np.where(inner, np.arange(n_nodes) + 1, -1)
    right = np.where(inner, np.arange(n_nodes) + 2, -1)
    numbers = np.linspace(-1, 1, n_nodes).astype(np.float32)
    document = constant_document({"name": "binary:hinge"}, 0.0)
    trees = Trees(
        offset=np.array([0, n_nodes]),
        left=left,
        right=right,
        split_index=np.zeros(n_nodes, dtype=np.int64),
        condition=numbers,
        default_left=np.ones(n_nodes, dtype=bool),
        is_categorical=np.zeros(n_nodes, dtype=bool),
        base_weight=numbers,
        loss_change=numbers * 0,
        sum_hessian=numbers * 0,
        category_offset=np.zeros(n_nodes + 1, dtype=np.int64),
        category=np.zeros(0, dtype=np.int64),
    )
    contents = write_document(replace(document, trees=trees), "ubj")
    model = read_model(contents)
    rows = edge_rows(model.forest, np.zeros((1, 1)), limit=2000)
    booster = xgboost.Booster({"nthread": 1}, model_file=bytearray(contents))
    native = booster.predict(xgboost.DMatrix(rows), output_margin=True)
    np.testing.assert_array_equal(native_margins(model.forest, rows)[:, 0], native)
    assert len(np.unique(native)) == depth + 1


values = st.recursive(
    st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text("abc", max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(values)
def test_ubjson_round_trip(value):
    assert read_ubjson(write_ubjson(value)) == value


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "i8", "f4", "f8"])
def test_ubjson_typed_arrays_keep_their_type(dtype):
    array = np.array([0, 1, 100], dtype=dtype)
    again = read_ubjson(write_ubjson({"a": array, "b": array[:0]}))
    assert again["a"].dtype == array.dtype
    assert again["b"].dtype == array.dtype
    np.testing.assert_array_equal(again["a"], array)
