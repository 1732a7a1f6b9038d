"""Needles: models that differ from their pruned version in one tiny corner of the input space.

In come a random forest and a path of conditions; out goes the forest with one more round, whose
only non-zero leaf lies at the end of that path, and the pruned model without that tree.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pine_boost.model.forest import Forest, IntArray, PrunedForest
from pine_boost.model.reference import _goes_left
from pine_boost.model.routing import route
from pine_boost.model.rules import Comparison, SplitKind
from pine_boost.model.states import StateSpace, build_space
from pine_boost.proof.problem import Problem, build_problem
from pine_boost.region.domain import compile_domain
from pine_boost.tables.schema import schema_of
from tests.support.bruteforce import all_states
from tests.support.forests import SKLEARN, Manner, random_forest, random_rows
from tests.support.naive import Case, in_region, total_score
from tests.support.scores import fit_chow_liu, fit_leaf_support

GRID = 10
BASE_GRID = 3  # leaves of the base forests are eighths
CATEGORICAL = 1


@dataclass(frozen=True)
class Step:
    """One split of the needle's path: which way it goes, and where NaN goes."""

    feature: int
    threshold: float = 0.0
    codes: tuple[int, ...] = ()
    to_left: bool = True
    nan_left: bool = True


def exactly(forest: Forest, feature: int, value: float) -> list[Step]:
    """Only this very number (one float of the native type), never NaN."""
    if forest.comparison is Comparison.FLOAT32_LESS:
        above = float(np.nextafter(np.float32(value), np.float32(np.inf)))
        low, high = float(np.float32(value)), above
    elif forest.comparison is Comparison.FLOAT64_LESS_EQUAL:
        low, high = float(np.nextafter(value, -np.inf)), value
    else:
        low = float(np.nextafter(np.float32(value), np.float32(-np.inf)))
        high = float(np.float32(value))
    sides = (True, False)
    if forest.library == "catboost":  # NaN goes one way at all splits of a feature: past one of the two
        sides = (nan_goes_left(forest, feature),) * 2
    return [Step(feature, low, to_left=False, nan_left=sides[0]), Step(feature, high, to_left=True, nan_left=sides[1])]


def nan_goes_left(forest: Forest, feature: int) -> bool:
    """Where NaN goes at the splits of a feature of CatBoost."""
    return bool(forest.default_left[forest.feature == feature].all())


def only_nan(feature: int, threshold: float) -> list[Step]:
    """Left and right of the same threshold: no number can do that, NaN can."""
    return [
        Step(feature, threshold, to_left=True, nan_left=True),
        Step(feature, threshold, to_left=False, nan_left=False),
    ]


def only_unseen(forest: Forest, feature: int) -> list[Step]:
    """None of the codes that any split names."""
    nodes = np.flatnonzero((forest.feature == feature) & (forest.kind == SplitKind.CATEGORICAL))
    named = {int(code) for node in nodes for code in forest.categories_of(int(node))} | {0}
    if forest.library == "catboost":  # one category a split
        return [Step(feature, codes=(code,), to_left=True, nan_left=True) for code in sorted(named)]
    in_set_left = forest.library != "xgboost"
    # XGBoost: NaN goes with the named ones. LightGBM reads NaN as in no set, scikit-learn reads
    # an unknown category as missing: there both go the needle's way.
    return [Step(feature, codes=tuple(sorted(named)), to_left=not in_set_left, nan_left=False)]


def add_needle(forest: Forest, path: list[Step], value: float, output: int = 0) -> Forest:
    """Append a round: a tree that is 0 everywhere but at the end of the path, constants beside it.

    Children are neighbours and the left one comes first, as XGBoost needs it.
    """
    start = forest.n_nodes
    nodes: list[tuple[Any, ...]] = []
    sets: list[tuple[int, ...]] = []
    sizes = []
    for own_output in range(forest.n_outputs):
        before = len(nodes)
        if own_output == output:
            _grow(path, start + before, nodes, sets)
            nodes[-1 if not path or not path[-1].to_left else -2] = (*_LEAF[:-1], value)
        else:
            nodes.append(_LEAF)
            sets.append(())
        sizes.append(len(nodes) - before)
    columns = list(zip(*nodes, strict=True))
    names = ("feature", "threshold", "left", "right", "default_left", "kind")
    counts = np.cumsum([len(codes) for codes in sets])
    n_new, k = len(nodes), forest.n_outputs

    def extended(name: str, column: tuple[Any, ...]) -> Any:
        old = getattr(forest, name)
        return np.concatenate([old, np.array(column, dtype=old.dtype)])

    return replace(
        forest,
        **{name: extended(name, column) for name, column in zip(names, columns, strict=False)},
        tree_offset=np.concatenate([forest.tree_offset, start + np.cumsum(sizes)]),
        missing=np.append(forest.missing, np.zeros(n_new, dtype=np.uint8)),
        set_left=np.append(forest.set_left, np.full(n_new, forest.library not in ("xgboost", "catboost"))),
        category_offset=np.concatenate([forest.category_offset, forest.category_offset[-1] + counts]),
        category=np.concatenate([forest.category, np.array([c for codes in sets for c in codes], dtype=np.int32)]),
        value=np.concatenate([forest.value, np.array(columns[-1])[:, None]]),
        tree_output=np.append(forest.tree_output, np.arange(k, dtype=np.int32)),
        tree_round=np.append(forest.tree_round, np.full(k, forest.tree_round.max() + 1, dtype=np.int32)),
        tree_bias=np.append(forest.tree_bias, np.zeros(k)),
    )


_LEAF = (-1, 0.0, -1, -1, False, SplitKind.LEAF, 0.0)


def _grow(path: list[Step], start: int, nodes: list[tuple[Any, ...]], sets: list[tuple[int, ...]]) -> None:
    first = len(nodes)
    nodes.append(_LEAF)
    sets.append(())
    here = first
    for step in path:
        left = start + len(nodes) - first
        kind = SplitKind.CATEGORICAL if step.codes else SplitKind.NUMERIC
        nodes[here] = (step.feature, step.threshold, left, left + 1, step.nan_left, kind, 0.0)
        sets[here] = step.codes
        here = len(nodes) + (0 if step.to_left else 1)
        nodes += [_LEAF, _LEAF]
        sets += [(), ()]


def base_forest(rng: np.random.Generator, manner: Manner, n_outputs: int = 1) -> Forest:
    """A small forest on eighths without intercept; its second feature is categorical.

    GradientBoosting has neither categories nor missing values.
    """
    is_gradient = manner is SKLEARN
    forest = random_forest(
        rng,
        n_trees=3 * n_outputs,
        depth=2,
        n_features=3,
        n_outputs=n_outputs,
        manner=manner,
        categorical=() if is_gradient else (CATEGORICAL,),
        n_thresholds=3,
        n_categories=3,
        leaf_grid=BASE_GRID,
        accepts_missing=not is_gradient,
    )
    return replace(forest, intercept=np.zeros(n_outputs))


def largest_margin(forest: Forest) -> float:
    """No input's margin passes this."""
    largest = np.maximum.reduceat(np.abs(forest.value[:, 0]), forest.tree_offset[:-1])
    return float(largest.sum() + np.abs(forest.intercept).max())


def on_grid(forest: Forest, dropped: int | None = None, grid: int = GRID) -> PrunedForest:
    """The forest on a grid, one tree dropped or none."""
    weights = np.ones(forest.n_trees)
    if dropped is not None:
        weights[dropped] = 0.0
    value = forest.value * weights[forest.node_tree][:, None]
    value_int = np.rint(np.ldexp(value, grid)).astype(np.int64)
    intercept = np.rint(np.ldexp(forest.intercept, grid)).astype(np.int64)
    return PrunedForest(forest, np.flatnonzero(weights), value_int, grid, intercept, weights)


def case_of(forest: Forest, rng: np.random.Generator, score_name: str | None = None) -> Case:
    """The whole space, or a region whose score permits all of it for now."""
    space = build_space(forest)
    tables = compile_domain(None, space, schema_of(forest))
    rows = all_states(space).astype(np.int64)
    if score_name is not None:
        X = random_rows(rng, forest, 50)
        if score_name == "chow-liu":
            score = fit_chow_liu(space.states(X), space, X, n_bins=3)
        else:
            score = fit_leaf_support(space.states(X), route(forest, space), space)
        tables = replace(tables, score=score, tau=int(total_score(score, rows).max()))
    problem = build_problem(forest, space, tables)
    return Case(problem, rows, walk(forest, space, rows), in_region(tables, rows))


def walk(forest: Forest, space: StateSpace, rows: IntArray) -> IntArray:
    """The leaf of every state row in every tree, as `find_leaves` walks real inputs.

    One comparison per node and state instead of one per node and row.
    """
    n_states = [int(n) for n in space.n_states]
    ladder = np.zeros((max(n_states), len(n_states)), dtype=np.int64)
    for feature, n in enumerate(n_states):
        ladder[:n, feature] = np.arange(n)
    values = space.representative(ladder)
    inner = np.flatnonzero(forest.kind != SplitKind.LEAF)
    pairs = [(node, state) for node in inner for state in range(n_states[forest.feature[node]])]
    nodes, states = np.array(pairs, dtype=np.int64).T
    goes_left = np.zeros((forest.n_nodes, max(n_states)), dtype=bool)
    goes_left[nodes, states] = _goes_left(forest, nodes, values[states, forest.feature[nodes]])
    here = np.tile(forest.tree_offset[:-1], (len(rows), 1))
    across = np.arange(len(rows))[:, None]
    while True:
        is_inner = forest.kind[here] != SplitKind.LEAF
        if not is_inner.any():
            return np.asarray(here)
        left = goes_left[here, rows[across, np.maximum(forest.feature[here], 0)]]
        onward = np.where(left, forest.left[here], forest.right[here])
        here = np.where(is_inner, onward, here)


def with_tau(case: Case, tau: int) -> Case:
    """The same case with another threshold of its score."""
    tables = replace(case.problem.region, tau=tau)
    problem: Problem = replace(case.problem, region=tables)
    return Case(problem, case.rows, case.nodes, in_region(tables, case.rows))
