"""Rules that group the members and keep one of each group.

In come an ensemble's members and a size; out go the members kept, ascending. Where fewer groups
come out than asked for (equal members), the earliest members left fill up.
"""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.pruning_rules.members import FloatArray, IntArray, Members


def cluster_accuracy(members: Members, n_kept: int) -> IntArray:
    """Lazarevic, Obradovic 2001: k-means on the outputs, the most accurate member of each group."""
    groups = groups_by_means(coordinates(members), n_kept)
    best = [group[int(np.argmin(members.errors[group]))] for group in groups]
    return _fill(best, n_kept, members.n_members)


def cluster_centroids(members: Members, n_kept: int) -> IntArray:
    """Bakker, Heskes 2003: groups of like outputs, the member nearest to each centre.

    K-means instead of their deterministic annealing, as in PyPruning.
    """
    points = coordinates(members)
    nearest = [_nearest_to_centre(points, group) for group in groups_by_means(points, n_kept)]
    return _fill(nearest, n_kept, members.n_members)


def largest_mean_distance(members: Members, n_kept: int) -> IntArray:
    """Giacinto, Roli, Fumera 2000: complete linkage by coincident errors; of each group the member
    whose mean distance from all other groups is largest.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    is_wrong = (~members.is_right).astype(np.float64)
    distance = 1 - is_wrong @ is_wrong.T / is_wrong.shape[1]
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), method="complete")
    groups = groups_of(fcluster(tree, n_kept, criterion="maxclust"))
    return _fill(farthest_of_groups(groups, distance), n_kept, members.n_members)


def farthest_of_groups(groups: list[IntArray], distance: FloatArray) -> list[int]:
    """Of each group the member with the largest mean distance from all members of others."""
    chosen = []
    for group in groups:
        others = np.setdiff1d(np.arange(len(distance)), group)
        mean = distance[np.ix_(group, others)].mean(axis=1) if len(others) else np.zeros(len(group))
        chosen.append(int(group[int(np.argmax(mean))]))
    return chosen


def coordinates(members: Members) -> FloatArray:
    """Members as points with the distances of their outputs: m points need m dimensions only."""
    outputs = members.scores.reshape(members.n_members, -1)
    lengths, axes = np.linalg.eigh(outputs @ outputs.T)
    return np.asarray(axes * np.sqrt(np.maximum(lengths, 0)))


def groups_by_means(points: FloatArray, n_groups: int) -> list[IntArray]:
    """Members of each group of a k-means (best of ten starts, seeded)."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal members: fewer groups
        found = KMeans(n_clusters=n_groups, n_init=10, random_state=0).fit_predict(points)
    return groups_of(found)


def groups_of(assignment: IntArray) -> list[IntArray]:
    """Members of each group."""
    return [np.flatnonzero(assignment == group) for group in np.unique(assignment)]


def _nearest_to_centre(points: FloatArray, group: IntArray) -> int:
    centre = points[group].mean(axis=0)
    return int(group[int(np.argmin(((points[group] - centre) ** 2).sum(axis=1)))])


def _fill(chosen: list[int], n_kept: int, n_members: int) -> IntArray:
    rest = np.setdiff1d(np.arange(n_members), chosen)
    return np.sort(np.concatenate([np.array(chosen, dtype=np.int64), rest])[:n_kept])
