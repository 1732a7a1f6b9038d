"""How much of alpha toss-ups should get: chosen from X_fit alone, by short searches.

In come a problem, what X_fit says of rare inputs and of toss-ups, and a budget; out goes the share
with the smallest model that a short search proves, 0 where none is smaller. X_cal takes no part, so
every choice keeps the guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from pine_boost.budget import Budget, Effort, StopReason
from pine_boost.model.forest import Forest
from pine_boost.proof.problem import Problem, build_problem, restated
from pine_boost.region.evidence import FitEvidence
from pine_boost.region.fitting import FittedRegion
from pine_boost.region.nesting import nest
from pine_boost.region.region import Region
from pine_boost.region.score_tables import ScoreTables
from pine_boost.search.algorithm import Explored, Known, play, proposals
from pine_boost.search.game import Game, SearchOptions, build_game
from pine_boost.search.nearby import lightest_units, unit_ranges

SHARES = (0.9, 0.75, 0.5, 0.25, 0.0)  # the search without toss-ups last: it can be slow
PART = 0.3  # of the time limit, for all short searches together
_MOMENT = 0.5  # seconds
_EFFORT = Effort(
    n_walks=100, n_eliminations=1, exact_rounds=20, exact_programs=400, passed_over=4,
    master_effort=0.2, proof_effort=4.0, box_limit=0,
)  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """The share of alpha for toss-ups, and the units that a short search kept with each share."""

    share: float
    kept: tuple[tuple[float, int], ...]
    interrupted: bool = False


@dataclass(frozen=True, eq=False)
class Chosen:
    """A region, its problem, and where there was something to choose, what was chosen."""

    region: Region
    problem: Problem
    choice: Choice | None = None

    def left_of(self, budget: Budget) -> Budget:
        """What the search may take: it begins now, and has next to nothing after Ctrl-C."""
        if self.choice is None:
            return budget
        return budget.within(_MOMENT if self.choice.interrupted else math.inf)


def settle_toss_ups(
    forest: Forest, fitted: FittedRegion, alpha: float, budget: Budget, options: SearchOptions
) -> Chosen:
    """The region as it was fitted or, with evidence for it, with the best share for toss-ups."""
    region = fitted.region
    problem = build_problem(forest, region.space, region.tables, delta=region.delta or 0.0)
    if fitted.fit is None or region.score_tables is None or region.tau is None:
        return Chosen(region, problem)
    choice = choose_share(
        problem, region.score_tables, fitted.fit, alpha, fitted.fit_states, budget, options
    )
    region = fitted.with_toss_ups(choice.share)
    problem = restated(problem, region.tables, region.delta or 0.0)
    return Chosen(region, problem, choice)


def choose_share(
    problem: Problem,
    score: ScoreTables,
    evidence: FitEvidence,
    alpha: float,
    fit_states: npt.NDArray[Any],
    budget: Budget,
    options: SearchOptions,
) -> Choice:
    """Search shortly in the region that each share would give if future inputs were like X_fit.

    Ties go to the smaller share. Without a time limit the choice repeats exactly.
    """
    part = budget.share(PART) if budget.is_limited else budget
    # whole trees tell shares apart as well as leaves do, and sooner
    unit = "tree" if options.unit == "leaf" else options.unit
    options = replace(options, unit=unit, reweight="tree")
    kept: list[tuple[float, int]] = []
    for number, share in enumerate(SHARES):
        if part.is_over:
            break
        tau, delta = expected_region(evidence, share, alpha)
        tables = replace(problem.region, tau=tau, score=score)
        own = part.share(1 / (len(SHARES) - number)) if part.is_limited else part
        own = replace(own, callback=None).with_effort(_EFFORT)
        game = build_game(restated(problem, tables, delta or 0.0), fit_states, own, options)
        explored = Explored(game)
        play(explored, proposals(game, Known()))
        if explored.stopped is StopReason.INTERRUPTED:
            return Choice(0.0, (), interrupted=True)
        kept.append((share, _kept(game)))
    kept.reverse()
    best = min(kept, key=lambda tried: tried[1], default=(0.0, 0))
    return Choice(best[0], tuple(kept))


def _kept(game: Game) -> int:
    """Units of the smallest model that was proved, or that the room for toss-ups alone allows."""
    found = game.best.smallest.n_kept
    if game.problem.delta == 0:
        return found
    return min(found, game.columns.n_units - lightest_units(game, unit_ranges(game))[1])


def expected_region(evidence: FitEvidence, share: float, alpha: float) -> tuple[int, float | None]:
    """Tau and delta of a share if future inputs were like X_fit."""
    if share > 0:
        return nest(evidence, share).expected(alpha)
    scores = evidence.scores
    return int(scores[min(len(scores) - 1, int(len(scores) * (1 - alpha)))]), None
