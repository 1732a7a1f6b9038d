"""Algorithm 1: Pruner and Oracle in turns, anytime.

In come a game and the fit rows; out goes the smallest certified model found, with a lower bound.
Whenever it stops, it holds a model that was proved twice, at worst the original itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy.typing as npt

from pine_boost.proof.problem import Game
from pine_boost.search.fewest import search_fewest
from pine_boost.search.nearby import stay_near
from pine_boost.search.outcome import (
    Effort,
    Judge,
    Memory,
    OutOfEffort,
    OutOfTime,
    SearchResult,
    Step,
)
from pine_boost.search.run import Run
from pine_boost.search.weights import UnsolvedProgramError

__all__ = ["Effort", "Memory", "Run", "SearchResult", "Step", "explore", "finish", "search"]

_SECONDS_AFTER_CTRL_C = 2.0


def search(game: Game, fit_states: npt.NDArray[Any], **options: Any) -> SearchResult:
    """Find the smallest model that provably keeps every decided point of the region.

    Ctrl-C and the time limit return the best certified model, at worst the original itself.
    ``options`` are those of `explore`.
    """
    return finish(explore(game, fit_states, **options))


def explore(
    game: Game,
    fit_states: npt.NDArray[Any],
    *,
    objective: str = "l0",
    time_limit: float | None = None,
    n_jobs: int = 1,
    seed: int = 0,
    effort: Effort | None = None,
    callback: Callable[[Step], None] | None = None,
    memory: Memory | None = None,
    referee: Judge | None = None,
    larger: SearchResult | None = None,
    points: npt.NDArray[Any] | None = None,
    bound_only: bool = False,
) -> Run:
    """Search for the smallest model until it is settled; what it finds is proved once.

    Reads like algorithm 1 of the paper: rows from X_fit, then Pruner and Oracle in turns. A fast
    answer by backward elimination comes first, the exact search (minimum hitting set over cuts)
    uses the effort that is left. A run that takes long asks for second opinions by itself.
    ``memory`` continues from a search of the same model on a smaller region (larger alpha).
    ``referee`` is shown every candidate with the points that a proof named against it, and raises
    where they are none (`native.replay`). ``larger`` is the result of a larger region, whose
    model holds here; ``points`` are state rows to begin with, those in the region become rows;
    ``bound_only`` asks no Oracle and leaves only the bound of the rows.
    """
    run = Run(
        game, fit_states, time_limit, n_jobs, seed, effort or Effort(), callback, memory, referee
    )
    if larger is not None:
        run.adopt(larger)
    with _stopping(run):
        start = None if memory is None else memory.support
        run.add_fit_rows()
        if points is not None:
            run.pool.add(points[game.region.contains(points)])
        if start is not None:
            run.stands(start)
        elif larger is None or not run.is_optimal():
            if objective == "l0" and not bound_only:
                stay_near(run)
            run.walk()
        if bound_only:
            run.pruner.eliminate()
            run.is_optimal()
        elif objective == "l1":
            run.certify(lambda: run.pruner.lightest())
        elif not run.is_settled():
            while run.ascend() and run.in_a_hurry():
                pass
            if not run.is_optimal():
                # the cuts of an earlier search guide the exact one better than other orders do
                for order in range(run.effort.n_eliminations if start is None else 0):
                    run.certify(partial(run.pruner.eliminate, order or None))
                search_fewest(run)
    with _stopping(run):
        run.bound()
    run.points = run.pool.states
    run.seconds = time.monotonic() - run.started
    return run


def finish(
    run: Run, *, deadline: float | None = None, larger: SearchResult | None = None
) -> SearchResult:
    """The second opinion on what was explored, and the result.

    ``larger`` is the result for a larger region (a smaller alpha): what was proved there holds
    here, and where this run found nothing smaller, that model is the answer. After Ctrl-C, be
    it now or before, only a moment is left; another one ends that too.
    """
    started = time.monotonic()
    if deadline is not None:
        run.deadline = deadline
    if larger is not None:
        run.adopt(larger)
    for _ in range(2):
        if run.stopped == "interrupted":
            run.deadline = min(run.deadline, time.monotonic() + _SECONDS_AFTER_CTRL_C)
        with _stopping(run):
            run.confirm()
            run.look_for_undecided()
            break
    run.seconds += time.monotonic() - started
    return run.result()


@contextmanager
def _stopping(run: Run) -> Iterator[None]:
    """Whatever ends a part of the run, the best certified model stays."""
    try:
        yield
    except (OutOfTime, OutOfEffort, UnsolvedProgramError) as reason:
        if isinstance(reason, OutOfTime) or time.monotonic() >= run.deadline:
            run.stopped = "time" if run.stopped == "effort" else run.stopped
        else:
            run.gave_up = True
    except KeyboardInterrupt:
        run.stopped = "interrupted"
    except MemoryError:
        run.stopped = "memory"
