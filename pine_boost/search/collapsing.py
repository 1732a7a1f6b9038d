"""The search for fewer leaves (``unit="leaf"``): subtrees become leaves, trees are dropped.

Leaf values are free; a split stays or goes, none is changed. No lower bound on leaves is given.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from inspect import GEN_CLOSED, getgeneratorstate
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix, hstack

from pine_boost.budget import Budget, StopReason
from pine_boost.model.exact import BROKEN_ROW, TIGHT_ROW
from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.model.states import States
from pine_boost.model.trimming import leaf_count
from pine_boost.proof.problem import Problem
from pine_boost.search.algorithm import finish, run
from pine_boost.search.constraints import MOST_CELLS, Constraints, distinct_fit_rows
from pine_boost.search.grid_rounding import leaves_to_grid
from pine_boost.search.leaf_values import polish
from pine_boost.search.lp import LinearProgram, RowPool, Solver, Weights
from pine_boost.search.lp_columns import build_columns, leaf_columns
from pine_boost.search.oracle import Oracle
from pine_boost.search.pruner import Pruner
from pine_boost.search.search_result import Incumbent, SearchResult
from pine_boost.search.search_state import MOST_LEAF_COLUMNS, SearchOptions, SearchState
from pine_boost.search.shapes import LEVELS, CollapsedTrees, Collapser, Kept, Splits, build_shape, find_splits
from pine_boost.search.strategies import Proposal, ProposalStatus

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
_ROWS_PER_PASS = 100
_MAX_PASSES = 60


def search_collapsed(
    problem: Problem,
    fit_states: npt.NDArray[Any],
    found: SearchResult,
    budget: Budget,
    options: SearchOptions,
    larger: SearchResult | None = None,
) -> SearchResult:
    """Look for fewer leaves, starting from a certified model; the result counts leaves.

    ``found`` is what the searches over single trees found, ``larger`` the answer of this search
    for a larger region, whose model holds here too.
    """
    start = _in_leaves(problem, found)
    if larger is not None and larger.n_kept < start.n_kept:
        start = start.with_model_of(larger)
    if problem.trees.n_leaves > MOST_LEAF_COLUMNS or problem.trees.n_leaves == problem.trees.n_trees:
        return start  # too many leaves for a program, or trees without a split: nothing can be merged
    if found.is_last:
        return start
    if budget.is_over:
        return start.with_ends(StopReason.TIME)
    budget = budget.after(found.seconds)
    state, collapser = _build_state(problem, fit_states, budget, options)
    state.best.adopt(start.best, found.undecided)
    early = replace(state, budget=budget.part("fewer leaves"))
    run(early, _dropping_the_unreached(early, collapser, start, found.points))
    _alternate(early, collapser)
    if budget.is_limited and state.best.smallest.n_kept == start.n_kept:
        collapse_in_batches(state, collapser)  # nothing is left to polish, so with the rest of the time
    if state.best.smallest.n_kept < start.n_kept:
        smallest = collapser.splits.of_model(state.best.smallest.pruned)
        run(state, _proving_twice(state))  # before time is spent on anything else
        run(state, polish(state, lambda: collapser.write_near(state, smallest)))
    return start.followed_by(replace(finish(state, budget), seconds=budget.clock))


def _in_leaves(problem: Problem, found: SearchResult) -> SearchResult:
    """The result of a search over trees with its sizes in leaves; bounds on trees do not apply."""
    pruned = found.pruned
    n_leaves = problem.trees.n_leaves if pruned is None else leaf_count(pruned)
    history = (moment._replace(units=moment.leaves, lower_bound=1) for moment in found.history)
    return replace(found, n_kept=n_leaves, lower_bound=1, bound=None, history=tuple(history))


def _build_state(
    problem: Problem, fit_states: npt.NDArray[Any], budget: Budget, options: SearchOptions
) -> tuple[SearchState, Collapser]:
    """A search without rows whose columns are all leaves."""
    units = build_columns(problem, "leaf")
    every = np.ones(units.n_units, dtype=bool)
    columns = replace(leaf_columns(units, problem, every, options.monotone), name="leaf")
    constraints = Constraints(problem, columns, distinct_fit_rows(problem, fit_states, columns.n_columns))
    pruner, best = Pruner(constraints, budget), Incumbent(columns, budget.began)
    oracle = Oracle(problem, options.n_jobs)
    state = SearchState(problem, columns, constraints, pruner, oracle, best, budget, options, _walked=[True])
    collapser = Collapser(state, find_splits(problem))
    return replace(state, writer=collapser.write), collapser


def _dropping_the_unreached(
    state: SearchState, collapser: Collapser, start: SearchResult, points: States | None
) -> Iterator[Proposal]:
    """Drop branches that neither the region nor a row reaches, and twin leaves.

    Starts from the points of the earlier searches.
    """
    state.constraints.add(state.constraints.fit.nearest(), state.budget)
    if points is not None:
        state.constraints.add(points[state.problem.region.contains(points)], state.budget)
    _walk(state)
    state.report_progress("leaves")
    splits, problem = collapser.splits, state.problem
    value: npt.NDArray[Any] = problem.forest.value if start.pruned is None else start.pruned.value_int
    leaf_value = value[problem.leaf_node, 0]
    seen = np.concatenate([state.constraints.leaves.ravel(), state.constraints.fit.reference.leaves.ravel()])
    spared = splits.spared(problem, seen, leaf_value)
    kept = splits.of_model(start.pruned) & (splits.ranges(spared) > 0)
    if kept.any() and splits.size(kept) < state.best.smallest.n_kept:
        yield Proposal(kept)


def _walk(state: SearchState) -> None:
    """Add points near the boundary; each is cheaper than a counterexample from a proof."""
    n_sides = max(1, state.problem.forest.n_outputs - 1)
    most = MOST_CELLS // (n_sides * state.columns.n_columns)
    for number in range(1, 1 + _WALKS):
        if len(state.constraints) < most:
            options = replace(state.options, seed=state.options.seed + number)
            replace(state, options=options, _walked=[]).walk()


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
        seed = state.options.seed + n_answers if n_answers else None
        kept = collapser.shrink(state, everything, seed, level=level)
        if kept is None or n_answers >= _ANSWERS:
            return
        is_smaller = collapser.splits.size(kept) < state.best.smallest.n_kept
        proposal = Proposal(kept)
        if is_smaller:
            yield proposal
        if not is_smaller or proposal.status is not ProposalStatus.EXCLUDED:
            n_answers += level == len(LEVELS) - 1
            level = min(level + 1, len(LEVELS) - 1)


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

    def _project(self, state: SearchState, shape: CollapsedTrees) -> Weights | None:
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


def _merged(state: SearchState, shape: CollapsedTrees, base: Base) -> tuple[FloatArray, FloatArray]:
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
