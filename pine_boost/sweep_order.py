"""The order in which the alphas of a sweep are searched, and what one leaves to the next.

In comes a plan: one model, its region at the largest alpha and the grid; out goes a certified
answer per alpha, ascending. Regions grow from the largest alpha to 0, so rows and cuts found for
one hold for all that follow; proofs hold the other way round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from pine_boost.model.forest import Model
from pine_boost.native.replay import Referee
from pine_boost.proof.problem import Game, build_game
from pine_boost.region.enclosing import enclosing
from pine_boost.region.region import Region
from pine_boost.search.algorithm import Effort, Memory, Run, SearchResult, Step, explore, finish
from pine_boost.search.stages import search_inwards

# Second opinions of CP-SAT in another configuration: boxes take two to seven times as long.
_EFFORT = Effort(box_limit=0)
Found = tuple[Region, Game, SearchResult]


@dataclass(frozen=True, eq=False)
class SweepPlan:
    """What a sweep is asked: the model, the region of the largest alpha, X_fit, the grid.

    ``time_limit`` counts from ``started``, in terms of ``time.monotonic``.
    """

    parsed: Model
    largest: Region
    fit_states: npt.NDArray[Any]
    grid: tuple[float, ...]
    objective: str
    unit: str
    time_limit: float | None
    n_jobs: int
    seed: int
    callback: Callable[[float, Step], None] | None
    started: float

    def game(self) -> Game:
        """The game at the largest alpha; others differ in the region only."""
        return build_game(
            self.parsed.forest, self.largest.space, self.largest.tables, unit=self.unit,
            delta=self.largest.delta or 0.0,
        )  # fmt: skip

    def options(self, alpha: float, region: Region, game: Game, n_left: int) -> dict[str, Any]:
        """The options of one search, with an equal share of the time that is left."""
        seconds = None
        if self.time_limit is not None:  # some is left for the second opinions
            passed = time.monotonic() - self.started
            seconds = max((0.9 * self.time_limit - passed) / n_left, 1e-3)
        return {
            "objective": self.objective,
            "n_jobs": self.n_jobs,
            "seed": self.seed,
            "time_limit": seconds,
            "callback": _told(self.callback, alpha),
            "referee": Referee(self.parsed, region, game),
        }


def search_alphas(plan: SweepPlan) -> Iterator[Found]:
    """A certified answer per alpha, ascending; Ctrl-C leaves out those not yet begun."""
    return _inwards(plan) if enclosing(plan.largest.tables) else _outwards(plan)


def _outwards(plan: SweepPlan) -> Iterator[Found]:
    """Explore from the smallest region to the largest, confirm the other way round."""
    runs: list[tuple[Region, Run]] = []
    memory: Memory | None = None
    game = plan.game()
    for alpha in sorted(plan.grid, reverse=True):
        region = plan.largest.with_alpha(alpha)
        game = replace(game, region=region.tables)
        options = plan.options(alpha, region, game, len(plan.grid) - len(runs))
        run = explore(game, plan.fit_states, effort=_EFFORT, memory=memory, **options)
        runs.append((region, run))
        if run.stopped == "interrupted":
            break
        memory = run.memory()
    deadline = None if plan.time_limit is None else plan.started + plan.time_limit
    larger: SearchResult | None = None
    for region, run in reversed(runs):
        larger = finish(run, deadline=deadline, larger=larger)
        yield region, run.game, larger


def _inwards(plan: SweepPlan) -> Iterator[Found]:
    """Search from the largest region to the smallest: each begins with a model that holds there.

    For scores that make proofs hard, where a certified model soon is worth more than shared rows.
    """
    game = plan.game()
    larger: SearchResult | None = None
    for number, alpha in enumerate(plan.grid):
        region = plan.largest.with_alpha(alpha)
        game = replace(game, region=region.tables)
        options = plan.options(alpha, region, game, len(plan.grid) - number)
        larger = search_inwards(game, plan.fit_states, larger=larger, **options)
        yield region, game, larger
        if larger.stopped == "interrupted":
            break


def _told(
    callback: Callable[[float, Step], None] | None, alpha: float
) -> Callable[[Step], None] | None:
    if callback is None:
        return None
    return lambda step: callback(alpha, step)
