"""Rules that score every member once and keep the best.

In come an ensemble's members and a size; out go the members kept, best first. The sub-ensemble that
results is never looked at.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from benchmarks.pruning_rules.members import FloatArray, IntArray, Members, lowest

MARGIN_SHARE = 0.2  # Guo et al. weigh margin and diversity 0.2 to 0.8


def individual_error(members: Members, n_kept: int) -> IntArray:
    """Fewest errors of its own: "choose the best" of Partridge and Yates 1996.

    PyPruning names Jiang et al. 2017 for it.
    """
    return lowest(members.errors, n_kept)


def individual_contribution(members: Members, n_kept: int) -> IntArray:
    """Lu, Wu, Zhu, Bongard 2010: right votes count more the fewer agree, wrong ones against."""
    return lowest(-contributions(members), n_kept)


def contributions(members: Members) -> FloatArray:
    """Individual contribution of every member (Lu et al. 2010, definition 3)."""
    counts, y = members.vote_counts, members.y
    rows = np.arange(len(y))
    ordered = np.sort(counts, axis=1)
    most, second = ordered[:, -1], ordered[:, -2]
    majority = counts.argmax(axis=1)
    found = np.empty(members.n_members)
    for i, vote in enumerate(members.votes):
        own, right = counts[rows, vote], counts[rows, y]
        if_right = np.where(vote == majority, second, 2 * most - own)
        found[i] = np.where(vote == y, if_right, right - own - most).sum()
    return found


def individual_margin_diversity(members: Members, n_kept: int) -> IntArray:
    """Guo, Liu, Li, Wu, Guo, Xu 2018 (MDEP): right where the vote is close and few agree."""
    return lowest(-margin_diversities(members), n_kept)


def margin_diversities(members: Members) -> FloatArray:
    """Sum over a member's right rows of ``-0.2 log |margin| - 0.8 log share of right votes``."""
    counts, y, n_members = members.vote_counts, members.y, members.n_members
    rows = np.arange(len(y))
    right = counts[rows, y]
    rivals = counts.copy()
    rivals[rows, y] = -1
    margin = np.maximum(np.abs(right - rivals.max(axis=1)), 0.5) / n_members  # no log of 0
    share = np.maximum(right, 0.5) / n_members
    weight = -MARGIN_SHARE * np.log(margin) - (1 - MARGIN_SHARE) * np.log(share)
    return np.asarray((members.is_right * weight).sum(axis=1))


def individual_kappa_statistic(members: Members, n_kept: int) -> IntArray:
    """Margineantu, Dietterich 1997 (kappa pruning): pairs that agree least, until there are enough.

    A pair of which only one fits gives its earlier member.
    """
    kappa = agreement(members)
    pairs = sorted(combinations(range(members.n_members), 2), key=lambda pair: kappa[pair])
    kept: dict[int, None] = {}
    for pair in pairs:
        for member in pair:
            if len(kept) < n_kept:
                kept.setdefault(member)
    return np.array(list(kept), dtype=np.int64)


def agreement(members: Members) -> FloatArray:
    """Cohen's kappa of every two members' votes; 0 where both always vote for one class."""
    n_members, n_rows, n_classes = members.scores.shape
    is_vote = np.stack([members.votes == c for c in range(n_classes)]).astype(np.float64)
    same = np.einsum("cir,cjr->ij", is_vote, is_vote) / n_rows
    share = is_vote.mean(axis=2)
    by_chance = share.T @ share
    kappa = np.zeros((n_members, n_members))
    np.divide(same - by_chance, 1 - by_chance, out=kappa, where=by_chance < 1)
    return kappa


def reference_vector(members: Members, n_kept: int) -> IntArray:
    """Martinez-Munoz, Suarez 2006 (orientation ordering): smallest angle to the reference vector.

    A signature is +1 where a member is right and -1 where it is wrong. The reference is the
    diagonal made orthogonal to the mean signature: where the ensemble errs most, it is longest.
    """
    signatures = 2.0 * members.is_right - 1.0
    ensemble = signatures.mean(axis=0)
    length = ensemble @ ensemble
    reference = np.ones_like(ensemble)
    if length > 0:
        reference -= ensemble.sum() / length * ensemble
    # every signature has the same length, so the order by angle is that by scalar product
    return lowest(-(signatures @ reference), n_kept)


def error_ambiguity(members: Members, n_kept: int) -> IntArray:
    """Jiang, Liu, Fu, Wu 2017: small loss of its own, far from the ensemble."""
    return lowest(ambiguity_losses(members), n_kept)


def ambiguity_losses(members: Members) -> FloatArray:
    """Loss less ambiguity per member: what it adds to the loss of the mean of all.

    Their decomposition: the loss of the mean is the mean loss less half the second derivative times
    the squared distance from the mean. Logistic loss per class, one against the rest.
    """
    sign = np.where(np.arange(members.scores.shape[2]) == members.y[:, None], 1.0, -1.0)
    loss = np.logaddexp(0.0, -sign * members.scores)
    probability = 1 / (1 + np.exp(-members.scores))
    distance = (members.scores - members.scores.mean(axis=0)) ** 2
    ambiguity = probability * (1 - probability) * distance / 2
    return np.asarray((loss - ambiguity).sum(axis=(1, 2)))
