"""Processes of a fleet: Ctrl-C ends them at every moment; a worker of a real Dask cluster is killed."""

import csv
import os
import pickle
import signal

import distributed
import numpy as np
import pytest
from sklearn import ensemble

from pine_boost import InvalidInputError
from pine_boost.cli import main
from pine_boost.fleet import NOT_RUN, Job, Policy, read_jobs, run_fleet, run_job
from tests.support.command_line import printed, write_inputs

pytestmark = [pytest.mark.posix, pytest.mark.usefixtures("python_hears_ctrl_c")]

OPTIONS = {"alpha": 0.3}
PRUNE = Policy("prune", OPTIONS, trust_pickle=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with four jobs of one small model."""
    folder = tmp_path_factory.mktemp("ctrl_c")
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)
    model.fit(X, X[:, 0] + X[:, 1] > 0)
    for name in ("de", "fr", "it", "jp"):
        (folder / name).mkdir()
        write_inputs(folder / name, model, fit=X[:200], cal=X[200:])
    return folder


def pressing(of, process=os.getpid):
    """A function that presses Ctrl-C and goes on as the one at a dotted name does."""
    module, name = of.rsplit(".", 1)
    real = getattr(__import__(module, fromlist=[name]), name)

    def press(*arguments, **options):
        os.kill(process(), signal.SIGINT)
        return real(*arguments, **options)

    return press


def statuses(out):
    with (out / "summary.csv").open() as file:
        return {line["name"]: line["status"] for line in csv.DictReader(file)}


# in the search, which answers with its best so far, and after it, where the first one is let pass
MOMENTS = ("pine_boost.search.algorithm.weigh", "pine_boost.prune.build_prune_result")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_that_was_interrupted_is_not_done(place, tmp_path, monkeypatch, moment):
    job = read_jobs(place)[0]
    with monkeypatch.context() as patch:
        patch.setattr(moment, pressing(moment))
        row = run_job(job, str(tmp_path), PRUNE)
    assert (row.status, row.error) == (NOT_RUN, "interrupted")
    assert not (tmp_path / "de").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert run_job(job, str(tmp_path), PRUNE).status == "CERTIFIED"


def test_a_compression_that_was_interrupted_is_not_done(place, tmp_path, monkeypatch, few_synthetic_rows):
    X = np.random.default_rng(1).normal(size=(400, 3))
    np.save(tmp_path / "val.npy", X)
    (job, *_) = read_jobs(place)
    job = type(job)("de", job.model, job.fit, val=str(tmp_path / "val.npy"))
    policy = Policy("compress", {"fidelity": 0.95}, trust_pickle=True)

    def interrupted(*_):  # by a program with a handler of its own
        raise KeyboardInterrupt

    monkeypatch.setattr("pine_boost.compression.path.build_equations", interrupted)
    assert run_job(job, str(tmp_path), policy).status == NOT_RUN
    assert not (tmp_path / "de").exists()


def test_no_further_job_begins_and_the_same_command_does_the_rest(place, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    arguments = ["fleet", str(place), "-o", str(out), "--alpha", "0.3", "--trust-pickle", "--workers", "1"]
    began = []

    def second_is_pressed(job, folder, policy):
        began.append(job.name)
        with monkeypatch.context() as patch:
            if len(began) == 2:
                patch.setattr(MOMENTS[0], pressing(MOMENTS[0]))
            return run_job(job, folder, policy)

    with monkeypatch.context() as patch:
        patch.setattr("pine_boost.fleet.run_job", second_is_pressed)
        assert main(arguments) == 130
    assert began == ["de", "fr"]
    said = capsys.readouterr().err
    assert "interrupted; 4 jobs: 1 CERTIFIED, 3 NOT_RUN" in said
    assert "The same command does the rest" in said
    assert statuses(out) == {"de": "CERTIFIED", "fr": NOT_RUN, "it": NOT_RUN, "jp": NOT_RUN}
    assert "4 jobs: 4 CERTIFIED (1 done before)" in printed(capsys, *arguments)


def child_is_pressed(job, folder, policy):
    """In a worker: Ctrl-C reaches this process only."""
    import pine_boost.search.algorithm as algorithm

    if job.name == "fr":
        algorithm.weigh = pressing(MOMENTS[0])
    return run_job(job, folder, policy)


def parent_is_pressed(job, folder, policy):
    """In a worker: Ctrl-C reaches the process that waits for it."""
    if job.name == "fr":
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()  # whoever does not end it waits for ever
    return run_job(job, folder, policy)


@pytest.mark.parametrize("run", [child_is_pressed, parent_is_pressed])
def test_a_pool_of_workers_ends_too(place, tmp_path, monkeypatch, run):
    with monkeypatch.context() as patch:
        patch.setattr("pine_boost.fleet.run_job", run)
        with pytest.raises(KeyboardInterrupt, match=r"4 jobs: .*NOT_RUN"):
            run_fleet(place, tmp_path / "out", options=OPTIONS, trust_pickle=True, n_jobs=2)
    assert statuses(tmp_path / "out")["fr"] == NOT_RUN
    assert not (tmp_path / "out" / "fr").exists()
    found = run_fleet(place, tmp_path / "out", options=OPTIONS, trust_pickle=True, n_jobs=1)
    assert found.ok
    assert {row.status for row in found.rows} == {"CERTIFIED"}


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
