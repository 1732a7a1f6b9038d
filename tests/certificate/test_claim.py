"""Every sentence of the promise, held against a case where a stronger one would be false."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from pine_boost import InvalidInputError, prune_booster
from pine_boost.certificate.claims import (
    NON_INFERIOR,
    VALIDATED,
    Statement,
    bound_of,
    claim_of,
    coverage_of,
    exception_of,
    headline_of,
    kept_answer,
    proof_of,
    rests_on,
)
from pine_boost.model.digits import rounded_up
from pine_boost.region.conformal import calibrate, coverage_floor
from pine_boost.region.domain import Domain


@pytest.fixture(scope="module")
def table():
    X = np.random.default_rng(0).normal(size=(900, 4))
    noise = np.random.default_rng(1).normal(scale=0.4, size=900)
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + noise > 0).astype(int)


@pytest.fixture(scope="module")
def model(table):
    X, y = table
    return GradientBoostingClassifier(n_estimators=12, max_depth=2, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def certified(table, model):
    X, _ = table
    certificate = prune_booster(model, X[:300], X[300:600], alpha=0.2).certificate
    assert certificate.status == "CERTIFIED"
    assert certificate.grid >= 0
    return certificate


def test_the_claim_of_a_certificate_is_what_its_fields_say(certified):
    assert certified.claim == claim_of(certified)
    assert certified.rests_on == rests_on(certified)


def test_the_band_that_is_left_out_is_never_printed_smaller(certified):
    """An input 1.0425e-06 from the cut changed its class under a claim that left out 1.04e-06."""
    left = replace(certified, undecided=1.04495e-06, undecided_exists=True, native_band=1.04495e-06)
    assert "margin is within 1.05e-06 of" in exception_of(left)
    assert "except inputs too close to the decision boundary to tell" in headline_of(left)


def test_a_threshold_is_named_as_it_was_proved(certified):
    claim = claim_of(replace(certified, thresholds=(1234567.0, 1 / 3 + 1234567)))
    assert "thresholds 1234567, 1234567.3333333333 as" in claim


def test_no_probability_is_rounded_up(certified):
    rare = replace(certified, alpha=4e-5, n_cal=30_000)
    assert headline_of(rare).endswith("probability at least 99.996%.")
    assert "probability at least 0.99996 (alpha = 4e-05)" in coverage_of(rare)
    assert "probability at least 0.899999 (" in coverage_of(replace(certified, alpha=0.1000004))


def test_a_statistic_names_thresholds_and_repeated_rows_and_rounds_nothing_up():
    numbers = {"keeps_class": True, "n_val": 299, "n_changed": 0, "bound": 0.99, "overlap": 9 / 299}
    text = Statement(VALIDATED, 0.98999961, 0.94999961, tolerance=None, thresholds=(0.3,), **numbers).claim()
    assert "the class that the original gives it at the threshold 0.3" in text
    assert "299 validation rows (3.02% of them occur in X_fit too)" in text
    assert "probability at least 0.989999." in text
    assert "confidence 0.949999 " in text
    assert kept_answer(False, 0.12345678) == "a raw value within 0.123457 of the original's"


def test_the_printed_statistic_is_short_rounds_nothing_up_and_is_no_proof():
    numbers = {"keeps_class": True, "n_val": 299, "n_changed": 0, "bound": 0.99, "overlap": 0.0}
    statement = Statement(VALIDATED, 0.99, 0.95, tolerance=None, thresholds=(), **numbers)
    assert statement.promise("") == (
        "A future input like your validation rows gets the class that the original gives it with probability at least "
        "99%. This is a statistic, not a proof: an unlucky sample of rows can mislead it."
    )
    assert "98.9999%" in replace(statement, fidelity=0.98999961).promise("")
    assert replace(statement, status="MEASURED").promise("the claim") == "the claim"


_LOSSES = [("error", 0.005), ("brier", 0.01), ("squared", 0.01), ("costs", 0.01)]


@pytest.mark.parametrize(
    ("fidelity", "max_loss"), [(0.99, None), (0.99, _LOSSES[0]), *((None, lost) for lost in _LOSSES)]
)
@pytest.mark.parametrize(("tolerance", "thresholds"), [(None, ()), (0.02, ()), (0.02, (0.3, 0.7))])
def test_a_printed_statistic_has_one_number_for_each_promise(fidelity, max_loss, tolerance, thresholds):
    promised = [number for number in (fidelity, max_loss) if number is not None]
    status = VALIDATED if max_loss is None else NON_INFERIOR
    numbers = {"n_val": 299, "n_changed": 0, "bound": 0.99, "overlap": 0.0}
    for keeps_class in {True, tolerance is None}:
        statement = Statement(status, fidelity, 0.95, tolerance, keeps_class, thresholds, **numbers)
        if max_loss is not None:
            statement = replace(statement, loss=max_loss[0], max_loss=max_loss[1])
        text = statement.promise("")
        assert len(re.findall(r"[\d.]*\d", text)) == len(promised)
        assert text.count(". ") == len(promised)
        assert text.endswith("This is a statistic, not a proof: an unlucky sample of rows can mislead it.")


def test_one_calibration_set_may_cover_less_than_one_minus_alpha():
    """That at least 90 % of future inputs are covered is false in a third of all draws."""
    random, n_rows, alpha = np.random.default_rng(0), 50, 0.1
    floor = coverage_floor(n_rows, alpha, 0.95)
    draws = random.integers(0, 10**9, size=(4000, n_rows))
    coverage = np.array([(calibrate(draw, alpha) or 0) / 1e9 for draw in draws])
    assert np.mean(coverage < 1 - alpha) > 0.3  # the stronger sentence
    assert np.mean(coverage) >= 1 - alpha - 0.005  # over the draw of rows and input together
    assert np.mean(coverage >= floor) >= 0.94  # with 95 % confidence for these very rows
    assert np.mean(coverage >= floor) <= 0.96


def test_the_coverage_speaks_of_the_draw_and_of_the_confidence(certified):
    text = coverage_of(certified)
    assert "probability at least 0.8 (alpha = 0.2), over the draw of these rows and of" in text
    floor = coverage_floor(certified.n_cal, 0.2, 0.95)
    stated = float(text.split("Given these calibration rows, at least ")[1].split("%")[0]) / 100
    assert floor - 1e-4 <= stated <= floor < 0.8
    assert text.endswith("of independent future inputs fall in the region (95% confidence).")
    assert "with probability at least 80%" in headline_of(certified)
    assert " of future inputs" not in headline_of(certified)
    assert "exchangeable with the 300 calibration rows, that is, drawn from the same source in the same way," in text
    words = headline_of(certified)
    assert len(re.findall(r"\d+", words)) == 1  # two short sentences with one number
    assert words.count(". ") == 1
    assert all(len(sentence.split()) <= 20 for sentence in words.split(". "))


def test_calibration_rows_among_the_fit_rows_void_the_probability(certified):
    some = replace(certified, overlap=0.004)
    many = replace(certified, overlap=0.4, overlap_evident=True)
    assert "300 calibration rows (0.40% of them were found among the fit rows)" in coverage_of(some)
    assert "probability at least 0.8" in coverage_of(some)
    for text in (claim_of(many), headline_of(many)):
        assert "not promised" in text
        assert "probability at least" not in text
    assert "40.0% of the calibration rows" in claim_of(many)


def test_undecided_inputs_are_left_out_of_every_sentence(certified):
    whole = replace(certified, alpha=0.0, tau=None, undecided=1e-6, native_band=1e-6, undecided_exists=True)
    for text in (claim_of(whole), headline_of(whole)):
        assert "every possible input" in text
        assert "the decision boundary" in text
        assert "exactly" not in text
    assert "within 1e-06 of the decision boundary" in claim_of(whole)
    assert "such inputs exist" in claim_of(whole)
    unsettled = replace(whole, undecided_exists=None)
    assert "whether such inputs exist is open" in claim_of(unsettled)
    assert "except inputs too close to the decision boundary to tell" in headline_of(unsettled)
    none = replace(whole, undecided_exists=False)
    assert exception_of(none) == ""
    assert "boundary" not in claim_of(none) + headline_of(none)


def test_the_band_is_called_rounding_only_where_it_is_the_librarys(certified):
    wide = replace(certified, undecided=2.3e-3, native_band=1e-14, undecided_exists=True)
    assert "or the proof's integers are too coarse" in exception_of(wide)
    assert "(within 1e-14)" in exception_of(wide)
    narrow = replace(wide, undecided=1e-14)
    assert "coarse" not in exception_of(narrow)


def test_rows_of_the_fit_may_change_where_the_original_is_undecided(table):
    """That every row of X_fit keeps its class is false with indifference: here are some."""
    X, y = table
    model = GradientBoostingClassifier(n_estimators=20, max_depth=3, random_state=0).fit(X, y)
    result = prune_booster(model, X[:300], X[600:], alpha=0.5, indifference=0.3, objective="l1")
    changed = model.predict(X[:300]) != result.model.predict(X[:300])
    assert changed.any()
    inside = result.region.contains(X[:300], model=model)
    assert not (changed & inside).any()
    certificate = result.certificate
    sure = certificate.sureness
    assert sure.startswith("gives its class a probability of at least 0.")
    distance = rounded_up(certificate.delta)
    assert f"on which the original {sure} (a margin of {distance} or more)" in certificate.claim
    plain = claim_of(replace(certificate, sureness=""))
    assert f"inputs closer than {distance} to the decision boundary (in margin) are not in the region" in plain
    assert "Every row" not in str(prune_booster.__doc__)


def test_a_domain_is_named_wherever_every_input_is(table, model):
    X, _ = table
    domain = Domain(lower={0: 0.25})
    with pytest.warns(UserWarning, match="The domain excludes .* rows of X_cal"):
        certificate = prune_booster(model, X[:300], X[300:600], alpha=0.0, domain=domain, objective="l1").certificate
    assert certificate.narrowed
    assert "every possible input that the given domain permits" in certificate.claim
    assert any("the domain permits" in entry for entry in certificate.rests_on)
    if certificate.grid >= 0:
        assert "that your domain permits" in headline_of(certificate)


def test_that_none_can_be_spared_is_said_only_of_the_form_that_was_proved(certified):
    kept = replace(certified, grid=-1, optimal=False, trees_after=certified.trees_before)
    assert "was found" in headline_of(kept)
    assert "No model of this form" not in headline_of(kept)
    for reweight, form in (("tree", "rounds, reweighted"), ("leaf", "with new leaf values")):
        proved = headline_of(replace(kept, optimal=True, reweight=reweight))
        assert proved.startswith("No model of this form")
        assert form in proved  # other forms might do with fewer
    assert proof_of(kept) == ""
    open_ = replace(certified, optimal=False, lower_bound=2)
    assert "needs at least 2 rounds" in bound_of(open_)
    assert "with fewer" not in bound_of(open_)


def test_without_a_certificate_nothing_is_promised(certified):
    none = replace(certified, status="NOT_CERTIFIED", claim="", grid=-1)
    assert "nothing is promised" in headline_of(none)
    assert proof_of(none) == ""


def test_what_rests_on_the_certificates_word_is_less_with_the_tables(certified):
    files, tables = rests_on(certified), rests_on(certified, tables=True)
    assert set(tables) < set(files)
    assert any("calibration scores are those of X_cal" in entry for entry in files)
    assert not any("calibration scores" in entry for entry in tables)
    everything = replace(certified, alpha=0.0, tau=None)
    assert not any("X_cal" in entry for entry in rests_on(everything))


def test_score_bands_have_no_accuracy(table, model):
    X, y = table
    bands = prune_booster(model, X[:300], X[300:600], alpha=0.3, threshold=(0.3, 0.7), objective="l1")
    with pytest.raises(InvalidInputError, match="3 score bands, and y holds labels"):
        bands.evaluate(X[600:], y[600:])
    assert bands.evaluate(X[600:]).accuracy_before is None
    one = prune_booster(model, X[:300], X[300:600], alpha=0.3, threshold=0.4, objective="l1")
    measured = one.evaluate(X[600:], y[600:])
    expected = np.mean((model.predict_proba(X[600:])[:, 1] > 0.4) == y[600:])
    assert measured.accuracy_before == pytest.approx(expected)
