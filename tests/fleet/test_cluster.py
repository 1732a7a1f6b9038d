"""The same fleet on a real Dask cluster of two processes, one of which is killed in the middle."""

import os
import pickle
import signal

import distributed
import numpy as np
import pytest
from sklearn import ensemble

from pine_boost import InvalidInputError
from pine_boost.fleet import Job, run_fleet

N_JOBS = 6


@pytest.fixture
def jobs(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 5))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    np.save(tmp_path / "fit.npy", X[:500])
    np.save(tmp_path / "cal.npy", X[500:])
    made = []
    for number in range(N_JOBS):
        model = ensemble.GradientBoostingClassifier(n_estimators=10, max_depth=2, subsample=0.7, random_state=number)
        path = tmp_path / f"model{number}.pkl"
        path.write_bytes(pickle.dumps(model.fit(X[:500], y[:500])))
        made.append(Job(f"job{number}", str(path), str(tmp_path / "fit.npy"), str(tmp_path / "cal.npy")))
    return made


def folders(out):
    return {path.name: path.stat().st_ino for path in out.iterdir() if path.is_dir()}


def warm_up():
    """Import what the jobs need."""
    import sklearn.ensemble

    import pine_boost.prune

    assert sklearn.ensemble
    assert pine_boost.prune


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")  # what a library says of a worker that was killed
def test_a_worker_is_killed_and_nothing_is_lost_or_done_twice(jobs, tmp_path):
    out = tmp_path / "out"
    options = {"alpha": 0.3, "time_limit": 60}
    killed = []
    seen = set()
    kept = {}
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(warm_up)  # so that both take part from the beginning

        def kill_one(row, done, total):
            seen.add(row.where)
            if len(seen) == 2 and not killed:
                # what another worker is writing just now has a temporary name
                kept.update({n: i for n, i in folders(out).items() if not n.startswith(".")})
                pids = list(client.run(os.getpid).values())
                assert len(set(pids)) == 2
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

        address = cluster.scheduler_address
        found = run_fleet(jobs, out, options=options, trust_pickle=True, dask=address, callback=kill_one)
        assert killed
        assert found.ok
        assert [row.name for row in found.rows] == [job.name for job in jobs]
        assert {row.status for row in found.rows} == {"CERTIFIED"}
        here = f":{os.getpid()}"
        assert not any(row.where.endswith(here) for row in found.rows)  # all on the cluster
        done = folders(out)
        assert set(done) == {job.name for job in jobs}
        assert {name: done[name] for name in kept} == kept  # what was done was left alone
        again = run_fleet(jobs, out, options=options, trust_pickle=True, dask=address)
        assert all(row.done_before for row in again.rows)
        assert folders(out) == done


def test_no_scheduler_there(jobs, tmp_path):
    import dask

    impatient = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with impatient, pytest.raises(InvalidInputError, match="No Dask scheduler answers"):
        run_fleet(jobs, tmp_path / "out", dask="tcp://127.0.0.1:9")
