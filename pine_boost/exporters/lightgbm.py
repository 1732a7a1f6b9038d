"""A pruned forest back into a LightGBM model of the kind that came in.

In come the parsed Model and a PrunedForest; out goes a new Booster, a copy of the wrapper or the
bytes of a text file. Only text written here from checked arrays ever reaches the native loader.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, MissingDependencyError, UnsupportedModelError
from pine_boost.exporters.copying import copy_value
from pine_boost.exporters.tree_blocks import constant_tree, trim_block, with_means
from pine_boost.model.exact import PRECISION, largest_leaf
from pine_boost.model.forest import FloatArray, Model, PrunedForest, spread
from pine_boost.model.trimming import Trimming, trim_pruned
from pine_boost.parsers.lightgbm.decision import class_gap, read_objective
from pine_boost.parsers.lightgbm.document import LightgbmDocument
from pine_boost.parsers.lightgbm.tree import TreeBlock
from pine_boost.parsers.lightgbm.write import write_document


def write_lightgbm(model: Model, pruned: PrunedForest) -> Any:
    """Write a pruned forest as a LightGBM model of the same kind as the original.

    Parameters
    ----------
    model : Model
        What `read_lightgbm` returned.
    pruned : PrunedForest
        Kept trees and leaf values in grid units.

    Returns
    -------
    lightgbm.Booster, LGBMClassifier (or other wrapper) or bytes
        ``predict(raw_score=True)`` is the integer sum / 2**grid, bit for bit. A dropped class
        tree of a kept round is one leaf of 0. Random forests keep ``average_output`` and the
        meaning of their mean: see `keep_average`.

    Raises
    ------
    InvalidInputError
        Sums of the pruned forest do not fit float64 exactly.
    UnsupportedModelError
        One grid unit is smaller than LightGBM's own decision boundary, or the scores of a
        multiclassova model are so much larger than the original's that sigmoids saturate.
    """
    _check_grid(pruned)
    _check_classes(model.document, pruned)
    return _finish(model, prune_document(model.document, pruned))


def trim_lightgbm(model: Model, trimming: Trimming, shift: FloatArray) -> Any:
    """Write the remaining nodes with their own leaf values; whole rounds must be kept.

    ``shift`` is added to every leaf of a tree.
    """
    document, forest = model.document, model.forest
    values = trimming.shifted(forest.value[trimming.value_node, 0], shift)
    trees = tuple(
        trim_block(document.trees[tree], forest, trimming, index, values[trimming.part(index)])
        for index, tree in enumerate(trimming.kept)
    )
    return _finish(model, replace(document, trees=trees, best_iteration=0))


def _finish(model: Model, document: LightgbmDocument) -> Any:
    """A document as the kind that came in."""
    contents = write_document(document)
    if model.kind == "lightgbm file":
        return contents
    booster = _load(contents, len(document.trees))
    if model.kind == "lightgbm.Booster":
        return booster
    wrapper = _copy_wrapper(model.native, booster)
    booster.best_iteration = 0  # what a fit without early stopping leaves
    wrapper._best_iteration = 0
    wrapper._best_score, wrapper._evals_result = {}, {}
    wrapper.n_estimators = document.n_rounds
    return wrapper


def _copy_wrapper(native: Any, booster: Any) -> Any:
    """A copy of everything but the Booster, whose place the new one takes."""
    wrapper = copy.copy(native)
    copied = {id(native): wrapper, id(native._Booster): booster}
    for name, value in list(vars(wrapper).items()):
        vars(wrapper)[name] = copy_value(value, copied)
    return wrapper


def _check_grid(pruned: PrunedForest) -> None:
    largest = largest_leaf(pruned.forest, pruned.value_int)
    if (largest.sum(axis=0) + np.abs(pruned.intercept_int)).max() >= 2 ** PRECISION[np.float64]:
        raise InvalidInputError("The pruned leaves can add up to 2**53 grid units or more.")
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
    """The gap that the pruner left between classes must be one that the native argmax sees."""
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
            f"LightGBM tells classes of this {objective.name} model apart only beyond a gap of "
            f"{needed:g}, but the pruned scores may be as close as {left:g}; use smaller weights "
            "or a coarser grid."
        )


def prune_document(document: LightgbmDocument, pruned: PrunedForest) -> LightgbmDocument:
    """The document with the kept nodes only, leaves on the grid, whole rounds."""
    forest, n_outputs = pruned.forest, document.num_class
    trimming = trim_pruned(pruned)
    values = np.ldexp(pruned.value_int[trimming.node, 0].astype(np.float64), -pruned.grid)
    index = {int(tree): i for i, tree in enumerate(pruned.kept)}
    pending = np.ldexp(pruned.intercept_int.astype(np.float64), -pruned.grid)
    trees: list[TreeBlock] = []
    for first in sorted({tree - tree % n_outputs for tree in index}):
        for tree in range(first, first + n_outputs):
            block = document.trees[tree]
            if tree in index:
                part = trimming.part(index[tree])
                trimmed = trim_block(block, forest, trimming, index[tree], values[part])
                # LightGBM's sign for "the prior is in here" is shrinkage 1 in the first round
                shrinkage = block.shrinkage * float(pruned.weights[tree])
                if len(trees) < n_outputs or not (0 < shrinkage < np.inf):
                    shrinkage = 1.0
                trees.append(with_means(trimmed, shrinkage))
            else:
                trees.append(constant_tree(block, pending[tree - first]))
                pending[tree - first] = 0.0
    if np.any(pending) or not trees:
        trees += [constant_tree(document.trees[i], pending[i]) for i in range(n_outputs)]
    document = replace(document, trees=tuple(trees), best_iteration=0)
    return keep_average(document, forest.n_trees // n_outputs)


def keep_average(document: LightgbmDocument, n_averaged: int) -> LightgbmDocument:
    """Make ``predict`` of a random forest divide as it did, though it has fewer trees.

    LightGBM divides the sum by the number of rounds in the file. With n rounds instead of N, the
    probability sigmoid(k * sum / N) needs the slope k' = k n / N. The text keeps six digits of
    it, so rounds of zero leaves are added until k' has no more than that (at the latest at
    n = N). Objectives without a slope are padded to N. The margin, the sum, is untouched.
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


def _load(contents: bytes, n_trees: int) -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise MissingDependencyError(
            "Writing a live LightGBM model needs lightgbm; install pine-boost[lightgbm]."
        ) from error
    try:
        booster = lightgbm.Booster(model_str=contents.decode("utf-8"))
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise UnsupportedModelError(
            f"LightGBM refuses the model, probably for its parameters section: {error}"
        ) from error
    if booster.num_trees() != n_trees:
        raise UnsupportedModelError(f"LightGBM read {booster.num_trees()} of {n_trees} trees.")
    return booster
