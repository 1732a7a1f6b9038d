"""Progress on a terminal, in a log and not at all; a budget is frozen, and its parts never outlive it."""

import io
import math
import os
import signal
import sys
import threading
import time
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from sklearn import ensemble

from pine_boost import compress_booster, prune_booster, survey, sweep
from pine_boost.budget import CHOOSING, Budget, Effort, OutOfTime, Step, StopReason
from pine_boost.certificate.claims import expectation_of
from pine_boost.progress import Progress, is_shown
from tests.support.verifying import boosted_products


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_one_line_and_a_log_only_changes():
    steps = [
        Step(1, "rows", 30, 50, 0.1, "round", 10, 10, 1),
        Step(2, "climb", 30, 60, 0.2, "round", 10, 10, 1),
        Step(3, "certified", 12, 70, 0.3, "round", 4, 4, 1),
        Step(4, "exact", 12, 80, 0.4, "round", 4, 4, 4),
    ]
    terminal, log = _Terminal(), io.StringIO()
    for stream in (terminal, log):
        progress = Progress(stream)
        for step in steps:
            progress(step)
        progress.close()
    assert "\n" not in terminal.getvalue()
    assert "\r0 s: 10 -> 4 rounds, at least 4 needed" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")
    lines = log.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[-1] == "0 s: 10 -> 4 rounds, at least 4 needed"
    assert not any(word in log.getvalue() for word in ("climb", "exact", "rows"))


def test_a_model_proved_once_is_named_before_its_second_proof():
    log = io.StringIO()
    progress = Progress(log)
    progress(Step(1, "rows", 30, 50, 0.1, "round", 30, 30, 1))
    progress(Step(2, "proved", 30, 60, 0.2, "round", 30, 12, 1))
    progress(Step(3, "certified", 12, 60, 0.3, "round", 12, 12, 1))
    progress(Step(4, "proved", 12, 60, 0.4, "round", 12, 9, 8))
    assert log.getvalue().splitlines() == [
        "0 s: 30 rounds, nothing smaller proved yet, at least 1 needed",
        "0 s: 30 -> 12 rounds (proved once), at least 1 needed",
        "0 s: 30 -> 12 rounds, at least 1 needed",
        "0 s: 30 -> 9 rounds (proved once, 12 twice), at least 8 needed",
    ]


def test_a_search_tells_of_a_model_before_it_is_proved_twice():
    model, X = boosted_products(10, random_state=0)
    steps = []
    result = prune_booster(model, X[:200], X[200:], alpha=0.3, callback=steps.append)
    assert result.certificate.trees_after < 10
    first = next(step for step in steps if step.proved_once == result.certificate.trees_after)
    assert first.units == 10
    assert steps[-1].units == steps[-1].proved_once == result.certificate.trees_after


def test_without_a_limit_a_user_is_told_how_to_stop():
    early = Step(1, "rows", 30, 50, 29.0, "round", 10, 10, 1)
    late = Step(2, "exact", 12, 80, 31.0, "round", 4, 4, 2)
    later = Step(3, "exact", 12, 80, 90.0, "round", 4, 4, 2)
    log = io.StringIO()
    progress = Progress(log, option="--time-limit")
    progress(early)
    assert "Ctrl-C" not in log.getvalue()
    progress(late)
    progress(later)
    told = [line for line in log.getvalue().splitlines() if "Ctrl-C" in line]
    assert told == [
        "After 31 s: 10 -> 4 rounds, at least 2 needed. Still looking for a smaller model. Ctrl-C stops and keeps the "
        "best one; --time-limit sets a limit."
    ]
    limited = io.StringIO()
    progress = Progress(limited, time_limit=60.0)
    progress(early)
    progress(late)
    assert "Ctrl-C" not in limited.getvalue()


def test_progress_is_shown_on_a_terminal_and_in_a_notebook(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not is_shown(None)
    assert is_shown(True)
    monkeypatch.setattr("pine_boost.progress.is_notebook", lambda: True)
    assert is_shown(None)
    assert not is_shown(False)
    monkeypatch.setattr("pine_boost.progress.is_notebook", lambda: False)
    monkeypatch.setattr(sys, "stderr", _Terminal())
    assert is_shown(None)


def test_verbose_shows_beside_a_callback_and_silence_is_silent(capsys):
    model, X = boosted_products(5, random_state=0)
    options = {"objective": "l1"}
    steps = []
    prune_booster(model, X[:200], X[200:], alpha=0.3, callback=steps.append, **options)
    assert steps
    assert capsys.readouterr().err == ""
    prune_booster(model, X[:200], X[200:], alpha=0.3, callback=steps.append, verbose=True, **options)
    assert "5 -> " in capsys.readouterr().err
    told = []
    sweep(model, X[:200], X[200:], alphas=[0.3], verbose=True, callback=lambda *step: told.append(step), **options)
    assert "alpha 0.3: 5 -> " in capsys.readouterr().err
    assert all(len(step) == 2 for step in told)


def test_a_candidate_is_not_called_proved_and_a_log_is_not_flooded():
    log, terminal = io.StringIO(), _Terminal()
    for stream in (log, terminal):
        progress = Progress(stream)
        progress(Step(1, "exact", 30, 50, 0.1, "round", 10, 4, 1))
        for step in range(2, 50):
            progress(Step(step, "path", 30, 50, 0.2, "leaf", 800, tried=700 - step))
    lines = log.getvalue().splitlines()
    assert len(lines) <= 2
    assert not any("leaves" in line and "proved" in line for line in lines)
    drawn = terminal.getvalue().split("\r")[-1]
    assert drawn.startswith("0 s: 800 leaves, trying 651 (tested later)")
    progress = Progress(log := io.StringIO())
    progress(Step(50, "path", 30, 50, 31.0, "leaf", 800, tried=600))
    assert "candidates are down to 600 of 800 leaves. Ctrl-C stops and tests" in log.getvalue()


@pytest.mark.usefixtures("few_synthetic_rows")
def test_compression_and_survey_take_verbose(capsys):
    X = np.random.default_rng(0).normal(size=(900, 3))
    model = ensemble.GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0)
    model.fit(X[:300], X[:300, 0] + X[:300, 1] > 0)
    n_leaves = sum(tree.get_n_leaves() for tree in model.estimators_.ravel())
    options = {"fidelity": 0.98}
    told = []
    compress_booster(model, X[:300], X[300:], verbose=True, callback=told.append, **options)
    assert f"{n_leaves} leaves, trying " in capsys.readouterr().err
    assert {step.units for step in told} == {n_leaves}
    assert all(0 < step.tried < n_leaves for step in told)
    compress_booster(model, X[:300], X[300:], **options)
    assert capsys.readouterr().err == ""
    survey(model, X[:300], X[300:], time_limit=5, verbose=True)
    assert "leaves, trying" in capsys.readouterr().err
    survey(model, X[:300], X[300:], time_limit=5, verbose=False)
    assert capsys.readouterr().err == ""


def test_the_elapsed_time_is_updated_between_steps_and_the_line_is_cleared():
    terminal = _Terminal()
    with Progress(terminal, time_limit=60.0) as progress:
        progress.say("reading")
        progress._started -= 7  # seven seconds later
        time.sleep(0.7)
    drawn = [text for text in terminal.getvalue().split("\r") if text.strip()]
    assert drawn[0].startswith("0 of 60 s: reading")
    assert drawn[-1].startswith(("7 of 60 s: reading", "8 of 60 s: reading"))
    assert terminal.getvalue().endswith("\r")  # what follows begins at column 1


@pytest.mark.posix
def test_ctrl_c_is_acknowledged_while_the_main_thread_is_busy(python_hears_ctrl_c):
    log = io.StringIO()
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt), Progress(log):
        time.sleep(5)
    timer.join()
    assert log.getvalue() == "Ctrl-C: stopping; the best result so far is kept, if there is one\n"
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.posix
def test_an_event_loop_keeps_its_signals():
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    signal.set_wakeup_fd(theirs)
    log = io.StringIO()
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt), Progress(log):
            time.sleep(5)
        assert os.read(ours, 8) == bytes([signal.SIGINT])  # both have heard it
        assert log.getvalue() == "Ctrl-C: stopping; the best result so far is kept, if there is one\n"
    finally:
        assert signal.set_wakeup_fd(-1) == theirs
        os.close(ours)
        os.close(theirs)


def _large_model():
    import xgboost

    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 6))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + random.normal(size=1500) > 0).astype(int)
    return xgboost.XGBClassifier(n_estimators=70, max_depth=6).fit(X[:900], y[:900]), X


def test_prune_says_before_the_search_that_a_large_model_will_hardly_shrink(caplog, capsys):
    model, X = _large_model()
    steps = []
    options = {"alpha": 0.1, "time_limit": 0.5}

    def is_told_first(step):
        steps.append(step)
        assert "expect about 0%" in caplog.text
        raise KeyboardInterrupt

    prune_booster(model, X[900:1200], X[1200:], alpha=0.1, callback=is_told_first)
    assert steps
    assert "accelerate_booster" in caplog.text
    assert "compress_booster" in caplog.text
    caplog.clear()
    prune_booster(model, X[900:1200], X[1200:], verbose=True, **options)
    assert "expect about 0%" in capsys.readouterr().err.splitlines()[0]
    prune_booster(model, X[900:1200], X[1200:], verbose=False, **options)
    assert caplog.text == "" == capsys.readouterr().err


def test_what_to_expect_depends_on_the_size_and_on_what_is_asked():
    assert expectation_of(100, 2800, 100, 0.1, 0.0).startswith("100 trees with 28 leaves each on average")
    assert "28%" in expectation_of(100, 2800, 100, 0.05, "auto")
    assert expectation_of(30, 1500, 30, 0.1, 0.0) == ""  # not measured: nothing is said
    assert expectation_of(100, 400, 100, 0.1, 0.0) == ""
    assert expectation_of(100, 2800, 100, 0.4, 0.0) == ""


def test_choosing_what_to_leave_out_is_not_silent():
    model, X = boosted_products(8, random_state=0)
    steps = []
    prune_booster(model, X[:200], X[200:], alpha=0.3, indifference="auto", objective="l1", callback=steps.append)
    assert steps[0].phase == CHOOSING
    log = io.StringIO()
    Progress(log)(steps[0])
    assert log.getvalue() == f"0 s: 8 rounds, {CHOOSING}\n"


def test_without_a_limit_nothing_runs_out():
    budget = Budget.of(None)
    assert not budget.is_limited
    assert budget.remaining == math.inf
    budget.check()
    assert budget.share(0.5).deadline == math.inf
    assert budget.within(5.0).is_limited


def test_the_deadline_is_checked():
    budget = Budget.of(1e-9)
    time.sleep(1e-6)
    assert budget.is_over
    assert budget.remaining == 0.0
    with pytest.raises(OutOfTime):
        budget.check()


def test_a_part_never_outlives_the_whole():
    budget = Budget.of(10.0, Effort(n_walks=3))
    half = budget.share(0.5)
    assert half.deadline < budget.deadline
    assert half.effort == budget.effort
    assert half.started >= budget.started
    assert budget.within(1e6).deadline == budget.deadline
    assert budget.with_effort(Effort(n_walks=7)).deadline == budget.deadline
    with pytest.raises(FrozenInstanceError):
        budget.deadline = 0.0


def test_the_callback_hears_of_steps():
    heard = []
    budget = Budget.of(5.0, callback=heard.append)
    step = Step(1, "walks", 30, 12, 0.1, "round", 10, 9, 2)
    budget.share(0.1).report_progress(step)
    assert heard == [step]
    Budget().report_progress(step)  # nobody listens


def test_a_reason_is_its_word():
    assert StopReason.TIME == "time"
    assert str(StopReason.OPTIMAL) == "optimal"
    assert StopReason("interrupted") is StopReason.INTERRUPTED
