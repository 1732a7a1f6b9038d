"""Models near the original: drop trees whose total contribution is below delta, keep the other weights.

Such a model is proved by its difference to the original, over the dropped trees alone, however
large the original is. Without indifference delta is 0 and nothing is proposed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.proof.minsum import cheapest_leaves
from pine_boost.search.grid_rounding import to_grid
from pine_boost.search.search_state import SearchState
from pine_boost.search.strategies import Proposal, ProposalStatus
from pine_boost.search.weight_program import Weights

_EFFORT = 2.0  # deterministic seconds of CP-SAT per question
_TRIALS = 12
_LARGEST = 5 * 10**6  # leaves times features: in more, which leaves the region reaches takes long


@dataclass(frozen=True, eq=False)
class Ranges:
    """What the units can add on inputs of the region, in margins.

    Attributes
    ----------
    highest : float64 (n_units, n_questions)
        The most that a unit adds to a question's side.
    middle : float64 (n_units, n_outputs)
        The constant that replaces a unit best; 0 if a model carries no constants.
    room : float64 (n_questions,)
        How far the original is beyond its cut at least.
    """

    highest: FloatArray
    middle: FloatArray
    room: FloatArray

    def excess(self, state: SearchState) -> FloatArray:
        """How much of each question's room a unit takes when a constant replaces it."""
        return np.asarray(self.highest - state.problem.sides(self.middle))


def near_models(state: SearchState) -> Iterator[Proposal]:
    """Drop the units that contribute least, as many as can be proved to change nothing.

    Starts with as many as their ranges alone allow, and closes in on the largest number.
    """
    if state.problem.delta == 0 or state.best.smallest.pruned is not None:
        return
    state.report_progress("near")
    n_units = state.columns.n_units
    whole = state.budget
    effort = replace(state.effort, proof_effort=_EFFORT)
    budget = whole.part("light trees").with_effort(effort)
    ranges = unit_ranges(state)
    order, n_light = lightest_units(state, ranges)
    proved, refused = 0, n_units
    n_dropped = max(1, n_light)
    for _ in range(_TRIALS):
        if refused - proved <= 1 or budget.is_over:
            break
        model = _without(state, order[:n_dropped], ranges.middle)
        outcome = ProposalStatus.UNWRITABLE
        if model is not None:
            proposal = Proposal(state.columns.kept_units(model), model=model, budget=budget)
            yield proposal
            outcome = proposal.status
        if outcome is ProposalStatus.PROVED:
            proved = n_dropped
            n_dropped += max(1, n_dropped // 3)
        else:
            refused = n_dropped
            n_dropped = (proved + refused) // 2
        n_dropped = min(max(n_dropped, proved + 1), refused - 1)
    if whole.is_limited:  # from now on this is the least that a stopped search returns
        state.prove_twice(whole.with_effort(replace(state.effort, proof_effort=2 * _EFFORT)))


def lightest_units(state: SearchState, ranges: Ranges) -> tuple[IntArray, int]:
    """Units from the lightest on, and how many can go by their ranges alone."""
    excess = ranges.excess(state)
    order = np.argsort((excess / ranges.room).max(axis=1), kind="stable")
    fits = (np.cumsum(excess[order], axis=0) < ranges.room).all(axis=1)
    return order, len(order) - 1 if fits.all() else int(np.argmin(fits))


def unit_ranges(state: SearchState) -> Ranges:
    """Ranges over the leaves that the region, or a fit row beside it, can reach."""
    problem, columns = state.problem, state.columns
    trees = problem.trees
    reached = np.ones(trees.n_leaves, dtype=bool)
    if trees.n_leaves * problem.space.n_features <= _LARGEST:
        reached = cheapest_leaves(problem.region, trees, problem.masks, problem.region.allowed)
        reached[np.unique(state.constraints.fit.reference.leaves)] = True
    starts = trees.leaf_offset[:-1]

    def largest(value: FloatArray) -> FloatArray:
        of_trees = np.maximum.reduceat(np.where(reached, value, -np.inf), starts)
        finite = np.where(np.isfinite(of_trees), of_trees, 0.0)
        return np.bincount(columns.tree_unit, finite).astype(np.float64)

    middle = np.zeros((columns.n_units, problem.forest.n_outputs))
    if columns.n_free:
        for output in range(problem.forest.n_outputs):
            value = columns.value[:, output]
            middle[:, output] = (largest(value) - largest(-value)) / 2
    highest = [largest(question.side(columns.value)) for question in problem.questions]
    cuts = [float(question.cut_side(problem.forest.decision)) for question in problem.questions]
    room = np.ldexp(problem.least.astype(np.float64), -problem.scale) - cuts
    return Ranges(np.stack(highest, axis=1), middle, room)


def _without(state: SearchState, dropped: IntArray, middle: FloatArray) -> PrunedForest | None:
    """The original with constants instead of some units, or None if a row is misclassified."""
    problem, columns = state.problem, state.columns
    forest = problem.forest
    weights = columns.scale.copy()
    weights[dropped] = 0.0
    constant = forest.intercept + middle[dropped].sum(axis=0)
    if forest.value.shape[1] == 1:
        constant += np.bincount(forest.tree_output, forest.tree_bias, forest.n_outputs)
    free = np.zeros(columns.n_free)
    free[: len(constant)] = constant[: len(free)]
    if forest.n_outputs == 1 and len(free):
        cuts = forest.decision.cuts
        free[0] -= cuts[0]
        free[1:] = cuts[-1] - cuts[0]
    solution = Weights(weights, free, 1.0)
    pruned = to_grid(problem, columns, solution, state.constraints.fit.reference, scale=1.0)
    if pruned is None or state.constraints.loses(pruned):
        return None
    return None if len(state.constraints.fit.lost_by(problem, pruned, state.budget)) else pruned
