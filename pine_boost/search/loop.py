"""Algorithm 1: Pruner and Oracle in turns, anytime.

In come a game and the fit rows; out goes the smallest certified model found, with a lower bound.
Whenever it stops, it holds a model that was proved twice, at worst the original itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy.typing as npt

from pine_boost.forest import PrunedForest
from pine_boost.search.game import Game
from pine_boost.search.run import (
    Effort,
    Memory,
    OutOfEffort,
    OutOfTime,
    Run,
    SearchResult,
    Step,
)

__all__ = ["Effort", "Memory", "SearchResult", "Step", "search"]


def search(
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
    referee: Callable[[PrunedForest, npt.NDArray[Any]], None] | None = None,
) -> SearchResult:
    """Find the smallest model that provably keeps every decided point of the region.

    Reads like algorithm 1 of the paper: rows from X_fit, then Pruner and Oracle in turns. A fast
    answer by backward elimination comes first, the exact search (minimum hitting set over cuts)
    uses the effort that is left. Ctrl-C and the time limit return the best certified model.
    ``memory`` continues from a search of the same model on a smaller region (larger alpha).
    ``referee`` is shown every candidate with the points that a proof named against it, and raises
    where they are none (`pine_boost.referee`).
    """
    run = Run(
        game, fit_states, time_limit, n_jobs, seed, effort or Effort(), callback, memory, referee
    )
    stopped = "effort"
    try:
        start = None if memory is None else memory.support
        if start is not None:
            run.stands(start)
        if not run.is_settled():
            run.warm_start()
        if objective == "l1":
            run.certify(lambda: run.pruner.lightest())
        elif not run.is_settled():
            run.ascend(start)
            if not run.is_optimal():
                # the cuts of an earlier search guide the exact one better than other orders do
                for order in range(run.effort.n_eliminations if start is None else 0):
                    run.certify(partial(run.pruner.eliminate, order or None))
                run.search_exactly()
    except OutOfTime:
        stopped = "time"
    except OutOfEffort:
        stopped = "effort"
    except KeyboardInterrupt:
        stopped = "interrupted"
    except MemoryError:
        stopped = "memory"
    result = run.best
    if run.lower_bound < result.n_kept:
        seconds = 1e8 if stopped == "effort" else 0.5
        try:
            run.lower_bound = run.pruner.lower_bound(seconds, run.effort.master_effort)
        except KeyboardInterrupt:
            stopped = "interrupted"  # the model is certified, only a better bound is lost
    if result.n_kept <= run.lower_bound:
        stopped = "optimal"
    bound = min(run.lower_bound, result.n_kept)
    return replace(
        result,
        lower_bound=bound,
        rounds=run.rounds,
        rows=len(run.pool),
        stopped=stopped,
        seconds=time.monotonic() - run.started,
        memory=Memory(run.pool, run.pruner, bound, run.best_support()),
    )
