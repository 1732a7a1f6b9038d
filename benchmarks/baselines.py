"""Pruning rules without a guarantee, to be compared at the same number of kept rounds.

In come a parsed model, labelled rows and a size; out go the rounds that a rule keeps, with their
original weights. Own short implementations from the papers; ties go to the earlier round.

IC: Lu, Wu, Zhu, Bongard 2010. DREP: Li, Yu, Zhou 2012. MDEP: Guo et al. 2018. The three top-K
heuristics are those of the PINE paper's appendix. A round votes for the class its leaves favour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import Forest, Model, SplitKind
from pine_boost.model.reference import find_leaves

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
DREP_SHARE = 0.3  # of the candidates, the most different ones: within the 0.2-0.5 of its paper
MDEP_ALPHA = 0.2  # the value of its paper


@dataclass(frozen=True, eq=False)
class Rounds:
    """A model's rounds on some rows.

    Attributes
    ----------
    margins : float64 (n_rounds, n_rows, n_outputs)
        What each round adds.
    intercept : float64 (n_outputs,)
    """

    margins: FloatArray
    intercept: FloatArray

    @property
    def n_rounds(self) -> int:
        """How many rounds there are."""
        return len(self.margins)

    def votes(self) -> IntArray:
        """Class that each round favours, (n_rounds, n_rows)."""
        return classes_of(self.margins)

    def predict(self, kept: IntArray) -> IntArray:
        """Classes of the rounds kept, with the original intercept and weights."""
        return classes_of(self.margins[kept].sum(axis=0) + self.intercept)


def classes_of(margins: FloatArray) -> IntArray:
    """Class by margin: the sign for one output, the largest for several."""
    if margins.shape[-1] == 1:
        return (margins[..., 0] > 0).astype(np.int64)
    return np.asarray(np.argmax(margins, axis=-1), dtype=np.int64)


def rounds_of(forest: Forest, X: Any) -> Rounds:
    """Evaluate every round of a model on rows."""
    leaves = find_leaves(forest, np.asarray(X, dtype=np.float64))
    value = forest.leaf_vectors().astype(np.float64)
    rounds = np.unique(forest.tree_round, return_inverse=True)[1]
    margins = np.zeros((rounds.max() + 1, len(X), forest.n_outputs))
    for tree in range(forest.n_trees):
        margins[rounds[tree]] += value[leaves[:, tree]]
    return Rounds(margins, forest.intercept.astype(np.float64))


def vote_counts(votes: IntArray, n_classes: int) -> FloatArray:
    """Votes per row and class, (n_rows, n_classes)."""
    return np.stack([(votes == c).sum(axis=0) for c in range(n_classes)], axis=1).astype(float)


def individual_contribution(votes: IntArray, y: IntArray, n_classes: int) -> FloatArray:
    """IC: a right vote counts more the fewer agree, a wrong one counts against."""
    counts = vote_counts(votes, n_classes)
    rows = np.arange(len(y))
    ordered = np.sort(counts, axis=1)
    most, second = ordered[:, -1], ordered[:, -2]
    majority = np.argmax(counts, axis=1)
    contribution = np.empty(len(votes))
    for i, vote in enumerate(votes):
        own, right = counts[rows, vote], counts[rows, y]
        is_right, is_majority = vote == y, vote == majority
        value = np.where(is_majority, second, 2 * most - own)
        contribution[i] = np.where(is_right, value, right - own - most).sum()
    return contribution


def margin_diversity(votes: IntArray, y: IntArray, n_classes: int) -> FloatArray:
    """MDEP: right votes count by how close the row is (margin) and how few agree (diversity)."""
    counts = vote_counts(votes, n_classes)
    rows, n_rounds = np.arange(len(y)), len(votes)
    right = counts[rows, y]
    rivals = counts.copy()
    rivals[rows, y] = -1
    margin = np.maximum(np.abs(right - rivals.max(axis=1)), 0.5) / n_rounds  # no log of 0
    share = np.maximum(right, 0.5) / n_rounds
    weight = -MDEP_ALPHA * np.log(margin) - (1 - MDEP_ALPHA) * np.log(share)
    return np.asarray(((votes == y) * weight).sum(axis=1))


def drep(votes: IntArray, y: IntArray, n_classes: int) -> IntArray:
    """DREP as an order of all rounds: among the most different ones, the one that errs least."""
    n_rounds = len(votes)
    order = [int(np.argmin((votes != y).mean(axis=1)))]
    counts = vote_counts(votes[order], n_classes)
    rows = np.arange(len(y))
    while len(order) < n_rounds:
        ensemble = np.argmax(counts, axis=1)
        rest = np.setdiff1d(np.arange(n_rounds), order)
        agreement = (votes[rest] == ensemble).mean(axis=1)
        n_candidates = max(1, int(np.ceil(DREP_SHARE * len(rest))))
        candidates = rest[np.argsort(agreement, kind="stable")[:n_candidates]]
        errors = []
        for candidate in candidates:
            with_it = counts.copy()
            with_it[rows, votes[candidate]] += 1
            errors.append((np.argmax(with_it, axis=1) != y).mean())
        best = int(candidates[int(np.argmin(errors))])
        order.append(best)
        counts[rows, votes[best]] += 1
    return np.array(order)


def leaf_magnitude(forest: Forest) -> FloatArray:
    """Mean absolute leaf value per round."""
    is_leaf = forest.kind == SplitKind.LEAF
    size = np.abs(forest.value).mean(axis=1)
    rounds = np.unique(forest.tree_round, return_inverse=True)[1][forest.node_tree]
    total = np.bincount(rounds[is_leaf], size[is_leaf])
    return np.asarray(total / np.bincount(rounds[is_leaf]))


def split_gains(native: Any, forest: Forest) -> tuple[FloatArray, FloatArray]:
    """Total gain per round, and the same with every split weighted by its feature's importance."""
    frame = native.get_booster().trees_to_dataframe()
    splits = frame[frame["Feature"] != "Leaf"]
    gain = splits["Gain"].to_numpy(float)
    per_feature = splits.groupby("Feature")["Gain"].sum()
    importance = splits["Feature"].map(per_feature / per_feature.sum()).to_numpy(float)
    rounds = np.unique(forest.tree_round, return_inverse=True)[1][splits["Tree"].to_numpy()]
    n_rounds = len(np.unique(forest.tree_round))
    return (
        np.bincount(rounds, gain, n_rounds).astype(np.float64),
        np.bincount(rounds, gain * importance, n_rounds).astype(np.float64),
    )


def orders_of(model: Model, X: Any, y: IntArray) -> dict[str, IntArray]:
    """For every rule the rounds, most wanted first. Rules that rank by gain need XGBoost."""
    forest = model.forest
    rounds = rounds_of(forest, X)
    votes, n_classes = rounds.votes(), max(2, forest.n_outputs)
    rankings: dict[str, Callable[[], IntArray]] = {
        "IC": lambda: descending(individual_contribution(votes, y, n_classes)),
        "DREP": lambda: drep(votes, y, n_classes),
        "MDEP": lambda: descending(margin_diversity(votes, y, n_classes)),
        "LeafMagnitude-TopK": lambda: descending(leaf_magnitude(forest)),
        "Slice": lambda: np.arange(rounds.n_rounds),
    }
    orders = {name: ranking() for name, ranking in rankings.items()}
    if forest.library == "xgboost":
        gain, weighted = split_gains(model.native, forest)
        orders["TreeGain-TopK"] = descending(gain)
        orders["FeatImpTree-TopK"] = descending(weighted)
    return orders


def descending(score: FloatArray) -> IntArray:
    """Positions by falling score; ties keep their order."""
    return np.argsort(-score, kind="stable")
