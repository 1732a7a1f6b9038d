"""What the native library itself predicts: the only truth.

In come a parsed Model (or a native object) and a user's table; out go class indices or margins by
the native ``predict``. Nothing here knows of trees; files are loaded only after they were
re-serialised from a checked document.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import (
    InvalidInputError,
    MissingDependencyError,
    PineBoostError,
    UnsupportedModelError,
)
from pine_boost.model.exact import UNIT_ROUNDOFF
from pine_boost.model.forest import FloatArray, IntArray, Model


def load_native(model: Model) -> Any:
    """The live object of a parsed model; a file is loaded from its checked contents."""
    if model.native is not None:
        return model.native
    try:
        if model.forest.library == "xgboost":
            import xgboost

            from pine_boost.parsers.xgboost.write import write_document

            contents = bytearray(write_document(model.document, "ubj"))
            # one thread: the pool of a busy machine costs more than it gains on a few rows
            return xgboost.Booster(params={"nthread": 1}, model_file=contents)
        import lightgbm

        from pine_boost.parsers.lightgbm.write import write_document

        return lightgbm.Booster(model_str=write_document(model.document).decode())
    except ImportError as error:
        library = model.forest.library
        raise MissingDependencyError(
            f"Predicting natively needs {library}; install it with pip install {library}."
        ) from error
    except PineBoostError:
        raise
    except Exception as error:  # LightGBM's own error is nothing more special
        # for example a parameter of a LightGBM text that only its own loader looks at
        raise UnsupportedModelError(
            f"{model.forest.library} itself refuses this file: {str(error).strip()[:300]}. "
            "Save the model again."
        ) from error


def original_bytes(model: Model) -> bytes:
    """The checked contents of a model that came as a file, in the same format."""
    if model.forest.library == "xgboost":
        from pine_boost.parsers.xgboost.write import write_document

        return write_document(model.document, model.document.file_format)
    from pine_boost.parsers.lightgbm.write import write_document

    return write_document(model.document)


def predict_classes(model: Model, X: Any) -> IntArray:
    """Class index (or score band) of every row by the native ``predict`` of the model's kind."""
    native = load_native(model)
    forest = model.forest
    thresholds = forest.decision.thresholds
    is_wrapper = hasattr(native, "predict_proba") or hasattr(native, "n_features_in_")
    if is_wrapper:
        if thresholds:
            return _band(_scores_of_wrapper(native, X), thresholds)
        labels = np.asarray(native.predict(X))
        return _index_of(labels, forest.classes)
    predicted = _predict_booster(model, native, X)
    if thresholds:
        return _band(predicted, thresholds)
    if predicted.ndim == 2 and predicted.shape[1] > 1:
        return np.asarray(np.argmax(predicted, axis=1))
    if forest.n_outputs > 1:  # multi:softmax returns the class itself
        return predicted.astype(np.int64)
    cut = 0.0 if forest.objective in ("binary:logitraw", "binary:hinge") else 0.5
    return (predicted.reshape(-1) > cut).astype(np.int64)


def predict_margins(model: Model, X: Any) -> tuple[FloatArray, float] | None:
    """Native margins, (n_rows, n_outputs), and how far the way back to them may have rounded.

    Boosted models return them as such: the bound is 0. The mean of a forest and the votes of
    AdaBoost are what is left after a division; multiplied back they are the sum that the IR
    holds, up to the bound. None for a regression that returns something else.
    """
    native = load_native(model)
    forest = model.forest
    family = str(getattr(model.document, "family", ""))
    if family == "average":
        return _sums_of_mean(model, native, X)
    if family == "votes":
        return _sums_of_votes(native, X)
    if family:
        if not hasattr(native, "decision_function"):
            return None
        margins = native.decision_function(X)
    elif hasattr(native, "n_features_in_"):
        option = "output_margin" if forest.library == "xgboost" else "raw_score"
        margins = native.predict(X, **{option: True})
    else:
        margins = _predict_booster(model, native, X, raw=True)
    return np.asarray(margins, dtype=np.float64).reshape(-1, forest.n_outputs), 0.0


def _sums_of_mean(model: Model, native: Any, X: Any) -> tuple[FloatArray, float]:
    n_trees = len(native.estimators_) if hasattr(native, "estimators_") else 1
    mean = native.predict_proba(X) if hasattr(native, "predict_proba") else native.predict(X)
    mean = np.asarray(mean, dtype=np.float64).reshape(len(mean), -1)
    threshold = 0.0
    if model.forest.decision.thresholds:
        threshold = model.forest.decision.thresholds[0]
        mean = mean[:, -1:]
    # fl(S / n), n * (p - t): three roundings, each within u of n (|p| + |t|)
    largest = n_trees * (float(np.abs(mean).max(initial=0.0)) + abs(threshold))
    return n_trees * (mean - threshold), 4 * UNIT_ROUNDOFF[np.float64] * largest


def _sums_of_votes(native: Any, X: Any) -> tuple[FloatArray, float]:
    """Votes per class; two classes: votes for minus votes against (facts 3: SAMME)."""
    decision = np.asarray(native.decision_function(X), dtype=np.float64)
    total = float(native.estimator_weights_.sum())
    blur = 8 * UNIT_ROUNDOFF[np.float64] * total
    if decision.ndim == 1:
        return (decision * (total / 2))[:, None], blur
    n_classes = decision.shape[1]
    # w for a vote, fl(-w / (K - 1)) against, n additions: (n + 2) u W, and the way back
    blur += (len(native.estimators_) + 2) * UNIT_ROUNDOFF[np.float64] * total
    return (decision * total * (n_classes - 1) + total) / n_classes, blur


def _scores_of_wrapper(native: Any, X: Any) -> npt.NDArray[Any]:
    if hasattr(native, "predict_proba"):
        return np.asarray(native.predict_proba(X))[:, 1]
    return np.asarray(native.predict(X))


def _predict_booster(model: Model, native: Any, X: Any, raw: bool = False) -> npt.NDArray[Any]:
    forest = model.forest
    raw = raw or _is_margin_threshold(model)
    if forest.library == "xgboost":
        import xgboost

        names = list(native.feature_names or []) if not hasattr(X, "columns") else None
        types = list(native.feature_types or []) if not hasattr(X, "columns") else None
        data = xgboost.DMatrix(
            X,
            missing=forest.missing_value,
            feature_names=names or None,
            feature_types=types or None,
            enable_categorical=True,
            nthread=1,
        )
        return np.asarray(native.predict(data, output_margin=raw))
    return np.asarray(native.predict(X, raw_score=raw, num_threads=1))


def _is_margin_threshold(model: Model) -> bool:
    """Regression and ranking models are cut on the raw margin, classifiers on the probability."""
    objective = model.forest.objective
    is_classifier = objective.startswith(("binary", "multi", "cross_entropy"))
    return bool(model.forest.decision.thresholds) and not is_classifier


def _band(scores: npt.NDArray[Any], thresholds: tuple[float, ...]) -> IntArray:
    return np.asarray(np.sum([scores.reshape(-1) > cut for cut in thresholds], axis=0), np.int64)


def _index_of(labels: npt.NDArray[Any], classes: tuple[Any, ...]) -> IntArray:
    known = np.asarray(classes)
    order = np.argsort(known, kind="stable")
    position = np.searchsorted(known[order], labels)
    position = np.minimum(position, len(known) - 1)
    if not np.array_equal(known[order][position], labels):
        raise InvalidInputError("The native predict returned a label that the model does not list.")
    return order[position]
