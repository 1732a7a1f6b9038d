"""The search for fewer leaves (``unit="leaf"``): subtrees become leaves, trees are dropped.

Leaf values are free; a split stays or goes, none is changed. No lower bound on leaves is given.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import replace
from inspect import GEN_CLOSED, getgeneratorstate
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from pine_boost.budget import Budget, StopReason
from pine_boost.model.exact import SAME_LEAVES
from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.model.shape import Kept, Splits, begins, numbers
from pine_boost.model.states import States
from pine_boost.model.trimming import leaf_count
from pine_boost.proof.minsum import cheapest_leaves
from pine_boost.proof.problem import Problem
from pine_boost.search.algorithm import run
from pine_boost.search.constraints import MOST_CELLS
from pine_boost.search.grid_rounding import to_grid
from pine_boost.search.leaf_values import add_known, closest_values, nearest_leaves, polish
from pine_boost.search.lp import LinearProgram, UnsolvedProgramError, WeightProgram, Weights, add_order_rows
from pine_boost.search.lp_columns import Columns, Support, leaf_values, renamed
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import ProposalStatus, SearchState
from pine_boost.search.strategies import Proposal

_ANSWERS = 12  # different costs of ranges to try
_WALKS = 6  # times as many walks as other searches
_FIRST_SHAPES = 3
_REFUTATIONS = 400  # shapes that may be refuted
# batches
_FIRST = 0.05  # of the splits go in the first batch
_GROWTH = 4
_MOST_REFUTED = 15  # models of one batch that may be refuted
_EFFORT = 0.1  # of a proof's effort: if it takes longer, the batch is too large
_ROOM = 0.5  # of the original's margin is kept at rows with a narrow one
_NARROW = 0.05  # of the median margin: what counts as narrow
_MOST_FAILED = 40  # batches that may fail
# shapes that keep every known row
# How often small ranges are made more expensive, so that more vanish, and whether remaining splits
# are tried one by one. The first levels keep more splits: they are found and proved sooner.
_LEVELS = ((1, False), (6, False), (6, True))
_SMALL = 0.02  # of the median range: smaller ones count as about to vanish
_AT_ONCE = 8  # an eighth of the splits is collapsed at first


def search_collapsed(state: SearchState, points: States | None) -> None:
    """Collapse what no row reaches, then whole shapes or batches of splits; at last values near the original's."""
    splits, start = Splits(state.problem.forest), state.best.best
    if len(splits.node) == 0:
        return
    collapser = Collapser(state, splits)
    state = replace(state, writer=collapser.write)
    early = replace(state, budget=state.budget.part("fewer leaves"))
    run(early, _dropping_the_unreached(early, collapser, start.pruned, points))
    _alternate(early, collapser)
    if state.budget.is_limited and state.best.smallest.n_kept == start.n_kept:
        collapse_in_batches(state, collapser)  # nothing is left to polish, so with the rest of the time
    if state.best.smallest.n_kept < start.n_kept:
        smallest = splits.of_model(state.best.smallest.pruned)
        run(state, _proving_twice(state))  # before time is spent on anything else
        run(state, polish(state, lambda: collapser.write_near(state, smallest)))


def in_leaves(problem: Problem, found: SearchResult) -> SearchResult:
    """The result of a search over trees with its sizes in leaves; bounds on trees do not apply."""
    pruned = found.pruned
    n_leaves = problem.trees.n_leaves if pruned is None else leaf_count(pruned)
    history = tuple(moment._replace(units=moment.leaves) for moment in found.history)
    return replace(found, n_kept=n_leaves, history=history).without_bound()


def _dropping_the_unreached(
    state: SearchState, collapser: Collapser, start: PrunedForest | None, points: States | None
) -> Iterator[Proposal]:
    """Drop branches that neither the region nor a row reaches, and twin leaves.

    Starts from the points of the earlier searches.
    """
    add_known(state, points)
    _walk(state)
    state.report_progress("leaves")
    splits, problem = collapser.splits, state.problem
    seen = np.concatenate([state.constraints.leaves.ravel(), state.constraints.fit.leaves.ravel()])
    spared = spared_leaves(problem, splits, seen, _values_of(problem, start))
    kept = splits.of_model(start) & (splits.ranges(spared) > 0)
    if kept.any() and splits.size(kept) < state.best.smallest.n_kept:
        yield Proposal(kept)


def spared_leaves(
    problem: Problem, splits: Splits, seen: npt.NDArray[Any], value: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Leaf values of a model in which unreached leaves take the value of their neighbours.

    No input of the region and no row reaches such a leaf (``seen`` are leaves of rows). From the
    leaves upwards, if the reached leaves below a split have one value, the others take it.
    """
    alive = cheapest_leaves(problem.region, problem.trees, problem.region.allowed)
    alive[np.unique(seen)] = True
    value = value.copy()
    for node in splits.node[::-1]:
        below = slice(splits.subtrees.first[node], splits.subtrees.last[node])
        own = value[below][alive[below]]
        if 0 < len(own) < below.stop - below.start and np.all(own == own[0]):
            value[below] = own[0]
    return value


def _walk(state: SearchState) -> None:
    """Add points near the boundary; each is cheaper than a counterexample from a proof."""
    n_sides = max(1, state.problem.forest.n_outputs - 1)
    most = MOST_CELLS // (n_sides * state.columns.n_columns)
    for number in range(1, 1 + _WALKS):
        if len(state.constraints) < most:
            replace(state, seed=state.seed + number, _walked=[]).walk()


def _proving_twice(state: SearchState) -> Iterator[Proposal]:
    """The second proof of what is proved once; proposes nothing."""
    state.prove_twice()
    yield from ()


def _alternate(state: SearchState, collapser: Collapser) -> None:
    """A few shapes; if none is proved, batches of splits from the other end; then the other shapes."""
    known = state.best.smallest.n_kept
    short = replace(state, budget=state.budget.part("first shapes"))
    run(short, islice(_shrinking(short, collapser), _FIRST_SHAPES))
    if state.best.smallest.n_kept == known:
        collapse_in_batches(state, collapser)
    run(state, _shrinking(state, collapser))


def _shrinking(state: SearchState, collapser: Collapser) -> Iterator[Proposal]:
    """Shapes that keep every known row, until one is proved; then smaller ones, and other costs.

    The first shapes keep some splits that could go: they are found and proved sooner.
    """
    everything = np.ones(len(collapser.splits.node), dtype=bool)
    n_answers, level = 0, 0
    for _ in range(_REFUTATIONS):
        state.report_progress("leaves")
        seed = state.seed + n_answers if n_answers else None
        kept = collapser.shrink(state, everything, seed, level=level)
        if kept is None or n_answers >= _ANSWERS:
            return
        is_smaller = collapser.splits.size(kept) < state.best.smallest.n_kept
        proposal = Proposal(kept)
        if is_smaller:
            yield proposal
        if not is_smaller or proposal.status is not ProposalStatus.EXCLUDED:
            n_answers += level == len(_LEVELS) - 1
            level = min(level + 1, len(_LEVELS) - 1)


def _values_of(problem: Problem, pruned: PrunedForest | None) -> FloatArray:
    """Leaf values of a model without the bias of its trees; None is the original."""
    if pruned is None:
        return np.asarray(leaf_values(problem)[:, 0])
    return np.asarray(np.ldexp(pruned.value_int[problem.leaf_node, 0].astype(np.float64), -pruned.grid))


def _sides_of(state: SearchState, pruned: PrunedForest | None) -> FloatArray:
    """How far a model is beyond its cut at every row; None is the original."""
    rows, problem = state.constraints, state.problem
    if pruned is None:
        margins, grid = problem.original_margins_int(rows.leaves), problem.scale
    else:
        margins, grid = problem.pruned_margins_int(pruned, rows.leaves), pruned.grid
    decision = problem.forest.decision
    cut = np.array([float(question.cut_side(decision)) for question in problem.questions])
    sides = np.ldexp(problem.sides(margins).astype(np.float64), -grid) - cut
    return np.asarray(sides[rows.point_of, rows.question_of] * rows.program.magnified)


class NearWriter:
    """Writes models without a batch of splits, close to the base; after some refutations no more."""

    def __init__(self, splits: Splits) -> None:
        self._splits = splits
        self._base: PrunedForest | None = None
        self._n_written = 0
        self._active: IntArray = np.zeros(0, dtype=np.int64)

    def begin(self, base: PrunedForest | None) -> None:
        """Start from another certified model; None is the original."""
        self._base, self._n_written = base, 0

    def write(self, state: SearchState, kept: Kept) -> PrunedForest | ProposalStatus:
        """A model with these splits on the grid, if there is one that keeps every row."""
        self._n_written += 1
        if self._n_written > _MOST_REFUTED:
            return ProposalStatus.UNWRITABLE
        shape = CollapsedTrees(state.columns, self._splits, kept)
        weights = self._nearest(state, shape)
        pruned = None if weights is None else state.on_grid(shape.program.columns, weights, scale=1.0)
        return ProposalStatus.UNWRITABLE if pruned is None else self._splits.collapse(pruned, kept)

    def _nearest(self, state: SearchState, shape: CollapsedTrees) -> Weights | None:
        """The values closest to the base's that keep every row with some room."""
        problem, program, fit = state.problem, state.constraints.program, state.constraints.fit
        value = _values_of(problem, self._base)
        before = _sides_of(state, self._base) - program.rows @ value
        free = np.asarray(np.linalg.lstsq(program.free_rows, before, rcond=None)[0], np.float64)
        written = to_grid(problem, state.columns, Weights(value, free, 1.0), fit, scale=1.0)
        if written is None:
            return None
        # the base's mean below every remaining leaf, and the share of fit rows there
        repeated = np.repeat(fit.counts, fit.leaves.shape[1])
        count = np.bincount(fit.leaves.ravel(), repeated, len(value)) + 1.0
        of_leaves = np.asarray(shape.merge.T @ count)
        wanted = Weights(np.asarray(shape.merge.T @ (count * value)) / of_leaves, free, 1.0)
        rows = csr_matrix(program.rows) @ shape.merge, program.free_rows, _needed(state, written.grid)
        share = of_leaves / of_leaves.sum()
        found = closest_values(problem, rows, shape.program.columns.order, wanted, share, state.budget, self._active)
        if found is None:
            return None
        weights, self._active = found
        return weights


def _needed(state: SearchState, grid: int) -> FloatArray:
    """The margin to keep at every row: a part of the original's, at least the rounding error."""
    original = _sides_of(state, None)
    rounding = np.ldexp(float(state.problem.forest.n_trees), -grid)
    room = _ROOM * np.minimum(original, _NARROW * float(np.median(original)))
    program = state.constraints.program
    return np.asarray(np.maximum(room, rounding * program.magnified) * program.strict)


def collapse_in_batches(state: SearchState, collapser: Collapser) -> None:
    """Collapse splits in batches, starting from the certified model, until none is left.

    This gives an answer where whole shapes fail: the remaining leaf values stay as close to the
    certified model as the rows allow. A proof that does not end is one batch that failed.
    """
    effort = replace(state.effort, proof_effort=_EFFORT * state.effort.proof_effort)
    writer = NearWriter(collapser.splits)
    state = replace(state, writer=writer.write, budget=state.budget.with_effort(effort))
    proposed = _batches(state, collapser, writer)
    while getgeneratorstate(proposed) != GEN_CLOSED:
        run(state, proposed)
        if state.ended & {StopReason.INTERRUPTED, StopReason.MEMORY}:
            return


def _batches(state: SearchState, collapser: Collapser, writer: NearWriter) -> Generator[Proposal, None, None]:
    """Larger batches after a proof, smaller ones after a failure, until no candidate is left.

    Candidates are the splits that a shape which keeps every known row does without; those whose
    leaves differ least go first. A split that cannot go alone is needed, and so are those above it.
    """
    splits = collapser.splits
    needed = np.zeros(len(splits.node), dtype=bool)
    size = max(1, int(_FIRST * len(needed)))
    n_failed = 0
    while n_failed < _MOST_FAILED:
        state.report_progress("leaves")
        base = state.best.smallest.pruned
        before = splits.of_model(base)
        shape = collapser.shrink(state, before, level=0)
        if shape is None:
            return
        may_go = np.flatnonzero(before & ~shape & ~needed)
        if len(may_go) == 0:
            return
        # ranges never shrink upwards, and children come after their parents
        order = np.lexsort((-may_go, splits.ranges(_values_of(state.problem, base))[may_go]))
        batch = may_go[order[:size]]
        kept = before.copy()
        kept[batch] = False
        if not kept.any():
            return
        proposal = Proposal(kept)
        writer.begin(base)
        yield proposal
        if proposal.status is ProposalStatus.PROVED:
            size = _GROWTH * len(batch)
            continue
        n_failed += 1
        size = max(1, len(batch) // 3)
        split = int(batch[0])
        while len(batch) == 1 and split >= 0:  # needed, with all above it
            needed[split] = True
            split = int(splits.parent[split])


class CollapsedTrees:
    """The splits that stay, and the linear program of the leaves that are left, at first without rows.

    Attributes
    ----------
    kept : Kept
    support : Support
        The trees that are left.
    program : WeightProgram
        One column for every leaf that is left; leaves of the original share them. The rows of the search
        join when `solve` is called.
    merge : sparse (n_leaves, n_left)
        1 where a leaf of the original belongs to a leaf that is left.
    """

    def __init__(self, columns: Columns, splits: Splits, kept: Kept) -> None:
        self.kept, owner = kept, splits.owners(kept)
        number, tree = numbers(owner), splits.subtrees.leaf_tree[begins(owner)]
        own = np.flatnonzero(number >= 0)
        self.merge = csr_matrix((np.ones(len(own)), (own, number[own])), shape=(len(number), len(tree)))
        order = renamed(columns.order, number)  # every leaf has a column of its own there
        merged = replace(columns, column_unit=tree, scale=np.ones(len(tree)), leaf_column=number, order=order)
        self.support: Support = np.bincount(tree, minlength=columns.n_units) > 0
        self.program = WeightProgram(merged)

    def solve(self, state: SearchState, active: IntArray) -> Weights | None:
        """Values with the widest margin on every row of the search, or None.

        ``active`` are rows that mattered when the shape was found.
        """
        rows = state.constraints.program
        fresh = slice(len(self.program.rows), len(rows.rows))
        merged = np.asarray(rows.rows[fresh] @ self.merge)
        self.program.add_rows(merged, rows.free_rows[fresh], rows.strict[fresh], rows.magnified[fresh])
        if fresh.start == 0:
            self.program.lp.join(active)
        found = self.program.solve(self.support, state.budget)
        return found if isinstance(found, Weights) else None


class Collapser:
    """Proposes sets of splits that stay, and writes models with them."""

    def __init__(self, state: SearchState, splits: Splits) -> None:
        self.splits = splits
        self._program = RangeProgram(state.constraints.program, splits)
        self._shape: CollapsedTrees | None = None

    def write(self, state: SearchState, kept: Kept) -> PrunedForest | ProposalStatus:
        """A model with these splits on the grid, or why there is none."""
        shape = self._shape_of(state, kept)
        try:
            weights = shape.solve(state, self._program.active)
        except UnsolvedProgramError:  # other shapes may do
            return ProposalStatus.UNWRITABLE
        if weights is None:
            return ProposalStatus.EXCLUDED
        pruned = state.round(shape.program, shape.support, weights)
        return ProposalStatus.UNWRITABLE if pruned is None else self.splits.collapse(pruned, kept)

    def write_near(self, state: SearchState, kept: Kept) -> PrunedForest | None:
        """The same with values close to the original's, or None."""
        shape = self._shape_of(state, kept)
        weights = shape.solve(state, self._program.active)
        if weights is None:
            return None
        pruned = nearest_leaves(state, shape.program, shape.support, weights)
        return None if pruned is None else self.splits.collapse(pruned, kept)

    def _shape_of(self, state: SearchState, kept: Kept) -> CollapsedTrees:
        if self._shape is None or not np.array_equal(self._shape.kept, kept):
            self._shape = CollapsedTrees(state.columns, self.splits, kept)
        return self._shape

    def shrink(
        self, state: SearchState, kept: Kept, seed: int | None = None, *, level: int = len(_LEVELS) - 1
    ) -> Kept | None:
        """Fewer splits with which every row can be kept, or None.

        Minimises the sum of all ranges, then again with small ranges more expensive until they
        vanish or stay, as far as ``level`` says. Another ``seed`` gives other costs, and so another
        answer.
        """
        n_solved, descends = _LEVELS[level]
        splits, program = self.splits, self._program
        program.permit(kept)
        base: FloatArray = np.where(splits.is_root, 2.0, 1.0)  # a tree saves one leaf more
        if seed is not None:
            base = base * np.random.default_rng(seed).uniform(0.3, 1.7, len(base))
        cost, differ = base, kept
        for _ in range(n_solved):
            program.set_cost(cost)
            if not program.solve(state.budget, is_feasible=bool(kept.all())):
                return None
            ranges, differ = self._ranges()
            small = _SMALL * float(np.median(ranges[differ])) if differ.any() else 1.0
            cost = base * small / (ranges + small)
        kept = kept & differ
        if not kept.any():
            kept[np.argmax(splits.is_root)] = True  # the smallest shape: the first split of one tree
            return kept
        return self._descend(state, kept) if descends else kept

    def _ranges(self) -> tuple[FloatArray, Kept]:
        """Ranges of the last solution, and which are not 0."""
        ranges = self.splits.ranges(self._program.values)
        return ranges, np.asarray(ranges > SAME_LEAVES * max(1.0, float(ranges.max(initial=0.0))))

    def _descend(self, state: SearchState, kept: Kept) -> Kept:
        """Collapse lowest splits, many at once, as long as every row can be kept."""
        needed = np.zeros_like(kept)
        n_tried = max(1, int(np.count_nonzero(kept)) // _AT_ONCE)
        while True:
            open_ends = np.flatnonzero(self.splits.ends(kept) & ~needed)
            if len(open_ends) == 0:
                return kept
            ranges = self._ranges()[0][open_ends]
            trial = kept.copy()
            tried = open_ends[np.argsort(ranges, kind="stable")[:n_tried]]
            trial[tried] = False
            self._program.permit(trial)
            if trial.any() and self._program.solve(state.budget):
                kept = trial & self._ranges()[1]
                n_tried = max(1, min(2 * n_tried, int(np.count_nonzero(kept)) // _AT_ONCE))
            elif len(tried) == 1:
                needed[tried] = True
            else:
                n_tried = max(1, len(tried) // 4)


class RangeProgram:
    """``min sum c (high - low) : A v + B f >= 1``, with high and low of the leaf values below a split.

    A split whose leaves all agree can go. The first leaf of every tree is 0: constants are free, and
    a tree whose leaves agree is gone.

    Attributes
    ----------
    values : float64 (n_leaves,)
        Of the last solution.
    """

    def __init__(self, rows: WeightProgram, splits: Splits) -> None:
        self._rows = rows
        subtrees, forest = splits.subtrees, splits.forest
        n_leaves, n_splits = len(subtrees.leaf_node), len(splits.node)
        self.values: FloatArray = np.zeros(n_leaves)
        n_values = n_leaves + rows.n_free
        lower = np.full(n_values + 2 * n_splits, -math.inf)
        upper = -lower
        first = subtrees.leaf_offset[:-1]
        lower[first] = upper[first] = 0.0
        self.lp = LinearProgram(
            np.zeros(len(lower)), lower, upper, self, size=n_leaves, rows_per_pass=60, most_passes=100
        )
        # the variables that hold the highest and the lowest value at or below a node
        high, low = np.zeros(forest.n_nodes, dtype=np.int64), np.zeros(forest.n_nodes, dtype=np.int64)
        high[subtrees.leaf_node] = low[subtrees.leaf_node] = np.arange(n_leaves)
        high[splits.node] = n_values + np.arange(n_splits)
        low[splits.node] = high[splits.node] + n_splits
        self._range_rows = []
        for node in splits.node:
            for child in (forest.left[node], forest.right[node]):
                self.lp.add_row([high[node], high[child]], [1.0, -1.0], 0.0)
                self.lp.add_row([low[child], low[node]], [1.0, -1.0], 0.0)
            self._range_rows.append(self.lp.add_row([high[node], low[node]], [1.0, -1.0], -math.inf))
        add_order_rows(self.lp, rows.columns.order, np.arange(n_leaves))

    def __len__(self) -> int:
        return len(self._rows)

    def lines(self, indices: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rows of the linear program."""
        rows = self._rows
        return np.column_stack([rows.rows[indices], rows.free_rows[indices]]), rows.strict[indices].astype(np.float64)

    def slack(self, x: FloatArray) -> FloatArray:
        """How far a solution exceeds the margin of 1 at every row."""
        n_leaves = len(self.values)
        values, free = x[:n_leaves], x[n_leaves : n_leaves + self._rows.n_free]
        return np.asarray(self._rows.sides(values, free) - self._rows.strict)

    @property
    def active(self) -> IntArray:
        """The rows that took part."""
        return np.sort(np.array(self.lp.active, dtype=np.int64))

    def permit(self, kept: Kept) -> None:
        """Leaves below a split that is not kept must agree."""
        for row, may_differ in zip(self._range_rows, kept.tolist(), strict=True):
            self.lp.set_upper(row, math.inf if may_differ else 0.0)

    def set_cost(self, cost: FloatArray) -> None:
        """What the range below each split costs."""
        self.lp.set_cost(np.concatenate([np.zeros(len(self.values) + self._rows.n_free), cost, -cost]))

    def solve(self, budget: Budget, *, is_feasible: bool = False) -> bool:
        """Whether there are such leaf values, as far as floats can tell."""
        solution = self.lp.solve(budget, is_feasible=is_feasible)
        if solution is None:
            return False
        self.values = solution.x[: len(self.values)]
        return True
