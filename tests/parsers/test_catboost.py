"""CatBoost models are read exactly: live, from files as CatBoost's own parser rounds them, and written again."""

import json
from functools import reduce
from operator import getitem

import catboost
import numpy as np
import pytest

import pine_boost
from pine_boost import InvalidInputError, PineBoostError, UnsupportedModelError
from pine_boost.errors import MalformedModelError
from pine_boost.model.reference import native_margins
from pine_boost.native.child_process import try_in_child
from pine_boost.native.predict import original_bytes, predict_classes, predict_margins
from pine_boost.parsers import read_model
from pine_boost.parsers.catboost.decimals import as_loaded, text_of
from pine_boost.parsers.catboost.read import native_json
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of
from tests.support.catboost_models import KINDS, one_hot, table_of_towns
from tests.support.hard_rows import hard_rows
from tests.support.native_files import load_native
from tests.support.native_models import CATBOOST_QUIET, built, make_table
from tests.support.verifying import verify_folder


def raw(native, X):
    return np.asarray(native.predict(X, prediction_type="RawFormulaVal", thread_count=1)).reshape(len(X), -1)


@pytest.mark.parametrize("name", KINDS)
def test_margins_and_classes_are_the_native_ones(name):
    native = KINDS[name]()
    live = read_model(native, decision="value")
    X = hard_rows(live.forest, 600)
    assert np.array_equal(native_margins(live.forest, X), raw(native, X))
    contents = native_json(native)
    file = read_model(contents, decision="value")
    assert np.array_equal(native_margins(file.forest, X), raw(load_native("catboost", contents), X))
    for written in (original_bytes(file), original_bytes(live)):
        source = file if written is original_bytes(file) else live
        assert np.array_equal(raw(load_native("catboost", written), X), native_margins(source.forest, X))
        assert np.array_equal(
            native_margins(read_model(written, decision="value").forest, X), predict_margins(source, X)[0]
        )
    if live.forest.decides:
        labels = np.asarray(live.forest.classes)[live.forest.decision.classes(raw(native, X))]
        assert np.array_equal(native.predict(X).reshape(-1), labels)


def test_a_file_from_catboost_is_not_quite_its_live_model():
    """Its text is exact, but its parser rounds: a reader that took the nearest doubles would be wrong."""
    native, X = built("cat binary")
    contents = native_json(native)
    assert not np.array_equal(native_margins(read_model(contents).forest, X), raw(native, X))
    assert np.array_equal(native_margins(read_model(original_bytes(read_model(native))).forest, X), raw(native, X))


def test_decimals_are_those_of_its_parser():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=800) * 10.0 ** rng.uniform(-9, 9, 800), [0.0, -0.0, 2.0**-40, 1e-300]])
    formats = [repr, "{:.17g}".format, "{:.16e}".format, "{:.3f}".format, "{:.25f}".format, text_of]
    texts = [text for form in formats for value in values.tolist() if (text := form(value)) is not None]
    texts = [text for text in texts if "." in text or "e" in text][: 2**12]
    document = json.loads(native_json(built("cat binary")[0]))
    document["features_info"]["float_features"][0]["borders"] = list(range(12))
    for feature in document["features_info"]["float_features"][1:]:
        feature["borders"] = []
    splits = [{"split_index": k, "split_type": "FloatFeature"} for k in range(12)]
    document["oblivious_trees"] = [{"leaf_values": ["@"], "splits": splits}]
    padded = ",".join(texts + ["0"] * (2**12 - len(texts)))
    native = load_native("catboost", json.dumps(document).replace('["@"]', f"[{padded}]").encode())
    found = native.get_leaf_values()[: len(texts)]
    assert np.array_equal(found, [as_loaded(text) for text in texts])
    assert np.mean(found == [float(text) for text in texts]) < 0.95
    writable = [value for value in values.tolist() if text_of(value) is not None]
    assert len(writable) > 795
    assert all(as_loaded(str(text_of(value))) == value for value in writable)


@pytest.mark.parametrize("threshold", [0.3, 0.731, (0.2, 0.6)])
def test_thresholds_are_compared_with_probabilities(threshold):
    native, X = built("cat binary")
    model = read_model(native, threshold=threshold)
    expected = np.sum([native.predict_proba(X)[:, 1] > cut for cut in np.atleast_1d(threshold)], axis=0)
    assert np.array_equal(predict_classes(model, X), expected)
    assert np.array_equal(model.forest.decision.classes(raw(native, X)), expected)


def test_the_threshold_of_the_model_itself():
    native, X = built("cat binary")
    other = native.copy()
    other.set_probability_threshold(0.8)
    model = read_model(other)
    assert not np.array_equal(other.predict(X), native.predict(X))
    assert np.array_equal(model.forest.decision.classes(raw(other, X)), other.predict(X))
    with pytest.raises(UnsupportedModelError, match=r"get_probability_threshold.*backend='native' asks the library"):
        pine_boost.accelerate_booster(other)


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (0.5, 1.5), (-1, 3)])
def test_labels(labels):
    X, y = make_table(2)
    native = catboost.CatBoostClassifier(iterations=2, **CATBOOST_QUIET).fit(X, np.array(labels)[y])
    for model in (read_model(native), read_model(original_bytes(read_model(native)))):
        assert model.forest.classes == labels
        assert np.array_equal(np.asarray(labels)[predict_classes(model, X)], native.predict(X))


def _with_categories(**options):
    X, y = make_table(2, missing=False)
    table = X.astype(object)
    table[:, 1] = X[:, 1].astype(int)
    return catboost.CatBoostClassifier(iterations=12, cat_features=[1], **CATBOOST_QUIET, **options).fit(table, y)


@pytest.mark.parametrize("kind", ["cat", "text", "embedding"])
def test_the_features_that_are_not_supported_are_named(kind):
    import pandas as pd

    X, y = make_table(2, missing=False)
    values = {
        "cat": X[:, 1].astype(int),
        "text": np.where(y, "a fine day", "much rain"),
        "embedding": list(X[:, :3].astype(float)),
    }
    table = pd.DataFrame({"v": X[:, 0], "town": pd.Series(values[kind]), "w": X[:, 2]})
    native = catboost.CatBoostClassifier(iterations=4, **{f"{kind}_features": ["town"]}, **CATBOOST_QUIET)
    with pytest.raises(UnsupportedModelError, match=r"\('town'\), which are not supported; retrain .*one_hot_max_size"):
        read_model(native.fit(table, y))


def test_what_is_not_supported_is_refused_by_name():
    X, y = make_table(2, missing=False)
    with pytest.raises(UnsupportedModelError, match=r"target statistics \(CTR\).*one_hot_max_size"):
        read_model(_with_categories())
    document = json.loads(native_json(_with_categories()))
    del document["ctr_data"], document["features_info"]["ctrs"]
    with pytest.raises(UnsupportedModelError, match=r"target statistics \(CTR\)"):  # its trees ask for them
        read_model(json.dumps(document).encode())
    with pytest.raises(UnsupportedModelError, match=r"binary format.*format='json'"):
        read_model(b"CBM1" + bytes(40))
    several = catboost.CatBoostRegressor(loss_function="MultiRMSE", iterations=2, **CATBOOST_QUIET)
    with pytest.raises(UnsupportedModelError, match="'MultiRMSE' with 2 outputs"):
        read_model(several.fit(X, np.stack([y, y], axis=1)), decision="value")
    scaled = built("cat binary")[0].copy()
    scaled.set_scale_and_bias(0.3, [0])
    with pytest.raises(UnsupportedModelError, match="set_scale_and_bias"):
        read_model(scaled)
    with pytest.raises(InvalidInputError, match="not fitted"):
        read_model(catboost.CatBoostClassifier())
    with pytest.raises(UnsupportedModelError, match="predicts no class"):
        read_model(KINDS["regressor"]())


def test_an_xgboost_feature_may_have_a_name_from_catboost():
    import pandas as pd
    from xgboost import XGBClassifier

    X = pd.DataFrame({"oblivious_trees": np.arange(20.0)})
    model = XGBClassifier(n_estimators=2).fit(X, X["oblivious_trees"] > 9)
    contents = bytes(model.get_booster().save_raw("json"))
    assert read_model(contents).forest.feature_names == ("oblivious_trees",)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("model_info", "class_params", "class_names", 0), 2**63, "class_names do not fit"),
        (("model_info", "class_params", "class_names", 0), 10**400, "more than 64 bits"),
        (("model_info", "params", "random_seed"), -(2**63) - 1, "more than 64 bits"),
        (("oblivious_trees", 3, "splits", 0, "border"), "\ud800", "surrogates not allowed"),
        (("model_info", "class_params", "classes_count"), 3, "classes_count"),
        (("model_info", "params", "loss_function", "params", "x"), 1, "loss_function.params"),
        (("model_info", "params", "boosting_options"), 2**31 - 1, "boosting_options"),
        (("model_info", "params", "tree_learner_options"), None, "tree_learner_options"),
        (("scale_and_bias", 1, 0), 1e300, "add up to"),
        (("scale_and_bias", 0), 2**53 + 1, "scale holds an integer beyond"),
        (("model_info", "training"), '{"metrics": {}}', "lacks learn_best_error"),
    ],
)
def test_what_its_parser_reads_otherwise_or_not_at_all_is_refused(place, value, words):
    """Found by fuzzing: CatBoost loads an empty or a cut model, other outputs, or nothing."""
    document = json.loads(native_json(built("cat binary")[0]))
    *path, last = place
    reduce(getitem, path, document)[last] = value
    with pytest.raises(MalformedModelError, match=words):
        read_model(json.dumps(document).encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_other_encodings_than_utf_8_are_refused(encoding):
    contents = native_json(built("cat binary")[0]).decode().encode(encoding)
    with pytest.raises(catboost.CatBoostError, match="deserialization failed"):
        load_native("catboost", contents)
    with pytest.raises(PineBoostError):
        read_model(contents)


def test_a_file_is_loaded_in_a_child_process_first():
    contents = native_json(built("cat binary")[0])
    try_in_child(read_model(contents))
    with pytest.raises(UnsupportedModelError, match="was stopped"):
        try_in_child(read_model(contents), time_limit=0.01)


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_hot_categories(policy, n_classes):
    native, table = one_hot(n_classes, grow_policy=policy), table_of_towns(400, seed=1)
    live = read_model(native)
    file, schema = read_model(original_bytes(live)), schema_of(live.forest)
    unseen = table.assign(town=np.resize(["ulm", "", "ULM", "y" * 65], 400), k=np.resize([2, 9, -1, 10**12], 400))
    scorer = pine_boost.accelerate_booster(native).scorer
    typed = table.astype({"town": "category", "k": "category"})
    for X in (table, unseen, typed, table.astype({"k": str}), table.to_numpy(dtype=object)):
        expected, matrix = raw(native, X), to_matrix(X, schema)
        assert np.array_equal(native_margins(live.forest, matrix), expected)
        assert np.array_equal(predict_margins(file, X)[0], expected)
        assert np.array_equal(scorer.predict(X), native.predict(X).reshape(-1))
        coded = as_table(matrix, schema)  # categories named by their hashes, for a model with these names
        assert np.array_equal(predict_margins(live, coded)[0], expected)
        assert np.array_equal(to_matrix(coded, schema), matrix, equal_nan=True)


def test_a_pruned_model_with_one_hot_categories_is_verified_from_files(tmp_path):
    native, fit, cal, fresh = (
        one_hot(),
        table_of_towns(400, seed=2),
        table_of_towns(400, seed=3),
        table_of_towns(2000, seed=4),
    )
    result = pine_boost.prune_booster(native, fit, cal, alpha=0.4, time_limit=20)
    assert result.status == "CERTIFIED"
    assert result.certificate.grid >= 0
    inside = result.region.contains(fresh)
    assert inside.sum() > 500
    assert np.array_equal(result.model.predict(fresh[inside]), native.predict(fresh[inside]))
    (tmp_path / "original.json").write_bytes(original_bytes(read_model(native)))
    assert verify_folder(tmp_path / "original.json", result.save(tmp_path / "result")).agrees
    compressed = pine_boost.compress_booster(native, fit, cal, fidelity=0.9)
    assert read_model(compressed.model).forest.n_leaves < read_model(native).forest.n_leaves
    simplified = pine_boost.simplify(native).model
    assert np.array_equal(raw(simplified, fresh), raw(native, fresh))


def test_a_regressor_end_to_end():
    """Pruned with a threshold, compressed and truncated within a tolerance, accelerated, simplified."""
    X, y = make_table(2, n_rows=3000)
    value = y + 0.5 * np.nan_to_num(X[:, 0])
    own = CATBOOST_QUIET | {"iterations": 20}
    native = catboost.CatBoostRegressor(**own).fit(X[:800], value[:800])
    expected = native.predict(X)
    pruned = pine_boost.prune_booster(native, X[:800], X[800:1600], alpha=0.3, threshold=0.5, time_limit=20)
    assert pruned.status == "CERTIFIED"
    assert isinstance(pruned.model, catboost.CatBoostRegressor)
    inside = pruned.region.contains(X)
    assert inside.mean() > 0.6
    assert np.array_equal(pruned.model.predict(X)[inside] > 0.5, expected[inside] > 0.5)
    assert pine_boost.verify(native, pruned.model, pruned.region, pruned.certificate).agrees
    compressed = pine_boost.compress_booster(native, X[:800], X[800:], fidelity=0.95, tolerance=0.1)
    assert compressed.status == "VALIDATED"
    assert compressed.leaves_after < compressed.leaves_before
    moved = np.abs(compressed.model.predict(X[800:]) - expected[800:])
    assert int((moved > 0.1).sum()) == compressed.record.n_changed
    assert pine_boost.verify_compression(native, compressed.model, compressed.record, X[800:]).agrees
    assert np.array_equal(pine_boost.accelerate_booster(native, X[:800]).scorer.predict(X), expected)
    truncated = pine_boost.accelerate_booster(native, X[:800], tolerance=0.05)
    assert truncated.status == "CERTIFIED"
    assert np.abs(truncated.scorer.predict(X) - expected).max() <= 0.05
    assert np.array_equal(pine_boost.simplify(native).model.predict(X), expected)


@pytest.mark.parametrize("column", [[1.0, 2.0], [None, "ulm"], [True, False]])
def test_categories_that_catboost_does_not_take(column):
    X = table_of_towns(2).astype({"town": object})
    X["town"] = np.array(column, dtype=object)
    with pytest.raises(InvalidInputError, match="text and whole numbers as categories"):
        to_matrix(X, schema_of(read_model(one_hot()).forest))
