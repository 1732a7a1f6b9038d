"""Reads fitted scikit-learn tree ensembles into the tree IR.

In comes a live estimator (never a pickle); out goes a Model whose Forest adds exactly the numbers
that scikit-learn adds. Refuses multi-output, pipelines, custom init and estimators without trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.model.forest import Decision, Forest, Model
from pine_boost.model.rules import Tie
from pine_boost.parsers.sklearn.checks import class_labels, refuse_other_than, require_fitted, supported_name
from pine_boost.parsers.sklearn.kinds import (
    SklearnDocument,
    build_forest,
    leaves_only,
    read_average,
    read_gradient,
    read_histogram,
    read_votes,
)
from pine_boost.parsers.sklearn.rounding import Rounding, average_rounding, isolation_cut
from pine_boost.parsers.sklearn.trees import stack_classic
from pine_boost.parsers.thresholds import no_class_decision, read_thresholds

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
        only keeps its meaning about the threshold.
    decision : {"class", "value"}
        ``"value"`` reads a regressor without a threshold: the margin of a forest is the sum over
        its trees, and ``forest.slope`` times the margin what it predicts.

    Returns
    -------
    Model
        With ``document`` a `SklearnDocument`.

    Raises
    ------
    UnsupportedModelError
        Not one of the estimators above, multi-output, a single class, a custom ``init``.
    InvalidInputError
        Not fitted, or a threshold that does not fit the model.

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
        Another estimator, or an offset outside the range of scores.
    InvalidInputError
        Not fitted.

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
    # the same three float operations in the same order as scikit-learn: bit-equal leaves
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
