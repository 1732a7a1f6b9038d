"""Find the features and pairs of features that drifted: the parts of the score that cost more than when it was fitted.

Tree scores have no parts; for them, single-feature changes of inputs outside the region are explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pine_boost.model.forest import FloatArray
from pine_boost.model.states import States
from pine_boost.region.explanation import explain_row
from pine_boost.region.region import Region
from pine_boost.region.score_tables import ScoreTables

_EXPLAINED_ROWS = 100  # per batch, because every explanation needs a pass through the trees
SEPARATOR = "\u241f"  # between the names of a pair; no feature has this name


@dataclass(frozen=True)
class Drift:
    """A feature or pair whose values cost more than those that the score was fitted on.

    Attributes
    ----------
    features : tuple of str
    excess : float
        In nats per input (for tree scores, per explained input outside the region).
    """

    features: tuple[str, ...]
    excess: float

    def __str__(self) -> str:
        return f"{' given '.join(self.features)}: +{self.excess:.3f} per input"


def measure(region: Region, states: States, outside: States) -> tuple[int, dict[str, float]]:
    """Return the number of inputs measured and the summed cost of every part."""
    score = region.score_tables
    if score is None:
        return 0, {}
    if score.trees is None:
        return len(states), _costs(region, score, states)
    sums: dict[str, float] = {}
    some = outside[:_EXPLAINED_ROWS]
    for row in range(len(some)):
        found = explain_row(region, some[row : row + 1], None)
        for reason in found.reasons:
            if reason.features and np.isfinite(reason.excess):
                key = SEPARATOR.join(reason.features)
                sums[key] = sums.get(key, 0.0) + reason.excess
    return len(some), sums


def ranked(region: Region, n_measured: float, sums: Mapping[str, float], most: int = 8) -> list[Drift]:
    """Return the parts that cost more than expected, largest excess first."""
    score = region.score_tables
    if score is None or n_measured == 0:
        return []
    expected = {} if score.trees is not None else _expected(region, score)
    found = [
        Drift(tuple(key.split(SEPARATOR)), total / n_measured - expected.get(key, 0.0)) for key, total in sums.items()
    ]
    found = [drift for drift in found if drift.excess > 0]
    return sorted(found, key=lambda drift: -drift.excess)[:most]


def _costs(region: Region, score: ScoreTables, states: States) -> dict[str, float]:
    name = region.schema.name_of
    bins = [table[states[:, j]] for j, table in enumerate(score.bins)]
    sums = {name(j): float(cost[bins[j]].sum()) / score.scale for j, cost in enumerate(score.unary) if cost.any()}
    for pair in score.pairs:
        key = SEPARATOR.join((name(pair.second), name(pair.first)))
        total = float(pair.cost[bins[pair.first], bins[pair.second]].sum()) / score.scale
        sums[key] = sums.get(key, 0.0) + total
    return sums


def _expected(region: Region, score: ScoreTables) -> dict[str, float]:
    """Return the mean costs under the distribution that the tables describe.

    The Chow-Liu tree is a distribution: root first, every child given its parent. Other tables
    (a user's own score) have no expectation, and the whole cost counts as excess.
    """
    name, scale = region.schema.name_of, score.scale
    marginal: dict[int, FloatArray] = {}
    expected: dict[str, float] = {}
    children = {pair.second for pair in score.pairs}
    for j, cost in enumerate(score.unary):
        if j not in children:
            marginal[j] = _shares(cost / scale)
            expected[name(j)] = float(marginal[j] @ cost) / scale
    for pair in score.pairs:
        if pair.first not in marginal or pair.second in marginal:
            return {}
        given = np.stack([_shares(row / scale) for row in pair.cost])
        joint = marginal[pair.first][:, None] * given
        marginal[pair.second] = joint.sum(axis=0)
        key = SEPARATOR.join((name(pair.second), name(pair.first)))
        expected[key] = float((joint * pair.cost).sum()) / scale
    for j in children:
        expected[name(j)] = 0.0  # its own table only covers values that were never missing in X_fit
    return expected


def _shares(nats: FloatArray) -> FloatArray:
    shares = np.exp(-(nats - nats.min()))
    return np.asarray(shares / shares.sum())
