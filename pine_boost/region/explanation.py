"""Why an input is or is not in a region, in feature names: the parts of its score, largest first.

This explains membership in the region, not the model's prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray
from pine_boost.model.states import StateSpace
from pine_boost.region.score_tables import ScoreTables

if TYPE_CHECKING:
    from pine_boost.region.region import Region


_MOST_REASONS = 8  # that the score gives


@dataclass(frozen=True)
class Reason:
    """One reason why an input is implausible.

    ``excess`` is the cost beyond the cheapest alternative, in nats (in steps of a path for the isolation
    forest); infinite if this part alone excludes the input.
    """

    features: tuple[str, ...]
    text: str
    excess: float


@dataclass(frozen=True)
class Explanation:
    """Whether one input is inside, its score against tau, and the reasons, most surprising first."""

    inside: bool
    score: int | None
    tau: int | None
    reasons: tuple[Reason, ...]

    def __str__(self) -> str:
        verdict = "inside" if self.inside else "outside"
        tau = "infinite" if self.tau is None else self.tau
        lines = [f"{verdict} the region: score {self.score}, tau {tau}"]
        return "\n".join([*lines, *(f"  {reason.text}" for reason in self.reasons)])


def explain_row(region: Region, states: npt.NDArray[Any], distance: float | None) -> Explanation:
    """Explain one state row; ``distance`` is the original's distance from its decision, if known."""
    reasons = _impossible(region, states[0])
    if distance is not None and region.delta is not None and distance < region.delta:
        text = f"the original is undecided: {distance:.4g} from its cut, at least {region.delta:.4g} is needed"
        reasons.append(Reason((), text, float("inf")))
    score = None
    if region.score_tables is not None:
        score = int(region.score_tables.score(states)[0])
        if region.score_tables.trees is None:
            found = _surprising_bins(region, region.score_tables, states[0])
        else:
            found = _better_changes(region, region.score_tables, states[0], score)
        reasons += sorted(found, key=lambda reason: -reason.excess)[:_MOST_REASONS]
    undecided = any(not reason.features for reason in reasons)
    inside = bool(region.tables.contains(states)[0]) and not undecided
    return Explanation(inside, score, region.tau, tuple(reasons))


def words(region: Region, feature: int, state: int) -> str:
    """A feature and its state in names: ``age >= 18 and < 21``, ``colour is red or blue``."""
    axis, name = region.space.axes[feature], region.schema.name_of(feature)
    known = region.schema.categories_of(feature)
    if axis.codes is None or axis.code_states is None or known is None:
        return f"{name} {region.space.describe(feature, state)}"
    labels = [str(known[c]) for c in axis.codes[axis.code_states == state] if c < len(known)]
    if not labels or state in (axis.other_state, axis.missing_state):
        return f"{name} {region.space.describe(feature, state)}"
    return f"{name} is {' or '.join(labels[:6])}" + (" or ..." if len(labels) > 6 else "")


def _impossible(region: Region, states: npt.NDArray[Any]) -> list[Reason]:
    reasons = []
    name_of = region.schema.name_of
    for feature, allowed in enumerate(region.tables.allowed):
        if not allowed[states[feature]]:
            text = f"impossible by the domain: {words(region, feature, int(states[feature]))}"
            reasons.append(Reason((name_of(feature),), text, float("inf")))
    for pair in region.tables.forbidden:
        if pair.forbidden[states[pair.first], states[pair.second]]:
            both = [words(region, j, int(states[j])) for j in (pair.first, pair.second)]
            names = (name_of(pair.first), name_of(pair.second))
            text = f"impossible by the domain: {both[0]} together with {both[1]}"
            reasons.append(Reason(names, text, float("inf")))
    for clause in region.tables.at_least_one:
        if not any(literal[states[feature]] for feature, literal in clause):
            members = tuple(name_of(feature) for feature, _ in clause)
            text = f"impossible by the domain: none of {', '.join(members)} is set"
            reasons.append(Reason(members, text, float("inf")))
    return reasons


def _surprising_bins(region: Region, score: ScoreTables, states: npt.NDArray[Any]) -> list[Reason]:
    """The terms of the score that cost more than their cheapest alternative."""
    bins = [int(table[states[feature]]) for feature, table in enumerate(score.bins)]
    reasons = []
    for feature, cost in enumerate(score.unary):
        excess = int(cost[bins[feature]] - cost.min())
        if excess > 0:
            text = _bin_words(region, score, feature, bins[feature])
            reasons.append(_reason(region, (feature,), text, excess, score.scale))
    for pair in score.pairs:
        row = pair.cost[bins[pair.first]]
        excess = int(row[bins[pair.second]] - row.min())
        if excess > 0:
            given = _bin_words(region, score, pair.first, bins[pair.first])
            found = _bin_words(region, score, pair.second, bins[pair.second])
            text = f"{found} given {given}"
            reasons.append(_reason(region, (pair.second, pair.first), text, excess, score.scale))
    return reasons


def _bin_words(region: Region, score: ScoreTables, feature: int, which: int) -> str:
    """A bin in words: its state, or the interval that its states span."""
    members = np.flatnonzero(score.bins[feature] == which)
    axis = region.space.axes[feature]
    spans = axis.codes is None and len(members) > 1 and members[-1] < axis.n_intervals
    if not spans or np.any(np.diff(members) != 1):
        return " or ".join(words(region, feature, int(state)) for state in members[:4])
    return f"{region.schema.name_of(feature)} {_span(region.space, feature, members)}"


def _span(space: StateSpace, feature: int, members: IntArray) -> str:
    n_intervals = space.axes[feature].n_intervals
    parts = []
    if members[0] > 0:
        parts.append(space.describe(feature, int(members[0])).partition(" and ")[0])
    if members[-1] < n_intervals - 1:
        parts.append(space.describe(feature, int(members[-1])).rpartition(" and ")[2])
    return " and ".join(parts) or "any value"


def _better_changes(region: Region, score: ScoreTables, states: npt.NDArray[Any], now: int) -> list[Reason]:
    """For scores over trees: what changing a single feature would gain."""
    reasons = []
    for feature, axis in enumerate(region.space.axes):
        if axis.n_states < 2:
            continue
        changed = np.tile(states, (axis.n_states, 1))
        changed[:, feature] = np.arange(axis.n_states)
        scores = np.where(region.tables.allowed[feature], score.score(changed), now)
        best = int(np.argmin(scores))
        if scores[best] < now:
            here = words(region, feature, int(states[feature]))
            text = f"{here} (likeliest here: {words(region, feature, best)})"
            gain = int(now - scores[best])
            reasons.append(_reason(region, (feature,), text, gain, score.scale))
    return reasons


def _reason(region: Region, features: tuple[int, ...], text: str, excess: int, scale: int) -> Reason:
    names = tuple(region.schema.name_of(feature) for feature in features)
    return Reason(names, f"{text}: +{excess / scale:.2f}", excess / scale)
