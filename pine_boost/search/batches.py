"""Collapse splits in batches, starting from a certified model.

Splits whose leaves differ least go first, and the remaining leaf values stay as close to the
certified model as the rows allow. This gives a first answer where whole shapes fail.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from inspect import GEN_CLOSED, getgeneratorstate

import numpy as np
from scipy.sparse import csr_matrix, hstack

from pine_boost.budget import Budget, StopReason
from pine_boost.model.exact import BROKEN_ROW, TIGHT_ROW
from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.search.algorithm import run
from pine_boost.search.columns import build_columns
from pine_boost.search.lp import LinearProgram, RowPool, Solver
from pine_boost.search.rounding import leaves_to_grid
from pine_boost.search.search_state import SearchState
from pine_boost.search.shapes import Collapser, Shape, build_shape
from pine_boost.search.splits import Kept, Splits
from pine_boost.search.strategies import Proposal, ProposalStatus
from pine_boost.search.weight_program import Weights

_FIRST = 0.05  # of the splits go in the first batch
_GROWTH = 4
_MOST_REFUTED = 15  # models of one batch that may be refuted
_EFFORT = 0.1  # of a proof's effort: if it takes longer, the batch is too large
_ROOM = 0.5  # of the original's margin is kept at rows with a narrow one
_NARROW = 0.05  # of the median margin: what counts as narrow
_MOST_FAILED = 40  # batches that may fail
_ROWS_PER_PASS = 100
_MAX_PASSES = 60


@dataclass(frozen=True, eq=False)
class Base:
    """The certified model that a batch starts from.

    Attributes
    ----------
    kept : Kept
        Its splits.
    value : float64 (n_leaves,)
    pruned : PrunedForest or None
        None is the original.
    """

    kept: Kept
    value: FloatArray
    pruned: PrunedForest | None

    def margins(self, state: SearchState) -> FloatArray:
        """How far the model is beyond its cut at every row."""
        rows, problem = state.constraints, state.problem
        if self.pruned is None:
            margins, grid = problem.original_margins_int(rows.leaves), problem.scale
        else:
            margins, grid = problem.pruned_margins_int(self.pruned, rows.leaves), self.pruned.grid
        decision = problem.forest.decision
        cut = np.array([float(question.cut_side(decision)) for question in problem.questions])
        sides = np.ldexp(problem.sides(margins).astype(np.float64), -grid) - cut
        return np.asarray(sides[rows.point_of, rows.question_of] * rows.program.magnified)


def find_base(state: SearchState, splits: Splits, pruned: PrunedForest | None) -> Base:
    """A certified model as the start of a batch."""
    problem = state.problem
    if pruned is None:
        output = problem.forest.tree_output[splits.leaf_tree]
        every = np.arange(len(output))
        return Base(splits.of_model(None), build_columns(problem, "leaf").value[every, output], None)
    value = np.ldexp(pruned.value_int[problem.leaf_node, 0].astype(np.float64), -pruned.grid)
    return Base(splits.of_model(pruned), value, pruned)


class NearWriter:
    """Writes models without a batch of splits, close to the base; after some refutations no more."""

    def __init__(self, splits: Splits) -> None:
        self._splits = splits
        self._base: Base | None = None
        self._n_written = 0
        self._active: IntArray = np.zeros(0, dtype=np.int64)

    def begin(self, base: Base) -> None:
        """Start from another model."""
        self._base, self._n_written = base, 0

    def write(self, state: SearchState, kept: Kept) -> PrunedForest | None:
        """A model with these splits on the grid, if there is one that keeps every row."""
        self._n_written += 1
        if self._n_written > _MOST_REFUTED:
            return None
        shape = build_shape(state.columns, self._splits, kept)
        weights = self._project(state, shape)
        if weights is None:
            return None
        reference = state.constraints.fit.reference
        pruned = leaves_to_grid(state.problem, shape.columns, weights, reference, scale=1.0)
        if pruned is None or state.constraints.loses(pruned):
            return None
        return self._splits.collapse(pruned, kept)

    def _project(self, state: SearchState, shape: Shape) -> Weights | None:
        """The values closest to the base's that keep every row with some room.

        Constants are free; the distance of cuts stays.
        """
        base, program = self._base, state.constraints.program
        if base is None:
            return None
        before = base.margins(state) - program.rows @ base.value
        free = np.asarray(np.linalg.lstsq(program.free_rows, before, rcond=None)[0], np.float64)
        reference = state.constraints.fit.reference
        whole = Weights(base.value, free, 1.0)
        written = leaves_to_grid(state.problem, state.columns, whole, reference, scale=1.0)
        if written is None:
            return None
        target, counts = _merged(state, shape, base)
        entries = csr_matrix(program.rows) @ shape.merge
        lacking = _needed(state, written.grid) - (entries @ target + program.free_rows @ free)
        n_merged = len(target)  # changes upwards, as many downwards, then the constants
        lower = np.concatenate([np.zeros(2 * n_merged), np.full(program.n_free, -np.inf)])
        upper = np.full(len(lower), np.inf)
        if state.problem.forest.n_outputs == 1:
            lower[2 * n_merged + 1 :] = upper[2 * n_merged + 1 :] = 0.0
        change = self._least_change(
            np.concatenate([counts, counts, np.zeros(program.n_free)]),
            lower,
            upper,
            RowPool(csr_matrix(hstack([entries, -entries, csr_matrix(program.free_rows)])), lacking),
            state.budget,
        )
        if change is None:
            return None
        up, down, constant = np.split(change, [n_merged, 2 * n_merged])
        return Weights(target + up - down, free + constant, 1.0)

    def _least_change(
        self, cost: FloatArray, lower: FloatArray, upper: FloatArray, pool: RowPool, budget: Budget
    ) -> FloatArray | None:
        """``min cost @ x`` over the rows of a pool, beginning with those that were tight the last time."""
        program = LinearProgram(
            cost,
            lower,
            upper,
            pool,
            solver=Solver.HIGHS,
            rows_per_pass=_ROWS_PER_PASS,
            most_passes=_MAX_PASSES,
            noise=BROKEN_ROW,
        )
        short = pool.at_least
        broken = np.setdiff1d(np.flatnonzero(short > BROKEN_ROW), self._active)
        program.join(np.union1d(self._active, broken[np.argsort(-short[broken], kind="stable")[:_ROWS_PER_PASS]]))
        if not program.active:  # nothing has to change
            self._active = self._active[:0]
            return np.zeros(len(cost))
        solution = program.solve(budget)
        if solution is None:
            return None
        active = np.array(program.active, dtype=np.int64)
        self._active = active[pool.slack(solution.x)[active] < TIGHT_ROW]
        return solution.x


def _merged(state: SearchState, shape: Shape, base: Base) -> tuple[FloatArray, FloatArray]:
    """The base's mean below every remaining leaf, and the share of fit rows there."""
    reference = state.constraints.fit.reference
    repeated = np.repeat(reference.counts, reference.leaves.shape[1])
    count = np.bincount(reference.leaves.ravel(), repeated, len(base.value)) + 1.0
    of_leaves = np.asarray(shape.merge.T @ count)
    mean = np.asarray(shape.merge.T @ (count * base.value)) / of_leaves
    return mean, of_leaves / of_leaves.sum()


def _needed(state: SearchState, grid: int) -> FloatArray:
    """The margin to keep at every row: a part of the original's, at least the rounding error."""
    original = Base(np.zeros(0, dtype=bool), np.zeros(0), None).margins(state)
    rounding = np.ldexp(float(state.problem.forest.n_trees), -grid)
    room = _ROOM * np.minimum(original, _NARROW * float(np.median(original)))
    program = state.constraints.program
    return np.asarray(np.maximum(room, rounding * program.magnified) * program.strict)


def collapse_in_batches(state: SearchState, collapser: Collapser) -> None:
    """Try batches until none is left; a proof that does not end is one batch that failed."""
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
        base = find_base(state, splits, state.best.smallest.pruned)
        shape = collapser.shrink(state, base.kept, level=0)
        if shape is None:
            return
        may_go = np.flatnonzero(base.kept & ~shape & ~needed)
        if len(may_go) == 0:
            return
        # ranges never shrink upwards, and children come after their parents
        order = np.lexsort((-may_go, splits.ranges(base.value)[may_go]))
        batch = may_go[order[:size]]
        kept = base.kept.copy()
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
        if len(batch) == 1:
            _need(splits, needed, int(batch[0]))


def _need(splits: Splits, needed: Kept, split: int) -> None:
    """Mark a split as needed, with all above it."""
    while split >= 0:
        needed[split] = True
        split = int(splits.parent[split])
