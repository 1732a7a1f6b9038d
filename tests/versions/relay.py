"""Legs of a relay between environments: train, prove or check the models of a folder.

``python -m tests.versions.relay FOLDER LEG ...`` runs in whatever environment its PYTHONPATH makes, each leg in a
process of its own, forked from one that has imported the solvers. A leg is an action, or an action and the libraries
that it must do without (``check-xgboost,sklearn``). It prints one JSON line; that of ``check`` has digests, verdicts
and native margins of every result it finds.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

# name of a model: its threshold, None for the class decision of the library
THRESHOLDS = {
    "xgboost-half": None,
    "xgboost-mean": None,
    "xgboost-three": None,
    "xgboost-squared": 10.0,
    "xgboost-poisson": 2.3,
    "lightgbm-two": None,
    "lightgbm-three": None,
    "lightgbm-poisson": 2.3,
    "catboost-two": None,
    "catboost-three": None,
    "sklearn-gradient": None,
    "sklearn-forest": None,
}
COMPRESSED = ("xgboost-half", "lightgbm-two", "catboost-two", "sklearn-gradient")  # one of every library


class _Blocked:
    """A finder that makes libraries look as if they were not installed."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = set(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in self.names:
            raise ImportError(f"No module named {name!r} (blocked by the test)", name=name)


def rows() -> Any:
    """Rows on a coarse grid, so that many lie on thresholds."""
    return np.random.default_rng(0).normal(size=(400, 4)).round(1)


def train(folder: Path) -> None:
    """Write a model file of every kind that can be trained here."""
    X = rows()
    value = 10 + 3 * X[:, 0] + X[:, 1] * X[:, 2]
    labels = {"two": value > 9, "three": np.digitize(value, [8, 12]), "count": np.round(np.abs(value))}
    if _has("xgboost"):
        import xgboost

        for name, objective, target in (
            ("half", {"objective": "binary:logistic", "base_score": 0.5}, labels["two"]),
            ("mean", {"objective": "binary:logistic"}, labels["two"]),
            ("three", {"objective": "multi:softprob", "num_class": 3}, labels["three"]),
            ("squared", {"objective": "reg:squarederror"}, value),
            ("poisson", {"objective": "count:poisson"}, labels["count"]),
        ):
            parameters = {"max_depth": 2, "nthread": 1, **objective}
            booster = xgboost.train(parameters, xgboost.DMatrix(X, np.asarray(target, dtype=float)), 6)
            booster.save_model(folder / f"xgboost-{name}.json")
    if _has("lightgbm"):
        import lightgbm

        for name, objective, target in (
            ("two", {"objective": "binary"}, labels["two"]),
            ("three", {"objective": "multiclass", "num_class": 3}, labels["three"]),
            ("poisson", {"objective": "poisson"}, labels["count"]),
        ):
            parameters = {"num_leaves": 4, "num_threads": 1, "verbose": -1, **objective}
            booster = lightgbm.train(parameters, lightgbm.Dataset(X, target), 6)
            booster.save_model(folder / f"lightgbm-{name}.txt")
    if _has("catboost"):
        import catboost

        for name in ("two", "three"):
            quiet = {"thread_count": 1, "logging_level": "Silent", "allow_writing_files": False}
            model = catboost.CatBoostClassifier(iterations=6, depth=2, **quiet).fit(X, labels[name].astype(int))
            model.save_model(folder / f"catboost-{name}.json", format="json")
    if _has("sklearn"):
        from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

        for name, model in (
            ("gradient", GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0)),
            ("forest", RandomForestClassifier(n_estimators=6, max_depth=2, random_state=0)),
        ):
            (folder / f"sklearn-{name}.pkl").write_bytes(pickle.dumps(model.fit(X, labels["two"])))


def prove(folder: Path) -> None:
    """Prune and accelerate every model file here; prune its live model too where its library is, and compress some."""
    from pine_boost import accelerate_booster, compress_booster, prune_booster
    from pine_boost.native.predict import load_native
    from pine_boost.parsers import read_model

    X = rows()
    for path in _models(folder):
        threshold = THRESHOLDS[path.stem]
        options: dict[str, Any] = {"alpha": 0.3, "threshold": threshold, "trust_pickle": True}
        if path.suffix == ".pkl" and not _has("sklearn"):
            continue
        prune_booster(path, X[:200], X[200:], **options).save(folder / "proved" / path.stem / "file", report=False)
        own = {"threshold": threshold, "trust_pickle": True}
        accelerate_booster(path, **own).save(folder / "accelerated" / path.stem)
        if _has(_library(path)):
            if path.stem in COMPRESSED:
                compressed = compress_booster(path, X[:200], X[200:], fidelity=0.8, **own)
                compressed.save(folder / "compressed" / path.stem)
            native = load_native(read_model(path, threshold=threshold, trust_pickle=True))
            result = prune_booster(native, X[:200], X[200:], **options)
            out = result.save(folder / "proved" / path.stem / "live", report=False)
            if hasattr(result.model, "save_model"):
                chosen = {"format": "json"} if _library(path) == "catboost" else {}
                result.model.save_model(out / f"native{path.suffix}", **chosen)


def check(folder: Path) -> dict[str, Any]:
    """Verify every result, and what this environment's library predicts with its files."""
    from pine_boost import load_scorer, verify_compression
    from pine_boost.native.predict import predict_classes, predict_margins
    from pine_boost.parsers import read_model
    from pine_boost.scoring.scorer_verification import verify_scorer
    from pine_boost.verifying import verify

    found: dict[str, Any] = {}
    for path in _models(folder):
        named = {"threshold": THRESHOLDS[path.stem], "trust_pickle": True}
        for result in sorted(folder.glob(f"proved/{path.stem}/*")):
            model, rest = next(result.glob("model.*")), (result / "region.json", result / "certificate.json")
            outcome = found[f"{path.stem} {result.name}"] = _outcome(verify, path, model, *rest, trust_pickle=True)
            outcome["margins"] = {}
            if "error" in outcome or not _has(_library(path)):
                continue
            for file in [path, model, *result.glob("native.*")]:
                parsed = read_model(file, **named)
                margins = predict_margins(parsed, rows())[0].astype(np.float64) + 0.0
                answers = margins.tobytes() + predict_classes(parsed, rows()).tobytes()
                if file != path:  # what an older XGBoost makes of a newer one's own file is not ours to fix
                    answers += _native_file(file, _library(path))
                outcome["margins"][file.name] = sha256(answers).hexdigest()
        for place in folder.glob(f"accelerated/{path.stem}"):
            scorer = load_scorer(place)
            classes = scorer.predict(rows())
            outcome = found[f"{path.stem} scorer"] = _outcome(verify_scorer, path, place, trust_pickle=True)
            outcome["classes"] = sha256(classes.astype(np.int64).tobytes()).hexdigest()
            if "error" not in outcome and _has(_library(path)):
                native = predict_classes(read_model(path, **named), rows())
                assert np.array_equal(classes, scorer.classes_[native]), path
        for place in folder.glob(f"compressed/{path.stem}"):
            rest = (next(place.glob("model.*")), place, rows()[200:])
            found[f"{path.stem} compressed"] = _outcome(verify_compression, path, *rest, trust_pickle=True)
    return found


def _outcome(verify: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
    """The verdict, or the error of ours that came instead."""
    from pine_boost.errors import PineBoostError

    try:
        return {"agrees": verify(*arguments, **options).agrees}
    except PineBoostError as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _native_file(path: Path, library: str) -> bytes:
    """The raw scores of the library itself, which loads the file without us."""
    if library == "catboost":
        import catboost

        model = catboost.CatBoost().load_model(path, format="json")
        return (model.predict(rows(), prediction_type="RawFormulaVal", thread_count=1) + 0.0).tobytes()
    if library == "xgboost":
        import xgboost

        booster = xgboost.Booster({"nthread": 1}, model_file=path)
        return (booster.predict(xgboost.DMatrix(rows()), output_margin=True) + np.float32(0)).tobytes()
    if library == "lightgbm":
        import lightgbm

        # from text: with a path LightGBM 4.0 refuses every parameter that only later versions have
        booster = lightgbm.Booster(model_str=path.read_text(encoding="utf-8"))
        return (booster.predict(rows(), raw_score=True, num_threads=1) + 0.0).tobytes()
    return b""


def _models(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.stem in THRESHOLDS)


def _library(path: Path) -> str:
    return path.stem.partition("-")[0]


def _has(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ImportError:
        return False


def main() -> None:
    """Run the legs one after another; the first that fails is the last."""
    import pine_boost.prune
    import pine_boost.verifying

    assert pine_boost.prune
    assert pine_boost.verifying
    warnings.simplefilter("ignore")  # old libraries warn of new ones
    folder, *legs = sys.argv[1:]
    for leg in legs:
        child = os.fork()
        if child == 0:
            action, _, libraries = leg.partition("-")
            if libraries:
                sys.meta_path.insert(0, _Blocked(libraries.split(",")))  # type: ignore[arg-type]
            print(json.dumps({"train": train, "prove": prove, "check": check}[action](Path(folder))), flush=True)
            return
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.exit(code)


if __name__ == "__main__":
    main()
