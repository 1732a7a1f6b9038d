"""One input out of millions breaks a candidate: every method finds it, and no time is no proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pine_boost.budget import Budget
from pine_boost.model.forest import Forest, PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import build_space
from pine_boost.proof.boxes.branch_and_bound import prove_boxes
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.solver import SECOND, SolverSetting
from pine_boost.proof.problem import Problem, build_problem
from pine_boost.proof.question import Answer
from pine_boost.region.domain import compile_domain
from pine_boost.region.score_tables import PairTable, RegionTables, ScoreTables
from pine_boost.tables.schema import schema_of
from tests.support.forests import random_forest
from tests.support.grids import grid_forest
from tests.support.solver_settings import FOREVER, SETTINGS


def _needle(n_features: int, magnitude: float, *, scored: bool) -> tuple[Problem, PrunedForest]:
    """One input out of 2**n_features is class 1; the pruned model has forgotten it.

    Tree j is a stump on feature j worth +-w_j; only all features on the right reach the cut. The
    leaves fill the solver's safe range, where or-tools#5293 gave wrong answers.
    """
    rng = np.random.default_rng(n_features)
    base = random_forest(rng, n_features, 1, n_features, n_thresholds=1, leaf_probability=0.0)
    weight = magnitude * rng.integers(900, 1100, n_features) / 1024
    value, feature = base.value.copy(), base.feature.copy()
    for tree in range(n_features):
        root = int(base.tree_offset[tree])
        feature[root] = tree
        value[base.left[root]], value[base.right[root]] = -weight[tree], weight[tree]
    forest: Forest = replace(
        base,
        value=value.astype(np.float32).astype(np.float64),
        feature=feature,
        threshold=np.where(base.kind == SplitKind.NUMERIC, 0.5, 0.0),
        intercept=np.array([-(weight.sum() - weight.min())]).astype(np.float32).astype(np.float64),
        accepts_missing=False,
    )
    space = build_space(forest)
    region = compile_domain(None, space, schema_of(forest))
    if scored:
        region = _chain_score(region, n_features)
    problem = build_problem(forest, space, region)
    pruned = grid_forest(forest)
    value_int = pruned.value_int.copy()
    leaves = forest.kind == SplitKind.LEAF
    first = leaves & (forest.node_tree == 0)
    lowered = int(np.ceil(2 * weight.min() * 2**pruned.grid))
    value_int[first] -= lowered
    return problem, replace(pruned, value_int=value_int)


def _chain_score(region: RegionTables, n_features: int) -> ScoreTables | Any:
    """A chain of pair costs whose sum at all ones is exactly tau; most other inputs cost more."""
    bins = tuple(np.array([0, 1]) for _ in range(n_features))
    unary = tuple(np.array([900, 1000]) for _ in range(n_features))
    cost = np.array([[0, 7000], [7000, 10]])
    pairs = tuple(PairTable(j, j + 1, cost) for j in range(n_features - 1))
    score = ScoreTables(bins, unary, pairs)
    tau = int(score.score(np.ones((1, n_features), dtype=np.int32))[0])
    return replace(region, score=score, tau=tau)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
@pytest.mark.parametrize("scored", [False, True])
def test_needle_is_found_under_every_setting(setting: SolverSetting, scored: bool) -> None:
    for n_features, magnitude in ((8, 1.0), (20, 1.0), (24, 1e-3)):
        problem, pruned = _needle(n_features, magnitude, scored=scored)
        proofs = Prover(problem).prove(pruned, list(problem.questions), (setting,), FOREVER)
        answers = {proof.question.sign: proof for proof in proofs}
        assert answers[1].answer is Answer.FOUND
        assert answers[1].states is not None
        assert answers[1].states.tolist() == [1] * n_features
        assert answers[-1].answer is Answer.PROVED
        # the forgotten input restored, there is nothing to find
        whole = grid_forest(problem.forest)
        proofs = Prover(problem).prove(whole, list(problem.questions), (setting,), FOREVER)
        assert all(proof.answer is Answer.PROVED for proof in proofs)


def test_no_time_is_no_proof() -> None:
    problem, pruned = _needle(24, 1.0, scored=True)
    proofs = Prover(problem).prove(pruned, list(problem.questions), (SECOND,), Budget.of(-1.0))
    lost = {1: True, -1: False}
    for proof in proofs:
        if lost[proof.question.sign]:
            assert proof.answer is not Answer.PROVED
        else:
            assert proof.answer is not Answer.FOUND
    proof = prove_boxes(problem, pruned, problem.questions[0], max_boxes=1, budget=FOREVER)
    assert proof.answer is not Answer.PROVED
