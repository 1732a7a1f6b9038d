"""Orders of rounds that need no rows: leaf values, split gains, and slicing.

In comes a parsed model; out go its rounds, most wanted first. The three top-K heuristics are those
of the paper's appendix; orders by gain need XGBoost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.pruning_rules.members import FloatArray, IntArray
from benchmarks.rounds import round_of_tree
from pine_boost.model.forest import Forest, Model
from pine_boost.model.rules import SplitKind

HEURISTICS = ("LeafMagnitude-TopK", "TreeGain-TopK", "FeatImpTree-TopK", "Slice")


def leaf_magnitude(forest: Forest) -> FloatArray:
    """Mean absolute leaf value per round."""
    is_leaf = forest.kind == SplitKind.LEAF
    size = np.abs(forest.value).mean(axis=1)
    rounds = round_of_tree(forest)[forest.node_tree]
    total = np.bincount(rounds[is_leaf], size[is_leaf])
    return np.asarray(total / np.bincount(rounds[is_leaf]))


def split_gains(native: Any, forest: Forest) -> tuple[FloatArray, FloatArray]:
    """Total gain per round, and the same with every split weighted by its feature's importance."""
    frame = native.get_booster().trees_to_dataframe()
    splits = frame[frame["Feature"] != "Leaf"]
    gain = splits["Gain"].to_numpy(float)
    per_feature = splits.groupby("Feature")["Gain"].sum()
    importance = splits["Feature"].map(per_feature / per_feature.sum()).to_numpy(float)
    rounds = round_of_tree(forest)[splits["Tree"].to_numpy()]
    n_rounds = len(np.unique(forest.tree_round))
    return (
        np.bincount(rounds, gain, n_rounds).astype(np.float64),
        np.bincount(rounds, gain * importance, n_rounds).astype(np.float64),
    )


def heuristic_orders(model: Model) -> dict[str, IntArray]:
    """Rounds by each heuristic; ties keep their order."""
    forest = model.forest
    scores = {"LeafMagnitude-TopK": leaf_magnitude(forest)}
    if forest.library == "xgboost":
        gain, weighted = split_gains(model.native, forest)
        scores |= {"TreeGain-TopK": gain, "FeatImpTree-TopK": weighted}
    orders = {name: np.argsort(-score, kind="stable") for name, score in scores.items()}
    return {**orders, "Slice": np.arange(len(np.unique(forest.tree_round)))}
