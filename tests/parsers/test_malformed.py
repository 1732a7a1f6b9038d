"""Every damaged XGBoost file and LightGBM text gives a PineBoostError before any native loader sees it."""

import random

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.errors import MalformedModelError, PineBoostError
from pine_boost.exporters import export
from pine_boost.model.reference import native_margins
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from pine_boost.parsers.lightgbm.read import read_lightgbm
from pine_boost.parsers.lightgbm.write import write_document
from pine_boost.parsers.xgboost.read import read_xgboost
from pine_boost.parsers.xgboost.ubjson import read_ubjson, write_ubjson
from tests.support.grids import edge_rows, grid_forest, integer_margins
from tests.support.lightgbm_texts import block, tree_text
from tests.support.malformed_lightgbm import build, generate, in_tree, sound
from tests.support.malformed_xgboost import healthy_files, malformed_files

CORPUS = [*((read_lightgbm, *case) for case in generate()), *((read_xgboost, *case) for case in malformed_files())]


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
    assert read_lightgbm(in_tree("internal_weight=100 40 60", "internal_weight=")).forest.n_trees == 2
    assert read_lightgbm(build(monotone_constraints="1 0")).document.monotone_constraints == (1, 0)


def test_the_healthy_files_are_accepted():
    for contents in healthy_files().values():
        assert read_model(contents).forest.n_trees >= 3


def test_corpus_is_large_and_without_repeats():
    for reader, n_least in ((read_lightgbm, 250), (read_xgboost, 120)):
        own = [(name, contents) for used, name, contents in CORPUS if used is reader]
        assert len(own) >= n_least
        assert len({name for name, _ in own}) == len(own)
        assert all(contents not in (sound(), *healthy_files().values()) for _, contents in own)


@pytest.mark.parametrize(("read", "name", "contents"), CORPUS, ids=[f"{r.__name__} {name}" for r, name, _ in CORPUS])
def test_refused(read, name, contents):
    for reader in (read, read_model):
        with pytest.raises(PineBoostError) as caught:
            reader(contents)
        assert len(str(caught.value)) > 20


def test_deep_chain_is_read_without_recursion():
    n = 20_000
    right = [*range(1, n - 1), ~(n - 1)]
    text = block(0, tree_text(range(n), [0] * (n - 1), range(n - 1), [2] * (n - 1), [~i for i in range(n - 1)], right))
    forest = read_lightgbm(build((text,))).forest
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
    thresholds, sets = [], []
    for kind in types:
        if kind & 1:
            thresholds.append(len(sets))
            sets.append([rng.getrandbits(32) for _ in range(rng.randint(1, 2))])
        else:
            thresholds.append(repr(rng.choice([*edges, rng.gauss(0, 1)])))
    features = [rng.randrange(n_features) for _ in left]
    values = [repr(rng.gauss(0, 1)) for _ in range(n_leaves)]
    return block(index, tree_text(values, features, thresholds, types, left, right, sets))


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


REFUSED_BY_XGBOOST = {
    "attributes": lambda learner, tree: learner.pop("attributes"),
    "iteration_indptr": lambda learner, tree: learner["gradient_booster"]["model"].update(iteration_indptr=None),
    "num_class": lambda learner, tree: learner["learner_model_param"].update(num_class=0),
    "num_target": lambda learner, tree: learner["learner_model_param"].update(num_target="0"),
    "num_deleted": lambda learner, tree: tree["tree_param"].update(num_deleted=0),
    "parents": lambda learner, tree: tree.update(parents=None),
    "left_children": lambda learner, tree: tree.update(left_children=tree["left_children"].astype(np.int64)),
    "categories_sizes": lambda learner, tree: tree.update(categories_sizes=tree["categories_sizes"].astype(np.int32)),
    "default_left": lambda learner, tree: tree.update(default_left=tree["default_left"].tolist()),
    "sum_hessian": lambda learner, tree: tree.update(sum_hessian=tree["sum_hessian"].astype(np.float64)),
    "split_indices": lambda learner, tree: tree["split_indices"].__setitem__(-1, -1),
    "tree_info": lambda learner, tree: learner["gradient_booster"]["model"].update(tree_info=np.zeros(3, np.int32)),
}


@pytest.mark.parametrize("field", REFUSED_BY_XGBOOST)
def test_what_xgboost_refuses_is_refused_with_the_field(field):
    root = read_ubjson(healthy_files()["binary.ubj"])
    learner = root["learner"]
    REFUSED_BY_XGBOOST[field](learner, learner["gradient_booster"]["model"]["trees"][0])
    # null has no place in what write_ubjson writes
    contents = write_ubjson(_marked(root)).replace(b"SL" + (4).to_bytes(8, "big") + b"null", b"Z")
    with pytest.raises(xgboost.core.XGBoostError):
        xgboost.Booster(model_file=bytearray(contents))
    with pytest.raises(MalformedModelError, match=field):
        read_model(contents)


def test_white_space_in_an_empty_list_is_refused_as_by_xgboost():
    contents = healthy_files()["multi.json"]
    damaged = contents.replace(b"[]", b"[ ]", 1)
    assert damaged != contents
    with pytest.raises(xgboost.core.XGBoostError, match="Unknown construct"):
        xgboost.Booster(model_file=bytearray(damaged))
    with pytest.raises(MalformedModelError, match="empty list with white space inside"):
        read_model(damaged)
    # in a text it is no list, and between entries white space does no harm
    sound = contents.replace(b'"attributes": {}', b'"attributes": {"note": "\\"[ ]"}', 1).replace(b", ", b" ,\n")
    assert xgboost.Booster(model_file=bytearray(sound)).attr("note") == '"[ ]'
    assert read_model(sound).forest.n_trees == 6
    data = xgboost.DMatrix(np.arange(9.0)[:, None], np.arange(9) > 4, feature_names=["a"])
    single = bytes(xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 1).save_raw("json"))
    spaced = single.replace(b'["a"]', b'[ "a" ]').replace(b'"attributes":{}', b'"attributes":{"note":"[ ]"}')
    assert xgboost.Booster(model_file=bytearray(spaced)).attr("note") == "[ ]"
    assert read_model(spaced).forest.feature_names == ("a",)


def _marked(value):
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    return "null" if value is None else value


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8"])
def test_category_values_of_every_type_are_loaded_natively_from_both_formats(kind):
    import pandas

    codes = np.tile(np.array([3, 5, 7], dtype=kind), 40)
    table = pandas.DataFrame({"a": pandas.Categorical(codes), "b": np.arange(120.0)})
    data = xgboost.DMatrix(table, (codes == 5).astype(float), enable_categorical=True)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 2)
    for form in ("json", "ubj"):
        model = read_model(bytes(booster.save_raw(form)))
        np.testing.assert_array_equal(predict_margins(model, table)[0][:, 0], booster.predict(data, output_margin=True))


@pytest.mark.parametrize("name", ["binary.json", "binary.ubj", "multi.json", "pandas.json"])
def test_any_flipped_bit_is_refused_or_gives_a_model_that_can_be_written(name):
    contents = healthy_files()[name]
    random = np.random.default_rng(11)
    refused = accepted = 0
    for position in random.integers(len(contents), size=300):
        flipped = bytearray(contents)
        flipped[position] ^= 1 << random.integers(8)
        try:
            model = read_model(bytes(flipped))
        except PineBoostError:
            refused += 1
            continue
        accepted += 1
        try:
            pruned = grid_forest(model.forest)
        except AssertionError:  # a leaf flipped to 1e30 has no grid, which is no parser's fault
            continue
        assert read_model(export(model, pruned)).forest.n_trees >= len(pruned.kept)
    assert refused > 30
    assert accepted > 10


@pytest.mark.parametrize("name", [*healthy_files(), "text"])
def test_any_cut_is_refused(name):
    contents = sound() if name == "text" else healthy_files()[name]
    cuts = {*range(0, len(contents), 23), 1, 4, 5, 6, len(contents) - 2, len(contents) - 1}
    if name == "text":  # which LightGBM's command line ends after its parameters
        end = contents.index(b"end of parameters\n") + len(b"end of parameters\n")
        cuts = cuts - {end} | {end - 1, end + 1}
    for cut in cuts:
        with pytest.raises(PineBoostError):
            read_model(contents[:cut])
