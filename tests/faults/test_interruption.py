"""Ctrl-C and the end of time, at every step: what comes back is certified or the original."""

import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import cache

import numpy as np
import pytest
from ortools.sat.python import cp_model
from sklearn import ensemble

from pine_boost import (
    accelerate_booster,
    compress_booster,
    load_scorer,
    prune_booster,
    survey,
    sweep,
    verify_compression,
)
from pine_boost.budget import SECONDS, Budget, finishing
from pine_boost.cli import main
from pine_boost.native.predict import predict_classes
from pine_boost.proof.cpsat.solver import Stop, solve, solve_each
from pine_boost.search import driver
from tests.support.verifying import boosted_products

pytestmark = pytest.mark.usefixtures("python_hears_ctrl_c")


@pytest.fixture(scope="module")
def data():
    return boosted_products(10, random_state=0)


@pytest.fixture(scope="module")
def n_steps(data):
    model, X = data
    steps = []
    result = prune_booster(model, X[:250], X[250:], alpha=0.2, callback=steps.append)
    assert result.certificate.trees_after < 10  # there is something to lose
    return len(steps)


def _check(result, model, X):
    """Certified and the same in the region, or the original itself and no claim."""
    if result.certificate.grid < 0:
        assert result.model is model
        assert result.certificate.trees_after == 10
    else:
        assert result.status == "CERTIFIED"
        inside = result.region.contains(X)
        same = predict_classes(result.original, X) == predict_classes(result.pruned, X)
        assert same[inside].all()
    assert bool(result.certificate.claim) == (result.status == "CERTIFIED")


@pytest.mark.parametrize("reweight", ["tree", "leaf"])
def test_ctrl_c_at_every_step_returns_the_best_certified_model(data, n_steps, reweight):
    model, X = data
    trees = []
    for number in sorted({*range(1, 12), *range(12, n_steps + 1, max(1, n_steps // 12))}):

        def press(step, number=number):
            if step.step == number:
                raise KeyboardInterrupt

        options = {"alpha": 0.2, "reweight": reweight, "callback": press}
        result = prune_booster(model, X[:250], X[250:], **options)
        _check(result, model, X)
        assert result.search.stopped in ("interrupted", "optimal")
        trees.append(result.certificate.trees_after)
    assert trees[0] == 10
    assert trees == sorted(trees, reverse=True)  # whoever waits longer gets no larger model
    assert trees[-1] < 10


def test_out_of_time_at_every_step_returns_a_certified_model_or_the_original(data, n_steps):
    model, X = data
    limit = 30.0
    seen = set()
    for number in sorted({*range(1, 8), *range(8, n_steps + 1, max(1, n_steps // 8))}):
        clock = _Clock()

        def wait(step, number=number, clock=clock):
            if step.step == number:
                clock.ahead = limit + 1

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "monotonic", clock)
            result = prune_booster(model, X[:250], X[250:], alpha=0.2, time_limit=limit, callback=wait)
        _check(result, model, X)
        seen.add(result.search.stopped)
    assert "time" in seen


class _Clock:
    """The monotonic clock, which can be put forward."""

    def __init__(self):
        self.ahead, self.real = 0.0, time.monotonic

    def __call__(self):
        return self.real() + self.ahead


class _PressedWhileFitting:
    """A score of the user's own, during whose fit Ctrl-C is pressed."""

    def tables(self, space):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_while_the_region_is_fitted_returns_the_original(data):
    model, X = data
    score = _PressedWhileFitting()
    swept = sweep(model, X[:250], X[250:], alphas=[0.1, 0.2], score=score)
    for result in (prune_booster(model, X[:250], X[250:], alpha=0.2, score=score), *swept):
        _check(result, model, X)
        assert result.status == "NOT_CERTIFIED"
        assert result.search.stopped == "interrupted"
        assert result.certificate.reason.startswith("The call was interrupted before the search began")
        assert result.region.tau is None


def test_ctrl_c_while_the_search_is_prepared_returns_the_original(data, monkeypatch):
    model, X = data
    monkeypatch.setattr(
        "pine_boost.search.search_state.distinct_fit_rows", lambda *_: signal.raise_signal(signal.SIGINT)
    )
    result = prune_booster(model, X[:250], X[250:], alpha=0.2)
    _check(result, model, X)
    assert result.status == "NOT_CERTIFIED"
    assert result.search.stopped == "interrupted"


@pytest.fixture(scope="module")
def boosted():
    X = np.random.default_rng(1).normal(size=(2000, 5))
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
    return ensemble.GradientBoostingClassifier(n_estimators=40, random_state=0).fit(X[:600], y[:600]), X


def _press_in(monkeypatch, stage):
    """Ctrl-C is pressed during a stage, the first time it runs; returns the seconds that it has the second time."""
    module, _, name = stage.rpartition(".")
    real, left = getattr(sys.modules[module], name), []

    def pressed(*given, **named):
        limited = [value for value in (*given, *named.values()) if isinstance(value, Budget)]
        left.append(min((budget.remaining for budget in limited), default=np.inf))
        if len(left) == 1:
            signal.raise_signal(signal.SIGINT)
        return real(*given, **named)

    monkeypatch.setattr(sys.modules[module], name, pressed)
    return left


@pytest.mark.parametrize("stage", ["set_up", "validate", "attack", "build_compress_result"])
def test_ctrl_c_in_a_compression_returns_what_may_be_claimed_by_then(boosted, stage, monkeypatch):
    model, X = boosted
    left = _press_in(monkeypatch, f"pine_boost.compress.{stage}")
    result = compress_booster(model, X[:600], X[600:], fidelity=0.95)
    assert left[0] > 10**6  # no limit
    assert max(left[1:], default=0) <= SECONDS["after Ctrl-C"]
    is_early = stage in ("set_up", "validate")  # the others come after all sizes were tested
    assert (result.stopped == "interrupted") == is_early
    assert result.status in ("VALIDATED", "NOT_VALIDATED")
    assert (result.model is model) == (result.status == "NOT_VALIDATED")
    assert verify_compression(model, result.model, result.record, X[600:]).agrees
    if not is_early:
        assert result.status == "VALIDATED"


def test_ctrl_c_on_the_path_of_a_compression_tests_what_was_found(boosted):
    model, X = boosted

    def press(step):
        if step.step == 15:
            raise KeyboardInterrupt

    result = compress_booster(model, X[:600], X[600:], fidelity=0.95, callback=press)
    assert result.record.stopped == "interrupted"
    assert result.status == "VALIDATED"
    assert result.leaves_after < result.leaves_before


@pytest.mark.parametrize(
    ("stage", "options"),
    [
        ("accelerate.proved_plan", {}),
        ("scoring.validated_exits.set_up", {"fidelity": 0.95}),
        ("scoring.validated_exits.build_stages", {"fidelity": 0.95}),
        ("scoring.validated_exits.validate_exits", {"fidelity": 0.95}),
    ],
)
def test_ctrl_c_while_a_scorer_is_made_returns_one_that_may_be_claimed(boosted, stage, options, monkeypatch):
    model, X = boosted
    left = _press_in(monkeypatch, f"pine_boost.{stage}")
    result = accelerate_booster(model, X[:600], X[600:] if options else None, **options)
    assert len(left) >= 2
    assert max(left[1:]) <= SECONDS["after Ctrl-C"]
    assert result.status in (("VALIDATED", "NOT_VALIDATED") if options else ("CERTIFIED",))
    assert result.facts["stopped"] == "interrupted"
    same = np.mean(result.scorer.predict(X) == model.predict(X))
    assert same >= (0.95 if result.status == "VALIDATED" else 1.0)


def test_the_command_that_was_interrupted_writes_its_scorer_and_says_so(boosted, monkeypatch, tmp_path, capsys):
    model, X = boosted
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    _press_in(monkeypatch, "pine_boost.accelerate.proved_plan")
    arguments = ["accelerate", str(tmp_path / "model.pkl"), "--trust-pickle", "-o", str(tmp_path / "scorer")]
    assert main(arguments) == 130
    assert "interrupted; wrote a scorer" in capsys.readouterr().err
    assert np.array_equal(load_scorer(tmp_path / "scorer").predict(X), model.predict(X))
    assert main(["verify", str(tmp_path / "model.pkl"), str(tmp_path / "scorer"), "--trust-pickle"]) == 0


def test_an_interrupted_command_measures_no_speed_and_writes_no_report(boosted, monkeypatch, tmp_path, capsys):
    model, X = boosted
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    for name, rows in (("fit", X[:600]), ("val", X[600:]), ("test", X[:100])):
        np.save(tmp_path / f"{name}.npy", rows)
    _press_in(monkeypatch, "pine_boost.compress.validate")
    monkeypatch.setattr("pine_boost.native.figures.time_calls", None)
    monkeypatch.setattr("pine_boost.compression.compress_result.CompressResult.evaluate", None)
    files = [str(tmp_path / name) for name in ("model.pkl", "fit.npy", "val.npy", "test.npy", "out")]
    names = ["compress", "--fit", "--val", "--test", "-o"]
    arguments = [word for pair in zip(names, files, strict=True) for word in pair]
    assert main([*arguments, "--fidelity", "0.95", "--trust-pickle"]) == 130
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["compression.json", "model.pkl"]
    said = capsys.readouterr()
    assert "interrupted; wrote what had passed" in said.err
    assert "Speed-up" not in said.out


@pytest.mark.parametrize("stage", ["set_up", "validate", "_measured"])
def test_ctrl_c_in_a_survey_leaves_a_second_for_the_rest(boosted, stage, monkeypatch):
    model, X = boosted
    left = _press_in(monkeypatch, f"pine_boost.surveying.{stage}")
    found = survey(model, X[:600], X[600:], time_limit=5)
    assert found.is_interrupted
    assert len(found.offers) == 13
    assert max(left[1:]) <= SECONDS["after Ctrl-C"]


@pytest.mark.parametrize(
    "stage",
    ["accelerate.flatten", "accelerate.parts_of_model", "simplification._simplified", "prune.build_prune_result"],
)
def test_ctrl_c_in_a_call_inside_a_survey_ends_all_that_follows(boosted, stage, monkeypatch):
    """A call that is interrupted before it has a budget raises; one that makes its result ignores it."""
    model, X = boosted
    _press_in(monkeypatch, f"pine_boost.{stage}")
    found = survey(model, X[:600], X[600:], time_limit=40)
    assert found.is_interrupted
    assert len(found.offers) == 13
    notes = [offer.note for offer in found.offers if offer.promise.startswith("a statistic")]
    assert notes == ["not tested in this time"] * 4


@pytest.mark.parametrize("is_proving", [True, False])
def test_ctrl_c_during_a_step_of_a_survey_ends_all_that_follows(boosted, is_proving):
    """A search that was interrupted returns its best, and the next one began, ten times."""
    model, X = boosted
    pressed = []

    def press(step):
        if not pressed and bool(step.tried) != is_proving:
            pressed.append(time.monotonic())
            raise KeyboardInterrupt

    found = survey(model, X[:600], X[600:], time_limit=40 if is_proving else 4, callback=press)
    assert found.is_interrupted
    assert time.monotonic() - pressed[0] < 10  # on a busy machine; the proofs alone had 20 s
    notes = [offer.note for offer in found.offers if offer.promise.startswith("a statistic")]
    assert notes == ["not tested in this time"] * 4 or not is_proving


def test_a_second_ctrl_c_is_raised(boosted, monkeypatch):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    model, X = boosted
    monkeypatch.setattr(sys.modules["pine_boost.compress"], "set_up", pressed)
    with pytest.raises(KeyboardInterrupt):
        compress_booster(model, X[:600], X[600:], fidelity=0.95)


def test_ctrl_c_while_a_serving_margin_is_looked_for_loses_nothing_but_the_margin(data, monkeypatch):
    model, X = data
    left = _press_in(monkeypatch, "pine_boost.build_result.find_margin")
    result = prune_booster(model, X[:250], X[250:], alpha=0.4, indifference=0.3)
    assert result.status == "CERTIFIED"
    assert len(left) == 2
    assert left[0] > 10**6 > SECONDS["after Ctrl-C"] >= left[1]


def test_after_ctrl_c_all_second_proofs_of_a_sweep_share_a_second(data, monkeypatch):
    model, X = data
    left = []
    finish = driver.finish

    def watch(state, budget, *larger):
        left.append(budget.remaining)
        return finish(state, budget, *larger)

    def press(alpha, step):
        if alpha == 0.1:  # the last of all
            raise KeyboardInterrupt

    monkeypatch.setattr(driver, "finish", watch)
    swept = sweep(model, X[:250], X[250:], alphas=[0.1, 0.2, 0.4], reweight="tree", callback=press)
    assert swept.alphas == (0.1, 0.2, 0.4)
    assert len(left) == 3
    assert max(left) <= SECONDS["after Ctrl-C"]
    for result in swept:
        _check(result, model, X)


def test_ctrl_c_in_a_sweep_keeps_what_was_done(data):
    model, X = data

    def press(alpha, step):
        if alpha == 0.2 and step.phase != "walks":
            raise KeyboardInterrupt

    swept = sweep(model, X[:250], X[250:], alphas=[0.1, 0.2, 0.4], callback=press)
    assert swept.alphas == (0.2, 0.4)
    assert swept[0.4].status == "CERTIFIED"
    for result in swept:
        _check(result, model, X)


def _hard_model():
    """A pigeonhole problem that CP-SAT does not finish in any time a test has."""
    model = cp_model.CpModel()
    n = 14
    sits = [[model.new_bool_var("") for _ in range(n)] for _ in range(n + 1)]
    for row in sits:
        model.add_bool_or(row)
    for hole in range(n):
        for one in range(n + 1):
            for other in range(one):
                model.add_bool_or([~sits[one][hole], ~sits[other][hole]])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.cp_model_presolve = False
    solver.parameters.linearization_level = 0
    solver.parameters.symmetry_level = 0
    solver.parameters.max_time_in_seconds = 600
    return solver, model


@pytest.mark.posix
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_inside_cp_sat_ends_it_and_the_signal_stays_pythons(n_jobs):
    handler = signal.getsignal(signal.SIGINT)
    problems = [_hard_model() for _ in range(n_jobs)]
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        solve_each(lambda stop, problem: stop.solve(*problem), problems, n_jobs)
    timer.join()
    assert signal.getsignal(signal.SIGINT) is handler
    # after a finished solve a Ctrl-C is still an exception and not the end of the process
    easy = cp_model.CpModel()
    easy.new_bool_var("")
    assert solve(cp_model.CpSolver(), easy) == cp_model.OPTIMAL
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_nothing_begins_after_a_stop():
    stop = Stop()
    stop.ask()
    assert stop.solve(*_hard_model()) == cp_model.UNKNOWN


def test_the_first_ctrl_c_of_a_conclusion_is_let_pass_and_the_second_is_not():
    with finishing():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), finishing():
        _press_twice()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_conclusion_inside_a_command_lets_the_first_ctrl_c_pass_too():
    with finishing(ignored=0) as presses:
        with finishing():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt), finishing(ignored=0):
                signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert len(presses) == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _press_twice():
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


# Each moment has a process of its own, forked from one that has imported and trained already.
_PROGRAM = textwrap.dedent(
    """
    import sys, threading, os, signal, warnings
    import numpy as np
    from sklearn.ensemble import GradientBoostingClassifier
    from pine_boost import prune_booster
    X = np.random.default_rng(0).normal(size=(500, 6))
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
    model = GradientBoostingClassifier(n_estimators=20, max_depth=3, random_state=0).fit(X, y)
    def run(seconds, jobs):
        armed = []
        def press(step):  # the clock runs from the first step of the search on
            if not armed:
                timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
                timer.daemon = True
                timer.start()
                armed.append(timer)
        result = prune_booster(model, X[:350], X[350:], alpha=0.1, n_jobs=jobs, callback=press)
        armed[0].cancel()
        c = result.certificate
        assert c.trees_after == 20 or result.status == "CERTIFIED"
        print("returned", result.status, result.search.stopped, c.trees_after)
    for seconds, jobs in zip(sys.argv[1::2], sys.argv[2::2]):
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # no thread is running here
            child = os.fork()
        if child == 0:
            run(float(seconds), int(jobs))
            sys.exit()
        print("ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
)
MOMENTS = ((0.02, 1), (0.4, 2), (0.9, 1))


@cache
def _run_and_press(moments):
    """What the process of each moment printed, and its exit code; and the errors of all."""
    arguments = [str(number) for moment in moments for number in moment]
    command = [sys.executable, "-W", "error", "-c", _PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300 * len(moments))
    assert done.returncode == 0, done.stderr[-2000:]
    return re.findall(r"(.*?)ended with (-?\d+)\n", done.stdout, re.DOTALL), done.stderr[-2000:]


def _check_pressed(moments, number):
    ends, errors = _run_and_press(moments)
    assert len(ends) == len(moments)
    printed, code = ends[number]
    assert code == "0", errors
    assert printed.startswith("returned"), printed


@pytest.mark.posix
@pytest.mark.parametrize(("seconds", "jobs"), MOMENTS)
def test_a_real_ctrl_c(seconds, jobs):
    _check_pressed(MOMENTS, MOMENTS.index((seconds, jobs)))


@pytest.mark.posix
@pytest.mark.slow
def test_real_ctrl_c_at_sixty_moments():
    for seconds in np.random.default_rng(1).uniform(0, 3, 60):
        _check_pressed(((float(seconds), 1 + int(seconds * 1000) % 2),), 0)
