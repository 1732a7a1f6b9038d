"""Check fitted scikit-learn trees and stack them into the arrays of a Forest."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, MalformedModelError, UnsupportedModelError
from pine_boost.model.exact import AVERAGED_BITS, UNIT_ROUNDOFF, dyadic_exponent
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.model.rules import MissingRule, SplitKind

LEAF = -1  # children_left of a leaf in tree_


def stack_classic(
    trees: Sequence[Any], values: Sequence[FloatArray], columns: Sequence[IntArray | None] | None = None
) -> dict[str, Any]:
    """Stack ``tree_`` objects; ``values[t]`` is (n_nodes, width), read at the leaves only.

    ``columns[t]``, if given, maps the tree's feature index to the user's column (IsolationForest
    with ``max_features``).
    """
    offset = _offsets([tree.node_count for tree in trees])
    left = np.concatenate([tree.children_left for tree in trees]).astype(np.int64)
    right = np.concatenate([tree.children_right for tree in trees]).astype(np.int64)
    is_leaf = left == LEAF
    if np.any(is_leaf != (right == LEAF)):
        raise MalformedModelError("A scikit-learn tree has a node with a single child.")
    base = np.repeat(offset[:-1], np.diff(offset))
    features = []
    for t, tree in enumerate(trees):
        feature = tree.feature.astype(np.int64)
        mapping = None if columns is None else columns[t]
        if mapping is not None:
            inner = tree.children_left != LEAF
            feature[inner] = np.asarray(mapping, dtype=np.int64)[feature[inner]]
        features.append(feature)
    n_nodes = int(offset[-1])
    value = np.concatenate(values).astype(np.float64)
    value[~is_leaf] = 0.0
    return {
        "tree_offset": offset,
        "feature": np.where(is_leaf, -1, np.concatenate(features)).astype(np.int32),
        "threshold": np.where(is_leaf, 0.0, np.concatenate([tree.threshold for tree in trees])),
        "left": np.where(is_leaf, -1, left + base),
        "right": np.where(is_leaf, -1, right + base),
        "default_left": np.concatenate([tree.missing_go_to_left for tree in trees]).astype(bool) & ~is_leaf,
        "kind": np.where(is_leaf, SplitKind.LEAF, SplitKind.NUMERIC).astype(np.uint8),
        "missing": np.full(n_nodes, MissingRule.DEFAULT, dtype=np.uint8),
        "set_left": np.zeros(n_nodes, dtype=bool),
        "category_offset": np.zeros(n_nodes + 1, dtype=np.int64),
        "category": np.zeros(0, dtype=np.int32),
        "value": value,
    }


def stack_histogram(predictors: Sequence[Any], columns: IntArray) -> dict[str, Any]:
    """Stack predictors of histogram boosting.

    ``columns`` maps the feature index of a node, which refers to the reordered matrix
    (categorical columns first), to the user's column.
    """
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    offset = _offsets([len(predictor.nodes) for predictor in predictors])
    base = np.repeat(offset[:-1], np.diff(offset))
    is_leaf = nodes["is_leaf"].astype(bool)
    is_category = nodes["is_categorical"].astype(bool) & ~is_leaf
    feature = np.full(len(nodes), -1, dtype=np.int32)
    split = nodes["feature_idx"][~is_leaf]
    if np.any((split < 0) | (split >= len(columns))):
        raise MalformedModelError(
            f"A split of the model names a feature outside 0..{len(columns) - 1}"
            "; the model was damaged after fit. Fit it again."
        )
    feature[~is_leaf] = columns[split]
    sets = _category_sets(predictors, is_category)
    kind = np.where(is_category, SplitKind.CATEGORICAL, SplitKind.NUMERIC)
    return {
        "tree_offset": offset,
        "feature": feature,
        "threshold": np.where(is_leaf | is_category, 0.0, nodes["num_threshold"]),
        "left": np.where(is_leaf, -1, nodes["left"].astype(np.int64) + base),
        "right": np.where(is_leaf, -1, nodes["right"].astype(np.int64) + base),
        "default_left": nodes["missing_go_to_left"].astype(bool) & ~is_leaf,
        "kind": np.where(is_leaf, SplitKind.LEAF, kind).astype(np.uint8),
        "missing": np.full(len(nodes), MissingRule.DEFAULT, dtype=np.uint8),
        "set_left": is_category,
        "category_offset": np.concatenate([[0], np.cumsum([len(codes) for codes in sets])]),
        "category": np.concatenate([*sets, np.zeros(0, dtype=np.int32)]).astype(np.int32),
        "value": np.where(is_leaf, nodes["value"], 0.0).astype(np.float64)[:, None],
    }


def _category_sets(predictors: Sequence[Any], is_category: npt.NDArray[np.bool_]) -> list[npt.NDArray[np.int32]]:
    """Return the category codes that go left, per node; empty if the split is numeric."""
    sets = [np.zeros(0, dtype=np.int32)] * len(is_category)
    start = 0
    for predictor in predictors:
        stop = start + len(predictor.nodes)
        # eight 32-bit words per split, bit c of the little-endian row = category code c
        words = np.ascontiguousarray(predictor.raw_left_cat_bitsets, dtype="<u4")
        for node in np.flatnonzero(is_category[start:stop]):
            index = int(predictor.nodes["bitset_idx"][node])
            if not index < len(words):
                raise MalformedModelError(
                    "A categorical split of the HistGradientBoosting model has no category set; "
                    "the model was damaged after fit. Fit it again."
                )
            row = words[index].view(np.uint8)
            codes = np.flatnonzero(np.unpackbits(row, bitorder="little"))
            sets[start + node] = codes.astype(np.int32)
        start = stop
    return sets


def _offsets(counts: Sequence[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))])


OLDEST = (1, 6)


def supported_name(model: Any, accepted: Collection[str]) -> str:
    """Return the scikit-learn class of a fitted estimator, also for a user's subclass."""
    _refuse_old_version()
    bases = _sklearn_bases(model)
    if "Pipeline" in bases and getattr(model, "steps", None):
        step = model.steps[-1][0]
        raise UnsupportedModelError(
            f"A Pipeline was given; pass its last step, pipeline.named_steps[{step!r}], and data "
            "transformed by the steps before it, pipeline[:-1].transform(X)."
        )
    for name in bases:
        if name in accepted:
            require_fitted(model, _fitted_attribute(name))
            return name
    hint = ""
    if hasattr(model, "best_estimator_"):
        hint = " This search holds the model in best_estimator_: pass that."
    if "IsolationForest" in bases:
        hint = " An IsolationForest is a plausibility score, read by read_isolation_forest."
    raise UnsupportedModelError(
        f"{type(model).__name__} is not supported; accepted from scikit-learn: {', '.join(sorted(accepted))}.{hint}"
    )


def refuse_other_than(model: Any, name: str, inside: str | None = None) -> None:
    """Raise unless the estimator is of one scikit-learn class or a subclass."""
    if name not in _sklearn_bases(model):
        where = f" inside {inside}" if inside else ""
        raise UnsupportedModelError(f"{type(model).__name__} was found{where}; only {name} is accepted here.")


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


def class_labels(model: Any, thresholds: tuple[float, ...] = ()) -> tuple[Any, ...]:
    """Return labels in class order; with several thresholds, the numbers of the score bands.

    Empty for a regressor without thresholds, which does not decide a class.
    """
    if len(thresholds) > 1 or (thresholds and not hasattr(model, "classes_")):
        return tuple(range(len(thresholds) + 1))
    if not hasattr(model, "classes_"):
        return ()
    if int(getattr(model, "n_outputs_", 1)) > 1:
        refuse_multi_output(model, type(model).__name__)
    labels = tuple(np.asarray(model.classes_).tolist())
    if len(labels) < 2:
        raise UnsupportedModelError(
            f"{type(model).__name__} was fitted on the single class {labels[0]!r}; it always "
            "predicts that, there is nothing to prune."
        )
    return labels


def feature_names(model: Any) -> tuple[str, ...] | None:
    """Return the column names seen in ``fit``, if any."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


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


def _sklearn_bases(model: Any) -> list[str]:
    return [base.__name__ for base in type(model).__mro__ if base.__module__.startswith("sklearn.")]


def _fitted_attribute(name: str) -> str:
    if name.startswith("Hist"):
        return "_predictors"
    single = name.startswith(("DecisionTree", "ExtraTreeC", "ExtraTreeR"))
    return "tree_" if single else "estimators_"


# Bounds on the effect of rounding on a scikit-learn decision, each with its inequality (u = 2**-53). They hold for any
# order of summation.
UNIT = UNIT_ROUNDOFF[np.float64]
_LARGEST_SUM = 1e280  # far from overflow in every bound below


@dataclass(frozen=True)
class Rounding:
    """``slack`` of the Forest and ``guard`` of its Decision."""

    slack: float
    guard: float


def largest_leaves(values: Sequence[FloatArray]) -> FloatArray:
    """Return max |leaf| of each tree and output, (n_trees, n_outputs); ``values`` hold leaves only."""
    return np.array([np.abs(value).max(axis=0) for value in values])


def average_rounding(values: Sequence[FloatArray], native: Sequence[FloatArray], threshold: float | None) -> Rounding:
    """Bound the rounding of ``mean over trees`` against the sum of ``values``.

    ``native`` are the leaves that scikit-learn adds; ``values`` are those of the Forest, the same
    ones or ``fl(native - threshold)``. With ``n_jobs > 1`` the trees are added in any order.
    `exact.summation_band` assumes file order and so is not enough: the partial sums are
    largest when the largest trees come first, hence the sorted sum here. If every sum is exact,
    no order matters and the slack is 0, so ties stay ties (pure leaves vote 0 or 1).
    """
    if len(values) == 1:
        # one tree: nothing is added, and fl(p - t) has the sign of p - t
        return Rounding(0.0, 0.0)
    numbers = np.concatenate([leaves.ravel() for leaves in native])
    if threshold is not None:
        numbers = np.append(numbers, threshold)
    offset = abs(threshold or 0.0)
    with np.errstate(over="ignore"):
        total = float((largest_leaves(native) + offset).sum(axis=0).max())
    if not total < _LARGEST_SUM:
        raise MalformedModelError(
            f"The leaves of the model add up to {total:g}; sums beyond {_LARGEST_SUM:g} are no "
            "probabilities or predictions. Fit it again."
        )
    grid = dyadic_exponent(numbers)
    if grid is not None and math.ldexp(total, grid) < 2.0**AVERAGED_BITS:
        return Rounding(0.0, 0.0)
    # |native sum in any order - float sum of `values` in file order| <= the error of the first
    # + the error of the second + u * total for forming fl(native - threshold)
    slack = _worst_order(native) + _worst_order(values) + 2 * UNIT * total
    # fl(S / n) is within u * |S| / n of S / n: in units of S that is u * total, for each of two
    # classes (or for the one compared with fl(n * t) / n); doubled for the bound's own rounding
    return Rounding(slack, 4 * UNIT * total)


def vote_rounding(weights: FloatArray, n_classes: int) -> Rounding:
    """Bound the rounding of AdaBoost's multiclass decision against the plain sum of the votes.

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
        return Rounding(0.0, 0.0)
    count = len(weights)
    # + the error of the Forest's own float sum, n * u * W, because slack is measured against it
    return Rounding((2 * count + 4) * UNIT * total, 4 * UNIT * total)


def isolation_cut(offset: float, denominator: float) -> tuple[float, float]:
    """Return the summed path length at which ``2 ** (-depth / denominator)`` is ``-offset``, and its guard.

    Inlier iff fl(2**-fl(d / D)) <= -offset. A relative error of 4u in the power moves d / D by
    4u / ln 2, the quotient errs by u * d / D, the cut itself by a few u: 16u (D + |cut|) covers it.
    """
    cut = -denominator * math.log2(-offset)
    return cut, 16 * UNIT * (denominator + abs(cut))


def _worst_order(values: Sequence[FloatArray]) -> float:
    """Bound |float sum - exact sum| over every order of the trees.

    A sequential sum errs by at most u * sum_k |partial_k|, and |partial_k| is at most the sum of
    the k largest trees; 1 + 2**-10 covers the rounding inside the partial sums (n < 2**14).
    """
    descending = -np.sort(-largest_leaves(values), axis=0)
    partials = np.cumsum(descending, axis=0).sum(axis=0)
    return UNIT * float(partials.max()) * (1 + 2.0**-10)
