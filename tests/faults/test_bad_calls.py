"""Every bad call of the table gives its own error, in words that say what to do."""

import re
import warnings

import catboost
import lightgbm
import numpy as np
import pandas
import pytest
import xgboost
from sklearn import ensemble

import pine_boost
from pine_boost.parsers import read_model
from pine_boost.parsers.catboost.read import native_json
from pine_boost.region.fitting import fit_region
from tests.faults.bad_calls import BAD_CALLS, World
from tests.support.native_models import CATBOOST_QUIET

CALLS = [(name, call, error, words) for error, rows in BAD_CALLS.items() for name, call, words in rows]
CHECKED_WITH_THE_MODEL = {"score", "threshold", "domain"}
NAMES = [name for name, *_ in CALLS]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    model = ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)
    model.fit(X, y)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    values = pandas.Categorical(np.where(X[:, 2] > 0, "u", "v"))
    category_frame = frame.assign(c=values)
    small = {"n_estimators": 3, "max_depth": 2, "n_jobs": 1}
    named = xgboost.XGBClassifier(**small).fit(frame, y)
    result = pine_boost.prune_booster(model, X[:120], X[120:], alpha=0.2)
    data = lightgbm.Dataset(X, y)
    options = {"objective": "binary", "verbose": -1, "num_threads": 1, "num_leaves": 4}
    return World(
        model=model,
        named=named,
        categorical=xgboost.XGBClassifier(**small, enable_categorical=True).fit(category_frame, y),
        regressor=xgboost.XGBRegressor(**small).fit(X, X[:, 0]),
        frame=frame,
        category_frame=category_frame,
        X=X,
        y=y,
        result=result,
        undecided=fit_region(read_model(model), X[:120], X[120:], alpha=0.3, indifference=0.1),
        saved=result.save(tmp_path_factory.mktemp("saved") / "out"),
        xgboost_file=bytes(named.get_booster().save_raw("json")),
        lightgbm_file=lightgbm.train(options, data, 3).model_to_string().encode(),
        catboost_file=native_json(catboost.CatBoostClassifier(iterations=3, **CATBOOST_QUIET).fit(X, y)),
        catboost_with_statistics=catboost.CatBoostClassifier(iterations=9, cat_features=[0], **CATBOOST_QUIET).fit(
            frame.assign(a=(4 * X[:, 0]).astype(int)), y
        ),
    )


def test_the_table_is_long_and_has_no_name_twice():
    assert len(NAMES) >= 60
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(("name", "call", "error", "words"), CALLS, ids=NAMES)
def test_bad_call(world, name, call, error, words):
    with warnings.catch_warnings():
        # what a bad call warns of on its way is not what is tested here
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(error) as caught:
            world.prune(**call) if isinstance(call, dict) else call(world)
    message = str(caught.value)
    assert isinstance(caught.value, pine_boost.PineBoostError)
    assert re.search(words, message, re.DOTALL), f"{name}: {message}"
    assert message.endswith((".", "]", ")")), message
    assert len(message) < 1200
    if isinstance(call, dict) and error is pine_boost.InvalidInputError and not set(call) & CHECKED_WITH_THE_MODEL:
        assert message.startswith(f"{next(iter(call))} must be ")
        assert caught.value.option == tuple(call)


def test_bad_calls_leave_the_model_as_it_was(world):
    before = pine_boost.model.digest.forest_digest(world.result.original.forest)
    again = pine_boost.parsers.read_model(world.model).forest
    assert pine_boost.model.digest.forest_digest(again) == before
