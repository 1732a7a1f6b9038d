"""What tighter exits of proved scorers would save (python -m benchmarks.exit_bounds).

Bounds of the remaining trees could be kept per leaf of the first tree that a row visits: leaves that contradict the
path to that leaf do not count. The trees that rows would then meet are compared with those that they meet today.
Missing values are taken to contradict every path, so the saving is the most that such bounds could give.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import numpy.typing as npt

import pine_boost
from benchmarks import data
from benchmarks.frames import markdown
from benchmarks.paper import add_data_options, check_data
from benchmarks.scoring import FIT_SHARE, train
from pine_boost.kernels import leaves
from pine_boost.parsers import read_model
from pine_boost.scoring.native_sum import leaf_nodes


def leaf_boxes(forest: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Lower and upper end of every feature at every leaf, (n_leaves, n_features)."""
    low = np.full((forest.n_nodes, forest.n_features), -np.inf)
    high = np.full((forest.n_nodes, forest.n_features), np.inf)
    level = forest.tree_offset[:-1]
    while len(level := level[forest.left[level] >= 0]):
        feature, threshold = forest.feature[level], forest.threshold[level]
        for child, bound, keep in ((forest.left, high, np.minimum), (forest.right, low, np.maximum)):
            low[child[level]], high[child[level]] = low[level], high[level]
            bound[child[level], feature] = keep(bound[child[level], feature], threshold)
        level = np.concatenate([forest.left[level], forest.right[level]])
    nodes = leaf_nodes(forest)
    return low[nodes], high[nodes]


def works(forest: Any, scorer: pine_boost.FastScorer, X: npt.NDArray[Any]) -> tuple[float, float]:
    """Share of the trees that rows meet: with the exits as they are, and with bounds per leaf of the first tree."""
    plan, n_trees = scorer.parts.plan, forest.n_trees
    nodes = leaf_nodes(forest)
    value, first = forest.value[nodes][:, 0], np.searchsorted(nodes, forest.tree_offset[:-1])
    found = leaves(scorer.parts.flat, X)[:, plan.order]
    sums = forest.intercept[0] + np.cumsum(value[found], axis=1)[:, plan.stage - 1]
    low, high = leaf_boxes(forest)
    rest = [_rest(value, value, first, plan)]
    met = []
    for entry in np.unique(found[:, 0]):
        apart = (np.maximum(low, low[entry]) >= np.minimum(high, high[entry])).any(axis=1)
        tight = _rest(np.where(apart, np.inf, value), np.where(apart, -np.inf, value), first, plan)
        rows = found[:, 0] == entry
        below = sums[rows] < plan.low[:, 0] + (rest[0][1] - tight[1])
        above = sums[rows] > plan.high[:, 0] - (tight[0] - rest[0][0])
        exits = below | above
        exits[:, -1] = True
        met.append(plan.stage[exits.argmax(axis=1)])
    return float(scorer.trees_met(X).mean()) / n_trees, float(np.concatenate(met).mean()) / n_trees


def _rest(least: Any, largest: Any, first: npt.NDArray[Any], plan: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Least and largest sum of the trees after each stage."""
    sums = []
    for extreme, values in ((np.minimum, least), (np.maximum, largest)):
        of_tree = extreme.reduceat(values, first)[plan.order]
        sums.append(np.concatenate([np.cumsum(of_tree[::-1])[::-1], [0.0]])[plan.stage])
    return sums[0], sums[1]


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exit_bounds", description=__doc__)
    add_data_options(parser, data.DATASETS)
    parser.add_argument("--model", default="xgboost-100x6")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args(arguments)
    check_data(options, parser)
    lines = []
    for dataset in options.datasets:
        table = data.load(dataset, options.data, "raw")
        if len(np.unique(table.y)) > 2:
            continue
        order = np.random.default_rng(options.seed).permutation(len(table.X))
        fit, rest = np.split(order, [int(FIT_SHARE * len(order))])
        model = train(options.model, table.X[fit], table.y[fit])
        scorer = pine_boost.accelerate_booster(model).scorer
        today, tighter = works(read_model(model).forest, scorer, table.X[rest])
        lines.append((dataset, f"{today:.3f}", f"{tighter:.3f}", f"{100 * (1 - tighter / today):.1f}"))
        print(*lines[-1], flush=True)
    saved = [float(line[3]) for line in lines]
    print(markdown(("data set", "trees met", "with bounds per leaf of the first tree", "saved, %"), lines))
    print(f"mean: {np.mean(saved):.1f} % saved")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
