"""Rules that add one member after another to a growing sub-ensemble.

In come an ensemble's members and a size; out go the members kept, in the order they were added. All
begin with the member that errs least; a sub-ensemble decides by its summed scores.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.pruning_rules.members import IntArray, Members

CANDIDATE_SHARE = 0.3  # Li, Yu and Zhou: 0.2 to 0.5 of the candidates, the most different ones
OBJECTIVE = 0.075  # Martinez-Munoz, Hernandez-Lobato and Suarez 2009: every row just right


def grow(members: Members, n_kept: int, choose: Callable[[list[int], IntArray], int]) -> IntArray:
    """Begin with the best member; add what ``choose(kept, rest)`` says."""
    kept = [int(np.argmin(members.errors))]
    while len(kept) < n_kept:
        rest = np.setdiff1d(np.arange(members.n_members), kept)
        kept.append(int(choose(kept, rest)))
    return np.array(kept[:n_kept], dtype=np.int64)


def reduced_error(members: Members, n_kept: int) -> IntArray:
    """Margineantu, Dietterich 1997: the member with which the sub-ensemble errs least."""

    def choose(kept: list[int], rest: IntArray) -> int:
        return int(rest[int(np.argmin(joint_errors(members, kept, rest)))])

    return grow(members, n_kept, choose)


def complementariness(members: Members, n_kept: int) -> IntArray:
    """Martinez-Munoz, Suarez 2004: right most often where the sub-ensemble is wrong."""

    def choose(kept: list[int], rest: IntArray) -> int:
        is_wrong = members.decide(kept) != members.y
        return int(rest[int(np.argmax(members.is_right[rest][:, is_wrong].sum(axis=1)))])

    return grow(members, n_kept, choose)


def margin_distance(members: Members, n_kept: int) -> IntArray:
    """Martinez-Munoz, Suarez 2004: mean signature nearest to a point where all rows are just right.

    A signature is +1 where a member is right, else -1; the mean is over the whole ensemble's size.
    """
    signatures = 2.0 * members.is_right - 1.0

    def choose(kept: list[int], rest: IntArray) -> int:
        mean = (signatures[kept].sum(axis=0) + signatures[rest]) / members.n_members
        return int(rest[int(np.argmin(((mean - OBJECTIVE) ** 2).sum(axis=1)))])

    return grow(members, n_kept, choose)


def drep(members: Members, n_kept: int) -> IntArray:
    """Li, Yu, Zhou 2012: of the candidates that differ most, the one that leaves fewest errors."""

    def choose(kept: list[int], rest: IntArray) -> int:
        same = (members.votes[rest] == members.decide(kept)).mean(axis=1)
        n_candidates = max(1, int(np.ceil(CANDIDATE_SHARE * len(rest))))
        candidates = rest[np.argsort(same, kind="stable")[:n_candidates]]
        return int(candidates[int(np.argmin(joint_errors(members, kept, candidates)))])

    return grow(members, n_kept, choose)


def joint_errors(members: Members, kept: list[int], rest: IntArray) -> IntArray:
    """Errors of the sub-ensemble with each of the rest added to it."""
    joint = members.scores[kept].sum(axis=0) + members.offset + members.scores[rest]
    return np.asarray((joint.argmax(axis=2) != members.y).sum(axis=1))
