"""One game between points and trees: what Pruner, Oracle and strategies share.

In come a problem, the fit rows and a budget; out goes a SearchState whose parts change while it is
played. Telling the progress and looking for rows before the Oracle is asked happen here.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget, Effort, Step
from pine_boost.model.forest import PrunedForest
from pine_boost.proof.problem import Problem
from pine_boost.search.columns import Columns, Support, build_columns
from pine_boost.search.constraints import Constraints, distinct_fit_rows
from pine_boost.search.incumbent import Incumbent
from pine_boost.search.local_search import boundary_walks, wander
from pine_boost.search.oracle import Oracle, Verdict
from pine_boost.search.pruner import Pruner
from pine_boost.search.rounding import leaves_to_grid, to_grid
from pine_boost.search.search_result import WarmStart
from pine_boost.search.weight_program import Weights

_LOGGER = logging.getLogger("pine_boost")
_FEWER_WALKS = 4  # where the score has trees of its own: a walk takes many times as long
# A model proved once waits for its second proof, since the next one is often smaller; but not when
# the search is older than this or a tenth of its time: whoever stops it then loses nothing.
_PATIENCE = 20.0
# What a refuted proposal costs beside its programs, in their measure and times the columns squared
# (climbs, walks, CP-SAT: 0.03 s at 120 leaves, a second at 720).
_WORK_PER_ROUND = 5
_LONG = 0.02  # of the time limit: a step of a search in a hurry that asks for longer ones


@dataclass(frozen=True)
class SearchOptions:
    """What is searched for, and how.

    Attributes
    ----------
    objective : {"l0", "l1"}
    unit : {"round", "tree", "leaf"}
    n_jobs : int
        Threads for the proofs; the result does not depend on it.
    seed : int
    reweight : {"tree", "leaf"}
        Whether a search may go on with leaf values of its own (`leaf_values`).
    monotone : tuple of int or None
        Features that leaf values must rise (1) or fall (-1) with; None: with those that every tree
        of the original does.
    """

    objective: str = "l0"
    unit: str = "round"
    n_jobs: int = 1
    seed: int = 0
    reweight: str = "tree"
    monotone: tuple[int, ...] | None = ()


@dataclass(frozen=True, eq=False)
class SearchState:
    """The parts of one search."""

    problem: Problem
    columns: Columns
    constraints: Constraints
    pruner: Pruner
    oracle: Oracle
    best: Incumbent
    budget: Budget
    options: SearchOptions
    writer: Callable[[SearchState, Support], PrunedForest | None] | None = None
    _steps: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _walked: list[bool] = field(default_factory=list)

    @property
    def effort(self) -> Effort:
        """How hard to try."""
        return self.budget.effort

    def write(self, support: Support) -> PrunedForest | None:
        """Weights of a support on the grid, if every row survives the rounding.

        Raises `ExcludedError` where no weights on the support keep all rows. A ``writer`` of the
        game's own takes supports of another kind: the splits that stay (`collapsing`).
        """
        if self.writer is not None:
            return self.writer(self, support)
        weights = self.pruner.solve(support)
        if weights is None:
            raise ExcludedError
        pruned = self.on_grid(weights)
        if pruned is None:
            widest = self.constraints.program.widest(support, self.budget)
            pruned = None if widest is None else self.on_grid(widest)
        return pruned

    def on_grid(self, weights: Weights) -> PrunedForest | None:
        """Weights on the grid; None where a row does not survive the rounding."""
        write = to_grid if self.columns.leaf_column is None else leaves_to_grid
        pruned = write(self.problem, self.columns, weights, self.constraints.fit.reference)
        return None if pruned is None or self.constraints.loses(pruned) else pruned

    def learn(self, pruned: PrunedForest, verdict: Verdict) -> int:
        """Add counterexamples and, where a proof found them, what lies around them."""
        n_new = self.constraints.add(verdict.counterexamples)
        self.constraints.program.lp.work += _WORK_PER_ROUND * self.columns.n_columns**2
        if verdict.by_proof:
            self.constraints.add(self.oracle.climb(pruned, self.constraints, self.budget))
        self.walk()
        if verdict.by_proof:
            self._walk_from(verdict.counterexamples)
        return n_new

    def walk(self) -> None:
        """Rows from walks to the boundary that begin at fit rows and all over the region; once."""
        if self._walked:
            return
        self._walked.append(True)
        self.report_progress("walks")
        states = self.constraints.fit.states
        inside = states[self.problem.region.contains(states)]
        seed = self.options.seed
        random = np.random.default_rng(seed)
        n_walks = self.effort.n_walks
        if self.problem.region.slows_cp_sat:
            n_walks //= _FEWER_WALKS
        if len(inside):
            self._walk_from(inside[random.permutation(len(inside))[:n_walks]])
        if len(inside) and not self.in_a_hurry():
            starts = inside[random.integers(0, len(inside), n_walks)]
            n_moves = 4 * len(self.oracle.neighbourhood.varying)
            self._walk_from(wander(self.problem, starts, seed, n_moves, self.budget))
        self.report_progress("rows")

    def _walk_from(self, starts: npt.NDArray[Any]) -> None:
        """Add what walks to the boundary pass."""
        seed = self.options.seed
        passed = boundary_walks(self.oracle.neighbourhood, starts, seed, self.budget)
        self.constraints.add(passed, self.budget)

    def is_late(self) -> bool:
        """Whether what was proved once should be proved again at once."""
        limit = self.budget.deadline - self.budget.started
        return self.budget.elapsed >= min(_PATIENCE, limit / 10)

    def in_a_hurry(self, since: float = -math.inf) -> bool:
        """Whether a certified model now is worth more than a smaller one later.

        Late, and with a step that took long ``since`` it began. Never without a time limit: such
        searches repeat exactly, on any machine.
        """
        limit = self.budget.deadline - self.budget.started
        is_slow = time.monotonic() - since > _LONG * limit
        return self.budget.is_limited and self.is_late() and is_slow

    def prove_twice(self, budget: Budget | None = None) -> None:
        """The second proof of what is proved once."""
        if self.best.waiting:
            self.report_progress("prove again")
            self.best.prove_twice(self.oracle.prover, budget or self.budget)
            self.report_progress("certified")

    def report_progress(self, phase: str) -> None:
        """Log the step and call the user's callback."""
        best, smallest, bound = self.best.best, self.best.smallest, self.best.lower_bound
        unit, sizes = self.columns.name, [best.n_kept, smallest.n_kept]
        if self.options.unit == "leaf":
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


class ExcludedError(Exception):
    """No weights on a support keep all rows; raised inside the search only."""


def build_state(
    problem: Problem,
    fit_states: npt.NDArray[Any],
    budget: Budget,
    options: SearchOptions,
    start: WarmStart | None = None,
) -> SearchState:
    """S0 = D_fit, or the rows of an earlier search on copies of its own."""
    if start is None:
        columns = build_columns(problem, options.unit)
        constraints = Constraints(problem, columns, distinct_fit_rows(problem, fit_states, 0, budget.check))
    else:
        constraints = start.constraints.on(problem)
    pruner = Pruner(constraints, budget, None if start is None else start.cuts)
    best = Incumbent(constraints.columns, budget.began)
    if start is not None:
        best.bound = start.bound
        best.raise_bound(start.believed_bound)
    oracle = Oracle(problem, options.n_jobs)
    return SearchState(problem, constraints.columns, constraints, pruner, oracle, best, budget, options)
