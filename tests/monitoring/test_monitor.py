"""The monitor of a region: state, several writers, what drifted, recalibration, the command, the rate of alarms."""

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom
from sklearn import ensemble

from pine_boost.cli import main
from pine_boost.errors import InvalidInputError, MalformedModelError
from pine_boost.monitoring import RegionMonitor, recalibrate, region_monitor, watch
from pine_boost.monitoring.region_monitor import drift_evidence, log_evidence, most_outside, threshold_of
from pine_boost.options import SCORE_NAMES
from pine_boost.parsers import read_model
from pine_boost.region import fit_region
from tests.support.command_line import printed


def _rows(seed, n_rows, drifted=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[:, 1] = (-1 if drifted else 1) * X[:, 0] + 0.3 * X[:, 1]
    return X


@pytest.fixture(scope="module")
def model():
    X = _rows(0, 600)
    gb = ensemble.GradientBoostingClassifier(n_estimators=15, max_depth=3, random_state=0)
    return gb.fit(X, X.sum(axis=1) > 0)


@pytest.fixture(scope="module")
def region(model):
    return fit_region(read_model(model), _rows(1, 2000), _rows(2, 1000), alpha=0.1)


def test_quiet_inputs_raise_no_alarm_and_drifted_ones_do(region):
    watcher = RegionMonitor(region)
    for seed in range(3, 13):
        status = watcher.update(_rows(seed, 200))
        assert not status.alarm
    assert status.coverage.n_rows == 2000
    assert status.coverage.low < 0.9 < status.coverage.high + 0.03
    assert status.coverage.n_inside == sum(int(region.contains(_rows(seed, 200)).sum()) for seed in range(3, 13))
    quiet = max((drift.excess for drift in status.drifted), default=0.0)
    status = watcher.update(_rows(13, 300, drifted=True))
    assert status.alarm
    assert set(status.drifted[0].features) == {"f0", "f1"}
    assert status.drifted[0].excess > 3 * quiet
    assert "ALARM" in str(status)
    assert watcher.update(_rows(14, 200)).alarm  # it stays


@pytest.mark.parametrize("score", SCORE_NAMES)
def test_every_score_says_what_drifted(model, score):
    region = fit_region(read_model(model), _rows(1, 2000), _rows(2, 1000), alpha=0.1, score=score)
    status = RegionMonitor(region).update(_rows(13, 400, drifted=True))
    named = {feature for drift in status.drifted[:2] for feature in drift.features}
    assert named & {"f0", "f1"}


def test_a_restart_loses_nothing(region, tmp_path):
    state = tmp_path / "monitor.json"
    whole = RegionMonitor(region)
    for seed in range(6):
        X = _rows(seed, 50, drifted=seed > 3)
        expected = whole.update(X, name=str(seed))
        found = watch(region, X, state, name=str(seed))
        assert found == expected
    again = RegionMonitor.from_json(state.read_bytes(), region)
    assert again.status() == whole.status()
    assert state.stat().st_size < 10_000


def test_a_state_of_another_region_and_a_broken_one_are_refused(region, tmp_path):
    state = tmp_path / "monitor.json"
    watch(region, _rows(3, 50), state)
    with pytest.raises(InvalidInputError, match="another region"):
        watch(region.with_alpha(0.2), _rows(3, 50), state)
    document = json.loads(state.read_text())
    for change in (
        {"n_rows": 7},
        {"format_version": 9},
        {"level": 2.0},
        {"more": 1},
        {"n_inside": 3},
        {"n_measured": -1.0},
        {"largest_evidence": 0.1},
    ):
        state.write_text(json.dumps({**document, **change}))
        with pytest.raises(MalformedModelError, match="monitor state"):
            watch(region, _rows(3, 50), state)
    with pytest.raises(InvalidInputError, match="no rows"):
        RegionMonitor(region).update(_rows(3, 0))
    half = json.dumps(document)[:200]
    state.write_text(half)
    with pytest.raises(MalformedModelError, match="it is not JSON"):
        watch(region, _rows(3, 50), state)
    assert state.read_text() == half


def test_an_error_under_the_lock_is_its_own(region, tmp_path):
    """It was said to be one of the lock file, which had been written without trouble."""

    def margins():
        raise ValueError("my own")

    class Table:
        def __array__(self, *_, **__):
            margins()

    with pytest.raises(Exception, match=r"my own|not a table") as raised:
        watch(region, Table(), tmp_path / "state.json")
    assert "lock" not in str(raised.value)
    assert not (tmp_path / "state.json").exists()


def test_two_writers_lose_no_batch(region, tmp_path):
    state, saved = tmp_path / "monitor.json", tmp_path / "region.json"
    region.save(saved)
    code = (
        "import sys, numpy as np\n"
        "from pine_boost.monitoring import watch\n"
        "from pine_boost.region import Region\n"
        "region = Region.load(sys.argv[1])\n"
        "rng = np.random.default_rng(int(sys.argv[3]))\n"
        "for _ in range(15):\n"
        "    watch(region, rng.normal(size=(10, 4)), sys.argv[2])\n"
    )
    command = [sys.executable, "-c", code, str(saved), str(state)]
    writers = [subprocess.Popen([*command, str(seed)]) for seed in (1, 2)]
    assert [writer.wait(timeout=300) for writer in writers] == [0, 0]
    found = RegionMonitor.from_json(state.read_bytes(), region)
    assert (len(found.batches), found.n_rows) == (30, 300)


def test_old_batches_are_forgotten_one_by_one(region, monkeypatch):
    monkeypatch.setattr(region_monitor, "MOST_BATCHES", 5)
    watcher = RegionMonitor(region)
    for seed in range(9):
        watcher.update(_rows(seed, 30))
    assert (len(watcher.batches), watcher.n_dropped, watcher.n_rows) == (5, 4, 270)
    again = RegionMonitor.from_json(json.dumps(watcher.to_json()), region)
    assert again.status() == watcher.status()


def test_recalibration_inside_the_certified_tau(region):
    narrow = _rows(20, 1500)[np.argsort(region.score(_rows(20, 1500)))[:1000]]
    found = recalibrate(region, narrow)
    assert found.is_covered
    assert found.region.tau <= region.tau
    assert found.region.n_cal == 1000
    inside = found.region.contains(narrow)
    assert inside.mean() >= 0.9
    assert region.contains(narrow)[inside].all()  # a part of what the certificate covers
    assert "covers the smaller region" in str(found)


def test_recalibration_beyond_the_certified_tau(region):
    drifted = np.concatenate([_rows(21, 700), _rows(22, 300, drifted=True)])
    found = recalibrate(region, drifted)
    assert not found.is_covered
    assert found.tau_needed > region.tau
    assert found.region.tau == region.tau
    assert found.alpha == pytest.approx(1 - region.contains(drifted).sum() / 1001)
    assert "run the search again" in found.text
    fresh = np.concatenate([_rows(23, 7000), _rows(24, 3000, drifted=True)])
    assert found.region.contains(fresh).mean() > 1 - found.alpha - 0.05


def test_what_cannot_be_monitored_is_refused(model):
    everything = fit_region(read_model(model), alpha=0)
    with pytest.raises(InvalidInputError, match="nothing to monitor"):
        RegionMonitor(everything)
    with pytest.raises(InvalidInputError, match="no tau"):
        recalibrate(everything, _rows(1, 10))


def test_the_command(region, tmp_path, capsys):
    region.save(tmp_path / "region.json")
    state, page = tmp_path / "state.json", tmp_path / "page.html"
    files = []
    for seed, drifted in ((30, False), (31, False), (32, True)):
        files.append(tmp_path / f"{seed}.npy")
        np.save(files[-1], _rows(seed, 400, drifted))
    common = ["monitor", str(tmp_path / "region.json")]
    rest = ["--state", str(state), "--page", str(page)]
    assert "ok" in printed(capsys, *common, files[0], files[1], *rest)
    assert main([*common, str(files[1]), *rest]) == 0  # counted before
    assert json.loads(state.read_text())["n_rows"] == 800
    capsys.readouterr()
    assert main([*common, str(files[2]), *rest, "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["alarm"] is True
    text = page.read_text()
    assert "ALARM" in text
    assert "<svg" in text
    assert "f1 given f0" in text or "f0 given f1" in text


def test_rows_of_a_pipeline_are_prepared_before_anything_is_measured():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pine_boost import prune_booster

    scale = np.array([1.0, 10.0, 100.0, 1000.0])
    rows = [7 + scale * _rows(seed, 800) for seed in range(4)]
    gb = ensemble.GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0)
    y = ((rows[0] - 7) / scale).sum(axis=1) > 0
    pipeline = make_pipeline(StandardScaler(), gb).fit(rows[0], y)
    result = prune_booster(pipeline, rows[0], rows[1], alpha=0.1, reweight="tree")
    region, whole, inner = result.region, RegionMonitor(result.region), RegionMonitor(result.inner.region)
    prepared = pipeline[:-1].transform(rows[2])
    assert whole.update(rows[2]).drifted == inner.update(prepared).drifted
    fresh = recalibrate(region, rows[3])
    again = recalibrate(result.inner.region, pipeline[:-1].transform(rows[3]))
    assert (fresh.text, fresh.alpha) == (again.text, again.alpha)
    assert fresh.region.contains(rows[3]).mean() > 0.85


LEVEL, ALPHA, N_CAL, N_BATCHES, BATCH = 0.05, 0.1, 300, 60, 25


@pytest.mark.parametrize(("n_rows", "n_outside"), [(10, 0), (10, 4), (40, 40), (200, 31)])
def test_the_mixture_is_the_integral_of_likelihood_ratios(n_rows, n_outside):
    limit = 0.12

    def ratio(q):
        inside = n_rows - n_outside
        return (q / limit) ** n_outside * ((1 - q) / (1 - limit)) ** inside / (1 - limit)

    expected, _ = quad(ratio, limit, 1, limit=200)
    found = float(np.exp(log_evidence(n_rows, n_outside, limit)))
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("share", [0.02, 0.08, 0.12])
def test_the_evidence_is_a_supermartingale_up_to_the_limit(share):
    """From every history the expected evidence after one more batch is not larger."""
    limit, size = 0.12, 7
    rng = np.random.default_rng(0)
    for n_batches in (0, 1, 5, 20):
        before = rng.binomial(size, share, n_batches).tolist()
        now = drift_evidence([size] * n_batches, before, limit) if n_batches else 1.0
        outcomes = [drift_evidence([size] * (n_batches + 1), [*before, s], limit) for s in range(size + 1)]
        mean = float(np.dot(binom.pmf(np.arange(size + 1), size, share), outcomes))
        assert mean <= now * (1 + 1e-9)


def _outside(rng, n_streams):
    """Recalibrate for every stream, then count live rows outside: (n_streams, n_batches)."""
    rank = int(np.ceil((N_CAL + 1) * (1 - ALPHA)))
    tau = np.sort(rng.random((n_streams, N_CAL)), axis=1)[:, rank - 1]
    return rng.binomial(BATCH, (1 - tau)[:, None], (n_streams, N_BATCHES))


def _alarms(outside):
    """The batch of the first alarm of each stream, N_BATCHES where there is none."""
    limit, threshold = most_outside(N_CAL, ALPHA, LEVEL), threshold_of(LEVEL)
    first = np.full(len(outside), N_BATCHES)
    for stream, counts in enumerate(outside):
        for batch in range(N_BATCHES):
            if drift_evidence([BATCH] * (batch + 1), counts[: batch + 1], limit) >= threshold:
                first[stream] = batch
                break
    return first


def test_looking_every_day_costs_no_validity_over_2000_streams():
    outside = _outside(np.random.default_rng(1), 2000)
    false_alarms = int((_alarms(outside) < N_BATCHES).sum())
    assert false_alarms <= binom.ppf(0.999, 2000, LEVEL)
    # what a daily test of the same level would have done
    total = np.cumsum(outside, axis=1)
    rows = BATCH * np.arange(1, N_BATCHES + 1)
    naive = int((binom.sf(total - 1, rows, ALPHA) < LEVEL).any(axis=1).sum())
    assert naive > 3 * LEVEL * 2000


def test_a_drift_that_begins_late_is_seen_soon():
    rng = np.random.default_rng(2)
    outside = _outside(rng, 200)
    begin = 30
    outside[:, begin:] = rng.binomial(BATCH, 0.35, (200, N_BATCHES - begin))
    first = _alarms(outside)
    assert np.mean(first < N_BATCHES) > 0.99
    assert np.median(first[first >= begin]) - begin <= 8
