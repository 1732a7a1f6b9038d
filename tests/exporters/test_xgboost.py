"""XGBoost exporter: same kind out, margins equal to integers / 2**grid bit for bit; whole wrappers, files, labels."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import xgboost

from pine_boost import prune_booster, simplify
from pine_boost.errors import InvalidInputError
from pine_boost.exporters import export
from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from pine_boost.parsers.xgboost.document import read_document
from pine_boost.parsers.xgboost.intercept import constant_document
from pine_boost.parsers.xgboost.trees import constants
from pine_boost.parsers.xgboost.write import write_document
from tests.support.grids import edge_rows, grid_forest
from tests.support.xgboost_models import (
    BOOSTERS,
    booster_margins,
    categorical_booster,
    early_stopped,
    expected_margins,
    make_labels,
    make_rows,
    some_weights,
    train,
)


def walk(tree, row):
    """An independent walker over the JSON of one tree, one row at a time."""
    node, sets = 0, {}
    for i, n in enumerate(tree["categories_nodes"]):
        start = tree["categories_segments"][i]
        sets[n] = tree["categories"][start : start + tree["categories_sizes"][i]]
    while tree["left_children"][node] != -1:
        x = np.float32(row[tree["split_indices"][node]])
        if np.isnan(x):
            left = bool(tree["default_left"][node])
        elif tree["split_type"][node] == 1:
            left = x < 0 or x >= 2**24 or int(x) not in sets[node]
        else:
            left = x < np.float32(tree["split_conditions"][node])
        node = tree["left_children" if left else "right_children"][node]
    return node


@pytest.mark.parametrize("name", ["logistic", "softprob", "parallel", "dart_multi"])
def test_drop_and_reweight_against_an_independent_walker(name):
    booster = train(**BOOSTERS[name])
    learner = json.loads(booster.save_raw("json"))["learner"]
    section = learner["gradient_booster"]
    places = (section, section.get("gbtree", section)["model"])
    dart = np.array([w for place in places for w in place.get("weight_drop", [])], dtype=np.float32)
    section = places[1]
    assert len(dart) in (0, len(section["trees"]))
    assert (len(dart) > 0) == name.startswith("dart")
    model = read_model(booster)
    weights = some_weights(model.forest)
    pruned = grid_forest(model.forest, weights)
    rows = make_rows(60, seed=21)
    n_outputs = model.forest.n_outputs
    sums = np.zeros((len(rows), n_outputs))
    open_outputs = set(range(n_outputs))
    for t, tree in enumerate(section["trees"]):
        if weights[t] == 0:
            continue
        output = section["tree_info"][t]
        constant = model.forest.intercept[output] if output in open_outputs else 0.0
        open_outputs.discard(output)
        for i, row in enumerate(rows):
            leaf = np.float32(tree["split_conditions"][walk(tree, row)])
            leaf = leaf * dart[t] if len(dart) else leaf
            value = weights[t] * float(leaf) + constant
            sums[i, output] += np.rint(value * 2.0**pruned.grid)
    assert not open_outputs
    exported = booster_margins(export(model, pruned), rows)
    np.testing.assert_array_equal(exported, (sums / 2.0**pruned.grid).astype(np.float32))


@pytest.mark.parametrize("file_format", ["json", "ubj"])
@pytest.mark.parametrize("name", ["logistic", "softprob", "dart"])
def test_file_in_file_out(name, file_format):
    contents = bytes(train(**BOOSTERS[name]).save_raw(file_format))
    model = read_model(contents)
    pruned = grid_forest(model.forest, some_weights(model.forest))
    exported = export(model, pruned)
    assert type(exported) is bytes
    again = read_model(exported)
    assert again.document.file_format == file_format
    # fillers of zero make whole rounds, which XGBoost 1.7 needs
    n_outputs = model.forest.n_outputs
    assert again.forest.n_trees == -(-len(pruned.kept) // n_outputs) * n_outputs
    assert not np.any(again.forest.intercept)
    booster = xgboost.Booster({"nthread": 1}, model_file=bytearray(exported))
    rows = edge_rows(model.forest, make_rows(), limit=60)
    np.testing.assert_array_equal(booster_margins(booster, rows), expected_margins(pruned, rows))
    config = json.loads(booster.save_raw("json"))["learner"]
    assert config["gradient_booster"]["name"] == "gbtree"
    if file_format == "json":
        text = json.loads(exported)["learner"]["learner_model_param"]["base_score"]
        assert text in ("5E-1", "0E0")


def test_both_formats_of_one_document_load_as_the_same_model():
    booster, _ = categorical_booster(1)
    models = [read_model(bytes(booster.save_raw(form))) for form in ("json", "ubj")]
    exports = [export(model, grid_forest(model.forest)) for model in models]
    raw = [bytes(xgboost.Booster(model_file=bytearray(e)).save_raw("json")) for e in exports]
    assert raw[0] == raw[1]


@pytest.mark.parametrize("kept", [[], [0], [5]])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_outputs_without_a_tree_keep_their_intercept(n_classes, kept):
    objective = "multi:softprob" if n_classes == 3 else "binary:logistic"
    booster = train(rounds=4, objective=objective, n_classes=n_classes, base_score=0.2)
    model = read_model(booster)
    weights = np.zeros(model.forest.n_trees)
    weights[[k for k in kept if k < len(weights)]] = 1.0
    pruned = grid_forest(model.forest, weights)
    assert np.any(pruned.intercept_int) == (n_classes == 3 or not weights.any())
    rows = make_rows(50)
    exported = export(model, pruned)
    np.testing.assert_array_equal(booster_margins(exported, rows), expected_margins(pruned, rows))
    assert read_model(exported).forest.n_trees >= 1


def test_files_of_a_kept_original_and_of_simplify_have_one_scalar_base_score(tmp_path):
    """XGBoost 3.1 and newer write a vector, which every earlier version silently reads as 0.5."""
    booster, rows = train(rounds=4, objective="binary:logistic", base_score=0.2), make_rows(300)
    result = prune_booster(booster, rows, make_rows(100, seed=1), alpha=0.0)
    assert result.certificate.units_kept == 4  # the original itself
    result.save(tmp_path / "kept")
    booster.save_model(tmp_path / "native.json")
    written = simplify(tmp_path / "native.json").model
    for contents in ((tmp_path / "kept" / "model.json").read_bytes(), written):
        assert float(json.loads(contents)["learner"]["learner_model_param"]["base_score"]) == np.float32(0.2)
        loaded = xgboost.Booster({"nthread": 1}, model_file=bytearray(contents))
        np.testing.assert_array_equal(booster_margins(loaded, rows), booster_margins(booster, rows))


def test_nothing_at_all_is_still_one_tree():
    booster = train(rounds=3, objective="binary:logistic", base_score=0.5)
    model = read_model(booster)
    pruned = grid_forest(model.forest, np.zeros(3))
    assert not np.any(pruned.intercept_int)
    exported = export(model, pruned)
    assert exported.num_boosted_rounds() == 1
    np.testing.assert_array_equal(booster_margins(exported, make_rows(5)), np.zeros((5, 1)))


def test_attributes_stay_and_stale_ones_go():
    booster = train(rounds=6, objective="binary:logistic")
    booster.set_attr(best_iteration="2", best_score="0.5", best_ntree_limit="3", owner="Ünal")
    model = read_model(booster)
    exported = export(model, grid_forest(model.forest, [1, 0, 1, 0, 0, 1]))
    assert exported.attributes() == {"owner": "Ünal"}
    assert exported.num_boosted_rounds() == 3


@pytest.mark.parametrize("name", ["logistic", "softprob", "softmax", "dart", "parallel", "hinge"])
@pytest.mark.parametrize("file_format", ["json", "ubj"])
def test_treelite_reads_the_export_and_agrees(name, file_format):
    import treelite

    model = read_model(bytes(train(**BOOSTERS[name]).save_raw(file_format)))
    pruned = grid_forest(model.forest, some_weights(model.forest))
    contents = export(model, pruned)
    load = {"json": "from_xgboost_json", "ubj": "from_xgboost_ubjson"}[file_format]
    loaded = getattr(treelite.frontend, load)(contents)
    rows = np.vstack([make_rows(seed=3), edge_rows(model.forest, make_rows(), limit=40)])
    margins = treelite.gtil.predict(loaded, rows.astype(np.float32), pred_margin=True)
    expected = expected_margins(pruned, rows)
    np.testing.assert_array_equal(np.asarray(margins).reshape(expected.shape), expected)


def test_a_forest_of_another_model_is_refused():
    first = read_model(train(rounds=2, objective="binary:logistic"))
    second = read_model(train(rounds=2, objective="binary:logistic"))
    with pytest.raises(InvalidInputError, match="another"):
        export(first, grid_forest(second.forest))


def test_leaves_that_float32_cannot_hold_are_refused():
    model = read_model(train(rounds=2, objective="binary:logistic"))
    pruned = grid_forest(model.forest)
    too_fine = replace(pruned, value_int=pruned.value_int * 2**20 + 1, grid=pruned.grid + 20)
    with pytest.raises(InvalidInputError, match="float32"):
        export(model, too_fine)


def test_json_numbers_are_short_and_exact():
    random = np.random.default_rng(1)
    patterns = random.integers(0, 2**32, size=1500, dtype=np.uint32).view(np.float32)
    usual = (random.normal(size=1500) * 10.0 ** random.integers(-8, 8, 1500)).astype(np.float32)
    values = np.concatenate([patterns, usual, np.float32([-0.0, 0.0, 1e-45, 0.1, 16777216.0])])
    values = values[np.isfinite(values)]
    objective = {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}
    document = replace(
        constant_document(objective, 0.0),
        trees=constants(values),
        tree_output=np.zeros(len(values), dtype=np.int64),
        round_offset=np.arange(len(values) + 1),
    )
    contents = write_document(document, "json")
    booster = xgboost.Booster({"nthread": 1}, model_file=bytearray(contents))
    for found in (read_document(contents), read_document(bytes(booster.save_raw("ubj")))):
        np.testing.assert_array_equal(found.trees["split_conditions"].view(np.uint32), values.view(np.uint32))
    assert len(contents) <= 1.02 * len(booster.save_raw("json"))


CLASSIFIERS = {
    "binary": ("XGBClassifier", 2, {}),
    "multi": ("XGBClassifier", 3, {}),
    "softmax": ("XGBClassifier", 3, {"objective": "multi:softmax"}),
    "dart": ("XGBClassifier", 2, {"booster": "dart", "rate_drop": 0.3, "base_score": 0.3}),
    "logitraw": ("XGBClassifier", 2, {"objective": "binary:logitraw"}),
    "hinge": ("XGBClassifier", 2, {"objective": "binary:hinge"}),
    "parallel": ("XGBClassifier", 3, {"num_parallel_tree": 2, "subsample": 0.6}),
    "forest": ("XGBRFClassifier", 2, {}),
    "forest_multi": ("XGBRFClassifier", 3, {}),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifier_export_is_a_whole_classifier(name):
    class_name, n_classes, options = CLASSIFIERS[name]
    rows = make_rows()
    original = getattr(xgboost, class_name)(n_estimators=8, max_depth=3, n_jobs=1, random_state=0, **options).fit(
        rows, make_labels(rows, n_classes)
    )
    before, parameters = original.get_booster().save_raw("ubj"), original.get_params()
    model = read_model(original)
    pruned = grid_forest(model.forest, some_weights(model.forest, seed=6))
    exported = export(model, pruned)
    assert original.get_booster().save_raw("ubj") == before
    assert original.get_params() == parameters
    assert type(exported) is type(original)
    np.testing.assert_array_equal(exported.classes_, original.classes_)
    changed = {k for k, v in exported.get_params().items() if v is not parameters[k] and v == v and v != parameters[k]}
    assert changed <= {"n_estimators", "booster"}
    probe = np.vstack([rows, edge_rows(model.forest, rows, infinite=True, limit=40)])
    expected = expected_margins(pruned, probe)
    for candidate in (exported, pickle.loads(pickle.dumps(exported))):
        margins = candidate.predict(probe, output_margin=True).reshape(len(probe), -1)
        np.testing.assert_array_equal(margins, expected)
        predicted = candidate.predict(probe)
        if n_classes == 2:
            cut = model.forest.decision.cuts[0]
            np.testing.assert_array_equal(predicted, (expected[:, 0].astype(float) > cut) * 1)
        else:
            clear = np.diff(np.sort(expected, axis=1)[:, -2:], axis=1)[:, 0] > 1e-5
            np.testing.assert_array_equal(predicted[clear], expected.argmax(axis=1)[clear])
    if name != "logitraw":  # XGBoost has no probabilities for raw margins
        assert exported.predict_proba(probe).shape == (len(probe), n_classes)
    rounds = exported.get_booster().num_boosted_rounds()
    assert class_name == "XGBRFClassifier" or exported.n_estimators == rounds


def test_early_stopped_classifier_predicts_with_all_exported_trees():
    original, rows = early_stopped()
    model = read_model(original)
    pruned = grid_forest(model.forest)
    exported = export(model, pruned)
    assert not hasattr(exported, "best_iteration")
    assert not hasattr(exported, "evals_result_")
    assert hasattr(original, "evals_result_")
    assert exported.n_estimators == original.best_iteration + 1
    margins = exported.predict(rows, output_margin=True)
    np.testing.assert_array_equal(margins, expected_margins(pruned, rows)[:, 0])
    np.testing.assert_array_equal(exported.predict(rows), original.predict(rows))


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_file_of_a_wrapper_is_read_like_the_wrapper_and_loads_into_one_again(suffix, tmp_path):
    rows = make_rows()
    original = xgboost.XGBClassifier(n_estimators=6, n_jobs=1).fit(rows, make_labels(rows, 3))
    original.get_booster().set_attr(best_iteration="3")
    original.get_booster().save_model(tmp_path / f"booster.{suffix}")
    assert read_model(tmp_path / f"booster.{suffix}").forest.n_trees == 6 * 3
    original.save_model(tmp_path / f"model.{suffix}")
    model = read_model(tmp_path / f"model.{suffix}")
    assert model.forest.n_trees == 4 * 3
    (tmp_path / f"pruned.{suffix}").write_bytes(export(model, grid_forest(model.forest)))
    loaded = xgboost.XGBClassifier(n_jobs=1)
    loaded.load_model(tmp_path / f"pruned.{suffix}")
    np.testing.assert_array_equal(loaded.predict(rows), original.predict(rows))
    assert loaded.get_booster().num_boosted_rounds() == 4


class LabelledClassifier(xgboost.XGBClassifier):
    """What people write to get string labels: the labels live in the wrapper."""

    def fit(self, X, y):
        self.labels_ = np.unique(y)
        return super().fit(X, np.searchsorted(self.labels_, y))

    @property
    def classes_(self):
        return self.labels_ if hasattr(self, "_Booster") else np.arange(self.n_classes_)

    def predict(self, X, **options):
        result = super().predict(X, **options)
        return result if options.get("output_margin") else self.labels_[result]


def test_string_labels_of_a_subclass_survive():
    rows = make_rows()
    names = np.array(["high", "low", "mid"])[make_labels(rows, 3)]
    original = LabelledClassifier(n_estimators=6, n_jobs=1).fit(rows, names)
    model = read_model(original)
    assert model.kind == "xgboost.XGBClassifier"
    assert model.forest.classes == ("high", "low", "mid")
    exported = export(model, grid_forest(model.forest))
    assert type(exported) is LabelledClassifier
    np.testing.assert_array_equal(exported.predict(rows), original.predict(rows))


def test_pandas_categories_are_kept_in_code_order_and_recoded():
    import pandas

    random = np.random.default_rng(0)
    names = random.choice(["red", "green", "blue"], 300)
    table = pandas.DataFrame(
        {
            "x": random.normal(size=300),
            "name": pandas.Categorical(names, categories=["red", "blue", "green"]),
            "size": pandas.Categorical(random.choice([7, 3, 40], 300), categories=[40, 3, 7]),
        }
    )
    labels = ((names == "red") ^ (table["size"] == 3) ^ (table.x > 0)).astype(int)
    original = xgboost.XGBClassifier(n_estimators=6, n_jobs=1, enable_categorical=True)
    original.fit(table, labels)
    model = read_model(original)
    assert model.forest.feature_categories == (None, ("red", "blue", "green"), (40, 3, 7))
    codes = np.column_stack([table.x, table["name"].cat.codes, table["size"].cat.codes])
    native = original.predict(table, output_margin=True)
    np.testing.assert_array_equal(native_margins(model.forest, codes)[:, 0], native)
    pruned = grid_forest(model.forest, some_weights(model.forest))
    exported = export(model, pruned)
    expected = expected_margins(pruned, codes)[:, 0]
    np.testing.assert_array_equal(exported.predict(table, output_margin=True), expected)
    table["name"] = table["name"].cat.reorder_categories(["green", "red", "blue"])
    np.testing.assert_array_equal(exported.predict(table, output_margin=True), expected)
    assert read_model(exported).forest.feature_categories == model.forest.feature_categories
