"""Replay counterexamples: both native models predict the points that the search and the proofs used.

A point on which a native library contradicts the integers raises an error, and nothing is certified.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import PineBoostError
from pine_boost.model.exact import original_scale, summation_band
from pine_boost.model.forest import IntArray, Model, PrunedForest
from pine_boost.native.predict import load_native, predict_classes, predict_margins
from pine_boost.proof.problem import Problem
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import InputSchema


def replay_points(
    problem: Problem, schema: InputSchema, models: tuple[Model, Model], pruned: PrunedForest, states: npt.NDArray[Any]
) -> None:
    """Raise unless margins and classes of both native models match the integers.

    Inside a rounding band either class is right and only the margins are compared. Nothing is
    compared if the native library is not installed.

    Parameters
    ----------
    problem : Problem
    schema : InputSchema
        The columns of a table of real inputs.
    models : the original and the exported pruned model
    pruned : PrunedForest
        The forest that was exported as the pruned model.
    states : (n_points, n_features)
    """
    matrix = problem.space.representative(states)
    usable = ~np.isinf(matrix).any(axis=1)  # not every library accepts infinities
    if not usable.any():
        return
    table = as_table(matrix[usable], schema)
    leaves = problem.trees.leaves(states[usable])
    try:
        original, smaller = (replace(model, native=load_native(model)) for model in models)
    except ImportError:  # reading and proving need no native library
        return
    before = problem.original_margins_int(leaves)
    band = original_band(problem)
    _compare(problem, original, table, (before, problem.least, problem.scale), band)
    after = problem.pruned_margins_int(pruned, leaves)
    needed = problem.needed_sides(pruned.grid)
    _compare(problem, smaller, table, (after, needed, pruned.grid), None)


def _compare(
    problem: Problem, model: Model, table: Any, expected: tuple[IntArray, IntArray, int], band: float | None
) -> None:
    """Compare classes and margins of one native model; ``band`` is None for the pruned one."""
    which = "pruned" if band is None else "original"
    margins, least, scale = expected
    lowest, highest = certain_classes(problem, margins, least)
    classes = predict_classes(model, table)
    wrong = (classes < lowest) | (classes > highest)
    if wrong.any():
        row = int(np.argmax(wrong))
        _object(
            f"the native {which} model predicts class {classes[row]} where the integers say "
            f"{lowest[row]} to {highest[row]}"
        )
    predicted = predict_margins(model, table)
    if predicted is None:
        return
    native, blur = predicted
    distance = np.abs(native - np.ldexp(margins.astype(np.float64), -scale)).max()
    # on the grid every sum is exact; after a division it is off by at most one unit (see exporters)
    proved = band + blur if band is not None else np.ldexp(float(blur > 0), -scale)
    if not distance <= proved:
        _object(f"the native {which} margin is {distance:g} off the integers, proved is {proved:g}")


def certain_classes(problem: Problem, margins: IntArray, least: IntArray) -> tuple[IntArray, IntArray]:
    """Return the lowest and highest class (or band) that integer margins leave open for each point.

    ``least`` is the value of `Problem.sides` per question from which a class is certain.
    """
    is_decided = problem.sides(margins) >= least
    if problem.forest.n_outputs == 1:
        above = np.array([question.asks_above for question in problem.questions])
        lowest = is_decided[:, above].sum(axis=1)
        return lowest, len(problem.forest.decision.cuts) - is_decided[:, ~above].sum(axis=1)
    lowest = np.zeros(len(margins), dtype=np.int64)
    highest = np.full(len(margins), problem.forest.n_outputs - 1, dtype=np.int64)
    for index, own in enumerate(problem.class_questions):
        wins = is_decided[:, own].all(axis=1)
        lowest[wins] = highest[wins] = index
    return lowest, highest


def original_band(problem: Problem) -> float:
    """Bound |native margin of the original - integer margin / 2**scale| for every input."""
    if not problem.strict.all():  # exact arithmetic, exact integers
        return 0.0
    band = summation_band(problem.forest)
    if not original_scale(problem.forest)[1]:  # leaves that are not integer multiples of the unit
        band += float(np.ldexp(problem.forest.n_trees + 1, -problem.scale - 1))
    return band


def _object(what: str) -> None:
    raise PineBoostError(
        f"Internal error: {what} (points of the search were replayed). Nothing was certified; please report this."
    )
