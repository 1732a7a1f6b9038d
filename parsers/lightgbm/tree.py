"""Parse and check one tree block of a LightGBM text file.

Raises wherever the native loader would crash, read past the end or silently misread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from pine_boost.errors import MalformedModelError, UnsupportedModelError
from pine_boost.model.forest import FloatArray, IntArray

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

# key -> (type, length: n = leaves, m = inner nodes, required); the others may be empty
_ARRAYS = {
    "split_feature": (int, "m", True),
    "split_gain": (float, "m", False),
    "threshold": (float, "m", True),
    "decision_type": (int, "m", True),
    "left_child": (int, "m", True),
    "right_child": (int, "m", True),
    "leaf_value": (float, "n", True),
    "leaf_weight": (float, "n", False),
    "leaf_count": (int, "n", False),
    "internal_value": (float, "m", False),
    "internal_weight": (float, "m", False),
    "internal_count": (int, "m", False),
}
_LINEAR_KEYS = ("leaf_const", "num_features", "leaf_features", "leaf_coeff")


@dataclass(frozen=True, eq=False)
class TreeBlock:
    """The arrays of one tree as LightGBM numbers them: node ids >= 0 inner, negative = ~leaf.

    Every array has its full length; informative arrays that the file left empty are zeros.
    ``threshold`` of a categorical node is its index into ``cat_boundaries``.
    """

    split_feature: IntArray
    split_gain: FloatArray
    threshold: FloatArray
    decision_type: IntArray
    left_child: IntArray
    right_child: IntArray
    leaf_value: FloatArray
    leaf_weight: FloatArray
    leaf_count: IntArray
    internal_value: FloatArray
    internal_weight: FloatArray
    internal_count: IntArray
    cat_boundaries: IntArray
    cat_threshold: IntArray
    shrinkage: float

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.leaf_value)

    @property
    def is_categorical(self) -> npt.NDArray[np.bool_]:
        """Whether each inner node tests a category set."""
        return (self.decision_type & CATEGORICAL_BIT).astype(bool)

    def categories_of(self, node: int) -> npt.NDArray[np.int32]:
        """Return the sorted codes in the bitset of a categorical inner node."""
        position = int(self.threshold[node])
        words = self.cat_threshold[self.cat_boundaries[position] : self.cat_boundaries[position + 1]]
        bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
        return np.flatnonzero(bits).astype(np.int32)


def read_pairs(lines: Iterable[str], where: str, bare: frozenset[str] = frozenset()) -> dict[str, str]:
    """Split ``key=value`` lines; raise on a repeated key or a line of another form."""
    pairs: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if (not equals and key not in bare) or not key:
            raise MalformedModelError(f"{where} contains the line {line[:60]!r}, not key=value.")
        if key in pairs:
            raise MalformedModelError(f"{where} contains the key {key!r} twice.")
        pairs[key] = value
    return pairs


def read_integers(text: str, where: str) -> IntArray:
    """Read integers separated by single spaces."""
    if not _INTEGERS.fullmatch(text):
        raise MalformedModelError(f"{where} is {text[:60]!r}, not integers separated by spaces.")
    return np.fromstring(text, dtype=np.int64, sep=" ")


def read_numbers(text: str, where: str, *, infinite: bool = False) -> FloatArray:
    """Read finite decimal numbers separated by single spaces; ``infinite`` also allows inf and -inf."""
    if not (_THRESHOLDS if infinite else _NUMBERS).fullmatch(text):
        raise MalformedModelError(f"{where} is {text[:60]!r}, not numbers separated by spaces.")
    tokens = text.split()
    numbers = np.fromiter(map(float, tokens), dtype=np.float64, count=len(tokens))
    # a finite decimal beyond the range would silently become infinite
    if np.isinf(numbers).sum() != text.count("inf"):
        raise MalformedModelError(f"{where} contains a number beyond the range of float64.")
    return numbers


def read_integer(pairs: dict[str, str], key: str, where: str, lowest: int, highest: int) -> int:
    """Read one required integer in a range."""
    if key not in pairs:
        raise MalformedModelError(f"{where} lacks the line {key}=.")
    numbers = read_integers(pairs[key], f"{key} of {where}")
    if len(numbers) != 1 or not lowest <= numbers[0] <= highest:
        raise MalformedModelError(
            f"{key} of {where} is {pairs[key][:60]!r}, expected one integer from {lowest} to {highest}."
        )
    return int(numbers[0])


def read_tree(text: str, index: int, n_features: int) -> TreeBlock:
    """Read and check the block of tree ``index``.

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
        Missing, repeated or unknown keys, wrong lengths, ids out of range, nodes that do not form
        one tree, numbers that are not finite.
    UnsupportedModelError
        Linear leaves.
    """
    where = f"tree {index}"
    pairs = read_pairs(text.split("\n"), where)
    if pairs.pop("Tree", None) != str(index) or not text.startswith("Tree="):
        raise MalformedModelError(f"Block {index} of the trees does not start with 'Tree={index}'.")
    n_leaves = read_integer(pairs, "num_leaves", where, 1, MAX_LEAVES)
    n_categorical = read_integer(pairs, "num_cat", where, 0, n_leaves - 1)
    if pairs.pop("is_linear", "0") != "0" or any(key in pairs for key in _LINEAR_KEYS):
        raise UnsupportedModelError(
            f"{where} of the LightGBM model has linear leaves; only constant leaves are "
            "supported. Retrain with linear_tree=False."
        )
    shrinkage = read_numbers(pairs.pop("shrinkage", "1"), f"shrinkage of {where}")
    if len(shrinkage) != 1:
        raise MalformedModelError(f"shrinkage of {where} has {len(shrinkage)} numbers, expected 1.")
    arrays = {key: _read_array(pairs, key, n_leaves, where) for key in _ARRAYS}
    boundaries, words = _read_category_sets(pairs, n_categorical, where)
    unknown = set(pairs) - set(_ARRAYS) - {"num_leaves", "num_cat"}
    if unknown:
        raise MalformedModelError(f"{where} has the unknown key {min(unknown)[:60]!r}.")
    # the table above defines the field and type of every array
    tree = TreeBlock(
        **arrays,  # type: ignore[arg-type]
        cat_boundaries=boundaries,
        cat_threshold=words,
        shrinkage=float(shrinkage[0]),
    )
    _check_splits(tree, n_features, n_categorical, where)
    _check_shape(tree, where)
    return tree


def _read_array(pairs: dict[str, str], key: str, n_leaves: int, where: str) -> IntArray | FloatArray:
    kind, size, required = _ARRAYS[key]
    length = n_leaves if size == "n" else n_leaves - 1
    if key not in pairs:
        raise MalformedModelError(f"{where} lacks the line {key}=.")
    array: IntArray | FloatArray
    if kind is int:
        array = read_integers(pairs[key], f"{key} of {where}")
    else:
        array = read_numbers(pairs[key], f"{key} of {where}", infinite=key == "threshold")
    if len(array) == 0 and not required:
        return np.zeros(length, dtype=np.int64) if kind is int else np.zeros(length)
    if len(array) != length:
        raise MalformedModelError(
            f"{key} of {where} has {len(array)} entries, expected {length} (num_leaves={n_leaves})."
        )
    return array


def _read_category_sets(pairs: dict[str, str], n_sets: int, where: str) -> tuple[IntArray, IntArray]:
    if n_sets == 0:
        for key in ("cat_boundaries", "cat_threshold"):
            if pairs.pop(key, ""):
                raise MalformedModelError(f"{where} has {key} although num_cat=0.")
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for key in ("cat_boundaries", "cat_threshold"):
        if key not in pairs:
            raise MalformedModelError(f"{where} lacks the line {key}=.")
    boundaries = read_integers(pairs.pop("cat_boundaries"), f"cat_boundaries of {where}")
    words = read_integers(pairs.pop("cat_threshold"), f"cat_threshold of {where}")
    if (
        len(boundaries) != n_sets + 1
        or boundaries[0] != 0
        or boundaries[-1] != len(words)
        or np.any(np.diff(boundaries) < 1)
    ):
        raise MalformedModelError(f"cat_boundaries of {where} do not cut its {len(words)} words into {n_sets} sets.")
    if np.any((words < 0) | (words >= 2**32)):
        raise MalformedModelError(f"cat_threshold of {where} has a word that is not 32 bits wide.")
    return boundaries, words


def _check_splits(tree: TreeBlock, n_features: int, n_categorical: int, where: str) -> None:
    def refuse(what: str) -> NoReturn:
        raise MalformedModelError(f"{where}: {what}.")

    feature, decision = tree.split_feature, tree.decision_type
    if np.any((feature < 0) | (feature >= n_features)):
        refuse(f"split_feature names a feature outside 0..{n_features - 1}")
    if np.any((decision < 0) | (decision >> 2 > MISSING_NAN)):
        refuse("decision_type is outside 0..11")
    sets = tree.threshold[tree.is_categorical]
    if np.any((sets != np.floor(sets)) | (sets < 0) | (sets >= n_categorical)):
        refuse(f"the threshold of a categorical split is not an index into its {n_categorical} sets")
    if len(np.unique(sets)) != n_categorical:
        refuse(f"num_cat={n_categorical}, but the splits use {len(np.unique(sets))} sets")
    for counts in (tree.leaf_count, tree.internal_count):
        if np.any((counts < 0) | (counts >= 2**31)):
            refuse("a data count is outside the range of int32")


def _check_shape(tree: TreeBlock, where: str) -> None:
    """Raise unless every node but the root has one parent and the root reaches all nodes."""
    n_leaves = tree.n_leaves
    n_inner = n_leaves - 1
    children = np.concatenate([tree.left_child, tree.right_child])
    if np.any((children >= n_inner) | (children < -n_leaves)):
        raise MalformedModelError(f"{where}: a child lies outside the tree.")
    if n_inner == 0:
        return
    position = np.where(children >= 0, children, n_inner + ~children)
    parents = np.bincount(position, minlength=n_inner + n_leaves)
    if parents[0] != 0 or np.any(parents[1:] != 1):
        raise MalformedModelError(f"{where}: a node has no parent or several (cycle or orphan).")
    # with one parent each, nodes that the root does not reach form a cycle
    frontier, seen = np.zeros(1, dtype=np.int64), 0
    while len(frontier):
        seen += len(frontier)
        both = np.concatenate([tree.left_child[frontier], tree.right_child[frontier]])
        frontier = both[both >= 0]
    if seen != n_inner:
        raise MalformedModelError(f"{where}: some nodes cannot be reached from the root (cycle).")
