"""Results in a real local MLflow store: the native flavour comes back, the proof lies beside it."""

import json
import os

import lightgbm
import mlflow
import numpy as np
import pytest
import xgboost
from sklearn import datasets, ensemble, pipeline, preprocessing

from pine_boost import (
    Certificate,
    CompressResult,
    InvalidInputError,
    PruneResult,
    Region,
    accelerate_booster,
    compress_booster,
    prune_booster,
)
from pine_boost.integrations.mlflow import log_result

X, Y = datasets.load_breast_cancer(return_X_y=True)
X = X[:, :5]
pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's remarks on its own stores

MODELS = {
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=6, num_leaves=4, n_jobs=1, verbose=-1),
    "sklearn": lambda: ensemble.GradientBoostingClassifier(n_estimators=6, max_depth=2),
    "pipeline": lambda: pipeline.make_pipeline(
        preprocessing.StandardScaler(), xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1)
    ),
}


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ENABLE_TELEMETRY", "false")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    mlflow.set_experiment("pine_boost")
    yield
    mlflow.set_tracking_uri(before)
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        del os.environ[name]  # MLflow hands its settings on to child processes this way


@pytest.mark.parametrize("name", MODELS)
def test_the_native_flavour_comes_back_with_the_proof_beside_it(name, tmp_path):
    model = MODELS[name]().fit(X[:280], Y[:280])
    result = prune_booster(model, X[:280], X[280:], alpha=0.3)
    trusted = {
        "sklearn": {"skops_trusted_types": ["sklearn.tree._tree.Tree"]},
        "pipeline": {"skops_trusted_types": ["xgboost.core.Booster", "xgboost.sklearn.XGBClassifier"]},
    }
    info = log_result(result, report=name == "xgboost", pip_requirements=["numpy"], **trusted.get(name, {}))
    flavour = mlflow.sklearn if name == "pipeline" else getattr(mlflow, name)
    loaded = flavour.load_model(info.model_uri)
    assert type(loaded) is type(model)
    assert (loaded.predict(X) == result.model.predict(X)).all()
    run = mlflow.get_run(info.run_id)
    assert run.data.tags["pine_boost.status"] == "CERTIFIED"
    assert run.data.tags["pine_boost.claim"] == result.certificate.claim
    assert run.data.metrics["trees_after"] == result.certificate.trees_after
    folder = mlflow.artifacts.download_artifacts(
        run_id=info.run_id, artifact_path="pine_boost", dst_path=str(tmp_path / "down")
    )
    certificate = Certificate.load(f"{folder}/certificate.json")
    assert certificate.claim == result.certificate.claim
    region = Region.load(f"{folder}/region.json")
    assert region.fingerprint() == certificate.region_fingerprint
    if name == "xgboost":
        with open(f"{folder}/report.html", encoding="utf-8") as file:
            assert "CERTIFIED" in file.read()


def test_a_file_is_logged_as_a_booster_within_the_run_of_the_user(tmp_path):
    model = MODELS["xgboost"]().fit(X[:280], Y[:280])
    model.save_model(tmp_path / "model.json")
    result = prune_booster(tmp_path / "model.json", X[:280], X[280:], alpha=0.3)
    with mlflow.start_run() as run:
        info = log_result(result, report=False, pip_requirements=["numpy"])
        assert mlflow.active_run().info.run_id == run.info.run_id == info.run_id
    assert mlflow.active_run() is None
    booster = mlflow.xgboost.load_model(info.model_uri)
    margins = booster.predict(xgboost.DMatrix(X), output_margin=True)
    native = xgboost.Booster(model_file=bytearray(result.model))
    assert (margins == native.predict(xgboost.DMatrix(X), output_margin=True)).all()
    assert np.isfinite(margins).all()


def test_what_mlflow_refuses_ends_as_a_failed_run():
    model = MODELS["sklearn"]().fit(X[:280], Y[:280])
    result = prune_booster(model, X[:280], X[280:], alpha=0.3)
    with pytest.raises(mlflow.exceptions.MlflowException, match="skops_trusted_types"):
        log_result(result, report=False, pip_requirements=["numpy"])
    assert mlflow.active_run() is None
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == "FAILED"


def test_an_average_of_ensembles_is_logged(few_synthetic_rows):
    members = [(str(seed), MODELS["sklearn"]().set_params(random_state=seed)) for seed in range(2)]
    model = ensemble.VotingClassifier(members, voting="soft").fit(X[:280], Y[:280])
    result = compress_booster(model, X[:280], X[280:], fidelity=0.9)
    trusted = ["sklearn.tree._tree.Tree", "sklearn.utils._bunch.Bunch"]
    info = log_result(result, pip_requirements=["numpy"], skops_trusted_types=trusted)
    assert (mlflow.sklearn.load_model(info.model_uri).predict(X) == result.model.predict(X)).all()
    run = mlflow.get_run(info.run_id)
    assert run.data.tags["pine_boost.claim"] == result.claim
    assert run.data.metrics["leaves_after"] == result.leaves_after


def test_something_else_is_refused_before_a_run_begins(tmp_path, few_synthetic_rows):
    with pytest.raises(InvalidInputError, match="got a dict"):
        log_result(json.loads("{}"))
    model = MODELS["xgboost"]().fit(X[:280], Y[:280])
    with pytest.raises(InvalidInputError, match="got an AccelerateResult"):
        log_result(accelerate_booster(model))
    folders = (
        prune_booster(model, X[:280], X[280:], alpha=0.3).save(tmp_path / "pruned", report=False),
        compress_booster(model, X[:280], X[280:], fidelity=0.9).save(tmp_path / "compressed"),
    )
    for kind, folder in zip((PruneResult, CompressResult), folders, strict=True):
        with pytest.raises(InvalidInputError, match=r"load\(folder, original=...\)"):
            log_result(kind.load(folder))
    assert mlflow.active_run() is None
    assert len(mlflow.search_runs(output_format="list")) == 0
