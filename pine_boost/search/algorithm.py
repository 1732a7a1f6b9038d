"""Algorithm 1: Pruner and Oracle in turns, anytime.

In come a problem, the states of X_fit and a budget; out goes the smallest certified model found,
with a proved lower bound. Whenever it stops, it holds a model that was proved twice, at worst the
original itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from pine_boost.budget import Budget, OutOfEffort, OutOfTime, StopReason
from pine_boost.errors import PineBoostError
from pine_boost.model.forest import PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.bound import fewest_units
from pine_boost.proof.problem import Problem
from pine_boost.proof.undecided import find_undecided
from pine_boost.search.drop_light_trees import near_models
from pine_boost.search.lower_bound import prove_bound
from pine_boost.search.lp import UnsolvedProgramError
from pine_boost.search.oracle import Verdict
from pine_boost.search.search_result import SearchResult, WarmStart
from pine_boost.search.search_state import ExcludedError, SearchOptions, SearchState, build_state
from pine_boost.search.strategies import (
    Proposal,
    ProposalStatus,
    eliminations,
    fewest,
    first_answers,
    is_optimal,
    lightest,
)

_SECONDS_AFTER_CTRL_C = 1.0
_BOUND_AFTER_STOP = 0.3  # seconds for the bound of a search that was stopped


@dataclass(frozen=True, eq=False)
class Known:
    """What is known before a search begins.

    Attributes
    ----------
    start : WarmStart or None
        What a search of the same model on a smaller region left.
    larger : SearchResult or None
        The result of a larger region, whose model holds here too.
    points : States or None
        State rows to begin with; those in the region become rows.
    is_hopeless : bool
        No proof will end here: ask no Oracle, find only the bound of the rows.
    """

    start: WarmStart | None = None
    larger: SearchResult | None = None
    points: States | None = None
    is_hopeless: bool = False


MakesRoom = Callable[[SearchState], bool]


@dataclass(eq=False)
class Explored:
    """A game that was played to its end, before its second proofs.

    ``makes_room`` is asked between steps whether what follows needs the time that is left;
    ``out_of_time`` says whether the clock ended a part, also one that goes on with another.
    """

    state: SearchState
    stopped: StopReason = StopReason.EFFORT
    gave_up: bool = False
    out_of_time: bool = False
    seconds: float = 0.0
    makes_room: MakesRoom | None = None

    def go_on(self) -> None:
        """Raise `OutOfTime` where what follows needs the time that is left."""
        if self.makes_room is not None and self.makes_room(self.state):
            raise OutOfTime

    def start(self) -> WarmStart:
        """What the search of a larger region may begin with."""
        state = self.state
        best = state.best
        cuts = dict(state.pruner.cuts)
        return WarmStart(state.constraints, cuts, best.bound, best.believed_bound, best.support)


def search(
    problem: Problem,
    fit_states: npt.NDArray[Any],
    budget: Budget | None = None,
    options: SearchOptions | None = None,
    known: Known | None = None,
    makes_room: MakesRoom | None = None,
) -> SearchResult:
    """Find the smallest model that provably keeps every decided point of the region.

    Ctrl-C and the time limit return the best certified model, at worst the original itself.
    """
    budget = budget or Budget.of()
    return finish(bounded(play_out(problem, fit_states, budget, options, known, makes_room)), budget)


def explore(
    problem: Problem,
    fit_states: npt.NDArray[Any],
    budget: Budget,
    options: SearchOptions | None = None,
    known: Known | None = None,
) -> Explored:
    """Play the game until it is settled; what it finds is proved once, and its bound."""
    return bounded(play_out(problem, fit_states, budget, options, known))


def play_out(
    problem: Problem,
    fit_states: npt.NDArray[Any],
    budget: Budget,
    options: SearchOptions | None = None,
    known: Known | None = None,
    makes_room: MakesRoom | None = None,
) -> Explored:
    """The same without its bound: whoever goes on with other columns does not need it."""
    known = known or Known()
    state = build_state(problem, fit_states, budget, options or SearchOptions(), known.start)
    explored = Explored(state, makes_room=makes_room)
    if known.larger is not None:
        state.best.adopt(known.larger.best, known.larger.undecided)
    play(explored, proposals(state, known))
    return explored


def bounded(explored: Explored) -> Explored:
    """A game that was played, with its lower bound proved as far as that goes."""
    budget = explored.state.budget
    if explored.stopped is not StopReason.MEMORY:  # the bound is one more search
        with _keeping_the_best(explored, budget):
            _prove_bound(explored)
    explored.seconds = budget.clock
    return explored


def play(explored: Explored, proposed: Iterator[Proposal]) -> None:
    """Pruner and Oracle in turns, as in algorithm 1 of the paper, for one proposal after another.

    A search that takes long asks for second proofs by itself; one that was interrupted, or that
    has no memory left, does not go on with other proposals.
    """
    if explored.stopped in (StopReason.INTERRUPTED, StopReason.MEMORY):
        return
    state = explored.state
    with _keeping_the_best(explored, state.budget):
        for proposal in proposed:
            explored.go_on()
            while (pruned := weigh(state, proposal)) is not None:
                started = time.monotonic()
                verdict = ask(state, pruned, proposal)
                if verdict is None:
                    explored.out_of_time |= (proposal.budget or state.budget).is_over
                    break
                if verdict.is_proved:
                    state.best.accept(pruned, verdict.proofs)
                    state.report_progress("proved")
                    proposal.status = ProposalStatus.PROVED
                    break
                if state.learn(pruned, verdict) == 0:
                    raise PineBoostError(
                        "Internal error: a proof ended with a point that the rows exclude. Please report this."
                    )
                if proposal.briefly and verdict.by_proof and state.in_a_hurry(since=started):
                    break
                explored.go_on()
            if proposal.status is ProposalStatus.PROVED and proposal.model is None and state.is_late():
                state.prove_twice()
    explored.out_of_time |= state.budget.is_over  # a strategy may end by itself then


def proposals(state: SearchState, known: Known) -> Iterator[Proposal]:
    """What to try, in order: fast answers first, then the exact search for the fewest."""
    objective, start = state.options.objective, known.start
    if start is None:
        state.constraints.add(state.constraints.fit.nearest(), state.budget)
    if known.points is not None:
        state.constraints.add(known.points[state.problem.region.contains(known.points)])
    if start is not None:
        yield Proposal(start.support)
    elif known.larger is None or not is_optimal(state):
        if objective == "l0" and not known.is_hopeless:
            yield from near_models(state)
        state.walk()
    if known.is_hopeless:
        state.pruner.eliminate()
        is_optimal(state)
    elif objective == "l1":
        yield from lightest(state)
    elif not state.best.is_settled:
        yield from first_answers(state)
        if not is_optimal(state):
            # the cuts of an earlier search guide the exact one better than other orders do
            if start is None:
                yield from eliminations(state)
            yield from fewest(state)


def weigh(state: SearchState, proposal: Proposal) -> PrunedForest | None:
    """A model on the grid that keeps all rows with the proposed units; None where there is none."""
    state.budget.check()
    if proposal.model is not None:
        return proposal.model
    proposal.status = ProposalStatus.GIVEN_UP
    try:
        pruned = state.write(proposal.support)
    except ExcludedError:
        proposal.status = ProposalStatus.EXCLUDED
        return None
    if pruned is None:
        proposal.status = ProposalStatus.UNWRITABLE
    return pruned


def ask(state: SearchState, pruned: PrunedForest, proposal: Proposal) -> Verdict | None:
    """The Oracle's verdict; None where a model near the original is not proved by that alone."""
    if proposal.model is not None:
        return state.oracle.prove_near(pruned, proposal.budget or state.budget)
    state.report_progress("climb")
    against = state.oracle.quick_counterexamples(pruned, state.constraints, state.budget)
    if len(against):
        return Verdict((), against)
    state.report_progress("prove")
    return state.oracle.prove(pruned, state.budget)


def finish(explored: Explored, budget: Budget, larger: SearchResult | None = None) -> SearchResult:
    """The second proof of what was explored, and the result.

    ``larger`` is the result for a larger region (a smaller alpha): what was proved there holds
    here, and where this search found nothing smaller, that model is the answer. After Ctrl-C, be
    it now or before, only a moment is left; another one ends that too.
    """
    started = time.monotonic()
    state = explored.state
    best = state.best
    if larger is not None:
        best.adopt(larger.best, larger.undecided)
    for _ in range(2):
        if explored.stopped is StopReason.INTERRUPTED:
            budget = budget.within(_SECONDS_AFTER_CTRL_C)
        with _keeping_the_best(explored, budget):
            state.prove_twice(budget)
            if best.best.pruned is not None and best.undecided is None:
                encoding = state.oracle.prover.known_encoding
                best.undecided = find_undecided(state.problem, encoding, budget)
            break
    n_kept = best.best.n_kept
    is_fewest = n_kept <= best.lower_bound
    stopped = explored.stopped
    if explored.gave_up and state.oracle.n_asked == 0 and stopped is StopReason.EFFORT:
        stopped = StopReason.UNSOLVED  # nothing was tried: that is no answer
    return SearchResult(
        pruned=best.best.pruned,
        proofs=best.best.proofs,
        n_kept=n_kept,
        lower_bound=min(best.lower_bound, n_kept),
        rounds=state.oracle.n_asked,
        rows=len(state.constraints),
        stopped=StopReason.OPTIMAL if is_fewest else stopped,
        undecided=best.undecided,
        seconds=explored.seconds + time.monotonic() - started,
        history=tuple(best.history),
        bound=best.bound,
        reference=state.constraints.fit.reference,
        points=state.constraints.states,
        gave_up=explored.gave_up,
        interrupted=explored.stopped is StopReason.INTERRUPTED,
        out_of_time=not is_fewest and (explored.out_of_time or stopped is StopReason.TIME),
    )


def _prove_bound(explored: Explored) -> None:
    """The lower bound in exact integers; a search that was stopped spends little on it."""
    state = explored.state
    best, cuts = state.best, state.pruner.cuts
    budget = state.budget
    if explored.stopped is not StopReason.EFFORT:
        budget = Budget.of(_BOUND_AFTER_STOP, state.effort)
    target = best.smallest.n_kept
    if not best.is_settled:
        target = min(target, fewest_units(list(cuts), state.columns.n_units, budget))
    best.bound = prove_bound(state.pruner, target, best.bound, budget)
    best.note(2 if not best.waiting else 1)


@contextmanager
def _keeping_the_best(explored: Explored, budget: Budget) -> Iterator[None]:
    """Whatever ends a part of the search, the best certified model stays."""
    try:
        yield
    except (OutOfTime, OutOfEffort, UnsolvedProgramError) as reason:
        if isinstance(reason, OutOfTime) or budget.is_over:
            if explored.stopped is StopReason.EFFORT:
                explored.stopped = StopReason.TIME
        else:
            explored.gave_up = True
    except KeyboardInterrupt:
        explored.stopped = StopReason.INTERRUPTED
    except MemoryError:
        explored.stopped = StopReason.MEMORY
