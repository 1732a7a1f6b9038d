"""max_loss: the tests are valid at small counts, and the record says what was counted natively."""

import json
from functools import cache

import numpy as np
import pytest
import xgboost
from scipy.stats import multinomial

import pine_boost
from pine_boost import CertificateMismatch, InvalidInputError
from pine_boost.compression.fixed_sequence import SHARES_OF_LEVEL, FixedSequence, Target, bet, most_lost
from pine_boost.compression.record import TestedSize as Size
from pine_boost.compression.record import read_record
from pine_boost.json_fields import digest_of
from tests.support.native_models import make_table

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")
N_DRAWS = 2000


def _most_often(rate):
    """Three standard deviations of a count of the draws above the stated rate."""
    return N_DRAWS * rate + 3 * np.sqrt(N_DRAWS * rate * (1 - rate))


@pytest.mark.parametrize(("n_rows", "max_loss"), [(40, 0.1), (60, 0.05), (300, 0.02)])
def test_the_level_of_the_exact_test_is_never_exceeded(n_rows, max_loss):
    """The probability of acceptance at a loss of exactly max_loss, summed over all counts, for many rates."""
    table = most_lost(n_rows, max_loss, 0.05)
    assert np.all(np.diff(table) >= 0)
    lost, gained = np.meshgrid(np.arange(n_rows + 1), np.arange(len(table)))
    is_in = (lost + gained <= n_rows) & (lost <= table[gained])
    lost, gained = lost[is_in], gained[is_in]
    counts = np.stack([lost, gained, n_rows - lost - gained], axis=1)
    levels = []
    for rate in np.concatenate([np.linspace(0, 0.02, 21), np.linspace(0.02, (1 - max_loss) / 2, 40)]):
        levels.append(multinomial.pmf(counts, n_rows, [rate + max_loss, rate, 1 - max_loss - 2 * rate]).sum())
        # a larger loss is accepted more rarely
        more = [min(rate + 1.5 * max_loss, 1 - rate), rate]
        assert multinomial.pmf(counts, n_rows, [*more, 1 - sum(more)]).sum() <= levels[-1] + 1e-12
    assert max(levels) <= 0.05
    assert max(levels) > 0.035  # little of the level is given away


@pytest.mark.parametrize(("n_rows", "max_loss"), [(100, 0.05), (600, 0.01), (5000, 0.005)])
@pytest.mark.parametrize("rate", [0.0, 0.01, 0.1])
def test_accuracy_is_lost_at_most_as_often_as_stated(n_rows, max_loss, rate):
    """Two candidates of a sequence that both lose exactly max_loss, on rows of their own."""
    random = np.random.default_rng([n_rows, int(100 * rate)])
    tests = Target(n_rows, 0.95, None, max_loss).tests()
    shares = [rate + max_loss, rate, 1 - max_loss - 2 * rate]
    drawn = random.multinomial(n_rows, shares, (N_DRAWS, 2))
    broken = 0
    for candidates in drawn[:, :, :2].tolist():
        sequence = FixedSequence(tests)
        broken += any([sequence.judge(_counted(*row)).accepted for row in candidates])
    assert broken <= _most_often(0.05)
    # and a model that is as good as the original is accepted, the more often the less the two differ
    good = random.multinomial(n_rows, [rate / 20, rate / 20, 1 - rate / 10], N_DRAWS)[:, :2].tolist()
    assert sum(tests[0](_counted(*row)) for row in good) > N_DRAWS / 2


def _counted(lost, gained, e_value=None):
    return Size(1, 2, 3.0, "path", 0.0, lost + gained, 0.5, lost, gained, e_value, True)


@pytest.mark.parametrize("world", ["errors", "small steps", "skewed"])
@pytest.mark.parametrize(("n_rows", "max_loss"), [(100, 0.05), (1000, 0.01)])
def test_the_bet_is_won_at_most_as_often_as_stated(world, n_rows, max_loss):
    random = np.random.default_rng([len(world), n_rows])
    if world == "errors":
        values, shares = [1.0, -1.0, 0.0], [0.02 + max_loss, 0.02, 0.96 - max_loss]
    elif world == "small steps":
        values, shares = [max_loss + 0.03, max_loss - 0.03], [0.5, 0.5]
    else:  # a rare large loss that few samples show
        values, shares = [1.0, 0.0], [max_loss, 1 - max_loss]
    assert np.dot(values, shares) == pytest.approx(max_loss)
    won = sum(bet(random.choice(values, n_rows, p=shares), max_loss) >= 20 for _ in range(N_DRAWS))
    assert won <= _most_often(0.05)
    assert bet(np.full(n_rows, -max_loss), max_loss) > 20  # it is not a bet that nobody wins


def test_more_evidence_is_needed_after_a_failure_and_for_both_promises():
    target = Target(2000, 0.95, None, 0.01)
    first, second = target.tests()
    assert first(_counted(13, 5))
    assert not second(_counted(13, 5))
    assert second(_counted(0, 0))
    both = Target(2000, 0.95, 0.99, 0.01).tests()[0]
    assert both(_counted(5, 5))
    assert not both(_counted(20, 20))  # as accurate, but too many answers changed
    by_bet = Target(2000, 0.95, None, 0.01, is_error=False).tests()
    assert [test(_counted(0, 0, 30.0)) for test in by_bet] == [True, False]
    assert sum(SHARES_OF_LEVEL) == 1


@cache
def _compressed(loss="error", **options):
    X, y = make_table(2, n_rows=1500)
    model = xgboost.XGBClassifier(n_estimators=20, max_depth=4, n_jobs=1).fit(X[:600], y[:600])
    options = {"max_loss": 0.03, **options}
    loss = [[0.0, 1.0], [0.4, 0.0]] if loss == "costs" else loss
    result = pine_boost.compress_booster(model, X[:600], X[600:], y_val=y[600:], loss=loss, **options)
    return model, X[600:], y[600:], result


@pytest.mark.parametrize("loss", ["error", "brier", "costs"])
def test_non_inferior_and_counted_natively(loss):
    model, X_val, y_val, result = _compressed(loss, max_loss=0.06)
    record = result.record
    assert result.status == "NON_INFERIOR"
    assert record.fidelity is None
    assert record.loss == loss
    found = []
    for native in (model, result.model):
        if loss == "brier":
            found.append((native.predict_proba(X_val)[:, 1] - y_val) ** 2)
        else:
            predicted = native.predict(X_val)
            found.append(np.where(y_val == 1, 0.4 if loss == "costs" else 1.0, 1.0) * (predicted != y_val))
    assert [record.loss_before, record.loss_after] == pytest.approx([lost.mean() for lost in found], abs=1e-6)
    if loss == "error":
        chosen = record.returned()
        assert chosen.n_lost == np.sum(found[1] > found[0])
        assert chosen.n_gained == np.sum(found[1] < found[0])
    text = result.summary()
    assert "statistic, not a proof" in text
    assert "keeps" not in text
    assert "gets the class" not in text  # nothing is said about single answers
    verdict = pine_boost.verify_compression(model, result.model, record, X_val, y_val)
    assert verdict.agrees, verdict.remarks
    assert verdict.losses == pytest.approx((record.loss_before, record.loss_after), abs=1e-6)


def test_both_promises_have_a_sentence_each():
    model, X_val, y_val, result = _compressed(fidelity=0.9)
    assert result.status == "NON_INFERIOR"
    assert "accuracy on future inputs" in result.record.claim
    assert "with probability at least 0.9." in result.record.claim
    assert [sentence.split(" is ")[-1] for sentence in result.promise().split(". ")[:2]] == [
        "at most 0.03 below the original's",
        "A future input like your validation rows gets the class that the original gives it with probability at least "
        "90%",
    ]
    assert result.record.bound >= 0.9
    assert pine_boost.verify_compression(model, result.model, result.record, X_val, y_val).agrees


def test_labels_alone_give_the_accuracy_and_change_nothing_else():
    model, X_val, y_val, result = _compressed(max_loss=None, fidelity=0.9)
    assert result.status == "VALIDATED"
    accuracy = [np.mean(native.predict(X_val) == y_val) for native in (model, result.model)]
    assert f"{accuracy[0]:.4f} before, {accuracy[1]:.4f} after" in result.summary()
    assert pine_boost.verify_compression(model, result.model, result.record, X_val, y_val).agrees
    trusting = pine_boost.verify_compression(model, result.model, result.record, X_val)
    assert trusting.agrees
    assert "loss_before and loss_after" in trusting.summary()


def test_squared_error_of_a_regressor():
    X, _ = make_table(2, missing=False, n_rows=1500)
    y = X[:, 0] + 2 * (X[:, 2] > 0)
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=4, n_jobs=1).fit(X[:600], y[:600])
    asked = {"y_val": y[600:], "max_loss": 0.02, "loss": "squared", "loss_range": 10.0}
    result = pine_boost.compress_booster(model, X[:600], X[600:], **asked)
    assert result.status == "NON_INFERIOR"
    found = [np.mean((native.predict(X[600:]) - y[600:]) ** 2) / 100 for native in (model, result.model)]
    assert [result.record.loss_before, result.record.loss_after] == pytest.approx(found, rel=1e-4, abs=1e-9)
    verdict = pine_boost.verify_compression(model, result.model, result.record, X[600:], y[600:])
    assert verdict.agrees, verdict.remarks
    with pytest.raises(InvalidInputError, match="loss_range"):
        pine_boost.compress_booster(model, X[:600], X[600:], **{**asked, "loss_range": None})
    with pytest.raises(InvalidInputError, match="finite number"):
        pine_boost.compress_booster(model, X[:600], X[600:], **{**asked, "y_val": y[601:]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y_val": None, "max_loss": 0.01}, "pass y_val"),
        ({"max_loss": 0.0}, "max_loss must be"),
        ({"max_loss": 0.001}, "X_val has 900 rows; max_loss=0.001 .* needs about"),
        ({"loss": "squared", "loss_range": 1.0}, "does not fit this model"),
        ({"loss": "absolute"}, "loss must be 'error', 'brier' or 'squared'"),
        ({"loss": [[0, 5], [1, 0]]}, "costs from 0 to 1"),
        ({"loss": [[0, 1]]}, "2 x 2 costs"),
        ({"y_val": np.full(900, 7)}, "y holds 7"),
        ({"y_val": np.zeros(3)}, "900 rows and y 3"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(options, message):
    model, X_val, y_val, _ = _compressed()
    with pytest.raises(InvalidInputError, match=message):
        pine_boost.compress_booster(model, X_val[:100] + 0.5, X_val, **{"y_val": y_val, "max_loss": 0.03, **options})


def test_a_forged_loss_is_found():
    model, X_val, y_val, result = _compressed()
    document = json.loads(result.record.to_json())

    def verified(change):
        changed = {**document, **change}
        record = read_record(json.dumps({**changed, "digest": digest_of(changed)}).encode())
        return pine_boost.verify_compression(model, result.model, record, X_val, y_val).agrees

    assert verified({})
    assert not verified({"loss_after": document["loss_before"] / 2})
    assert not verified({"max_loss": 0.0001, "claim": document["claim"].replace("0.03", "0.0001")})
    returned = result.record.returned()
    for name, value in (("n_lost", 0), ("n_gained", returned.n_gained + 5), ("n_lost", None)):
        path = [
            {**size, name: value} if size["cost"] == returned.cost and size["accepted"] else size
            for size in document["path"]
        ]
        assert path == document["path"] or not verified({"path": path})
    for change in (
        {"status": "VALIDATED"},
        {"max_loss": None},
        {"labels_digest": None},
        {"loss_before": None},
        {"loss": "costs"},
        {"loss_range": 2.0},
        {"max_loss": 1.5},
    ):
        with pytest.raises(CertificateMismatch):
            verified(change)
    with pytest.raises(InvalidInputError, match="pass y_val"):
        pine_boost.verify_compression(model, result.model, result.record, X_val)
    with pytest.raises(CertificateMismatch, match="y_val is not the labels"):
        pine_boost.verify_compression(model, result.model, result.record, X_val, 1 - y_val)


def test_overlapping_rows_only_measure():
    model, X_val, y_val, _ = _compressed()
    result = pine_boost.compress_booster(model, X_val, X_val, y_val=y_val, max_loss=0.03, allow_overlap=True)
    assert result.status == "MEASURED"
    assert "promises nothing about future inputs" in result.record.claim
    assert "With confidence" not in result.record.claim
