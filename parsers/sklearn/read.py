"""Read fitted scikit-learn tree ensembles (live objects, never pickles) into the tree IR.

The Forest adds exactly the numbers that scikit-learn adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, MalformedModelError, UnsupportedModelError
from pine_boost.model.exact import AVERAGED_BITS, UNIT_ROUNDOFF, dyadic_exponent
from pine_boost.model.forest import Decision, FloatArray, Forest, IntArray, Model
from pine_boost.model.links import VOTES
from pine_boost.model.rules import CategoryRule, Comparison, Tie
from pine_boost.parsers.decisions import class_labels, find_decision, logit_cut
from pine_boost.parsers.nodes import NO_CODES, Nodes, one_tree, stack
from pine_boost.parsers.traits import class_of

# the decision of a threshold at the cuts that a function gives, of the estimator itself without one
Decide = Callable[[Decision, Callable[[float], tuple[float, float]]], Decision]

__all__ = ["SklearnDocument", "read_isolation_forest", "read_sklearn"]

LEAF = -1  # children_left of a leaf in tree_
OLDEST = (1, 6)
# Bounds on the effect of rounding on a scikit-learn decision, each with its inequality (u = 2**-53). They hold for any
# order of summation.
UNIT = UNIT_ROUNDOFF[np.float64]
_LARGEST_SUM = 1e280  # far from overflow in every bound below


def read_sklearn(model: Any, *, threshold: float | Sequence[float] | None = None, decision: str = "class") -> Model:
    """Read a fitted scikit-learn tree ensemble exactly.

    Parameters
    ----------
    model : estimator
        RandomForest, ExtraTrees, DecisionTree, ExtraTree, GradientBoosting, HistGradientBoosting
        or AdaBoost (over decision trees) classifier; the regressors of the same names (except
        AdaBoost) when ``threshold`` is given.
    threshold : float, sequence of float or None
        None is the estimator's own ``predict``. For a binary classifier: probability(ies), class 1
        iff ``predict_proba(x)[1] > threshold``. For a regressor: class 1 iff the raw prediction
        (before the exponential of a Poisson or gamma loss) exceeds it. Averaged models (forests)
        take one threshold, which is subtracted from every leaf, because a mean over fewer trees
        is only meaningful relative to the threshold.
    decision : {"class", "value"}
        ``"value"`` reads a regressor without a threshold: the margin of a forest is the sum over
        its trees, and ``forest.slope`` times the margin is its prediction.

    Returns
    -------
    Model
        Its ``document`` is a `SklearnDocument`.

    Raises
    ------
    UnsupportedModelError
        The estimator is not one of the above, has several outputs, a single class or a custom ``init``.
    InvalidInputError
        The estimator is not fitted, or the threshold does not fit the model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = RandomForestClassifier(5, random_state=0).fit(*load_iris(return_X_y=True))
    >>> read_sklearn(forest).forest.n_trees
    5
    """
    _refuse_old_version()
    hint = ""
    if hasattr(model, "best_estimator_"):
        hint = " This search holds the model in best_estimator_: pass that."
    if any(base.__name__ == "IsolationForest" for base in type(model).__mro__):
        hint = " An isolation forest is a plausibility score here: pass score='isolation-forest' beside your model."
    name = class_of(model, "sklearn", _READERS, hint)
    read, attribute = _READERS[name]
    require_fitted(model, attribute)
    refuse_multi_output(model, name)
    if hasattr(model, "classes_") and len(model.classes_) < 2:
        raise UnsupportedModelError(
            f"{type(model).__name__} was fitted on the single class {np.asarray(model.classes_).tolist()[0]!r}; it "
            "always predicts that, there is nothing to prune."
        )
    forest, document = read(model, name, partial(_decide, model, name, threshold, decision == "value"))
    return Model(forest, f"sklearn.{name}", model, document)


def read_isolation_forest(model: Any) -> Forest:
    """Read the trees of a fitted IsolationForest; their leaves have no values.

    Raises
    ------
    UnsupportedModelError
        The estimator is of another class, or its trees see some of the features only.
    InvalidInputError
        The estimator is not fitted.
    """
    class_of(model, "sklearn", ("IsolationForest",))
    require_fitted(model, "estimators_")
    if model._max_features != model.n_features_in_:
        raise UnsupportedModelError("An IsolationForest with max_features below 1 is not supported.")
    trees = classic_nodes([estimator.tree_ for estimator in model.estimators_])
    return build_forest(model, trees, np.zeros((len(trees.left), 1)), Decision(()), objective="isolation")


@dataclass(frozen=True)
class SklearnDocument:
    """What the writer needs besides the estimator itself.

    Attributes
    ----------
    family : str
        ``average``, ``gradient``, ``histogram`` or ``votes``.
    offset : float
        Subtracted from every leaf of an averaged model with a decision threshold.
    """

    family: str
    offset: float = 0.0


def _decide(
    model: Any,
    name: str,
    threshold: Any,
    values: bool,
    own: Decision | None,
    cut: Callable[[float], tuple[float, float]],
) -> Decision:
    is_classifier = hasattr(model, "classes_")
    n_classes = len(model.classes_) if is_classifier else 1
    return find_decision(
        threshold,
        own if is_classifier else None,
        name,
        n_outputs=n_classes if n_classes > 2 else 1,
        is_probability=is_classifier,
        cut=cut if is_classifier else lambda given: (given, 0.0),
        values=values,
        scale="raw prediction above which the class is 1",
    )


def read_average(model: Any, name: str, decide: Decide) -> tuple[Forest, SklearnDocument]:
    """Read forests and single trees, which predict the mean of the leaves; the Forest holds their sum."""
    trees = [estimator.tree_ for estimator in members(model)]
    nodes = classic_nodes(trees)
    native = np.concatenate([tree.value[:, 0, :].astype(np.float64) for tree in trees])
    # a threshold is taken off every leaf, so that the sum is compared with 0
    decision = decide(Decision(()), lambda _: (0.0, 0.0))
    thresholds = decision.thresholds
    if len(thresholds) > 1:
        raise InvalidInputError(
            f"{name} averages its trees, so only one threshold can be kept exactly when trees are "
            f"removed; got {len(thresholds)}. Prune once per threshold."
        )
    values = native
    if thresholds:
        native = native[:, -1:]  # class 1, or the only output of a regressor
        values = native - thresholds[0]
    offset = thresholds[0] if thresholds else None
    slack, guard = average_rounding(nodes, values, native, offset)
    forest = build_forest(
        model,
        nodes,
        values,
        replace(decision, cuts=(0.0,) * len(thresholds), guard=guard),
        objective=str(getattr(model, "criterion", "")),
        slack=slack,
        slope=1.0 if hasattr(model, "classes_") else 1.0 / len(trees),
    )
    return forest, SklearnDocument("average", offset or 0.0)


def read_gradient(model: Any, name: str, decide: Decide) -> tuple[Forest, SklearnDocument]:
    """Read GradientBoosting: init + sum(learning_rate * value), float64, in file order."""
    trees = [estimator.tree_ for estimator in members(model)]
    rate = np.float64(model.learning_rate)
    slope = 2.0 if model.loss == "exponential" else 1.0
    forest = build_forest(
        model,
        classic_nodes(trees),
        # value * rate rounded once, then added: predict_stages does the same in float64
        np.concatenate([rate * tree.value[:, 0, :] for tree in trees]),
        _boosted_decision(model, decide, slope, Tie.HIGHEST),
        objective=str(model.loss),
        intercept=_gradient_intercept(model, name),
        n_per_round=model.estimators_.shape[1],
        free_intercept=True,
    )
    return replace(forest, slope=slope), SklearnDocument("gradient")


def _gradient_intercept(model: Any, name: str) -> FloatArray:
    n_outputs = model.estimators_.shape[1]
    if isinstance(model.init_, str):  # "zero"
        return np.zeros(n_outputs)
    if model.init is not None:
        raise UnsupportedModelError(
            f"{name}(init={type(model.init).__name__}) starts from another model, whose "
            "predictions are not tree leaves; refit with init=None or init='zero'."
        )
    # measured, not computed: numpy's log-odds differs from the native one in the last bit
    row = np.zeros((1, model.n_features_in_), dtype=np.float32)
    intercept: FloatArray = np.asarray(model._raw_predict_init(row), dtype=np.float64)[0]
    return intercept


def read_histogram(model: Any, name: str, decide: Decide) -> tuple[Forest, SklearnDocument]:
    """Read HistGradientBoosting: baseline + sum(value), float64, columns in the user's order."""
    n_features = int(model.n_features_in_)
    columns = np.arange(n_features)
    categories: list[tuple[Any, ...] | None] = [None] * n_features
    if getattr(model, "is_categorical_", None) is not None:
        if getattr(model, "_preprocessor", None) is None:
            raise UnsupportedModelError(
                "This HistGradientBoosting model with categorical features comes from "
                "scikit-learn before 1.4; refit it with a current version."
            )
        columns, categories = _categorical_columns(model)
    predictors = [predictor for stage in model._predictors for predictor in stage]
    baseline = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
    nodes = histogram_nodes(predictors, columns)
    is_category = nodes["is_categorical"].astype(bool) & ~nodes.is_leaf
    forest = build_forest(
        model,
        nodes,
        nodes["value"],
        _boosted_decision(model, decide, 1.0, Tie.LOWEST),
        is_categorical=is_category,
        set_left=is_category,
        objective=str(model.loss),
        intercept=baseline,
        n_per_round=len(baseline),
        free_intercept=True,
        comparison=Comparison.FLOAT64_LESS_EQUAL,
        feature_categories=tuple(categories) if any(categories) else (),
    )
    return forest, SklearnDocument("histogram")


def _categorical_columns(model: Any) -> tuple[IntArray, list[tuple[Any, ...] | None]]:
    """Return the user's column of each reordered one, and the raw categories of the user's columns."""
    is_categorical = np.asarray(model.is_categorical_, dtype=bool)
    user_columns = np.flatnonzero(is_categorical)
    columns = np.concatenate([user_columns, np.flatnonzero(~is_categorical)])
    categories: list[tuple[Any, ...] | None] = [None] * len(is_categorical)
    encoder = model._preprocessor.named_transformers_["encoder"]
    for column, known in zip(user_columns, encoder.categories_, strict=True):
        raw = known.tolist()
        if raw and isinstance(raw[-1], float) and np.isnan(raw[-1]):
            raw = raw[:-1]  # NaN sorts last and is the missing value, not a category
        if any(value is None for value in raw):
            raise UnsupportedModelError(
                f"Column {column} of this HistGradientBoosting model was fitted with None as a "
                "category, which tables cannot tell from a missing value; refit with NaN instead."
            )
        categories[column] = tuple(raw)
    return columns, categories


def read_votes(model: Any, name: str, decide: Decide) -> tuple[Forest, SklearnDocument]:
    """Read AdaBoost (SAMME): every tree votes with its weight for the largest class of the leaf."""
    from sklearn.tree import DecisionTreeClassifier

    if decide(Decision(()), logit_cut).thresholds:
        raise InvalidInputError(
            "AdaBoostClassifier divides by the sum of the estimator weights, so a probability "
            "threshold means another margin after pruning; leave threshold out.",
            option="threshold",
        )
    if str(getattr(model, "algorithm", "SAMME")) == "SAMME.R":
        raise UnsupportedModelError(
            "AdaBoost with algorithm='SAMME.R' adds logarithms of probabilities, not votes; "
            "refit with algorithm='SAMME'."
        )
    classes = tuple(model.classes_.tolist())
    weights = np.asarray(model.estimator_weights_, dtype=np.float64)[: len(model.estimators_)]
    if len(weights) != len(model.estimators_) or not 0 < weights.sum() < np.inf:
        raise MalformedModelError("AdaBoostClassifier needs one weight per tree with a positive sum; refit the model.")
    trees, values = [], []
    for estimator, weight in zip(model.estimators_, weights, strict=True):
        if not isinstance(estimator, DecisionTreeClassifier):
            raise UnsupportedModelError(
                f"{type(estimator).__name__} was found inside {name}; only DecisionTreeClassifier is accepted here."
            )
        refuse_multi_output(estimator, name)
        voted = _vote(estimator, classes)
        if len(classes) == 2:
            # native: w for a vote, fl(-1 / 1 * w) = -w against: both signs exact, and the
            # division by the sum of the weights keeps the sign of the margin
            value = np.where(voted == 1, weight, -weight)[:, None]
        else:
            value = np.where(voted[:, None] == np.arange(len(classes)), weight, 0.0)
        trees.append(estimator.tree_)
        values.append(value)
    binary = len(classes) == 2
    slack, guard = (0.0, 0.0) if binary else vote_rounding(weights, len(classes))
    forest = build_forest(
        model,
        classic_nodes(trees),
        np.concatenate(values),
        Decision((0.0,) if binary else (), Tie.LOWEST, guard),
        objective=VOTES,
        slack=slack,
    )
    return forest, SklearnDocument("votes")


def _vote(estimator: Any, classes: tuple[Any, ...]) -> IntArray:
    """Return the class index that each node of a tree votes for (its own argmax, lowest index on a tie)."""
    position = {label: index for index, label in enumerate(classes)}
    labels = estimator.classes_.tolist()
    if not set(labels) <= set(classes):
        raise MalformedModelError(f"A tree of AdaBoostClassifier votes for {labels}.")
    own = np.array([position[label] for label in labels])
    voted: IntArray = own[np.argmax(estimator.tree_.value[:, 0, :], axis=1)]
    return voted


def members(model: Any) -> list[Any]:
    """Return the tree estimators of an ensemble in order, or a single tree."""
    return [model] if hasattr(model, "tree_") else np.ravel(model.estimators_).tolist()


def _boosted_decision(model: Any, decide: Decide, slope: float, tie: Tie) -> Decision:
    """Return the decision of an additive margin; ``slope`` is that of the sigmoid behind predict_proba."""

    def cut(given: float) -> tuple[float, float]:
        logit, guard = logit_cut(given)
        return logit / slope, guard / min(slope, 1.0)

    # argmax of the margins themselves, no softmax
    own = Decision(()) if len(getattr(model, "classes_", ())) > 2 else Decision((0.0,), tie)
    return decide(own, cut)


def build_forest(
    model: Any, trees: Nodes, value: FloatArray, decision: Decision, *, n_per_round: int | None = None, **fields: Any
) -> Forest:
    """Build a Forest with what all scikit-learn ensembles share; ``fields`` are those of `Forest`.

    ``n_per_round`` is the number of trees per boosting round, one per output; None means that
    every tree adds to every output (or to the only one).
    """
    if n_per_round is not None:
        tree = np.arange(trees.n_trees, dtype=np.int32)
        fields |= {"tree_output": tree % n_per_round, "tree_round": tree // n_per_round}
    n_outputs = n_per_round or value.shape[1]
    labels = np.asarray(model.classes_).tolist() if hasattr(model, "classes_") else None
    columns = getattr(model, "feature_names_in_", None)
    common = {
        "decision": decision,
        "classes": class_labels(decision, n_outputs, labels),
        "free_intercept": False,
        "comparison": Comparison.FLOAT32_VALUE_LESS_EQUAL,
        "category_rule": CategoryRule.KNOWN,
        "default_left": trees["missing_go_to_left"].astype(bool),
        "n_outputs": n_outputs,
        "n_features": int(model.n_features_in_),
        "library": "sklearn",
        "feature_names": None if columns is None else tuple(map(str, columns)),
        # by the estimator's own tags
        "accepts_missing": bool(model.__sklearn_tags__().input_tags.allow_nan),
    }
    is_classic = "feature" in (trees.record.dtype.names or ())
    names = ("feature", "threshold") if is_classic else ("feature_idx", "num_threshold")
    return trees.forest(trees[names[0]], trees[names[1]], value, **{**common, **fields})


def classic_nodes(trees: Sequence[Any]) -> Nodes:
    """Stack ``tree_`` objects."""
    parts = []
    for tree in trees:
        record = tree.__getstate__()["nodes"]
        left, right = record["left_child"], record["right_child"]
        if np.any((left == LEAF) != (right == LEAF)):
            raise MalformedModelError("A scikit-learn tree has a node with a single child.")
        if min(left.min(), right.min()) < LEAF:  # scikit-learn itself would read before its nodes
            raise MalformedModelError("A child of a scikit-learn tree lies outside its tree.")
        parts.append(one_tree(left, right, record))
    return stack(parts)


def histogram_nodes(predictors: Sequence[Any], columns: IntArray) -> Nodes:
    """Stack predictors of histogram boosting.

    ``columns`` maps the feature index of a node, which refers to the reordered matrix
    (categorical columns first), to the user's column.
    """
    parts = []
    for predictor in predictors:
        record = predictor.nodes
        is_leaf = record["is_leaf"].astype(bool)
        split = np.where(is_leaf, 0, record["feature_idx"])
        if np.any((split < 0) | (split >= len(columns))):
            raise MalformedModelError(
                f"A split of the model names a feature outside 0..{len(columns) - 1}"
                "; the model was damaged after fit. Fit it again."
            )
        left, right = (np.where(is_leaf, -1, record[side].astype(np.int64)) for side in ("left", "right"))
        parts.append(one_tree(left, right, record, _category_sets(predictor)).changed(feature_idx=columns[split]))
    return stack(parts)


def _category_sets(predictor: Any) -> list[npt.NDArray[Any]]:
    """Return the category codes that go left, per node; empty where a node is numeric."""
    record = predictor.nodes
    sets: list[npt.NDArray[Any]] = [NO_CODES] * len(record)
    # eight 32-bit words per split, bit c of the little-endian row = category code c
    words = np.ascontiguousarray(predictor.raw_left_cat_bitsets, dtype="<u4")
    for node in np.flatnonzero(record["is_categorical"].astype(bool) & ~record["is_leaf"].astype(bool)):
        index = int(record["bitset_idx"][node])
        if not index < len(words):
            raise MalformedModelError(
                "A categorical split of the HistGradientBoosting model has no category set; "
                "the model was damaged after fit. Fit it again."
            )
        sets[node] = np.flatnonzero(np.unpackbits(words[index].view(np.uint8), bitorder="little"))
    return sets


def require_fitted(model: Any, attribute: str) -> None:
    """Raise unless the estimator has the attribute that ``fit`` sets."""
    if not hasattr(model, attribute) or np.size(getattr(model, attribute)) == 0:
        raise InvalidInputError(f"{type(model).__name__} is not fitted (no {attribute}); call fit first.")


def refuse_multi_output(model: Any, name: str) -> None:
    """Raise if the trees predict several targets."""
    if int(getattr(model, "n_outputs_", 1)) > 1:
        raise UnsupportedModelError(
            f"{name} with {model.n_outputs_} outputs is not supported; fit one model per output."
        )


def _refuse_old_version() -> None:
    import sklearn

    # 1.3 keeps counts in tree_.value and normalises them when it predicts, so reweighted leaves
    # would be lost silently; 1.6.0 and 1.9 were checked bit for bit
    version = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
    if version < OLDEST:
        raise UnsupportedModelError(
            f"scikit-learn {sklearn.__version__} is installed; its trees predict by another rule. "
            f"Use scikit-learn {OLDEST[0]}.{OLDEST[1]} or newer."
        )


def average_rounding(
    nodes: Nodes, values: FloatArray, native: FloatArray, threshold: float | None
) -> tuple[float, float]:
    """Return the ``slack`` of a Forest of averaged trees and the ``guard`` of its Decision.

    They bound the rounding of ``mean over trees`` against the sum of ``values``.
    ``native`` are the leaves that scikit-learn adds; ``values`` are those of the Forest, the same
    ones or ``fl(native - threshold)``. With ``n_jobs > 1`` the trees are added in any order.
    `exact.summation_band` assumes file order and so is not enough: the partial sums are
    largest when the largest trees come first, hence the sorted sum here. If every sum is exact,
    no order matters and the slack is 0, so ties stay ties (pure leaves vote 0 or 1).
    """
    if nodes.n_trees == 1:
        # one tree: nothing is added, and fl(p - t) has the sign of p - t
        return 0.0, 0.0
    offset, numbers = abs(threshold or 0.0), native[nodes.is_leaf].ravel()
    if not np.all(np.isfinite(numbers)):
        raise MalformedModelError("A leaf value is not finite; the trees were edited or damaged.")
    with np.errstate(over="ignore"):
        total = float((nodes.largest(native) + offset).sum(axis=0).max())
    if not total < _LARGEST_SUM:
        raise MalformedModelError(
            f"The leaves of the model add up to {total:g}; sums beyond {_LARGEST_SUM:g} are no "
            "probabilities or predictions. Fit it again."
        )
    grid = dyadic_exponent(np.append(numbers, offset))
    if grid is not None and math.ldexp(total, grid) < 2.0**AVERAGED_BITS:
        return 0.0, 0.0
    # |native sum in any order - float sum of `values` in file order| <= the error of the first
    # + the error of the second + u * total for forming fl(native - threshold)
    slack = _worst_order(nodes.largest(native)) + _worst_order(nodes.largest(values)) + 2 * UNIT * total
    # fl(S / n) is within u * |S| / n of S / n: in units of S that is u * total, for each of two
    # classes (or for the one compared with fl(n * t) / n); doubled for the bound's own rounding
    return slack, 4 * UNIT * total


def vote_rounding(weights: FloatArray, n_classes: int) -> tuple[float, float]:
    """Return the ``slack`` of a Forest of votes for several classes and the ``guard`` of its Decision.

    They bound the rounding of AdaBoost's decision against the plain sum of the votes.
    Native: class k gets w or fl(c * w), c = fl(-1 / (K - 1)), summed, divided by W. In real
    numbers that is (v_k * K / (K - 1) - W / (K - 1)) / W, increasing in the votes v_k. Each term
    errs by 2u * w, n additions by u * |partial| <= u * W each, so a sum errs by (n + 2) u W, and
    as K / (K - 1) > 1 by no more in units of v. Division by W blurs two classes by 2 * u * W.
    """
    total = float(np.abs(weights).sum())
    shift = (n_classes - 1).bit_length() - 1
    grid = dyadic_exponent(weights)
    if (
        n_classes - 1 == 1 << shift
        and grid is not None
        and math.ldexp(total, grid + shift) < 2.0 ** (AVERAGED_BITS - 1)
    ):
        return 0.0, 0.0
    count = len(weights)
    # + the error of the Forest's own float sum, n * u * W, because slack is measured against it
    return (2 * count + 4) * UNIT * total, 4 * UNIT * total


def _worst_order(largest: FloatArray) -> float:
    """Bound |float sum - exact sum| over every order of the trees, from the largest |leaf| of each.

    A sequential sum errs by at most u * sum_k |partial_k|, and |partial_k| is at most the sum of
    the k largest trees; 1 + 2**-10 covers the rounding inside the partial sums (n < 2**14).
    """
    descending = -np.sort(-largest, axis=0)
    partials = np.cumsum(descending, axis=0).sum(axis=0)
    return UNIT * float(partials.max()) * (1 + 2.0**-10)


# by class: the function that reads it, and the attribute that ``fit`` sets
_READERS = {
    f"{name}{kind}": (read, attribute)
    for kind in ("Classifier", "Regressor")
    for name, read, attribute in (
        ("RandomForest", read_average, "estimators_"),
        ("ExtraTrees", read_average, "estimators_"),
        ("DecisionTree", read_average, "tree_"),
        ("ExtraTree", read_average, "tree_"),
        ("GradientBoosting", read_gradient, "estimators_"),
        ("HistGradientBoosting", read_histogram, "_predictors"),
    )
} | {"AdaBoostClassifier": (read_votes, "estimators_")}
