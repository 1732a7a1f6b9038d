"""Slow, obvious references for the search: enumerate every state, then every set of columns.

In come a small problem or its parts; out go all state rows, exact margins as fractions, the
questions that a pruned model loses, and the smallest number of columns. Refuses spaces too large
to list.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog

from pine_boost.budget import Budget, Effort, Step
from pine_boost.model.forest import Decision, FloatArray, Forest, PrunedForest, spread, tree_units
from pine_boost.model.reference import find_leaves
from pine_boost.model.rules import Tie
from pine_boost.model.states import StateSpace
from pine_boost.options import Options
from pine_boost.proof import two_proofs
from pine_boost.proof.cpsat.solver import SolverSetting
from pine_boost.proof.problem import Answer, Problem, Proof, build_problem
from pine_boost.region.domain import Condition, Domain, compile_domain
from pine_boost.region.score_tables import RegionTables
from pine_boost.search.algorithm import Known, search
from pine_boost.search.constraints import Constraints
from pine_boost.search.oracle import Oracle
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import SearchState, SearchTask, build_state
from pine_boost.tables.schema import schema_of
from tests.support.forests import MANNERS, Manner, random_forest, random_rows
from tests.support.scores import fit_small

MOST_STATES = 60_000
# The value of a problem with columns scaled to 1: above CLEAR it is won, below NOTHING it is lost.
# In between a float program cannot tell, and a test must draw another problem.
CLEAR, NOTHING = 1e-5, 1e-8

States = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Small:
    """A small problem, all its state rows, and the state rows of X_fit."""

    problem: Problem
    everything: States
    inside: npt.NDArray[np.bool_]
    fit_states: States
    unit: str = "round"

    @property
    def tree_unit(self) -> npt.NDArray[np.int64]:
        """The unit of each tree."""
        return tree_units(self.problem.forest, self.unit)

    @property
    def n_units(self) -> int:
        """How many units the original has."""
        return int(self.tree_unit.max()) + 1

    def task(self, **options: Any) -> SearchTask:
        """What is searched; ``options`` are those of `Options`."""
        return SearchTask(self.problem, self.fit_states, Options(**{"unit": self.unit, **options}))

    def search(
        self,
        *,
        time_limit: float | None = None,
        effort: Effort | None = None,
        callback: Callable[[Step], None] | None = None,
        known: Known | None = None,
        **options: Any,
    ) -> SearchResult:
        """The whole search; ``options`` are those of `Options`."""
        budget = Budget.of(time_limit, effort, callback)
        return search(self.task(**options), budget, known)

    def state(self, time_limit: float | None = None, **options: Any) -> SearchState:
        """A game that has not begun."""
        return build_state(self.task(**options), Budget.of(time_limit))

    def rows(self) -> Constraints:
        """Constraints of the state, none yet."""
        return self.state().constraints


def all_states(space: StateSpace) -> States:
    """Every combination of states."""
    assert np.prod(space.n_states, dtype=float) <= MOST_STATES, "too many states to list"
    return np.indices(space.n_states, dtype=np.int32).reshape(len(space.n_states), -1).T


def exact_margins(forest: Forest, X: FloatArray, pruned: PrunedForest | None = None) -> list[list[Fraction]]:
    """Exact sums of leaves and intercept, walked on floats: of the forest or a pruned model."""
    value, intercept, grid = forest.leaf_vectors(), forest.intercept, 1
    if pruned is not None:
        value, intercept = spread(forest, pruned.value_int), pruned.intercept_int
        grid = 2**pruned.grid
    # Python's integers over one power of two: as exact as fractions, and sooner added
    exact = [[x.item().as_integer_ratio() for x in row] for row in (*value, intercept)]
    common = max(denominator for row in exact for _, denominator in row)
    *whole, constant = [[top * (common // bottom) for top, bottom in row] for row in exact]
    margins = []
    for leaves in find_leaves(forest, X).tolist():
        columns = zip(constant, *(whole[leaf] for leaf in leaves), strict=True)
        margins.append([Fraction(sum(column), common * grid) for column in columns])
    return margins


def decide(forest: Forest, margins: list[list[Fraction]]) -> npt.NDArray[np.int64]:
    """The class (or band) of exact margins by the definition of `Decision`."""
    lowest = forest.decision.tie is Tie.LOWEST
    classes = []
    for margin in margins:
        if forest.n_outputs == 1:
            cuts = [Fraction(cut) for cut in forest.decision.cuts]
            above = [margin[0] > cut if lowest else margin[0] >= cut for cut in cuts]
            classes.append(sum(above))
        else:
            best = [k for k, m in enumerate(margin) if m == max(margin)]
            classes.append(best[0] if lowest else best[-1])
    return np.array(classes, dtype=np.int64)


def distance(forest: Forest, margins: list[list[Fraction]]) -> list[Fraction]:
    """Distance from the nearest cut, or between the two best classes."""
    if forest.n_outputs == 1:
        cuts = [Fraction(cut) for cut in forest.decision.cuts]
        return [min(abs(m[0] - cut) for cut in cuts) for m in margins]
    return [sorted(m)[-1] - sorted(m)[-2] for m in margins]


def minimum_columns(small: Small, states: States) -> int | None:
    """The fewest columns whose weights keep every decided row; None where floats cannot tell.

    At least 1: a native model has a tree.
    """
    rows, free, strict = game_rows(small, states)
    units = set(range(small.n_units))
    # fewer columns are never worth more: what all the others cannot do without is in every answer
    needed = {unit for unit in units if game_value(rows[:, sorted(units - {unit})], free, strict) <= NOTHING}
    for size in range(len(needed), small.n_units + 1):
        unclear = False
        for added in combinations(sorted(units - needed), size - len(needed)):
            support = sorted(needed | set(added))
            value = game_value(rows[:, support], free, strict)
            if value > CLEAR:
                return None if unclear else max(size, 1)
            unclear |= value > NOTHING
        if unclear:
            return None
    return small.n_units


def game_rows(small: Small, states: States) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """One row for each decided state and question: columns, free columns, strictness."""
    problem, n_units = small.problem, small.n_units
    forest = problem.forest
    leaves = find_leaves(forest, problem.space.representative(states))
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(states)))
    bias = np.where(forest.tree_output >= 0, forest.tree_bias, 0.0)[forest.node_tree]
    value = spread(forest, forest.value - bias[:, None])
    n_free = 0
    if forest.free_intercept:
        n_free = forest.n_outputs + (len(forest.decision.cuts) > 1)
    rows, free_rows, strict = [], [], []
    for state in range(len(states)):
        column = np.zeros((n_units, forest.n_outputs))
        np.add.at(column, small.tree_unit, value[leaves[state]])
        for question in np.flatnonzero(decided[state]):
            q = problem.questions[question]
            free = np.zeros(n_free)
            if forest.n_outputs == 1:
                row = q.sign * column[:, 0]
                if n_free:
                    free[0] = q.sign
                if n_free > 1:
                    free[1] = -q.sign * (forest.decision.cuts[q.cut] - forest.decision.cuts[0])
            else:
                row = column[:, q.plus] - column[:, q.minus]
                if n_free:
                    free[q.plus], free[q.minus] = 1.0, -1.0
            rows.append(row)
            free_rows.append(free)
            strict.append(bool(problem.strict[question]))
    together = np.column_stack([np.array(rows), np.array(free_rows).reshape(len(rows), n_free)])
    together = np.unique(np.column_stack([together, strict]), axis=0)
    scale = np.abs(together[:, :n_units]).max(axis=0, initial=0)
    columns = together[:, :n_units] / np.where(scale > 0, scale, 1.0)
    return columns, together[:, n_units:-1], together[:, -1] > 0


def game_value(rows: FloatArray, free: FloatArray, strict: npt.NDArray[np.bool_]) -> float:
    """``max t : rows w + free f >= t (0 where not strict), w >= 0, sum w + |f| <= 1``-ish box."""
    n, k = rows.shape[1], free.shape[1]
    result = linprog(
        np.concatenate([np.zeros(n + k), [-1.0]]),
        A_ub=np.hstack([-rows, -free, strict[:, None] * 1.0]),
        b_ub=np.zeros(len(rows)),
        bounds=[(0, 1)] * n + [(-n - 1, n + 1)] * k + [(0, 1)],
        method="highs",
    )
    assert result.success, result.message
    return float(-result.fun)


def winning_supports(small: Small) -> Iterator[frozenset[int]]:
    """Every set of columns whose weights keep all decided rows, the small ones first."""
    rows, free, strict = game_rows(small, all_rows(small))
    for size in range(1, small.n_units + 1):
        for support in combinations(range(small.n_units), size):
            value = game_value(rows[:, support], free, strict)
            assert not NOTHING < value < CLEAR, "floats cannot tell: draw another problem"
            if value > CLEAR:
                yield frozenset(support)


def with_bands(small: Small, cuts: tuple[float, ...]) -> Small:
    """The same trees with score bands between these cuts."""
    forest, space = small.problem.forest, small.problem.space
    thresholds = tuple(float(1 / (1 + np.exp(-cut))) for cut in cuts)
    forest = replace(forest, decision=Decision(cuts, forest.decision.tie, 1e-5, thresholds))
    return replace(small, problem=build_problem(forest, space, small.problem.region))


def lost_questions(small: Small, pruned: PrunedForest) -> npt.NDArray[np.bool_]:
    """Per question: does some decided state of the region exist where the pruned model loses it?

    Loses = not strictly on the question's side (or not at all, where a tie is faithful), by exact
    fractions; the pruned model must keep a distance from a cut of the required whole units only
    where the decision has a guard or a threshold, which these small games do not.
    """
    problem = small.problem
    assert not problem.forest.decision.thresholds
    states = small.everything[small.inside]
    margins = exact_margins(problem.forest, problem.space.representative(states), pruned)
    decided = problem.decided(problem.original_margins_int(problem.trees.leaves(states)))
    lost = np.zeros(len(problem.questions), dtype=bool)
    for row, margin in enumerate(margins):
        for question in np.flatnonzero(decided[row]):
            q = problem.questions[question]
            side = q.sign * margin[0] if q.cut >= 0 else margin[q.plus] - margin[q.minus]
            lost[question] |= side <= 0 if problem.strict[question] else side < 0
    return lost


def keeps_all(small: Small, pruned: PrunedForest) -> bool:
    """Whether a pruned model gives the class of the original on every settled state and fit row."""

    problem = small.problem
    states = np.concatenate([small.everything[small.inside], small.fit_states])
    states = np.unique(states[problem.settled(states)], axis=0)
    X = problem.space.representative(states)
    before = decide(problem.forest, exact_margins(problem.forest, X))
    after = decide(problem.forest, exact_margins(problem.forest, X, pruned))
    return np.array_equal(before, after)


def small_problem(
    seed: int,
    manner: Manner,
    *,
    n_outputs: int = 1,
    n_trees: int = 6,
    score: str | None = "chow-liu",
    quantile: float = 0.6,
    with_domain: bool = False,
    votes: bool = False,
    unit: str = "round",
    leaf_grid: int | None = 3,
    n_fit: int = 12,
    delta: float = 0.0,
) -> Small:
    """A problem small enough to enumerate; ``score=None`` is the whole (permitted) space.

    ``votes`` makes vector leaves without an intercept, as scikit-learn's forests have them.
    """
    rng = np.random.default_rng(seed)
    forest = random_forest(
        rng,
        n_trees,
        2,
        3,
        n_outputs,
        manner=manner,
        categorical=(1,),
        n_categories=3,
        n_thresholds=3,
        leaf_grid=leaf_grid,
        vector_leaves=votes,
    )
    if votes:
        intercept = np.zeros(n_outputs)
        forest = replace(forest, free_intercept=False, intercept=intercept)
    X = random_rows(rng, forest, 150)
    fitted, space = fit_small(score, X, forest, seed)
    domain = None
    if with_domain:
        domain = Domain(
            upper={0: 1.5}, never_missing=[2], forbidden=[(Condition(0, lower=0.0), Condition(2, upper=0.5))]
        )
    tables: RegionTables = compile_domain(domain, space, schema_of(forest))
    everything = all_states(space)
    if fitted is not None:
        scores = np.sort(fitted.score(everything[tables.permits(everything)]))
        tau = int(scores[int(quantile * (len(scores) - 1))])
        tables = replace(tables, score=fitted, tau=tau)
    problem = build_problem(forest, space, tables, delta=delta)
    fit_states = space.states(X[:n_fit])
    reachable = np.all([axis.reachable[everything[:, j]] for j, axis in enumerate(space.axes)], axis=0)  # type: ignore[index]
    return Small(problem, everything, tables.contains(everything) & reachable, fit_states, unit)


def drawn_problem(seed: int, sizes: Sequence[tuple[int, int, bool]], scores: Sequence[str | None]) -> Small:
    """Outputs, trees and votes in turn, everything else drawn."""
    rng = np.random.default_rng(seed)
    n_outputs, n_trees, votes = sizes[seed % len(sizes)]
    return small_problem(
        seed,
        MANNERS[rng.integers(4)],
        n_outputs=n_outputs,
        n_trees=n_trees,
        votes=votes,
        score=scores[rng.integers(len(scores))],
        quantile=float(rng.uniform(0.05, 0.95)),
        with_domain=bool(rng.integers(2)),
        leaf_grid=[None, 0, 3, 10][rng.integers(4)],
    )


def all_rows(small: Small) -> States:
    """The rows that a pruned model must keep: the region and X_fit."""
    states = np.concatenate([small.everything[small.inside], small.fit_states])
    return np.unique(states, axis=0)


def check_result(small: Small, result: SearchResult) -> None:
    """What holds of every result, whenever the search stopped."""
    assert 1 <= result.lower_bound <= result.n_kept <= small.n_units
    if result.pruned is None:
        assert result.n_kept == small.n_units
        assert result.proofs == ()
        return
    assert keeps_all(small, result.pruned)
    assert len(np.unique(small.tree_unit[result.pruned.kept])) == result.n_kept
    check_proofs(small, result.proofs)


def score_levels(small: Small) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Every score of a permitted input, ascending, and how many inputs have it."""
    region = small.problem.region
    permitted = small.everything[region.permits(small.everything)]
    return np.unique(region.score.score(permitted), return_counts=True)


def check_proofs(small: Small, proofs: Sequence[Proof]) -> None:
    """Every question was proved by two different methods."""
    methods: dict[str, set[str]] = {}
    for proof in proofs:
        assert proof.answer is Answer.PROVED
        methods.setdefault(proof.question.name, set()).add(proof.method)
    assert set(methods) == {question.name for question in small.problem.questions}
    assert all(len(used) >= 2 for used in methods.values())


def only_the_solver(monkeypatch: pytest.MonkeyPatch, setting: SolverSetting) -> None:
    """Walks, climbs and boxes find nothing, and both proofs of CP-SAT use one setting."""
    again = replace(setting, name="again", random_seed=99)
    monkeypatch.setattr(two_proofs, "first_settings", lambda problem: (setting,))
    monkeypatch.setattr(two_proofs, "second_settings", lambda problem: (again,))
    monkeypatch.setattr(Oracle, "climb", lambda self, pruned, rows, budget: rows.states[:0])
    monkeypatch.setattr(SearchState, "_walk_from", lambda self, starts: None)
    monkeypatch.setattr(two_proofs, "_boxes", lambda *question: [])
