"""Speeds that are printed: of warm calls, in plain numbers, within the time."""

import time

import pytest

from pine_boost.native.figures import Figures, SideBySide, Speed, time_calls, times_in_words

ROWS = [[0.0, 1.0]]


def _slow_at_first(seconds):
    """A ``predict`` whose first call loads a library, and the list of its calls."""
    called = []

    def predict(_):
        called.append(1)
        if len(called) == 1:
            time.sleep(seconds)

    return predict, called


@pytest.mark.parametrize("limit", [0.01, float("inf")])
def test_the_first_call_is_not_measured(limit):
    (before, _), (after, _) = _slow_at_first(0.1), _slow_at_first(0.0)
    (speed,) = time_calls((before, after), ROWS, [1], limit)
    assert speed.before < 0.05


def test_a_slow_model_is_called_seldom_where_time_is_limited():
    called = []

    def slow(_):
        called.append(1)
        time.sleep(0.05)

    assert len(time_calls((slow, lambda _: None), ROWS, seconds=0.02)) == 1
    assert len(called) == 2


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(0.0453, "0.045"), (0.000012, "0.000012"), (1.0, "1"), (3.14, "3.1"), (99.7, "100"), (37_300.4, "37 300")],
)
def test_a_speed_up_is_a_plain_number(ratio, words):
    assert times_in_words(ratio) == words
    assert Speed(1, ratio, 1.0).words == f"{words}x for 1 row"


@pytest.mark.parametrize(("seconds", "is_native", "says"), [(1.0, True, True), (1.0, False, False), (0.2, True, False)])
def test_a_native_model_that_is_no_faster_is_said_to_be_so(seconds, is_native, says, monkeypatch):
    speeds = tuple(Speed(n_rows, 1.05, seconds) for n_rows in (1, 100))
    monkeypatch.setattr(SideBySide, "speeds", lambda self, **_: speeds)
    size = Figures(10, 100, 1000, 50.0)
    side = SideBySide(size, size, "X_fit", lambda: (len, len), ROWS, is_native=is_native)
    line = side.summary()[-1]
    assert line.endswith("This is hardly faster natively; for speed, use accelerate_booster.") == says
    assert "(larger batches would take too long here)" in line
    assert "slower" not in line


@pytest.mark.parametrize("is_native", [True, False])
def test_a_speed_below_one_is_said_to_be_slower(is_native, monkeypatch):
    speeds = (Speed(1, 1.0, 1.0), Speed(100, 0.52, 1.0))
    monkeypatch.setattr(SideBySide, "speeds", lambda self, **_: speeds)
    size = Figures(10, 100, 1000, 50.0)
    line = SideBySide(size, size, "X_fit", lambda: (len, len), ROWS, is_native=is_native).summary()[-1]
    assert "0.52x for 100 rows (larger batches would take too long here). Below 1x it is slower." in line
