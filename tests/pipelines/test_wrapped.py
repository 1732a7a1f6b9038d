"""What people deploy around a model comes out as the same kind, with the same classes."""

import pickle
from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import pine_boost.pipelines.unwrapping
from pine_boost import (
    GuardedModel,
    UnsupportedModelError,
    accelerate_booster,
    load_scorer,
    prune_booster,
    sweep,
    verify,
)
from tests.support.command_line import run
from tests.support.verifying import verify_folder

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

X, Y = load_breast_cancer(return_X_y=True)
X = X[:, :6]
ORDER = np.random.default_rng(0).permutation(len(X))
X, Y = X[ORDER], Y[ORDER]
LABELS = np.array(["benign", "malign"])[Y]
FIT, CAL, NEW = X[:250], X[250:450], X[450:]
MODELS = {
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=12, max_depth=2, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=10, num_leaves=4, n_jobs=1, verbose=-1),
    "gradient": lambda: GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0),
    "exponential": lambda: GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0, loss="exponential"),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=4),
    "forest": lambda: RandomForestClassifier(n_estimators=9, max_depth=3, random_state=0),
}


def fitted(name, y=Y):
    return MODELS[name]().fit(FIT, y[:250])


def calibrated(name, method):
    frozen = FrozenEstimator(fitted(name))
    made = CalibratedClassifierCV(frozen, method=method, ensemble=False, cv=3)
    return made.fit(X[250:], Y[250:])


def tuned(name):
    return TunedThresholdClassifierCV(MODELS[name](), scoring="f1", thresholds=20, cv=3, random_state=0).fit(
        FIT, Y[:250]
    )


WRAPPED = {
    "pipeline": lambda name: make_pipeline(StandardScaler(), MODELS[name]()).fit(FIT, Y[:250]),
    "frozen": lambda name: FrozenEstimator(fitted(name)),
    "fixed": lambda name: FixedThresholdClassifier(fitted(name), threshold=0.3).fit(FIT, Y[:250]),
    "fixed-frozen": lambda name: FixedThresholdClassifier(FrozenEstimator(fitted(name)), threshold=0.7).fit(
        FIT, Y[:250]
    ),
    "tuned": tuned,
    "sigmoid": lambda name: calibrated(name, "sigmoid"),
    "isotonic": lambda name: calibrated(name, "isotonic"),
    "fixed-sigmoid": lambda name: FixedThresholdClassifier(
        FrozenEstimator(calibrated(name, "sigmoid")), threshold=0.8
    ).fit(FIT, Y[:250]),
    "pipeline-fixed": lambda name: make_pipeline(
        StandardScaler(), FixedThresholdClassifier(MODELS[name](), threshold=0.3)
    ).fit(FIT, Y[:250]),
    "sigmoid-pipeline": lambda name: CalibratedClassifierCV(
        make_pipeline(StandardScaler(), MODELS[name]()), ensemble=False, cv=3
    ).fit(FIT, Y[:250]),
}


@pytest.mark.parametrize("kind", WRAPPED)
@pytest.mark.parametrize("name", MODELS)
def test_the_same_kind_comes_out_with_the_same_classes(name, kind):
    whole = WRAPPED[kind](name)
    before = pickle.dumps(whole)
    result = prune_booster(whole, FIT, CAL, alpha=0.3, time_limit=20)
    assert result.status == "CERTIFIED"
    assert type(result.model) is type(whole)
    assert pickle.dumps(whole) == before
    inside = result.region.contains(X)
    assert 0.5 < inside.mean() < 0.95
    same = result.model.predict(X) == whole.predict(X)
    certificate = result.certificate
    if certificate.undecided_exists is not False and certificate.undecided:
        # isotonic steps lie on scores of the model: what is on a step itself is not claimed
        assert "this leaves out inputs whose margin" in certificate.claim
        score = result.inner.original.native.predict_proba(result.wrapper.rows(X))[:, 1]
        same |= np.abs(score - certificate.thresholds[0]) < 1e-6
    assert same[inside].all()
    assert result.evaluate(NEW, Y[450:]).n_rows == len(NEW)
    if (name, kind) == ("xgboost", "pipeline"):
        assert result.certificate.trees_after < result.certificate.trees_before


@pytest.mark.parametrize("kind", ["pipeline", "fixed", "isotonic", "sigmoid-pipeline"])
@pytest.mark.parametrize("backend", ["native", "kernel"])
def test_guarded_models_take_raw_rows(kind, backend, tmp_path):
    whole = WRAPPED[kind]("xgboost")
    result = prune_booster(whole, FIT, CAL, alpha=0.3, time_limit=20)
    guarded = GuardedModel(result, backend=backend)
    shuffled = np.random.default_rng(0).permuted(X, axis=0)  # columns that do not go together
    far_out = np.concatenate([X, shuffled])
    assert (guarded.predict(far_out) == whole.predict(far_out)).all()
    assert 0.3 < guarded.share_guarded < 0.8
    inside = result.region.contains(X)[:, None]
    expected = np.where(inside, result.model.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_allclose(guarded.predict_proba(X), expected, rtol=1e-4, atol=1e-5)
    guarded.save(tmp_path / "folder")
    again = load_scorer(tmp_path / "folder", backend=backend, trust_pickle=True)
    assert (again.predict(far_out) == whole.predict(far_out)).all()


def test_frames_with_text_and_gaps():
    """The ensemble sees numbers that only the Pipeline makes of the raw columns."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": np.where(rng.random(600) < 0.1, np.nan, rng.normal(size=600)),
            "colour": rng.choice(["red", "green", "blue"], 600),
        }
    )
    y = ((frame["size"].fillna(0) > 0) ^ (frame["colour"] == "red")).to_numpy().astype(int)
    columns = make_column_transformer((SimpleImputer(), ["size"]), (OneHotEncoder(handle_unknown="ignore"), ["colour"]))
    pipeline = Pipeline([("columns", columns), ("trees", MODELS["xgboost"]())])
    pipeline.fit(frame[:250], y[:250])
    result = prune_booster(pipeline, frame[:250], frame[250:450], alpha=0.2, time_limit=20)
    assert set(result.speedup(frame[:3], sizes=(1,))) == {1}
    assert isinstance(result.model, Pipeline)
    assert list(result.model.named_steps) == ["columns", "trees"]
    assert result.model.named_steps["columns"] is columns
    inside = result.region.contains(frame)
    assert (result.model.predict(frame) == pipeline.predict(frame))[inside].all()
    assert result.region.coverage(frame[450:]).share > 0.6
    assert result.region.explain(frame[:1]).inside == inside[0]
    assert pipeline.named_steps["trees"].n_estimators == 12


def test_labels_of_text():
    whole = FixedThresholdClassifier(fitted("forest", LABELS), threshold=0.4, pos_label="malign")
    whole.fit(FIT, LABELS[:250])
    result = prune_booster(whole, FIT, CAL, alpha=0.3)
    assert (GuardedModel(result).predict(X) == whole.predict(X)).all()
    assert result.model.predict(X).dtype == LABELS.dtype


def test_a_sweep_gives_whole_models():
    whole = WRAPPED["pipeline-fixed"]("xgboost")
    swept = sweep(whole, FIT, CAL, alphas=[0.2, 0.4])
    for result in swept:
        assert isinstance(result.model, Pipeline)
        inside = result.region.contains(X)
        assert (result.model.predict(X) == whole.predict(X))[inside].all()


def test_a_region_that_prepares_rows_takes_the_ensemble_inside():
    """Its rows must not be prepared before: that would be told otherwise by the refusal of any Pipeline."""
    whole = WRAPPED["pipeline"]("xgboost")
    result = prune_booster(whole, FIT, CAL, alpha=0.4, indifference=0.3)
    inside = result.region.contains(X, model=result.original)
    assert 0.1 < inside.mean() < 0.9
    assert np.array_equal(result.region.contains(X, model=whole[-1]), inside)
    assert (result.model.predict(X) == whole.predict(X))[inside].all()
    for model, serving in ((whole, None), (result.model, result.certificate.serving)):
        with pytest.raises(UnsupportedModelError, match="and the rows as they are"):
            result.region.contains(X, model=model, serving=serving)
    served = result.region.contains(X, model=result.pruned, serving=result.certificate.serving)
    assert (result.model.predict(X) == whole.predict(X))[served].all()


def test_files_of_a_wrapped_result_verify(tmp_path):
    whole = WRAPPED["pipeline"]("xgboost")
    result = prune_booster(whole, FIT, CAL, alpha=0.3)
    folder = result.save(tmp_path / "saved", NEW)
    assert {path.name for path in folder.iterdir()} == {
        "model.json",
        "region.json",
        "certificate.json",
        "report.html",
        "whole_model.pkl",
    }
    again = pickle.loads((folder / "whole_model.pkl").read_bytes())
    assert (again.predict(X) == result.model.predict(X)).all()
    assert verify_folder(whole.named_steps["xgbclassifier"], folder).agrees
    live = verify(whole, result.model, result.region, result.certificate, X_fit=FIT, X_cal=CAL)
    assert live.agrees, live
    result.save(folder)  # its own files may be replaced
    result.summary()
    assert str(result).startswith("CERTIFIED")
    assert pickle.loads(pickle.dumps(result)).status == "CERTIFIED"


def test_the_threshold_of_a_wrapper_is_exact():
    """A score on the threshold itself is class 1 of scikit-learn, one bit below it is not."""
    model = fitted("xgboost")
    scores = np.unique(model.predict_proba(X)[:, 1])
    for score in scores[[3, len(scores) // 2, -4]]:
        for threshold in (float(score), score, float(np.nextafter(score, np.float32(1)))):
            whole = FixedThresholdClassifier(FrozenEstimator(model), threshold=threshold)
            whole.fit(FIT, Y[:250])
            found = pine_boost.pipelines.unwrapping.unwrap(whole)
            above = model.predict_proba(X)[:, 1] > found.threshold
            assert (above == (whole.predict(X) == 1)).all()


def test_a_pipeline_is_compressed(tmp_path):
    from sklearn.datasets import make_classification

    rows, labels = make_classification(4000, 8, random_state=0)
    trees = xgboost.XGBClassifier(n_estimators=30, max_depth=3, n_jobs=1)
    whole = make_pipeline(StandardScaler(), FixedThresholdClassifier(trees, threshold=0.4))
    whole.fit(rows[:1000], labels[:1000])
    result = pine_boost.compress_booster(whole, rows[:1000], rows[1000:2500], fidelity=0.95)
    assert result.status == "VALIDATED"
    assert isinstance(result.model, Pipeline)
    assert result.leaves_after < result.leaves_before
    agreed = (result.model.predict(rows[2500:]) == whole.predict(rows[2500:])).mean()
    assert agreed == result.evaluate(rows[2500:])
    assert agreed > 0.94
    folder = result.save(tmp_path / "saved")
    result.save(folder)
    assert {path.name for path in folder.iterdir()} == {"model.json", "compression.json", "whole_model.pkl"}
    again = pickle.loads((folder / "whole_model.pkl").read_bytes())
    assert (again.predict(rows) == result.model.predict(rows)).all()
    guarded = GuardedModel(result, rows[2500:], fidelity=0.99)
    assert (guarded.predict(rows) == whole.predict(rows)).mean() > 0.985


def test_a_calibrated_result_says_whose_probabilities_moved():
    whole = calibrated("xgboost", "sigmoid")
    rows = np.random.default_rng(1).permutation(X)
    result = pine_boost.compress_booster(whole, rows[:200], rows[200:], fidelity=0.9)
    said = "those of the ensemble inside, before the calibrator"
    assert said in str(result)
    assert said in result.summary()
    before, after = (m.calibrated_classifiers_[0].estimator.predict_proba(rows[200:]) for m in (whole, result.model))
    largest = np.abs(after.astype(float) - before.astype(float)).max()
    assert result.record.probability_shift["maximum"] == largest
    bare = pine_boost.compress_booster(fitted("xgboost"), rows[:200], rows[200:], fidelity=0.9)
    assert said not in str(bare)


@pytest.mark.parametrize("kinds", ["mixed", "numbers"])
def test_the_speed_of_a_pipeline_that_selects_columns_by_name(kinds, tmp_path, capsys):
    table = pd.DataFrame(FIT[:, :3], columns=["a", "b", "c"])
    encode = (OneHotEncoder(handle_unknown="ignore"), ["c"])
    if kinds == "mixed":
        table["c"] = np.where(table["c"] > table["c"].mean(), "high", "low")
    steps = make_column_transformer((StandardScaler(), ["a", "b"]), encode if kinds == "mixed" else ("drop", ["c"]))
    model = make_pipeline(steps, MODELS["gradient"]()).fit(table, Y[:250])
    inside = accelerate_booster(model)  # measured on synthetic rows of the ensemble, which are no rows of the whole
    assert "Speed-up over the ensemble inside, measured on this machine: " in str(inside)
    assert set(inside.speedup(sizes=(1, 5))) == set(inside.speedup(table, sizes=(1, 5))) == {1, 5}
    fitted_to = accelerate_booster(model, table)
    assert "Speed-up over the original, measured on this machine: " in str(fitted_to)
    assert set(fitted_to.speedup(sizes=(1, 5))) == {1, 5}
    (tmp_path / "p.pkl").write_bytes(pickle.dumps(model))
    table.to_csv(tmp_path / "fit.csv", index=False)
    for more in ([], ["--fit", tmp_path / "fit.csv", "--speedup"]):
        call = ("accelerate", tmp_path / "p.pkl", "--trust-pickle", "-o", tmp_path / "s", *more)
        code, out, err = run(capsys, *call)
        assert (code, "speed was not measured" in err) == (0, False), err
        assert "Speed-up over the " in out


def test_a_speed_that_cannot_be_measured_fails_nothing(caplog):
    result = accelerate_booster(make_pipeline(StandardScaler(), MODELS["gradient"]()).fit(FIT, Y[:250]), FIT)
    unfit = replace(result, sample=FIT[:, :2])  # rows that the model does not take
    assert unfit.claim in str(unfit)
    assert "Speed-up" not in str(unfit)
    assert "the speed was not measured: ValueError: X has 2 features" in caplog.text
    with pytest.raises(ValueError, match="X has 2 features"):  # it was asked for
        unfit.speedup()
