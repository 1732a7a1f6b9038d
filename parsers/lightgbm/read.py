"""Read LightGBM 4.x models (Booster, wrappers, .txt files, bytes) into the tree IR.

Files are parsed without LightGBM. Linear leaves are not supported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, MalformedModelError, UnsupportedModelError
from pine_boost.model import exact
from pine_boost.model.forest import Decision, FloatArray, Forest, Model
from pine_boost.model.rules import CategoryRule, Comparison, MissingRule
from pine_boost.parsers.decisions import class_labels, find_decision, logit_cut
from pine_boost.parsers.lightgbm.document import LightgbmDocument, read_document
from pine_boost.parsers.lightgbm.tree import DEFAULT_LEFT_BIT, NUMBER, is_categorical
from pine_boost.parsers.nodes import Nodes
from pine_boost.parsers.traits import class_of

_WRAPPERS = ("LGBMClassifier", "LGBMRegressor", "LGBMRanker", "LGBMModel")
# decision_type >> 2: None (NaN counts as 0.0), Zero, NaN
_MISSING_RULES = np.array([MissingRule.NAN_IS_ZERO, MissingRule.ZERO_IS_MISSING, MissingRule.DEFAULT], dtype=np.uint8)
_UNIT = exact.UNIT_ROUNDOFF[np.float64]

_OPTIONS = {
    "binary": re.compile(rf"binary sigmoid:(?P<sigmoid>{NUMBER})"),
    "multiclass": re.compile(r"multiclass num_class:(?P<classes>[0-9]{1,7})"),
    "multiclassova": re.compile(rf"multiclassova num_class:(?P<classes>[0-9]{{1,7}}) sigmoid:(?P<sigmoid>{NUMBER})"),
    "cross_entropy": re.compile(r"cross_entropy"),
}
PROBABILITY_OBJECTIVES = ("binary", "cross_entropy")
_SEVERAL = ("multiclass", "multiclassova")
OBJECTIVES_OF_CLASSES = (*PROBABILITY_OBJECTIVES, *_SEVERAL)


def read_lightgbm(model: Any, *, threshold: float | Sequence[float] | None = None, decision: str = "class") -> Model:
    """Read a LightGBM model exactly.

    Parameters
    ----------
    model : lightgbm.Booster, lightgbm.LGBMClassifier, or the bytes of a file
        LGBMRegressor and LGBMRanker are accepted together with ``threshold``. A live model is
        read up to its best_iteration, as its ``predict`` does; a file has no best_iteration and
        is read whole.
    threshold : float, sequence of float or None
        None is LightGBM's own decision: probability above 0.5, or the largest one. Otherwise
        probabilities for binary and cross_entropy; for objectives without classes a raw score
        (for random forests: the mean over the trees). cross_entropy needs one unless it comes
        as an LGBMClassifier, because its labels may be fractions.
    decision : {"class", "value"}
        ``"value"`` reads objectives without classes without a threshold, as their raw score.

    Returns
    -------
    Model
        ``native_margins`` of its forest is ``predict(raw_score=True)`` bit for bit; for random
        forests that is the *sum* of the leaves, and the decision carries the division.

    Raises
    ------
    MalformedModelError
        The text is damaged; no native loader has seen it.
    UnsupportedModelError
        Linear leaves, another format version, an objective without classes and no threshold.
    InvalidInputError
        Not fitted, or a threshold that does not fit.

    Examples
    --------
    >>> import lightgbm, numpy as np
    >>> X = np.arange(40.0).reshape(-1, 1)
    >>> booster = lightgbm.train(
    ...     {"objective": "binary", "verbose": -1, "min_data_in_leaf": 5, "num_threads": 1},
    ...     lightgbm.Dataset(X, X[:, 0] > 20), 3)
    >>> read_lightgbm(booster).forest.n_trees
    3
    """
    native: Any = None
    labels: tuple[Any, ...] | None = None
    if isinstance(model, bytes):
        document, kind = read_document(model), "lightgbm file"
    else:
        native, name = model, _class_of(model)
        kind, booster = f"lightgbm.{name}", model if name == "Booster" else model.booster_
        if name == "LGBMClassifier":
            labels = tuple(model.classes_.tolist())
        document = read_document(booster.model_to_string(num_iteration=-1).encode("utf-8"))
        _check_sigmoid(booster, document)
        document = replace(document, best_iteration=max(int(booster.best_iteration), 0))
    return Model(_build_forest(document, threshold, decision == "value", labels), kind, native, document)


def _class_of(model: Any) -> str:
    """Return the class of a live model; raise if it is not fitted, or predicts with other trees than its text has."""
    if any(base.__name__.startswith("Dask") for base in type(model).__mro__):
        raise UnsupportedModelError(f"{type(model).__name__}: pass model.to_local() instead.")
    name = class_of(model, "lightgbm", ("Booster", *_WRAPPERS), " Or pass a .txt path, or its bytes.")
    if name != "Booster" and not model.__sklearn_is_fitted__():
        raise InvalidInputError(f"This {name} is not fitted; call fit first.")
    if name != "Booster" and model.get_params().get("pred_early_stop"):
        raise UnsupportedModelError(
            "pred_early_stop makes LightGBM stop adding trees early, so the margin is not the "
            "sum of the trees; set pred_early_stop=False."
        )
    return name


def _check_sigmoid(booster: Any, document: LightgbmDocument) -> None:
    """Raise if a live model's ``sigmoid`` has more than the six digits that the text stores."""
    line = document.objective or ""
    given = (booster.params or {}).get("sigmoid")
    if "sigmoid:" not in line or given is None:
        return
    if float(given) != float(line.rpartition("sigmoid:")[2]):
        raise UnsupportedModelError(
            f"This Booster was trained with sigmoid={given}, but LightGBM's model text says "
            f"{line!r} (it keeps six digits). Retrain with a sigmoid of six digits at most."
        )


def _build_forest(document: LightgbmDocument, threshold: Any, values: bool, labels: tuple[Any, ...] | None) -> Forest:
    n_outputs, rounds = document.num_class, document.n_used_rounds
    trees = document.trees.pick(np.arange(rounds * n_outputs))
    extremes = [
        bound.reduceat(np.where(trees.is_leaf, trees["value"], beyond), trees.offset[:-1])
        for bound, beyond in ((np.minimum, np.inf), (np.maximum, -np.inf))
    ]
    with np.errstate(over="ignore"):
        lowest, highest = (extreme.reshape(rounds, n_outputs).sum(axis=0) for extreme in extremes)
    if not (np.all(np.isfinite(lowest)) and np.all(np.isfinite(highest))):
        raise MalformedModelError("The leaves of the LightGBM text add up beyond float64.")
    objective = read_objective(document.objective, n_outputs)
    divisor = rounds if document.average_output else 1
    decision = decide(
        objective,
        threshold,
        is_classifier=labels is not None,
        values=values,
        divisor=divisor,
        lowest=lowest,
        highest=highest,
    )
    names = document.feature_names
    is_default = all(name == f"Column_{i}" for i, name in enumerate(names))
    has_set = is_categorical(trees)
    return trees.forest(
        trees["split_feature"],
        trees["threshold"],
        trees["value"],
        has_set,
        # NaN at a categorical split goes right regardless of the bit (measured for types 1 to 11)
        default_left=((trees["decision_type"] & DEFAULT_LEFT_BIT) != 0) & ~has_set,
        missing=np.where(trees.is_leaf, 0, _MISSING_RULES[trees["decision_type"] >> 2]).astype(np.uint8),
        set_left=has_set,
        tree_output=np.tile(np.arange(n_outputs, dtype=np.int32), rounds),
        tree_round=np.repeat(np.arange(rounds, dtype=np.int32), n_outputs),
        tree_bias=_tree_bias(document, trees, *extremes),
        comparison=Comparison.FLOAT64_LESS_EQUAL,
        category_rule=CategoryRule.TRUNCATE,
        decision=decision,
        n_outputs=n_outputs,
        classes=class_labels(decision, n_outputs, labels if objective.name in OBJECTIVES_OF_CLASSES else None),
        n_features=len(names),
        library="lightgbm",
        objective=objective.name,
        slope=objective.sigmoid / divisor,
        feature_names=None if is_default else names,
        feature_categories=_feature_categories(document),
        snaps_to_zero=True,
    )


@dataclass(frozen=True)
class Objective:
    """The objective line of a LightGBM text: its name, classes and slope of the sigmoid."""

    name: str
    num_class: int
    sigmoid: float = 1.0


def read_objective(line: str | None, num_class: int) -> Objective:
    """Interpret the objective line; None is a custom objective."""
    if line is None:
        return Objective("custom", num_class)
    name = line.split(" ")[0]
    if name not in _OPTIONS:
        return Objective(name[:60], num_class)
    match = _OPTIONS[name].fullmatch(line)
    if not match:
        raise MalformedModelError(f"The objective {line[:80]!r} of the LightGBM text is damaged.")
    found = match.groupdict()
    classes = int(found.get("classes") or 1)
    if classes != num_class or (name in _SEVERAL and classes < 2):
        raise MalformedModelError(f"The objective {line[:80]!r} does not fit num_class={num_class} of the header.")
    sigmoid = float(found.get("sigmoid") or 1.0)
    if not (sigmoid > 0 and math.isfinite(sigmoid)):
        raise MalformedModelError(f"The objective {line[:80]!r} needs a sigmoid above 0.")
    return Objective(name, num_class, sigmoid)


def decide(
    objective: Objective,
    threshold: Any,
    *,
    is_classifier: bool,
    values: bool,
    divisor: int,
    lowest: FloatArray,
    highest: FloatArray,
) -> Decision:
    """Return the decision of the native ``predict`` on the sum of the leaves.

    Parameters
    ----------
    objective : Objective
    threshold : float, sequence of float or None
        Probabilities for binary and cross_entropy. For an objective without classes a raw score,
        compared with the sum of the leaves, or with their mean for random forests (which is what
        ``predict`` of such a regression returns).
    is_classifier : bool
        Whether an LGBMClassifier turns the output into classes.
    values : bool
        Whether an objective without classes is accepted without a threshold.
    divisor : int
        Rounds of a random forest (``predict`` divides the sum by it), else 1.
    lowest, highest : float64 (n_outputs,)
        Bounds on the margins of each output over all inputs.
    """
    name = objective.name
    if objective.num_class > 1 and name not in _SEVERAL:
        raise UnsupportedModelError(
            f"LightGBM objective {name!r} with {objective.num_class} outputs has no class "
            "decision; binary, multiclass and multiclassova are supported."
        )
    is_probability = name in PROBABILITY_OBJECTIVES
    scale = divisor / objective.sigmoid if is_probability else float(divisor)
    is_scaled = is_probability or divisor > 1

    def cut(given: float) -> tuple[float, float]:
        link, guard = logit_cut(given) if is_probability else (given, 0.0)
        return scale * link, scale * guard + abs(scale * link) * exact.LIGHTGBM_SCALE_ERROR * is_scaled

    own = None
    if name in _SEVERAL:
        guard = class_gap(objective, divisor, lowest, highest)
        is_constant = name == "multiclass" and divisor == 1
        own = Decision((), guard=guard if is_constant else exact.LIGHTGBM_HEADROOM * guard)
    elif name == "binary" or (name == "cross_entropy" and is_classifier):
        # class 1 iff fl(k * fl(sum / n)) > 0x1.8p-53, measured by bisection for k from 0.1 to 10
        half = exact.LIGHTGBM_BINARY_CUT * divisor / objective.sigmoid
        is_plain = objective.sigmoid == 1.0 and divisor == 1
        own = Decision((half,), guard=0.0 if is_plain else half * exact.LIGHTGBM_SCALE_ERROR)
    return find_decision(
        threshold,
        own,
        f"LightGBM objective {name!r}",
        n_outputs=objective.num_class,
        is_probability=is_probability,
        cut=cut,
        values=values,
        scale="probability above which the class is 1" if is_probability else "raw score",
    )


def class_gap(objective: Objective, divisor: int, lowest: FloatArray, highest: FloatArray) -> float:
    """Return the gap of two margins within which rounding may hide their order from the native argmax.

    It is a constant for softmax, which subtracts the maximum, exactly for scores this close. Averaging
    rounds each score in proportion to its size; separate sigmoids flatten towards 1.
    """
    rounding = exact.LIGHTGBM_SCALE_ERROR * float(max(np.abs(lowest).max(), np.abs(highest).max()))
    if objective.name == "multiclass":
        return divisor * exact.SOFTMAX_GUARD_FLOAT64 + (rounding if divisor > 1 else 0.0)
    return one_against_all_guard(objective.sigmoid / divisor, lowest, highest) + rounding


def one_against_all_guard(slope: float, lowest: FloatArray, highest: FloatArray) -> float:
    """Return the gap of two scores below which their float64 sigmoids may come out equal or swapped.

    Each class has its own sigmoid, p = 1 / (1 + exp(-slope * margin)), computed to 8u. The lower
    of the two best scores is at most M, the second largest of ``highest``, and for a gap g above
    it the probabilities differ by at least (1 - exp(-slope g)) exp(-slope M) / 4 of the larger
    one. That exceeds 16u once slope * g >= 2x with x = 64u exp(slope M) <= 1/4.

    Raises
    ------
    UnsupportedModelError
        The sigmoids of two classes can both round to 1 (or all to 0), so no gap decides.
    """
    second = max(float(np.sort(highest)[-2]), 0.0)
    if slope * second > exact.LARGEST_EXPONENT or slope * float(lowest.max()) < -exact.LARGEST_EXPONENT:
        x = math.inf
    else:
        x = 64 * _UNIT * math.exp(slope * second)
    if x > 0.25:
        raise UnsupportedModelError(
            f"multiclassova scores can reach {second:g}, where LightGBM rounds the probabilities "
            "of two classes to the same number and the label no longer follows the scores; "
            "train with objective='multiclass'."
        )
    return 2 * x / slope


def _tree_bias(document: LightgbmDocument, trees: Nodes, lowest: FloatArray, highest: FloatArray) -> FloatArray:
    """Return the part of each tree that belongs to the intercept.

    LightGBM adds the prior to the leaves of the first round and sets shrinkage=1 (dart scales it
    afterwards; random forests add it to every tree). The file does not store the exact prior, but it
    stores the value of the root before its split, to six digits. Before the first split the mean
    gradient is 0, so that value *is* the prior (for bagged trees: the mean of the tree). It is
    clipped to the range of the leaves, so that a damaged number cannot make the bias larger than
    the tree. A tree with one leaf is all intercept. None of this changes leaf values.
    """
    root = trees.offset[:-1]
    is_dart = document.parameter("boosting") == "dart"
    is_first = (np.arange(trees.n_trees) < document.num_class) & ((document.shrinkage[: trees.n_trees] == 1) | is_dart)
    holds = trees.is_leaf[root] | is_first | document.average_output
    return np.where(holds, np.clip(trees["value"][root], lowest, highest), 0.0)


def _feature_categories(document: LightgbmDocument) -> tuple[tuple[Any, ...] | None, ...]:
    """Return the categories of pandas columns per feature; LightGBM itself stores only the list of columns.

    The k-th entry belongs to the k-th ``category`` column of the table. If the number of features
    trained as categorical is the same, they are those columns; otherwise (ordered categories, a
    custom categorical_feature) the file does not identify them, and no feature gets categories.
    """
    columns: tuple[Any, ...] = document.pandas_categorical or ()
    features = document.category_features()
    if not columns or len(features) != len(columns) or features[-1] >= len(document.feature_names):
        return ()
    categories: list[tuple[Any, ...] | None] = [None] * len(document.feature_names)
    for feature, column in zip(features, columns, strict=True):
        categories[feature] = tuple(column)
    return tuple(categories)
