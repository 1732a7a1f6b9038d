"""How each library adds its leaves and decides, in its own order, types and operations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError
from pine_boost.kernels.flat_forest import Link, NativeSum
from pine_boost.model.forest import FloatArray, Forest, IntArray, Model
from pine_boost.model.links import Output, output_of
from pine_boost.model.rules import Tie
from pine_boost.model.trimming import forest_subtrees
from pine_boost.scoring.fast_scorer import ProbabilityRule

_FLOAT32_LINKS = {Output.SIGMOID: Link.SIGMOID_FLOAT32, Output.EXPONENTIAL: Link.EXP_FLOAT32}
_LINKS = {Output.SIGMOID: Link.SIGMOID, Output.EXPONENTIAL: Link.EXP, Output.VALUE: Link.IDENTITY}
_LIGHTGBM_RAW_OBJECTIVES = (
    *("regression", "regression_l1", "huber", "fair", "quantile", "mape"),
    *("lambdarank", "rank_xendcg", "custom"),
)
_CATBOOST_RAW_LOSSES = ("RMSE", "MAE", "MAPE", "Quantile", "Huber", "Expectile", "LogCosh", "Lq")


def leaf_nodes(forest: Forest) -> IntArray:
    """The node of each leaf, in the order in which the kernel numbers leaves."""
    return forest_subtrees(forest).leaf_node


def native_sum(model: Model) -> NativeSum:
    """What the native ``predict`` of a model's kind computes from the leaves.

    Raises
    ------
    UnsupportedModelError
        A value model whose link is not one that the kernel reproduces.
    """
    per_library = {"catboost": _catboost, "xgboost": _xgboost, "lightgbm": _lightgbm, "sklearn": _sklearn}
    return per_library[model.forest.library](model, plain_sum(model.forest))


def plain_sum(forest: Forest) -> NativeSum:
    """The sum of a Forest's own leaves, to which its cuts and distances refer."""
    return NativeSum(
        value=forest.value[leaf_nodes(forest)].astype(forest.arithmetic),
        intercept=forest.intercept.astype(forest.arithmetic),
        link=Link.IDENTITY,
        divisor=1.0,
        slope=1.0,
        cuts=np.array(forest.decision.cuts, dtype=np.float64),
        wins_ties=forest.decision.tie is Tie.HIGHEST,
        intercept_last=forest.intercept_last and bool(np.any(forest.intercept)),
    )


def require_own_predict(model: Model) -> None:
    """Refuse a wrapper whose ``predict`` is not what its objective decides.

    XGBRegressor(objective="binary:logistic") predicts probabilities, XGBClassifier(objective="reg:logistic")
    classes: a scorer made of the trees and the objective would give the other.

    Raises
    ------
    UnsupportedModelError
    """
    forest, native = model.forest, model.native
    is_wrapper = forest.library in ("xgboost", "lightgbm") and hasattr(native, "get_params")
    if not is_wrapper or forest.decision.thresholds or callable(native.get_params().get("objective")):
        return
    gives_classes = hasattr(native, "predict_proba")
    if gives_classes != forest.decides:
        kinds = ("classes", "numbers") if gives_classes else ("numbers", "classes")
        remedy = "its Booster" if gives_classes else "threshold=, or its Booster"
        raise UnsupportedModelError(
            f"{type(native).__name__}.predict gives {kinds[0]}, but its objective {forest.objective[:60]!r} stands for "
            f"{kinds[1]}; a scorer cannot follow both. Pass {remedy}."
        )


def _xgboost(model: Model, plain: NativeSum) -> NativeSum:
    forest = model.forest
    if forest.slack and hasattr(model.native, "get_booster"):
        plain = replace(plain, value=_dart_values(model))
    thresholds, objective = forest.decision.thresholds, forest.objective
    if objective == "multi:softprob":
        return replace(plain, link=Link.SOFTMAX_FLOAT32)
    if not forest.decides:
        return replace(plain, link=_FLOAT32_LINKS.get(output_of(forest), Link.IDENTITY))
    if not thresholds:
        return plain
    if objective == "binary:logistic":  # a float32 probability, compared as float32
        cuts = np.array(thresholds, dtype=np.float32).astype(np.float64)
        return replace(plain, link=Link.SIGMOID_FLOAT32, cuts=cuts)
    link = Link.SIGMOID if objective == "binary:logitraw" else Link.IDENTITY
    return replace(plain, link=link, cuts=np.array(thresholds))


def _dart_values(model: Model) -> npt.NDArray[np.float32]:
    """What inplace_predict adds for a leaf of dart: ((base + leaf) - base) * weight, all float32.

    The wrapper's ``predict`` is inplace_predict, whose numbers differ from those of the Booster.
    """
    from pine_boost.parsers.xgboost.document import read_document

    forest = model.forest
    document = read_document(bytes(model.native.get_booster().save_raw(raw_format="ubj")))
    nodes = leaf_nodes(forest)
    tree = forest.node_tree[nodes]
    leaf = document.trees["split_conditions"][nodes].astype(np.float32)
    base = forest.intercept.astype(np.float32)[forest.tree_output[tree]]
    weights = np.ones(forest.n_trees) if document.weight_drop is None else document.weight_drop
    return np.asarray(((base + leaf) - base) * weights.astype(np.float32)[tree])[:, None]


def _lightgbm(model: Model, plain: NativeSum) -> NativeSum:
    from pine_boost.parsers.lightgbm.read import read_objective

    forest, document = model.forest, model.document
    divisor = float(document.n_used_rounds if document.average_output else 1)
    slope = read_objective(document.objective, forest.n_outputs).sigmoid
    plain = replace(plain, divisor=divisor, slope=slope)
    decision = forest.decision
    if not forest.decides:
        line, output = document.objective or "custom", output_of(forest)
        is_known = output is not Output.VALUE or forest.objective in _LIGHTGBM_RAW_OBJECTIVES
        if output not in _LINKS or not is_known or "sqrt" in line:
            raise UnsupportedModelError(f"The LightGBM objective {line[:60]!r} is not supported by a scorer.")
        return replace(plain, link=_LINKS[output])
    if forest.n_outputs > 1:
        return replace(plain, link=Link.SOFTMAX if output_of(forest) is Output.SOFTMAX else Link.SIGMOID)
    if forest.objective in ("binary", "cross_entropy"):
        if not decision.thresholds and decision.guard == 0:
            return plain  # the measured cut of the sum itself
        return replace(plain, link=Link.SIGMOID, cuts=np.array(decision.thresholds or (0.5,)))
    return replace(plain, cuts=np.array(decision.thresholds))


def _catboost(model: Model, plain: NativeSum) -> NativeSum:
    """CatBoost decides classes by raw values."""
    forest = model.forest
    thresholds = forest.decision.thresholds
    if thresholds and output_of(forest) is Output.SIGMOID:
        return replace(plain, link=Link.SIGMOID, cuts=np.array(thresholds))
    if forest.decision.guard:
        raise UnsupportedModelError(
            "This CatBoost model has a probability threshold of its own, whose logit a scorer does not reproduce bit "
            "for bit. Pass it as threshold=model.get_probability_threshold(); behind a guard, "
            "backend='native' asks the library."
        )
    if forest.decides or forest.objective in _CATBOOST_RAW_LOSSES:
        return plain
    raise UnsupportedModelError(
        f"The CatBoost loss {forest.objective[:60]!r} is not supported by a scorer; with one of "
        f"{', '.join(_CATBOOST_RAW_LOSSES)} the prediction is the raw value."
    )


def _sklearn(model: Model, plain: NativeSum) -> NativeSum:
    forest, family = model.forest, model.document.family
    thresholds = forest.decision.thresholds
    if family == "average":
        plain = replace(plain, divisor=float(forest.n_trees))
        if not thresholds:
            return plain
        # the forest holds differences to the threshold; scikit-learn adds the shares themselves
        return replace(plain, value=_shares(model), cuts=np.array(thresholds))
    if family == "votes":
        plain = replace(plain, divisor=float(model.native.estimator_weights_.sum()))
        if forest.n_outputs == 1:
            return plain
        weights = np.asarray(model.native.estimator_weights_, dtype=np.float64)
        against = -1 / (forest.n_outputs - 1) * weights[forest.node_tree[leaf_nodes(forest)]]
        value = np.where(plain.value > 0, plain.value, against[:, None])
        return replace(plain, value=value)
    if not forest.decides and output_of(forest) is Output.EXPONENTIAL:
        return replace(plain, link=Link.EXP)
    plain = replace(plain, slope=forest.slope)
    if thresholds and hasattr(model.native, "classes_"):
        return replace(plain, link=Link.SIGMOID, cuts=np.array(thresholds))
    return plain


def probability_rule(model: Model) -> ProbabilityRule:
    """How ``predict_proba`` of a model's kind follows from its sums."""
    forest, objective, output = model.forest, model.forest.objective, output_of(model.forest)
    if not forest.decides:
        return ProbabilityRule("none")
    if forest.library == "xgboost":
        rules = {
            "binary:logistic": ProbabilityRule("pair", Link.SIGMOID_FLOAT32),
            "multi:softprob": ProbabilityRule("columns", Link.SOFTMAX_FLOAT32),
        }
        return rules.get(objective, ProbabilityRule("none"))
    if forest.library == "catboost" and output is Output.SOFTMAX:
        return ProbabilityRule("catboost")
    if forest.library in ("catboost", "lightgbm") and forest.n_outputs > 1:
        return ProbabilityRule("columns", Link.SOFTMAX if output is Output.SOFTMAX else Link.SIGMOID)
    if forest.library in ("catboost", "lightgbm"):
        return ProbabilityRule("pair", Link.SIGMOID) if output is Output.SIGMOID else ProbabilityRule("none")
    if not hasattr(model.native, "predict_proba"):
        return ProbabilityRule("none")
    if output is Output.VOTES:
        return ProbabilityRule("votes")
    if output is Output.MEAN:
        return ProbabilityRule("columns" if forest.n_outputs > 1 else "pair")
    return ProbabilityRule("softmax") if forest.n_outputs > 1 else ProbabilityRule("pair", Link.SIGMOID)


def _shares(model: Model) -> FloatArray:
    """Leaves of an averaged model as scikit-learn holds them: share of class 1, or the value."""
    native: Any = model.native
    estimators = native.estimators_ if hasattr(native, "estimators_") else [native]
    stacked = np.concatenate([estimator.tree_.value[:, 0, -1] for estimator in estimators])
    return np.asarray(stacked[leaf_nodes(model.forest)], dtype=np.float64)[:, None]


def is_unordered(parsed: Model) -> bool:
    """Whether the library adds trees in no fixed order (scikit-learn's forests in several threads)."""
    return output_of(parsed.forest) is Output.MEAN and parsed.forest.n_trees > 1
