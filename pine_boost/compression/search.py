"""The search for candidates: all that happens before X_val is seen.

In come the goal and X_fit; out go slices and shapes of the path with their estimates. Stops
when the budget is over, with the path as far as it came.
"""

from __future__ import annotations

from dataclasses import dataclass

from pine_boost.budget import Budget, OutOfTime, Step, StopReason
from pine_boost.compression.candidates import Candidate, estimate
from pine_boost.compression.goal import Goal
from pine_boost.compression.least_squares_rows import build_pulls
from pine_boost.compression.path import Pace, slices, walk
from pine_boost.compression.rows import FitRows, Rows, draw_rows
from pine_boost.compression.shape import Ranges, Shape, leaf_ranges, original_shape
from pine_boost.model.forest import Forest
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.states import StateSpace, build_space
from pine_boost.tables.rows import AnyRows

_N_SLICES = 40
_HOPELESS = 12.0  # times the share that may change: smaller shapes will not be tested


@dataclass(frozen=True, eq=False)
class Setting:
    """The forest over states, its leaves and the rows that shape the path."""

    space: StateSpace
    trees: StateTrees
    ranges: Ranges
    original: Shape
    rows: Rows


def set_up(goal: Goal, fit: AnyRows, seed: int, budget: Budget) -> Setting:
    """Draw the rows; X_fit may be larger than memory, a sample of it is looked at."""
    space = build_space(goal.forest)
    trees = route(goal.forest, space)
    ranges = leaf_ranges(goal.forest, trees)
    original = original_shape(goal.forest, ranges)
    rows = draw_rows(goal, trees, original, FitRows(fit, space), seed, budget)
    return Setting(space, trees, ranges, original, rows)


def find_path(
    goal: Goal, setting: Setting, allowed_share: float, whole_trees: bool, budget: Budget, original: Forest
) -> tuple[list[Candidate], StopReason]:
    """Slices and the path with their estimates, as far as time and ``allowed_share`` go.

    Nothing here depends on X_val but its size. ``original`` is the model that a user knows: steps
    are told as parts of it.
    """
    found: list[Candidate] = []
    reason = StopReason.EFFORT
    holdout_points = setting.rows.holdout_points

    def add(shape: Shape, phase: str) -> float:
        if shape.n_leaves < setting.original.n_leaves:
            found.append(Candidate(shape, estimate(goal, holdout_points, shape)))
            _tell(original, setting, found, phase, budget)
            return found[-1].estimate
        return 0.0

    try:
        for shape in slices(goal, setting.ranges, _N_SLICES):
            add(shape, "slices")
            budget.check()
        pulls = build_pulls(goal, setting.rows.fitted)
        pace = Pace(budget)
        for shape in walk(goal, setting.ranges, setting.original, pulls, whole_trees, pace):
            if add(shape, "path") > _HOPELESS * max(allowed_share, 1e-3):
                break
            budget.check()
    except OutOfTime:
        reason = StopReason.TIME
    except KeyboardInterrupt:
        reason = StopReason.INTERRUPTED
    return found, reason


def _tell(original: Forest, setting: Setting, found: list[Candidate], phase: str, budget: Budget) -> None:
    step = Step(
        step=len(found),
        phase=phase,
        trees=original.n_trees,
        rows=len(setting.rows.fitted.weight),
        seconds=budget.elapsed,
        unit="leaf",
        units=original.n_leaves,
        tried=found[-1].n_leaves,
    )
    budget.report_progress(step)
