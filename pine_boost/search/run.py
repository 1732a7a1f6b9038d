"""One run of the search: what Pruner and Oracle do in turns, and what they hold between turns.

In come a game and the fit rows; the steps of algorithm 1 are methods that `loop.search` calls in
order. The best certified model is always in ``best``; a step that runs out raises.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import PrunedForest
from pine_boost.proof.problem import Game
from pine_boost.proof.two_proofs import first_opinion, second_opinion
from pine_boost.proof.undecided import find_undecided
from pine_boost.search.fit_rows import distinct_fit_rows
from pine_boost.search.grid import to_grid
from pine_boost.search.oracle import Answer, Oracle, Proof
from pine_boost.search.outcome import (
    Effort,
    Judge,
    Memory,
    OutOfEffort,
    OutOfTime,
    SearchResult,
    Step,
)
from pine_boost.search.pruner import Pruner, Support
from pine_boost.search.rows import RowPool
from pine_boost.search.walks import boundary_walks, wander
from pine_boost.search.weights import Weights

_LOGGER = logging.getLogger("pine_boost")
# A model proved once waits for its second opinion, since the next one is often smaller; but not
# when the run is older than this or a tenth of its time: whoever stops it then loses nothing.
_PATIENCE = 20.0
_LONG = 0.02  # of the time limit: a step of a run in a hurry that asks for longer ones
_FEWER_WALKS = 4  # where the score has trees of its own: a walk takes many times as long


class Run:
    """What one search holds between its steps."""

    def __init__(
        self,
        game: Game,
        fit_states: npt.NDArray[Any],
        time_limit: float | None,
        n_jobs: int,
        seed: int,
        effort: Effort,
        callback: Callable[[Step], None] | None,
        memory: Memory | None,
        referee: Judge | None = None,
    ) -> None:
        self.started = time.monotonic()
        self.is_limited = time_limit is not None
        limit = time_limit if time_limit is not None else 1e9
        self.deadline = self.started + limit
        self.late = self.started + min(_PATIENCE, limit / 10)
        self.game, self.seed, self.effort, self.callback = game, seed, effort, callback
        self.referee = referee
        self.pool = RowPool(game) if memory is None else memory.pool
        self.pruner = Pruner(self.pool) if memory is None else memory.pruner
        self.pool.move_to(game)
        self.pruner.before_program = self.check_time
        self.pool.program.deadline = self.deadline
        self.oracle = Oracle(game, n_jobs)
        self.oracle.neighbourhood.before_feature = self.check_time
        self.fit_rows = distinct_fit_rows(game, fit_states) if memory is None else memory.fit_rows
        self.best = SearchResult(
            None, (), game.n_units, 0, 0, 0, "effort", reference=self.fit_rows.reference
        )
        self.waiting: list[SearchResult] = []  # smaller than the best, proved once
        self.points = self.pool.states
        self.has_walked = False
        self.seconds = 0.0
        self.stopped = "effort"
        self.gave_up = False  # a proof or a program took more than its share
        self.undecided: bool | None = None
        self.lower_bound = 1 if memory is None else memory.lower_bound
        self.rounds = 0
        self.steps = 0

    def add_fit_rows(self) -> None:
        """Rows before the oracle: distinct fit rows, those near the boundary first."""
        if len(self.pool) == 0:  # a memory has them already
            self.pool.add(self.fit_rows.nearest())

    def walk(self) -> None:
        """Rows from walks to the boundary that begin at fit rows and all over the region; once."""
        if self.has_walked:
            return
        self.has_walked = True
        self.tell("walks")
        states = self.fit_rows.states
        inside = states[self.game.region.contains(states)]
        random = np.random.default_rng(self.seed)
        if len(inside):
            n_walks = self.effort.n_walks
            if self.oracle.has_score_trees:
                n_walks //= _FEWER_WALKS
            self.walk_from(inside[random.permutation(len(inside))[:n_walks]])
        if len(inside) and not self.in_a_hurry():
            starts = inside[random.integers(0, len(inside), n_walks)]
            n_moves = 4 * len(self.oracle.neighbourhood.varying)
            self.walk_from(wander(self.game, starts, self.seed, n_moves))
        self.tell("rows")

    def walk_from(self, starts: npt.NDArray[Any]) -> int:
        """Add what walks to the boundary pass."""
        return self.pool.add(boundary_walks(self.oracle.neighbourhood, starts, self.seed))

    @property
    def smallest(self) -> SearchResult:
        """The smallest model that stands so far, be it proved once or twice."""
        return self.waiting[-1] if self.waiting else self.best

    def ascend(self) -> bool:
        """A certified model soon: a small support, and one more column per refutation.

        In a hurry slow steps double: a larger model that can be proved comes before the smallest.
        True if it is smaller than what was known.
        """
        weights = self.pruner.eliminate()
        support = None if weights is None else weights.weights > 0
        n_more, known = 1, self.smallest.n_kept
        while support is not None and np.count_nonzero(support) < self.smallest.n_kept:
            started = time.monotonic()
            if self.stands(support, briefly=True):
                return self.smallest.n_kept < known
            if self.in_a_hurry(since=started):
                room = self.smallest.n_kept - int(np.count_nonzero(support))
                n_more = max(1, min(2 * n_more, room // 2))
            support = self.pruner.repair(support, n_more)
        return False

    def support(self) -> Support | None:
        """The columns of the smallest model; None where that is the original."""
        if self.smallest.pruned is None:
            return None
        return self.columns_of(self.smallest.pruned)

    def columns_kept(self) -> Support:
        """The columns of the smallest model, be it the original."""
        kept = self.support()
        return np.ones(self.game.n_units, dtype=bool) if kept is None else kept

    def columns_of(self, pruned: PrunedForest) -> Support:
        """The columns that a model keeps."""
        return np.bincount(self.game.unit[pruned.kept], minlength=self.game.n_units) > 0

    def certify(self, propose: Callable[[], Any]) -> bool:
        """Propose weights and let the Oracle object, until it cannot; True if the model is new."""
        while True:
            weights = propose()
            if weights is None or np.count_nonzero(weights.weights) >= self.smallest.n_kept:
                return False
            if self.stands(weights.weights > 0) is not False:
                return True

    def stands(self, support: Support, *, briefly: bool = False) -> bool | None:
        """Whether a support can be certified: True, False (excluded by rows), None (cannot tell).

        Rows found on the way stay; the weights follow them until the Oracle is silent or no
        weights on this support keep all rows. ``briefly``: in a hurry one counterexample that
        took long is enough to give the support up (False).
        """
        while True:
            self.check_time()
            weights = self.pruner.solve(support)
            if weights is None:
                return False
            pruned = self.write(weights) or self.write(self.pool.program.widest(support))
            if pruned is None:
                return None
            self.rounds += 1
            self.tell("climb")
            if self.pool.add(self.fit_rows.lost_by(self.game, pruned)):
                continue
            climbed = self.oracle.climb(pruned, self.pool)
            if self.pool.add(climbed):
                self.replay(pruned, climbed)
                self.walk()
                continue
            started = time.monotonic()
            proofs = self.prove(pruned)
            if proofs is not None:
                self.hold(pruned, proofs)
                if self.is_late():
                    self.confirm()
                return True
            if briefly and self.in_a_hurry(since=started):
                return False

    def hold(self, pruned: PrunedForest, proofs: tuple[Proof, ...]) -> None:
        """A model proved once waits for its second opinion, if it is smaller than what is known."""
        n_kept = int(np.count_nonzero(self.columns_of(pruned)))
        if n_kept < self.smallest.n_kept:
            found = replace(self.best, pruned=pruned, proofs=proofs, n_kept=n_kept)
            self.waiting.append(found)

    def confirm(self, effort: Effort | None = None) -> None:
        """The second opinion: the smallest model that passes it too becomes the best.

        Where it does not end (within the run's effort or another one), the next larger one is
        asked about; where it objects (then one of the two methods is wrong), the columns start
        anew with what was found.
        """
        while self.waiting:
            found = self.waiting[-1]
            assert found.pruned is not None
            try:
                second = self.prove(found.pruned, second_opinion, effort)
                if second is None:
                    self.waiting.pop()
                    self.stands(self.columns_of(found.pruned))
                    continue
            except OutOfEffort:
                self.waiting.pop()
                continue
            self.best = replace(found, proofs=(*found.proofs, *second))
            self.waiting.clear()
            self.tell("certified")

    def prove(
        self,
        pruned: PrunedForest,
        opinion: Callable[..., list[Proof]] = first_opinion,
        effort: Effort | None = None,
    ) -> tuple[Proof, ...] | None:
        """A proof of every question; None after adding what spoke against one."""
        self.tell("prove" if opinion is first_opinion else "prove again")
        proofs = opinion(self.oracle, pruned, effort or self.effort, self.deadline)
        return None if self.objections(pruned, proofs) else tuple(proofs)

    def objections(self, pruned: PrunedForest, proofs: list[Proof]) -> bool:
        """Add counterexamples and what lies around them; stop where a proof did not end."""
        against = [proof.states for proof in proofs if proof.states is not None]
        if against:
            if self.pool.add(np.stack(against)) == 0:
                raise ArithmeticError("A proof ended with a point that the rows exclude.")
            around = self.oracle.climb(pruned, self.pool)
            self.replay(pruned, np.concatenate([np.stack(against), around]))
            self.pool.add(around)
            self.walk()
            self.walk_from(np.stack(against))
            return True
        answers = {proof.answer for proof in proofs}
        if Answer.UNKNOWN in answers:
            raise OutOfTime if time.monotonic() >= self.deadline - 0.5 else OutOfEffort
        return False

    def replay(self, pruned: PrunedForest, states: npt.NDArray[Any]) -> None:
        """Show counterexamples to the referee, who raises where they are none."""
        if self.referee is not None:
            self.referee(pruned, states)

    def is_settled(self) -> bool:
        """Whether the smallest model meets a bound that is known already."""
        return self.lower_bound >= self.smallest.n_kept

    def is_optimal(self) -> bool:
        """Whether the columns that nothing can do without already make up the best model."""
        if self.is_settled():
            return True
        self.pruner.find_essential(self.columns_kept(), to_the_end=not self.in_a_hurry())
        essential = sum(len(cut) == 1 for cut in self.pruner.cuts)
        self.lower_bound = max(self.lower_bound, essential)
        return self.is_settled()

    def write(self, weights: Weights | None) -> PrunedForest | None:
        """Weights on the grid, if every row survives the rounding."""
        if weights is None:
            return None
        pruned = to_grid(self.game, weights, self.pool.column_scale, self.fit_rows.reference)
        return None if pruned is None or self.pool.loses(pruned) else pruned

    def adopt(self, larger: SearchResult) -> None:
        """Take over a model that was proved on a larger region, unless a smaller one is known."""
        self.undecided = larger.undecided if larger.undecided is False else None
        if larger.pruned is not None and larger.n_kept < self.best.n_kept:
            self.best = larger
            self.waiting = [found for found in self.waiting if found.n_kept < larger.n_kept]

    def look_for_undecided(self) -> None:
        """Whether the claim needs an exception: inputs where rounding decides the original."""
        if self.best.pruned is not None and self.undecided is None:
            encoding = self.oracle.encoding if self.game.undecided else None
            self.undecided = find_undecided(self.game, encoding, self.deadline)

    def bound(self) -> None:
        """The lower bound that the cuts give; a run that was stopped spends little on it."""
        if not self.is_settled():
            seconds = 1e8 if self.stopped == "effort" else 0.5
            found = self.pruner.lower_bound(seconds, self.effort.master_effort)
            self.lower_bound = max(self.lower_bound, min(found, self.smallest.n_kept))

    def memory(self) -> Memory:
        """What the search of a larger region may begin with."""
        return Memory(self.pool, self.pruner, self.fit_rows, self.lower_bound, self.support())

    def result(self) -> SearchResult:
        """The best model, and how far the run came."""
        is_optimal = self.best.n_kept <= self.lower_bound
        return replace(
            self.best,
            lower_bound=min(self.lower_bound, self.best.n_kept),
            rounds=self.rounds,
            rows=len(self.points),
            stopped="optimal" if is_optimal else self.stopped,
            undecided=self.undecided,
            seconds=self.seconds,
            points=self.points,
        )

    def is_late(self) -> bool:
        """Whether what was proved once should be proved again at once."""
        return time.monotonic() >= self.late

    def in_a_hurry(self, since: float = -math.inf) -> bool:
        """Whether a certified model now is worth more than a smaller one later.

        Late, and with a step that took long ``since`` it began. Never without a time limit: such
        runs repeat exactly, on any machine.
        """
        is_slow = time.monotonic() - since > _LONG * (self.deadline - self.started)
        return self.is_limited and self.is_late() and is_slow

    def check_time(self) -> None:
        """Stop the run when its time is over."""
        if time.monotonic() >= self.deadline:
            raise OutOfTime

    def tell(self, phase: str) -> None:
        """Log the step and call the user's callback."""
        self.steps += 1
        step = Step(
            self.steps,
            phase,
            self.best.n_kept,
            min(self.lower_bound, self.best.n_kept),
            len(self.pool),
            time.monotonic() - self.started,
        )
        _LOGGER.debug(
            "%s: %d trees, at least %d, %d rows", phase, step.trees, step.lower_bound, step.rows
        )
        if self.callback is not None:
            self.callback(step)
