"""Write a checked document as LightGBM text v4, byte for byte as LightGBM would."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from pine_boost.model.forest import FloatArray
from pine_boost.parsers.lightgbm.document import LightgbmDocument
from pine_boost.parsers.lightgbm.tree import TreeBlock


def write_document(document: LightgbmDocument) -> bytes:
    """Return a document as LightGBM text v4, as LightGBM itself would write it."""
    blocks = [_tree_text(i, tree).encode("utf-8") for i, tree in enumerate(document.trees)]
    header = [
        "tree",
        "version=v4",
        f"num_class={document.num_class}",
        f"num_tree_per_iteration={document.num_class}",
        f"label_index={document.label_index}",
        f"max_feature_idx={len(document.feature_names) - 1}",
        *([] if document.objective is None else [f"objective={document.objective}"]),
        *(["average_output"] if document.average_output else []),
        f"feature_names={' '.join(document.feature_names)}",
    ]
    if document.monotone_constraints:
        header.append(f"monotone_constraints={_join(document.monotone_constraints)}")
    header += [
        f"feature_infos={' '.join(document.feature_infos)}",
        f"tree_sizes={_join(len(block) for block in blocks)}",
    ]
    tail = ["end of trees", "", "feature_importances:", *_importances(document), ""]
    tail += ["parameters:", *(f"[{key}: {value}]" for key, value in document.parameters), ""]
    tail += ["end of parameters", ""]
    if document.has_pandas_line:
        tail += [f"pandas_categorical:{json.dumps(document.pandas_categorical)}", ""]
    start = "\n".join(header) + "\n\n"
    return start.encode("utf-8") + b"".join(blocks) + "\n".join(tail).encode("utf-8")


def _tree_text(index: int, tree: TreeBlock) -> str:
    is_stump = tree.n_leaves == 1
    lines = [
        f"Tree={index}",
        f"num_leaves={tree.n_leaves}",
        f"num_cat={len(tree.cat_boundaries) - 1}",
        f"split_feature={_join(tree.split_feature.tolist())}",
        f"split_gain={_formatted(tree.split_gain, '%g')}",
        f"threshold={_formatted(tree.threshold, '%.17g')}",
        f"decision_type={_join(tree.decision_type.tolist())}",
        f"left_child={_join(tree.left_child.tolist())}",
        f"right_child={_join(tree.right_child.tolist())}",
        f"leaf_value={_formatted(tree.leaf_value, '%.17g')}",
        f"leaf_weight={'' if is_stump else _formatted(tree.leaf_weight, '%.17g')}",
        f"leaf_count={_join(tree.leaf_count.tolist())}",
        f"internal_value={_formatted(tree.internal_value, '%g')}",
        f"internal_weight={_formatted(tree.internal_weight, '%g')}",
        f"internal_count={_join(tree.internal_count.tolist())}",
    ]
    if len(tree.cat_boundaries) > 1:
        lines.append(f"cat_boundaries={_join(tree.cat_boundaries.tolist())}")
        lines.append(f"cat_threshold={_join(tree.cat_threshold.tolist())}")
    lines += ["is_linear=0", f"shrinkage={tree.shrinkage:g}"]
    return "\n".join(lines) + "\n\n\n"


def _join(items: Iterable[Any]) -> str:
    return " ".join(map(str, items))


def _formatted(numbers: FloatArray, form: str) -> str:
    """Format floats in printf style, separated by spaces; one format call for all is far faster than one each."""
    return " ".join([form] * len(numbers)) % tuple(numbers.tolist())


def _importances(document: LightgbmDocument) -> list[str]:
    """Return the number of splits with a gain per feature, largest first; informative, as in LightGBM."""
    count = np.zeros(len(document.feature_names), dtype=np.int64)
    for tree in document.trees:
        np.add.at(count, tree.split_feature[tree.split_gain > 0], 1)
    order = sorted(np.flatnonzero(count).tolist(), key=lambda i: -int(count[i]))
    return [f"{document.feature_names[i]}={count[i]}" for i in order]
