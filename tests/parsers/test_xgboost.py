"""XGBoost reader: margins bit for bit and classes exactly as the native library gives them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.exact import SOFTMAX_GUARD_FLOAT32, summation_band
from pine_boost.model.reference import find_leaves, native_margins
from pine_boost.parsers import read_model
from tests.support.grids import edge_rows

xgboost = pytest.importorskip("xgboost")

from tests.support.xgboost_models import BOOSTERS, booster_margins, categorical_booster, make_labels, make_rows, train  # noqa: E402  (needs xgboost)


@pytest.mark.parametrize("name", BOOSTERS)
def test_booster_margins_are_bit_equal_on_every_edge(name):
    booster = train(**BOOSTERS[name])
    model = read_model(booster)
    assert model.kind == "xgboost.Booster"
    assert model.native is booster
    assert model.forest.slack == 0.0
    rows = np.vstack([make_rows(seed=9), edge_rows(model.forest, make_rows(), limit=80)])
    np.testing.assert_array_equal(native_margins(model.forest, rows), booster_margins(booster, rows))


@pytest.mark.parametrize("name", BOOSTERS)
def test_file_and_bytes_give_the_forest_of_the_object(name, tmp_path):
    booster = train(**BOOSTERS[name])
    live = read_model(booster).forest
    for suffix in ("json", "ubj"):
        path = tmp_path / f"model.{suffix}"
        booster.save_model(path)
        for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
            model = read_model(source)
            assert model.kind == "xgboost file"
            assert model.document.file_format == suffix
            for field in (
                "threshold",
                "value",
                "left",
                "feature",
                "intercept",
                "default_left",
                "tree_output",
                "tree_round",
            ):
                np.testing.assert_array_equal(getattr(model.forest, field), getattr(live, field))


def test_rounds_hold_all_trees_of_a_round():
    forest = read_model(train(rounds=3, **BOOSTERS["parallel"])).forest
    np.testing.assert_array_equal(forest.tree_output, [0, 0, 1, 1, 2, 2] * 3)
    np.testing.assert_array_equal(forest.tree_round, np.repeat([0, 1, 2], 6))


def test_deleted_nodes_of_pruned_trees_are_left_out():
    booster = train(**BOOSTERS["exact_pruned"])
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    deleted = sum(int(tree["tree_param"]["num_deleted"]) for tree in trees)
    assert deleted > 0
    total = sum(int(tree["tree_param"]["num_nodes"]) for tree in trees)
    assert read_model(booster).forest.n_nodes == total - deleted


REGRESSIONS = [
    "reg:squarederror",
    "reg:squaredlogerror",
    "reg:logistic",
    "reg:pseudohubererror",
    "reg:absoluteerror",
    "reg:quantileerror",
    "reg:gamma",
    "reg:tweedie",
    "count:poisson",
    "survival:cox",
    "survival:aft",
    "rank:pairwise",
    "rank:ndcg",
    "rank:map",
]


@pytest.mark.parametrize("objective", REGRESSIONS)
def test_regressions_need_a_threshold_on_the_margin(objective):
    rows = make_rows()
    labels = make_labels(rows, 2).astype(float)
    if objective in ("reg:gamma", "survival:cox", "survival:aft"):
        labels += 0.25
    data = xgboost.DMatrix(rows, labels, nthread=1)
    if objective.startswith("rank"):
        data.set_group([250, 250])
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", labels)
        data.set_float_info("label_upper_bound", labels)
    parameters = {"objective": objective, "max_depth": 3, "nthread": 1, "base_score": 0.37}
    if objective == "reg:quantileerror":
        parameters["quantile_alpha"] = 0.4
    booster = xgboost.train(parameters, data, 5)
    with pytest.raises(UnsupportedModelError, match=objective):
        read_model(booster)
    forest = read_model(booster, threshold=0.25).forest
    assert forest.decision.cuts == (0.25,)
    assert forest.decision.guard == 0.0
    assert forest.classes == (0, 1)
    np.testing.assert_array_equal(native_margins(forest, rows), booster_margins(booster, rows))


def test_margin_threshold_that_is_not_float32_carries_its_rounding():
    booster = train(objective="reg:squarederror")
    decision = read_model(booster, threshold=[-0.1, 0.3]).forest.decision
    assert decision.cuts == (-0.1, 0.3)
    assert decision.guard >= abs(0.3 - float(np.float32(0.3))) > 0
    assert read_model(booster, threshold=[-0.1, 0.3]).forest.classes == (0, 1, 2)


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifier_is_read_as_its_own_predict_works(booster, n_classes):
    rows = make_rows()
    options = {"rate_drop": 0.4} if booster == "dart" else {}
    if n_classes == 2:
        options["base_score"] = 0.3
    classifier = xgboost.XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1, booster=booster, **options).fit(
        rows, make_labels(rows, n_classes)
    )
    model = read_model(classifier)
    assert model.kind == "xgboost.XGBClassifier"
    assert model.forest.classes == tuple(range(n_classes))
    probe = np.vstack([rows, edge_rows(model.forest, rows, infinite=True, limit=60)])
    native = classifier.predict(probe, output_margin=True).reshape(len(probe), -1)
    margins = native_margins(model.forest, probe)
    if booster == "gbtree":
        assert model.forest.slack == 0.0
        np.testing.assert_array_equal(margins, native)
    else:
        difference = np.abs(margins.astype(float) - native.astype(float)).max()
        assert 0 < difference <= model.forest.slack < 1e-4


@pytest.mark.parametrize("n_classes", [2, 3])
def test_dart_slack_and_band_hold_against_exact_sums(n_classes):
    rows = make_rows(800)
    classifier = xgboost.XGBClassifier(
        n_estimators=60, max_depth=4, n_jobs=1, booster="dart", rate_drop=0.5, base_score=0.3
    ).fit(rows, make_labels(rows, n_classes))
    forest = read_model(classifier).forest
    native = classifier.predict(rows, output_margin=True).reshape(len(rows), -1).astype(float)
    exact = forest.intercept + np.zeros_like(native)
    leaves = find_leaves(forest, rows)
    vectors = forest.leaf_vectors()
    for tree in range(forest.n_trees):
        exact += vectors[leaves[:, tree]]
    assert np.abs(exact - native).max() <= summation_band(forest)


def test_random_forest_classifier():
    rows = make_rows()
    for n_classes in (2, 3):
        classifier = xgboost.XGBRFClassifier(n_estimators=7, max_depth=4, n_jobs=1, random_state=1)
        classifier.fit(rows, make_labels(rows, n_classes))
        model = read_model(classifier)
        assert model.kind == "xgboost.XGBRFClassifier"
        assert set(model.forest.tree_round) == {0}
        native = classifier.predict(rows, output_margin=True).reshape(len(rows), -1)
        np.testing.assert_array_equal(native_margins(model.forest, rows), native)


def decided_classes(forest, margins):
    """The classes of a Forest's own rule, in float32 as the native library decides."""
    if forest.n_outputs > 1:
        return np.argmax(margins, axis=1)
    return (margins[:, :1].astype(np.float64) > np.array(forest.decision.cuts)).sum(axis=1)


@pytest.mark.parametrize("objective", ["binary:logistic", "binary:logitraw", "binary:hinge"])
def test_cut_is_the_true_boundary_of_the_classifier(objective):
    """A one-leaf model per float around the cut: the native label flips exactly at it."""
    rows = make_rows(60)
    classifier = xgboost.XGBClassifier(n_estimators=1, n_jobs=1, objective=objective, gamma=1e9)
    classifier.fit(rows, make_labels(rows, 2))
    forest = read_model(classifier).forest
    cut = np.float32(forest.decision.cuts[0])
    assert float(cut) == forest.decision.cuts[0]
    assert forest.decision.guard == 0.0
    document = json.loads(classifier.get_booster().save_raw("json"))
    learner = document["learner"]
    learner["learner_model_param"]["base_score"] = "5E-1" if objective.endswith("tic") else "0E0"
    leaf = learner["gradient_booster"]["model"]["trees"][0]
    values = [np.nextafter(cut, np.float32(-9)), cut, np.nextafter(cut, np.float32(9)), -1.0, 1.0]
    labels = []
    for value in values:
        leaf["split_conditions"] = [float(value)]
        classifier.load_model(bytearray(json.dumps(document).encode()))
        classifier.objective = objective
        labels.append(int(classifier.predict(rows[:1])[0]))
    assert labels == [0, 0, 1, 0, 1]


@pytest.mark.parametrize(
    "objective", ["binary:logistic", "binary:logitraw", "binary:hinge", "multi:softprob", "multi:softmax"]
)
def test_decided_classes_equal_predict(objective):
    rows = make_rows()
    labels = make_labels(rows, 3 if objective.startswith("multi") else 2)
    classifier = xgboost.XGBClassifier(n_estimators=9, n_jobs=1, objective=objective)
    classifier.fit(rows, labels)
    forest = read_model(classifier).forest
    margins = native_margins(forest, rows)
    np.testing.assert_array_equal(decided_classes(forest, margins), classifier.predict(rows))


def test_softmax_compares_margins_and_softprob_rounded_probabilities():
    softprob = read_model(train(**BOOSTERS["softprob"])).forest.decision
    assert softprob.guard == SOFTMAX_GUARD_FLOAT32
    assert read_model(train(**BOOSTERS["softmax"])).forest.decision.guard == 0.0


def test_wrapper_honours_best_iteration_and_booster_does_not():
    rows = make_rows()
    labels = make_labels(rows, 2)
    classifier = xgboost.XGBClassifier(
        n_estimators=60, max_depth=5, n_jobs=1, early_stopping_rounds=5, learning_rate=0.9
    ).fit(rows[:250], labels[:250], eval_set=[(rows[250:], labels[250:])], verbose=False)
    booster = classifier.get_booster()
    used, total = classifier.best_iteration + 1, booster.num_boosted_rounds()
    assert used < total
    wrapper, whole = read_model(classifier), read_model(booster)
    assert (wrapper.forest.n_trees, whole.forest.n_trees) == (used, total)
    np.testing.assert_array_equal(
        native_margins(wrapper.forest, rows)[:, 0], classifier.predict(rows, output_margin=True)
    )
    np.testing.assert_array_equal(native_margins(whole.forest, rows), booster_margins(booster, rows))


def test_file_saved_by_a_wrapper_is_read_like_the_wrapper(tmp_path):
    rows = make_rows()
    labels = make_labels(rows, 2)
    classifier = xgboost.XGBClassifier(n_estimators=9, n_jobs=1).fit(rows, labels)
    classifier.get_booster().set_attr(best_iteration="3")
    classifier.save_model(tmp_path / "wrapper.ubj")
    classifier.get_booster().save_model(tmp_path / "booster.ubj")
    assert read_model(tmp_path / "wrapper.ubj").forest.n_trees == 4
    assert read_model(tmp_path / "booster.ubj").forest.n_trees == 9


def test_missing_value_is_compared_as_float32():
    rows = np.nan_to_num(make_rows(), nan=-999.25)
    classifier = xgboost.XGBClassifier(n_estimators=8, n_jobs=1, missing=0.1)
    classifier.fit(rows, make_labels(rows, 2))
    forest = read_model(classifier).forest
    assert forest.missing_value == float(np.float32(0.1))
    probe = edge_rows(forest, rows, limit=50)
    probe[::3, 0] = 0.1
    probe[1::3, 1] = float(np.float32(0.1))
    seen = np.where(probe.astype(np.float32) == np.float32(forest.missing_value), np.nan, probe)
    assert np.isnan(seen).sum() > np.isnan(probe).sum()
    native = classifier.predict(probe, output_margin=True)
    np.testing.assert_array_equal(native_margins(forest, seen)[:, 0], native)
    assert np.isnan(read_model(train(objective="binary:logistic")).forest.missing_value)


@pytest.mark.parametrize("max_cat_to_onehot", [1, 100])
def test_categorical_splits(max_cat_to_onehot):
    booster, rows = categorical_booster(max_cat_to_onehot)
    forest = read_model(booster).forest
    sizes = np.diff(forest.category_offset)
    assert (sizes.max() > 1) == (max_cat_to_onehot == 1)
    assert not np.any(forest.set_left)
    assert forest.feature_names == ("x", "c", "d")
    probe = np.vstack([rows[:100], edge_rows(forest, rows, limit=60)])
    np.testing.assert_array_equal(native_margins(forest, probe), booster_margins(booster, probe))


def test_pandas_categories_are_kept_in_code_order():
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    names = random.choice(["red", "green", "blue"], 300)
    sizes = random.choice([7, 3, 40], 300)
    table = pandas.DataFrame(
        {
            "x": random.normal(size=300),
            "name": pandas.Categorical(names, categories=["red", "blue", "green"]),
            "size": pandas.Categorical(sizes, categories=[40, 3, 7]),
        }
    )
    labels = ((names == "red") ^ (sizes == 3) ^ (table.x > 0)).astype(int)
    classifier = xgboost.XGBClassifier(n_estimators=6, n_jobs=1, enable_categorical=True)
    classifier.fit(table, labels)
    forest = read_model(classifier).forest
    assert forest.feature_categories == (None, ("red", "blue", "green"), (40, 3, 7))
    codes = np.column_stack([table.x, table["name"].cat.codes, table["size"].cat.codes])
    native = classifier.predict(table, output_margin=True)
    np.testing.assert_array_equal(native_margins(forest, codes)[:, 0], native)


def test_category_names_that_xgboost_stores_cut_are_refused():
    pandas = pytest.importorskip("pandas")
    column = pandas.Categorical(["é", "x", "é", "x"] * 20)
    table = pandas.DataFrame({"a": column, "b": np.arange(80.0)})
    classifier = xgboost.XGBClassifier(n_estimators=2, n_jobs=1, enable_categorical=True)
    classifier.fit(table, [0, 1, 0, 1] * 20)
    with pytest.raises(UnsupportedModelError, match="ASCII"):
        read_model(classifier)
