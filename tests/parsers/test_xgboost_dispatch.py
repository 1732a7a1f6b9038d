"""The dispatcher: which reader a model, a file or bytes goes to, and what is refused."""

import json
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import xgboost

from pine_boost.errors import InvalidInputError, MissingDependencyError, PineBoostError, UnsupportedModelError
from pine_boost.exporters import export
from pine_boost.model.forest import Model
from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from pine_boost.parsers.xgboost.intercept import LINKS, compute_margin, find_logf
from tests.support.grids import grid_forest
from tests.support.xgboost_models import BOOSTERS, make_labels, make_rows, train


@pytest.mark.parametrize("model", [None, 3, object(), [1], {"a": 1}, np.zeros(3), xgboost.DMatrix])
def test_unknown_objects_are_refused_with_what_is_accepted(model):
    with pytest.raises(UnsupportedModelError, match=r"XGBClassifier.*LGBMClassifier"):
        read_model(model)


def test_objects_of_xgboost_that_are_no_model():
    with pytest.raises(UnsupportedModelError, match="Booster"):
        read_model(xgboost.DMatrix(np.zeros((2, 1))))


def test_a_model_that_was_read_is_used_as_it_was_read():
    contents = bytes(train(rounds=2, **BOOSTERS["logistic"]).save_raw("ubj"))
    parsed = read_model(contents, threshold=0.3)
    assert read_model(parsed) is parsed
    assert read_model(parsed, threshold=[0.3], decision="value") is parsed
    with pytest.raises(InvalidInputError, match=r"threshold=0\.4 was given with a Model .* threshold \(0\.3,\)"):
        read_model(parsed, threshold=0.4)
    value = read_model(bytes(train(rounds=2, objective="reg:squarederror").save_raw("ubj")), decision="value")
    with pytest.raises(UnsupportedModelError, match="decides no class"):
        read_model(value)


@pytest.mark.parametrize("contents", [b"", b"\x00\x01", b"hello", b"binf", b"PK\x03\x04"])
def test_unknown_bytes(contents, tmp_path):
    with pytest.raises(UnsupportedModelError, match="LightGBM text"):
        read_model(contents)
    for suffix in (".json", ".ubj", ".model"):
        path = tmp_path / f"model{suffix}"
        path.write_bytes(contents)
        with pytest.raises(PineBoostError):
            read_model(path)


def test_pipeline_is_refused_with_the_name_of_the_step():
    from sklearn import pipeline, preprocessing

    rows = np.nan_to_num(make_rows())
    steps = [("scale", preprocessing.StandardScaler()), ("boost", xgboost.XGBClassifier(n_estimators=2, n_jobs=1))]
    fitted = pipeline.Pipeline(steps).fit(rows, make_labels(rows, 2))
    with pytest.raises(UnsupportedModelError, match=r"named_steps\['boost'\]"):
        read_model(fitted)
    assert read_model(fitted.named_steps["boost"]).kind == "xgboost.XGBClassifier"


def test_pickles_need_trust(tmp_path):
    import joblib

    rows = make_rows()
    classifier = xgboost.XGBClassifier(n_estimators=2, n_jobs=1).fit(rows, make_labels(rows, 2))
    contents = pickle.dumps(classifier)
    joblib.dump(classifier, tmp_path / "model.joblib", compress=3)
    (tmp_path / "model.pkl").write_bytes(contents)
    for source in (contents, tmp_path / "model.pkl", tmp_path / "model.joblib"):
        with pytest.raises(UnsupportedModelError, match="trust_pickle"):
            read_model(source)
        assert read_model(source, trust_pickle=True).kind == "xgboost.XGBClassifier"
    with pytest.raises(UnsupportedModelError, match="unpickled"):
        read_model(contents[:40], trust_pickle=True)


def test_exporter_of_an_unknown_library_is_refused():
    model = read_model(train(rounds=1, objective="binary:logistic"))
    forest = replace(model.forest, library="cubist")
    with pytest.raises(UnsupportedModelError, match="cubist"):
        export(Model(forest, model.kind, None), grid_forest(forest))


def test_files_are_read_without_importing_a_library(tmp_path):
    path = tmp_path / "model.ubj"
    train(rounds=2, objective="multi:softprob", n_classes=3).save_model(path)
    code = (
        "import sys; from pine_boost.parsers import read_model;"
        f"print(read_model({str(path)!r}).forest.n_trees);"
        "print(sorted({'xgboost', 'lightgbm', 'sklearn', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["6", "[]"]


@pytest.mark.parametrize(
    ("objective", "score"),
    [
        *(("binary:logistic", score) for score in (0.5, 0.123, 0.9, 1e-4, 0.427499999, 0.999)),
        *(("count:poisson", score) for score in (1.0, 0.5, 3.7)),
    ],
)
def test_intercept_without_the_library_is_the_measured_one(objective, score):
    """libm's logf gives the same bits as XGBoost, the sign of zero included."""
    contents = bytes(train(rounds=1, objective=objective, base_score=score).save_raw())
    model = read_model(contents, decision="value")
    margin, error = compute_margin(LINKS[objective], model.document.base_score[0], find_logf())
    assert (margin.hex(), error) == (float(model.forest.intercept[0]).hex(), 0.0)
    if score in (0.5, 1.0):  # float64's log, for want of a logf
        assert (
            compute_margin(LINKS[objective], 1.0 if objective == "count:poisson" else 0.5, None)[0].hex() == "0x0.0p+0"
        )


def test_intercept_without_libm_carries_its_uncertainty():
    random = np.random.default_rng(0)
    logf = find_logf()
    for score in random.uniform(0.001, 0.999, 200).astype(np.float32).tolist():
        margin, error = compute_margin("logit", score, None)
        assert 0 < error < 1e-5
        assert abs(margin - compute_margin("logit", score, logf)[0]) <= error


def test_clipped_base_score_needs_the_library():
    with pytest.raises(MissingDependencyError, match="clips"):
        compute_margin("logit", 0.0, find_logf())


@pytest.mark.parametrize("score", ["0E0", "1E0"])
def test_clipped_base_score_is_measured(score):
    booster = train(rounds=2, **BOOSTERS["logistic"])
    document = json.loads(booster.save_raw("json"))
    document["learner"]["learner_model_param"]["base_score"] = score
    contents = json.dumps(document).encode()
    native = xgboost.Booster({"nthread": 1}, model_file=bytearray(contents))
    rows = make_rows(40)
    np.testing.assert_array_equal(
        native_margins(read_model(contents).forest, rows)[:, 0],
        native.predict(xgboost.DMatrix(rows), output_margin=True),
    )
