"""The table of libraries: what it tells apart, who else may ask for a library; thresholds mean the same in all."""

import json
import re
from dataclasses import fields
from functools import cache
from pathlib import Path

import catboost
import lightgbm
import numpy as np
import pandas
import pytest
import xgboost
from sklearn import ensemble

import pine_boost
from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.native.predict import load_native, original_bytes
from pine_boost.parsers import read_model
from pine_boost.parsers.catboost.category_hash import category_hash
from pine_boost.parsers.traits import LIBRARIES, Traits, describe, traits_of
from tests.support.native_models import small_models


def _frame():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3))
    codes = random.integers(0, 3, 200)
    frame = pandas.DataFrame(X, columns=["height", "weight", "age"])
    frame["town"] = pandas.Categorical.from_codes(codes, categories=["ulm", "bonn", "kiel"])
    return frame, ((X[:, 0] > 0) ^ (codes == 1)).astype(int)


def _fitted(library):
    frame, label = _frame()
    if library == "xgboost":
        model = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1, missing=-1.0)
        return model.set_params(enable_categorical=True).fit(frame, label)
    if library == "catboost":
        model = catboost.CatBoostClassifier(iterations=3, verbose=0, thread_count=1, allow_writing_files=False)
        model.set_params(one_hot_max_size=9, cat_features=["town"])
        return model.fit(frame.astype({"town": str}), label)
    if library == "lightgbm":
        return lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(frame, label)
    model = ensemble.HistGradientBoostingClassifier(max_iter=3, categorical_features="from_dtype")
    return model.fit(frame, label)


@pytest.mark.parametrize("library", LIBRARIES)
def test_facts_are_canonical_and_whole(library):
    model = read_model(_fitted(library))
    facts = describe(model)
    assert json.loads(json.dumps(facts)) == facts
    assert list(facts) == sorted(facts)
    assert facts["features"] == ["height", "weight", "age", "town"]
    towns = [None, None, None, ["str:ulm", "str:bonn", "str:kiel"]]
    known = {
        "sklearn": [*towns[:3], ["str:bonn", "str:kiel", "str:ulm"]],
        "catboost": [*towns[:3], [f"int:{category_hash(town)}" for town in ("ulm", "bonn")]],
    }
    assert facts["categories"] == known.get(library, towns)
    assert facts["classes"] == ["int:0", "int:1"]
    assert facts["missing"] == ("-1.0" if library == "xgboost" else "nan")
    assert facts == describe(read_model(_fitted(library)))


@pytest.mark.parametrize("library", ["catboost", "xgboost", "lightgbm"])
def test_a_file_says_what_its_live_model_says(library):
    live = _fitted(library)
    contents = traits_of(library).save(live)
    ours, theirs = describe(read_model(contents)), describe(read_model(live))
    for name in ("classes", "missing", "wrapper"):  # only a wrapper knows its labels
        ours.pop(name, None), theirs.pop(name, None)
    assert ours == theirs


def test_permuted_names_types_and_objectives_are_other_facts():
    contents = traits_of("xgboost").save(_fitted("xgboost"))
    facts = describe(read_model(contents))
    for key, value in (
        ("feature_names", ["weight", "height", "age", "town"]),
        ("feature_types", ["int", "float", "float", "c"]),
        ("objective", {"name": "binary:logitraw", "reg_loss_param": {"scale_pos_weight": "1"}}),
        ("objective", {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "2"}}),
    ):
        root = json.loads(contents)
        root["learner"][key] = value
        assert describe(read_model(json.dumps(root).encode())) != facts, key
    text = traits_of("lightgbm").save(_fitted("lightgbm"))
    facts = describe(read_model(text))
    changed = text.replace(b"=height weight", b"=weight height", 1)
    assert describe(read_model(changed)) != facts


@pytest.mark.parametrize(("library", "suffix"), [("catboost", "json"), ("xgboost", "json"), ("lightgbm", "txt")])
def test_a_file_is_recognised_loaded_and_written_again(library, suffix):
    traits = traits_of(library)
    contents = traits.save(_fitted(library))
    assert traits.recognises(contents)
    assert traits.suffix_of(contents) == suffix
    model = read_model(contents)
    assert load_native(model) is not None
    assert describe(read_model(original_bytes(model))) == describe(model)
    assert next(other for other in LIBRARIES if traits_of(other).recognises(contents)) == library


def test_the_file_of_a_wrapper_is_read_like_the_wrapper():
    """Its own predict compares the margin of binary:logitraw with 0.5, a Booster's user with 0."""
    frame, label = _frame()
    wrapper = xgboost.XGBClassifier(objective="binary:logitraw", n_estimators=3, max_depth=2, n_jobs=1).fit(
        frame.iloc[:, :3], label
    )
    contents = traits_of("xgboost").save(wrapper)
    assert read_model(contents).forest.decision == read_model(wrapper).forest.decision
    again = xgboost.XGBClassifier()
    again.load_model(bytearray(contents))
    assert np.array_equal(again.predict(frame.iloc[:, :3]), wrapper.predict(frame.iloc[:, :3]))
    assert wrapper.get_booster().attr("scikit_learn") is None


def test_another_library_is_refused_by_name():
    with pytest.raises(UnsupportedModelError, match="'snapml' are not supported"):
        traits_of("snapml")


def test_nobody_else_asks_which_library_it_is():
    """What differs between libraries is a trait; two rooms keep a table of their own."""
    package = Path(pine_boost.__file__).parent
    # how each library reads tables, and how it adds its leaves
    own_table = {"tables/schema.py", "scoring/native_sum.py"}
    asks = re.compile(r"library\s*(?:==|!=|in\s*\()")
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "parsers" not in path.parts and asks.search(path.read_text())
    }
    assert found <= own_table


def test_the_page_about_another_library_names_every_field():
    page = Path(__file__).parents[2] / "docs" / "libraries" / "another.md"
    table = [line for line in page.read_text().splitlines() if line.startswith("    | `")]
    named = {name for line in table for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named == {field.name for field in fields(Traits)}


CLASSIFIERS = ("xgboost", "lightgbm", "gradient", "histogram")


@cache
def _classifier(name):
    X = np.random.default_rng(0).normal(size=(200, 3))
    return small_models(0, 2, few=3)[name].fit(X, (X[:, 0] > 0).astype(int))


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ([0.7, 0.3], "ascend"),
        ([0.3, 0.3], "strictly ascending"),
        (0.0, "strictly between 0 and 1"),
        (1.0, "strictly between 0 and 1"),
        (-1, "strictly between 0 and 1"),
        (2, "strictly between 0 and 1"),
        ([0.2, 1.0], "strictly between 0 and 1"),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        ([], "finite number or a list"),
        ([[0.3]], "finite number or a list"),
        (True, "finite number or a list"),
        ([0.3, True], "finite number or a list"),
        ([0.3, None], "finite number or a list"),
        ("0.5", "finite number or a list"),
        ("half", "finite number or a list"),
        ({"a": 1}, "finite number or a list"),
        (0.5 + 0j, "finite number or a list"),
    ],
)
def test_bad_thresholds_are_refused_by_all(name, threshold, message):
    with pytest.raises(InvalidInputError, match=message):
        read_model(_classifier(name), threshold=threshold)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("threshold", [0.25, np.float32(0.25), np.array(0.25), [0.25], (0.25,), np.array([0.25])])
def test_one_threshold_in_any_form(name, threshold):
    assert read_model(_classifier(name), threshold=threshold).forest.decision.thresholds == (0.25,)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_several_thresholds_make_bands(name):
    forest = read_model(_classifier(name), threshold=[0.25, 0.5, 0.75]).forest
    assert forest.decision.thresholds == (0.25, 0.5, 0.75)
    assert forest.classes == (0, 1, 2, 3)
