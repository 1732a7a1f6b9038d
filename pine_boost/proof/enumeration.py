"""Proof by enumeration: every input of a small region, one by one, without a solver.

Two methods that share no code below the question: state rows through bit masks and score tables, and real inputs that
walk from node to node and are tested by the compiled membership. A model of many trees over few states (17 binary
features give 131 072 state rows) is proved at once, whatever its size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pine_boost.budget import Budget
from pine_boost.model import exact
from pine_boost.model.forest import Int32Array, IntArray, PrunedForest, spread
from pine_boost.model.reference import find_leaves
from pine_boost.model.states import States
from pine_boost.proof.problem import Answer, Problem, Proof, leaf_sums
from pine_boost.region.membership import compile_membership
from pine_boost.region.score_tables import RegionTables

METHOD, WALKED = "enumeration", "enumeration-by-walks"
_MOST_ROWS = 300_000  # state rows that the domain allows
_MOST_CELLS = 30_000_000  # state rows in the region times the larger of trees and questions
_CHUNK = 20_000


@dataclass(frozen=True, eq=False)
class Listing:
    """All state rows of a region, with the leaves they reach and the original's margins."""

    states: States
    leaves: Int32Array
    original: IntArray


def list_region(problem: Problem, budget: Budget) -> Listing | None:
    """Every state row of the region; None if there are too many or the time is over."""
    if not is_listable(problem.region):
        return None
    most = _MOST_CELLS // max(problem.forest.n_trees, len(problem.questions))
    found = [np.zeros((0, problem.space.n_features), dtype=np.int32)]
    reached = [np.zeros((0, problem.forest.n_trees), dtype=np.int32)]
    n_found = 0
    for rows in _permitted(problem):
        inside = rows[problem.region.contains(rows)]
        n_found += len(inside)
        if n_found > most or budget.is_over:
            return None
        found.append(inside)
        reached.append(problem.trees.leaves(inside).astype(np.int32))
    leaves = np.concatenate(reached)
    return Listing(np.concatenate(found), leaves, problem.original_margins_int(leaves))


def prove_listed(problem: Problem, pruned: PrunedForest, listing: Listing) -> list[Proof]:
    """Check every question on every listed input."""
    started = time.monotonic()
    margins = problem.pruned_margins_int(pruned, listing.leaves)
    found = _counterexamples(problem, pruned, listing.states, listing.original, margins)
    return _proofs(problem, METHOD, started, found)


def prove_walked(problem: Problem, pruned: PrunedForest, budget: Budget) -> list[Proof]:
    """The same check by other code: real inputs, nodes, and the compiled membership."""
    started = time.monotonic()
    forest, region = problem.forest, problem.region
    membership = compile_membership(problem.space, region, region.score)
    original_int = exact.to_units(forest.leaf_vectors(), problem.scale)
    pruned_int = spread(forest, pruned.value_int)
    found: list[States | None] = [None] * len(problem.questions)
    for rows in _permitted(problem):
        if budget.is_over:
            return [Proof(q, WALKED, Answer.UNKNOWN, 0.0) for q in problem.questions]
        X = problem.space.representative(rows)
        inside = np.flatnonzero(membership.contains(X))
        nodes = find_leaves(forest, X[inside])
        original = leaf_sums(original_int, nodes) + problem.intercept_int
        margins = leaf_sums(pruned_int, nodes[:, pruned.kept]) + pruned.intercept_int
        fresh = _counterexamples(problem, pruned, rows[inside], original, margins)
        found = [new if old is None else old for old, new in zip(found, fresh, strict=True)]
    return _proofs(problem, WALKED, started, found)


def is_listable(region: RegionTables) -> bool:
    """Whether the combinations of allowed states are few enough to be listed one by one."""
    return math.prod(int(np.count_nonzero(allowed)) for allowed in region.allowed) <= _MOST_ROWS


def _permitted(problem: Problem) -> Iterator[States]:
    """All combinations of allowed states, in chunks."""
    choices = [np.flatnonzero(allowed).astype(np.int32) for allowed in problem.region.allowed]
    n_rows = math.prod(len(states) for states in choices)
    # unravel_index takes at most 64 axes, and tables may have thousands of columns without splits
    varying = [feature for feature, states in enumerate(choices) if len(states) > 1]
    shape = tuple(len(choices[feature]) for feature in varying)
    for start in range(0, n_rows, _CHUNK):
        numbers = np.arange(start, min(start + _CHUNK, n_rows))
        rows = np.tile(np.array([own[0] for own in choices], dtype=np.int32), (len(numbers), 1))
        if varying:
            for feature, at in zip(varying, np.unravel_index(numbers, shape), strict=True):
                rows[:, feature] = choices[feature][at]
        yield rows


def _counterexamples(
    problem: Problem, pruned: PrunedForest, states: States, original: IntArray, margins: IntArray
) -> list[States | None]:
    """Per question the row that falls short most; None if none does."""
    if len(states) == 0:
        return [None] * len(problem.questions)
    short = problem.needed_sides(pruned.grid) - problem.sides(margins)
    short = np.where(problem.decided(original), short, 0)
    worst = enumerate(short.argmax(axis=0))
    return [states[row] if short[row, question] > 0 else None for question, row in worst]


def _proofs(problem: Problem, method: str, started: float, found: list[States | None]) -> list[Proof]:
    seconds = (time.monotonic() - started) / max(1, len(found))
    return [
        Proof(q, method, Answer.PROVED if states is None else Answer.FOUND, seconds, states, 1.0)
        for q, states in zip(problem.questions, found, strict=True)
    ]
