"""A serving margin holds where it was proved: that model, that region, that grid; nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pine_boost import CertificateMismatch, GuardedModel, InvalidInputError, load_guarded, prune_booster, verify
from pine_boost.certificate import verification
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claims import rests_on
from pine_boost.certificate.serving import require_serving
from pine_boost.certificate.tree_matching import match_trees, require_decisive
from pine_boost.cli.verify import _CODES
from pine_boost.native.predict import predict_classes
from pine_boost.parsers import read_model
from pine_boost.proof.problem import build_problem
from pine_boost.region.fitting import fit_region
from pine_boost.region.margins import ServingMargin
from pine_boost.region.region import Region
from pine_boost.result import PruneResult
from pine_boost.sweeping import sweep
from tests.support.grids import edge_rows

Case = tuple[Any, np.ndarray, PruneResult, ServingMargin]


def drawn(**options: Any) -> Case:
    from xgboost import XGBClassifier

    random = np.random.default_rng(1)
    X = random.normal(size=(500, 4)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + random.normal(0, 0.7, 500) > 0
    model = XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1).fit(X[:250], y[:250].astype(int))
    result = prune_booster(model, X[:250], X[250:], alpha=0.6, indifference=0.1, **options)
    assert result.certificate.serving is not None
    return model, X, result, result.certificate.serving


def without_margin(certificate: Certificate) -> Certificate:
    made = replace(certificate, serving=None)
    return replace(made, rests_on=rests_on(made))


@pytest.fixture(scope="module")
def case() -> Case:
    return drawn()


@pytest.fixture(scope="module")
def rows(case: Case) -> np.ndarray:
    drawn_rows = np.random.default_rng(2).normal(0, 1.3, size=(4000, 4)).astype(np.float32)
    return np.vstack([edge_rows(case[2].original.forest, case[1], limit=400), drawn_rows])


def test_a_region_that_reaches_further_is_refused(case: Case, rows: np.ndarray) -> None:
    """Its own region and smaller ones have no wrong class; a larger one has, and is refused."""
    _, _, result, serving = case
    wrong = predict_classes(result.original, rows) != predict_classes(result.pruned, rows)
    is_sure = serving.is_sure(result.pruned.forest, rows.astype(np.float64))
    for alpha in (0.6, 0.7):
        region = result.region.with_alpha(alpha)
        seen = region.contains(rows, model=result.pruned, serving=serving)
        assert (seen == (region.tables.contains(region.states(rows)) & is_sure)).all()
        assert seen.any()
        assert not wrong[seen].any()
    wider = result.region.with_alpha(0.3)
    seen = wider.tables.contains(wider.states(rows)) & is_sure
    assert np.count_nonzero(wrong & seen) >= 5  # what the answer would have been
    with pytest.raises(InvalidInputError, match="this region is larger"):
        wider.contains(rows, model=result.pruned, serving=serving)
    with pytest.raises(InvalidInputError, match="every input"):
        serving.require_region(wider.tables_digest, None)
    with pytest.raises(InvalidInputError, match="this region is larger"):
        GuardedModel(replace(result, region=wider))


def test_a_recalibrated_region_is_of_the_same_tables(case: Case) -> None:
    _, _, result, _ = case
    region = result.region
    assert region.with_alpha(0.7).tables_digest == region.tables_digest
    assert Region.from_json(region.to_json()).tables_digest == region.tables_digest
    recalibrated = replace(region, calibration=region.calibration[::2])
    assert recalibrated.tables_digest == region.tables_digest


def test_another_region_is_refused(case: Case) -> None:
    """Fitted on other rows, of another original, or over another domain."""
    _, X, result, serving = case
    region = result.region
    allowed = tuple(a & (np.arange(len(a)) > 0) for a in region.tables.allowed)
    others = [
        fit_region(result.original.forest, X[100:300], X[300:], alpha=0.9, indifference=0.1),
        replace(region, model_digest="0" * 64),
        replace(region, tables=replace(region.tables, allowed=allowed)),
    ]
    for other in others:
        with pytest.raises(InvalidInputError, match="another region"):
            other.contains(X, model=result.pruned, serving=serving)
        with pytest.raises(InvalidInputError, match="another region"):
            GuardedModel(replace(result, region=other))


def test_margins_do_not_go_with_it(case: Case) -> None:
    model, X, result, serving = case
    margins = model.predict(X, output_margin=True)
    with pytest.raises(InvalidInputError, match="no margins"):
        result.region.contains(X, model=result.pruned, margins=margins, serving=serving)


def test_each_alpha_of_a_sweep_has_its_own(case: Case) -> None:
    """One model may serve several alphas: then only the region tells the margins apart."""
    model, X, _, _ = case
    swept = sweep(model, X[:250], X[250:], alphas=[0.6, 0.62, 0.65], indifference=0.1)
    found = [one for one in swept if one.certificate.serving is not None]
    digests = [one.certificate.pruned_digest for one in found]
    assert len(set(digests)) < len(digests), "draw other alphas: no model serves two of them"
    for wide, narrow in pairwise(found):
        if wide.certificate.pruned_digest != narrow.certificate.pruned_digest:
            continue
        narrow.region.contains(X, model=narrow.pruned, serving=wide.certificate.serving)
        with pytest.raises(InvalidInputError, match="this region is larger"):
            wide.region.contains(X, model=wide.pruned, serving=narrow.certificate.serving)


def test_files_that_name_another_region_are_refused(case: Case, tmp_path: Path) -> None:
    model, _, result, serving = case
    assert serving.tau is not None
    for edit in ({"tau": serving.tau + 1}, {"tau": None}, {"region_digest": "0" * 64}):
        forged = replace(result.certificate, serving=replace(serving, **edit))
        with pytest.raises(CertificateMismatch, match="another region"):
            verify(model, result.model, result.region, forged)
    beyond = replace(result.certificate, serving=replace(serving, tau=serving.tau + 1))
    GuardedModel(replace(result, certificate=beyond)).save(tmp_path / "guarded")
    with pytest.raises(CertificateMismatch, match="serving margin"):
        load_guarded(tmp_path / "guarded")
    assert Certificate.from_json(result.certificate.to_json()).serving == serving


def test_a_record_without_its_region_is_refused(case: Case) -> None:
    text = case[2].certificate.to_json()
    for name in ("region_digest", "tau"):
        document = json.loads(text)
        del document["serving"][name]
        with pytest.raises(CertificateMismatch, match=rf"'serving' are missing: .'{name}'"):
            Certificate.from_json(json.dumps(document))


def test_other_thresholds_are_refused() -> None:
    """The digest of a model does not know at which thresholds it was read."""
    _, X, result, serving = drawn(threshold=0.4)
    assert result.region.contains(X, model=result.model, serving=serving).any()
    with pytest.raises(InvalidInputError, match="threshold"):
        result.region.contains(X, model=read_model(result.model), serving=serving)


def test_a_file_beside_its_grid_leaves_no_room() -> None:
    """Leaves that are off the grid move the margin by more than the unit that was added."""
    _, _, result, _ = drawn(threshold=0.4, reweight="tree")
    region, certificate = result.region, result.certificate
    problem = build_problem(result.original.forest, region.space, region.tables, delta=region.delta or 0.0)
    kept, grid = list(certificate.kept), certificate.grid
    smaller = result.pruned.forest
    exact = match_trees(result.original.forest, smaller, kept, grid)
    assert require_serving(problem, exact, certificate, region) == certificate.serving
    off = 0.5 / smaller.n_trees  # of a unit in every tree; float32 sums are not exact then
    beside = replace(smaller, value=smaller.value + np.ldexp(off, -grid))
    matched = match_trees(result.original.forest, beside, kept, grid)
    assert (matched.pruned.value_int == exact.pruned.value_int).all()
    assert 1 < matched.deviation * 2**grid < Fraction(3, 2)
    require_decisive(problem, beside, matched)  # enough for the claim, not for the margin
    with pytest.raises(CertificateMismatch, match="half a grid unit"):
        require_serving(problem, matched, certificate, region)


def test_what_was_not_proved_again_is_no_agreement(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """`agrees`, the first line and the exit code say the same."""
    model, _, result, _ = case
    parts = (model, result.model, result.region, result.certificate)
    whole = verify(*parts)
    assert (whole.agrees, whole.serving_proved) == (True, True)
    assert "The serving margin was proved again." in whole.summary()
    out_of_time = verify(*parts, time_limit=1e-6)
    monkeypatch.setattr(verification, "prove_serving", lambda *_: False)
    all_but_the_margin = verify(*parts)
    assert all_but_the_margin.proved_twice
    for verdict in (out_of_time, all_but_the_margin):
        assert verdict.serving_proved is False
        assert verdict.agrees is None
        assert verdict.summary().startswith("NOT SETTLED")
        assert "NOT SETTLED" in repr(verdict)
        assert "The serving margin was not proved again" in verdict.summary()
        assert _CODES[verdict.agrees] == 2
    plain = verify(*parts[:3], without_margin(result.certificate))
    assert plain.agrees is True
    assert plain.serving_proved is None
    assert "serving" not in plain.summary()
