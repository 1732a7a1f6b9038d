"""The parts of a proved scorer: flat trees, the library's own sum, and exits that were checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pine_boost.budget import Budget
from pine_boost.errors import PineBoostError
from pine_boost.kernels.flat_forest import ExitPlan, FlatForest, NativeSum
from pine_boost.model.flatten import flatten
from pine_boost.model.forest import FloatArray, Forest, IntArray, Model
from pine_boost.model.synthetic_rows import synthetic_rows
from pine_boost.proof.exits import faults_of, truncation_faults, truncation_rounding
from pine_boost.scoring.fast_scorer import ScorerParts
from pine_boost.scoring.native_sum import leaf_nodes, native_sum, probability_rule
from pine_boost.scoring.proved_exits import build_exits, rises, widest_first
from pine_boost.tables.schema import schema_of

SAMPLE_ROWS, _SAMPLE_CELLS = 2000, 1_000_000


def proved_plan(
    forest: Forest, flat: FlatForest, sample: FloatArray, *, is_fitted: bool = False, budget: Budget | None = None
) -> ExitPlan:
    """Exits for sample rows that are proved for every input; see `build_exits`.

    Raises
    ------
    PineBoostError
        The check found a fault in what was built.
    """
    few = max(100, min(SAMPLE_ROWS, _SAMPLE_CELLS // (forest.n_trees * forest.n_outputs)))
    plan = build_exits(forest, flat, sample[:few], is_fitted=is_fitted, budget=budget)
    faults = faults_of(forest, plan)
    if faults:  # the builder is not believed
        raise PineBoostError(f"Internal error: the exits could not be proved ({faults[0]}); please report this.")
    return plan


def proved_parts(model: Model) -> ScorerParts:
    """A scorer with the classes of the native ``predict`` on every input, from the model alone."""
    flat = flatten(model.forest)
    plan = proved_plan(model.forest, flat, synthetic_rows(model.forest, SAMPLE_ROWS))
    return parts_of_model(model, flat, native_sum(model), plan)


def parts_of_model(model: Model, flat: FlatForest, native: NativeSum, plan: ExitPlan, **layers: Any) -> ScorerParts:
    """A scorer that reads and answers as a model does; ``layers`` are what a Pipeline or calibrator does around it."""
    forest = model.forest
    return ScorerParts(flat, native, plan, schema_of(forest), forest.classes, probability_rule(model), **layers)


def truncate(forest: Forest, native: NativeSum, tolerance: float) -> tuple[IntArray, NativeSum]:
    """The fewest trees whose sum is within a tolerance of a value model's, and how a scorer adds them.

    What the remaining trees can add does not depend on the input, so every input stops after the same trees. The
    widest trees are kept, and the midpoint of what the others can add is part of the intercept. All trees are kept
    where the tolerance is too small to leave one out.

    Raises
    ------
    PineBoostError
        The check found a fault in what was built.
    """
    lowest, highest = (bound[:, 0, 0] for bound in rises(forest))
    order = widest_first(lowest[:, None, None], highest[:, None, None])[::-1]
    apart = np.abs(native.value.astype(np.float64) - forest.value[leaf_nodes(forest)]).sum()
    # twice a bound on the rounding, whichever trees are kept: room for that of the intercept and of the sums here
    largest = float(np.abs(forest.intercept[0]) + np.maximum(np.abs(lowest), np.abs(highest)).sum())
    spare = 2 * (truncation_rounding(forest, largest, native.divisor) + 2 * float(apart))
    half_width = np.cumsum((highest - lowest)[order]) / 2
    n_dropped = int(np.count_nonzero(half_width + spare <= tolerance * native.divisor))
    kept = np.sort(order[min(n_dropped, forest.n_trees - 1) :])
    if len(kept) == forest.n_trees:
        return kept, native
    rest = np.setdiff1d(order, kept)
    middle = forest.intercept + (lowest[rest] + highest[rest]).sum() / 2
    shorter = restrict(forest, native, kept, middle.astype(native.intercept.dtype))
    faults = truncation_faults(forest, kept, shorter, tolerance)
    if faults:  # the builder is not believed
        raise PineBoostError(f"Internal error: the exits could not be proved ({faults[0]}); please report this.")
    return kept, shorter


def restrict(forest: Forest, native: NativeSum, kept: IntArray, intercept: FloatArray) -> NativeSum:
    """The library's sum over some of the trees, from another intercept."""
    is_kept = np.isin(forest.node_tree[leaf_nodes(forest)], kept)
    return replace(native, value=native.value[is_kept].copy(), intercept=intercept)


def keep_trees(forest: Forest, kept: IntArray, intercept: FloatArray) -> Forest:
    """A forest of some of the trees, in the same order, with another intercept."""
    is_kept = np.isin(forest.node_tree, kept)
    place = np.cumsum(is_kept) - 1  # of the nodes that stay
    sizes = np.diff(forest.category_offset)
    kept_arrays: dict[str, Any] = {
        name: np.where(nodes[is_kept] < 0, -1, place[nodes[is_kept]])
        for name, nodes in (("left", forest.left), ("right", forest.right))
    }
    per_node = ("feature", "threshold", "default_left", "kind", "missing", "set_left", "value")
    kept_arrays |= {name: getattr(forest, name)[is_kept] for name in per_node}
    kept_arrays |= {name: getattr(forest, name)[kept] for name in ("tree_output", "tree_round", "tree_bias")}
    return replace(
        forest,
        **kept_arrays,
        tree_offset=np.concatenate([[0], np.cumsum(np.diff(forest.tree_offset)[kept])]),
        category_offset=np.concatenate([[0], np.cumsum(sizes[is_kept])]),
        category=forest.category[np.repeat(is_kept, sizes)],
        intercept=intercept.astype(np.float64),
    )
