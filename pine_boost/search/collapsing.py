"""The search for fewer leaves (``unit="leaf"``): subtrees become leaves, trees are dropped.

Leaf values are free; a split stays or goes, none is changed. No lower bound on leaves is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget, StopReason
from pine_boost.model.states import States
from pine_boost.model.trimming import leaf_count
from pine_boost.proof.problem import Problem
from pine_boost.search.algorithm import finish, run
from pine_boost.search.batches import collapse_in_batches
from pine_boost.search.columns import build_columns, leaf_columns
from pine_boost.search.constraints import MOST_CELLS, Constraints, distinct_fit_rows
from pine_boost.search.incumbent import Incumbent
from pine_boost.search.oracle import Oracle
from pine_boost.search.polish_probabilities import polish
from pine_boost.search.pruner import Pruner
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import MOST_LEAF_COLUMNS, SearchOptions, SearchState
from pine_boost.search.shapes import LEVELS, Collapser
from pine_boost.search.splits import find_splits
from pine_boost.search.strategies import Proposal, ProposalStatus

_ANSWERS = 12  # different costs of ranges to try
_WALKS = 6  # times as many walks as other searches
_FIRST_SHAPES = 3
_REFUTATIONS = 400  # shapes that may be refuted


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
