"""Algorithm 1 of the paper: Pruner and Oracle in turns, with a certified model at any moment.

Whenever the search stops, it holds a model that was proved twice, at worst the original.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pine_boost.budget import SECONDS, Budget, OutOfEffort, OutOfTime, StopReason
from pine_boost.errors import PineBoostError
from pine_boost.model.forest import PrunedForest
from pine_boost.model.states import States
from pine_boost.proof.bound import fewest_units
from pine_boost.proof.cpsat.prover import find_undecided
from pine_boost.search.lower_bound import prove_bound
from pine_boost.search.lp import UnsolvedProgramError
from pine_boost.search.oracle import Verdict
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import ProposalStatus, SearchState, SearchTask, build_state
from pine_boost.search.strategies import (
    Proposal,
    eliminations,
    fewest,
    first_answers,
    is_optimal,
    lightest,
    near_models,
)


@dataclass(frozen=True, eq=False)
class Known:
    """What is known before a search begins.

    Attributes
    ----------
    start : SearchState or None
        A finished search of the same model in a smaller region; its support is the first proposal.
    larger : SearchResult or None
        The result for a larger region, whose model holds here too.
    points : States or None
        State rows to begin with; those in the region become rows.
    is_hopeless : bool
        No proof will end here: do not ask the Oracle, only find the bound of the rows.
    units_budget : Budget or None
        See `SearchState`.
    """

    start: SearchState | None = None
    larger: SearchResult | None = None
    points: States | None = None
    is_hopeless: bool = False
    units_budget: Budget | None = None


def search(task: SearchTask, budget: Budget | None = None, known: Known | None = None) -> SearchResult:
    """Find the smallest model that provably keeps every decided point of the region.

    Ctrl-C and the time limit return the best certified model, at worst the original.
    """
    budget = budget or Budget.of()
    state = explore(task, budget, known)
    prove_lower_bound(state)
    return finish(state, budget)


def explore(task: SearchTask, budget: Budget, known: Known | None = None) -> SearchState:
    """Search until nothing is left to try; what is found is proved once, without a lower bound."""
    known = known or Known()
    state = replace(build_state(task, budget, known.start), units_budget=known.units_budget)
    if known.larger is not None:
        state.best.adopt(known.larger)
    run(state, proposals(state, known))
    return state


def run(state: SearchState, proposed: Iterator[Proposal]) -> None:
    """Weigh each proposal, ask the Oracle, learn from its counterexamples, until it is settled.

    After Ctrl-C, or without memory, nothing is proposed any more. A search that takes long proves
    its models twice on the way.
    """
    if state.ended & {StopReason.INTERRUPTED, StopReason.MEMORY}:
        return
    with keep_best(state, state.budget):
        for proposal in proposed:
            state.check()
            while (pruned := weigh(state, proposal)) is not None:
                started = time.monotonic()
                verdict = ask(state, pruned)
                if verdict.counterexamples is None:
                    state.best.accept(pruned, verdict.proofs)
                    state.report_progress("proved")
                    proposal.status = ProposalStatus.PROVED
                    break
                if state.learn(pruned, verdict.counterexamples, verdict.by_proof) == 0:
                    raise PineBoostError(
                        "Internal error: a proof ended with a point that the rows exclude. Please report this."
                    )
                if proposal.briefly and verdict.by_proof and state.in_a_hurry(since=started):
                    break
                state.check()
            if proposal.status is ProposalStatus.PROVED and state.is_late():
                state.prove_twice()
    if state.budget.is_over:  # a strategy may end by itself then
        state.ended.add(StopReason.TIME)


def proposals(state: SearchState, known: Known) -> Iterator[Proposal]:
    """What to try, in order: fast answers first, then the exact search for the fewest units."""
    objective, start = state.task.options.objective, known.start
    if start is None:
        state.constraints.add_nearest_fit_rows(state.budget)
    if known.points is not None:
        state.constraints.add(known.points[state.problem.region.contains(known.points)])
    if start is not None:
        yield Proposal(start.best.support)
    elif known.larger is None or not is_optimal(state):
        if objective == "l0" and not known.is_hopeless:
            near_models(state)
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
    """A model on the grid that keeps all rows with the proposed units, or None."""
    state.budget.check()
    proposal.status = ProposalStatus.GIVEN_UP
    found = state.write(proposal.support)
    if isinstance(found, PrunedForest):
        return found
    proposal.status = found
    return None


def ask(state: SearchState, pruned: PrunedForest) -> Verdict:
    """The Oracle's verdict: cheap counterexamples first, then a proof."""
    state.report_progress("climb")
    against = state.oracle.quick_counterexamples(pruned, state.constraints, state.budget)
    if len(against):
        return Verdict(counterexamples=against)
    state.report_progress("prove")
    return state.oracle.prove(pruned, state.budget)


def prove_lower_bound(state: SearchState) -> None:
    """Prove a lower bound in exact integers; a search that was stopped spends little on it."""
    if StopReason.MEMORY in state.ended:  # the bound is one more search
        return
    best, budget = state.best, state.budget
    with keep_best(state, budget):
        if state.is_over or budget.is_interrupted:
            budget = Budget.of(SECONDS["bound after stop"], state.effort)
        target = best.smallest.n_kept
        if not best.is_settled:
            target = min(target, fewest_units(list(state.pruner.cuts), state.columns.n_units, budget))
        best.bound = prove_bound(state.pruner, target, best.bound, budget)
        best.note(2 if not best.waiting else 1)


def finish(state: SearchState, budget: Budget, larger: SearchResult | None = None) -> SearchResult:
    """Prove twice what was found, and return the result.

    ``larger`` is the result for a larger region (a smaller alpha): what was proved there holds
    here, and if this search found nothing smaller, that model is the answer. After Ctrl-C only a
    moment is left; another Ctrl-C ends that too.
    """
    best = state.best
    if larger is not None:
        best.adopt(larger)
    for _ in range(2):
        with keep_best(state, budget):
            state.prove_twice(budget)
            if best.best.pruned is not None and best.undecided is None:
                best.undecided = find_undecided(state.problem, state.oracle.prover.known_encoding, budget)
            break
    n_kept = best.best.n_kept
    ended = set(state.ended)
    if n_kept <= best.lower_bound:
        ended.discard(StopReason.TIME)  # nothing smaller was missed
    if state.oracle.n_asked == 0 and ended == {StopReason.EFFORT}:
        ended = {StopReason.UNSOLVED}  # nothing was tried: that is no answer
    return SearchResult(
        pruned=best.best.pruned,
        proofs=best.best.proofs,
        n_kept=n_kept,
        rounds=state.oracle.n_asked,
        rows=len(state.constraints),
        ended=frozenset(ended),
        undecided=best.undecided,
        seconds=budget.clock,
        history=tuple(best.history),
        bound=best.bound,
        fit=state.constraints.fit,
        points=state.constraints.states,
    )


@contextmanager
def keep_best(state: SearchState, budget: Budget) -> Iterator[None]:
    """Note what ends a part of the search; the best certified model stays."""
    try:
        yield
    except (OutOfTime, OutOfEffort, UnsolvedProgramError) as reason:
        is_late = isinstance(reason, OutOfTime) or budget.is_over
        late = StopReason.INTERRUPTED if budget.is_interrupted else StopReason.TIME
        state.ended.add(late if is_late else StopReason.EFFORT)
    except KeyboardInterrupt:
        budget.interrupt()
        state.ended.add(StopReason.INTERRUPTED)
    except MemoryError:
        state.ended.add(StopReason.MEMORY)
