"""Write a pruned or trimmed forest as a LightGBM Booster, wrapper or text file.

Only text written here from checked arrays reaches the native loader.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters import Smaller, copy_without, whole_rounds
from pine_boost.model.forest import FloatArray, Forest, IntArray, Model, PrunedForest, spread
from pine_boost.native.predict import load_native
from pine_boost.parsers.lightgbm.document import LightgbmDocument
from pine_boost.parsers.lightgbm.read import class_gap, read_objective
from pine_boost.parsers.lightgbm.write import write_document
from pine_boost.parsers.nodes import Nodes, constant_trees, stack


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
    trees, kept = _trimmed(document.trees, smaller), smaller.trimming.kept
    if pruned is None:
        return _finish(model, replace(document, trees=trees, shrinkage=document.shrinkage[kept], best_iteration=0))
    document = _whole_rounds(document, with_means(trees), model.forest, smaller)
    return _finish(model, keep_average(document, model.forest.n_trees // document.num_class))


def _finish(model: Model, document: LightgbmDocument) -> Any:
    """Turn a document into the kind of model that was read."""
    if model.native is None:
        return write_document(document)
    booster = load_native(replace(model, native=None, document=document))
    if booster.num_trees() != document.trees.n_trees:
        raise UnsupportedModelError(f"LightGBM read {booster.num_trees()} of {document.trees.n_trees} trees.")
    if model.kind == "lightgbm.Booster":
        return booster
    wrapper = copy_without(model.native, (), {id(model.native._Booster): booster})
    booster.best_iteration = 0  # what a fit without early stopping leaves
    wrapper._best_iteration = 0
    wrapper._best_score, wrapper._evals_result = {}, {}
    wrapper.n_estimators = document.n_rounds
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


def _whole_rounds(document: LightgbmDocument, trees: Nodes, forest: Forest, smaller: Smaller) -> LightgbmDocument:
    """Complete the kept rounds with constant trees, those of the first with the intercept."""
    pruned, kept = smaller.pruned, smaller.trimming.kept
    assert pruned is not None
    rounds, place, constant = whole_rounds(forest, smaller)
    like = (rounds[:, None] * document.num_class + np.arange(document.num_class)).ravel()
    place = place.ravel()
    order = np.where(place < 0, len(kept) + np.arange(len(place)), place)
    shrinkage = np.append(document.shrinkage[kept] * pruned.weights[kept], np.ones(len(place)))[order]
    # LightGBM marks a tree that holds the prior by shrinkage 1 in the first round
    shrinkage[: document.num_class] = 1.0
    shrinkage[~((shrinkage > 0) & (shrinkage < np.inf))] = 1.0
    written = stack([trees, _constants(document.trees, like, constant.ravel())]).pick(order)
    return replace(document, trees=written, shrinkage=shrinkage, best_iteration=0)


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
    like = np.tile(np.arange(document.num_class), padded - n_rounds)
    trees = stack([document.trees, _constants(document.trees, like, np.zeros(len(like)))])
    return replace(document, trees=trees, shrinkage=np.append(document.shrinkage, np.ones(len(like))))


MAX_COUNT = 2**31 - 1  # LightGBM reads counts as int32


def _constants(trees: Nodes, like: IntArray, values: FloatArray) -> Nodes:
    """Return trees of one leaf that cover the data of some others."""
    root = trees.offset[:-1][like]
    record = np.zeros(len(like), dtype=trees.record.dtype)
    record["value"], record["weight"] = values, trees.totals(trees["weight"])[root]
    record["count"] = np.minimum(trees.totals(trees["count"])[root], MAX_COUNT)
    return constant_trees(record)


def _trimmed(trees: Nodes, smaller: Smaller) -> Nodes:
    """Return the remaining nodes; a new leaf has the data below it."""
    is_leaf, node, trimmed = smaller.trimming.is_leaf, smaller.trimming.node, trees.trimmed(smaller.trimming)
    return trimmed.changed(
        value=np.where(is_leaf, smaller.values[:, 0], trimmed["value"]),
        weight=np.where(is_leaf, trees.totals(trees["weight"])[node], trimmed["weight"]),
        count=np.where(is_leaf, np.minimum(trees.totals(trees["count"])[node], MAX_COUNT), trimmed["count"]),
    )


def with_means(trees: Nodes) -> Nodes:
    """Set the informative values of inner nodes to the mean of their data, or of their leaves without counts."""
    of_tree = np.repeat(trees.totals(trees["count"])[trees.offset[:-1]], np.diff(trees.offset))
    count = np.where(of_tree == 0, 1, trees["count"])
    mean = trees.totals(count * trees["value"]) / np.maximum(trees.totals(count), 1)
    return trees.changed(value=np.where(trees.is_leaf, trees["value"], mean))
