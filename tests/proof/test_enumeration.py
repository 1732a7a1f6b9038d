"""Every input in two ways, against the naive enumerator; large models over few states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pine_boost import prune_booster, verify
from pine_boost.budget import Budget
from pine_boost.parsers import read_model
from pine_boost.proof import enumeration
from pine_boost.proof.cpsat import prover as prover_module
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.enumeration import list_region, prove_listed, prove_walked
from pine_boost.proof.problem import build_problem
from pine_boost.proof.question import Answer
from pine_boost.proof.two_proofs import first_proof, second_proof
from pine_boost.region.fitting import every_input
from tests.support.naive import broken_rows, random_case, random_pruned
from tests.support.solver_settings import FOREVER

pytest.importorskip("sklearn")  # isolation forests
KINDS = ("same", "reweighted", "planted")


def test_both_ways_agree_with_the_naive_enumerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enumeration, "_CHUNK", 50)
    n_broken = n_questions = 0
    for seed in range(120):
        case = random_case(seed)
        problem = case.problem
        pruned = random_pruned(np.random.default_rng(seed), problem, KINDS[seed % 5 % 3])
        broken = broken_rows(case, pruned)
        listing = list_region(problem, FOREVER)
        assert listing is not None
        for proofs in (prove_listed(problem, pruned, listing), prove_walked(problem, pruned, FOREVER)):
            assert [proof.question for proof in proofs] == list(problem.questions)
            for proof in proofs:
                column = broken[:, proof.question.index]
                assert (proof.answer is Answer.FOUND) == column.any()
                if proof.states is not None:
                    row = np.flatnonzero((case.rows == proof.states).all(axis=1))
                    assert column[row].all()
                    assert len(row) == 1
        n_broken += int(broken.any(axis=0).sum())
        n_questions += len(problem.questions)
    assert 0.05 * n_questions < n_broken < 0.95 * n_questions  # both answers were put to the test


def test_few_leaves_many_inputs_and_late_budgets_have_no_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_case(3).problem
    assert Prover(problem).listing(FOREVER) is None
    assert list_region(problem, FOREVER) is not None
    assert list_region(problem, Budget.of(-1.0)) is None
    late = prove_walked(problem, random_pruned(np.random.default_rng(0), problem, "same"), Budget.of(-1.0))
    assert {proof.answer for proof in late} == {Answer.UNKNOWN}
    for name in ("_MOST_ROWS", "_MOST_CELLS"):
        with monkeypatch.context() as patch:
            patch.setattr(enumeration, name, 1)
            assert list_region(problem, FOREVER) is None


def test_the_two_proofs_use_it_and_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover_module, "_FEWEST_LEAVES", 0)
    problem = random_case(3).problem
    pruned = random_pruned(np.random.default_rng(0), problem, "same")
    prover = Prover(problem)
    assert {p.method for p in first_proof(prover, pruned, FOREVER)} == {"enumeration"}
    assert {p.method for p in second_proof(prover, pruned, FOREVER)} == {"enumeration-by-walks"}


@pytest.mark.parametrize("indifference", [0.0, 0.05])
def test_a_large_model_over_few_states_is_proved_at_once(indifference: float, tmp_path: Path) -> None:
    """100 trees of depth 6 over nine yes-or-no features, one of them with gaps."""
    xgboost = pytest.importorskip("xgboost")
    random = np.random.default_rng(0)
    X = random.integers(0, 2, size=(1500, 9)).astype(float)
    y = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] * (1 - X[:, 4]) + random.normal(0, 0.8, 1500) > 1.2
    X[random.random(1500) < 0.1, 8] = np.nan
    model = xgboost.XGBClassifier(n_estimators=100, n_jobs=1).fit(X[:700], y[:700].astype(int))
    result = prune_booster(model, X[:700], X[700:], alpha=0.1, indifference=indifference, objective="l1", verbose=False)
    certificate = result.certificate
    assert certificate.trees_after < 80
    assert {p.method for p in certificate.proofs} == {"enumeration", "enumeration-by-walks"}
    everything = np.stack(np.meshgrid(*[[0.0, 1.0, np.nan]] * 9, indexing="ij"), axis=-1).reshape(-1, 9)
    same = model.predict(everything) == result.model.predict(everything)
    assert same[result.region.contains(everything, model=model)].all()
    assert not same.all()
    model.save_model(tmp_path / "original.json")
    folder = result.save(tmp_path / "pruned", report=False)
    files = [folder / name for name in ("model.json", "region.json", "certificate.json")]
    verdict = verify(tmp_path / "original.json", *files)
    assert (verdict.agrees, verdict.proved_twice) == (True, True)
    if indifference:
        assert verdict.serving_proved is (None if certificate.serving is None else True)


def test_columns_that_no_tree_splits_on_cost_nothing() -> None:
    """More columns than numpy has axes: 80, of which two are split on."""
    xgboost = pytest.importorskip("xgboost")
    X = np.zeros((200, 80))
    X[:, [3, 71]] = np.random.default_rng(0).integers(0, 3, size=(200, 2))
    y = (X[:, 3] > X[:, 71]).astype(int)
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=3, n_jobs=1).fit(X, y)
    forest = read_model(model).forest
    region = every_input(forest, None, 0.0)
    problem = build_problem(forest, region.space, region.tables)
    listing = list_region(problem, FOREVER)
    assert listing is not None
    used = region.space.n_states[[3, 71]]
    assert listing.states.shape == (used.prod(), 80)
    assert len(np.unique(listing.states[:, [3, 71]], axis=0)) == used.prod()
    pruned = random_pruned(np.random.default_rng(0), problem, "planted")
    listed = prove_listed(problem, pruned, listing)
    walked = prove_walked(problem, pruned, FOREVER)
    assert [proof.answer for proof in listed] == [proof.answer for proof in walked]


def test_many_classes_have_no_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is held once for every question, so these count as trees do."""
    cases = (random_case(seed).problem for seed in range(8, 60))
    problem = next(p for p in cases if len(p.questions) > p.forest.n_trees)
    listing = list_region(problem, FOREVER)
    assert listing is not None
    cells = len(listing.states) * len(problem.questions)
    monkeypatch.setattr(enumeration, "_MOST_CELLS", cells)
    assert list_region(problem, FOREVER) is not None
    monkeypatch.setattr(enumeration, "_MOST_CELLS", cells - 1)
    assert list_region(problem, FOREVER) is None
