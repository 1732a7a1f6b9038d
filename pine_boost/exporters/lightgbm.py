"""Write a pruned or trimmed forest as a LightGBM Booster, wrapper or text file.

Only text written here from checked arrays reaches the native loader.
"""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters import Smaller, copy_value
from pine_boost.model.forest import FloatArray, Forest, IntArray, Model, PrunedForest, spread
from pine_boost.model.trimming import Trimming, kept_codes
from pine_boost.native.predict import load_native
from pine_boost.parsers.lightgbm.decision import class_gap, read_objective
from pine_boost.parsers.lightgbm.document import LightgbmDocument
from pine_boost.parsers.lightgbm.tree import TreeBlock
from pine_boost.parsers.lightgbm.write import write_document


def write_lightgbm(model: Model, smaller: Smaller) -> Any:
    """Write a smaller forest as a LightGBM model of the same kind as the original.

    ``predict(raw_score=True)`` of a pruned model is the integer sum / 2**grid, bit for bit. A dropped class tree of
    a kept round becomes one leaf of 0. Random forests keep ``average_output`` and the meaning of their mean (see
    `keep_average`).

    Raises
    ------
    UnsupportedModelError
        One grid unit of a pruned model is smaller than LightGBM's own decision boundary, or the scores of a
        multiclassova model are so much larger than the original's that sigmoids saturate.
    """
    document, pruned = model.document, smaller.pruned
    if pruned is not None:
        _check_boundary(pruned)
        _check_classes(document, pruned)
    blocks = {
        int(tree): trim_block(document.trees[tree], model.forest, smaller.trimming, i, smaller.values[:, 0])
        for i, tree in enumerate(smaller.trimming.kept)
    }
    if pruned is not None:
        trees = _whole_rounds(document, blocks, pruned, smaller.intercept)
        document = replace(document, trees=trees, best_iteration=0)
        return _finish(model, keep_average(document, model.forest.n_trees // document.num_class))
    return _finish(model, replace(document, trees=tuple(blocks.values()), best_iteration=0))


def _finish(model: Model, document: LightgbmDocument) -> Any:
    """Turn a document into the kind of model that was read."""
    if model.kind == "lightgbm file":
        return write_document(document)
    booster = load_native(replace(model, native=None, document=document))
    if booster.num_trees() != len(document.trees):
        raise UnsupportedModelError(f"LightGBM read {booster.num_trees()} of {len(document.trees)} trees.")
    if model.kind == "lightgbm.Booster":
        return booster
    wrapper = _copy_wrapper(model.native, booster)
    booster.best_iteration = 0  # what a fit without early stopping leaves
    wrapper._best_iteration = 0
    wrapper._best_score, wrapper._evals_result = {}, {}
    wrapper.n_estimators = document.n_rounds
    return wrapper


def _copy_wrapper(native: Any, booster: Any) -> Any:
    """Return a copy of the wrapper with another Booster."""
    wrapper = copy.copy(native)
    copied = {id(native): wrapper, id(native._Booster): booster}
    for name, value in list(vars(wrapper).items()):
        vars(wrapper)[name] = copy_value(value, copied)
    return wrapper


def _check_boundary(pruned: PrunedForest) -> None:
    decision = pruned.forest.decision
    if decision.cuts and not decision.thresholds:
        reach = decision.cuts[0] + decision.guard
        if 2.0**-pruned.grid <= 2 * reach:
            raise UnsupportedModelError(
                f"One grid unit 2**-{pruned.grid} lies within LightGBM's decision boundary "
                f"{reach:g} of this model (small sigmoid or many averaged rounds); use a coarser "
                "grid."
            )


def _check_classes(document: LightgbmDocument, pruned: PrunedForest) -> None:
    """Raise unless the native argmax distinguishes classes at the gap that the pruner left."""
    forest = pruned.forest
    if forest.n_outputs == 1:
        return
    value = np.ldexp(spread(forest, pruned.value_int).astype(np.float64), -pruned.grid)
    intercept = np.ldexp(pruned.intercept_int.astype(np.float64), -pruned.grid)
    lowest, highest = (
        bound.reduceat(value, forest.tree_offset[:-1], axis=0).sum(axis=0) + intercept
        for bound in (np.minimum, np.maximum)
    )
    divisor = document.n_used_rounds if document.average_output else 1
    objective = read_objective(document.objective, forest.n_outputs)
    needed = class_gap(objective, divisor, lowest, highest)
    left = max(2.0**-pruned.grid, forest.decision.guard)
    if needed > left:
        raise UnsupportedModelError(
            f"LightGBM distinguishes classes of this {objective.name} model only beyond a gap of "
            f"{needed:g}, but the pruned scores may be as close as {left:g}; use smaller weights "
            "or a coarser grid."
        )


def _whole_rounds(
    document: LightgbmDocument, blocks: dict[int, TreeBlock], pruned: PrunedForest, intercept: FloatArray
) -> tuple[TreeBlock, ...]:
    """Complete the kept rounds with constant trees, the first of each output with its intercept."""
    n_outputs, pending = document.num_class, intercept.copy()
    trees: list[TreeBlock] = []
    for first in sorted({tree - tree % n_outputs for tree in blocks}):
        for tree in range(first, first + n_outputs):
            if tree in blocks:
                # LightGBM marks a tree that holds the prior by shrinkage 1 in the first round
                shrinkage = blocks[tree].shrinkage * float(pruned.weights[tree])
                if len(trees) < n_outputs or not (0 < shrinkage < np.inf):
                    shrinkage = 1.0
                trees.append(with_means(blocks[tree], shrinkage))
            else:
                trees.append(constant_tree(document.trees[tree], pending[tree - first]))
                pending[tree - first] = 0.0
    if np.any(pending) or not trees:
        trees += [constant_tree(document.trees[i], pending[i]) for i in range(n_outputs)]
    return tuple(trees)


def keep_average(document: LightgbmDocument, n_averaged: int) -> LightgbmDocument:
    """Make ``predict`` of a random forest divide by the original number of rounds although it has fewer.

    LightGBM divides the sum by the number of rounds in the file. With n rounds instead of N, the
    probability sigmoid(k * sum / N) needs the slope k' = k n / N. The text keeps six digits of
    it, so rounds of zero leaves are added until k' has no more digits than that (at the latest at
    n = N). Objectives without a slope are padded to N. The margin, which is the sum, does not change.
    """
    if not document.average_output:
        return document
    line, n_rounds = document.objective or "", document.n_rounds
    head, has_slope, slope = line.rpartition("sigmoid:")
    padded = n_rounds if has_slope else n_averaged
    if padded < n_rounds:
        raise InvalidInputError(f"{n_rounds} rounds cannot be averaged as {n_averaged}.")
    while has_slope:
        exact = Fraction(slope) * padded / n_averaged
        text = f"{float(exact):g}"
        if Fraction(text) == exact:
            parameters = tuple((k, text if k == "sigmoid" else v) for k, v in document.parameters)
            document = replace(document, objective=head + has_slope + text, parameters=parameters)
            break
        padded += 1
    fillers = [constant_tree(tree, 0.0) for tree in document.trees[: document.num_class]]
    trees = document.trees + tuple(fillers) * (padded - n_rounds)
    return replace(document, trees=trees)


MAX_COUNT = 2**31 - 1  # LightGBM reads counts as int32


def constant_tree(like: TreeBlock, value: float, shrinkage: float = 1.0) -> TreeBlock:
    """Return a tree of one leaf that covers the data of another tree."""
    empty = {
        field.name: getattr(like, field.name)[:0]
        for field in fields(TreeBlock)
        if field.name not in ("shrinkage", "leaf_value", "leaf_weight", "leaf_count")
    }
    return TreeBlock(
        **{**empty, "cat_boundaries": like.cat_boundaries[:1]},
        leaf_value=np.array([value]),
        leaf_weight=like.leaf_weight.sum(keepdims=True),
        leaf_count=np.minimum(like.leaf_count.sum(keepdims=True), MAX_COUNT),
        shrinkage=shrinkage,
    )


def trim_block(block: TreeBlock, forest: Forest, trimming: Trimming, index: int, values: FloatArray) -> TreeBlock:
    """Return the block of tree ``kept[index]`` with its remaining nodes; ``values`` are those of all trees.

    The Forest lists the inner nodes of the block first, then its leaves.
    """
    part = trimming.part(index)
    leaf_value, is_leaf, node = values[part], trimming.is_leaf[part], trimming.node[part]
    if is_leaf[0]:
        return constant_tree(block, float(leaf_value[0]), block.shrinkage)
    local = node - forest.tree_offset[trimming.kept[index]]
    inner, leaves = local[~is_leaf], local[is_leaf]
    number = np.empty(len(local), dtype=np.int64)
    number[~is_leaf] = np.arange(len(inner))
    number[is_leaf] = ~np.arange(len(leaves))
    left, right = trimming.children(index)
    category_sets = _category_sets(forest, trimming, node[~is_leaf], block.is_categorical[inner])
    threshold = block.threshold[inner].copy()
    threshold[block.is_categorical[inner]] = np.arange(len(category_sets))
    sizes = [len(words) for words in category_sets]
    count = _totals(block, block.leaf_count.astype(np.float64))[leaves]
    return TreeBlock(
        split_feature=block.split_feature[inner],
        split_gain=block.split_gain[inner],
        threshold=threshold,
        decision_type=block.decision_type[inner],
        left_child=number[left[~is_leaf]],
        right_child=number[right[~is_leaf]],
        leaf_value=leaf_value[is_leaf],
        leaf_weight=_totals(block, block.leaf_weight)[leaves],
        leaf_count=np.minimum(count, MAX_COUNT).astype(np.int64),
        internal_value=block.internal_value[inner],
        internal_weight=block.internal_weight[inner],
        internal_count=block.internal_count[inner],
        cat_boundaries=np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        cat_threshold=np.concatenate([*category_sets, np.zeros(0, dtype=np.int64)]),
        shrinkage=block.shrinkage,
    )


def with_means(block: TreeBlock, shrinkage: float) -> TreeBlock:
    """Set the informative values of inner nodes to the mean of their data."""
    n_inner = block.n_leaves - 1
    weight = block.leaf_count.astype(np.float64)
    if not weight.any():
        weight = np.ones(block.n_leaves)
    total, count = _totals(block, weight * block.leaf_value), _totals(block, weight)
    mean = total[:n_inner] / np.maximum(count[:n_inner], 1)
    return replace(block, internal_value=mean, shrinkage=shrinkage)


def _totals(block: TreeBlock, of_leaf: FloatArray) -> FloatArray:
    """Return the sums over the leaves below every inner node, then the leaves themselves."""
    n_inner = block.n_leaves - 1
    left, right = block.left_child.tolist(), block.right_child.tolist()
    total = [0.0] * n_inner + of_leaf.tolist()  # lists: a tree is too small for numpy
    order = [0] if n_inner else []
    for node in order:  # grows: parents before their children
        order += [child for child in (left[node], right[node]) if child >= 0]
    for node in reversed(order):
        total[node] = sum(total[child if child >= 0 else n_inner + ~child] for child in (left[node], right[node]))
    return np.array(total)


def _category_sets(
    forest: Forest, trimming: Trimming, inner: IntArray, is_categorical: npt.NDArray[np.bool_]
) -> list[IntArray]:
    """Return the 32-bit words of the set of each remaining categorical node, in order."""
    sets = []
    for node in inner[is_categorical]:
        codes = kept_codes(forest, trimming, int(node))
        bits = np.zeros(32 * (int(codes.max(initial=0)) // 32 + 1), dtype=np.uint8)
        bits[codes] = 1
        words = np.packbits(bits, bitorder="little").view("<u4").astype(np.int64)
        sets.append(words)
    return sets
