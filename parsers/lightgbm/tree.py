"""Parse and check one tree block of a LightGBM text file.

Raises wherever the native loader would crash, read past the end or silently misread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.parsers.nodes import NO_CODES, Nodes, one_tree

CATEGORICAL_BIT, DEFAULT_LEFT_BIT = 1, 2
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2
MAX_LEAVES = 131_072  # LightGBM's own upper limit of num_leaves

INTEGER = r"[-+]?[0-9]{1,18}"
# no "nan", "inf", "0x1p3" or "1_000": the native reader and float() disagree on such tokens
NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?"
_INTEGERS = re.compile(rf"(?:{INTEGER}(?: {INTEGER})*)?")
_NUMBERS = re.compile(rf"(?:{NUMBER}(?: {NUMBER})*)?")
# a split of NaN against all numbers has the threshold inf
_THRESHOLD = rf"(?:{NUMBER}|-?inf)"
_THRESHOLDS = re.compile(rf"(?:{_THRESHOLD}(?: {_THRESHOLD})*)?")

# What the text says of a node beside its children and category set; ``threshold`` is read at numeric nodes only
RECORD = np.dtype(
    [
        ("split_feature", np.int64),
        ("split_gain", np.float64),
        ("threshold", np.float64),
        ("decision_type", np.int64),
        ("value", np.float64),
        ("weight", np.float64),
        ("count", np.int64),
    ]
)


class TextLine(NamedTuple):
    """A line with numbers for the leaves or the inner nodes of a tree."""

    field: str
    of_leaves: bool
    form: str


LINES = {
    "split_feature": TextLine("split_feature", False, "%d"),
    "split_gain": TextLine("split_gain", False, "%g"),
    "threshold": TextLine("threshold", False, "%.17g"),
    "decision_type": TextLine("decision_type", False, "%d"),
    "left_child": TextLine("left_child", False, "%d"),
    "right_child": TextLine("right_child", False, "%d"),
    "leaf_value": TextLine("value", True, "%.17g"),
    "leaf_weight": TextLine("weight", True, "%.17g"),
    "leaf_count": TextLine("count", True, "%d"),
    "internal_value": TextLine("value", False, "%g"),
    "internal_weight": TextLine("weight", False, "%g"),
    "internal_count": TextLine("count", False, "%d"),
}
# LightGBM reads these without counting them, and aborts on an empty leaf_weight of more than one leaf
_MAY_BE_EMPTY = ("split_gain", "leaf_count", "internal_value", "internal_weight", "internal_count")
_LINEAR_KEYS = ("leaf_const", "num_features", "leaf_features", "leaf_coeff")


def is_categorical(trees: Nodes) -> npt.NDArray[np.bool_]:
    """Return whether each node tests a category set."""
    return np.asarray(((trees["decision_type"] & CATEGORICAL_BIT) != 0) & ~trees.is_leaf)


def read_pairs(lines: Iterable[str], where: str, bare: frozenset[str] = frozenset()) -> dict[str, str]:
    """Split ``key=value`` lines; raise on a repeated key or a line of another form."""
    pairs: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.partition("=")
        fits = bool(key) and (bool(equals) or key in bare)
        f.require(fits, f"{where} contains the line {line[:60]!r}, not key=value")
        f.require(key not in pairs, f"{where} contains the key {key!r} twice")
        pairs[key] = value
    return pairs


def read_integers(text: str, where: str) -> IntArray:
    """Read integers separated by single spaces."""
    f.require(bool(_INTEGERS.fullmatch(text)), f"{where} is {text[:60]!r}, not integers separated by spaces")
    return np.fromstring(text, dtype=np.int64, sep=" ")


def read_numbers(text: str, where: str, *, infinite: bool = False) -> FloatArray:
    """Read finite decimal numbers separated by single spaces; ``infinite`` also allows inf and -inf."""
    fits = (_THRESHOLDS if infinite else _NUMBERS).fullmatch(text)
    f.require(bool(fits), f"{where} is {text[:60]!r}, not numbers separated by spaces")
    tokens = text.split()
    numbers = np.fromiter(map(float, tokens), dtype=np.float64, count=len(tokens))
    # a finite decimal beyond the range would silently become infinite
    f.require(np.isinf(numbers).sum() == text.count("inf"), f"{where} contains a number beyond the range of float64")
    return numbers


def read_integer(pairs: dict[str, str], key: str, where: str, lowest: int, highest: int) -> int:
    """Read one required integer in a range."""
    f.require(key in pairs, f"{where} lacks the line {key}=")
    numbers = read_integers(pairs[key], f"{key} of {where}")
    fits = len(numbers) == 1 and lowest <= numbers[0] <= highest
    f.require(fits, f"{key} of {where} is {pairs[key][:60]!r}, expected one integer from {lowest} to {highest}")
    return int(numbers[0])


def read_tree(text: str, index: int, n_features: int) -> tuple[Nodes, float]:
    """Read and check the block of tree ``index``: its inner nodes, then its leaves; and its shrinkage.

    That the nodes form one tree is left to `Forest`.

    Parameters
    ----------
    text : str
        The block without its closing blank lines; its first line is ``Tree=<index>``.
    index : int
        Position of the block in the file.
    n_features : int
        Number of features of the model.

    Raises
    ------
    MalformedModelError
        Missing, repeated or unknown keys, wrong lengths, ids out of range, numbers that are not
        finite.
    UnsupportedModelError
        Linear leaves.
    """
    where = f"tree {index}"
    pairs = read_pairs(text.split("\n"), where)
    is_named = pairs.pop("Tree", None) == str(index) and text.startswith("Tree=")
    f.require(is_named, f"block {index} of the trees does not start with 'Tree={index}'")
    n_leaves = read_integer(pairs, "num_leaves", where, 1, MAX_LEAVES)
    n_categorical = read_integer(pairs, "num_cat", where, 0, n_leaves - 1)
    if pairs.pop("is_linear", "0") != "0" or any(key in pairs for key in _LINEAR_KEYS):
        raise UnsupportedModelError(
            f"{where} of the LightGBM model has linear leaves; only constant leaves are "
            "supported. Retrain with linear_tree=False."
        )
    shrinkage = read_numbers(pairs.pop("shrinkage", "1"), f"shrinkage of {where}")
    f.require(len(shrinkage) == 1, f"shrinkage of {where} has {len(shrinkage)} numbers, expected 1")
    arrays = {key: _read_array(pairs, key, n_leaves, where) for key in LINES}
    boundaries, words = _read_category_sets(pairs, n_categorical, where)
    unknown = set(pairs) - set(LINES) - {"num_leaves", "num_cat"}
    f.require(not unknown, f"{where} has the unknown key {min(unknown, default='')[:60]!r}")
    children: list[Any] = [arrays.pop(side) for side in ("left_child", "right_child")]
    record = np.zeros(2 * n_leaves - 1, dtype=RECORD)
    inner, leaves = record[: n_leaves - 1], record[n_leaves - 1 :]
    for key, array in arrays.items():
        (leaves if LINES[key].of_leaves else inner)[LINES[key].field] = array
    _check_splits(record, len(inner), n_features, n_categorical, where)
    for child in children:
        f.require(not np.any((child >= len(inner)) | (child < -n_leaves)), f"{where}: a child lies outside the tree")
    none = np.full(n_leaves, -1)
    left, right = (np.append(np.where(child >= 0, child, len(inner) + ~child), none) for child in children)
    sets: list[Any] = [NO_CODES] * len(record) if n_categorical else []
    for node in np.flatnonzero(inner["decision_type"] & CATEGORICAL_BIT) if n_categorical else ():
        position = int(inner["threshold"][node])
        own = words[boundaries[position] : boundaries[position + 1]]
        sets[node] = np.flatnonzero(np.unpackbits(own.astype("<u4").view(np.uint8), bitorder="little"))
    return one_tree(left, right, record, sets), float(shrinkage[0])


def _read_array(pairs: dict[str, str], key: str, n_leaves: int, where: str) -> IntArray | FloatArray:
    line = LINES[key]
    length = n_leaves if line.of_leaves else n_leaves - 1
    f.require(key in pairs, f"{where} lacks the line {key}=")
    array: IntArray | FloatArray
    if line.form == "%d":
        array = read_integers(pairs[key], f"{key} of {where}")
    else:
        array = read_numbers(pairs[key], f"{key} of {where}", infinite=key == "threshold")
    if len(array) == 0 and (key in _MAY_BE_EMPTY or (key == "leaf_weight" and n_leaves == 1)):
        return np.zeros(length, dtype=np.int64) if line.form == "%d" else np.zeros(length)
    found = f"{key} of {where} has {len(array)} entries, expected {length} (num_leaves={n_leaves})"
    f.require(len(array) == length, found)
    return array


def _read_category_sets(pairs: dict[str, str], n_sets: int, where: str) -> tuple[IntArray, IntArray]:
    texts = [pairs.pop(key, "") for key in ("cat_boundaries", "cat_threshold")]
    boundaries, words = (read_integers(text, f"the category sets of {where}") for text in texts)
    if n_sets == 0:
        f.require(not any(texts), f"{where} has category sets although num_cat=0")
        return np.zeros(1, dtype=np.int64), words
    cuts = len(boundaries) == n_sets + 1 and boundaries[0] == 0 and boundaries[-1] == len(words)
    fits = cuts and np.all(np.diff(boundaries) >= 1)
    f.require(bool(fits), f"cat_boundaries of {where} do not cut its {len(words)} words into {n_sets} sets")
    f.require(
        not np.any((words < 0) | (words >= 2**32)), f"cat_threshold of {where} has a word that is not 32 bits wide"
    )
    return boundaries, words


def _check_splits(record: npt.NDArray[Any], n_inner: int, n_features: int, n_sets: int, where: str) -> None:
    inner = record[:n_inner]
    feature, decision = inner["split_feature"], inner["decision_type"]
    sets = inner["threshold"][(decision & CATEGORICAL_BIT) != 0]
    faults = {
        f"split_feature names a feature outside 0..{n_features - 1}": (feature < 0) | (feature >= n_features),
        "decision_type is outside 0..11": (decision < 0) | (decision >> 2 > MISSING_NAN),
        f"a categorical split does not name one of its {n_sets} sets": (sets != np.floor(sets))
        | (sets < 0)
        | (sets >= n_sets),
        f"num_cat={n_sets}, but the splits use {len(np.unique(sets))} sets": len(np.unique(sets)) != n_sets,
        "a data count is outside the range of int32": (record["count"] < 0) | (record["count"] >= 2**31),
    }
    for fault, found in faults.items():
        f.require(not np.any(found), f"{where}: {fault}")
