"""Distinct state rows of a table that is read in chunks.

In come chunks of states; out go at most `MOST_DISTINCT` distinct rows. Where there are
more, those with the smallest hashes are kept: a sample that no order of chunks changes.
The search begins with these rows; what it proves does not depend on them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pine_boost.model.states import States
from pine_boost.tables.overlap import Hashes, row_hashes

MOST_DISTINCT = 200_000
_LOGGER = logging.getLogger("pine_boost")


@dataclass(frozen=True, eq=False)
class DistinctStates:
    """Distinct state rows by ascending hash."""

    hashes: Hashes
    states: States


def distinct_of_chunk(states: States) -> DistinctStates:
    """The distinct rows of a chunk."""
    return _distinct(row_hashes(states.astype(np.float64)), states)


def distinct_states(chunks: Iterable[DistinctStates]) -> States:
    """The distinct rows of all chunks, at most `MOST_DISTINCT`."""
    total: DistinctStates | None = None
    is_cut = False
    for chunk in chunks:
        if total is not None:
            chunk = _distinct(
                np.concatenate([total.hashes, chunk.hashes]), np.concatenate([total.states, chunk.states])
            )
        is_cut |= len(chunk.hashes) > MOST_DISTINCT
        total = DistinctStates(chunk.hashes[:MOST_DISTINCT], chunk.states[:MOST_DISTINCT])
    assert total is not None
    if is_cut:
        _LOGGER.info("X_fit has more than %d distinct rows; a sample begins", MOST_DISTINCT)
    return total.states


def _distinct(hashes: Hashes, states: States) -> DistinctStates:
    distinct, first = np.unique(hashes, return_index=True)
    return DistinctStates(distinct, states[first])
