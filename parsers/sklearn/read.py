"""Read fitted scikit-learn tree ensembles (live objects, never pickles) into the tree IR.

The Forest adds exactly the numbers that scikit-learn adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, MalformedModelError, UnsupportedModelError
from pine_boost.model.forest import Decision, FloatArray, Forest, IntArray, Model
from pine_boost.model.links import VOTES
from pine_boost.model.rules import CategoryRule, Comparison, Tie
from pine_boost.parsers.decisions import logit_cut, no_class_decision, read_thresholds
from pine_boost.parsers.sklearn.trees import (
    LEAF,
    Rounding,
    average_rounding,
    class_labels,
    feature_names,
    isolation_cut,
    refuse_multi_output,
    refuse_other_than,
    require_fitted,
    stack_classic,
    stack_histogram,
    supported_name,
    vote_rounding,
)

__all__ = ["SklearnDocument", "read_isolation_forest", "read_sklearn"]


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
    name = supported_name(model, _READERS)
    is_classifier = name.endswith("Classifier")
    thresholds = read_thresholds(threshold, probabilities=is_classifier)
    if not (is_classifier or thresholds or decision == "value"):
        raise no_class_decision(name, "raw prediction above which the class is 1")
    n_classes = len(class_labels(model)) if is_classifier else 0
    if thresholds and n_classes > 2:
        raise InvalidInputError(
            f"threshold was given for a model of {n_classes} classes; per-class thresholds are "
            "not supported. Leave threshold out, or pass a binary model.",
            option="threshold",
        )
    forest, document = _READERS[name](model, name, thresholds)
    return Model(forest, f"sklearn.{name}", model, document)


def read_isolation_forest(model: Any) -> Forest:
    """Read an IsolationForest as a forest of path lengths.

    The value of a leaf is its depth plus the average path length of an unbuilt subtree of its
    samples, c(n), as scikit-learn itself adds them; the margin is the sum over the trees, and
    ``score_samples`` is ``-2 ** (-margin / (n_trees * c(max_samples)))``: a larger margin is more
    plausible. The decision (class 1 = inlier) is that of ``predict``.

    Parameters
    ----------
    model : sklearn.ensemble.IsolationForest
        Fitted; ``max_features`` below 1 is respected.

    Returns
    -------
    Forest

    Raises
    ------
    UnsupportedModelError
        The estimator is of another class, or its offset is outside the range of scores.
    InvalidInputError
        The estimator is not fitted.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import IsolationForest
    >>> isolation = IsolationForest(n_estimators=9, random_state=0).fit(load_iris().data)
    >>> read_isolation_forest(isolation).classes
    (-1, 1)
    """
    refuse_other_than(model, "IsolationForest")
    require_fitted(model, "estimators_")
    trees = [estimator.tree_ for estimator in model.estimators_]
    lengths = zip(model._decision_path_lengths, model._average_path_length_per_tree, strict=True)
    # the same three float operations in the same order as scikit-learn give bit-equal leaves
    values = [(depth + rest - 1.0)[:, None] for depth, rest in lengths]
    subsampled = model._max_features != model.n_features_in_
    columns = model.estimators_features_ if subsampled else None
    from sklearn.ensemble._iforest import _average_path_length

    denominator = float(len(trees) * _average_path_length([model._max_samples])[0])
    offset = float(model.offset_)
    if denominator <= 0 or not -1 <= offset < 0:
        raise UnsupportedModelError(
            f"IsolationForest with offset_={offset} and max_samples={model._max_samples} calls "
            "every input the same; refit it with more samples and an offset in (-1, 0)."
        )
    cut, guard = isolation_cut(offset, denominator)
    leaves = leaves_only(trees, values)
    rounding = average_rounding(leaves, leaves, None)
    return build_forest(
        model,
        stack_classic(trees, values, columns),
        decision=Decision((cut,), Tie.HIGHEST, guard),
        classes=(-1, 1),
        objective="isolation",
        rounding=Rounding(rounding.slack, 0.0),
    )


@dataclass(frozen=True)
class SklearnDocument:
    """What the writer needs besides the estimator itself.

    Attributes
    ----------
    family : str
        ``average``, ``gradient``, ``histogram``, ``votes`` or ``isolation``.
    offset : float
        Subtracted from every leaf of an averaged model with a decision threshold.
    """

    family: str
    offset: float = 0.0


def read_average(model: Any, name: str, thresholds: tuple[float, ...]) -> tuple[Forest, SklearnDocument]:
    """Read forests and single trees, which predict the mean of the leaves; the Forest holds their sum."""
    estimators = [model] if "Tree" in name and "Trees" not in name else list(model.estimators_)
    refuse_multi_output(model, name)
    trees = [estimator.tree_ for estimator in estimators]
    native = [tree.value[:, 0, :].astype(np.float64) for tree in trees]
    if len(thresholds) > 1:
        raise InvalidInputError(
            f"{name} averages its trees, so only one threshold can be kept exactly when trees are "
            f"removed; got {len(thresholds)}. Prune once per threshold."
        )
    threshold = thresholds[0] if thresholds else None
    if threshold is None:
        values = native
    else:
        native = [value[:, -1:] for value in native]  # class 1, or the only output of a regressor
        values = [value - threshold for value in native]
    rounding = average_rounding(leaves_only(trees, values), leaves_only(trees, native), threshold)
    forest = build_forest(
        model,
        stack_classic(trees, values),
        decision=Decision(() if threshold is None else (0.0,), Tie.LOWEST, rounding.guard, thresholds),
        classes=class_labels(model, thresholds),
        objective=str(getattr(model, "criterion", "")),
        rounding=rounding,
        slope=1.0 if hasattr(model, "classes_") else 1.0 / len(trees),
    )
    return forest, SklearnDocument("average", threshold or 0.0)


def read_gradient(model: Any, name: str, thresholds: tuple[float, ...]) -> tuple[Forest, SklearnDocument]:
    """Read GradientBoosting: init + sum(learning_rate * value), float64, in file order."""
    trees = [estimator.tree_ for estimator in model.estimators_.ravel()]
    rate = np.float64(model.learning_rate)
    slope = 2.0 if model.loss == "exponential" else 1.0
    forest = build_forest(
        model,
        # value * rate rounded once, then added: predict_stages does the same in float64
        stack_classic(trees, [rate * tree.value[:, 0, :] for tree in trees]),
        decision=_boosted_decision(model, thresholds, slope, Tie.HIGHEST),
        classes=class_labels(model, thresholds),
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


def read_histogram(model: Any, name: str, thresholds: tuple[float, ...]) -> tuple[Forest, SklearnDocument]:
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
    forest = build_forest(
        model,
        stack_histogram(predictors, columns),
        decision=_boosted_decision(model, thresholds, 1.0, Tie.LOWEST),
        classes=class_labels(model, thresholds),
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


def read_votes(model: Any, name: str, thresholds: tuple[float, ...]) -> tuple[Forest, SklearnDocument]:
    """Read AdaBoost (SAMME): every tree votes with its weight for the largest class of the leaf."""
    if thresholds:
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
    classes = class_labels(model)
    weights = np.asarray(model.estimator_weights_, dtype=np.float64)[: len(model.estimators_)]
    if len(weights) != len(model.estimators_) or not 0 < weights.sum() < np.inf:
        raise MalformedModelError("AdaBoostClassifier needs one weight per tree with a positive sum; refit the model.")
    trees, values = [], []
    for estimator, weight in zip(model.estimators_, weights, strict=True):
        refuse_other_than(estimator, "DecisionTreeClassifier", inside=name)
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
    rounding = Rounding(0.0, 0.0) if binary else vote_rounding(weights, len(classes))
    forest = build_forest(
        model,
        stack_classic(trees, values),
        decision=Decision((0.0,) if binary else (), Tie.LOWEST, rounding.guard),
        classes=classes,
        objective=VOTES,
        rounding=rounding,
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


def leaves_only(trees: Sequence[Any], values: Sequence[FloatArray]) -> list[FloatArray]:
    """Return the rows of ``values`` that are leaves, per tree."""
    leaves = [value[tree.children_left == LEAF] for tree, value in zip(trees, values, strict=True)]
    if not all(np.all(np.isfinite(value)) for value in leaves):
        raise MalformedModelError("A leaf value is not finite; the trees were edited or damaged.")
    return leaves


def _boosted_decision(model: Any, thresholds: tuple[float, ...], slope: float, tie: Tie) -> Decision:
    """Return the decision of an additive margin; ``slope`` is that of the sigmoid behind predict_proba."""
    if not hasattr(model, "classes_"):
        return Decision(thresholds, Tie.LOWEST, 0.0, thresholds)
    if thresholds:
        cuts, guards = zip(*map(logit_cut, thresholds), strict=True)
        return Decision(tuple(cut / slope for cut in cuts), Tie.LOWEST, max(guards) / min(slope, 1.0), thresholds)
    if len(model.classes_) > 2:
        return Decision((), Tie.LOWEST)  # argmax of the margins themselves, no softmax
    return Decision((0.0,), tie)


def accepts_missing(model: Any) -> bool:
    """Return whether the native predict accepts NaN, by the estimator's own tags."""
    return bool(model.__sklearn_tags__().input_tags.allow_nan)


def build_forest(
    model: Any,
    arrays: dict[str, Any],
    *,
    n_per_round: int | None = None,
    rounding: Rounding | None = None,
    **fields: Any,
) -> Forest:
    """Build a Forest with what all scikit-learn ensembles share; ``fields`` are those of `Forest`.

    ``n_per_round`` is the number of trees per boosting round, one per output; None means that
    every tree adds to every output (or to the only one).
    """
    n_trees = len(arrays["tree_offset"]) - 1
    n_outputs = arrays["value"].shape[1] if n_per_round is None else n_per_round
    tree = np.arange(n_trees)
    output = tree % n_outputs if n_per_round else np.full(n_trees, -1 if n_outputs > 1 else 0)
    common = {
        "tree_output": output.astype(np.int32),
        "tree_round": (tree // (n_per_round or 1)).astype(np.int32),
        "tree_bias": np.zeros(n_trees),
        "intercept": np.zeros(n_outputs),
        "free_intercept": False,
        "arithmetic": np.float64,
        "comparison": Comparison.FLOAT32_VALUE_LESS_EQUAL,
        "category_rule": CategoryRule.KNOWN,
        "n_outputs": n_outputs,
        "n_features": int(model.n_features_in_),
        "library": "sklearn",
        "slack": 0.0 if rounding is None else rounding.slack,
        "feature_names": feature_names(model),
        "accepts_missing": accepts_missing(model),
    }
    return Forest(**{**arrays, **common, **fields})


_READERS: dict[str, Callable[..., tuple[Forest, SklearnDocument]]] = {
    "RandomForestClassifier": read_average,
    "ExtraTreesClassifier": read_average,
    "DecisionTreeClassifier": read_average,
    "ExtraTreeClassifier": read_average,
    "GradientBoostingClassifier": read_gradient,
    "HistGradientBoostingClassifier": read_histogram,
    "AdaBoostClassifier": read_votes,
    "RandomForestRegressor": read_average,
    "ExtraTreesRegressor": read_average,
    "DecisionTreeRegressor": read_average,
    "ExtraTreeRegressor": read_average,
    "GradientBoostingRegressor": read_gradient,
    "HistGradientBoostingRegressor": read_histogram,
}
