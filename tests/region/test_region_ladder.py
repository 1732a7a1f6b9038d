"""Ladders of regions: tau and delta calibrated together, from one level that is exact."""

import numpy as np
import pytest

from pine_boost.errors import MalformedModelError
from pine_boost.options import Options
from pine_boost.parsers import read_model
from pine_boost.region.conformal import calibrate
from pine_boost.region.fitting import fit_region, fit_with_states
from pine_boost.region.region import Region
from pine_boost.region.region_ladder import FitEvidence, RegionLadder, build_ladder

SHARES = (0.25, 0.5, 0.9)


def evidence(random, n_rows, *, ties):
    scores = random.gamma(2, 300, n_rows).astype(np.int64)
    distances = np.abs(random.normal(0, 2, n_rows))
    if ties:
        scores, distances = scores // 400, np.round(distances)
    return FitEvidence(np.sort(scores), np.sort(distances), np.sort(0.7 * distances))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("share", SHARES)
def test_level_is_the_first_step_whose_region_holds_the_input(share, ties):
    random = np.random.default_rng(3)
    ladder = build_ladder(evidence(random, 80, ties=ties), share)
    assert np.all(np.diff(ladder.tau) >= 0)
    assert np.all(np.diff(ladder.delta) <= 0)
    assert ladder.delta[-1] == 0
    scores = np.concatenate([random.integers(0, 9000, 200), ladder.tau, ladder.tau + 1])
    distances = random.permutation(
        np.concatenate([ladder.delta, np.nextafter(ladder.delta, 1), np.zeros(200)])[: len(scores)]
    )
    levels = ladder.levels(scores[: len(distances)], distances)
    for score, distance, level in zip(scores.tolist(), distances.tolist(), levels, strict=False):

        def is_inside(step, score=score, distance=distance):
            tau, delta = ladder.limits(step)
            return score <= tau and (delta is None or distance >= delta)

        assert is_inside(int(level))
        assert level == 0 or not is_inside(int(level) - 1)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("share", SHARES)
def test_coverage_over_many_draws(share, ties):
    """The mean coverage reaches 1 - alpha although X_cal is far less sure than X_fit."""
    random = np.random.default_rng(5)
    ladder = build_ladder(evidence(random, 60, ties=ties), share)
    alpha, n_cal, n_draws = 0.2, 24, 4000
    covered = 0
    for _ in range(n_draws):
        scores = random.gamma(2, 500, n_cal + 1).astype(np.int64)
        distances = np.abs(random.normal(0, 0.5, n_cal + 1))
        if ties:
            scores, distances = scores // 400, np.round(2 * distances) / 2
        levels = ladder.levels(scores, distances)
        level = calibrate(levels[:-1], alpha)
        covered += int(levels[-1] <= level)
    slack = 4 * np.sqrt(0.16 / n_draws)
    assert covered / n_draws >= 1 - alpha - slack
    if not ties:  # and gives away no more than one row in 25
        assert covered / n_draws <= 1 - alpha + 1 / (n_cal + 1) + slack


def fitted(model, rows, alpha=0.2):
    return fit_with_states(read_model(model).forest, rows[:200], rows[200:], Options(alpha=alpha, indifference="auto"))


@pytest.fixture(scope="module")
def trained():
    from xgboost import XGBClassifier

    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 4)).astype(np.float32)
    labels = (rows[:, 0] + rows[:, 1] * rows[:, 2] + random.normal(0, 1, 300) > 0).astype(int)
    model = XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1).fit(rows[:200], labels[:200])
    return model, rows


def test_no_share_is_the_papers_region_bit_for_bit(trained):
    model, rows = trained
    plain = fit_region(read_model(model).forest, rows[:200], rows[200:], alpha=0.2)
    assert fitted(model, rows).with_indifference(0.0).fingerprint() == plain.fingerprint()


def test_region_holds_what_its_level_says_and_is_never_refused(trained):
    """The fixed quantile refuses these training rows; the ladder finds room at every alpha."""
    model, rows = trained
    for alpha in (0.02, 0.05, 0.1, 0.4):
        for share in SHARES:
            region = fitted(model, rows, alpha).with_indifference(share)
            inside = region.contains(rows[200:], model=model)
            assert inside.mean() >= 1 - alpha
            assert region.indifference == share * alpha
            assert region.tau is not None


def test_regions_of_smaller_alphas_contain_those_of_larger(trained):
    region = fitted(*trained).with_indifference(0.5)
    grid = [region.with_alpha(alpha) for alpha in (0.5, 0.3, 0.1, 0.05)]
    taus, deltas = [r.tau for r in grid], [r.delta or 0.0 for r in grid]
    assert taus == sorted(taus)
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[0] > deltas[-1]
    whole = region.with_alpha(0)
    assert whole.tau is None
    assert whole.delta is None
    with pytest.warns(UserWarning, match="cannot support"):
        few = region.with_alpha(0.001)
    assert few.tau is None
    assert few.delta is None


def test_storage_round_trip_and_refusals(trained):
    region = fitted(*trained).with_indifference(0.5)
    document = region.to_json()
    assert document["format_version"] == 1
    assert Region.from_json(document) == region
    broken = {"share": 1.0, "tau": document["nesting"]["tau"][::-1], "delta": document["nesting"]["delta"][::-1]}
    for name, value in broken.items():
        with pytest.raises(MalformedModelError, match=name):
            Region.from_json({**document, "nesting": {**document["nesting"], name: value}})
    # without its ladder a region is readable, but tau does not follow from its calibration: `verify` compares the two
    plain = Region.from_json({**document, "nesting": None})
    assert plain.with_alpha(plain.alpha).tau != plain.tau
    with pytest.raises(MalformedModelError):
        Region.from_json({**document, "format_version": 2})


def test_limits_beyond_the_last_step():
    ladder = RegionLadder(0.5, np.array([10, 20]), np.array([0.5, 0.0]))
    assert ladder.limits(0) == (10, 0.5)
    assert ladder.limits(1) == (20, None)
    assert ladder.limits(4) == (23, None)
    levels = ladder.levels(np.array([5, 5, 15, 21, 23]), np.array([0.5, 0.4, 9.0, 9.0, 0.0]))
    assert levels.tolist() == [0, 1, 1, 2, 4]


def test_limits_lie_off_the_inputs():
    """Whole numbers make few cells of many rows: rounding of native margins moves none of them."""
    import xgboost

    n_undecided = 0
    for seed in range(6):
        random = np.random.default_rng(seed)
        X = random.integers(0, 4, size=(1200, 4)).astype(np.float32)
        y = (X[:, 0] + X[:, 1] + random.normal(0, 1.5, len(X)) > 3).astype(int)
        model = xgboost.XGBClassifier(n_estimators=7, max_depth=2, n_jobs=1).fit(X[:400], y[:400])
        margins = model.predict(X, output_margin=True)
        parsed = read_model(model)
        found = fit_with_states(parsed.forest, X[:400], X[400:800], Options(alpha=0.2, indifference="auto"))
        fixed = fit_region(parsed.forest, X[:400], X[400:800], alpha=0.3, indifference=0.1)
        for region in (fixed, *(found.with_indifference(share) for share in (0.25, 0.5, 0.75, 0.9))):
            if region.delta is not None:
                n_undecided += 1
                by_margins = region.contains(X, margins=margins)
                np.testing.assert_array_equal(by_margins, region.contains(X, model=model))
    assert n_undecided > 20


@pytest.mark.parametrize("n_rows", [2, 3, 10])
def test_few_rows_make_a_ladder(n_rows):
    distances = np.linspace(0.1, 1.0, n_rows)
    few = FitEvidence(np.arange(n_rows), distances, distances)
    for share in (0.25, 0.75, 0.9):
        ladder = build_ladder(few, share)
        assert (np.diff(ladder.tau) >= 0).all()
        assert (np.diff(ladder.delta) <= 0).all()
