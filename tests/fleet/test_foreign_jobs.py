"""What does not belong to a fleet is never replaced or removed, and is found before the work."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn import ensemble

from pine_boost import InvalidInputError
from pine_boost.fleet import RECORD, Job, Policy, run_fleet, run_job
from pine_boost.folders import owned_in
from pine_boost.json_fields import digest_of
from tests.support.command_line import write_inputs

POLICY = Policy("prune", {"alpha": 0.3}, trust_pickle=True)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    X = np.random.default_rng(0).normal(size=(600, 3))
    model = ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)
    write_inputs(folder, model.fit(X[:300], X[:300, 0] > 0), fit=X[:300], cal=X[300:])
    return Job("a", *(str(folder / name) for name in ("model.pkl", "fit.npy", "cal.npy")))


def test_a_record_that_names_files_elsewhere_removes_none(job, tmp_path):
    out = tmp_path / "out"
    assert run_job(job, str(out), POLICY).status == "CERTIFIED"
    mine = tmp_path / "mine.txt"
    mine.write_text("my own")
    record = json.loads((out / "a" / "job.json").read_text())
    record["files"]["../../mine.txt"] = hashlib.sha256(mine.read_bytes()).hexdigest()
    record["digest"] = digest_of(record)
    (out / "a" / "job.json").write_text(json.dumps(record))
    row = run_job(job, str(out), Policy("prune", {"alpha": 0.4}, trust_pickle=True))
    assert row.status == "FAILED"  # the folder is no longer one of ours
    assert "already holds" in row.error
    assert mine.read_text() == "my own"
    assert owned_in(out / "a", RECORD) == frozenset()
    (out / "a" / RECORD).write_text("[" * 100_000)
    assert owned_in(out / "a", RECORD) == frozenset()


def test_names_and_options_that_cannot_end_well_are_refused(job, tmp_path):
    taken = Job("Summary.csv", job.model, job.fit, job.cal)
    with pytest.raises(InvalidInputError, match="summary of the fleet has this name"):
        run_fleet([taken], tmp_path / "out")
    with pytest.raises(InvalidInputError, match=r"prune does not have \['alhpa'\]; it has alpha, "):
        run_fleet([job], tmp_path / "out", options={"alhpa": 0.1})
    assert not (tmp_path / "out").exists()


def test_an_old_result_that_was_left_aside_is_swept_up(job, tmp_path):
    """Killed between moving the old result aside and the new one into its place."""
    out = tmp_path / "out"
    run_job(job, str(out), POLICY)
    left = out / ".a.abcd1234.pine_boost"
    left.mkdir()
    (out / "a").rename(left / "old")
    other = out / ".a.old.efgh5678.pine_boost"  # of a job called a.old, perhaps being written right now
    other.mkdir()
    (other / "model.pkl").write_text("half written")
    row = run_job(job, str(out), POLICY)
    assert row.status == "CERTIFIED"
    assert not row.done_before
    assert {path.name for path in out.iterdir()} == {"a", ".a.old.efgh5678.pine_boost"}


def test_what_a_worker_that_was_given_up_did_meanwhile_is_left_alone(job, tmp_path, monkeypatch):
    from pine_boost import fleet as work

    real, nested = work._make_smaller, []

    def slowly(job, policy):
        monkeypatch.setattr(work, "_make_smaller", real)  # only this one is slow
        nested.append(run_job(job, str(tmp_path), policy))
        return real(job, policy)

    monkeypatch.setattr(work, "_make_smaller", slowly)
    row = run_job(job, str(tmp_path), POLICY)
    assert [other.status for other in nested] == ["CERTIFIED"]
    assert not nested[0].done_before
    assert row.done_before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_relative_paths_become_absolute(job, tmp_path, monkeypatch):
    """A worker of a cluster was started in another folder."""
    from pine_boost.fleet import check_jobs

    folder = Path(job.model).parent
    monkeypatch.chdir(folder)
    (checked,) = check_jobs([Job("a", "model.pkl", "fit.npy", "cal.npy")])
    assert checked.inputs == job.inputs
    assert checked.val == ""
