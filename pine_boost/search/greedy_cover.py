"""Small sets of units that meet every cut, without a solver.

If none is found there may still be one; only `proof.bound` can tell.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from pine_boost.model.forest import FloatArray
from pine_boost.proof.bound import Units
from pine_boost.search.lp_columns import Support

_ATTEMPTS = 4


def small_cover(
    cuts: Iterable[Units], n_units: int, most: int, seed: int, excluded: Sequence[Support] = ()
) -> Support | None:
    """A set of ``most`` units that meets all cuts and is not in ``excluded``, or None.

    Greedily adds the unit that meets most of the remaining cuts, short cuts counting more; then
    removes superfluous units and fills up with units that meet many cuts.
    """
    member: FloatArray = np.zeros((0, n_units))
    rows = [cut for cut in cuts if len(cut) < n_units]
    if rows:
        member = np.zeros((len(rows), n_units))
        lengths = [len(row) for row in rows]
        units = np.fromiter(itertools.chain.from_iterable(rows), np.int64, sum(lengths))
        member[np.repeat(np.arange(len(rows)), lengths), units] = 1.0
    random = np.random.default_rng(seed)
    weight = 1.0 / np.maximum(member.sum(axis=1), 1.0) ** 2
    for attempt in range(_ATTEMPTS):
        liking = random.uniform(1.0, 1.0 + 0.3 * attempt, n_units)
        cover = _greedy(member, weight, liking, most)
        if cover is None:
            continue
        popular = np.argsort(-(weight @ member) * liking, kind="stable")
        cover[popular[~cover[popular]][: most - np.count_nonzero(cover)]] = True
        if cover.any() and not any((cover == other).all() for other in excluded):
            return cover
    return None


def _greedy(member: FloatArray, weight: FloatArray, liking: FloatArray, most: int) -> Support | None:
    cover = np.zeros(member.shape[1], dtype=bool)
    left = weight.copy()
    met = np.zeros(len(member))
    order: list[int] = []
    while left.any():
        if len(order) > most + 2:
            return None
        unit = int(np.argmax((left @ member) * liking))
        order.append(unit)
        cover[unit] = True
        met += member[:, unit]
        left[member[:, unit] > 0] = 0.0
    for unit in order:  # early choices are often superfluous in the end
        without = met - member[:, unit]
        if (without > 0).all():
            cover[unit], met = False, without
    return cover if np.count_nonzero(cover) <= most else None
