"""Distinct state rows of a table that is read in chunks, and how often each occurs.

In come chunks of states; out go at most `MOST_DISTINCT` distinct rows with their counts. Where
there are more, those with the smallest hashes are kept: a sample that no order of chunks changes.
The search begins with these rows; what it proves does not depend on them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pine_boost.model.forest import IntArray
from pine_boost.tables.overlap import Hashes, row_hashes
from pine_boost.tables.rows import States

MOST_DISTINCT = 200_000
_LOGGER = logging.getLogger("pine_boost")


@dataclass(frozen=True, eq=False)
class StateCounts:
    """Distinct state rows by ascending hash."""

    hashes: Hashes
    states: States
    counts: IntArray


def count_states(states: States) -> StateCounts:
    """The distinct rows of a chunk."""
    hashes = row_hashes(states.astype(np.float64))
    return _together(hashes, states, np.ones(len(states), dtype=np.int64))


def distinct_states(chunks: Iterable[StateCounts]) -> tuple[States, IntArray]:
    """The distinct rows of all chunks, at most `MOST_DISTINCT`, and their counts."""
    total: StateCounts | None = None
    is_cut = False
    for chunk in chunks:
        if total is not None:
            chunk = _together(
                np.concatenate([total.hashes, chunk.hashes]),
                np.concatenate([total.states, chunk.states]),
                np.concatenate([total.counts, chunk.counts]),
            )
        # a row that is kept in the end was among the smallest hashes all the time, so that none
        # of its occurrences is missed
        is_cut |= len(chunk.hashes) > MOST_DISTINCT
        kept = slice(MOST_DISTINCT)
        total = StateCounts(chunk.hashes[kept], chunk.states[kept], chunk.counts[kept])
    assert total is not None
    if is_cut:
        _LOGGER.info("X_fit has more than %d distinct rows; a sample begins", MOST_DISTINCT)
    return total.states, total.counts


def _together(hashes: Hashes, states: States, counts: IntArray) -> StateCounts:
    distinct, first, place = np.unique(hashes, return_index=True, return_inverse=True)
    return StateCounts(distinct, states[first], np.bincount(place, weights=counts).astype(np.int64))
