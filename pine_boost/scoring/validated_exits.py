"""Exits for a validated scorer: stages with refitted leaf values that share one traversal.

The whole-tree path of `compression` gives the order of the trees (last dropped, first visited) and, for each stage, the
leaf values that make the most of the trees seen so far. How large a margin must be for an exit depends on one level,
which is tested on X_val in fixed sequence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from pine_boost import kernels
from pine_boost.budget import SHARES, Budget, OutOfTime, Step
from pine_boost.compression.fit import build_equations
from pine_boost.compression.fixed_sequence import Target, Tested, allowed, lower_bound
from pine_boost.compression.path import Pace, Task, set_up, walk
from pine_boost.compression.reading import Tables, read_tables
from pine_boost.compression.record import TREES, rows_digest
from pine_boost.compression.validation import choose
from pine_boost.kernels.flat_forest import ExitPlan, FlatForest, NativeSum
from pine_boost.model.forest import BoolArray, FloatArray, Int32Array, IntArray, Model
from pine_boost.model.shape import GONE, Shape, margins
from pine_boost.native.predict import CHUNK_CELLS, load_native
from pine_boost.options import AccelerateOptions
from pine_boost.progress import say, shown
from pine_boost.scoring.proved_exits import choose_stages, exits_at
from pine_boost.tables.native import as_table
from pine_boost.tables.rows import AnyRows
from pine_boost.tables.schema import schema_of

_N_STAGES, _FEWEST_STAGES = 12, 4
_LARGEST_TABLE = 12_000_000  # leaf values of all stages: 100 MB
# Sizes between two stages at which values are refitted. Work at 0.5 % / 0.05 % changed classes, mean of Adult, ELEC2
# and FICO (XGBoost 100x6): 1 size 0.150 / 0.349, 3 sizes 0.117 / 0.269.
_STEPS_PER_STAGE = 4
_FEWEST = 1 / 100  # share of the trees that the first stage has seen
_MOST = 3 / 4  # and the last: beyond, an input may as well see all trees
# An input exits at stage s where the odds of a change are below exp(-level) * (share of the trees seen) ** _LENIENCY:
# early on, going on to the next stage costs little.
_LENIENCY = 0.25
_LEVELS = np.linspace(16.0, -2.0, 91)
_WORK_ROWS = 10_000
_PROBED = 400  # rows of X_fit by which the time of the test is judged


def find_exits(
    parsed: Model,
    flat: FlatForest,
    native: NativeSum,
    X_fit: Any,
    X_val: Any,
    options: AccelerateOptions,
    spent: Any,
    budget: Budget,
) -> tuple[str, dict[str, Any], ExitPlan | None]:
    """Stages and their test: status, what was tested, the exits (None if none passed)."""
    with shown(options.verbose, options.time_limit, options.callback) as report_progress:
        say(report_progress, "reading the rows")
        tables = read_tables(parsed, X_fit, X_val, options, spent)
        Target(tables.val.n_rows, options.confidence, options.fidelity).require_rows()
        task = budget.run(set_up, parsed, TREES, tables.fit, options.random_state, budget)

        def build() -> tuple[Stages, Budget]:
            part = test = budget
            if budget.is_limited:
                test = budget.until(SHARES["exit test"])
                spare = test.remaining - test_seconds(task, flat, native, tables, test)
                spare *= SHARES["exit stages of spare time"]
                part = budget.within(min(SHARES["exit stages"] * budget.remaining, spare))
            return build_stages(task, replace(part, callback=report_progress)), test

        # the stages, and the levels to be tested, are fixed before a row of X_val is predicted
        stages, test = budget.run(build)
        say(report_progress, "testing the exits on X_val")
        found = budget.run(validate_exits, task, stages, flat, native, tables, options, test)
    confidence, n_changed = float(options.confidence), int(found.changed.sum())
    statement = {
        "fidelity": float(options.fidelity),
        "confidence": confidence,
        "tolerance": None,
        "n_fit": tables.fit.n_rows,
        "n_val": tables.val.n_rows,
        "n_changed": n_changed,
        "bound": lower_bound(n_changed, tables.val.n_rows, confidence),
        "overlap": tables.overlap.share,
        "validation_digest": rows_digest(tables.val, parsed.forest.n_features),
        "segments": [asdict(segment) for segment in tables.segments(found.changed, confidence)],
        "path": found.tested,
    }
    return tables.status(has_passed=found.plan is not None), statement, found.plan


@dataclass(frozen=True, eq=False)
class Stages:
    """Stages of refitted leaf values, and how likely each of them is to be wrong.

    Attributes
    ----------
    order : int64 (n_trees,)
    counts : int64 (n_stages,)
        Trees seen at each stage, ascending.
    shapes : list of Shape
        One per stage; trees that it has not seen are dropped.
    offset, slope : float64 (n_stages,)
        At a distance x from the decision, by the stage's own margin, the log-odds that its class is not the original's
        are ``offset - slope * x``.
    """

    order: IntArray
    counts: IntArray
    shapes: list[Shape]
    offset: FloatArray
    slope: FloatArray

    def distances(self, level: float) -> FloatArray:
        """How far from the decision an input must be to exit at each stage."""
        level_of_stage = level - _LENIENCY * np.log(self.counts / len(self.order))
        return np.maximum((self.offset + level_of_stage) / self.slope, 0.0)


def build_stages(task: Task, budget: Budget) -> Stages:
    """Drop whole trees and refit, and keep a shape per stage; nothing here depends on X_val."""
    n_trees = task.goal.forest.n_trees
    n_stages = int(np.clip(_LARGEST_TABLE // task.original.value.size, _FEWEST_STAGES, _N_STAGES))
    sizes = np.geomspace(_MOST * n_trees, max(1.0, _FEWEST * n_trees), n_stages * _STEPS_PER_STAGE)
    sizes = np.unique(np.rint(sizes).astype(int))[::-1]
    found: dict[int, Shape] = {}
    cost = replace(task.cost, minimize=TREES)
    try:
        budget.check()
        equations = build_equations(task.goal, task.sample.fitted)
        steps = sizes[(sizes >= 1) & (sizes < n_trees)].tolist()
        for shape in walk(replace(task, cost=cost), equations, Pace(budget), steps):
            found[int(cost.of(shape))] = shape
            rows = len(task.sample.fitted.weight)
            step = Step(len(found), "stages", n_trees, rows, budget.elapsed, "tree", n_trees, tried=int(cost.of(shape)))
            budget.report_progress(step)
            budget.check()
    except OutOfTime:
        pass
    every = np.array(sorted(found), dtype=np.int64)
    wanted = np.geomspace(every[0], every[-1], n_stages) if len(every) else np.zeros(0)
    counts = np.unique(every[np.abs(np.log(every) - np.log(wanted)[:, None]).argmin(axis=1)]) if len(every) else every
    shapes = [found[count] for count in counts.tolist()]
    fits = [fit_odds(task, shape) for shape in shapes]
    offset, slope = np.array(fits).reshape(-1, 2).T
    return Stages(_order(task, shapes), counts, shapes, offset, slope)


def _order(task: Task, shapes: Sequence[Shape]) -> IntArray:
    """Trees by the first stage that has them, those that the original gives most room first."""
    subtrees = task.subtrees
    first_stage = np.full(len(subtrees.leaf_offset) - 1, len(shapes))
    for stage in range(len(shapes) - 1, -1, -1):
        first_stage[subtrees.leaf_tree[shapes[stage].owner != GONE]] = stage
    value = task.original.value
    begins = subtrees.leaf_offset[:-1]
    width = (np.maximum.reduceat(value, begins) - np.minimum.reduceat(value, begins)).sum(axis=1)
    return np.lexsort((-width, first_stage))


def fit_odds(task: Task, shape: Shape) -> tuple[float, float]:
    """Logistic fit of "the class of the shape is another one" to its distance from the decision.

    On synthetic rows that the shape was not fitted to. Two rows at distance 0, one of them changed, stand for what the
    rows do not show: without any change among them the odds would be 0 everywhere.
    """
    goal, points = task.goal, task.sample.holdout_points
    sums = margins(shape, goal.forest, points.leaves)
    changed = goal.forest.decision.classes(sums) != goal.forest.decision.classes(points.margins)
    distance = np.append(goal.forest.decision.distance(sums), [0.0, 0.0])
    target = np.append(changed, [True, False]).astype(np.float64)
    mean_weight = float(points.weight.mean())
    weight = np.append(points.weight, [mean_weight, mean_weight])
    weight /= weight.sum()
    scale = max(float(np.average(distance, weights=weight)), 1e-300)
    x = distance / scale

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        slope = np.exp(parameters[1])
        z = parameters[0] - slope * x
        pull = weight * (1.0 / (1.0 + np.exp(-np.clip(z, -500, 500))) - target)
        value = weight @ (np.logaddexp(0.0, z) - target * z)
        return float(value), np.array([pull.sum(), -slope * (pull @ x)])

    found = minimize(loss, np.array([-1.0, 1.0]), jac=True, method="L-BFGS-B", bounds=[(-40, 40), (-20, 20)])
    return float(found.x[0]), float(np.exp(found.x[1]) / scale)


def exit_plans(task: Task, stages: Stages, proved: ExitPlan) -> Callable[[float], ExitPlan]:
    """The exits at a level, followed by those that are proved; what exits nowhere is summed natively.

    ``proved`` has the same order of trees. All plans share their leaf values.
    """
    forest, n_refitted = task.goal.forest, len(stages.counts)
    late = np.flatnonzero(proved.stage > stages.counts[-1])
    cuts = np.array(forest.decision.cuts)
    plan = ExitPlan(
        order=stages.order.astype(np.int32),
        stage=np.concatenate([stages.counts, proved.stage[late]]).astype(np.int32),
        stage_set=np.concatenate([np.arange(n_refitted), np.full(len(late), n_refitted)]).astype(np.int32),
        value=np.stack([*(shape.value for shape in stages.shapes), task.original.value], axis=1),
        intercept=np.stack([*(shape.intercept for shape in stages.shapes), task.original.intercept]),
        low=proved.low,
        high=proved.high,
        gap=proved.gap,
    )

    def at_level(level: float) -> ExitPlan:
        distance = stages.distances(level)
        gap = np.broadcast_to(distance[:, None, None], (n_refitted, forest.n_outputs, forest.n_outputs))
        return replace(
            plan,
            low=np.concatenate([cuts - distance[:, None], proved.low[late]]),
            high=np.concatenate([cuts + distance[:, None], proved.high[late]]),
            gap=np.concatenate([gap, proved.gap[late]]) if forest.n_outputs > 1 else proved.gap,
        )

    return at_level


@dataclass(frozen=True)
class Level:
    """A level of the exits with its expected share of changed classes, and the mean share of the trees met."""

    level: float
    estimate: float
    cost: float


def estimate_levels(task: Task, stages: Stages) -> list[Level]:
    """What every level would cost on rows of X_fit, and change on synthetic rows that nothing was fitted to."""
    points = task.sample.holdout_points
    plain = task.sample.fit_leaves[:_WORK_ROWS]
    at_points, at_plain = _at_stages(task, stages, points.leaves), _at_stages(task, stages, plain)
    original = task.goal.forest.decision.classes(points.margins)
    n_trees = len(stages.order)
    counts = np.append(stages.counts, n_trees)
    found = []
    for level in _LEVELS.tolist():
        limit = stages.distances(level)[:, None]
        exit_stage = _first_true(at_points[0] > limit)
        classes = np.vstack([at_points[1], original])[exit_stage, np.arange(len(original))]
        estimate = float(np.average(classes != original, weights=points.weight))
        work = float(counts[_first_true(at_plain[0] > limit)].mean()) / n_trees
        found.append(Level(level, estimate, work))
    return found


def _at_stages(task: Task, stages: Stages, leaves: Int32Array) -> tuple[FloatArray, IntArray]:
    """Distance from the decision and class at every stage, (n_stages, n_rows) each."""
    decision = task.goal.forest.decision
    sums = [margins(shape, task.goal.forest, leaves) for shape in stages.shapes]
    return np.stack([decision.distance(own) for own in sums]), np.stack([decision.classes(own) for own in sums])


def _first_true(is_met: BoolArray) -> IntArray:
    """The first stage at which each row exits, the number of stages where it exits at none."""
    return np.where(is_met.any(axis=0), is_met.argmax(axis=0), len(is_met))


@dataclass(frozen=True, eq=False)
class ValidatedExits:
    """The outcome of the test; ``plan`` is None if no level passed.

    ``tested`` holds, for each level that was tested, what a `Level` has (``work`` is its cost), the validation rows
    whose class is not the one of the native ``predict``, and the exact lower bound on the share that is kept, for this
    level alone. ``changed`` are the validation rows whose class changes with ``plan``.
    """

    plan: ExitPlan | None
    tested: list[dict[str, Any]]
    changed: BoolArray


def test_seconds(task: Task, flat: FlatForest, native: NativeSum, tables: Tables, budget: Budget) -> float:
    """How long X_val takes for the library and, once, for the kernel, judging by a few rows of X_fit.

    The library is not asked where the kernel alone would take too long: loading a large model takes seconds.
    """
    few = tables.fit.take(np.arange(min(_PROBED, tables.fit.n_rows)))

    def seconds(ask: Callable[[], Any]) -> float:
        started = time.monotonic()
        ask()
        return (time.monotonic() - started) / len(few) * tables.val.n_rows

    by_kernel = seconds(lambda: kernels.bind(flat, native).margins(few))
    if by_kernel >= budget.remaining:
        return by_kernel
    parsed = replace(task.parsed, native=load_native(task.parsed))
    table = as_table(few, schema_of(parsed.forest))
    return by_kernel + seconds(lambda: task.goal.native_answers(parsed, table))


def validate_exits(
    task: Task,
    stages: Stages,
    flat: FlatForest,
    native: NativeSum,
    tables: Tables,
    options: AccelerateOptions,
    budget: Budget,
) -> ValidatedExits:
    """Test levels against the native ``predict`` on X_val, from the strictest on; the last that passes is taken.

    The levels and their order are fixed before X_val is seen, and the test stops at the first that fails.
    """
    n_rows = tables.val.n_rows
    nothing = ValidatedExits(None, [], np.zeros(n_rows, dtype=bool))
    if not stages.shapes:
        return nothing
    most = allowed(n_rows, options.fidelity, options.confidence)
    levels = choose(estimate_levels(task, stages), Target(n_rows, options.confidence, options.fidelity).aim())
    proved = choose_stages(np.linspace(0, 1, flat.n_trees + 1), flat.n_outputs)
    plan_at = exit_plans(task, stages, exits_at(task.parsed.forest, stages.order, proved))
    try:
        expected = task.goal.native_answers(task.parsed, tables.X_val, budget.check).classes
    except OutOfTime:
        return nothing
    found = nothing
    for level in levels:
        plan = plan_at(level.level)
        classes = _classes(kernels.bind(flat, native, plan), flat.n_trees, tables.val, budget)
        if classes is None:  # ending the sequence early accepts less
            break
        changed = classes != expected
        n_changed = int(changed.sum())
        outcome = Tested(n_changed, lower_bound(n_changed, n_rows, options.confidence), n_changed <= most)
        stated = {"level": level.level, "estimate": level.estimate, "work": level.cost, **asdict(outcome)}
        found = replace(found, tested=[*found.tested, stated])
        if not outcome.accepted:
            break
        found = replace(found, plan=plan, changed=changed)
    return found


def _classes(trees: kernels.Trees, n_trees: int, rows: AnyRows, budget: Budget) -> IntArray | None:
    """The classes of all rows; None where time runs out."""
    classes, n_most = [], max(1, CHUNK_CELLS // n_trees)
    for matrix in rows.chunks():
        for start in range(0, len(matrix), n_most):
            if budget.is_over:
                return None
            classes.append(trees.classes(matrix[start : start + n_most]))
    return np.concatenate(classes)
