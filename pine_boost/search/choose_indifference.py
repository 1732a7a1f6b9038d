"""Choose the share of alpha for undecided inputs from X_fit alone, by short searches.

X_cal plays no part, so every choice keeps the guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pine_boost.budget import CHOOSING, Budget, Effort, Step, StopReason
from pine_boost.model.forest import Forest, count_units
from pine_boost.model.states import States
from pine_boost.options import WORTH, Options
from pine_boost.proof.problem import Problem, build_problem, restated
from pine_boost.region.fitting import FittedRegion
from pine_boost.region.region import Region
from pine_boost.region.region_ladder import FitEvidence, build_ladder
from pine_boost.region.score_tables import ScoreTables
from pine_boost.search.algorithm import Known, proposals, run
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import SearchState, SearchTask, build_state
from pine_boost.search.strategies import lightest_units

SHARES = (0.9, 0.75, 0.5, 0.25, 0.0)  # the search without indifference comes last: it can be slow
_EFFORT = Effort(
    n_walks=100,
    n_eliminations=1,
    exact_rounds=20,
    exact_programs=400,
    passed_over=4,
    master_effort=0.2,
    proof_effort=4.0,
    box_limit=0,
)


@dataclass(frozen=True)
class Choice:
    """The share of alpha for undecided inputs, and the units that a short search kept with each share.

    ``why`` is INTERRUPTED if Ctrl-C ended the choice, and NOT_WORTH_IT where the model that was proved with this share
    saves too little: then the original is returned. ``points`` are the rows of the best short search, from which the
    whole search starts.
    """

    share: float
    kept: tuple[tuple[float, int], ...]
    why: StopReason = StopReason.EFFORT
    points: States | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A region, its problem, and the choice if there was one to make."""

    region: Region
    problem: Problem
    choice: Choice | None = None

    @property
    def points(self) -> States | None:
        """State rows to begin the search with."""
        return None if self.choice is None else self.choice.points

    def weigh(self, found: SearchResult, plain: Region, unit: str) -> tuple[Chosen, SearchResult]:
        """What the search found, or the original where undecided inputs were given up for a saving below `WORTH`.

        Only a share that was chosen here is weighed; what a user's own share did not buy is said by `claims.share_of`.
        ``plain`` is the region without it: the original needs no inputs left out. Ctrl-C during the choice counts as
        having ended the search.
        """
        if self.choice is not None and self.choice.why is StopReason.INTERRUPTED:
            found = found.with_ends(StopReason.INTERRUPTED)
        n_units = count_units(self.problem.forest, unit)
        is_worth_it = n_units - found.n_kept >= WORTH * n_units
        if self.choice is None or self.region.delta is None or found.pruned is None or is_worth_it:
            return self, found
        problem = restated(self.problem, plain.tables, plain.delta or 0.0)
        found = found.without_model(n_units, StopReason.NOT_WORTH_IT).without_bound()
        return Chosen(plain, problem, replace(self.choice, why=StopReason.NOT_WORTH_IT)), found


def choose_indifference(forest: Forest, fitted: FittedRegion, alpha: float, budget: Budget, options: Options) -> Chosen:
    """The region as fitted or, for ``indifference="auto"``, with the best share for undecided inputs."""
    region = fitted.region
    problem = build_problem(forest, region.space, region.tables, delta=region.delta or 0.0)
    if fitted.fit is None or region.score_tables is None or region.tau is None:
        return Chosen(region, problem)
    task = SearchTask(problem, fitted.fit_states, options)
    choice = choose_share(task, region.score_tables, fitted.fit, alpha, budget)
    region = fitted.with_indifference(choice.share)
    problem = restated(problem, region.tables, region.delta or 0.0)
    return Chosen(region, problem, choice)


def choose_share(task: SearchTask, score: ScoreTables, evidence: FitEvidence, alpha: float, budget: Budget) -> Choice:
    """Search briefly in the region that each share would give if future inputs were like X_fit.

    Ties go to the smaller share. Without a time limit the choice is reproducible. With one, if a
    smaller share is worse and its search did not end, the shares between it and 0 are skipped.
    """
    part = budget.part("indifference")
    # whole trees rank the shares as well as leaves do, and faster
    problem, unit = task.problem, "tree" if task.options.unit == "leaf" else task.options.unit
    options = replace(task.options, unit=unit, reweight="tree")
    turn = part.remaining / len(SHARES)
    n_units = count_units(problem.forest, unit)
    kept: list[tuple[float, int]] = []
    best: tuple[int, float, States | None] = (problem.forest.n_trees + 1, 0.0, None)
    is_falling = True
    for share in SHARES:
        if part.is_over:
            break
        if share > 0 and not is_falling:
            continue
        size = (problem.forest.n_trees, len(task.fit_states), budget.clock, unit, n_units, n_units)
        budget.report_progress(Step(len(kept) + 1, CHOOSING, *size))
        tau, delta = expected_region(evidence, share, alpha)
        tables = replace(problem.region, tau=tau, score=score)
        own = replace(part.within(turn), callback=None).with_effort(_EFFORT)
        state = build_state(SearchTask(restated(problem, tables, delta or 0.0), task.fit_states, options), own)
        run(state, proposals(state, Known()))
        if StopReason.INTERRUPTED in state.ended:
            return Choice(0.0, (), StopReason.INTERRUPTED)
        kept.append((share, _kept(state)))
        is_falling = kept[-1][1] <= best[0] or StopReason.TIME not in state.ended
        if kept[-1][1] <= best[0]:
            best = kept[-1][1], share, state.constraints.states
    kept.reverse()
    if best[1] > 0 and dict(kept).get(0.0, n_units) - best[0] < WORTH * n_units:
        best = (n_units, 0.0, best[2])  # a region that leaves out nothing near the boundary does as well
    return Choice(best[1], tuple(kept), points=best[2])


def _kept(state: SearchState) -> int:
    """Units of the smallest model that was proved, or that dropping light trees is sure to reach."""
    found = state.best.smallest.n_kept
    if state.problem.delta == 0:
        return found
    return min(found, state.columns.n_units - lightest_units(state)[1])


def expected_region(evidence: FitEvidence, share: float, alpha: float) -> tuple[int, float | None]:
    """Tau and delta of a share if future inputs were like X_fit."""
    if share > 0:
        return build_ladder(evidence, share).expected(alpha)
    scores = evidence.scores
    return int(scores[min(len(scores) - 1, int(len(scores) * (1 - alpha)))]), None
