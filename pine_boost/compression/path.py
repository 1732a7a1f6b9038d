"""The path: ever smaller shapes of the original, each fitted to keep what must not change.

Collapse the subtrees whose loss per cost saved is least, refit all leaf values, shift the intercepts, repeat. Slices of
the original are candidates too. All of it happens before X_val is seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pine_boost.budget import Budget, Outcome, OutOfTime, Step, StopReason
from pine_boost.compression.fit import Equations, Intervals, build_equations, fit_shape, shift_intercepts
from pine_boost.compression.goal import Goal
from pine_boost.compression.path_rows import Sample, draw_rows
from pine_boost.compression.record import LEAVES, TREES, WORK
from pine_boost.model.forest import FloatArray, Forest, Int32Array, IntArray, Model
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.shape import GONE, Shape, margins, original_shape, slice_shape
from pine_boost.model.states import build_space
from pine_boost.model.synthetic_rows import TREE_WORK
from pine_boost.model.trimming import Subtrees, Trimming, forest_subtrees, trimmed_forest
from pine_boost.tables.rows import AnyRows

_N_SLICES = 40
_HOPELESS = 3.0  # times the share that may change: smaller shapes will not be tested
# Sizes as shares of the original's cost: first small equal steps, as noisy models stop early, then a constant factor.
# With half as many steps less goes, and draws of X_val differ more in what goes, see `_REACH`.
_SHARES = np.concatenate([np.arange(0.985, 0.5, -0.015), np.geomspace(0.49, 0.01, 60)])
# Rows pull until they are so many typical errors from the decision. Seed 0 of PoL, ELEC2, Spambase, JM1 and FICO, X_val
# drawn repeatedly from fresh rows: 46.5 % of the leaves gone at 3 and a ridge of 30 (48.0 with two further fits of each
# size, in twice the time), 49.9 here, 51.0 with half as many points, 51.9 with twice as many sizes in addition.
_REACH = 1.5
_SLACK = 4.0  # reaches: in a refit no sum moves that far
_LEAST_REACH = 0.06  # of the median distance, before there are errors
_LEAST_WEIGHT = 1e-3  # of a mean row, so that leaves that no row reaches are ordered by their values too


@dataclass(frozen=True, eq=False)
class Cost:
    """What a smaller model is meant to save: the cost of a shape, leaf by leaf.

    The order of collapsing, the sizes of the path, the choice of candidates and the test's "smallest" all use it.

    ``"leaves"`` counts the leaves. ``"work"`` is the sum over the trees of 2 plus the mean number of splits that a row
    passes. ``"trees"`` counts the trees, which are then dropped as a whole.

    Attributes
    ----------
    minimize : str
    subtrees : Subtrees
    reach : float64 (n_leaves,)
        Share of the rows that end in each original leaf.
    depth : int64 (n_nodes,)
        Splits above each node.
    """

    minimize: str
    subtrees: Subtrees
    reach: FloatArray
    depth: IntArray

    @property
    def per_tree(self) -> float:
        """What a tree costs beside its leaves."""
        return {WORK: TREE_WORK, LEAVES: 0.0, TREES: 1.0}[self.minimize]

    def of_leaves(self, shape: Shape) -> FloatArray:
        """What each original leaf adds to the cost of a shape, (n_leaves,)."""
        if self.minimize == LEAVES:
            return shape.begins.astype(np.float64)
        if self.minimize == TREES:
            return np.zeros(len(shape.owner))
        return np.where(shape.owner == GONE, 0.0, self.reach * self.depth[shape.owner])

    def of_nodes(self) -> FloatArray:
        """What each node costs once it is a leaf; a root is dropped with its tree, so that it saves more than all."""
        if self.minimize == WORK:
            below = np.concatenate([[0.0], np.cumsum(self.reach)])
            as_leaf = (below[self.subtrees.last] - below[self.subtrees.first]) * self.depth
        else:
            as_leaf = np.full(len(self.depth), 1.0 if self.minimize == LEAVES else 0.0)
        return np.where(self.subtrees.parent < 0, -self.per_tree, as_leaf)

    def of(self, shape: Shape) -> float:
        """The cost of a shape."""
        n_trees = len(np.unique(self.subtrees.leaf_tree[shape.owner != GONE]))
        return float(self.of_leaves(shape).sum()) + self.per_tree * n_trees


def build_cost(minimize: str, subtrees: Subtrees, leaves: Int32Array) -> Cost:
    """The cost as rows meet it; ``leaves`` holds the leaf of each row in each tree."""
    reach = np.bincount(leaves.ravel(), minlength=len(subtrees.leaf_node)) / max(1, len(leaves))
    return Cost(minimize, subtrees, reach, subtrees.depth)


@dataclass(frozen=True, eq=False)
class Task:
    """What is compressed: the model, its forest over states, what must be kept and saved, and rows to fit to.

    The goal's forest is that of ``parsed``, or only ``lossless``: the part of it that inputs can tell apart.
    """

    parsed: Model
    lossless: Trimming | None
    goal: Goal
    trees: StateTrees
    subtrees: Subtrees
    original: Shape
    sample: Sample
    cost: Cost


@dataclass(frozen=True, eq=False)
class Candidate:
    """A shape, its cost, and the share of rows on which it is expected to differ."""

    shape: Shape
    cost: float
    estimate: float


def set_up(
    parsed: Model,
    minimize: str,
    fit: AnyRows,
    seed: int,
    budget: Budget,
    *,
    tolerance: float | None = None,
    lossless: Trimming | None = None,
) -> Task:
    """Draw the rows; X_fit may be larger than memory, only a sample of it is used."""
    goal = Goal(parsed.forest if lossless is None else trimmed_forest(parsed.forest, lossless), tolerance)
    space = build_space(goal.forest)
    trees = route(goal.forest, space)
    subtrees = forest_subtrees(goal.forest)
    original = original_shape(goal.forest, subtrees)
    sample = draw_rows(goal, space, trees, original, fit, seed, budget)
    cost = build_cost(minimize, subtrees, sample.fit_leaves)
    return Task(parsed, lossless, goal, trees, subtrees, original, sample, cost)


def find_path(task: Task, allowed_share: float, budget: Budget) -> Outcome[list[Candidate]]:
    """Slices and the path with their estimates, as far as time and ``allowed_share`` go.

    Nothing here depends on X_val but its size.
    """
    found: list[Candidate] = []
    why = StopReason.EFFORT
    goal, points, original = task.goal, task.sample.holdout_points, task.parsed.forest
    before = goal.answers(points.margins)

    def add(shape: Shape, phase: str) -> float:
        """Estimate the share of rows that change, on synthetic rows that the path was not fitted to."""
        n_leaves = shape.n_leaves
        if n_leaves >= task.original.n_leaves:
            return 0.0
        changed = goal.differ(before, goal.answers(margins(shape, goal.forest, points.leaves)))
        found.append(Candidate(shape, task.cost.of(shape), float(np.average(changed, weights=points.weight))))
        step = Step(
            step=len(found),
            phase=phase,
            trees=original.n_trees,
            rows=len(task.sample.fitted.weight),
            seconds=budget.elapsed,
            unit="leaf",
            units=original.n_leaves,
            tried=n_leaves,
        )
        budget.report_progress(step)
        return found[-1].estimate

    try:
        for shape in slices(goal.forest, task.subtrees, _N_SLICES):
            add(shape, "slices")
            budget.check()
        equations = build_equations(goal, task.sample.fitted)
        for shape in walk(task, equations, Pace(budget)):
            if add(shape, "path") > _HOPELESS * max(allowed_share, 1e-3):
                break
            budget.check()
    except OutOfTime:
        why = StopReason.TIME
    except KeyboardInterrupt:
        budget.interrupt()
        why = StopReason.INTERRUPTED
    return Outcome(found, why)


def step_sizes(cost: float) -> list[int]:
    """Costs to stop at, largest first."""
    sizes = np.unique(np.maximum(np.rint(_SHARES * cost), 2).astype(int))[::-1]
    return [int(size) for size in sizes if size < cost]


class Pace:
    """How many sizes are skipped, so that the path gets far although time is short."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._last = time.monotonic()

    def sizes_on(self, n_left: int) -> int:
        """Sizes to advance by, 1 where there is time for all that are left; called once a step.

        Steps become shorter as shapes become smaller, so that the last one counts half.
        """
        now = time.monotonic()
        seconds, self._last = max(now - self._last, 1e-6), now
        if not self._budget.is_limited:
            return 1
        possible = max(1.0, self._budget.remaining / seconds * 2)
        return int(max(1, min(np.ceil(n_left / possible), n_left // 2)))


def walk(task: Task, equations: Equations, pace: Pace, sizes: Sequence[int] | None = None) -> Iterator[Shape]:
    """Yield smaller and smaller shapes, each collapsed from the last and refitted.

    ``sizes`` are the costs to stop at, by default those of `step_sizes`.
    """
    goal, cost, shape, sums = task.goal, task.cost, task.original, equations.distance
    scale = max(float(np.quantile(np.abs(sums), 0.2)), 1e-300)
    near = equations.weight / (1.0 + (sums / scale) ** 2)  # before errors are known
    sizes, position = step_sizes(cost.of(shape)) if sizes is None else sizes, 0
    while position < len(sizes):
        size = sizes[position]
        position += pace.sizes_on(len(sizes) - position)
        intervals = _intervals(goal, equations, sums, near)
        leaf_weight = equations.leaf_weight(intervals.weight, len(shape.owner))
        smaller = collapse(goal.forest, cost, shape, leaf_weight, size)
        if smaller.n_leaves == shape.n_leaves:
            continue
        if smaller.n_leaves == 0:
            return
        shape, sums = fit_shape(equations, smaller, intervals)
        if goal.keeps_class and goal.tolerance is None:
            intercept, sums = shift_intercepts(equations, shape.intercept, sums)
            shape = replace(shape, intercept=intercept)
        yield shape


def slices(forest: Forest, subtrees: Subtrees, n_slices: int) -> Iterator[Shape]:
    """The first rounds of the original, largest first."""
    n_rounds = int(forest.tree_round.max()) + 1
    counts = np.unique(np.rint(np.linspace(1, n_rounds - 1, n_slices)).astype(int))
    for count in counts[::-1] if n_rounds > 1 else ():
        yield slice_shape(forest, subtrees, int(count))


def _intervals(goal: Goal, equations: Equations, sums: FloatArray, near: FloatArray) -> Intervals:
    """Where every sum should be, given the typical error so far."""
    low, high = goal.interval(equations.distance)
    if not goal.keeps_class:
        return Intervals(low, high, equations.weight)
    error = float(np.sqrt(np.average((sums - equations.distance) ** 2, weights=near)))
    reach = max(_REACH * error, _LEAST_REACH * float(np.median(equations.distance)), 1e-300)
    low = np.maximum(low, np.minimum(equations.distance, reach))
    if goal.tolerance is not None:
        return Intervals(low, high, equations.weight)
    return Intervals(low, high, equations.weight / (1.0 + (equations.distance / reach) ** 2), _SLACK * reach)


def collapse(forest: Forest, cost: Cost, shape: Shape, leaf_weight: FloatArray, size: float) -> Shape:
    """Collapse the weakest subtrees until the cost is at most ``size``.

    A subtree becomes the mean of its leaves; a tree that is collapsed to its root goes, and its mean joins the
    intercept. ``leaf_weight`` holds the weight of the rows that end in each original leaf.
    """
    subtrees, begins = cost.subtrees, shape.begins
    weight = np.where(begins, leaf_weight + _LEAST_WEIGHT, leaf_weight)
    total, first_moment = _cumulated(weight), _cumulated(weight[:, None] * shape.value)
    second_moment = _cumulated(weight * (shape.value**2).sum(axis=1))
    leaf_cost, node_cost = cost.of_leaves(shape), cost.of_nodes()
    cumulated_cost = _cumulated(leaf_cost)
    is_root, leaf_tree = subtrees.parent < 0, subtrees.leaf_tree

    # candidates and their squared error per cost saved; a tree of one leaf is a constant: it goes first
    saved_alone = cumulated_cost[subtrees.last] - cumulated_cost[subtrees.first] - node_cost
    count = np.concatenate([[0], np.cumsum(begins)])
    may_go = count[subtrees.last] - count[subtrees.first] + is_root > 1
    nodes = np.flatnonzero(may_go & (saved_alone > 0) & (is_root if cost.minimize == TREES else True))
    first, last = subtrees.first[nodes], subtrees.last[nodes]
    weights = total[last] - total[first]
    mean = (first_moment[last] - first_moment[first]) / weights[:, None]
    error = second_moment[last] - second_moment[first] - weights * (mean**2).sum(axis=1)
    order = np.argsort(np.maximum(error, 0.0) / saved_alone[nodes], kind="stable")

    owner, value, intercept = shape.owner.copy(), shape.value.copy(), shape.intercept.copy()
    surplus = cost.of(shape) - size
    for index in order:
        if surplus <= 0:
            break
        node, below = int(nodes[index]), slice(first[index], last[index])
        above = owner[below.start]
        if above != node and (above == GONE or subtrees.last[above] >= below.stop):
            continue  # it has been collapsed already
        saved = float(leaf_cost[below].sum()) - node_cost[node]
        if saved <= 0 or saved > 2 * surplus + 2 + is_root[node]:
            continue  # much more than is needed would be a step of another size
        tree = leaf_tree[below.start]
        if is_root[node] and not forest.free_intercept and np.all(owner[leaf_tree != tree] == GONE):
            continue  # nothing would carry the constant: neither a native intercept nor another tree
        leaf_cost[below] = 0.0
        if is_root[node]:
            output = forest.tree_output[tree] if len(intercept) != mean.shape[1] else 0
            intercept[output : output + mean.shape[1]] += mean[index]
            owner[below], value[below] = GONE, 0.0
        else:
            owner[below], value[below] = node, mean[index]
            leaf_cost[below.start] = node_cost[node]
        surplus -= saved
    return Shape(owner, value, intercept)


def _cumulated(numbers: FloatArray) -> FloatArray:
    return np.concatenate([np.zeros((1, *numbers.shape[1:])), np.cumsum(numbers, axis=0)])
