"""Models whose leaf values were chosen anew: native to the last bit, proved from files alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pine_boost import prune_booster, sweep
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claims import bound_of
from pine_boost.errors import CertificateMismatch, InvalidInputError, UnsupportedModelError
from pine_boost.result import PruneResult
from pine_boost.verifying import verify
from tests.support.leaf_results import KINDS, check_native, leaves_from_the_original, prune_and_verify_by_command
from tests.support.verifying import fitted

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")
pytest.importorskip("sklearn")


def _from_the_original(kind: str, unit: str = "round") -> tuple[Any, np.ndarray, PruneResult]:
    native, X = fitted(kind)
    return native, X, leaves_from_the_original(native, X, unit)


@pytest.mark.parametrize(("kind", "unit"), [*((kind, "round") for kind in KINDS), ("xgboost-3", "tree")])
def test_native_exactly_and_proved_anew(kind: str, unit: str) -> None:
    native, X, result = _from_the_original(kind, unit)
    certificate = result.certificate
    assert certificate.reweight == "leaf"
    assert certificate.units_kept < certificate.units_before
    assert certificate.optimal == (certificate.units_kept == certificate.lower_bound)
    assert set(certificate.weights) == {1.0}
    check_native(native, X, result)


def test_verify_from_files_notices_every_edit(tmp_path: Path) -> None:
    native, _, result = _from_the_original("xgboost")
    native.save_model(tmp_path / "original.json")
    result.save(tmp_path / "pruned")
    folder = tmp_path / "pruned"
    files = [tmp_path / "original.json", *(folder / n for n in ("model.json", "region.json"))]
    assert verify(*files, folder / "certificate.json").agrees is True
    certificate = Certificate.load(folder / "certificate.json")
    assert certificate == result.certificate
    halved = replace(certificate, weights=(0.5, *certificate.weights[1:]))
    with pytest.raises(CertificateMismatch, match="new leaf values"):
        verify(*files, halved)
    with pytest.raises(CertificateMismatch, match="not the ratio"):
        verify(*files, replace(certificate, reweight="tree"))
    with pytest.raises(CertificateMismatch, match=r"without a proof|do not prove"):
        verify(*files, replace(certificate, lower_bound=certificate.units_kept + 1))
    document = json.loads((folder / "certificate.json").read_text())
    for odd in ({**document, "reweight": "branch"}, {**document, "format_version": 3}):
        (folder / "odd.json").write_text(json.dumps(odd))
        with pytest.raises(CertificateMismatch):
            Certificate.load(folder / "odd.json")
    assert "with new leaf values" in bound_of(certificate)
    words = "provably the fewest with new leaf values"
    assert (words in result.summary()) == certificate.optimal
    assert ("provably the fewest" in result.summary()) == certificate.optimal


def test_probabilities_are_nearer_than_those_of_the_bare_program(monkeypatch: pytest.MonkeyPatch) -> None:
    nearer = _from_the_original("xgboost")[2].certificate
    monkeypatch.setattr("pine_boost.search.polish_probabilities._MOST_ASKED", 0)
    bare = _from_the_original("xgboost")[2].certificate
    assert nearer.kept == bare.kept
    assert nearer.probability_shift["brier"] < bare.probability_shift["brier"]


def test_prune_sweep_and_the_command_line_take_it(tmp_path: Path) -> None:
    native, X = fitted("gradient")
    n = len(X) // 2
    options: dict[str, Any] = {"reweight": "leaf", "verbose": False}
    one = prune_booster(native, X[:n], X[n:], alpha=0.2, **options)
    tree = prune_booster(native, X[:n], X[n:], alpha=0.2, verbose=False)
    assert one.certificate.units_kept <= tree.certificate.units_kept
    swept = sweep(native, X[:n], X[n:], alphas=[0.05, 0.2, 0.5], **options)
    kept = [result.certificate.units_kept for result in swept]
    assert kept == sorted(kept, reverse=True)
    for result in swept:
        assert result.status == "CERTIFIED"
        assert verify(native, result.model, result.region, result.certificate).agrees is True
    prune_and_verify_by_command(tmp_path, *fitted("xgboost"), "--reweight", "leaf")


@pytest.mark.parametrize("kind", ["forest", "forest-3", "extra-trees", "adaboost", "adaboost-3"])
def test_votes_and_shares_are_refused(kind: str) -> None:
    native, X = fitted(kind)
    n = len(X) // 2
    with pytest.raises(UnsupportedModelError, match="Use reweight='tree'"):
        prune_booster(native, X[:n], X[n:], reweight="leaf")
    with pytest.raises(UnsupportedModelError, match="unit='round' or 'tree'"):
        prune_booster(native, X[:n], X[n:], unit="leaf")


def test_an_unknown_word_is_refused() -> None:
    native, X = fitted("gradient")
    with pytest.raises(InvalidInputError, match="reweight must be 'tree' or 'leaf', got 'branch'"):
        prune_booster(native, X, reweight="branch")
