"""Check fitted scikit-learn trees and stack them into the arrays of a Forest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, MalformedModelError, UnsupportedModelError
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
