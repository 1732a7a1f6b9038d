"""Every damaged LightGBM text gives a PineBoostError before any native loader sees it."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.errors import MalformedModelError, PineBoostError
from pine_boost.exporters import export
from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from pine_boost.parsers.lightgbm.read import read_lightgbm
from pine_boost.parsers.lightgbm.write import write_document
from tests.support.grids import edge_rows, grid_forest, integer_margins
from tests.support.malformed_lightgbm import build, generate, in_tree, sound

CORPUS = list(generate())


def test_the_sound_text_is_accepted():
    model = read_model(sound())
    assert model.forest.n_trees == 2
    assert model.forest.n_leaves == 7
    assert model.forest.feature_categories == (None, ("x", "y"))
    np.testing.assert_array_equal(model.forest.categories_of(1), [0, 2, 32])
    # the writer's text reads as the same trees
    assert write_document(read_lightgbm(write_document(model.document)).document) == write_document(model.document)


def test_variations_that_are_sound_are_accepted():
    assert read_lightgbm(in_tree("threshold=0.5", "threshold=inf")).forest.threshold[0] == np.inf
    assert read_lightgbm(in_tree("leaf_weight=10 20 30 40", "leaf_weight=")).forest.n_trees == 2
    assert read_lightgbm(build(monotone_constraints="1 0")).document.monotone_constraints == (1, 0)


def test_corpus_is_large_and_without_repeats():
    assert len(CORPUS) >= 250
    assert len({name for name, _ in CORPUS}) == len(CORPUS)
    assert all(contents != sound() for _, contents in CORPUS)


@pytest.mark.parametrize(("name", "contents"), CORPUS, ids=[name for name, _ in CORPUS])
def test_malformed_text_is_refused(name, contents):
    with pytest.raises(PineBoostError) as caught:
        read_lightgbm(contents)
    assert len(str(caught.value)) > 20
    with pytest.raises(PineBoostError):
        read_model(contents)


def test_deep_chain_is_read_without_recursion():
    n = 20_000
    lines = {
        "num_leaves": [n],
        "num_cat": [0],
        "split_feature": [0] * (n - 1),
        "split_gain": [1] * (n - 1),
        "threshold": list(range(n - 1)),
        "decision_type": [2] * (n - 1),
        "left_child": [~i for i in range(n - 1)],
        "right_child": [*range(1, n - 1), ~(n - 1)],
        "leaf_value": list(range(n)),
        "leaf_weight": [1] * n,
        "leaf_count": [1] * n,
        "internal_value": [0] * (n - 1),
        "internal_weight": [1] * (n - 1),
        "internal_count": [2] * (n - 1),
        "is_linear": [0],
        "shrinkage": [1],
    }
    block = "Tree=0\n" + "".join(f"{k}={' '.join(map(str, v))}\n" for k, v in lines.items()) + "\n\n"
    forest = read_lightgbm(build((block,))).forest
    assert forest.n_nodes == 2 * n - 1
    assert native_margins(forest, np.array([[12.5, 0.0]]))[0, 0] == 13.0


def random_block(rng, index, n_features):
    """A random tree: leaves split at random places, every decision type, odd thresholds."""
    n_leaves = rng.randint(1, 9)
    left, right = [0] * (n_leaves - 1), [0] * (n_leaves - 1)
    where = [None] * n_leaves
    for node in range(n_leaves - 1):
        leaf = rng.randrange(node + 1)
        slot = where[leaf]
        if slot is not None:
            slot[0][slot[1]] = node
        left[node], right[node] = ~leaf, ~(node + 1)
        where[leaf], where[node + 1] = (left, node), (right, node)
    edges = [0.0, -0.0, 1.0000000180025095e-35, -1.0000000180025095e-35, 1.5, -2.25, 5e-324, np.inf]
    types = [rng.choice([0, 1, 2, 4, 6, 8, 9, 10]) for _ in left]
    thresholds = []
    bounds, words = [0], []
    for kind in types:
        if kind & 1:
            thresholds.append(str(len(bounds) - 1))
            words += [rng.getrandbits(32) for _ in range(rng.randint(1, 2))]
            bounds.append(len(words))
        else:
            thresholds.append(repr(rng.choice([*edges, rng.gauss(0, 1)])))
    m = n_leaves - 1
    lines = [
        ("Tree", [index]),
        ("num_leaves", [n_leaves]),
        ("num_cat", [len(bounds) - 1]),
        ("split_feature", [rng.randrange(n_features) for _ in left]),
        ("split_gain", [1] * m),
        ("threshold", thresholds),
        ("decision_type", types),
        ("left_child", left),
        ("right_child", right),
        ("leaf_value", [repr(rng.gauss(0, 1)) for _ in range(n_leaves)]),
        ("leaf_weight", [1] * n_leaves),
        ("leaf_count", [1] * n_leaves),
        ("internal_value", [0] * m),
        ("internal_weight", [1] * m),
        ("internal_count", [2] * m),
    ]
    if words:
        lines += [("cat_boundaries", bounds), ("cat_threshold", words)]
    lines += [("is_linear", [0]), ("shrinkage", [1])]
    return "".join(f"{key}={' '.join(map(str, values))}\n" for key, values in lines) + "\n\n"


@given(seed=st.integers(0, 2**32), n_classes=st.sampled_from([1, 3]), n_rounds=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_random_models_agree_with_the_native_library(seed, n_classes, n_rounds):
    import lightgbm as lgb

    rng = random.Random(seed)
    blocks = tuple(random_block(rng, i, 2) for i in range(n_classes * n_rounds))
    objective = "binary sigmoid:1" if n_classes == 1 else "multiclass num_class:3"
    header = dict.fromkeys(("num_class", "num_tree_per_iteration"), str(n_classes))
    model = read_lightgbm(build(blocks, objective=objective, **header))
    native = lgb.Booster(model_str=write_document(model.document).decode())
    base = np.random.default_rng(seed).normal(size=(20, 2)) * 3
    X = edge_rows(model.forest, base, infinite=True, limit=30, seed=seed)
    expected = native.predict(X, raw_score=True, num_threads=1).reshape(len(X), -1)
    np.testing.assert_array_equal(native_margins(model.forest, X), expected)
    weights = np.random.default_rng(seed).choice([0.0, 0.7, 2.0], model.forest.n_trees)
    pruned = grid_forest(model.forest, weights)
    written = lgb.Booster(model_str=export(model, pruned).decode())
    np.testing.assert_array_equal(
        written.predict(X, raw_score=True, num_threads=1).reshape(len(X), -1),
        integer_margins(pruned, X) / 2.0**pruned.grid,
    )


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b"[learning_rate: 0.1]", b"[learning_rate: often]", "learning_rate"),
        (b"[bagging_fraction: 1]", b"[bagging_fraction: -]", "bagging_fraction"),
        (b"[boosting: gbdt]", b'[boosting: gb"dt]', "boosting"),
        (b"[categorical_feature: ]", b"[categorical_feature: {]", "categorical_feature"),
        (b"[auc_mu_weights: ]", b"[auc_mu_weights: ][a: ]", "auc_mu_weights"),
        (b"pandas_categorical:null", b"pandas_categorical:[[1,]]", "pandas_categorical"),
        (b"pandas_categorical:null", b"pandas_categorical:nul", "pandas_categorical"),
        (b":", b"=", "feature_infos"),
    ],
)
def test_what_lightgbm_refuses_is_refused_with_the_field(old, new, field):
    import lightgbm

    X = np.random.default_rng(0).normal(size=(100, 2))
    data = lightgbm.Dataset(X, X[:, 0] > 0)
    text = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, data, 2).model_to_string().encode()
    start = text.index(b"feature_infos") if field == "feature_infos" else 0
    damaged = text[:start] + text[start:].replace(old, new, 1)
    assert damaged != text
    with pytest.raises((lightgbm.basic.LightGBMError, ValueError)):
        lightgbm.Booster(model_str=damaged.decode())
    with pytest.raises(MalformedModelError, match=field):
        read_model(damaged)
