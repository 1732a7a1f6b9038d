"""verify: agrees with what was proved, finds what was planted, says what it covered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pine_boost.build_result import build_prune_result
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claims import claim_of, kept_reason, rests_on
from pine_boost.cli import main
from pine_boost.errors import CertificateMismatch, InvalidInputError, MalformedModelError
from pine_boost.exporters import export
from pine_boost.model.digest import forest_digest
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import build_space
from pine_boost.native.predict import predict_classes
from pine_boost.parsers import read_model
from pine_boost.proof.boxes import branch_and_bound
from pine_boost.proof.problem import build_problem
from pine_boost.proof.question import Answer
from pine_boost.region.fitting import fit_region
from pine_boost.result import PruneResult
from pine_boost.verifying import verify
from tests.support.verifying import MAKERS, breast_or_iris, pruned_model


@pytest.fixture(scope="module")
def booster() -> tuple[Any, PruneResult]:
    model, result = pruned_model("xgboost")
    assert result.certificate.grid >= 0  # something was removed
    return model, result


@pytest.mark.parametrize("kind", [k for k in MAKERS if "forest" not in k and k != "extra-trees"])
def test_a_pruned_model_is_proved_twice(kind: str) -> None:
    model, result = pruned_model(kind)
    found = verify(model, result.model, result.region, result.certificate)
    assert found.agrees is True
    assert found.proved_twice
    assert found.covered == 1.0
    assert found.counterexample is None
    assert "AGREES" in found.summary()
    methods = {proof.method for proof in found.proofs}
    assert result.certificate.grid < 0 or len(methods) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"score": "leaf-support"},
        {"threshold": 0.3},
        {"threshold": (0.2, 0.8)},
        {"indifference": 0.0},
        {"alpha": 0.0, "indifference": 0.0},
    ],
    ids=["leaf-support", "threshold", "bands", "decided", "faithful"],
)
def test_every_kind_of_region_is_verified(options: dict[str, Any]) -> None:
    model, result = pruned_model("xgboost", **options)
    found = verify(model, result.model, result.region, result.certificate)
    assert found.agrees is True
    assert found.proved_twice


def test_a_faithful_model_is_verified_over_an_isolation_forest() -> None:
    """Its hundreds of extra edges are part of the region's space, not of the model's."""
    model, result = pruned_model("xgboost", alpha=0.0, indifference=0.0)
    assert result.certificate.grid >= 0
    forest = result.original.forest
    X, _ = breast_or_iris(2)
    n = len(X) // 2
    region = fit_region(forest, X[:20], X[n:], alpha=0.2, score="isolation-forest")
    assert region.space.n_states.sum() > 2 * build_space(forest).n_states.sum()
    problem = build_problem(forest, region.space, region.tables)
    # the points of the bound are those of another region, over other states
    search = replace(result.search, bound=None, lower_bound=1)
    moved = build_prune_result(result.original, region, problem, search, objective="l0", unit="round").certificate
    found = verify(model, result.model, region, moved)
    assert found.agrees is True
    assert found.proved_twice


def test_files_alone_are_enough(booster: tuple[Any, PruneResult], tmp_path: Path) -> None:
    model, result = booster
    model.get_booster().save_model(tmp_path / "original.json")
    result.model.get_booster().save_model(tmp_path / "pruned.ubj")
    result.region.save(tmp_path / "region.json")
    (tmp_path / "certificate.json").write_text(result.certificate.to_json())
    found = verify(
        tmp_path / "original.json",
        tmp_path / "pruned.ubj",
        tmp_path / "region.json",
        str(tmp_path / "certificate.json"),
    )
    assert found.agrees is True


def test_a_certificate_records_that_it_was_proved_twice(booster: tuple[Any, PruneResult]) -> None:
    model, result = booster
    parts = (model, result.model, result.region)
    found = verify(*parts, result.certificate)
    recorded = found.record(result.certificate)
    added = recorded.proofs[len(result.certificate.proofs) :]
    assert {proof.method for proof in added} >= {"cp-sat-verify"}
    for question in {proof.question for proof in recorded.proofs}:
        methods = {proof.method for proof in recorded.proofs if proof.question == question}
        assert {"boxes", "cp-sat-verify"} <= methods
    assert verify(*parts, Certificate.from_json(recorded.to_json())).agrees is True
    assert found.record(recorded) == recorded
    unsettled = verify(*parts, result.certificate, time_limit=1e-6)
    assert unsettled.record(result.certificate) == result.certificate


def test_the_command_line_records_into_the_file(booster: tuple[Any, PruneResult], tmp_path: Path) -> None:
    model, result = booster
    model.get_booster().save_model(tmp_path / "original.json")
    folder = result.save(tmp_path / "out")
    arguments = ["verify", str(tmp_path / "original.json"), str(folder)]
    before = (folder / "certificate.json").read_bytes()
    assert main(arguments) == 0
    assert (folder / "certificate.json").read_bytes() == before
    assert main([*arguments, "--record"]) == 0
    recorded = Certificate.load(folder / "certificate.json")
    assert "cp-sat-verify" in {proof.method for proof in recorded.proofs}
    assert main(arguments) == 0


NO_BAND: dict[str, Any] = {"undecided": 0.0, "native_band": 0.0, "undecided_exists": None}


def _worded(certificate: Certificate) -> Certificate:
    """The certificate with the sentences that belong to its numbers."""
    made = replace(certificate, reason=kept_reason(certificate))
    return replace(made, claim=claim_of(made), rests_on=rests_on(made))


def test_the_original_kept_is_nothing_to_prove(booster: tuple[Any, PruneResult]) -> None:
    model, result = booster
    found = result.certificate
    kept = tuple(range(found.trees_before))
    certificate = replace(
        found,
        pruned_digest=found.original_digest,
        grid=-1,
        kept=kept,
        trees_after=len(kept),
        leaves_after=found.leaves_before,
        units_kept=found.units_before,
        proofs=(),
        weights=(1.0,) * len(kept),
        optimal=False,
        **NO_BAND,
    )
    assert found.serving is not None
    certificate = _worded(certificate)
    with pytest.raises(CertificateMismatch, match="serving margin that nothing needs"):
        verify(model, model, result.region, certificate)
    certificate = _worded(replace(certificate, serving=None))
    assert verify(model, model, result.region, certificate).agrees is True
    for edit in (
        {"kept": kept[1:], "trees_after": len(kept) - 1},
        {"weights": (2.0,) * len(kept)},
        {"leaves_after": 1},
        {"units_kept": 1},
        {"grid": -2},
        {"undecided": 1e-6},
        {"undecided_exists": False},
        {"reason": "It could not be any smaller."},
    ):
        with pytest.raises(CertificateMismatch):
            verify(model, model, result.region, replace(certificate, **edit))
    forged = _worded(replace(result.certificate, grid=-1, **NO_BAND))
    with pytest.raises(CertificateMismatch, match="original was kept, but the two models differ"):
        verify(model, result.model, result.region, forged)


def _planted(result: PruneResult, seed: int) -> tuple[Any, Certificate]:
    """One tree of the pruned model turned around, and a certificate forged to match."""
    rng = np.random.default_rng(seed)
    pruned = result.search.pruned
    assert pruned is not None
    forest = pruned.forest
    number = int(rng.integers(len(pruned.kept)))
    own = (forest.node_tree == pruned.kept[number]) & (forest.kind == SplitKind.LEAF)
    factor = int(rng.choice([-3, -2, 4]))
    value = pruned.value_int.copy()
    value[own] *= factor
    native = export(result.original, replace(pruned, value_int=value))
    digest = forest_digest(read_model(native).forest)
    weights = list(result.certificate.weights)
    weights[number] *= factor
    certificate = replace(result.certificate, serving=None)  # its margin is of the true model
    certificate = replace(certificate, rests_on=rests_on(certificate))
    return native, replace(certificate, pruned_digest=digest, weights=tuple(weights))


def test_a_forged_certificate_is_refuted_natively(booster: tuple[Any, PruneResult]) -> None:
    model, result = booster
    n_refuted = 0
    for seed in range(8):
        native, certificate = _planted(result, seed)
        found = verify(model, native, result.region, certificate)
        if found.agrees is not False:
            continue
        n_refuted += 1
        point = found.counterexample
        assert point is not None
        assert point.native
        row = point.row[None]
        assert result.region.contains(row, model=result.original)[0]
        assert int(model.predict(row)[0]) == point.original_class
        assert int(native.predict(row)[0]) == point.pruned_class != point.original_class
        assert "DISAGREES" in str(found)
    assert n_refuted >= 3


def test_both_methods_refute(booster: tuple[Any, PruneResult]) -> None:
    model, result = booster
    for seed in range(6):
        native, certificate = _planted(result, seed)
        found = verify(model, native, result.region, certificate)
        by_question: dict[str, set[Answer]] = {}
        for proof in found.proofs:
            by_question.setdefault(proof.question.name, set()).add(proof.answer)
        assert all(len(answers) == 1 for answers in by_question.values())


def test_a_budget_that_runs_out_settles_nothing(booster: tuple[Any, PruneResult]) -> None:
    model, result = booster
    found = verify(model, result.model, result.region, result.certificate, time_limit=1e-6)
    assert found.agrees is None
    assert not found.proved_twice
    assert found.counterexample is None
    assert found.covered == 0.0
    assert "NOT SETTLED" in found.summary()
    assert all(proof.answer is Answer.UNKNOWN for proof in found.proofs)


def test_more_jobs_give_the_same_answers(booster: tuple[Any, PruneResult], monkeypatch: pytest.MonkeyPatch) -> None:
    model, result = booster
    alone = verify(model, result.model, result.region, result.certificate)
    monkeypatch.setattr(branch_and_bound, "_ALONE", 1)
    both = verify(model, result.model, result.region, result.certificate, n_jobs=2)
    assert [p.answer for p in alone.proofs] == [p.answer for p in both.proofs]
    native, certificate = _planted(result, 0)
    alone = verify(model, native, result.region, certificate)
    both = verify(model, native, result.region, certificate, n_jobs=2)
    assert [p.answer for p in alone.proofs] == [p.answer for p in both.proofs]


@pytest.mark.parametrize("options", [{"time_limit": 0}, {"time_limit": -1.0}, {"n_jobs": 0}])
def test_options_that_mean_nothing_are_refused(booster: tuple[Any, PruneResult], options: dict[str, Any]) -> None:
    model, result = booster
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        verify(model, result.model, result.region, result.certificate, **options)


def test_damaged_files_are_refused(booster: tuple[Any, PruneResult], tmp_path: Path) -> None:
    model, result = booster
    (tmp_path / "certificate.json").write_text("{}")
    (tmp_path / "region.json").write_text("[1, 2")
    with pytest.raises(CertificateMismatch, match="'format' is null"):
        verify(model, result.model, result.region, tmp_path / "certificate.json")
    with pytest.raises(MalformedModelError):
        verify(model, result.model, tmp_path / "region.json", result.certificate)


def test_native_classes_agree_on_rows_of_the_region(booster: tuple[Any, PruneResult]) -> None:
    _, result = booster
    X, _ = breast_or_iris(2)
    inside = result.region.contains(X, model=result.original)
    assert inside.mean() > 0.5
    before, after = (predict_classes(m, X[inside]) for m in (result.original, result.pruned))
    assert np.array_equal(before, after)
