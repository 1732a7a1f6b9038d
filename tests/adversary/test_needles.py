"""Planted counterexamples of every kind: no method may prove what one input refutes."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from pine_boost.forest import Forest, PrunedForest, SplitKind
from pine_boost.search.boxes import prove_boxes
from pine_boost.search.oracle import FIRST, SECOND, Answer, Oracle
from pine_boost.verification import THIRD
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
    only_nan,
    only_unseen,
    with_tau,
    without_last,
)
from tests.forests import HISTOGRAM, LIGHTGBM, MANNERS, Manner
from tests.naive import Case, broken_rows, total_score

NAMES = ["xgboost", "lightgbm", "sklearn", "histogram"]
SEEDS = 12


def _answers(case: Case, pruned: PrunedForest) -> list[list[Answer]]:
    """Answers of all four methods to every question; what is found must really break it."""
    broken = broken_rows(case, pruned)
    oracle = Oracle(case.game)
    questions = list(case.game.questions)
    end = time.monotonic() + 600
    methods = [oracle.prove(pruned, questions, setting, end) for setting in (FIRST, SECOND, THIRD)]
    methods.append(
        [prove_boxes(case.game, pruned, q, max_boxes=10**6, deadline=end) for q in questions]
    )
    for proofs in methods:
        for proof in proofs:
            if proof.states is not None:
                row = int(np.flatnonzero((case.rows == proof.states).all(axis=1))[0])
                assert broken[row, proof.question.index]
    return [[proofs[q.index].answer for proofs in methods] for q in questions]


def _check(case: Case, pruned: PrunedForest) -> int:
    """Every method says what enumeration says; returns the number of rows that break."""
    broken = broken_rows(case, pruned)
    for question, answers in zip(case.game.questions, _answers(case, pruned), strict=True):
        expected = Answer.FOUND if broken[:, question.index].any() else Answer.PROVED
        assert answers == [expected] * 4
    return int(broken.any(axis=1).sum())


def _threshold_of(rng: np.random.Generator, forest: Forest, feature: int) -> float:
    nodes = np.flatnonzero((forest.feature == feature) & (forest.kind == SplitKind.NUMERIC))
    return float(rng.choice(forest.threshold[nodes])) if len(nodes) else 0.5


def _beside(forest: Forest, value: float, side: float) -> float:
    if forest.arithmetic is np.float32 or forest.library == "sklearn":
        return float(np.nextafter(np.float32(value), np.float32(side)))
    return float(np.nextafter(value, side))


def _path(kind: str, rng: np.random.Generator, forest: Forest) -> list[Step]:
    feature = int(rng.choice([0, 2]))
    threshold = _threshold_of(rng, forest, feature)
    if kind == "on a threshold":
        return exactly(forest, feature, threshold)
    if kind == "one ulp beside":
        return exactly(forest, feature, _beside(forest, threshold, float(rng.choice([-9e9, 9e9]))))
    if kind == "only NaN":
        return only_nan(feature, threshold)
    if kind == "only an unseen category":
        return only_unseen(forest, CATEGORICAL)
    return [*only_nan(feature, threshold), *only_unseen(forest, CATEGORICAL)]


KINDS = (
    "on a threshold", "one ulp beside", "only NaN", "only an unseen category",
    "NaN and an unseen category together",
)  # fmt: skip


@pytest.mark.parametrize("manner", MANNERS, ids=NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_needles_are_found_and_nothing_else(kind: str, manner: Manner) -> None:
    _search_needles(kind, manner, range(SEEDS))


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS, ids=NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_needles(kind: str, manner: Manner) -> None:
    _search_needles(kind, manner, range(SEEDS, SEEDS + 100))


def _search_needles(kind: str, manner: Manner, seeds: range) -> None:
    """Each seed is two models: the needle dropped (found, nowhere else) and kept (proved)."""
    n_planted = 0
    for seed in seeds:
        rng = np.random.default_rng([seed, NAMES.index(_name(manner)), KINDS.index(kind)])
        base = base_forest(rng, manner)
        path = _path(kind, rng, base)
        sign = float(rng.choice([-1.0, 1.0]))
        forest = add_needle(base, path, sign * 2 * np.ceil(largest_margin(base)))
        case = case_of(forest, rng, scored=bool(seed % 2))
        n_broken = _check(case, without_last(forest))
        at_needle = (case.nodes[:, -1] == forest.n_nodes - 1) & case.inside
        broken = broken_rows(case, without_last(forest)).any(axis=1)
        assert not np.any(broken & ~at_needle)
        assert n_broken <= at_needle.sum()
        n_planted += n_broken > 0
        assert _check(case, without_last(forest, keep=True)) == 0
    assert n_planted >= len(seeds) // 3


def _name(manner: Manner) -> str:
    return NAMES[MANNERS.index(manner)]


@pytest.mark.parametrize("manner", MANNERS, ids=NAMES)
def test_the_last_point_of_a_region_counts_and_the_first_outside_does_not(manner: Manner) -> None:
    """tau at the cheapest needle: found; one unit less: proved."""
    n_planted = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 77])
        base = base_forest(rng, manner)
        path = _path("on a threshold", rng, base)
        forest = add_needle(base, path, 2 * np.ceil(largest_margin(base)))
        case = case_of(forest, rng, scored=True)
        pruned = without_last(forest)
        broken = broken_rows(case, pruned).any(axis=1)
        if not broken.any():
            continue
        n_planted += 1
        assert case.game.region.score is not None
        cheapest = int(total_score(case.game.region.score, case.rows[broken]).min())
        assert _check(with_tau(case, cheapest), pruned) >= 1
        assert _check(with_tau(case, cheapest - 1), pruned) == 0
    assert n_planted >= SEEDS // 3


@pytest.mark.parametrize("manner", [LIGHTGBM, HISTOGRAM], ids=["lightgbm", "histogram"])
def test_one_unit_outside_the_band_counts_and_one_inside_does_not(manner: Manner) -> None:
    """The original's integer margin at the needle is exactly the least that is decided."""
    n_planted = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 78])
        base = base_forest(rng, manner)
        base = replace(base, value=base.value * (1 + 2.0**-40))  # off every grid: a band remains
        path = [*exactly(base, 0, 0.75), *exactly(base, 2, -1.25)]
        for outside in (True, False):
            found = _at_band(base, path, rng, outside)
            if found is None:
                continue
            case, forest = found
            pruned = without_last(forest)
            value = pruned.value_int.copy()
            value[forest.n_nodes - 1] = -(2**14)  # the needle itself goes the other way
            pruned = replace(pruned, value_int=value)
            broken = broken_rows(case, pruned)
            at_needle = case.nodes[:, -1] == forest.n_nodes - 1
            assert bool((broken.any(axis=1) & at_needle).any()) == outside
            _check(case, pruned)
            n_planted += 1
    assert n_planted >= SEEDS


def _at_band(
    base: Forest, path: list[Step], rng: np.random.Generator, outside: bool
) -> tuple[Case, Forest] | None:
    """Choose the needle's value so that its best point is just decided, or just not."""
    value = 0.1
    for _ in range(12):
        forest = add_needle(base, path, value)
        case = case_of(forest, rng)
        game = case.game
        at_needle = np.flatnonzero(case.nodes[:, -1] == forest.n_nodes - 1)
        leaves = np.rint(np.ldexp(forest.value, game.scale)).astype(np.int64)[:, 0]
        margins = leaves[case.nodes[at_needle]].sum(axis=1) + game.intercept_int[0]
        wanted = int(game.least[0]) - (0 if outside else 1)
        if margins.max() == wanted:
            return case, forest
        value += float(np.ldexp(float(wanted - int(margins.max())), -game.scale))
    return None


@pytest.mark.parametrize("manner", MANNERS, ids=NAMES)
def test_a_tie_of_classes_counts_unless_it_is_faithful(manner: Manner) -> None:
    """The pruned model ties two classes where the original prefers one by an eighth."""
    n_ties = n_broken = n_faithful = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 79])
        base = base_forest(rng, manner, n_outputs=3)
        winner = int(rng.integers(3))
        path = exactly(base, 0, 0.75)
        forest = add_needle(base, path, 0.0, winner)
        case = case_of(forest, rng)
        at_needle = np.flatnonzero((case.nodes[:, -1] == forest.n_nodes - 1) & case.inside)
        target = int(rng.choice(at_needle))
        value = forest.leaf_vectors()[case.nodes[target]].sum(axis=0) + forest.intercept
        rival = int(np.argmax(np.where(np.arange(3) == winner, -np.inf, value)))
        lift = value[rival] - value[winner] + 2.0**-BASE_GRID
        forest = add_needle(base, path, float(lift), winner)
        case = case_of(forest, rng)
        pruned = without_last(forest, keep=True)
        tied = pruned.value_int.copy()
        tied[forest.n_nodes - 1] -= 2 ** (GRID - BASE_GRID)
        pruned = replace(pruned, value_int=tied)
        broken = broken_rows(case, pruned)
        question = next(
            q.index for q in case.game.questions if (q.plus, q.minus) == (winner, rival)
        )
        n_ties += 1
        n_broken += bool(broken[target, question])
        n_faithful += not broken[target, question]
        assert bool(broken[target, question]) == bool(case.game.strict[question])
        _check(case, pruned)
    assert n_ties == SEEDS
    assert n_broken > 0
    assert n_faithful > 0
