"""What PyPruning does where it departs from the papers it names, to explain published figures.

In come an ensemble's members and a size; out go the members kept. Written from reading the library
(commit 6d22ca9 and neighbours); nobody should prune with these.
"""

from __future__ import annotations

import numpy as np

from benchmarks.pruning_rules.clusters import coordinates, farthest_of_groups, groups_by_means, groups_of
from benchmarks.pruning_rules.greedy import grow, joint_errors
from benchmarks.pruning_rules.members import FloatArray, IntArray, Members, lowest
from benchmarks.pruning_rules.pairs import least_sum, likeness, shared_errors
from benchmarks.pruning_rules.ranking import agreement

DEFAULT_SIZE = 5  # create_pruner forgets the size for its two quadratic rules


def individual_margin_diversity(members: Members, n_kept: int) -> IntArray:
    """Divides votes by the number of rows and keeps the members with the *fewest* right rows."""
    counts, y = members.vote_counts, members.y
    rows, n_rows = np.arange(len(y)), len(y)
    right = counts[rows, y]
    rivals = counts.copy()
    rivals[rows, y] = -1
    margin = np.maximum(np.abs(right - rivals.max(axis=1)), 1.0) / n_rows
    log = 0.2 * np.log(margin) + 0.8 * np.log(np.maximum(right, 1.0) / n_rows)
    return lowest(-np.asarray((members.is_right * log).sum(axis=1)), n_kept)


def individual_kappa_statistic(members: Members, n_kept: int) -> IntArray:
    """Scores a member by its least kappa with any other instead of walking the pairs."""
    kappa = agreement(members)
    np.fill_diagonal(kappa, np.inf)
    return lowest(kappa.min(axis=1), n_kept)


def reference_vector(members: Members, n_kept: int) -> IntArray:
    """Takes the ensemble's own right and wrong rows as reference and keeps the *least* similar."""
    everyone = members.decide(list(range(members.n_members)))
    reference = 2.0 * (everyone == members.y) - 1.0
    signatures = 2.0 * members.is_right - 1.0
    return lowest(signatures @ reference, n_kept)


def error_ambiguity(members: Members, n_kept: int) -> IntArray:
    """Adds a second derivative and the squared distance, so the *nearest* members are kept."""
    scores, n_classes = members.scores, members.scores.shape[2]
    is_label = np.arange(n_classes) == members.y[:, None]
    weight = np.where(
        is_label, np.exp(-scores / n_classes), np.exp(scores / (n_classes * (n_classes - 1))) / (n_classes - 1) ** 2
    )
    distance = (scores - scores.mean(axis=0)) ** 2
    return lowest((weight / n_classes**2 + distance).sum(axis=(1, 2)), n_kept)


def margin_distance(members: Members, n_kept: int) -> IntArray:
    """Averages signatures over the rows too: wants a mean accuracy of 56 %, keeps what errs most.

    Its random objective has mean 1/8; the mean is used here.
    """
    signature = 1 - 2 * members.errors
    kept: list[int] = []
    for size in range(1, n_kept + 1):
        mean = (signature[kept].sum() + signature) / size
        distance: FloatArray = (mean - 0.125) ** 2
        distance[kept] = np.inf
        kept.append(int(np.argmin(distance)))
    return np.array(kept, dtype=np.int64)


def complementariness(members: Members, n_kept: int) -> IntArray:
    """Begins with the empty sub-ensemble, which says class 0 everywhere."""
    kept: list[int] = []
    for _ in range(n_kept):
        is_wrong = members.decide(kept) != members.y
        helped = (members.is_right & is_wrong).sum(axis=1).astype(np.float64)
        helped[kept] = -1
        kept.append(int(np.argmax(helped)))
    return np.array(kept, dtype=np.int64)


def drep(members: Members, n_kept: int) -> IntArray:
    """Of the quarter of candidates that agree *most*, the one that leaves fewest errors.

    A guess that fits the published figure: the version of the library at hand adds the member that
    agrees least however much it errs, which does not.
    """

    def choose(kept: list[int], rest: IntArray) -> int:
        same = (members.votes[rest] == members.decide(kept)).mean(axis=1)
        candidates = rest[np.argsort(-same, kind="stable")[: int(np.ceil(len(rest) / 4))]]
        return int(candidates[int(np.argmin(joint_errors(members, kept, candidates)))])

    return grow(members, n_kept, choose)


def combined_error(members: Members, n_kept: int) -> IntArray:
    """Keeps five members, whatever was asked for."""
    return least_sum(shared_errors(members), min(DEFAULT_SIZE, members.n_members))


def combined(members: Members, n_kept: int) -> IntArray:
    """Keeps five members, whatever was asked for."""
    return least_sum(likeness(members), min(DEFAULT_SIZE, members.n_members))


def cluster_accuracy(members: Members, n_kept: int) -> IntArray:
    """Takes the position *within* the group for the member: early ones, some of them repeatedly."""
    groups = groups_by_means(coordinates(members), n_kept)
    return np.array([int(np.argmin(members.errors[group])) for group in groups], dtype=np.int64)


def largest_mean_distance(members: Members, n_kept: int) -> IntArray:
    """Ward's linkage of right and wrong rows instead of complete linkage of coincident errors."""
    from scipy.spatial.distance import cdist
    from sklearn.cluster import AgglomerativeClustering

    right = members.is_right.astype(np.float64)
    found = AgglomerativeClustering(n_clusters=n_kept).fit_predict(right)
    chosen = farthest_of_groups(groups_of(found), cdist(right, right))
    return np.array(chosen, dtype=np.int64)
