"""XGBClassifier and its kin out of the exporter: whole estimators, files, labels, pandas."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from pine_boost.exporters import export
from pine_boost.parsers import read_model
from tests.support.grids import edge_rows, grid_forest

xgboost = pytest.importorskip("xgboost")

from tests.support.xgboost_models import expected_margins, make_labels, make_rows, some_weights  # noqa: E402  (needs xgboost)

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
    rows = make_rows()
    labels = make_labels(rows, 2)
    original = xgboost.XGBClassifier(
        n_estimators=60, max_depth=5, n_jobs=1, early_stopping_rounds=5, learning_rate=0.9
    ).fit(rows[:250], labels[:250], eval_set=[(rows[250:], labels[250:])], verbose=False)
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


def test_file_of_a_wrapper_loads_into_a_wrapper_again(tmp_path):
    rows = make_rows()
    original = xgboost.XGBClassifier(n_estimators=6, n_jobs=1).fit(rows, make_labels(rows, 3))
    original.get_booster().set_attr(best_iteration="3")
    original.save_model(tmp_path / "model.json")
    model = read_model(tmp_path / "model.json")
    (tmp_path / "pruned.json").write_bytes(export(model, grid_forest(model.forest)))
    loaded = xgboost.XGBClassifier(n_jobs=1)
    loaded.load_model(tmp_path / "pruned.json")
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


def test_pandas_categories_survive_and_are_recoded():
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    names = random.choice(["red", "green", "blue"], 300)
    table = pandas.DataFrame(
        {
            "x": random.normal(size=300),
            "name": pandas.Categorical(names, categories=["red", "blue", "green"]),
            "size": pandas.Categorical(random.choice([7, 3, 40], 300)),
        }
    )
    labels = ((names == "red") ^ (table["size"] == 3) ^ (table.x > 0)).astype(int)
    original = xgboost.XGBClassifier(n_estimators=6, n_jobs=1, enable_categorical=True)
    original.fit(table, labels)
    model = read_model(original)
    pruned = grid_forest(model.forest, some_weights(model.forest))
    exported = export(model, pruned)
    codes = np.column_stack([table.x, table["name"].cat.codes, table["size"].cat.codes])
    expected = expected_margins(pruned, codes)[:, 0]
    np.testing.assert_array_equal(exported.predict(table, output_margin=True), expected)
    table["name"] = table["name"].cat.reorder_categories(["green", "red", "blue"])
    np.testing.assert_array_equal(exported.predict(table, output_margin=True), expected)
    assert read_model(exported).forest.feature_categories == model.forest.feature_categories


def test_regressor_export():
    rows = make_rows()
    original = xgboost.XGBRegressor(n_estimators=6, n_jobs=1, objective="count:poisson")
    original.fit(rows, make_labels(rows, 5))
    model = read_model(original, threshold=0.5)
    pruned = grid_forest(model.forest, some_weights(model.forest))
    exported = export(model, pruned)
    assert type(exported) is xgboost.XGBRegressor
    margins = exported.predict(rows, output_margin=True)
    np.testing.assert_array_equal(margins, expected_margins(pruned, rows)[:, 0])
