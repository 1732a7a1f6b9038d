"""Which subtrees go next: those whose loss per leaf saved is least (weakest links).

In come a Shape and the weight of the rows in each of its leaves; out goes a smaller Shape with
means in place of subtrees. A tree collapsed to its root goes, its mean joins the intercept.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pine_boost.compression.shape import GONE, Ranges, Shape
from pine_boost.model.forest import FloatArray, Forest, IntArray

_LEAST_WEIGHT = 1e-3  # of a mean row: a leaf that no row reaches is cheap, not free of order


def collapse(
    forest: Forest, ranges: Ranges, shape: Shape, leaf_weight: FloatArray, n_leaves: int, whole_trees: bool
) -> Shape:
    """Collapse the weakest subtrees until at most ``n_leaves`` leaves are left.

    ``leaf_weight`` holds the weight of the rows that end in each original leaf.
    """
    begins = shape.begins
    weight = np.where(begins, leaf_weight + _LEAST_WEIGHT, leaf_weight)
    sums = _Sums(shape.value, weight, begins)
    nodes, cost = _weakest_first(ranges, sums, whole_trees)
    owner, value, intercept = shape.owner.copy(), shape.value.copy(), shape.intercept.copy()
    collapsed = np.zeros(forest.n_nodes, dtype=bool)
    surplus = shape.n_leaves - n_leaves
    for node in nodes[np.argsort(cost, kind="stable")]:
        if surplus <= 0:
            break
        first, last = ranges.first[node], ranges.last[node]
        is_root = bool(ranges.parent[node] < 0)
        saved = _count(owner[first:last]) - 1 + is_root
        # much more than is asked for would be a step of another size
        too_many = saved > 2 * surplus + 2 + is_root
        if saved < 1 or too_many or _is_below(collapsed, ranges.parent, int(node)):
            continue
        if is_root and not _may_drop(forest, owner, ranges, int(node)):
            continue
        mean = sums.mean(int(first), int(last))
        collapsed[node] = True
        if is_root:
            _add_to_intercept(forest, intercept, int(ranges.leaf_tree[first]), mean)
            owner[first:last], value[first:last] = GONE, 0.0
        else:
            owner[first:last], value[first:last] = node, mean
        surplus -= saved
    return Shape(owner, value, intercept)


class _Sums:
    """Weighted sums over the present leaves, by which any subtree's mean and variance are known."""

    def __init__(self, value: FloatArray, weight: FloatArray, begins: npt.NDArray[np.bool_]) -> None:
        self.weight = _cumulated(weight)
        self.first = _cumulated(weight[:, None] * value)
        self.second = _cumulated(weight * (value**2).sum(axis=1))
        self.count = _cumulated(begins.astype(np.int64))

    def mean(self, first: int, last: int) -> FloatArray:
        """Mean of the leaves of a range."""
        total = self.first[last] - self.first[first]
        return np.asarray(total / (self.weight[last] - self.weight[first]))


def _weakest_first(ranges: Ranges, sums: _Sums, whole_trees: bool) -> tuple[IntArray, FloatArray]:
    """Nodes that could be collapsed, and the squared error per leaf that each would cost.

    A tree of one leaf is a constant: it costs nothing and goes first.
    """
    first, last = ranges.first, ranges.last
    count = sums.count[last] - sums.count[first]
    is_root = ranges.parent < 0
    may_go = count + is_root > 1
    nodes = np.flatnonzero(may_go & is_root if whole_trees else may_go)
    first, last, count = first[nodes], last[nodes], count[nodes]
    weight = sums.weight[last] - sums.weight[first]
    mean = (sums.first[last] - sums.first[first]) / weight[:, None]
    error = sums.second[last] - sums.second[first] - weight * (mean**2).sum(axis=1)
    return nodes, np.maximum(error, 0.0) / (count - 1 + is_root[nodes])


def _cumulated(numbers: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> FloatArray:
    zero = np.zeros((1, *numbers.shape[1:]), dtype=numbers.dtype)
    return np.concatenate([zero, np.cumsum(numbers, axis=0)])


def _count(owner: IntArray) -> int:
    return 1 + int(np.count_nonzero(owner[1:] != owner[:-1])) if owner[0] != GONE else 0


def _is_below(collapsed: npt.NDArray[np.bool_], parent: IntArray, node: int) -> bool:
    while node >= 0:
        if collapsed[node]:
            return True
        node = int(parent[node])
    return False


def _may_drop(forest: Forest, owner: IntArray, ranges: Ranges, root: int) -> bool:
    """Something must stay that can carry the constant: a native intercept, or another tree."""
    if forest.free_intercept:
        return True
    others = ranges.leaf_tree != ranges.leaf_tree[ranges.first[root]]
    return bool(np.any(owner[others] != GONE))


def _add_to_intercept(forest: Forest, intercept: FloatArray, tree: int, mean: FloatArray) -> None:
    if len(mean) == forest.n_outputs:
        intercept += mean
    else:
        intercept[forest.tree_output[tree]] += mean[0]
