"""A whole life in one process: train, prune, save, read back, compare natively, verify.

Runs in any environment that has pine_boost and at least one training library; prints one JSON line
with the versions and what came of every model kind. Any exception or difference is a failure.
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

MODULES = {
    "pine_boost": "pine_boost",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "scikit-learn": "sklearn",
    "ortools": "ortools",
    "numpy": "numpy",
    "scipy": "scipy",
}


class UpstreamError(Exception):
    """The training library itself does not work in this environment."""


def make_rows(seed: int, n_rows: int) -> Any:
    """Rows on a coarse grid, so that many lie next to thresholds."""
    return np.random.default_rng(seed).normal(size=(n_rows, 5)).round(1)


def model_kinds() -> dict[str, Callable[[Any, Any], Any]]:
    """What can be trained here: name and ``(X, y) -> fitted model``."""
    kinds: dict[str, Callable[[Any, Any], Any]] = {}
    try:
        import xgboost

        small: dict[str, Any] = {"n_estimators": 12, "max_depth": 2, "n_jobs": 1}
        kinds["XGBClassifier"] = lambda X, y: xgboost.XGBClassifier(**small).fit(X, y)
        kinds["XGBClassifier dart"] = lambda X, y: xgboost.XGBClassifier(**small, booster="dart", rate_drop=0.3).fit(
            X, y
        )
        kinds["XGBoost .ubj file"] = lambda X, y: bytes(
            xgboost.XGBClassifier(**small).fit(X, y).get_booster().save_raw("ubj")
        )
        kinds["XGBoost .json file"] = lambda X, y: bytes(
            xgboost.XGBClassifier(**small).fit(X, y).get_booster().save_raw("json")
        )
    except ImportError:
        pass
    try:
        import lightgbm

        few: dict[str, Any] = {"n_estimators": 12, "num_leaves": 4, "n_jobs": 1, "verbose": -1}
        kinds["LGBMClassifier"] = lambda X, y: lightgbm.LGBMClassifier(**few).fit(X, y)
        # without the wrapper, which does not work with every scikit-learn
        kinds["LightGBM .txt file"] = lambda X, y: (
            lightgbm.train(
                {"num_leaves": 4, "num_threads": 1, "verbose": -1, **_lightgbm_objective(y)},
                lightgbm.Dataset(X, y),
                num_boost_round=12,
            )
            .model_to_string()
            .encode()
        )
    except ImportError:
        pass
    try:
        from sklearn import ensemble

        for name, options in {
            "GradientBoostingClassifier": {"n_estimators": 10, "max_depth": 2},
            "HistGradientBoostingClassifier": {"max_iter": 10, "max_depth": 2},
            "RandomForestClassifier": {"n_estimators": 10, "max_depth": 3},
            "ExtraTreesClassifier": {"n_estimators": 10, "max_depth": 3},
            "AdaBoostClassifier": {"n_estimators": 10},
        }.items():
            made = getattr(ensemble, name)(random_state=0, **options)
            if made.get_params().get("algorithm") == "SAMME.R":  # the default before 1.6, refused
                made.set_params(algorithm="SAMME")
            kinds[name] = made.fit
    except ImportError:
        pass
    return kinds


def _lightgbm_objective(y: Any) -> dict[str, Any]:
    n_classes = len(np.unique(y))
    if n_classes == 2:
        return {"objective": "binary"}
    return {"objective": "multiclass", "num_class": n_classes}


def live(fit: Callable[[Any, Any], Any], n_classes: int) -> dict[str, Any]:
    """Train, prune, compare, save, read back, verify; returns what was measured."""
    from pine_boost import prune_booster
    from pine_boost.native.predict import predict_classes
    from pine_boost.parsers import read_model
    from pine_boost.verifying import verify

    X, fresh = make_rows(0, 500), make_rows(1, 400)
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [0.0] if n_classes == 2 else [-0.6, 0.6])
    try:
        model = fit(X, y)
    except Exception as error:
        raise UpstreamError(f"{type(error).__name__}: {error}") from error
    result = prune_booster(model, X[:300], X[300:], alpha=0.3)
    assert result.status == "CERTIFIED", result.certificate.reason
    n_compared = 0
    for rows in (X[:300], fresh):
        inside = result.region.contains(rows)
        same = predict_classes(result.original, rows) == predict_classes(result.pruned, rows)
        assert same[inside].all(), "the native models differ in the region"
        n_compared += int(inside.sum())
    with tempfile.TemporaryDirectory() as folder:
        out = result.save(Path(folder) / "out")
        path = next(out.glob("model.*"))
        again = read_model(path, trust_pickle=True)
        assert np.array_equal(predict_classes(again, fresh), predict_classes(result.pruned, fresh))
        verdict = verify(model, path, out / "region.json", out / "certificate.json", trust_pickle=True)
    assert verdict.agrees is True, verdict.summary()
    c = result.certificate
    return {"trees": f"{c.trees_before} -> {c.trees_after}", "rows": n_compared}


def main() -> None:
    """Every kind with two and with three classes."""
    warnings.simplefilter("ignore")  # old libraries warn of new ones
    versions = {}
    for package, module in MODULES.items():
        try:  # what is imported, not what some installed package says
            versions[package] = import_module(module).__version__
        except ImportError:
            continue
    versions["python"] = sys.version.partition(" ")[0]
    outcome: dict[str, Any] = {}
    for name, fit in model_kinds().items():
        for n_classes in (2, 3):
            key = f"{name}, {n_classes} classes"
            try:
                outcome[key] = live(fit, n_classes)
            except UpstreamError as error:
                outcome[key] = {"untrainable": str(error)[:200]}
            except Exception as error:
                outcome[key] = {"failed": f"{type(error).__name__}: {error}"[:300]}
                traceback.print_exc(file=sys.stderr)
    print(json.dumps({"versions": versions, "outcome": outcome}))


if __name__ == "__main__":
    main()
