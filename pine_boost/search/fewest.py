"""The search for the fewest trees: cuts from below, shakes from above, in turns.

In comes a run with a model that stands; it is left with a smaller one, or with the proof that
there is none. Cuts ask for a set one smaller than the best until none is left; where that takes
long, sets of the same size nearby are tried too, from which fewer may be enough.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from pine_boost.search.pruner import Support

if TYPE_CHECKING:
    from pine_boost.search.run import Run

# Most searches end within fewer rounds of cuts (times as before), and what shakes find they
# mostly find in as many: FICO 40x3 19 -> 18 trees after 20 shakes, 18 -> 17 after 144.
_FIRST_SHAKE = 40
_MOST_SHAKES = 200


def search_fewest(run: Run) -> None:
    """Ask the cuts for a set one smaller than the best, until they prove there is none.

    A set whose weights do not survive the grid is passed over from then on. That proves
    nothing about its size, so the bound comes from the cuts alone.
    """
    passed_over: list[Support] = []
    nearby: Support | None = None
    last_program = run.pool.program.n_solved + run.effort.exact_programs
    for round_number in range(run.effort.exact_rounds):
        run.check_time()
        if run.is_late():
            run.confirm()
        if run.pool.program.n_solved > last_program or len(passed_over) > run.effort.passed_over:
            return
        run.tell("exact")
        support = _smaller_set(run, passed_over)
        if support is None:
            return
        verdict = run.stands(support)
        if verdict is None:
            passed_over.append(support)
        elif verdict is False:
            run.pruner.strengthen(support, run.seed + round_number)
        if _FIRST_SHAKE <= round_number < _FIRST_SHAKE + _MOST_SHAKES:
            before = run.pool.program.n_solved
            nearby = _shake(run, nearby, run.seed + round_number)
            last_program += run.pool.program.n_solved - before  # its own, not those of the cuts


def _smaller_set(run: Run, passed_over: list[Support]) -> Support | None:
    """A set that meets all cuts; None at the end, with the bound raised where that is a proof."""
    limits = (run.deadline - time.monotonic(), run.effort.master_effort)
    n_columns = run.smallest.n_kept - 1
    support = run.pruner.hitting_set(n_columns, *limits, passed_over)
    if support is None and passed_over:
        support = run.pruner.hitting_set(n_columns, *limits)
        if support is not None:
            return None
    if support is None:
        run.lower_bound = run.smallest.n_kept
    return support if isinstance(support, np.ndarray) else None


def _shake(run: Run, nearby: Support | None, seed: int) -> Support | None:
    """The next set nearby that wins on all rows; asked about where it is smaller than the best.

    None where the way from here is lost: the next shake begins at the best again.
    """
    start = run.columns_kept() if nearby is None else nearby
    shaken = run.pruner.shake(start, seed)
    if shaken is None:
        return None
    n_columns = np.count_nonzero(shaken)
    if n_columns < run.smallest.n_kept:
        return shaken if run.stands(shaken) else None
    return shaken if n_columns == run.smallest.n_kept else nearby
