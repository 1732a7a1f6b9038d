"""The test: candidates, chosen and ordered before X_val is seen, become native models that predict X_val in that order.

The smallest candidate that passes is returned, with a record of the whole test. A candidate that its library cannot
hold ends its sequence, or raises if it is the very first; nothing is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from pine_boost.budget import Budget, OutOfTime, StopReason
from pine_boost.compression.fit import rescale
from pine_boost.compression.fixed_sequence import allowed, allowed_by_the_rest, expected_share, in_order, lower_bound
from pine_boost.compression.path import Candidate, Task
from pine_boost.compression.reading import Tables
from pine_boost.compression.record import FIRST_CHAIN, SLICE_CHAIN, WORK, TestedSize
from pine_boost.compression.shape import SLICE, LosslessPart, Shape, margins, to_pruned
from pine_boost.errors import PineBoostError
from pine_boost.exporters import export
from pine_boost.model.forest import BoolArray, Int32Array, Model, PrunedForest
from pine_boost.native.predict import CHUNK_CELLS
from pine_boost.options import CompressOptions
from pine_boost.parsers import read_model

_LOGGER = logging.getLogger("pine_boost")
# Levels of the estimate, as multiples of the share that the test allows. Rows made by swapping values are harder or
# easier than real ones by some factor (much easier where a forest has memorised its training rows), so the levels reach
# far to both sides. Validation rows drawn repeatedly on five data sets: 8 levels 48.2 % of the leaves gone, 12 49.4,
# 24 48.8, 40 50.0, 100 50.1; a forest on Balance-Scale: 26 % with the upper 40 alone, 48 % with the lower ones.
_LEVELS = np.concatenate([np.geomspace(0.0004, 0.02, 27, endpoint=False), np.geomspace(0.02, 6.0, 40)])
_FEW = 4  # with fewer tests than this the largest size is a bad beginning
_SAFE = 0.25  # of the share that the test allows: expected to pass


@dataclass(frozen=True, eq=False)
class Chains:
    """The two sequences that are tested, each from its largest shape to its smallest.

    Slices of the original stand in the first where their estimate is good, and alone in the second: where estimates
    mislead, the result is still no larger than a slice that passes.
    """

    first: list[Candidate]
    slices: list[Candidate]

    def thinned(self, n_most: int, allowed_share: float) -> Chains:
        """At most so many of each, evenly spaced.

        The largest comes first, unless only one to three can be tested: these begin with the smallest that is expected
        to change far fewer rows than the test allows.
        """
        first, slices = (
            chain if len(chain) <= n_most else _thinned(chain, n_most, allowed_share)
            for chain in (self.first, self.slices)
        )
        return Chains(first, slices)


def _thinned(chain: list[Candidate], n_most: int, allowed_share: float) -> list[Candidate]:
    start, end = 0, len(chain) - 1
    if n_most < _FEW:
        start = max(0, sum(candidate.estimate <= _SAFE * allowed_share for candidate in chain) - 1)
        end = max(start, sum(candidate.estimate <= allowed_share for candidate in chain) - 1)
    return [chain[i] for i in np.unique(np.linspace(start, end, n_most).astype(int))]


def choose_chains(found: Sequence[Candidate], allowed_share: float) -> Chains:
    """Both sequences, each ordered by the estimates of its own shapes."""
    slices = [candidate for candidate in found if candidate.shape.name == SLICE]
    return Chains(choose(found, allowed_share), choose(slices, allowed_share))


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
    cost: float

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
    stopped : StopReason
        Why no further size was tested: effort, time, or a size that was refused.
    work_before, work_after : float
        Of the original and of the returned model, see `Cost`.
    """

    written: Written | None
    tested: tuple[TestedSize, ...]
    changed: BoolArray
    bound: float
    stopped: StopReason
    work_before: float
    work_after: float


def validate(
    parsed: Model,
    lossless: LosslessPart,
    task: Task,
    chains: Chains,
    tables: Tables,
    options: CompressOptions,
    budget: Budget,
    deadline: Budget,
) -> Validated:
    """Test both chains natively; the smallest that passed in either is taken.

    As many sizes are tested as time allows, none if X_val cannot be predicted before ``deadline``. Ending a sequence
    early, for lack of time or because a candidate is refused, accepts less: what passed before stays valid.
    """
    goal = task.goal
    by_work = replace(task.cost, minimize=WORK)
    work = by_work.of(task.original)
    watch = budget.share(1.0)
    n_rows, confidence = tables.val.n_rows, options.confidence
    try:
        before = goal.native_answers(parsed, tables.X_val, deadline.check)
    except OutOfTime:
        nothing = np.zeros(n_rows, dtype=bool)
        return Validated(None, (), nothing, lower_bound(0, n_rows, confidence), StopReason.TIME, work, work)
    target = (n_rows, options.fidelity, confidence)
    given = chains
    is_quick = n_rows * parsed.forest.n_trees <= CHUNK_CELLS  # one size is tested in any case
    if budget.is_limited and chains.first and (is_quick or not deadline.is_over):
        write(parsed, lossless, task, chains.first[0])  # only to measure how long one size takes
        n_most = max(1, int(watch.remaining / max(watch.elapsed, 1e-3)))
        chains = chains.thinned(n_most, expected_share(*target))
    is_whole = chains.first == given.first
    tested: list[TestedSize] = []
    best: Written | None = None
    place = -1  # of the best among the tested
    changed = np.zeros(n_rows, dtype=bool)
    is_refused = False

    def run(chain: str, candidates: Sequence[Candidate], most: int) -> None:
        nonlocal best, changed, place
        written: list[tuple[Written, BoolArray]] = []

        def counts() -> Iterator[int]:
            nonlocal is_refused
            for candidate in candidates:
                if (tested and budget.is_over) or (deadline.is_over and not is_quick):
                    return
                shape = rescale(goal, task.subtrees, task.sample.holdout_points, candidate.shape)
                try:
                    now = write(parsed, lossless, task, replace(candidate, shape=shape))
                    rows = goal.differ(before, goal.native_answers(now.asked, tables.X_val, deadline.check))
                except OutOfTime:
                    return
                except PineBoostError as error:
                    if not tested:
                        raise
                    _LOGGER.warning("A size of %d leaves was not tested: %s", shape.n_leaves, error)
                    is_refused = True
                    return
                written.append((now, rows))
                yield int(rows.sum())

        outcomes = in_order(counts(), n_rows, confidence, most)
        for candidate, outcome in zip(candidates, outcomes, strict=False):
            (now, rows), name = written[-1], candidate.shape.name
            tested.append(
                TestedSize(
                    *now.sizes,
                    now.cost,
                    name,
                    candidate.estimate,
                    outcome.n_changed,
                    outcome.bound,
                    outcome.accepted,
                    chain,
                )
            )
            if outcome.accepted and (best is None or now.cost < best.cost):
                best, changed, place = now, rows, len(tested) - 1

    run(FIRST_CHAIN, chains.first, allowed(*target))
    most = allowed_by_the_rest(*target)
    best_cost = task.cost.of(task.original) if best is None else best.cost
    is_whole = is_whole and not budget.is_over
    if is_whole and _reaches(task, chains.slices, tables, most, best_cost):
        run(SLICE_CHAIN, chains.slices, most)
    bound = lower_bound(int(changed.sum()), n_rows, confidence)
    stopped = StopReason.REFUSED if is_refused else StopReason.EFFORT
    if not is_whole or budget.is_over:
        stopped = StopReason.TIME
    return Validated(
        best, tuple(tested), changed, bound, stopped, work, work if best is None else by_work.of(best.shape)
    )


def _reaches(task: Task, candidates: Sequence[Candidate], tables: Tables, most: int, cost: float) -> bool:
    """Whether a chain seems to get below a cost: only then it is worth testing natively.

    Not testing accepts nothing, so this look at X_val cannot make a promise too strong.
    """
    if most < 0 or not any(candidate.cost < cost for candidate in candidates):
        return False
    first = next(i for i, candidate in enumerate(candidates) if candidate.cost < cost)
    goal = task.goal

    def count(states: Int32Array) -> list[int]:
        leaves = task.trees.leaves(states)
        before = margins(task.original, goal.forest, leaves)
        return [
            int(goal.changed(before, margins(candidate.shape, goal.forest, leaves)).sum())
            for candidate in candidates[: first + 1]
        ]

    counts = np.sum(list(tables.val.map_states(task.space, count)), axis=0)
    return bool(np.all(counts <= most))


def write(parsed: Model, lossless: LosslessPart, task: Task, candidate: Candidate) -> Written:
    """Export a candidate as a native model."""
    pruned = lossless.restore(to_pruned(task.goal.forest, task.subtrees, candidate.shape))
    return Written(parsed, export(parsed, pruned), candidate.shape, pruned, candidate.cost)
