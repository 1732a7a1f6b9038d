"""Compute the intercept that XGBoost adds before the first tree from base_score, and write one as trees."""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import math
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from pine_boost.errors import MissingDependencyError
from pine_boost.model import exact
from pine_boost.model.forest import IntArray
from pine_boost.model.links import OUTPUTS, Output
from pine_boost.parsers.nodes import stack
from pine_boost.parsers.xgboost.document import XGBoostDocument
from pine_boost.parsers.xgboost.trees import constants, fault
from pine_boost.parsers.xgboost.write import write_document

# The objectives that are known, checked against the library in tests. Only the binary and multi ones decide a class;
# the others need the caller's threshold on the margin.
_OBJECTIVES = (
    *("binary:logistic", "binary:logitraw", "binary:hinge", "multi:softmax", "multi:softprob"),
    *("reg:squarederror", "reg:squaredlogerror", "reg:logistic", "reg:pseudohubererror", "reg:absoluteerror"),
    *("reg:quantileerror", "reg:gamma", "reg:tweedie", "count:poisson", "survival:cox", "survival:aft"),
    *("rank:pairwise", "rank:ndcg", "rank:map"),
)
# How each turns base_score into a margin: by the inverse of what it makes of margins
_INVERSE = {Output.SIGMOID: "logit", Output.EXPONENTIAL: "log"}
LINKS = {name: _INVERSE.get(OUTPUTS.get(name, Output.VALUE), "identity") for name in _OBJECTIVES}
# The base_score whose margin is 0, exactly: -logf(1 / 0.5 - 1) = 0, logf(1) = 0
NEUTRAL_SCORE = {"logit": 0.5, "log": 1.0, "identity": 0.0}
_GLIBC = "libm.so.6"


def read_intercept(document: XGBoostDocument, *, asks_library: bool = True) -> tuple[np.ndarray[Any, Any], float]:
    """Return the intercept per output (float64 array of float32 numbers) and a bound on its error.

    The installed XGBoost is asked, unless ``asks_library`` is False and the C library has the same logarithm.
    """
    link = LINKS[document.objective_name]
    scores = np.array(document.base_score, dtype=np.float32)
    if link == "identity":
        return np.broadcast_to(scores, (document.n_outputs,)).astype(np.float64), 0.0
    score = document.base_score[0]
    if (link == "logit" and not 0 <= score <= 1) or (link == "log" and score <= 0):
        raise fault("base_score", f"is {score}, impossible for {document.objective_name}")
    measured = None
    if asks_library or _is_clipped(link, score) or find_logf() is None:
        measured = _measure(json.dumps(document.objective, sort_keys=True), score)
    margin, error = measured if measured is not None else compute_margin(link, score, find_logf())
    return np.array([margin], dtype=np.float64), error


@lru_cache(maxsize=256)
def _measure(objective: str, score: float) -> tuple[float, float] | None:
    """Measure the margin of a model whose only leaf is 0 with the installed XGBoost; None without it."""
    try:
        import xgboost
    except ImportError:
        return None
    document = constant_document(json.loads(objective), score)
    row = xgboost.DMatrix(np.zeros((1, 1), dtype=np.float32), nthread=1)
    try:
        booster = xgboost.Booster({"nthread": 1}, model_file=bytearray(write_document(document, "json")))
        return float(booster.predict(row, output_margin=True)[0]) + 0.0, 0.0
    except ValueError as error:  # XGBoostError: only XGBoost checks its parameters
        reason = str(error).strip().partition("\n")[0][:200]
        raise fault("objective", f"is refused by XGBoost ({reason})") from error


def compute_margin(link: str, score: float, logf: Any) -> tuple[float, float]:
    """Compute the margin without the library: the same float32 operations with the C library's logf (or None)."""
    if _is_clipped(link, score):
        raise MissingDependencyError(
            f"XGBoost clips the base_score {score}; install xgboost to read this model exactly."
        )
    one, narrow = np.float32(1), np.float32(score)
    argument = one / narrow - one if link == "logit" else narrow
    sign = -1.0 if link == "logit" else 1.0
    if logf is not None:
        return sign * float(logf(float(argument))) + 0.0, 0.0  # + 0.0: -log(1) would be -0.0
    margin = np.float32(sign * math.log(float(argument)) + 0.0)
    return float(margin), exact.LOGF_ULPS * float(np.spacing(np.abs(margin)))


def _is_clipped(link: str, score: float) -> bool:
    return link == "logit" and not exact.XGBOOST_CLIPPED < score < 1 - exact.XGBOOST_CLIPPED


@cache
def find_logf() -> Any:
    """Return the float32 logarithm of the C library, None if there is none."""
    try:
        try:
            library = ctypes.CDLL(_GLIBC)
        except OSError:  # find_library starts a compiler to ask it
            library = ctypes.CDLL(ctypes.util.find_library("m") or _GLIBC)
        logf = library.logf
    except (OSError, AttributeError):
        return None
    logf.argtypes, logf.restype = [ctypes.c_float], ctypes.c_float
    return logf


def with_intercept(document: XGBoostDocument, wanted: np.ndarray[Any, Any]) -> XGBoostDocument:
    """Make the native intercept ``wanted`` (float32 numbers, one per output), regardless of base_score.

    One-leaf trees in a round of their own come first, so that the native sum, which begins with the
    margin of base_score, is exactly ``wanted`` before the first other tree is added. Fillers of zero
    come last: XGBoost 1.7 silently ignores the trees after the last multiple of the number of classes
    (tests/parsers/test_xgboost_versions.py), and no version transforms base_score without any tree.
    """
    n_outputs, base = document.n_outputs, read_intercept(document)[0].astype(np.float32)
    wanted = np.asarray(wanted, dtype=np.float32)
    first: list[tuple[int, np.float32]] = []
    for index in np.flatnonzero(base != wanted).tolist():
        step = wanted[index] - base[index]
        is_exact = base[index] + step == wanted[index]
        # base - base is 0, and 0 + wanted is wanted, without rounding
        steps = (step,) if is_exact else (-base[index], wanted[index])
        first += [(index, value) for value in steps if value]
    output = np.concatenate([np.array([o for o, _ in first], dtype=np.int64), document.tree_output])
    n_fillers = -len(output) % n_outputs if len(output) else n_outputs
    output = np.append(output, np.argsort(np.bincount(output, minlength=n_outputs), kind="stable")[:n_fillers])
    counts = np.diff(document.round_offset)
    attributes = dict(document.attributes)
    if first:
        counts = np.append(len(first), counts)
        if "best_iteration" in attributes:
            attributes["best_iteration"] = str(int(attributes["best_iteration"]) + 1)
    if n_fillers:
        counts = np.append(counts[:-1], counts[-1:].sum() + n_fillers)
    return replace(
        document,
        trees=stack([constants([value for _, value in first]), document.trees, constants(np.zeros(n_fillers))]),
        tree_output=output,
        round_offset=np.concatenate([[0], np.cumsum(counts)]),
        n_parallel=_parallel_count(output, counts, n_outputs),
        attributes=attributes,
    )


def _parallel_count(output: IntArray, counts: IntArray, n_outputs: int) -> int:
    """Return num_parallel_tree if every round has equally many trees of each class, in order; else 1."""
    n_parallel, rest = divmod(int(counts[0]), n_outputs)
    if rest or n_parallel == 0 or np.any(counts != counts[0]):
        return 1
    regular = np.tile(np.repeat(np.arange(n_outputs), n_parallel), len(counts))
    return n_parallel if np.array_equal(output, regular) else 1


def constant_document(objective: dict[str, Any], score: float) -> XGBoostDocument:
    """Return a one-feature model that predicts its base_score for every input."""
    return XGBoostDocument(
        file_format="json",
        version=(1, 7, 6),
        objective=objective,
        base_score=(score,),
        n_classes=0,
        n_features=1,
        trees=constants([0.0]),
        tree_output=np.zeros(1, dtype=np.int64),
        round_offset=np.array([0, 1]),
    )


def fold_weights(document: XGBoostDocument) -> XGBoostDocument:
    """Multiply the weights of dart into the leaves as ``Booster.predict`` does: f32(leaf * w)."""
    if document.weight_drop is None:
        return document
    trees = document.trees
    weight = np.repeat(document.weight_drop, np.diff(trees.offset))
    with np.errstate(over="ignore"):
        folded = np.where(trees.is_leaf, trees["split_conditions"] * weight, trees["split_conditions"])
    if not np.all(np.isfinite(folded[trees.is_leaf])):
        raise fault("weight_drop", "makes a leaf infinite")
    return replace(document, trees=trees.changed(split_conditions=folded), weight_drop=None)
