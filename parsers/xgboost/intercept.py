"""The intercept that XGBoost adds first to every margin.

In come an objective and its base_score; out go the float32 margins it means and a bound on what
they may be off by. Refuses a base_score that the objective's link cannot take.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from pine_boost.errors import MissingDependencyError
from pine_boost.model import exact
from pine_boost.parsers.xgboost.document import XGBoostDocument
from pine_boost.parsers.xgboost.fields import fault
from pine_boost.parsers.xgboost.trees import Trees
from pine_boost.parsers.xgboost.write import write_document

# Objective -> how base_score becomes a margin, checked against the library in tests. Only the
# binary and multi ones decide a class; the others need the caller's threshold on the margin.
LINKS = {
    "binary:logistic": "logit",
    "binary:logitraw": "identity",
    "binary:hinge": "identity",
    "multi:softmax": "identity",
    "multi:softprob": "identity",
    "reg:squarederror": "identity",
    "reg:squaredlogerror": "identity",
    "reg:logistic": "logit",
    "reg:pseudohubererror": "identity",
    "reg:absoluteerror": "identity",
    "reg:quantileerror": "identity",
    "reg:gamma": "log",
    "reg:tweedie": "log",
    "count:poisson": "log",
    "survival:cox": "log",
    "survival:aft": "log",
    "rank:pairwise": "identity",
    "rank:ndcg": "identity",
    "rank:map": "identity",
}
# The base_score whose margin is 0, exactly: -logf(1 / 0.5 - 1) = 0, logf(1) = 0
NEUTRAL_SCORE = {"logit": 0.5, "log": 1.0, "identity": 0.0}


def read_intercept(document: XGBoostDocument) -> tuple[np.ndarray[Any, Any], float]:
    """Intercept per output (float64 array of float32 numbers), and a bound on its error."""
    link = LINKS[document.objective_name]
    scores = np.array(document.base_score, dtype=np.float32)
    if link == "identity":
        return np.broadcast_to(scores, (document.n_outputs,)).astype(np.float64), 0.0
    score = document.base_score[0]
    if (link == "logit" and not 0 <= score <= 1) or (link == "log" and score <= 0):
        raise fault("base_score", f"is {score}, impossible for {document.objective_name}")
    measured = _measure(json.dumps(document.objective, sort_keys=True), score)
    margin, error = measured if measured is not None else compute_margin(link, score, find_logf())
    return np.array([margin], dtype=np.float64), error


@lru_cache(maxsize=256)
def _measure(objective: str, score: float) -> tuple[float, float] | None:
    """Ask the installed XGBoost: the margin of a model whose only leaf is 0."""
    try:
        import xgboost
    except ImportError:
        return None
    document = constant_document(json.loads(objective), score)
    row = xgboost.DMatrix(np.zeros((1, 1), dtype=np.float32), nthread=1)
    try:
        booster = xgboost.Booster({"nthread": 1}, model_file=bytearray(write_document(document, "json")))
        return float(booster.predict(row, output_margin=True)[0]), 0.0
    except ValueError as error:  # XGBoostError: its parameters are XGBoost's own business
        reason = str(error).strip().partition("\n")[0][:200]
        raise fault("objective", f"is refused by XGBoost ({reason})") from error


def compute_margin(link: str, score: float, logf: Any) -> tuple[float, float]:
    """Without the library: the same float32 operations with the C library's logf (or None)."""
    if link == "logit" and not exact.XGBOOST_CLIPPED < score < 1 - exact.XGBOOST_CLIPPED:
        raise MissingDependencyError(
            f"XGBoost clips the base_score {score}; install xgboost to read this model exactly."
        )
    one, narrow = np.float32(1), np.float32(score)
    argument = one / narrow - one if link == "logit" else narrow
    sign = -1.0 if link == "logit" else 1.0
    if logf is not None:
        return sign * float(logf(float(argument))), 0.0
    margin = np.float32(sign * math.log(float(argument)))
    return float(margin), exact.LOGF_ULPS * float(np.spacing(np.abs(margin)))


def find_logf() -> Any:
    """The float32 logarithm of the C library, None where there is none."""
    try:
        logf = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6").logf
    except (OSError, AttributeError):
        return None
    logf.argtypes, logf.restype = [ctypes.c_float], ctypes.c_float
    return logf


def constant_trees(values: np.ndarray[Any, Any]) -> Trees:
    """One-leaf trees with the given float32 values."""
    n_trees = len(values)
    leaf, zeros = np.full(n_trees, -1), np.zeros(n_trees, dtype=np.float32)
    return Trees(
        offset=np.arange(n_trees + 1),
        left=leaf,
        right=leaf,
        split_index=np.zeros(n_trees, dtype=np.int64),
        condition=values.astype(np.float32),
        default_left=np.zeros(n_trees, dtype=bool),
        is_categorical=np.zeros(n_trees, dtype=bool),
        base_weight=values.astype(np.float32),
        loss_change=zeros,
        sum_hessian=zeros,
        category_offset=np.zeros(n_trees + 1, dtype=np.int64),
        category=np.zeros(0, dtype=np.int64),
    )


def constant_document(objective: dict[str, Any], score: float) -> XGBoostDocument:
    """A one-feature model that answers its base_score for every input."""
    return XGBoostDocument(
        file_format="json",
        version=(1, 7, 6),
        objective=objective,
        base_score=(score,),
        n_classes=0,
        n_features=1,
        trees=constant_trees(np.zeros(1)),
        tree_output=np.zeros(1, dtype=np.int64),
        round_offset=np.array([0, 1]),
        n_parallel=1,
        weight_drop=None,
        feature_names=(),
        feature_types=(),
        attributes={},
        cats=None,
        boost_from_average="1",
        leaf_vector_size=1,
    )


def fold_weights(document: XGBoostDocument) -> XGBoostDocument:
    """Multiply the weights of dart into the leaves as ``Booster.predict`` does: f32(leaf * w)."""
    if document.weight_drop is None:
        return document
    trees = document.trees
    weight = np.repeat(document.weight_drop, np.diff(trees.offset))
    with np.errstate(over="ignore"):
        folded = np.where(trees.is_leaf, trees.condition * weight, trees.condition)
    if not np.all(np.isfinite(folded[trees.is_leaf])):
        raise fault("weight_drop", "makes a leaf infinite")
    return replace(document, trees=replace(trees, condition=folded), weight_drop=None)
