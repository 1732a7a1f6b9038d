"""XGBoost reader: margins bit for bit and classes exactly as the native library gives them; what is refused by name."""

import json
from dataclasses import replace

import numpy as np
import pandas
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters import export
from pine_boost.model.digest import forest_digest
from pine_boost.model.exact import SOFTMAX_GUARD_FLOAT32, summation_band
from pine_boost.model.reference import find_leaves, native_margins
from pine_boost.parsers import read_model
from pine_boost.parsers.nodes import Nodes, one_tree
from pine_boost.parsers.xgboost.document import XGBoostDocument, read_document
from pine_boost.parsers.xgboost.intercept import constant_document, fold_weights
from pine_boost.parsers.xgboost.read import major_minor
from pine_boost.parsers.xgboost.trees import RECORD
from pine_boost.parsers.xgboost.ubjson import read_ubjson, write_ubjson
from pine_boost.parsers.xgboost.write import write_document
from tests.support import value_models
from tests.support.grids import edge_rows, grid_forest, integer_margins
from tests.support.sklearn_models import decide
from tests.support.xgboost_models import (
    BOOSTERS,
    INPLACE_DART_DIFFERS,
    OBJECTIVES_OF_VALUES,
    WEIGHT_PLACES,
    booster_margins,
    categorical_booster,
    early_stopped,
    make_labels,
    make_rows,
    move_weights,
    train,
)


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
            assert forest_digest(model.forest) == forest_digest(live)
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


@pytest.mark.parametrize("name", ["dart", "dart_multi"])
@pytest.mark.parametrize("since", WEIGHT_PLACES)
def test_dropout_weights_are_read_where_the_version_reads_them(name, since):
    """Up to 3.2 dart is a booster of its own; 3.3 wrote the weights beside the model, 3.4 into it."""
    booster, rows = train(**BOOSTERS[name]), make_rows(seed=9)
    root = json.loads(booster.save_raw("json"))
    move_weights(root, since)
    contents = json.dumps(root).encode()
    document = read_document(contents)
    assert document.weights_since == since
    assert len(document.weight_drop) == document.trees.n_trees
    folded = native_margins(read_model(write_document(fold_weights(document), "json")).forest, rows)
    np.testing.assert_array_equal(folded, booster_margins(booster, rows))
    native = booster_margins(xgboost.Booster({"nthread": 1}, model_file=bytearray(contents)), rows)
    if major_minor(xgboost) >= since:
        forest = read_model(contents).forest
        np.testing.assert_array_equal(native_margins(forest, rows), native)
        assert (forest.slack == 0.0) == (since >= (3, 3))
    else:
        assert np.any(native != folded)
        with pytest.raises(UnsupportedModelError, match=rf"XGBoost {since[0]}.{since[1]} and later.*silently ignores"):
            read_model(contents)


@pytest.mark.parametrize("rounds_before", [0, 3])
def test_dropout_without_the_name_dart(rounds_before):
    """XGBoost before 3.3 ignores it; later versions drop trees."""
    rows = make_rows()
    data = xgboost.DMatrix(rows, make_labels(rows, 2), nthread=1)
    parameters = {"objective": "binary:logistic", "max_depth": 3, "nthread": 1, "seed": 1, "verbosity": 0}
    begun = xgboost.train(parameters, data, rounds_before) if rounds_before else None
    booster = xgboost.train({**parameters, "rate_drop": 0.5}, data, 9, xgb_model=begun)
    model = read_model(booster)
    weights = read_document(bytes(booster.save_raw("ubj"))).weight_drop
    assert weights is None if major_minor(xgboost) < (3, 3) else len(set(weights.tolist())) > 2
    probe = np.vstack([rows, edge_rows(model.forest, rows, limit=60)])
    margins = native_margins(model.forest, probe)
    np.testing.assert_array_equal(margins, booster_margins(booster, probe))
    np.testing.assert_array_equal(margins[:, 0], booster.inplace_predict(probe, predict_type="margin"))


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


@pytest.mark.parametrize("objective", OBJECTIVES_OF_VALUES)
def test_regressions_need_a_threshold_on_the_margin(objective):
    booster, rows = value_models.xgb(objective, gaps=True, base_score=0.37), value_models.table(gaps=True)[0]
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


@pytest.mark.parametrize("booster", ["gbtree", "dart", "random forest"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifier_is_read_as_its_own_predict_works(booster, n_classes):
    rows = make_rows()
    options = {"booster": "dart", "rate_drop": 0.4} if booster == "dart" else {}
    if n_classes == 2:
        options["base_score"] = 0.3
    name = "XGBClassifier"
    if booster == "random forest":
        name, options["random_state"] = "XGBRFClassifier", 1
    classifier = getattr(xgboost, name)(n_estimators=15, max_depth=3, n_jobs=1, **options)
    model = read_model(classifier.fit(rows, make_labels(rows, n_classes)))
    assert model.kind == f"xgboost.{name}"
    assert len(set(model.forest.tree_round)) == (1 if booster == "random forest" else 15)
    assert model.forest.classes == tuple(range(n_classes))
    probe = np.vstack([rows, edge_rows(model.forest, rows, infinite=True, limit=60)])
    native = classifier.predict(probe, output_margin=True).reshape(len(probe), -1)
    margins = native_margins(model.forest, probe)
    if booster != "dart" or not INPLACE_DART_DIFFERS:
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
    np.testing.assert_array_equal(decide(forest, margins), classifier.predict(rows))


def test_softmax_compares_margins_and_softprob_rounded_probabilities():
    softprob = read_model(train(**BOOSTERS["softprob"])).forest.decision
    assert softprob.guard == SOFTMAX_GUARD_FLOAT32
    assert read_model(train(**BOOSTERS["softmax"])).forest.decision.guard == 0.0


def test_wrapper_honours_best_iteration_and_booster_does_not():
    classifier, rows = early_stopped()
    booster = classifier.get_booster()
    used, total = classifier.best_iteration + 1, booster.num_boosted_rounds()
    wrapper, whole = read_model(classifier), read_model(booster)
    assert (wrapper.forest.n_trees, whole.forest.n_trees) == (used, total)
    np.testing.assert_array_equal(
        native_margins(wrapper.forest, rows)[:, 0], classifier.predict(rows, output_margin=True)
    )
    np.testing.assert_array_equal(native_margins(whole.forest, rows), booster_margins(booster, rows))


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


def test_category_names_that_xgboost_stores_cut_are_refused():
    column = pandas.Categorical(["é", "x", "é", "x"] * 20)
    table = pandas.DataFrame({"a": column, "b": np.arange(80.0)})
    classifier = xgboost.XGBClassifier(n_estimators=2, n_jobs=1, enable_categorical=True)
    classifier.fit(table, [0, 1, 0, 1] * 20)
    with pytest.raises(UnsupportedModelError, match="ASCII"):
        read_model(classifier)


def test_probability_thresholds_become_margins():
    booster = train(objective="binary:logistic")
    decision = read_model(booster, threshold=0.3).forest.decision
    assert decision.cuts[0] == pytest.approx(np.log(0.3 / 0.7), rel=1e-14)
    assert decision.thresholds == (0.3,)
    rows = make_rows(seed=8)
    margins = booster_margins(booster, rows)[:, 0].astype(float)
    probabilities = booster.predict(xgboost.DMatrix(rows))
    clear = np.abs(margins - decision.cuts[0]) > decision.guard
    assert clear.mean() > 0.99
    np.testing.assert_array_equal((margins > decision.cuts[0])[clear], (probabilities > 0.3)[clear])
    bands = read_model(booster, threshold=[0.2, 0.5, 0.8]).forest
    assert len(bands.decision.cuts) == 3
    assert bands.classes == (0, 1, 2, 3)


def test_thresholds_that_do_not_fit_the_objective_are_refused():
    with pytest.raises(InvalidInputError, match="per-class"):
        read_model(train(rounds=1, **BOOSTERS["softprob"]), threshold=0.5)
    with pytest.raises(InvalidInputError, match="hinge"):
        read_model(train(rounds=1, **BOOSTERS["hinge"]), threshold=0.5)


def test_refused_by_name():
    rows = make_rows(n_features=3)
    labels = make_labels(rows, 3)
    linear = xgboost.train(
        {"booster": "gblinear", "objective": "binary:logistic", "nthread": 1},
        xgboost.DMatrix(np.nan_to_num(rows), labels > 0),
        1,
    )
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        read_model(linear)
    vector = train(
        rounds=2, objective="multi:softprob", n_classes=3, tree_method="hist", multi_strategy="multi_output_tree"
    )
    with pytest.raises(UnsupportedModelError, match="vector leaves"):
        read_model(vector)
    several = xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(rows, np.c_[labels, labels])
    with pytest.raises(UnsupportedModelError, match="several targets"):
        read_model(several, threshold=0.5)
    with pytest.raises(UnsupportedModelError, match="XGBRegressor"):
        read_model(xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(rows, labels))
    with pytest.raises(InvalidInputError, match="not fitted"):
        read_model(xgboost.XGBClassifier())
    two = xgboost.XGBClassifier(n_estimators=2, n_jobs=1, objective="multi:softprob", num_class=2)
    with pytest.raises(UnsupportedModelError, match="refit"):
        read_model(two.fit(rows, labels > 0))


def test_vector_leaves_of_3_0_are_refused_by_name():
    """There the trees have neither loss_changes nor sum_hessian."""
    document = json.loads(train(**BOOSTERS["logistic"]).save_raw("json"))
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        tree["tree_param"]["size_leaf_vector"] = "3"
        del tree["loss_changes"], tree["sum_hessian"]
    with pytest.raises(UnsupportedModelError, match="vector leaves"):
        read_model(json.dumps(document).encode())


def _stumps(leaves, weights=None, base_score="5E-1"):
    """A Booster whose trees split on feature 0 at 0.5 into the two given leaves each."""
    learner = train(rounds=1, objective="binary:logistic", max_depth=1).save_raw("json")
    document = json.loads(learner)
    learner = document["learner"]
    learner["learner_model_param"]["base_score"] = base_score
    model = learner["gradient_booster"]["model"]
    (given,) = model["trees"]
    trees = []
    for number, (left, right) in enumerate(leaves):
        tree = {**given, "id": number, "split_indices": [0, 0, 0]}
        tree["split_conditions"], tree["base_weights"] = [0.5, left, right], [0.0, left, right]
        trees.append(tree)
    model["trees"], model["tree_info"] = trees, [0] * len(trees)
    model["gbtree_model_param"]["num_trees"] = str(len(trees))
    model["iteration_indptr"] = list(range(len(trees) + 1))
    if weights is not None:
        learner["gradient_booster"] = {
            "name": "dart",
            "gbtree": {"name": "gbtree", "model": model},
            "weight_drop": weights,
        }
    return xgboost.Booster(model_file=bytearray(json.dumps(document).encode()))


def _both_sides(booster):
    rows = np.full((2, booster.num_features()), np.nan, dtype=np.float32)
    rows[:, 0] = 0, 1
    return rows, booster.predict(xgboost.DMatrix(rows), output_margin=True)


@pytest.mark.parametrize("leaves", [[(1.0, 3e38)] * 2 + [(1.0, -3e38)] * 3, [(1.0, 1e38), (1.0, -1e38)]])
def test_sums_beyond_float32_are_refused(leaves):
    """The first is infinite where the exact sum is finite; the second is in some other order."""
    booster = _stumps(leaves)
    if len(leaves) == 5:
        assert np.isinf(_both_sides(booster)[1][1])
    for source in (booster, bytes(booster.save_raw("json"))):
        with pytest.raises(UnsupportedModelError, match="overflow; accepted are sums below"):
            read_model(source)


def test_dart_leaves_that_overflow_before_their_weight_are_refused():
    with pytest.raises(UnsupportedModelError, match="overflow"):
        read_model(_stumps([(1.0, 3e38)] * 2, weights=[1e-38, 1e-38]))
    with pytest.raises(UnsupportedModelError, match="overflow"):
        read_model(_stumps([(1.0, 1e38)] * 2, weights=[1.0, 1.0]))


def test_amounts_that_xgboost_writes_exactly_between_two_floats():
    rows = np.random.default_rng(0).lognormal(17.5, 1, (1000, 3)).astype(np.float32)
    booster = xgboost.XGBRegressor(n_estimators=20, max_depth=6, n_jobs=1).fit(rows, rows[:, 0] * 0.3).get_booster()
    text, binary = (bytes(booster.save_raw(raw_format)) for raw_format in ("json", "ubj"))
    for name in ("split_conditions", "loss_changes"):
        numbers = [n for t in json.loads(text)["learner"]["gradient_booster"]["model"]["trees"] for n in t[name]]
        wide, narrow = np.array(numbers), np.array(numbers, dtype=np.float32).astype(float)
        assert np.any(np.abs(wide - narrow) == np.spacing(narrow.astype(np.float32)) / 2), name
    threshold = float(np.median(booster.predict(xgboost.DMatrix(rows))))
    read, exact = (read_model(raw, threshold=threshold).forest for raw in (text, binary))
    assert forest_digest(read) == forest_digest(exact)
    np.testing.assert_array_equal(native_margins(read, rows), booster_margins(booster, rows))


def test_large_sums_within_float32_are_read_exactly():
    booster = _stumps([(1.0, 8e37), (-3.0, 8e37)])
    rows, margins = _both_sides(booster)
    assert np.all(np.isfinite(margins))
    np.testing.assert_array_equal(native_margins(read_model(booster).forest, rows)[:, 0], margins)


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
    record = np.zeros(len(left), dtype=RECORD)
    record["split_indices"], record["default_left"], record["split_type"] = feature, default, categorical
    record["split_conditions"] = record["base_weights"] = numbers
    return Nodes(
        offset=offset,
        left=left,
        right=np.where(left < 0, -1, left + 1),
        record=record,
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
        feature_names=("a", "größe", "c d"),
        feature_types=("float", "float", "c"),
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
    record = np.zeros(n_nodes, dtype=RECORD)
    record["default_left"], record["split_conditions"], record["base_weights"] = 1, numbers, numbers
    trees = one_tree(left, right, record)
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
