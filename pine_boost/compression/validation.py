"""The validation: candidates become native models and are asked about X_val, in order.

In come two chains of candidates in their fixed order; out goes the smallest that passed, with the
whole record of the test. A candidate that its library cannot hold ends its sequence, or raises if
it is the very first; nothing is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.compression.answers import Answers, Question, ask, differ
from pine_boost.compression.candidates import Candidate, Chains
from pine_boost.compression.fixed_sequence import (
    Tested,
    allowed,
    allowed_by_the_rest,
    expected_share,
    in_order,
    lower_bound,
)
from pine_boost.compression.goal import Goal
from pine_boost.compression.options import CompressOptions
from pine_boost.compression.reading import Tables
from pine_boost.compression.record import FIRST_CHAIN, SLICE_CHAIN, TestedSize
from pine_boost.compression.rounding import to_pruned
from pine_boost.compression.scale import rescale
from pine_boost.compression.search import Setting
from pine_boost.compression.shape import Shape, margins
from pine_boost.errors import PineBoostError
from pine_boost.exporters import export
from pine_boost.model.forest import Model, PrunedForest
from pine_boost.parsers import read_model

_LOGGER = logging.getLogger("pine_boost")


@dataclass(frozen=True, eq=False)
class Written:
    """A candidate as a native model, and the rows of X_val on which it differs.

    ``source_trees`` are the trees that its splitting trees come from.
    """

    native: Any
    model: Model
    shape: Shape
    changed: npt.NDArray[np.bool_]
    source_trees: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Validated:
    """The outcome of the test.

    Attributes
    ----------
    written : Written or None
        The smallest candidate that passed; None: the original stays.
    tested : tuple of TestedSize
        Chain by chain, largest first, the last one of a chain perhaps not accepted.
    changed : bool (n_val,)
        Rows on which the returned model differs.
    bound : float
    before : Answers
    question : Question
    is_whole : bool
        False: time ended the test, or left room for some of the sizes only.
    is_refused : bool
        A smaller candidate could not be written or asked, which ended its sequence.
    """

    written: Written | None
    tested: tuple[TestedSize, ...]
    changed: npt.NDArray[np.bool_]
    bound: float
    before: Answers
    question: Question
    is_whole: bool
    is_refused: bool


def validate(
    parsed: Model,
    start: Model,
    goal: Goal,
    setting: Setting,
    chains: Chains,
    tables: Tables,
    options: CompressOptions,
    budget: Budget,
) -> Validated:
    """Test both chains natively; the smallest that passed in either is taken.

    ``parsed`` is asked what must be kept; ``start``, its lossless part, is what shrinks. As many
    sizes are tested as time is left for, one at least. Ending a sequence early, for lack of time or
    as a candidate is refused, accepts less: what passed before stays valid.
    """
    question = Question(goal.keeps_class, goal.tolerance)
    watch = budget.share(1.0)
    before = ask(parsed, tables.X_val, question)
    given = chains
    if budget.is_limited and chains.first:
        chains = _affordable(start, setting, chains, tables.val.n_rows, options, watch)
    is_whole = chains.first == given.first
    n_rows, confidence = tables.val.n_rows, options.confidence
    target = (n_rows, options.fidelity, confidence)
    tested: list[TestedSize] = []
    best: Written | None = None
    refused: list[Candidate] = []

    def run(chain: str, candidates: Sequence[Candidate], most: int) -> None:
        nonlocal best
        written: list[Written] = []

        def counts() -> Iterator[int]:
            for candidate in candidates:
                if tested and budget.is_over:
                    return
                shape = rescale(goal, setting.ranges, setting.rows.holdout_points, candidate.shape)
                write = partial(_write, start, setting, shape, tables.X_val, before, question)
                now = write() if not tested else _unless_refused(write, candidate)
                if now is None:
                    refused.append(candidate)
                    return
                written.append(now)
                yield int(written[-1].changed.sum())

        outcomes = in_order(counts(), n_rows, confidence, most)
        for candidate, outcome in zip(candidates, outcomes, strict=False):
            now = written[-1]
            tested.append(_tested_size(chain, candidate, now, outcome))
            if outcome.accepted and (best is None or _size(now) < _size(best)):
                best = now

    run(FIRST_CHAIN, chains.first, allowed(*target))
    most = allowed_by_the_rest(*target)
    n_best = setting.original.n_leaves if best is None else _size(best)
    is_whole = is_whole and not budget.is_over
    if is_whole and _reaches(goal, setting, chains.slices, tables, most, n_best):
        run(SLICE_CHAIN, chains.slices, most)
    changed = np.zeros(n_rows, dtype=bool) if best is None else best.changed
    bound = lower_bound(int(changed.sum()), n_rows, confidence)
    is_whole = is_whole and not budget.is_over
    return Validated(best, tuple(tested), changed, bound, before, question, is_whole, bool(refused))


def _affordable(
    start: Model, setting: Setting, chains: Chains, n_val: int, options: CompressOptions, watch: Budget
) -> Chains:
    """The candidates that time is left for."""
    _exported(start, setting, chains.first[0].shape)  # only for the time that one size takes
    n_most = max(1, int(watch.remaining / max(watch.elapsed, 1e-3)))
    return chains.thinned(n_most, expected_share(n_val, options.fidelity, options.confidence))


def _reaches(
    goal: Goal, setting: Setting, candidates: Sequence[Candidate], tables: Tables, most: int, n_leaves: int
) -> bool:
    """Whether a chain seems to get below a size: only then it is worth asking natively.

    Not asking accepts nothing, so this look at X_val cannot make a promise too strong.
    """
    if most < 0 or not any(candidate.n_leaves < n_leaves for candidate in candidates):
        return False
    first = next(i for i, candidate in enumerate(candidates) if candidate.n_leaves < n_leaves)

    def count(states: npt.NDArray[np.int32]) -> list[int]:
        leaves = setting.trees.leaves(states)
        before = margins(setting.original, goal.forest, leaves)
        return [
            int(goal.changed(before, margins(candidate.shape, goal.forest, leaves)).sum())
            for candidate in candidates[: first + 1]
        ]

    counts = np.sum(list(tables.val.map_states(setting.space, count)), axis=0)
    return bool(np.all(counts <= most))


def _size(written: Written) -> int:
    return written.model.forest.n_leaves


def _tested_size(chain: str, candidate: Candidate, now: Written, outcome: Tested) -> TestedSize:
    forest = now.model.forest
    return TestedSize(
        forest.n_trees,
        forest.n_leaves,
        candidate.shape.name,
        candidate.estimate,
        outcome.n_changed,
        outcome.bound,
        outcome.accepted,
        chain,
    )


def _unless_refused(write: Callable[[], Written], candidate: Candidate) -> Written | None:
    """A candidate as a native model; None where it is refused, which the log explains."""
    try:
        return write()
    except PineBoostError as error:
        _LOGGER.warning("A size of %d leaves was not tested: %s", candidate.n_leaves, error)
        return None


def _exported(parsed: Model, setting: Setting, shape: Shape) -> tuple[Any, Model, PrunedForest]:
    """A shape as a native model, and that as read back."""
    pruned = to_pruned(parsed.forest, setting.ranges, shape)
    native = export(parsed, pruned)
    thresholds = parsed.forest.decision.thresholds or None
    return native, read_model(native, threshold=thresholds, decision="value"), pruned


def _write(parsed: Model, setting: Setting, shape: Shape, X_val: Any, before: Answers, question: Question) -> Written:
    """Export a shape, read it back and ask it."""
    native, model, pruned = _exported(parsed, setting, shape)
    changed = differ(before, ask(model, X_val, question), question)
    assert pruned.is_leaf is not None  # as to_pruned makes it
    splits = ~pruned.is_leaf[parsed.forest.tree_offset[:-1][pruned.kept]]
    source_trees = tuple(int(tree) for tree in pruned.kept[splits])
    return Written(native, model, shape, changed, source_trees)
