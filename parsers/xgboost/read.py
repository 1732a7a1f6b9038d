"""Read XGBoost 1.7 to 3.x models (Booster, wrappers, .json and .ubj files, bytes) into the tree IR.

The Forest is the one that the model's own ``predict`` uses; files are parsed without XGBoost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, MalformedModelError, UnsupportedModelError
from pine_boost.model.exact import LARGEST_SUM_FLOAT32, SOFTMAX_GUARD_FLOAT32, UNIT_ROUNDOFF, XGBOOST_LOGISTIC_CUT
from pine_boost.model.forest import Decision, FloatArray, Model
from pine_boost.model.rules import CategoryRule, Comparison
from pine_boost.parsers.decisions import Thresholds, class_labels, find_decision, logit_cut, no_class_decision
from pine_boost.parsers.traits import class_of
from pine_boost.parsers.xgboost.document import XGBoostDocument, read_document
from pine_boost.parsers.xgboost.intercept import LINKS, fold_weights, read_intercept

_WRAPPERS = ("XGBClassifier", "XGBRFClassifier", "XGBRegressor", "XGBRFRegressor", "XGBRanker")


def read_xgboost(
    model: Any, *, threshold: float | Sequence[float] | None = None, decision: str = "class", asks_library: bool = True
) -> Model:
    """Read an XGBoost model exactly.

    Parameters
    ----------
    model : Booster, XGBClassifier, XGBRFClassifier, XGBRegressor, XGBRanker, or the bytes of a file
        Wrappers are read as their ``predict`` works: rounds up to best_iteration. A Booster is
        read as ``Booster.predict`` works, with all rounds. A file that a wrapper saved (attribute
        ``scikit_learn``) is read like the wrapper, any other file like a Booster.
    threshold : float, sequence of float or None
        Probabilities for binary classifiers; raw margins for regressors and rankers, which
        need one.
    decision : {"class", "value"}
        ``"value"`` reads regressors and rankers without a threshold, as their raw margin.
    asks_library : bool
        Whether the installed XGBoost is asked for the intercept, see `read_intercept`.

    Returns
    -------
    Model
        ``native_margins(model.forest, X)`` is the native margin bit for bit; for dart models read
        by a wrapper (inplace_predict) it is within ``forest.slack``.

    Raises
    ------
    UnsupportedModelError, MalformedModelError, InvalidInputError

    Examples
    --------
    >>> import xgboost
    >>> data = xgboost.DMatrix([[0.0], [1.0]], label=[0, 1])
    >>> booster = xgboost.train({"objective": "binary:logistic"}, data, 2)
    >>> read_xgboost(booster).forest.n_trees
    2
    """
    values, native = decision == "value", None
    if isinstance(model, bytes):
        document, kind = read_document(model), "xgboost file"
        by_wrapper = "scikit_learn" in document.attributes
    else:
        name = class_of(model, "xgboost", ("Booster", *_WRAPPERS), " Or pass a .json or .ubj file, or its bytes.")
        native, kind, by_wrapper = model, f"xgboost.{name}", name != "Booster"
        if by_wrapper and getattr(model, "_Booster", None) is None:
            raise InvalidInputError(f"This {name} is not fitted; fit it or load a model first.")
        if by_wrapper and not (name.endswith("Classifier") or threshold is not None or values):
            raise no_class_decision(name)
        booster = model.get_booster() if by_wrapper else model
        # UBJSON stores the float32 bits themselves and parses fastest
        document = read_document(bytes(booster.save_raw(raw_format="ubj")))
    objective = document.objective_name
    if objective not in LINKS:
        raise UnsupportedModelError(f"The objective {objective[:60]!r} is not supported; accepted: {', '.join(LINKS)}.")
    chosen = _decide(objective, document.n_outputs, threshold, by_wrapper=by_wrapper, values=values)
    if by_wrapper:
        document = _truncate(document)
    if native is None:
        _refuse_ignored_weights(document)
    intercept, error = read_intercept(document, asks_library=asks_library)
    slack = _inplace_slack(document, intercept)
    document = fold_weights(document)
    trees = document.trees
    conditions = trees["split_conditions"].astype(np.float64)
    tree_round = np.repeat(np.arange(len(document.round_offset) - 1), np.diff(document.round_offset))
    categories = document.cats.values if document.cats is not None else ()
    forest = trees.forest(
        trees["split_indices"],
        conditions,
        conditions,
        trees["split_type"] == 1,
        default_left=trees["default_left"] == 1,
        tree_output=document.tree_output.astype(np.int32),
        tree_round=tree_round.astype(np.int32),
        intercept=intercept,
        arithmetic=np.float32,
        comparison=Comparison.FLOAT32_LESS,
        category_rule=CategoryRule.EXACT,
        decision=chosen,
        n_outputs=document.n_outputs,
        classes=_find_classes(document, chosen, native),
        n_features=document.n_features,
        library="xgboost",
        objective=objective,
        # a file may be used for prediction in either way, so it gets the bound of both
        slack=error if native is not None and not by_wrapper else error + slack,
        feature_names=document.feature_names or None,
        feature_categories=tuple(known or None for known in categories),
        missing_value=_missing_value(native),
        sparse_zero_is_missing=True,
    )
    return Model(forest=forest, kind=kind, native=native, document=document)


def _truncate(document: XGBoostDocument) -> XGBoostDocument:
    """Keep only the rounds up to best_iteration, as the wrappers predict."""
    text = document.attributes.get("best_iteration")
    if text is None:
        return document
    n_rounds = len(document.round_offset) - 1
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < n_rounds):
        raise MalformedModelError(
            f"The attribute best_iteration is {text[:40]!r}, but the model has {n_rounds} rounds; "
            "XGBoost itself could not predict with it. Remove or correct the attribute."
        )
    end = int(document.round_offset[int(text) + 1])
    if end == 0:
        raise UnsupportedModelError("The rounds up to best_iteration hold no tree.")
    weights = document.weight_drop
    return replace(
        document,
        trees=document.trees.pick(np.arange(end)),
        tree_output=document.tree_output[:end],
        round_offset=document.round_offset[: int(text) + 2],
        weight_drop=None if weights is None else weights[:end],
    )


def _refuse_ignored_weights(document: XGBoostDocument) -> None:
    """Refuse a file with dropout whose weights the installed XGBoost would not see, so that it means another model."""
    if document.weight_drop is None:
        return
    try:
        import xgboost
    except ImportError:
        return
    since = document.weights_since
    if major_minor(xgboost) < since:
        raise UnsupportedModelError(
            f"The file holds its dropout (DART) weights where XGBoost {since[0]}.{since[1]} and later read them; the "
            f"installed {xgboost.__version__} silently ignores them there. Install XGBoost {since[0]}.{since[1]} or "
            "later."
        )


def major_minor(package: Any) -> tuple[int, int]:
    """Return the first two numbers of the version of a module."""
    major, minor = package.__version__.split(".")[:2]
    return int(major), int(minor)


def _inplace_slack(document: XGBoostDocument, intercept: FloatArray) -> float:
    """Bound |inplace_predict - sequential sum of f32(leaf * w)| for dart before 3.3; 0 for other models.

    Files that 3.3 and later write have no bound, as their inplace_predict adds f32(leaf * w) itself. The earlier
    one adds ((b + l) - b) * w instead of f32(l * w). With B = |b|, L = max |l|,
    W = |w|: the addition errs by u(B + L), the difference and the product by uLW each up to
    second order, f32(l * w) by uLW: together W u (B + 4L). On top, each of the two sums errs by
    u * sum |partials|. The factor covers second order, 2**-149 per tree the denormals.

    Raises
    ------
    UnsupportedModelError
        Native float32 sums of the leaves may overflow and make a margin infinite or NaN. b + l must be finite without
        its weight, too.
    """
    unit, trees = UNIT_ROUNDOFF[np.float32], document.trees
    largest = trees.largest(trees["split_conditions"].astype(np.float64))
    is_dart = document.weight_drop is not None
    weight = np.abs(np.asarray(document.weight_drop if is_dart else np.ones(trees.n_trees), dtype=np.float64))
    bounds = []
    for output in range(document.n_outputs):
        mine = document.tree_output == output
        base, reached = abs(float(intercept[output])), largest[mine]
        added = weight[mine] * (reached + unit * (base + 4 * reached))
        total = base + max(float(added.sum()), float(reached.max(initial=0.0)))
        if not total < LARGEST_SUM_FLOAT32:
            raise UnsupportedModelError(
                f"The intercept and the largest leaves of output {output} add up to {total:.3g}, "
                f"where XGBoost's float32 sums may overflow; accepted are sums below "
                f"{LARGEST_SUM_FLOAT32:.3g}. Train the model on a smaller scale of the target."
            )
        terms = float(np.sum(unit * weight[mine] * (base + 4 * reached)))
        sums = 2 * unit * float(np.sum(base + np.cumsum(added)))
        bounds.append((terms + sums) * (1 + 2.0**-10) + 2.0**-148 * np.count_nonzero(mine))
    return max(bounds) if is_dart and document.weights_since < (3, 3) else 0.0


def _find_classes(document: XGBoostDocument, decision: Decision, native: Any) -> tuple[Any, ...]:
    n_classes = len(decision.cuts) + 1 if decision.cuts else document.n_classes
    is_labelled = hasattr(native, "n_classes_") and (decision.cuts or document.n_outputs > 1)
    if not is_labelled or len(decision.cuts) > 1:
        return class_labels(decision, document.n_outputs, None)
    if native.n_classes_ != n_classes or (document.n_classes == 2):
        # XGBClassifier.predict then returns an indicator matrix, or a class that was not trained
        raise UnsupportedModelError(
            f"The wrapper has {native.n_classes_} classes, the objective "
            f"{document.objective_name!r} {n_classes} (num_class {document.n_classes}); refit it "
            "with binary:logistic for two classes, multi:softprob for more."
        )
    if document.objective_name == "multi:softmax" and native.objective != "multi:softmax":
        raise UnsupportedModelError(
            "The wrapper's objective is not the multi:softmax of its Booster, so its predict does "
            "not return classes; set objective='multi:softmax'."
        )
    return class_labels(decision, document.n_outputs, np.asarray(native.classes_).tolist())


def _missing_value(native: Any) -> float:
    missing = getattr(native, "missing", None)
    # XGBoost compares float32(x) with float32(missing)
    with np.errstate(over="ignore"):
        value = float("nan") if missing is None else float(np.float32(missing))
    if np.isinf(value):
        raise UnsupportedModelError(
            f"This wrapper counts {missing} as missing, beside NaN; replace infinities by NaN in "
            "the tables and set missing=numpy.nan."
        )
    return value


def _decide(objective: str, n_outputs: int, threshold: Thresholds, *, by_wrapper: bool, values: bool) -> Decision:
    """Return the true boundary of the native class, or the caller's thresholds as margins.

    ``XGBClassifier.predict`` (``by_wrapper``) compares the raw margin of binary:logitraw with 0.5, where users of
    ``Booster.predict`` compare it with 0.
    """
    if objective == "binary:hinge" and threshold is not None:
        raise InvalidInputError(
            "binary:hinge has no probabilities to compare a threshold with; leave threshold=None.", option="threshold"
        )
    own = {
        "binary:logistic": Decision((XGBOOST_LOGISTIC_CUT,)),
        "binary:logitraw": Decision((0.5,) if by_wrapper else (0.0,)),
        "binary:hinge": Decision((0.0,)),
        # softmax compares margins; softprob compares probabilities, which are rounded before argmax
        "multi:softmax": Decision(()),
        "multi:softprob": Decision((), guard=SOFTMAX_GUARD_FLOAT32),
    }
    is_probability = objective in ("binary:logistic", "binary:logitraw")

    def cut(given: float) -> tuple[float, float]:
        if is_probability:
            return logit_cut(given, np.float32)
        # numpy compares a float32 margin with a Python number as float32, so the cut may be either
        return given, abs(given - float(np.float32(given)))

    return find_decision(
        threshold,
        own.get(objective),
        f"The objective {objective!r}",
        n_outputs=n_outputs,
        is_probability=is_probability,
        cut=cut,
        values=values,
    )
