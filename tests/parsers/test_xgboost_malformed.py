"""Damaged XGBoost files: a PineBoostError each time, no crash, no hang, no silent acceptance."""

import numpy as np
import pytest
import xgboost

from pine_boost.errors import MalformedModelError, PineBoostError
from pine_boost.exporters import export
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from pine_boost.parsers.xgboost.read import read_xgboost
from pine_boost.parsers.xgboost.ubjson import read_ubjson, write_ubjson
from tests.support.grids import grid_forest
from tests.support.malformed_xgboost import healthy_files, malformed_files

CASES = malformed_files()


def test_the_healthy_files_are_accepted():
    for contents in healthy_files().values():
        assert read_model(contents).forest.n_trees >= 3


def test_the_corpus_is_large_enough():
    assert len(CASES) >= 120


@pytest.mark.parametrize(("name", "contents"), CASES, ids=[name for name, _ in CASES])
def test_refused(name, contents):
    with pytest.raises(PineBoostError) as error:
        read_xgboost(contents)
    assert len(str(error.value)) > 20
    with pytest.raises(PineBoostError):
        read_model(contents)


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


def test_any_cut_is_refused():
    for name in ("binary.json", "binary.ubj"):
        contents = healthy_files()[name]
        for cut in range(0, len(contents), 23):
            with pytest.raises(PineBoostError):
                read_xgboost(contents[:cut])
