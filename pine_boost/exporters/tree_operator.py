"""The trees of a forest as attributes of ONNX's TreeEnsemble operator (ai.onnx.ml 5).

In comes a Forest; out go the operator's columns in double precision. It lists inner nodes and
leaves apart, and a leaf adds to one target, so vector leaves become one tree per output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.exporters.plain_splits import category_list, plain_comparisons
from pine_boost.model.forest import BoolArray, FloatArray, Forest, IntArray
from pine_boost.model.rules import Comparison, SplitKind

Tensor = Callable[[npt.NDArray[Any], str], Any]

# modes of the operator: x <= t, x < t, x in set
_LESS_EQUAL, _LESS, _MEMBER = 0, 1, 6
_NO_CATEGORY = 0.5  # in the place of an empty set: no code is a fraction


def tree_attributes(forest: Forest, codes: bool, tensor: Tensor) -> dict[str, Any]:
    """The attributes of the operator; ``tensor`` makes an ONNX tensor of an array and a name."""
    is_leaf = forest.kind == SplitKind.LEAF
    inner, leaves = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    roots = forest.tree_offset[:-1]
    # a tree of one leaf needs a split all the same: both its sides are the leaf
    alone = roots[is_leaf[roots]]
    splits = _splits(forest, inner, codes)
    true, false = (np.append(side, alone) for side in (splits["true"], splits["false"]))
    position = np.empty(forest.n_nodes, dtype=np.int64)
    position[inner], position[leaves] = np.arange(len(inner)), np.arange(len(leaves))
    root = position[roots]
    root[is_leaf[roots]] = len(inner) + np.arange(len(alone))
    n_copies, n_nodes = forest.value.shape[1], len(true)
    zeros = np.zeros(len(alone))

    def copied(column: npt.NDArray[Any], step: Any = 0) -> npt.NDArray[Any]:
        return np.concatenate([column + k * step for k in range(n_copies)])

    def positions(side: IntArray) -> list[int]:
        step = np.where(is_leaf[side], len(leaves), n_nodes)
        return list(copied(position[side], step).tolist())

    attributes = {
        "nodes_featureids": copied(np.append(forest.feature[inner], zeros)),
        "nodes_trueleafs": copied(is_leaf[true].astype(np.int64)),
        "nodes_falseleafs": copied(is_leaf[false].astype(np.int64)),
        "nodes_missing_value_tracks_true": copied(np.append(splits["default"], zeros)),
        "tree_roots": copied(root, n_nodes),
        "leaf_targetids": _targets(forest, leaves),
    }
    found: dict[str, Any] = {
        **{name: column.astype(np.int64).tolist() for name, column in attributes.items()},
        "nodes_truenodeids": positions(true),
        "nodes_falsenodeids": positions(false),
        "nodes_modes": tensor(copied(np.append(splits["mode"], zeros)).astype(np.uint8), "nodes_modes"),
        "nodes_splits": tensor(copied(np.append(splits["threshold"], zeros)), "nodes_splits"),
        "leaf_weights": tensor(forest.value[leaves].T.ravel().astype(np.float64), "leaf_weights"),
        "n_targets": forest.n_outputs,
        "aggregate_function": 1,  # the sum
        "post_transform": 0,
    }
    if len(splits["members"]):
        found["membership_values"] = tensor(copied(splits["members"]), "membership_values")
    return found


def _splits(forest: Forest, inner: IntArray, codes: bool) -> dict[str, npt.NDArray[Any]]:
    """True and false child, mode, threshold and missing side of every inner node; the sets."""
    thresholds, default_left = plain_comparisons(forest)
    true, false = forest.left[inner].copy(), forest.right[inner].copy()
    default: BoolArray = default_left[inner].copy()
    threshold: FloatArray = thresholds[inner].copy()
    is_less = forest.comparison is Comparison.FLOAT32_LESS
    mode = np.full(len(inner), _LESS if is_less else _LESS_EQUAL)
    members: list[float] = []
    for i in np.flatnonzero(forest.kind[inner] == SplitKind.CATEGORICAL):
        listed, goes_right = category_list(forest, int(inner[i]), codes)
        mode[i], threshold[i] = _MEMBER, 0.0
        members += [float(code) for code in listed] or [_NO_CATEGORY]
        members.append(np.nan)  # which ends a set
        if goes_right:  # the true side is that of the set
            true[i], false[i] = false[i], true[i]
            default[i] = not default[i]
    return {
        "true": true,
        "false": false,
        "mode": mode,
        "threshold": threshold,
        "default": default.astype(np.int64),
        "members": np.array(members, dtype=np.float64),
    }


def _targets(forest: Forest, leaves: IntArray) -> IntArray:
    n_copies = forest.value.shape[1]
    if n_copies > 1:
        return np.repeat(np.arange(n_copies), len(leaves))
    targets: IntArray = forest.tree_output[forest.node_tree[leaves]].astype(np.int64)
    return targets
