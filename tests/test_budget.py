"""A budget is frozen, its parts never outlive it, and without a limit nothing runs out."""

import math
import time
from dataclasses import FrozenInstanceError

import pytest

from pine_boost.budget import Budget, Effort, OutOfTime, Step, StopReason


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
