"""Convert any supported model to a Treelite model that agrees with the native one.

The model is built from the exact IR, because Treelite's own importers silently lose forest weights and best_iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pine_boost.errors import UnsupportedModelError, needing
from pine_boost.exporters.plain_splits import category_list, plain_comparisons, refuse_unsayable
from pine_boost.model.exact import largest_leaf
from pine_boost.model.forest import Forest, Model
from pine_boost.model.links import Output, output_of
from pine_boost.model.rules import Comparison, SplitKind
from pine_boost.parsers import read_model

__all__ = ["to_treelite"]


def to_treelite(model: Any, *, codes: bool = False) -> Any:
    """Build a Treelite model with the margins and classes of a native model.

    The trees are those that the native ``predict`` uses (up to ``best_iteration``, with dart weights
    folded in). The intercept becomes a first tree of one leaf per output, not ``base_scores``:
    Treelite's gtil adds those last, the libraries first, and only the same order gives the same
    floats. gtil with ``pred_margin=True`` is then bit-equal to the native margin wherever
    `native_margins` is. Code compiled by tl2cgen sums in a different precision: it is exact for a
    model on a float64 grid, but only close for a float32 model.

    **Input type.** XGBoost: float32. LightGBM and HistGradientBoosting: float64, never cast to
    float32. The classic scikit-learn trees (forests, GradientBoosting, AdaBoost, single trees)
    compare ``float32(x)`` with a float64 threshold, and Treelite does not cast: feed
    ``X.astype(np.float32).astype(np.float64)``, or rows near thresholds may be misrouted.

    **Output.** Forests return the mean (probabilities); AdaBoost with several classes returns the
    sums of votes; all other classifiers return what ``predict_proba`` of the library returns (within
    the float32 softmax of Treelite), regressors and rankers what ``predict`` returns. Classes: argmax,
    or the margin against the model's own cut.

    **Categories.** A fraction is rounded down to an integer. XGBoost does the same, LightGBM reads -0.5
    as category 0, and scikit-learn treats every fraction as missing.

    Parameters
    ----------
    model : native model, path, bytes or Model
        Whatever `pine_boost.parsers.read_model` accepts, or what it returned.
    codes : bool
        The caller will feed category codes (positions in ``Forest.feature_categories``) where the
        native model takes the category values of a table. Without it such models are refused,
        except scikit-learn models whose categories are whole numbers >= 0, which Treelite takes
        as they are.

    Returns
    -------
    treelite.Model

    Raises
    ------
    UnsupportedModelError
        Zeros count as missing but go to the other side than the comparison sends them (LightGBM
        zero_as_missing), a ``missing`` value other than NaN (XGBoost), or category values that need
        ``codes=True``.
    InvalidInputError
        ``codes=True`` for a model without a table of categories.
    MissingDependencyError
        Treelite is not installed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = RandomForestClassifier(5, random_state=0).fit(*load_iris(return_X_y=True))
    >>> to_treelite(forest).num_tree
    5
    """
    model = read_model(model, decision="value")
    forest, link, float_type = model.forest, find_link(model), np.dtype(model.forest.arithmetic).name
    with needing("to_treelite needs Treelite", "treelite"):
        from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation
    refuse_unsayable(forest, codes, "Treelite")
    # its softmax has no slope, which AdaBoost's votes for several classes would need
    has_votes = output_of(forest) is Output.VOTES and forest.n_outputs > 1
    name = "identity_multiclass" if has_votes else link.name
    constants = np.flatnonzero(forest.intercept)
    is_vector = forest.value.shape[1] > 1
    task = "kMultiClf" if forest.n_outputs > 1 else "kBinaryClf"
    outputs = [*constants.tolist(), *forest.tree_output.tolist()]
    builder = ModelBuilder(
        threshold_type=float_type,
        leaf_output_type=float_type,
        metadata=Metadata(
            num_feature=forest.n_features,
            task_type=task if forest.decides else "kRegressor",
            average_tree_output=link.average,
            num_target=1,
            num_class=[forest.n_outputs],
            leaf_vector_shape=(1, forest.n_outputs if is_vector else 1),
        ),
        tree_annotation=TreeAnnotation(num_tree=len(outputs), target_id=[0] * len(outputs), class_id=outputs),
        postprocessor=PostProcessorFunc(name=name, sigmoid_alpha=link.slope),
        base_scores=[0.0] * forest.n_outputs,
    )
    for output in constants:
        builder.start_tree()
        builder.start_node(0)
        builder.leaf(float(forest.intercept[output]))
        builder.end_node()
        builder.end_tree()
    _add_trees(builder, forest, codes)
    return builder.commit()


def _add_trees(builder: Any, forest: Forest, codes: bool) -> None:
    thresholds, default_left = plain_comparisons(forest)
    operator = "<" if forest.comparison is Comparison.FLOAT32_LESS else "<="
    is_vector = forest.value.shape[1] > 1
    first = np.repeat(forest.tree_offset[:-1], np.diff(forest.tree_offset))
    # lists: numpy scalars would slow down the calls per node
    columns = zip(
        (np.arange(forest.n_nodes) - first).tolist(),
        forest.kind.tolist(),
        forest.feature.tolist(),
        thresholds.tolist(),
        default_left.tolist(),
        (forest.left - first).tolist(),
        (forest.right - first).tolist(),
        forest.value.tolist() if is_vector else forest.value[:, 0].tolist(),
        strict=True,
    )
    for node, (key, kind, feature, threshold, default, left, right, value) in enumerate(columns):
        if key == 0:
            if node:
                builder.end_tree()
            builder.start_tree()
        builder.start_node(key)
        if kind == SplitKind.LEAF:
            builder.leaf(value)
        elif kind == SplitKind.NUMERIC:
            builder.numerical_test(
                feature, threshold, default_left=default, opname=operator, left_child_key=left, right_child_key=right
            )
        else:
            members, goes_right = category_list(forest, node, codes)
            builder.categorical_test(
                feature,
                default_left=default,
                category_list=members,
                category_list_right_child=goes_right,
                left_child_key=left,
                right_child_key=right,
            )
        builder.end_node()
    builder.end_tree()


_LIBRARIES = ("xgboost", "lightgbm", "sklearn")
_POSTPROCESSORS = {
    Output.SIGMOID: "sigmoid",
    Output.SOFTMAX: "softmax",
    Output.SEPARATE: "multiclass_ova",
    Output.EXPONENTIAL: "exponential",
    Output.SOFTPLUS: "logarithm_one_plus_exp",
    Output.STEP: "hinge",
}


@dataclass(frozen=True)
class LinkFunction:
    """What is applied to the sum: a postprocessor of Treelite, and whether the sum is divided to a mean."""

    name: str
    slope: float = 1.0
    average: bool = False


def find_link(model: Model) -> LinkFunction:
    """Return the link of a model's own ``predict`` or ``predict_proba``."""
    forest, document = model.forest, model.document
    if forest.library not in _LIBRARIES:
        raise UnsupportedModelError(
            f"Models of {forest.library!r} have no Treelite or ONNX form here; accepted are {', '.join(_LIBRARIES)}."
        )
    output = output_of(forest)
    if output is Output.VOTES:
        total, others = float(largest_leaf(forest).max(axis=1).sum()), forest.n_outputs - 1
        if others == 0:
            return LinkFunction("sigmoid", slope=2 / total)
        # scikit-learn: softmax(d / (K - 1)) with d = (K v - W) / ((K - 1) W) for v votes of W
        return LinkFunction("softmax", slope=forest.n_outputs / (others**2 * total))
    name = _POSTPROCESSORS.get(output, "identity_multiclass" if forest.n_outputs > 1 else "identity")
    if output in (Output.SIGMOID, Output.SEPARATE):
        return LinkFunction(name, forest.slope)  # a mean is part of the slope
    # boosting=rf of LightGBM: predict(raw_score=True) is the sum, predict the link of the mean
    average = output is Output.MEAN or bool(getattr(document, "average_output", False))
    if "sqrt" in str(getattr(document, "objective", "")).split(" "):  # LightGBM: "regression sqrt"
        return LinkFunction("signed_square", average=average)
    return LinkFunction(name, average=average)
