"""Which sets of units to propose next, as generators that look at the fate of each proposal."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pine_boost.budget import StopReason
from pine_boost.model.forest import FloatArray, IntArray, PrunedForest
from pine_boost.proof.bound import hitting_set
from pine_boost.proof.minsum import cheapest_leaves
from pine_boost.search.lower_bound import small_cover
from pine_boost.search.lp import Weights
from pine_boost.search.lp_columns import Support
from pine_boost.search.search_state import ProposalStatus, SearchState

# Most searches end within fewer rounds of cuts, and perturbations mostly succeed within as many:
# FICO 40x3 19 -> 18 trees after 20 of them, 18 -> 17 after 144.
_FIRST_PERTURBATION = 40
_MOST_PERTURBATIONS = 200


@dataclass(eq=False)
class Proposal:
    """A set of units to try.

    Attributes
    ----------
    support : bool (n_units,)
    briefly : bool
        In a hurry, one counterexample that took long is enough to give up the set.
    status : ProposalStatus
        Set by the search before the strategy resumes.
    """

    support: Support
    briefly: bool = False
    status: ProposalStatus = ProposalStatus.GIVEN_UP

    @property
    def size(self) -> int:
        """How many units are kept."""
        return int(np.count_nonzero(self.support))


def first_answers(state: SearchState) -> Iterator[Proposal]:
    """Get a certified model early: small supports, and one more unit per refutation."""
    while True:
        known = state.best.smallest.n_kept
        yield from _ascend(state)
        if state.best.smallest.n_kept == known or not state.in_a_hurry():
            return


def _ascend(state: SearchState) -> Iterator[Proposal]:
    """Grow a small support until it is proved.

    In a hurry, slow steps double: a larger model that can be proved matters more than the smallest.
    """
    weights = state.pruner.eliminate()
    support = None if weights is None else state.pruner.support_of(weights)
    n_more = 1
    while support is not None and np.count_nonzero(support) < state.best.smallest.n_kept:
        started = time.monotonic()
        proposal = Proposal(support, briefly=True)
        yield proposal
        if proposal.status is ProposalStatus.PROVED:
            return
        if state.in_a_hurry(since=started):
            room = state.best.smallest.n_kept - proposal.size
            n_more = max(1, min(2 * n_more, room // 2))
        support = state.pruner.repair(support, n_more)


def lightest(state: SearchState) -> Iterator[Proposal]:
    """The L1 answer of all rows known, until it is proved."""
    return _until_settled(state, state.pruner.lightest)


def eliminations(state: SearchState) -> Iterator[Proposal]:
    """Backward elimination in several orders, each until its answer is proved."""
    for order in range(state.effort.n_eliminations):
        if order == 0 and state.pruner.is_eliminated:
            continue  # with the same rows it would end where it ended before
        yield from _until_settled(state, partial(state.pruner.eliminate, order or None))


def _until_settled(state: SearchState, propose: Callable[[], Weights | None]) -> Iterator[Proposal]:
    """Repeat a proposal on the grown rows as long as it is excluded and smaller than the best."""
    while (weights := propose()) is not None:
        proposal = Proposal(state.pruner.support_of(weights))
        if proposal.size >= state.best.smallest.n_kept:
            return
        yield proposal
        if proposal.status is not ProposalStatus.EXCLUDED:
            return


def fewest(state: SearchState) -> Iterator[Proposal]:
    """Propose sets one smaller than the best that meet all cuts, until the cuts leave none.

    A set whose weights cannot be rounded to the grid is skipped from then on. That proves nothing
    about its size, so the bound comes from the cuts alone. If it takes long, perturbed sets of the
    same size are tried too.
    """
    passed_over: list[Support] = []
    nearby: Support | None = None
    program, effort = state.constraints.program, state.effort
    last_program = program.n_solved + effort.exact_programs
    for round_number in range(effort.exact_rounds):
        state.budget.check()
        if state.is_late():
            state.prove_twice()
        if program.n_solved > last_program or len(passed_over) > effort.passed_over:
            return
        state.report_progress("exact")
        seed = state.seed + round_number
        support = _smaller_set(state, passed_over, seed)
        if support is None:
            return
        proposal = Proposal(support)
        yield proposal
        if proposal.status is ProposalStatus.UNWRITABLE:
            passed_over.append(support)
        elif proposal.status is ProposalStatus.EXCLUDED:
            state.pruner.strengthen(support, seed)
        if _FIRST_PERTURBATION <= round_number < _FIRST_PERTURBATION + _MOST_PERTURBATIONS:
            before = program.n_solved
            nearby = yield from perturb(state, nearby, seed)
            last_program += program.n_solved - before  # perturbations have a limit of their own


def _smaller_set(state: SearchState, passed_over: list[Support], seed: int) -> Support | None:
    """A set that meets all cuts, or None; raises the believed bound if the cuts leave none."""
    most = state.best.smallest.n_kept - 1
    cuts, n_units = list(state.pruner.cuts), state.columns.n_units
    cover = small_cover(cuts, n_units, most, seed, passed_over)
    if cover is not None:
        return cover
    support = hitting_set(cuts, n_units, most, state.budget, passed_over)
    if support is None and passed_over and hitting_set(cuts, n_units, most, state.budget) is not None:
        return None
    if support is None:
        state.best.raise_bound(state.best.smallest.n_kept)
    return support if isinstance(support, np.ndarray) else None


def perturb(state: SearchState, nearby: Support | None, seed: int) -> Generator[Proposal, None, Support | None]:
    """Perturb a set, and propose the result if it is smaller than the best.

    Returns the set to perturb next; None: the best one.
    """
    start = state.best.support if nearby is None else nearby
    perturbed = state.pruner.perturb(start, seed)
    if perturbed is None:
        return None
    n_kept = state.best.smallest.n_kept
    if np.count_nonzero(perturbed) < n_kept:
        proposal = Proposal(perturbed)
        yield proposal
        return perturbed if proposal.status is ProposalStatus.PROVED else None
    return perturbed if np.count_nonzero(perturbed) == n_kept else nearby


def is_optimal(state: SearchState) -> bool:
    """Whether the best model consists of units that no model can do without."""
    best = state.best
    if best.is_settled:
        return True
    state.pruner.find_essential(best.support, to_the_end=not state.in_a_hurry())
    best.raise_bound(sum(len(cut) == 1 for cut in state.pruner.cuts))
    return best.is_settled


# Models near the original: drop trees whose total contribution is below delta, keep the other weights. Such a model is
# proved by its difference to the original, over the dropped trees alone, however large the original is. Without
# indifference delta is 0 and nothing is proposed.
_EFFORT = 2.0  # deterministic seconds of CP-SAT per question
_TRIALS = 12
_LARGEST = 5 * 10**6  # leaves times features: in more, which leaves the region reaches takes long


def near_models(state: SearchState) -> None:
    """Drop the units that contribute least, as many as can be proved to change nothing.

    Starts with as many as their ranges alone allow, and closes in on the largest number. Asks for the proofs itself.
    """
    if state.problem.delta == 0 or state.best.smallest.pruned is not None:
        return
    state.report_progress("near")
    n_units = state.columns.n_units
    whole = state.budget
    effort = replace(state.effort, proof_effort=_EFFORT)
    budget = whole.part("light trees").with_effort(effort)
    order, n_light, middle = lightest_units(state)
    proved, refused = 0, n_units
    n_dropped = max(1, n_light)
    for _ in range(_TRIALS):
        if refused - proved <= 1 or budget.is_over:
            break
        state.check()
        model = _without(state, order[:n_dropped], middle)
        proofs = () if model is None else state.oracle.prove_near(model, budget)
        if model is not None and proofs:
            state.best.accept(model, proofs)
            state.report_progress("proved")
            proved = n_dropped
            n_dropped += max(1, n_dropped // 3)
        else:
            if model is not None and budget.is_over:
                state.ended.add(StopReason.TIME)
            refused = n_dropped
            n_dropped = (proved + refused) // 2
        n_dropped = min(max(n_dropped, proved + 1), refused - 1)
    if whole.is_limited:  # from now on this is the least that a stopped search returns
        state.prove_twice(whole.with_effort(replace(state.effort, proof_effort=2 * _EFFORT)))


def lightest_units(state: SearchState) -> tuple[IntArray, int, FloatArray]:
    """Units from the lightest on, how many can go by their ranges alone, and the constant that replaces each best.

    A range is what a unit can add over the leaves that the region, or a fit row beside it, can reach. The constants are
    (n_units, n_outputs), 0 if a model carries none. A unit that its constant replaces takes the excess of its range
    over the constant's side from the room that the original has beyond its cut, question by question.
    """
    problem, columns = state.problem, state.columns
    trees = problem.trees
    reached = np.ones(trees.n_leaves, dtype=bool)
    if trees.n_leaves * problem.space.n_features <= _LARGEST:
        reached = cheapest_leaves(problem.region, trees, problem.region.allowed)
        reached[np.unique(state.constraints.fit.leaves)] = True
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
    highest = np.stack([largest(question.side(columns.value)) for question in problem.questions], axis=1)
    cuts = [float(question.cut_side(problem.forest.decision)) for question in problem.questions]
    room = np.ldexp(problem.least.astype(np.float64), -problem.scale) - cuts
    excess = highest - problem.sides(middle)
    order = np.argsort((excess / room).max(axis=1), kind="stable")
    fits = (np.cumsum(excess[order], axis=0) < room).all(axis=1)
    return order, len(order) - 1 if fits.all() else int(np.argmin(fits)), middle


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
    pruned = state.on_grid(columns, Weights(weights, free, 1.0), scale=1.0)
    return None if pruned is None or len(state.constraints.lost_fit_rows(pruned, state.budget)) else pruned
