"""The state of one search: what Pruner, Oracle and strategies share.

Progress is reported from here, and points are collected here before the Oracle is asked.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import SECONDS, SHARES, Budget, Effort, OutOfTime, Step, StopReason
from pine_boost.model.forest import PrunedForest
from pine_boost.model.states import States
from pine_boost.options import Options
from pine_boost.proof.problem import Problem
from pine_boost.search.constraints import Constraints, distinct_fit_rows
from pine_boost.search.grid_rounding import to_grid
from pine_boost.search.local_search import boundary_walks, wander
from pine_boost.search.lp import WeightProgram, Weights
from pine_boost.search.lp_columns import Columns, Support, build_columns
from pine_boost.search.oracle import Oracle
from pine_boost.search.pruner import Pruner
from pine_boost.search.search_result import Incumbent

_LOGGER = logging.getLogger("pine_boost")
MOST_LEAF_COLUMNS = 2000  # a linear program over more leaves does not end in a reasonable time
_ROWS_WITHOUT_TIME = 100  # of X_fit, if the time is over before the search begins
_FEWER_WALKS = 4  # where the score has trees of its own: a walk takes many times as long
# What a refuted proposal costs beside its programs, in the same measure and per squared column
# (local search, walks, CP-SAT: 0.03 s at 120 leaves, a second at 720).
_WORK_PER_ROUND = 5


@dataclass(frozen=True, eq=False)
class SearchTask:
    """What a search is about: a model in a region, and how to search.

    Attributes
    ----------
    problem : Problem
    fit_states : (n_rows, n_features)
        The states of the rows of X_fit.
    options : Options
        With ``reweight="leaf"`` the search may go on with leaf values of its own (`leaf_values`).
    monotone : tuple of int or None
        Features with which leaf values must rise (1) or fall (-1); None: those with which every
        tree of the original does.
    """

    problem: Problem
    fit_states: npt.NDArray[Any]
    options: Options
    monotone: tuple[int, ...] | None = ()


class ProposalStatus(Enum):
    """What became of a proposal."""

    PROVED = "proved"
    EXCLUDED = "no weights on these units keep all rows"
    UNWRITABLE = "weights exist, but not on the grid"
    GIVEN_UP = "undecided"


@dataclass(frozen=True, eq=False)
class SearchState:
    """The parts of one search.

    Attributes
    ----------
    ended : set of StopReason
        What ended a part of the search early (see `SearchResult`).
    units_budget : Budget or None
        Once it is over, the search over units ends in favour of leaf values, provided that there
        are few enough leaves to choose.
    writer : callable or None
        Writes models for supports of another kind, such as the splits that stay (`collapsing`).
    """

    problem: Problem
    columns: Columns
    constraints: Constraints
    pruner: Pruner
    oracle: Oracle
    best: Incumbent
    budget: Budget
    task: SearchTask
    seed: int
    ended: set[StopReason] = field(default_factory=set)
    units_budget: Budget | None = None
    writer: Callable[[SearchState, Support], PrunedForest | ProposalStatus] | None = None
    _steps: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _walked: list[bool] = field(default_factory=list)

    @property
    def effort(self) -> Effort:
        """How hard to try."""
        return self.budget.effort

    @property
    def is_over(self) -> bool:
        """Whether this search is out of time, or leaf values need the time that is left."""
        if self.budget.is_over:
            return True
        if self.units_budget is None or not self.units_budget.is_over:
            return False
        kept = self.best.support[self.columns.tree_unit[self.problem.trees.leaf_tree]]
        return bool(np.count_nonzero(kept) <= MOST_LEAF_COLUMNS)

    def check(self) -> None:
        """Raise `OutOfTime` once the search is over."""
        if self.is_over:
            raise OutOfTime

    def write(self, support: Support) -> PrunedForest | ProposalStatus:
        """A model on the grid with the units of a support, or why there is none."""
        if self.writer is not None:
            return self.writer(self, support)
        weights = self.pruner.solve(support)
        if weights is None:
            return ProposalStatus.EXCLUDED
        return self.round(self.constraints.program, support, weights) or ProposalStatus.UNWRITABLE

    def round(self, program: WeightProgram, support: Support, weights: Weights) -> PrunedForest | None:
        """A solution of a program on the grid, or the one with the widest margin; None if both break a row."""
        pruned = self.on_grid(program.columns, weights)
        if pruned is None:
            widest = program.widest(support, self.budget)
            pruned = None if widest is None else self.on_grid(program.columns, widest)
        return pruned

    def on_grid(self, columns: Columns, weights: Weights, scale: float | None = None) -> PrunedForest | None:
        """Weights of columns rounded to the grid, or None if that breaks a row."""
        pruned = to_grid(self.problem, columns, weights, self.constraints.fit, scale=scale)
        return None if pruned is None or self.constraints.loses(pruned) else pruned

    def learn(self, pruned: PrunedForest, counterexamples: States, by_proof: bool) -> int:
        """Add counterexamples and, if a proof found them, points around them; how many were new."""
        n_new = self.constraints.add(counterexamples)
        self.constraints.program.lp.work += _WORK_PER_ROUND * self.columns.n_columns**2
        if by_proof:
            self.constraints.add(self.oracle.climb(pruned, self.constraints, self.budget))
        self.walk()
        if by_proof:
            self._walk_from(counterexamples)
        return n_new

    def walk(self) -> None:
        """Add points from walks to the boundary that start at fit rows and all over the region; once."""
        if self._walked:
            return
        self._walked.append(True)
        self.report_progress("walks")
        states = self.constraints.fit.states
        inside = states[self.problem.region.contains(states)]
        random = np.random.default_rng(self.seed)
        n_walks = self.effort.n_walks
        if self.problem.region.slows_cp_sat:
            n_walks //= _FEWER_WALKS
        if len(inside):
            self._walk_from(inside[random.permutation(len(inside))[:n_walks]])
        if len(inside) and not self.in_a_hurry():
            starts = inside[random.integers(0, len(inside), n_walks)]
            self._walk_from(wander(self.problem, starts, self.seed, self.budget))
        self.report_progress("rows")

    def _walk_from(self, starts: npt.NDArray[Any]) -> None:
        """Add the points that walks to the boundary pass."""
        passed = boundary_walks(self.problem, starts, self.seed, self.budget)
        self.constraints.add(passed, self.budget)

    def is_late(self) -> bool:
        """Whether a model that was proved once should be proved again at once.

        Usually it waits, since the next one is often smaller; but whoever stops a search that has
        run for long should not lose its model.
        """
        limit = self.budget.deadline - self.budget.started
        return self.budget.elapsed >= min(SECONDS["late"], SHARES["late"] * limit)

    def in_a_hurry(self, since: float = -math.inf) -> bool:
        """Whether a certified model now is worth more than a smaller one later.

        True if it is late and the step that began at ``since`` took long. Never without a time
        limit, so that such searches are reproducible on any machine.
        """
        limit = self.budget.deadline - self.budget.started
        is_slow = time.monotonic() - since > SHARES["long step"] * limit
        return self.budget.is_limited and self.is_late() and is_slow

    def prove_twice(self, budget: Budget | None = None) -> None:
        """Prove a second time what is proved once."""
        if self.best.waiting:
            self.report_progress("prove again")
            self.best.prove_twice(self.oracle.prover, budget or self.budget)
            self.report_progress("certified")

    def report_progress(self, phase: str) -> None:
        """Log the step and call the user's callback."""
        best, smallest, bound = self.best.best, self.best.smallest, self.best.lower_bound
        unit, sizes = self.columns.name, [best.n_kept, smallest.n_kept]
        if self.task.options.unit == "leaf":
            unit, bound = "leaf", 1
            sizes = [self.best.leaves_of(found) for found in (best, smallest)]
        step = Step(
            step=next(self._steps),
            phase=phase,
            trees=self.problem.forest.n_trees if best.pruned is None else len(best.pruned.kept),
            rows=len(self.constraints),
            seconds=self.budget.clock,
            unit=unit,
            units=sizes[0],
            proved_once=sizes[1],
            lower_bound=min(bound, sizes[0]),
        )
        _LOGGER.debug("%s: %d %ss, %d rows", phase, step.units, step.unit, step.rows)
        self.budget.report_progress(step)


def build_state(task: SearchTask, budget: Budget, start: SearchState | None = None) -> SearchState:
    """The state before the first step: no rows yet, or copies of those of a finished search in a smaller region.

    The rows, cuts and bounds of such a search stay true.
    """
    problem, options = task.problem, task.options
    if start is None:
        columns = build_columns(problem, options.unit)
        try:
            fit = distinct_fit_rows(problem, task.fit_states, budget.check)
        except OutOfTime:  # the search ends before its first step; what was found before must not be lost
            fit = distinct_fit_rows(problem, task.fit_states[:_ROWS_WITHOUT_TIME])
        constraints = Constraints(problem, columns, fit)
    else:
        constraints = start.constraints.on(problem)
    pruner = Pruner(constraints, budget, None if start is None else start.pruner)
    best = Incumbent(constraints.columns, budget.began)
    if start is not None:
        best.bound = start.best.bound
        best.raise_bound(start.best.believed_bound)
    oracle = Oracle(problem, options.n_workers)
    parts = problem, constraints.columns, constraints, pruner, oracle, best
    return SearchState(*parts, budget, task, options.random_state)
