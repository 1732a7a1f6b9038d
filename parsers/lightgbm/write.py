"""Write a checked document as LightGBM text v4, byte for byte as LightGBM would."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray
from pine_boost.parsers.lightgbm.document import LightgbmDocument
from pine_boost.parsers.lightgbm.tree import CATEGORICAL_BIT, LINES, RECORD


def write_document(document: LightgbmDocument) -> bytes:
    """Return a document as LightGBM text v4, as LightGBM itself would write it."""
    blocks = [_tree_text(index, document).encode("utf-8") for index in range(document.trees.n_trees)]
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


def _tree_text(index: int, document: LightgbmDocument) -> str:
    trees = document.trees
    start, end = trees.offset[index : index + 2]
    is_leaf = trees.is_leaf[start:end]
    inner, leaves = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    number = np.empty(end - start, dtype=np.int64)
    number[inner], number[leaves] = np.arange(len(inner)), ~np.arange(len(leaves))
    record = trees.record[start:end]
    has_set = (record["decision_type"][inner] & CATEGORICAL_BIT) != 0
    words = [_bitset(trees.codes_of(start + node)) for node in inner[has_set]]
    values = {
        key: record[line.field][leaves if line.of_leaves else inner]
        for key, line in LINES.items()
        if line.field in (RECORD.names or ())
    }
    values["threshold"][has_set] = np.arange(len(words))
    for key, child in (("left_child", trees.left), ("right_child", trees.right)):
        values[key] = number[child[start + inner] - start]
    if len(inner) == 0:
        values["leaf_weight"] = np.zeros(0)
    lines = [f"Tree={index}", f"num_leaves={len(leaves)}", f"num_cat={len(words)}"]
    lines += [f"{key}={_formatted(values[key], line.form)}" for key, line in LINES.items()]
    if words:
        lines.append(f"cat_boundaries={_join(np.cumsum([0, *map(len, words)]))}")
        lines.append(f"cat_threshold={_join(np.concatenate(words))}")
    lines += ["is_linear=0", f"shrinkage={document.shrinkage[index]:g}"]
    return "\n".join(lines) + "\n\n\n"


def _bitset(codes: IntArray) -> IntArray:
    """Return the 32-bit words of a category set, as many as its largest code needs."""
    bits = np.zeros(32 * (int(codes.max(initial=0)) // 32 + 1), dtype=np.uint8)
    bits[codes] = 1
    return np.packbits(bits, bitorder="little").view("<u4").astype(np.int64)


def _join(items: Iterable[Any]) -> str:
    return " ".join(map(str, items))


def _formatted(numbers: npt.NDArray[Any], form: str) -> str:
    """Format numbers in printf style, separated by spaces; one format call for all is far faster than one each."""
    return " ".join([form] * len(numbers)) % tuple(numbers.tolist())


def _importances(document: LightgbmDocument) -> list[str]:
    """Return the number of splits with a gain per feature, largest first; informative, as in LightGBM."""
    counted = document.trees["split_feature"][~document.trees.is_leaf & (document.trees["split_gain"] > 0)]
    count = np.bincount(counted, minlength=len(document.feature_names))
    order = sorted(np.flatnonzero(count).tolist(), key=lambda i: -int(count[i]))
    return [f"{document.feature_names[i]}={count[i]}" for i in order]
