"""Parse, check and stack the trees of an XGBoost file, without the nodes that pruning deleted."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost.errors import MalformedModelError, UnsupportedModelError
from pine_boost.model.exact import XGBOOST_MAX_CATEGORY
from pine_boost.model.forest import BoolArray, FloatArray, IntArray
from pine_boost.model.trimming import node_levels
from pine_boost.parsers.nodes import Nodes, constant_trees

Float32Array = npt.NDArray[np.float32]

MAX_INTEGER = 2**31 - 1
REMEDY = "Save the model again with XGBoost (1.7 to 3.x)"
ROOT_PARENT = 2147483647
DELETED = 2147483647  # split index of a node that the pruning updater removed
# Fields with one entry per node, and those of the category sets, with their element types in UBJSON.
# ``split_conditions`` are thresholds or the values of leaves, unused at categorical nodes, whose categories go right.
RECORD = np.dtype(
    [
        ("split_indices", np.int32),
        ("default_left", np.uint8),
        ("split_type", np.uint8),
        ("split_conditions", np.float32),
        ("base_weights", np.float32),
        ("loss_changes", np.float32),
        ("sum_hessian", np.float32),
    ]
)
_NODE_FIELDS = {
    **dict.fromkeys(("left_children", "right_children", "parents"), np.int32),
    **{name: RECORD[name] for name in RECORD.names or ()},
}
_CATEGORY_FIELDS = {
    "categories": np.int32,
    "categories_nodes": np.int32,
    "categories_segments": np.int64,
    "categories_sizes": np.int64,
}


def fault(where: str, found: str) -> MalformedModelError:
    """Return the error for a field whose value does not fit the others."""
    return MalformedModelError(f"Invalid XGBoost file: {where} {found}. {REMEDY}.")


def read_trees(items: list[Any], n_features: int, *, typed: bool) -> Nodes:
    """Check every tree of the file and stack them; ``typed`` arrays are those of UBJSON."""
    tables = [_read_tree(item, i, n_features, typed) for i, item in enumerate(items)]
    sizes = np.array([len(table["left_children"]) for table in tables])
    offset = np.concatenate([[0], np.cumsum(sizes)])
    node = {name: np.concatenate([table[name] for table in tables]) for name in _NODE_FIELDS}
    deleted = np.array([table["num_deleted"] for table in tables])
    start = np.repeat(offset[:-1], sizes)
    _check_children(node, start, np.repeat(sizes, sizes), offset)
    left = np.where(node["left_children"] < 0, -1, node["left_children"] + start)
    # every child has one parent (checked), and roots have none: no node is met twice
    reached = np.zeros(len(left), dtype=bool)
    reached[np.concatenate(node_levels(offset[:-1], left < 0, left, left + 1))] = True
    _check_deleted(node, reached, deleted, offset)
    category_offset, category = _stack_categories(tables, node["split_type"], offset)
    _check_numbers(node, reached, left < 0, n_features, offset)
    record = np.empty(len(left), dtype=RECORD)
    for name in RECORD.names or ():
        record[name] = node[name]
    trees = Nodes(offset, left, np.where(left < 0, -1, left + 1), record, category_offset, category)
    return trees if np.all(reached) else trees.reached(reached)


def constants(values: npt.ArrayLike) -> Nodes:
    """Return trees of one leaf each, with these float32 values."""
    record = np.zeros(len(np.atleast_1d(values)), dtype=RECORD)
    record["split_conditions"] = record["base_weights"] = values
    return constant_trees(record)


def _read_tree(item: Any, index: int, n_features: int, typed: bool) -> dict[str, Any]:
    where = f"tree {index}"
    # trees with vector leaves lack some fields in 3.0; they were rejected by name before
    param = item.get("tree_param") if isinstance(item, dict) else None
    size = param.get("size_leaf_vector") if isinstance(param, dict) else None
    if isinstance(size, str) and size.isdecimal() and int(size[:20]) > 1:
        raise UnsupportedModelError(
            "Trees with vector leaves are not supported; retrain with multi_strategy='one_output_per_tree'."
        )
    largest = f.integer(0, MAX_INTEGER, as_text=True)
    parameters = {"num_nodes": f.integer(1, MAX_INTEGER, as_text=True), "size_leaf_vector": largest}
    parameters["num_feature"] = f.integer(n_features, n_features, as_text=True)
    arrays = {name: f.array(dtype, typed=typed) for name, dtype in (_NODE_FIELDS | _CATEGORY_FIELDS).items()}
    table = f.read(item, {**arrays, "id": f.integer(index, index), "tree_param": f.anything}, where)
    param = f.read(table.pop("tree_param"), parameters, f"{where}.tree_param", optional={"num_deleted": largest})
    for name in _NODE_FIELDS:
        found, expected = len(table[name]), param["num_nodes"]
        f.require(found == expected, f"'{where}.{name}' has {found} entries, expected {expected} (num_nodes)")
        if table[name].dtype.kind == "f" and not typed:
            _refuse_midpoints(item[name], table[name], f"{where}.{name}")
    table["num_deleted"] = param.get("num_deleted", 0)
    return table


def _refuse_midpoints(given: list[float], narrow: Float32Array, where: str) -> None:
    is_number = np.isfinite(narrow)
    wide = np.array(given, dtype=np.float64)[is_number]
    unclear = wide[~rounds_clearly(wide, narrow[is_number])]
    # XGBoost writes at most 9 digits. Above 2^24 the shortest decimal of a float32 may lie exactly between two, such as
    # 56596350. With so few digits its parser rounds to even (measured on 160 000 numbers), with 12 and more not always.
    is_short = np.array([float(f"{number:.8e}") == number for number in unclear], dtype=bool)
    f.require(bool(np.all(is_short)), f"{where!r} holds a number exactly between two float32 numbers")


def rounds_clearly(wide: FloatArray, narrow: Float32Array) -> BoolArray:
    """Return which numbers are nearer to their float32 than to any other, not exactly between two.

    XGBoost's own parser rounds midpoints of many digits up or down, not always to even.
    """
    with np.errstate(over="ignore"):
        beyond = np.nextafter(narrow, np.where(wide > narrow, np.inf, -np.inf).astype(np.float32))
    return np.abs(wide - narrow) < np.abs(beyond.astype(np.float64) - wide)


def _check_children(node: dict[str, Any], start: IntArray, size: IntArray, offset: IntArray) -> None:
    left, right, parents = node["left_children"], node["right_children"], node["parents"]
    is_leaf, own = left == -1, np.arange(len(left)) - start
    _refuse((right == -1) != is_leaf, offset, "has a node with one child")
    bad = ~is_leaf & ((left < 1) | (right < 1) | (left >= size) | (right >= size))
    _refuse(bad, offset, "has a child outside the tree")
    # with any other numbering, 3.2 predicts single rows wrongly, and older versions all rows
    _refuse(~is_leaf & (right != left + 1), offset, "has siblings that are not adjacent")
    for child in (left, right):
        bad = ~is_leaf & (parents[np.where(is_leaf, 0, child) + start] != own)
        _refuse(bad, offset, "has a child whose parent is another node")
    _refuse((own == 0) & (parents != ROOT_PARENT), offset, "has a root with a parent")


def _check_deleted(node: dict[str, Any], reached: BoolArray, deleted: IntArray, offset: IntArray) -> None:
    cut = ~reached
    found = np.add.reduceat(cut.astype(np.int64), offset[:-1])
    for tree, (count, stated) in enumerate(zip(found, deleted, strict=True)):
        f.require(count == stated, f"tree {tree} has {count} nodes that its root does not reach, num_deleted {stated}")
    marked = (node["split_indices"] == DELETED) & (node["left_children"] == -1)
    _refuse(cut & ~marked, offset, "has an unreachable node that is not marked as deleted")


def _check_numbers(
    node: dict[str, Any], reached: BoolArray, is_leaf: BoolArray, n_features: int, offset: IntArray
) -> None:
    split = node["split_indices"]
    bad = reached & ~is_leaf & ((split < 0) | (split >= n_features))
    _refuse(bad, offset, f"splits on a feature outside 0..{n_features - 1}")
    # XGBoost keeps 31 bits; all bits set marks a deleted node
    bad = reached & is_leaf & ((split < 0) | (split == DELETED))
    _refuse(bad, offset, "is a leaf whose split_indices entry marks a deleted node")
    for name in ("default_left", "split_type"):
        _refuse((node[name] != 0) & (node[name] != 1), offset, f"has {name} other than 0 or 1")
    # at categorical nodes the condition is meaningless: 1e-45 in 3.x, NaN in 1.7 and 2.x
    read = reached & (node["split_type"] == 0)
    _refuse(read & ~np.isfinite(node["split_conditions"]), offset, "has a number that is not finite")
    for name in ("base_weights", "loss_changes", "sum_hessian"):
        _refuse(reached & ~np.isfinite(node[name]), offset, f"has {name} that are not finite")
    _refuse(is_leaf & (node["split_type"] == 1), offset, "has a leaf with categories")


def _stack_categories(
    tables: list[dict[str, Any]], split_type: IntArray, offset: IntArray
) -> tuple[IntArray, IntArray]:
    count = np.zeros(len(split_type), dtype=np.int64)
    pieces = [np.zeros(0, dtype=np.int64)]
    for index, table in enumerate(tables):
        nodes, sizes = table["categories_nodes"], table["categories_sizes"]
        codes, segments = table["categories"], table["categories_segments"]
        where = f"tree {index}, categories"
        expected = np.flatnonzero(split_type[offset[index] : offset[index + 1]] == 1)
        f.require(np.array_equal(nodes, expected), f"{where} are not given for exactly the categorical nodes")
        if len(nodes) == 0 and len(codes) == len(sizes) == len(segments) == 0:
            continue
        fits = len(nodes) == len(sizes) == len(segments) and not np.any(sizes < 1)
        f.require(fits, f"{where} have node, segment and size arrays that do not match")
        fits = not np.any(sizes > len(codes)) and np.array_equal(
            np.append(segments, len(codes)), np.concatenate([[0], np.cumsum(sizes)])
        )
        f.require(fits, f"{where} have segments that do not partition the codes")
        fits = not np.any((codes < 0) | (codes >= XGBOOST_MAX_CATEGORY))
        f.require(fits, f"{where} hold a code outside 0..{XGBOOST_MAX_CATEGORY - 1}")
        owner = np.repeat(np.arange(len(nodes)), sizes)
        order = np.lexsort((codes, owner))
        codes = codes[order]
        f.require(not np.any((np.diff(codes) == 0) & (np.diff(owner) == 0)), f"{where} hold a code twice")
        count[offset[index] + nodes] = sizes
        pieces.append(codes)
    return np.concatenate([[0], np.cumsum(count)]), np.concatenate(pieces)


def _refuse(bad: BoolArray, offset: IntArray, found: str) -> None:
    if np.any(bad):
        node = int(np.argmax(bad))
        tree = int(np.searchsorted(offset, node, side="right")) - 1
        raise fault(f"tree {tree}, node {node - offset[tree]}", found)
