"""The test: candidates, chosen and ordered before X_val is seen, become native models that predict X_val in that order.

The smallest candidate that passes is returned, with a record of the whole test. A candidate that its library cannot
hold ends the sequence, or raises if it is the very first; nothing is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from pine_boost.budget import Budget, Outcome, OutOfTime, StopReason
from pine_boost.compression.fit import rescale
from pine_boost.compression.fixed_sequence import FixedSequence, Target, lower_bound
from pine_boost.compression.goal import NO_COUNTS, Loss
from pine_boost.compression.path import Candidate, Task
from pine_boost.compression.reading import Tables
from pine_boost.compression.record import TestedSize
from pine_boost.errors import PineBoostError
from pine_boost.exporters import export
from pine_boost.model.forest import BoolArray, FloatArray, Model, PrunedForest
from pine_boost.model.shape import Shape, to_pruned
from pine_boost.model.trimming import untrimmed
from pine_boost.native.predict import CHUNK_CELLS
from pine_boost.parsers import read_model

_LOGGER = logging.getLogger("pine_boost")
# Levels of the estimate, as multiples of the share that the test allows. Rows made by swapping values are harder or
# easier than real ones by some factor (much easier where a forest has memorised its training rows), so the levels reach
# far to both sides: a forest on Balance-Scale loses 26 % of its leaves with the upper 40 alone, 48 % with all.
# On Spambase, PoL and JM1 (seed 0) 48.5 % of the leaves go with these, 35.0 with 8 levels, 45.5 with 24, 48.5 with 200.
_LEVELS = np.concatenate([np.geomspace(0.0004, 0.02, 27, endpoint=False), np.geomspace(0.02, 6.0, 40)])
_FEW = 4  # with fewer tests than this the largest size is a bad beginning
_SAFE = 0.25  # of the share that the test allows: expected to pass


def thinned(chain: list[Candidate], n_most: int, allowed_share: float) -> list[Candidate]:
    """At most so many candidates, evenly spaced.

    The largest comes first, unless only one to three can be tested: these begin with the smallest that is expected to
    change far fewer rows than the test allows.
    """
    if len(chain) <= n_most:
        return chain
    start, end = 0, len(chain) - 1
    if n_most < _FEW:
        start = max(0, sum(candidate.estimate <= _SAFE * allowed_share for candidate in chain) - 1)
        end = max(start, sum(candidate.estimate <= allowed_share for candidate in chain) - 1)
    return [chain[i] for i in np.unique(np.linspace(start, end, n_most).astype(int))]


class Estimated(Protocol):
    """Something to be tested: what it costs, and the share of rows on which it is expected to differ."""

    @property
    def cost(self) -> float:
        """What is to be made small."""

    @property
    def estimate(self) -> float:
        """Share of rows."""


AnyEstimated = TypeVar("AnyEstimated", bound=Estimated)


def choose(found: Sequence[AnyEstimated], allowed_share: float) -> list[AnyEstimated]:
    """For every level of the estimate the smallest shape below it, largest shapes first.

    Spacing by the estimate and not by size skips stretches where a smaller shape is as good: every further candidate is
    one more chance to fail by bad luck.
    """
    if not found:
        return []
    best = undominated(found)
    estimates = [candidate.estimate for candidate in best]
    n_below = np.searchsorted(estimates, _LEVELS * allowed_share, side="right")
    chosen = [best[i] for i in np.unique(n_below[n_below > 0]) - 1]
    # the safest first, however good the estimates are: of several, the largest
    safest = min(found, key=lambda candidate: (candidate.estimate, -candidate.cost))
    if chosen and chosen[0].cost >= safest.cost:
        return chosen
    return [safest, *chosen]


def undominated(found: Sequence[AnyEstimated]) -> list[AnyEstimated]:
    """Shapes with a lower estimate than every smaller one, largest first.

    Along the path estimates rise and fall again: a group of equal rows close to the decision may change its class in
    one shape and keep it in the next.
    """
    best: list[AnyEstimated] = []
    for candidate in sorted(found, key=lambda candidate: (candidate.cost, candidate.estimate)):
        if not best or candidate.estimate < best[-1].estimate:
            best.append(candidate)
    return best[::-1]


@dataclass(frozen=True, eq=False)
class Written:
    """A candidate as a native model."""

    original: Model
    native: Any
    shape: Shape
    pruned: PrunedForest

    @cached_property
    def model(self) -> Model:
        """The native model as read back."""
        return read_model(self.native, threshold=self.original.forest.decision.thresholds or None, decision="value")

    @property
    def is_plain(self) -> bool:
        """Whether it differs from the original in its trees only, so that it predicts and counts without a read-back.

        Exporters may fill up the rounds of several outputs, averages depend on the number of trees, and bytes must be
        read.
        """
        forest = self.original.forest
        is_live = self.original.native is not None and not isinstance(self.native, (bytes, bytearray))
        return is_live and forest.n_outputs == 1 and forest.free_intercept and len(self.pruned.kept) > 0

    @property
    def asked(self) -> Model:
        """What predicts X_val."""
        return replace(self.original, native=self.native) if self.is_plain else self.model

    @property
    def sizes(self) -> tuple[int, int]:
        """Trees and leaves."""
        if self.is_plain:
            return len(self.pruned.kept), self.shape.n_leaves
        return self.model.forest.n_trees, self.model.forest.n_leaves

    @property
    def source_trees(self) -> tuple[int, ...]:
        """The trees of the original that its splitting trees come from."""
        assert self.pruned.is_leaf is not None
        roots = self.pruned.forest.tree_offset[:-1][self.pruned.kept]
        if self.pruned.instead is not None:
            roots = self.pruned.instead[roots]
        return tuple(int(tree) for tree in self.pruned.kept[~self.pruned.is_leaf[roots]])


@dataclass(frozen=True, eq=False)
class Validated:
    """What the test found.

    Attributes
    ----------
    written : Written or None
        The smallest candidate that passed; None: the original stays.
    tested : tuple of TestedSize
        Largest first.
    changed : bool (n_val,)
        Rows on which the returned model differs.
    losses : tuple of float
        Mean loss on X_val of the original and of the returned model; empty without labels, or without time.
    """

    written: Written | None
    tested: tuple[TestedSize, ...]
    changed: BoolArray
    losses: tuple[float, ...]


def validate(
    task: Task,
    chain: list[Candidate],
    tables: Tables,
    target: Target,
    loss: Loss | None,
    share: float,
    deadline: Budget,
) -> Outcome[Validated]:
    """Test the chain natively; the smallest candidate that passed is taken.

    As many sizes are tested as fit into this share of a limited time, none if X_val cannot be predicted before the
    ``deadline``. Ending a sequence early, for lack of time or because a candidate is refused, accepts less: what passed
    before stays valid. The reason is that for which no further size was tested.
    """
    budget, goal, n_rows = deadline.until(share), task.goal, tables.val.n_rows
    watch = budget.share(1.0)
    changed = np.zeros(n_rows, dtype=bool)
    try:
        before = goal.native_answers(task.parsed, tables.X_val, deadline.check)
    except OutOfTime:
        return Outcome(Validated(None, (), changed, ()), StopReason.TIME)
    is_quick = n_rows * task.parsed.forest.n_trees <= CHUNK_CELLS  # one size is tested in any case
    candidates = chain
    if budget.is_limited and chain and (is_quick or not deadline.is_over):
        write(task, chain[0])  # only to measure how long one size takes
        n_most = max(1, int(watch.remaining / max(watch.elapsed, 1e-3)))
        candidates = thinned(chain, n_most, target.aim())
    why = StopReason.EFFORT if len(candidates) == len(chain) else StopReason.TIME
    lost_before = np.zeros(0) if loss is None else loss.of(before)
    best: tuple[Written | None, BoolArray, FloatArray] = (None, changed, lost_before)
    tested: list[TestedSize] = []
    sequence, chosen = FixedSequence(target.tests()), -1
    for candidate in candidates:
        if sequence.is_over or (tested and budget.is_over) or (deadline.is_over and not is_quick):
            break
        shape = rescale(goal, task.subtrees, task.sample.holdout_points, candidate.shape)
        try:
            written = write(task, replace(candidate, shape=shape))
            after = goal.native_answers(written.asked, tables.X_val, deadline.check)
        except OutOfTime:
            break
        except PineBoostError as error:
            if not tested:
                raise
            _LOGGER.warning("A size of %d leaves was not tested: %s", shape.n_leaves, error)
            why = StopReason.REFUSED
            break
        changed, lost = goal.differ(before, after), lost_before if loss is None else loss.of(after)
        n_changed = int(changed.sum())
        size = TestedSize(
            *written.sizes,
            candidate.cost,
            shape.name,
            candidate.estimate,
            n_changed,
            lower_bound(n_changed, n_rows, target.confidence),
            **(NO_COUNTS if loss is None else loss.count(lost_before, lost, target.max_loss)),
            accepted=False,
        )
        tested.append(sequence.judge(size))
        if tested[-1].accepted and (chosen < 0 or size.cost < tested[chosen].cost):
            best, chosen = (written, changed, lost), len(tested) - 1
    smallest, changed, lost = best
    if smallest is not None:  # an exporter may have added a tree that holds a constant
        forest = smallest.model.forest
        tested[chosen] = replace(tested[chosen], trees=forest.n_trees, leaves=forest.n_leaves)
    losses = () if loss is None else (float(lost_before.mean()), float(lost.mean()))
    found = Validated(smallest, tuple(tested), changed, losses)
    return Outcome(found, StopReason.TIME if budget.is_over else why)


def write(task: Task, candidate: Candidate) -> Written:
    """Export a candidate as a native model."""
    pruned = to_pruned(task.goal.forest, task.subtrees, candidate.shape)
    if task.lossless is not None:
        pruned = untrimmed(pruned, task.parsed.forest, task.lossless)
    return Written(task.parsed, export(task.parsed, pruned), candidate.shape, pruned)
