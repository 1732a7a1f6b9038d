"""The search in stages, from larger regions inwards, where the region itself is hard to prove on.

In come a game and the fit rows; out goes the smallest certified model found. A score with trees of
its own (Isolation Forest) makes proofs hard: there a first model comes from the whole domain, and
each stage nearer to the region may replace it by a smaller one.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.proof.enclosures import Enclosure, enclosures
from pine_boost.proof.problem import Game
from pine_boost.search.algorithm import explore, finish
from pine_boost.search.outcome import Effort, Judge, SearchResult

_STAGE_EFFORT = 20.0  # deterministic seconds of CP-SAT per proof; an easier stage has an answer


def search_inwards(
    game: Game,
    fit_states: npt.NDArray[Any],
    *,
    time_limit: float | None = None,
    effort: Effort | None = None,
    referee: Judge | None = None,
    larger: SearchResult | None = None,
    **options: Any,
) -> SearchResult:
    """`loop.search`, by way of larger regions where the game has any that are easier.

    ``larger`` is the result of a region that contains this one, if there is one already;
    ``options`` are those of `explore`.
    """
    started = time.monotonic()
    outer = enclosures(game)
    effort = effort or Effort()
    if not outer:
        options |= {"time_limit": time_limit, "effort": effort, "referee": referee}
        return finish(explore(game, fit_states, larger=larger, **options))
    if larger is not None:
        outer = outer[1:]  # instead of the whole domain
    effort = replace(effort, proof_effort=min(effort.proof_effort, _STAGE_EFFORT))
    found = larger
    points = fit_states[:0].astype(np.int32)
    hopeful, rounds = True, 0
    for number, stage in enumerate(outer):
        run = explore(
            stage.game, stage.outward(fit_states), effort=effort, larger=found,
            referee=None if referee is None else referee.of(stage.game),
            time_limit=_share(time_limit, started, len(outer) + 1 - number),
            points=stage.outward(points), **options,
        )  # fmt: skip
        before, found = found, _named(finish(run), stage, found)
        points = np.concatenate([points, stage.inward(run.points)])
        rounds += run.rounds
        if run.stopped == "interrupted":
            return replace(found, lower_bound=1, points=points, stopped="interrupted")
        is_new = before is None or found.pruned is not before.pruned
        if (run.gave_up or run.stopped == "time") and not is_new:
            hopeful = False  # nearer to the region proofs only get harder
            break
    run = explore(
        game, fit_states, time_limit=_share(time_limit, started, 1), effort=effort, larger=found,
        referee=referee, points=points, bound_only=not hopeful, **options,
    )  # fmt: skip
    result = finish(run)
    return replace(result, rounds=rounds + run.rounds, seconds=time.monotonic() - started)


def _named(found: SearchResult, stage: Enclosure, before: SearchResult | None) -> SearchResult:
    """The result with its proofs saying where they hold; those of an earlier stage say it."""
    if before is not None and found.pruned is before.pruned:
        return found
    proofs = tuple(
        replace(proof, method=f"{proof.method} ({stage.name})") for proof in found.proofs
    )
    return replace(found, proofs=proofs)


def _share(time_limit: float | None, started: float, n_left: int) -> float | None:
    """Seconds for the next of the stages that are left."""
    if time_limit is None:
        return None
    return max((time_limit - (time.monotonic() - started)) / n_left, 1e-3)
