"""Certificates with indifference: claims, forgeries, and a serving margin that holds only where it was proved."""

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from pine_boost import CertificateMismatch, GuardedModel, InvalidInputError, load_scorer, prune_booster, verify
from pine_boost.certificate import verification
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claims import serving_of, share_of, sureness_of
from pine_boost.certificate.consistency import require_serving
from pine_boost.certificate.tree_matching import match_trees, require_decisive
from pine_boost.cli.verify import _CODES
from pine_boost.model.digits import rounded_up
from pine_boost.model.routing import route
from pine_boost.model.states import build_space
from pine_boost.native.predict import predict_classes, predict_probabilities
from pine_boost.parsers import read_model
from pine_boost.proof.problem import build_problem
from pine_boost.region.fitting import fit_region
from pine_boost.region.margins import float_margins
from pine_boost.region.region import Region
from pine_boost.region.region_ladder import RegionLadder
from pine_boost.report.prune_report import render_report
from pine_boost.scoring.guards import verify_guarded
from pine_boost.sweeping import sweep
from tests.support.grids import edge_rows
from tests.support.verifying import fitted, reworded

KINDS = ("xgboost", "xgboost-3", "lightgbm", "histogram")


@pytest.fixture(scope="module", params=KINDS)
def case(request):
    model, X = fitted(request.param)
    n = len(X) // 2
    return model, X, prune_booster(model, X[:n], X[n:], alpha=0.25, indifference="auto")


def drawn(n_trees=12, depth=3, **options):
    """A model, its rows, the result with training rows as X_fit and undecided inputs left out, its serving margin."""
    from xgboost import XGBClassifier

    random = np.random.default_rng(1)
    X = random.normal(size=(500, 4)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + random.normal(0, 0.7, 500) > 0
    model = XGBClassifier(n_estimators=n_trees, max_depth=depth, n_jobs=1).fit(X[:250], y[:250].astype(int))
    result = prune_booster(model, X[:250], X[250:], **{"alpha": 0.6, "indifference": 0.1, **options})
    assert result.certificate.serving is not None
    return model, X, result, result.certificate.serving


@pytest.fixture(scope="module")
def booster():
    model, X, result, _ = drawn(14, 2, alpha=0.2, indifference="auto")
    assert result.region.nesting is not None
    assert result.region.delta is not None
    return model, X, result


def test_native_classes_on_edges(case):
    """Thresholds, one ulp beside them, NaN, zeros: inside the region the class is kept."""
    model, X, result = case
    assert result.status == "CERTIFIED"
    rows = edge_rows(result.original.forest, X, limit=60)
    if not result.original.forest.accepts_missing:
        rows = np.nan_to_num(rows)
    rows = np.vstack([rows, X])
    same = predict_classes(result.original, rows) == predict_classes(result.pruned, rows)
    inside = result.region.contains(rows, model=model)
    assert same[inside].all()
    serving = result.certificate.serving
    if serving is not None:
        seen = result.region.contains(rows, model=result.model, serving=serving)
        assert same[seen].all()
        guarded = GuardedModel(result)
        before = predict_classes(result.original, rows)
        assert (np.searchsorted(guarded.classes_, guarded.predict(rows)) == before).all()


def test_verify_computes_it_anew_from_the_tables(case):
    model, X, result = case
    n = len(X) // 2
    assert Certificate.from_json(result.certificate.to_json()) == result.certificate
    assert Region.from_json(result.region.to_json()) == result.region
    verdict = verify(model, result.model, result.region, result.certificate, X_fit=X[:n], X_cal=X[n:])
    assert verdict.agrees
    assert "Region and tau were computed again" in verdict.summary()
    if result.region.nesting is not None:
        with pytest.raises(CertificateMismatch):
            verify(model, result.model, result.region, result.certificate, X_fit=X[n : 2 * n], X_cal=X[:n])


def test_a_changed_ladder_or_step_is_noticed(booster):
    model, X, result = booster
    document = result.region.to_json()
    higher = {**document["nesting"], "delta": [d * 0.9 for d in document["nesting"]["delta"]]}
    smaller = {**document, "nesting": higher}
    for edit in (
        smaller,
        {**document, "delta": document["delta"] * 1.1},
        {**document, "tau": document["tau"] - 1},
        {**document, "indifference": 0.01},
    ):
        region = Region.from_json(edit)
        fields = {
            "region_fingerprint": region.fingerprint(),
            "delta": region.delta,
            "tau": region.tau,
            "indifference": region.indifference,
            "sureness": sureness_of(result.original.forest, region.delta),
        }
        with pytest.raises(CertificateMismatch, match=r"follow|indifference"):
            verify(model, result.model, region, reworded(result.certificate, **fields))
    # a ladder that fits its steps is noticed with the tables only
    levels = result.region.with_alpha(result.region.alpha)
    ladder = replace(levels.nesting, share=0.33)
    region = replace(levels, nesting=ladder).with_alpha(levels.alpha)
    fields = {"region_fingerprint": region.fingerprint(), "indifference": region.indifference, "boundary_share": 0.33}
    certificate = reworded(result.certificate, **fields)
    assert verify(model, result.model, region, certificate).agrees
    with pytest.raises(CertificateMismatch, match="'nesting' of the region is not what X_fit gives"):
        verify(model, result.model, region, certificate, X_fit=X[:250], X_cal=X[250:])


def test_a_ladder_whose_share_of_alpha_vanishes_is_refused():
    """The product of a denormal share and alpha is 0.0: no share, but still a ladder of distances."""
    model, X = fitted("lightgbm")
    n = len(X) // 2
    result = prune_booster(model, X[:n], X[n:], alpha=0.25)
    first = result.region.calibration[:1] - 1
    ladder = RegionLadder(5e-324, first, np.zeros(1))
    forged = replace(result.region, nesting=ladder, calibration=result.region.calibration - first).with_alpha(0.25)
    region = Region.from_json(forged.to_json())
    assert (region.tau, region.delta, region.indifference) == (result.region.tau, None, 0.0)
    certificate = reworded(result.certificate, region_fingerprint=region.fingerprint(), boundary_share=5e-324)
    with pytest.raises(CertificateMismatch, match="'nesting' of the region is not what X_fit gives"):
        verify(model, result.model, region, certificate, X_fit=X[:n], X_cal=X[n:])


def test_forged_fields_are_noticed(booster):
    model, X, result = booster
    serving = result.certificate.serving
    grid = result.certificate.grid
    nearer = replace(serving, units=1, distance=math.ldexp(2, -grid))
    edits = {
        "sureness": {"sureness": "gives its class a probability of at least 0.51"},
        "boundary_share": {"boundary_share": 0.0},
        "pruned_digest of the serving margin": {"serving": replace(serving, pruned_digest="0" * 64)},
        "distance of the serving margin": {"serving": replace(serving, distance=serving.distance / 2)},
        "a claim needs two": {"serving": replace(serving, proofs=serving.proofs[:1])},
        "input breaks it": {"serving": nearer},
    }
    for words, fields in edits.items():
        with pytest.raises(CertificateMismatch, match=words):
            verify(model, result.model, result.region, reworded(result.certificate, **fields))
    more = reworded(result.certificate, serving=replace(serving, n_inside=serving.n_cal))
    assert verify(model, result.model, result.region, more).agrees
    assert any("pass the serving margin" in listed for listed in more.rests_on)
    with pytest.raises(CertificateMismatch, match="calibration rows are said to pass"):
        verify(model, result.model, result.region, more, X_fit=X[:250], X_cal=X[250:])


def test_no_probability_is_named_where_the_library_rounds_it_to_one(booster):
    """At 20 away from the decision a sentence about "1 : 0 sure" would be about 17 as well."""
    import xgboost

    model, X, result = booster
    native, forest = model.get_booster(), result.original.forest
    margin = native.predict(xgboost.DMatrix(X), output_margin=True)
    moved = xgboost.DMatrix(X, base_margin=(17 - margin).astype(np.float32))
    nearer = native.predict(moved, output_margin=True) < 20
    assert (native.predict(moved)[nearer] == 1.0).any()
    assert sureness_of(forest, 20.0) == ""
    for delta in (0.5, 9.0, 13.0):
        assert 1 / (1 + math.exp(-delta)) < _stated(sureness_of(forest, delta)) <= 1.0


def _stated(sureness):
    """The number in words like "gives its class a probability of at least 0.7311"."""
    return float(re.findall(r"at least ([0-9.]+)", sureness)[0])


@pytest.mark.parametrize("kind", ["gradient", "gradient-3", "histogram", "forest", "forest-3", "lightgbm-3", "xgboost"])
def test_the_words_are_about_no_input_outside_the_region(kind):
    """Wherever native probabilities are as sure as the words say, the margin is at least delta."""
    native, X = fitted(kind)
    model = read_model(native)
    forest, rows = model.forest, edge_rows(model.forest, X, limit=300)
    if not forest.accepts_missing:
        rows = np.nan_to_num(rows)
    rows = np.vstack([rows, X])
    space = build_space(forest)
    away = forest.decision.distance(float_margins(forest, route(forest, space), space.states(rows)))
    probabilities = native.predict_proba(rows)
    first, second = -np.sort(-probabilities, axis=1)[:, :2].T
    checked = 0
    for delta in np.quantile(away, [0.02, 0.2, 0.5, 0.8]):
        words = sureness_of(forest, float(delta))
        if delta <= 0 or not words:
            continue
        if "more probability than any other" in words:
            sure = first - second >= _stated(words)
        elif "odds" in words:
            sure = first / (first + second) >= _stated(words)
        else:
            sure = first >= _stated(words)
        assert (away[sure] >= delta).all()
        assert (~sure).any()
        checked += 1
    assert checked >= 2


def test_the_claim_is_no_stronger_than_what_was_proved(booster):
    """Wherever the original is as sure as the claim says, the input is delta away; just below not.

    A smaller probability in the sentence would speak of inputs outside the region.
    """
    _, X, result = booster
    c = result.certificate
    assert c.sureness in c.claim
    stated = _stated(c.sureness)
    rows = edge_rows(result.original.forest, X, limit=400)
    sure = predict_probabilities(result.original, rows).max(axis=1)
    away = result.region._distance(rows, result.original.forest, None)
    assert (away[sure >= stated] >= c.delta).all()
    assert 1 / (1 + math.exp(-c.delta)) > stated - 2e-4
    assert (sure >= stated).any()
    assert (sure < stated).any()
    # a pruned model that errs on undecided inputs: the sentence without the condition would be false
    before, after = (predict_classes(m, rows) for m in (result.original, result.pruned))
    plausible = result.region.tables.contains(result.region.space.states(rows))
    assert (before != after)[plausible & (away < c.delta)].any()


def test_the_serving_sentence_counts_what_it_says(booster):
    model, X, result = booster
    serving = result.certificate.serving
    seen = result.region.contains(X[250:], model=result.model, serving=serving)
    assert (serving.n_cal, serving.n_inside) == (250, int(seen.sum()))
    text = serving_of(result.certificate)
    assert f"{serving.n_inside} of the 250 calibration rows" in text
    assert "tau was calibrated on these very rows" in text
    assert text in result.summary()
    assert result.serving_margin == serving.distance
    forest = result.pruned.forest
    space = result.region.space
    own = build_space(forest)
    margins = float_margins(forest, route(forest, own), own.states(X[250:].astype(np.float64)))
    sure = forest.decision.distance(margins) >= serving.distance
    assert (seen == (sure & result.region.tables.contains(space.states(X[250:])))).all()
    for wrong in (model, None):
        with pytest.raises(InvalidInputError, match="pruned"):
            result.region.contains(X, model=wrong, serving=serving)


def test_the_choice_is_reported_and_repeats(booster):
    model, X, result = booster
    again = prune_booster(model, X[:250], X[250:], alpha=0.2, indifference="auto")
    assert again.certificate == replace(
        result.certificate, timings=again.certificate.timings, date=again.certificate.date
    )
    assert "chosen from X_fit alone" in result.certificate.choice
    assert any("chosen without X_cal" in listed for listed in result.certificate.rests_on)
    other = prune_booster(model, X[:250], X[250:400], alpha=0.2, indifference="auto")
    assert other.certificate.choice == result.certificate.choice


def test_a_share_of_the_users_own_that_buys_next_to_nothing_is_said_to(booster):
    model, X, _ = booster
    result = prune_booster(model, X[:250], X[250:], alpha=0.3, indifference=0.02)
    c = result.certificate
    assert (c.choice, share_of(c)) == ("", "")  # 2% or more of the trees were removed
    assert c.delta is not None
    assert c.grid >= 0
    sentence = (
        "With an indifference of 0.02, 1 of 100 rounds could be removed: less than 2%, which is not worth leaving out "
        "inputs near the decision boundary. The original is the better choice."
    )
    little = replace(result, certificate=replace(c, units_before=100, units_kept=99))
    assert sentence in little.summary().splitlines()
    assert sentence in render_report(little)
    for enough in ({"units_kept": 98}, {"delta": None}):  # or nothing was left out for it
        assert share_of(replace(little.certificate, **enough)) == ""


def test_sweeps_and_everything(booster):
    model, X, _ = booster
    swept = sweep(model, X[:250], X[250:], alphas=[0, 0.1, 0.3], indifference="auto", time_limit=20)
    deltas = [r.region.delta or 0.0 for r in swept]
    assert deltas == sorted(deltas)
    assert deltas[0] == 0
    for one in swept:
        assert one.status in ("CERTIFIED", "NOT_CERTIFIED")
        if one.status == "CERTIFIED":
            assert verify(model, one.model, one.region, one.certificate).agrees
    whole = prune_booster(model, X[:250], alpha=0, indifference="auto", time_limit=5)
    assert whole.region.tau is None
    assert whole.certificate.choice == ""


def test_every_alpha_of_a_sweep_has_a_margin_that_serving_can_see(booster):
    model, X, _ = booster
    swept = sweep(model, X[:250], X[250:], alphas=[0.2, 0.4], indifference=0.05)
    for one in swept:
        alone = prune_booster(model, X[:250], X[250:], alpha=one.certificate.alpha, indifference=0.05)
        assert (one.certificate.serving is None) == (alone.certificate.serving is None)
        assert verify(model, one.model, one.region, one.certificate).agrees
    assert any(one.certificate.serving is not None for one in swept)


def test_distances_are_never_rounded_down():
    for distance in (0.1242194, 1.0, 123456.7, 3.3e-7, 0.99999999):
        assert distance <= float(rounded_up(distance)) <= distance * 1.00001
    assert rounded_up(0) == "0"


@pytest.fixture(scope="module")
def served():
    return drawn()


@pytest.fixture(scope="module")
def rows(served):
    drawn_rows = np.random.default_rng(2).normal(0, 1.3, size=(4000, 4)).astype(np.float32)
    return np.vstack([edge_rows(served[2].original.forest, served[1], limit=400), drawn_rows])


def test_a_region_that_reaches_further_is_refused(served, rows):
    """Its own region and smaller ones have no wrong class; a larger one has, and is refused."""
    _, _, result, serving = served
    wrong = predict_classes(result.original, rows) != predict_classes(result.pruned, rows)
    is_sure = serving.is_sure(result.pruned.forest, result.region.space, result.region.states(rows))
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


def test_a_recalibrated_region_is_of_the_same_tables(served):
    _, _, result, _ = served
    region = result.region
    assert region.with_alpha(0.7).tables_digest == region.tables_digest
    assert Region.from_json(region.to_json()).tables_digest == region.tables_digest
    recalibrated = replace(region, calibration=region.calibration[::2])
    assert recalibrated.tables_digest == region.tables_digest


def test_another_region_is_refused(served):
    """Fitted on other rows, of another original, or over another domain."""
    _, X, result, serving = served
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


def test_margins_do_not_go_with_it(served):
    model, X, result, serving = served
    margins = model.predict(X, output_margin=True)
    with pytest.raises(InvalidInputError, match="no margins"):
        result.region.contains(X, model=result.pruned, margins=margins, serving=serving)


def test_each_alpha_of_a_sweep_has_its_own(served):
    """One model may serve several alphas: then only the region tells the margins apart."""
    model, X, _, _ = served
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


def test_files_that_name_another_region_are_refused(served, tmp_path):
    model, _, result, serving = served
    for edit in ({"tau": serving.tau + 1}, {"tau": None}, {"region_digest": "0" * 64}):
        forged = replace(result.certificate, serving=replace(serving, **edit))
        with pytest.raises(CertificateMismatch, match=f"{next(iter(edit))} of the serving margin is"):
            verify(model, result.model, result.region, forged)
    beyond = replace(result.certificate, serving=replace(serving, tau=serving.tau + 1))
    GuardedModel(replace(result, certificate=beyond)).save(tmp_path / "guarded")
    for read in (verify_guarded, lambda folder: load_scorer(folder, backend="native")):
        with pytest.raises(CertificateMismatch, match="serving margin"):
            read(tmp_path / "guarded")
    assert Certificate.from_json(result.certificate.to_json()).serving == serving


def test_a_record_without_its_region_is_refused(served):
    text = served[2].certificate.to_json()
    for name in ("region_digest", "tau"):
        document = json.loads(text)
        del document["serving"][name]
        with pytest.raises(CertificateMismatch, match=rf"'serving' are missing: .'{name}'"):
            Certificate.from_json(json.dumps(document))


def test_other_thresholds_are_refused():
    """The digest of a model does not know at which thresholds it was read."""
    _, X, result, serving = drawn(threshold=0.4)
    assert result.region.contains(X, model=result.model, serving=serving).any()
    with pytest.raises(InvalidInputError, match="threshold"):
        result.region.contains(X, model=read_model(result.model), serving=serving)


def test_a_file_beside_its_grid_leaves_no_room():
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


def test_what_was_not_proved_again_is_no_agreement(served, monkeypatch):
    """`agrees`, the first line and the exit code say the same."""
    model, _, result, _ = served
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
    plain = verify(*parts[:3], reworded(result.certificate, serving=None))
    assert plain.agrees is True
    assert plain.serving_proved is None
    assert "serving" not in plain.summary()
