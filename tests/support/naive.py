"""A deliberately naive third proof: list every state, walk every tree, compare.

In come a problem and a pruned model; out goes, per question, whether some input of the region
breaks it. Shares neither masks, boxes nor solver with what it checks; refuses spaces too large to
list.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import PrunedForest, spread
from pine_boost.model.reference import find_leaves
from pine_boost.model.rules import SplitKind
from pine_boost.proof.problem import Problem, build_problem
from pine_boost.region.domain import compile_domain
from pine_boost.region.score_tables import ForbiddenPair, RegionTables, ScoreTables
from pine_boost.tables.schema import schema_of
from tests.support.bruteforce import all_states
from tests.support.forests import MANNERS, random_forest, random_rows
from tests.support.scores import fit_small

SCORES = (None, "chow-liu", "leaf-support", "isolation-forest")


@dataclass(frozen=True, eq=False)
class Case:
    """A random small problem with all its state rows and the leaf nodes they reach."""

    problem: Problem
    rows: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int64]
    inside: npt.NDArray[np.bool_]


def in_region(region: RegionTables, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Membership by the definition, one table after the other."""
    inside = np.ones(len(rows), dtype=bool)
    for feature, allowed in enumerate(region.allowed):
        inside &= np.isin(rows[:, feature], np.flatnonzero(allowed))
    for pair in region.forbidden:
        for a, b in np.argwhere(pair.forbidden):
            inside &= ~((rows[:, pair.first] == a) & (rows[:, pair.second] == b))
    for clause in region.at_least_one:
        is_met = [np.isin(rows[:, j], np.flatnonzero(literal)) for j, literal in clause]
        inside &= np.any(is_met, axis=0)
    if region.tau is not None and region.score is not None:
        inside &= total_score(region.score, rows) <= region.tau
    return inside


def total_score(score: ScoreTables, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The score as the sum of its parts."""
    bins = np.stack([score.bins[j][rows[:, j]] for j in range(rows.shape[1])], axis=1)
    total = sum(score.unary[j][bins[:, j]] for j in range(rows.shape[1]))
    for pair in score.pairs:
        total = total + pair.cost[bins[:, pair.first], bins[:, pair.second]]
    if score.trees is not None:
        for tree in range(score.trees.trees.n_trees):
            total = total + score.trees.cost[score.trees.trees.leaves(rows)[:, tree]]
    return np.asarray(total)


def broken_rows(case: Case, pruned: PrunedForest) -> npt.NDArray[np.bool_]:
    """(n_rows, n_questions): the original decides the side there, the pruned model does not."""
    problem = case.problem
    forest = problem.forest
    value = np.rint(np.ldexp(forest.leaf_vectors(), problem.scale)).astype(np.int64)
    original = value[case.nodes].sum(axis=1) + problem.intercept_int
    after = spread(forest, pruned.value_int)[case.nodes].sum(axis=1) + pruned.intercept_int
    needed = problem.needed_sides(pruned.grid)
    broken = np.zeros((len(case.rows), len(problem.questions)), dtype=bool)
    for question in problem.questions:
        if forest.n_outputs == 1:
            decided = question.sign * original[:, 0] >= problem.least[question.index]
            side = question.sign * after[:, 0]
        else:
            decided = np.ones(len(case.rows), dtype=bool)
            for rival in problem.questions:
                if rival.plus == question.plus:
                    gap = original[:, rival.plus] - original[:, rival.minus]
                    decided &= gap >= problem.least[rival.index]
            side = after[:, question.plus] - after[:, question.minus]
        broken[:, question.index] = decided & (side < needed[question.index]) & case.inside
    return broken


@cache
def random_case(seed: int) -> Case:
    """Manner, number of classes, score and domain knowledge follow from the seed."""
    rng = np.random.default_rng(seed)
    manner = MANNERS[seed % 4]
    n_outputs = (1, 1, 3)[seed // 4 % 3]
    forest = random_forest(
        rng,
        n_trees=int(rng.integers(3, 9)),
        depth=int(rng.integers(1, 4)),
        n_features=int(rng.choice([2, 3, 3, 4])),
        n_outputs=n_outputs,
        manner=manner,
        categorical=(1,) if rng.random() < 0.6 else (),
        n_thresholds=3,
        n_categories=3,
        leaf_grid=None if rng.random() < 0.5 else int(rng.integers(1, 6)),
        vector_leaves=bool(n_outputs > 1 and rng.random() < 0.3),
        accepts_missing=bool(rng.random() < 0.8),
    )
    X = random_rows(rng, forest, 60)
    score, space = fit_small(SCORES[seed // 12 % 4], X, forest, seed)
    tables = compile_domain(None, space, schema_of(forest))
    if rng.random() < 0.4:
        tables = random_domain(rng, tables)
    rows = all_states(space).astype(np.int64)
    if score is not None:
        possible = np.sort(total_score(score, rows))
        tau = int(possible[int(rng.uniform(0.05, 0.9) * (len(possible) - 1))])
        tables = replace(tables, score=score, tau=tau)
    delta = float(rng.choice([0.0, 0.0, 0.3]))
    problem = build_problem(forest, space, tables, delta=delta)
    nodes = find_leaves(forest, space.representative(rows))
    return Case(problem, rows, nodes, in_region(tables, rows))


def random_domain(rng: np.random.Generator, tables: RegionTables) -> RegionTables:
    """Some states, pairs of states and clauses at random."""
    allowed = [states & (rng.random(len(states)) < 0.85) for states in tables.allowed]
    first, second = rng.permutation(len(allowed))[:2]
    shape = (len(allowed[first]), len(allowed[second]))
    forbidden = (ForbiddenPair(int(first), int(second), rng.random(shape) < 0.4),)
    clause = tuple((int(j), rng.random(len(allowed[j])) < 0.5) for j in (first, second))
    return replace(tables, allowed=tuple(allowed), forbidden=forbidden, at_least_one=(clause,))


def random_pruned(rng: np.random.Generator, problem: Problem, kind: str, grid: int = 14) -> PrunedForest:
    """A model on the grid: the original itself, reweighted, a leaf changed, trees dropped."""
    forest = problem.forest
    weights = np.ones(forest.n_trees)
    if kind == "dropped":
        weights[rng.permutation(forest.n_trees)[: int(rng.integers(1, 3))]] = 0.0
    if kind == "reweighted":
        weights = rng.uniform(0.5, 1.5, forest.n_trees)
        weights[rng.random(forest.n_trees) < 0.2] = 0.0
    value = np.rint(forest.value * weights[forest.node_tree][:, None] * 2**grid).astype(np.int64)
    if kind == "planted":
        leaf = rng.choice(np.flatnonzero(forest.kind == SplitKind.LEAF))
        value[leaf] += int(rng.choice([-1, 1])) * 2 ** int(rng.integers(6, grid + 2))
    intercept = np.rint(forest.intercept * 2**grid).astype(np.int64)
    return PrunedForest(forest, np.flatnonzero(weights), value, grid, intercept, weights)
