"""The validation: candidates become native models and are asked about X_val, in order.

In come candidates in their fixed order; out goes the smallest that passed, with the whole record of
the test. A candidate that its library cannot hold raises; nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.compression.answers import Answers, Question, ask, differ
from pine_boost.compression.candidates import Candidate
from pine_boost.compression.fixed_sequence import in_order, lower_bound
from pine_boost.compression.goal import Goal
from pine_boost.compression.options import CompressOptions
from pine_boost.compression.reading import Tables
from pine_boost.compression.record import TestedSize
from pine_boost.compression.rounding import to_pruned
from pine_boost.compression.scale import rescale
from pine_boost.compression.search import Setting
from pine_boost.compression.shape import Shape
from pine_boost.exporters import export
from pine_boost.model.forest import Model
from pine_boost.parsers import read_model


@dataclass(frozen=True, eq=False)
class Written:
    """A candidate as a native model, and the rows of X_val on which it differs."""

    native: Any
    model: Model
    shape: Shape
    changed: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Validated:
    """The outcome of the test.

    Attributes
    ----------
    written : Written or None
        The smallest candidate that passed; None: the original stays.
    tested : tuple of TestedSize
        Largest first, the last one perhaps not accepted.
    changed : bool (n_val,)
        Rows on which the returned model differs.
    bound : float
    before : Answers
    question : Question
    """

    written: Written | None
    tested: tuple[TestedSize, ...]
    changed: npt.NDArray[np.bool_]
    bound: float
    before: Answers
    question: Question


def validate(
    parsed: Model,
    goal: Goal,
    setting: Setting,
    candidates: Sequence[Candidate],
    tables: Tables,
    options: CompressOptions,
) -> Validated:
    """Test candidates natively, largest first, and stop at the first that fails."""
    question = Question(goal.keeps_class, goal.tolerance)
    before = ask(parsed, tables.X_val, question)
    n_rows = tables.val.n_rows
    written: list[Written] = []

    def counts() -> Any:
        for candidate in candidates:
            shape = rescale(goal, setting.ranges, setting.rows.looked_at, candidate.shape)
            written.append(_write(parsed, setting, shape, tables.X_val, before, question))
            yield int(written[-1].changed.sum())

    tested: list[TestedSize] = []
    best: Written | None = None
    outcomes = in_order(counts(), n_rows, options.fidelity, options.confidence)
    for candidate, outcome in zip(candidates, outcomes, strict=False):
        forest = written[-1].model.forest
        tested.append(
            TestedSize(
                forest.n_trees,
                forest.n_leaves,
                candidate.shape.name,
                candidate.estimate,
                outcome.n_changed,
                outcome.bound,
                outcome.accepted,
            )
        )
        if outcome.accepted:
            best = written[-1]
    changed = np.zeros(n_rows, dtype=bool)
    if best is not None:
        changed = best.changed
    bound = lower_bound(int(changed.sum()), n_rows, options.confidence)
    return Validated(best, tuple(tested), changed, bound, before, question)


def _write(
    parsed: Model, setting: Setting, shape: Shape, X_val: Any, before: Answers, question: Question
) -> Written:
    """Export a shape, read it back and ask it."""
    native = export(parsed, to_pruned(parsed.forest, setting.ranges, shape))
    thresholds = parsed.forest.decision.thresholds or None
    model = read_model(native, threshold=thresholds, decision="value")
    changed = differ(before, ask(model, X_val, question), question)
    return Written(native, model, shape, changed)
