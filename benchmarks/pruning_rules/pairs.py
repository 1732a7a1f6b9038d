"""Rules that want the sub-ensemble whose pairs sum to the least.

In come an ensemble's members and a size; out go the members kept, ascending. The 0/1 quadratic
program is solved by swaps from every start, not to proven optimality.
"""

from __future__ import annotations

import numpy as np

from benchmarks.pruning_rules.members import FloatArray, IntArray, Members


def combined_error(members: Members, n_kept: int) -> IntArray:
    """Zhang, Burer, Street 2006: errors of its own on the diagonal, shared errors beside it."""
    return least_sum(shared_errors(members), n_kept)


def shared_errors(members: Members) -> FloatArray:
    """Zhang et al. 2006, equations 4 and 5: the matrix whose entries a good sub-ensemble avoids."""
    is_wrong = (~members.is_right).astype(np.float64)
    both = is_wrong @ is_wrong.T
    own = np.maximum(np.diag(both), 1)
    costs = (both / own[:, None] + both / own) / 2
    np.fill_diagonal(costs, members.errors)
    return costs


def combined(members: Members, n_kept: int) -> IntArray:
    """Cavalcanti, Oliveira, Moura, Carvalho 2016: five measures of likeness, equally weighted.

    Their evolved weights and graph colouring are left out, as in PyPruning: the least sum is taken.
    """
    return least_sum(likeness(members), n_kept)


def likeness(members: Members) -> FloatArray:
    """Mean of -disagreement, Q, correlation, kappa and double fault of every two members; 0 where
    a measure divides by nothing, and on the diagonal.
    """
    is_right = members.is_right.astype(np.float64)
    is_wrong, n_rows = 1 - is_right, is_right.shape[1]
    a, b = is_right @ is_right.T, is_right @ is_wrong.T
    c, d = b.T, is_wrong @ is_wrong.T
    apart = a * d - b * c
    by_chance = ((a + b) * (a + c) + (c + d) * (b + d)) / n_rows**2
    measures = [
        -(b + c) / n_rows,
        _divide(apart, a * d + b * c),
        _divide(apart, np.sqrt((a + b) * (a + c) * (c + d) * (b + d))),
        _divide((a + d) / n_rows - by_chance, 1 - by_chance),
        d / n_rows,
    ]
    mean = np.mean(measures, axis=0)
    np.fill_diagonal(mean, 0.0)
    return np.asarray(mean)


def _divide(above: FloatArray, below: FloatArray) -> FloatArray:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def least_sum(costs: FloatArray, n_kept: int) -> IntArray:
    """Members with the least sum of costs: grow from each member, then swap while it helps."""
    best, kept = np.inf, np.arange(n_kept)
    for start in range(len(costs)):
        chosen = _swap(costs, _grow_from(costs, start, n_kept))
        total = float(costs[np.ix_(chosen, chosen)].sum())
        if total < best - 1e-12:  # summation order must not decide between equals
            best, kept = total, chosen
    return np.sort(kept)


def _grow_from(costs: FloatArray, start: int, n_kept: int) -> IntArray:
    inside = np.zeros(len(costs), dtype=bool)
    inside[start] = True
    for _ in range(n_kept - 1):
        added = 2 * costs[:, inside].sum(axis=1) + np.diag(costs)
        inside[int(np.argmin(np.where(inside, np.inf, added)))] = True
    return np.flatnonzero(inside)


def _swap(costs: FloatArray, chosen: IntArray) -> IntArray:
    own = np.diag(costs)
    while True:
        outside = np.setdiff1d(np.arange(len(costs)), chosen)
        if not len(outside):
            return chosen
        load = costs[:, chosen].sum(axis=1)
        leaves = 2 * load[chosen] - own[chosen]
        joins = 2 * load[outside] + own[outside]
        gain = joins - 2 * costs[np.ix_(chosen, outside)] - leaves[:, None]
        leaving, joining = np.unravel_index(int(np.argmin(gain)), gain.shape)
        if gain[leaving, joining] >= -1e-12:
            return chosen
        chosen = np.append(np.delete(chosen, leaving), outside[joining])
