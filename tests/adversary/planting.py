"""Planted triples: a real model, a region, and a pruned model that one kind of input refutes.

In come a manner of model and a kind of counterexample; out go triples that share model and region
where they can. Every triple is built to be broken; nothing here decides whether it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pine_boost.model.forest import Forest, IntArray, Model, PrunedForest
from pine_boost.model.rules import Comparison, SplitKind
from pine_boost.proof.problem import build_problem
from tests.adversary.natives import native_model
from tests.adversary.needles import (
    BASE_GRID,
    CATEGORICAL,
    GRID,
    Step,
    add_needle,
    base_forest,
    case_of,
    exactly,
    largest_margin,
    on_grid,
    only_nan,
    only_unseen,
    with_tau,
)
from tests.support.forests import CATBOOST, MANNERS, SKLEARN, Manner
from tests.support.naive import Case, broken_rows, total_score

PATHS = (
    "on a threshold",
    "one ulp beside",
    "only NaN",
    "only an unseen category",
    "NaN and an unseen category together",
)
CORNER, BAND, TIE = "only in the corner", "just outside the band", "a tie of classes"
KINDS = (*PATHS, CORNER, BAND, TIE)
_NUMBERS = (-1.25, -0.5, 0.75, 1.5, 2.25, -3.0)


@dataclass(frozen=True, eq=False)
class Triple:
    """One model, region and pruned model; ``twin`` is nearly the same and must be proved."""

    model: Model
    case: Case
    pruned: PrunedForest
    twin: tuple[Case, PrunedForest] | None = None


def possible(kind: str, manner: Manner) -> bool:
    """GradientBoosting knows neither missing values nor categories; NaN is never alone in CatBoost."""
    if manner is CATBOOST:
        return "NaN" not in kind
    return manner is not SKLEARN or kind in (*PATHS[:2], CORNER, BAND, TIE)


def plant(kind: str, manner: Manner, seed: int) -> Iterator[Triple]:
    """Up to six triples over one random model; those that no input refutes are left out."""
    rng = np.random.default_rng([seed, KINDS.index(kind), _number(manner)])
    makers = {CORNER: _corners, BAND: _bands, TIE: _ties}
    maker = makers.get(kind)
    score_name = "chow-liu" if seed % 2 else None
    yield from maker(manner, rng) if maker else _needles(kind, manner, rng, score_name)


def _needles(kind: str, manner: Manner, rng: np.random.Generator, score_name: str | None) -> Iterator[Triple]:
    """The pruned model lacks one needle, and is wrong where only that needle decides."""
    model, case, trees = _needled(kind, manner, rng, score_name)
    whole = (case, on_grid(model.forest))
    for tree in trees:
        pruned = on_grid(model.forest, dropped=tree)
        if broken_rows(case, pruned).any():
            yield Triple(model, case, pruned, whole)
            whole = None  # once for each model


def _corners(manner: Manner, rng: np.random.Generator) -> Iterator[Triple]:
    """tau lies at the cheapest input that is wrong: one unit less and nothing is wrong."""
    score_name = str(rng.choice(["chow-liu", "leaf-support"]))
    model, case, trees = _needled(str(rng.choice(PATHS[:2])), manner, rng, score_name)
    score = case.problem.region.score
    assert score is not None
    for number, tree in enumerate(trees):
        pruned = on_grid(model.forest, dropped=tree)
        broken = broken_rows(case, pruned).any(axis=1)
        if broken.any():
            tau = int(total_score(score, case.rows[broken]).min())
            twin = (with_tau(case, tau - 1), pruned) if number % 3 == 0 else None
            yield Triple(model, with_tau(case, tau), pruned, twin)


def _needled(
    kind: str, manner: Manner, rng: np.random.Generator, score_name: str | None
) -> tuple[Model, Case, list[int]]:
    """A model with needles, each of which decides against the rest at some input."""
    base = base_forest(rng, manner)
    n_base, size = base.n_trees, 2 * np.ceil(largest_margin(base))
    forest = base
    for number in _NUMBERS:
        forest = add_needle(forest, _path(kind, rng, base, number), float(size))
    sketch = case_of(forest, rng)
    margins = forest.value[sketch.nodes[:, :n_base], 0].sum(axis=1)
    value = forest.value.copy()
    trees = list(range(n_base, forest.n_trees))
    for tree in trees:
        leaf = needle_leaf(forest, tree)
        at = np.flatnonzero(sketch.nodes[:, tree] == leaf)
        if len(at) and margins[rng.choice(at)] > 0:
            value[leaf] = -size
    model = native_model(replace(forest, value=value), manner, _category(manner))
    return model, case_of(model.forest, rng, score_name), trees


def needle_leaf(forest: Forest, tree: int) -> int:
    """The only leaf of a needle that is not 0."""
    own = slice(int(forest.tree_offset[tree]), int(forest.tree_offset[tree + 1]))
    return int(own.start + np.flatnonzero(forest.value[own].any(axis=1))[0])


def _path(kind: str, rng: np.random.Generator, forest: Forest, number: float) -> list[Step]:
    """The kind's own condition on one feature, and one number of another: needles never meet."""
    feature = int(rng.choice([0, 2]))
    threshold = _threshold_of(rng, forest, feature)
    apart = exactly(forest, 2 - feature, number)
    if kind == "on a threshold":
        return [*apart, *exactly(forest, feature, threshold)]
    if kind == "one ulp beside":
        beside = _beside(forest, threshold, float(rng.choice([-9e9, 9e9])))
        return [*exactly(forest, feature, beside), *apart]
    if kind == "only NaN":
        return [*only_nan(feature, threshold), *apart]
    if kind == "only an unseen category":
        return [*only_unseen(forest, CATEGORICAL), *apart]
    return [*only_nan(feature, threshold), *apart, *only_unseen(forest, CATEGORICAL)]


def _threshold_of(rng: np.random.Generator, forest: Forest, feature: int) -> float:
    nodes = np.flatnonzero((forest.feature == feature) & (forest.kind == SplitKind.NUMERIC))
    return float(rng.choice(forest.threshold[nodes])) if len(nodes) else 0.5


def _beside(forest: Forest, value: float, side: float) -> float:
    if forest.comparison is not Comparison.FLOAT64_LESS_EQUAL:
        return float(np.nextafter(np.float32(value), np.float32(side)))
    return float(np.nextafter(value, side))


def _distant(forest: Forest) -> list[list[Step]]:
    """Paths to single numbers of two features, no two of which meet."""
    return [[*exactly(forest, 0, number), *exactly(forest, 2, -number)] for number in _NUMBERS[:4]]


def _bands(manner: Manner, rng: np.random.Generator) -> Iterator[Triple]:
    """At its best input the original is decided by the least possible; the pruned is against it."""
    base = base_forest(rng, manner)
    signs = rng.choice([-1, 1], 4)
    found = _at_band(base, signs, manner, rng, outside=True)
    inside = _at_band(base, signs, manner, rng, outside=False)
    if found is None:
        return
    for number in range(4):
        triple = _against(*found, base.n_trees, signs, number)
        if inside is not None:
            other = _against(*inside, base.n_trees, signs, number)
            # a float32 step may be wider than the band: then the other side is decided
            if not broken_rows(other.case, other.pruned).any():
                triple = replace(triple, twin=(other.case, other.pruned))
            inside = None
        if broken_rows(triple.case, triple.pruned).any():
            yield triple


def _against(model: Model, case: Case, first: int, signs: IntArray, number: int) -> Triple:
    """One needle of the pruned model points the other way; the others lose a little to rounding,
    which must not hide their sides: they are rounded away from 0 margins.
    """
    pruned = on_grid(model.forest)
    value = pruned.value_int.copy()
    for other, sign in enumerate(signs):
        value[needle_leaf(model.forest, first + other)] += sign
    value[needle_leaf(model.forest, first + number)] = -signs[number] * 2 ** (GRID + 4)
    return Triple(model, case, replace(pruned, value_int=value))


def _at_band(
    base: Forest, signs: IntArray, manner: Manner, rng: np.random.Generator, outside: bool
) -> tuple[Model, Case] | None:
    """Choose the needles' values so that their best inputs are just decided, or just not."""
    forest = base
    for path in _distant(base):
        forest = add_needle(forest, path, 1.0)
    sketch = case_of(forest, rng)
    problem = sketch.problem
    leaves = [needle_leaf(forest, base.n_trees + number) for number in range(len(signs))]
    value = forest.value.copy()
    value[leaves, 0] = 0.1 * signs
    for _ in range(10):
        value[leaves, 0] = [_native(base, float(entry)) for entry in value[leaves, 0]]
        forest = replace(forest, value=value.copy())
        problem = build_problem(forest, problem.space, problem.region)
        units = np.rint(np.ldexp(forest.value, problem.scale)).astype(np.int64)[:, 0]
        margins = units[sketch.nodes].sum(axis=1)
        settled = True
        for leaf, sign in zip(leaves, signs, strict=True):
            best = int((sign * margins[(sketch.nodes == leaf).any(axis=1)]).max())
            question = next(q for q in problem.questions if q.sign == sign)
            # steps of the library's float type, where they are coarser than the integers
            spacing = np.spacing(base.arithmetic(abs(forest.value[leaf, 0])))
            step = max(1, int(np.ldexp(float(spacing), problem.scale)))
            over = best - int(problem.least[question.index])
            if not (0 <= over < step if outside else -step <= over < 0):
                settled = False
                aim = over - (step - 1) // 2 if outside else over + 1 + (step - 1) // 2
                value[leaf, 0] -= sign * np.ldexp(float(aim), -problem.scale)
        if settled:
            model = native_model(forest, manner, _category(manner))
            return model, case_of(model.forest, rng)
    return None


def _native(forest: Forest, value: float) -> float:
    return float(forest.arithmetic(value)) or float(np.finfo(np.float32).tiny)


def _ties(manner: Manner, rng: np.random.Generator) -> Iterator[Triple]:
    """The pruned model ties two classes where the original prefers one by an eighth."""
    base = base_forest(rng, manner, n_outputs=3)
    winners = rng.integers(0, 3, 4)
    paths = _distant(base)
    forest = base
    for path, winner in zip(paths, winners, strict=True):
        forest = add_needle(forest, path, 1.0, int(winner))
    sketch = case_of(forest, rng)
    value = forest.value.copy()
    for number, winner in enumerate(winners):
        tree = base.n_trees + 3 * number + int(winner)
        leaf = needle_leaf(forest, tree)
        target = int(rng.choice(np.flatnonzero(sketch.nodes[:, tree] == leaf)))
        sums = forest.leaf_vectors()[sketch.nodes[target, : base.n_trees]].sum(axis=0)
        rival = np.where(np.arange(3) == winner, -np.inf, sums).max()
        value[leaf] = rival - sums[winner] + 2.0**-BASE_GRID
    value[value == 0] = 0.0
    model = native_model(replace(forest, value=value), manner, _category(manner))
    case = case_of(model.forest, rng)
    whole = (case, on_grid(model.forest))
    for number, winner in enumerate(winners):
        tree = base.n_trees + 3 * number + int(winner)
        own = slice(int(model.forest.tree_offset[tree]), int(model.forest.tree_offset[tree + 1]))
        if not model.forest.value[own].any():
            continue  # the winner was ahead by just an eighth without the needle
        pruned = on_grid(model.forest)
        tied = pruned.value_int.copy()
        leaf = needle_leaf(model.forest, tree)
        tied[leaf] -= 2 ** (GRID - BASE_GRID) * (model.forest.value[leaf] != 0)  # a leaf may hold all classes
        pruned = replace(pruned, value_int=tied)
        if broken_rows(case, pruned).any():
            yield Triple(model, case, pruned, whole)
            whole = None


def _category(manner: Manner) -> int | None:
    return None if manner is SKLEARN else CATEGORICAL


def _number(manner: Manner) -> int:
    return (*MANNERS, CATBOOST).index(manner)
