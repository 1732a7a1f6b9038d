"""From real weights to the pruned model on its dyadic grid.

In come the weights of a linear program; out goes a PrunedForest whose integer margins are, by
construction, the native margins. The free positive scale is chosen so that probabilities stay
closest to the original's; rounding may break a row, so every row is checked again on integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pine_boost.model import exact
from pine_boost.model.forest import FloatArray, IntArray, PrunedForest, SplitKind, spread
from pine_boost.proof.problem import Game, required_int
from pine_boost.search.weights import Weights

_SCALE_STEPS = 40
_MOST_PARTS = 4096  # denominators tried for weights in whole ratios
_SEPARATE = "multiclassova"  # a sigmoid for every class, LightGBM
_VOTES = "SAMME"  # votes divided by their sum, AdaBoost
_RATIO_NOISE = 1e-6  # a proposal only: every row is checked again on integers


@dataclass(frozen=True, eq=False)
class Reference:
    """What the scale is fitted to: leaves and multiplicities of distinct rows of X_fit."""

    leaves: npt.NDArray[np.int32]
    counts: IntArray
    margins: FloatArray  # of the original, (n_rows, n_outputs)


@dataclass(frozen=True)
class ProbabilityShift:
    """How far the pruned model's probabilities moved on X_fit."""

    mean: float
    maximum: float
    brier: float


def build_reference(game: Game, leaves: npt.NDArray[np.int32], counts: IntArray) -> Reference:
    """Margins of the original on distinct fit rows, as real numbers."""
    value = game.forest.leaf_vectors()[game.leaf_node]
    margins = game.forest.intercept + value[leaves].sum(axis=1)
    return Reference(leaves, counts, margins)


def needed_sides(game: Game, grid: int) -> IntArray:
    """The smallest side in grid units with which the pruned model answers each question right."""
    cuts, off = required_int(game.forest, grid)
    needed = []
    for question in game.questions:
        distance = off if game.strict[question.index] else 0
        cut = question.sign * int(cuts[question.cut]) if game.forest.n_outputs == 1 else 0
        needed.append(cut + distance)
    return np.array(needed, dtype=np.int64)


def to_grid(
    game: Game,
    weights: Weights,
    column_scale: FloatArray,
    reference: Reference,
    *,
    scale: float | None = None,
) -> PrunedForest | None:
    """Round a solution to the grid; None when the weights cannot be written exactly.

    Every leaf becomes ``round(w * (value - bias) * 2**grid)``, and each output's intercept is
    added to all leaves of its first kept tree. ``scale`` multiplies all weights; without it, the
    one that brings probabilities closest to the original's.
    """
    forest = game.forest
    tree_weight = (weights.weights / column_scale)[game.unit]
    kept = np.flatnonzero(tree_weight > 0)
    if len(kept) == 0:
        return None
    constants = _constants(game, weights)
    if constants is None:
        return None
    own_scale, intercept = constants
    if scale is None:
        scale = own_scale or _closest_scale(game, tree_weight, intercept, reference)
    cut = forest.decision.cuts[0] if forest.n_outputs == 1 else 0.0
    tree_weight, intercept = tree_weight * scale, scale * intercept
    intercept = intercept + _common_level(game, tree_weight, intercept, reference)
    value = _weighted_leaves(game, tree_weight)
    left_over = _fold_intercept(game, value, intercept + cut, kept)
    grid = _choose_grid(game, value, left_over)
    if not game.strict.all():
        # leaves are multiples of 2**-scale here: weights in multiples of this stay on the grid
        finest = 2.0 ** (game.scale - grid)
        tree_weight, intercept = _keep_ratios(tree_weight, intercept, finest)
        value = _weighted_leaves(game, tree_weight)
        left_over = _fold_intercept(game, value, intercept + cut, kept)
    # A weight so small that all its leaves round to the same constant is still a kept tree.
    value_int = np.rint(np.ldexp(value, grid)).astype(np.int64)
    return PrunedForest(
        forest=forest,
        kept=kept,
        value_int=value_int,
        grid=grid,
        intercept_int=np.rint(np.ldexp(left_over, grid)).astype(np.int64),
        weights=tree_weight,
    )


def probability_shift(game: Game, pruned: PrunedForest, reference: Reference) -> ProbabilityShift:
    """Mean and largest change of a probability and the Brier distance, on X_fit."""
    leaf_value = spread(game.forest, pruned.value_int)[game.leaf_node] / 2.0**pruned.grid
    margins = leaf_value[reference.leaves].sum(axis=1) + pruned.intercept_int / 2.0**pruned.grid
    original = game.forest.leaf_vectors()[game.leaf_node]
    before = _probabilities(game, reference.margins, _divisor(game, original, game.trees.n_trees))
    after = _probabilities(game, margins, _divisor(game, leaf_value, len(pruned.kept)))
    shift = np.abs(after - before)
    mean = np.average(shift.max(axis=1), weights=reference.counts)
    brier = np.average((shift**2).sum(axis=1), weights=reference.counts)
    return ProbabilityShift(float(mean), float(shift.max()), float(brier))


def _constants(game: Game, weights: Weights) -> tuple[float | None, FloatArray] | None:
    """Scale (None: free) and intercepts before scaling, relative to the first cut."""
    forest = game.forest
    if not forest.free_intercept:
        return None if forest.intercept.any() else (None, np.zeros(forest.n_outputs))
    if forest.n_outputs > 1:
        return None, weights.free
    if len(forest.decision.cuts) == 1:
        return None, weights.free
    distance = weights.free[1] / (forest.decision.cuts[-1] - forest.decision.cuts[0])
    return (1.0 / distance, weights.free[:1]) if distance > 0 else None


def _keep_ratios(
    tree_weight: FloatArray, intercept: FloatArray, finest: float
) -> tuple[FloatArray, FloatArray]:
    """Weights in small whole ratios, in multiples of ``finest``, if that is what they nearly are.

    A tie that the pruned model must keep is an equation between weights, and rounding each by
    itself breaks it. Solutions on such equations are fractions with small denominators; whole
    multiples of the original's dyadic leaves are on the grid without any rounding.
    """
    numbers = np.concatenate([tree_weight, intercept])
    largest = np.abs(numbers).max()
    parts = np.arange(1, _MOST_PARTS + 1)[:, None]
    scaled = parts * (numbers / largest)
    whole = np.rint(scaled)
    fits = (np.abs(scaled - whole) < _RATIO_NOISE).all(axis=1)
    fits &= ((whole != 0) | (numbers == 0))[:, : len(tree_weight)].all(axis=1)
    first = int(np.argmax(fits))
    part = largest / parts[first, 0]
    unit = finest * np.rint(part / finest)
    if not fits.any() or not 0 < unit <= 1.5 * part:  # _choose_grid leaves room for a factor of 2
        return tree_weight, intercept
    return whole[first, : len(tree_weight)] * unit, whole[first, len(tree_weight) :] * unit


def _weighted_leaves(game: Game, tree_weight: FloatArray) -> FloatArray:
    forest = game.forest
    bias = (forest.tree_bias * (forest.value.shape[1] == 1))[forest.node_tree]
    value: FloatArray = (forest.value - bias[:, None]) * tree_weight[forest.node_tree][:, None]
    value[forest.kind != SplitKind.LEAF] = 0.0
    return value


def _fold_intercept(
    game: Game, value: FloatArray, intercept: FloatArray, kept: IntArray
) -> FloatArray:
    """Add each output's intercept to its first kept tree; returns what found no tree."""
    forest = game.forest
    left_over = np.zeros(forest.n_outputs)
    if not forest.free_intercept:
        return left_over
    for output in range(forest.n_outputs):
        own = kept[forest.tree_output[kept] == output]
        if len(own) == 0:
            left_over[output] = intercept[output]
            continue
        nodes = np.arange(forest.tree_offset[own[0]], forest.tree_offset[own[0] + 1])
        leaves = nodes[forest.kind[nodes] == SplitKind.LEAF]
        value[leaves, 0] += intercept[output]
    return left_over


def _choose_grid(game: Game, value: FloatArray, left_over: FloatArray) -> int:
    """The finest grid on which every sum is exact natively and every solver row small enough.

    Half the range is left for the rounding of the leaves themselves (at most 1/2 a tree).
    """
    forest = game.forest
    spread_value = np.abs(spread(forest, value))
    largest = np.maximum.reduceat(spread_value, forest.tree_offset[:-1], axis=0).sum(axis=0)
    total = float((largest + np.abs(left_over)).max())
    row_sum = float(spread_value.sum(axis=0).max() + np.abs(left_over).max())
    row_sum *= 1 if forest.n_outputs == 1 else 2
    native = exact.integer_scale(total, 2 ** (exact.PRECISION[forest.arithmetic] - 1))
    solver = exact.integer_scale(row_sum)
    return min(native, solver, exact.MAX_GRID[forest.arithmetic])


def _closest_scale(
    game: Game, tree_weight: FloatArray, intercept: FloatArray, reference: Reference
) -> float:
    """The positive multiple whose probabilities are closest to the original's (Brier)."""
    forest = game.forest
    if not forest.free_intercept:
        # votes: native probabilities are a mean, so weights of mean 1 keep their sum at 1
        return float(np.count_nonzero(tree_weight) / tree_weight.sum())
    margins = _weighted_margins(game, tree_weight, intercept, reference)
    cut = forest.decision.cuts[0] if forest.n_outputs == 1 else 0.0
    target = _probabilities(game, reference.margins)
    spread_margins, spread_original = np.abs(margins).mean(), np.abs(reference.margins).mean()
    start = np.log(max(spread_original, 1e-12) / max(spread_margins, 1e-12))

    def brier(log_scale: float) -> float:
        scaled = np.exp(log_scale) * margins + cut
        if forest.objective == _SEPARATE:
            scaled = scaled + _level(scaled, reference)
        moved = _probabilities(game, scaled) - target
        return float(np.average((moved**2).sum(axis=1), weights=reference.counts))

    low, high = start - 4.0, start + 4.0
    golden = (np.sqrt(5.0) - 1) / 2
    for _ in range(_SCALE_STEPS):
        first, second = high - golden * (high - low), low + golden * (high - low)
        if brier(first) <= brier(second):
            high = second
        else:
            low = first
    return float(np.exp((low + high) / 2))


def _weighted_margins(
    game: Game, tree_weight: FloatArray, intercept: FloatArray, reference: Reference
) -> FloatArray:
    forest = game.forest
    value = forest.leaf_vectors()[game.leaf_node] * tree_weight[game.trees.leaf_tree][:, None]
    if forest.value.shape[1] == 1 and forest.tree_bias.any():
        bias = (forest.tree_bias * tree_weight)[game.trees.leaf_tree]
        value[np.arange(len(value)), forest.tree_output[game.trees.leaf_tree]] -= bias
    return np.asarray(value[reference.leaves].sum(axis=1) + intercept)


def _common_level(
    game: Game, tree_weight: FloatArray, intercept: FloatArray, reference: Reference
) -> float:
    """A constant for all classes alike: it decides nothing, but moves sigmoids of their own."""
    if game.forest.objective != _SEPARATE or not game.strict.all():
        return 0.0
    return _level(_weighted_margins(game, tree_weight, intercept, reference), reference)


def _level(margins: FloatArray, reference: Reference) -> float:
    distance = (reference.margins - margins).mean(axis=1)
    return float(np.average(distance, weights=reference.counts))


def _divisor(game: Game, leaf_value: FloatArray, n_trees: int) -> float:
    """What the native library divides a sum by: the weights of all votes, or the trees."""
    if game.forest.objective != _VOTES:
        return float(n_trees)
    weight = np.maximum.reduceat(np.abs(leaf_value).max(axis=1), game.trees.leaf_offset[:-1])
    return float(weight.sum())


def _probabilities(game: Game, margins: FloatArray, divisor: float = 1.0) -> FloatArray:
    """Probabilities as the native library makes them of margins, without its rounding."""
    forest = game.forest
    if forest.objective == _VOTES:
        if forest.n_outputs == 1:
            return _sigmoid(2 * margins / divisor)
        others = forest.n_outputs - 1
        return _softmax((forest.n_outputs * margins / divisor - 1) / others**2)
    if not forest.free_intercept:
        offset = forest.decision.thresholds[0] if forest.decision.thresholds else 0.0
        return np.asarray(margins / divisor + offset)
    if forest.n_outputs == 1 or forest.objective == _SEPARATE:
        return _sigmoid(forest.slope * margins)
    return _softmax(forest.slope * margins)


def _sigmoid(margins: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(margins, -500, 500))))


def _softmax(margins: FloatArray) -> FloatArray:
    shifted = np.exp(margins - margins.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
