"""A fleet does every job once, survives what fails, and goes on where it stopped."""

import argparse
import csv
import json
import os
import pickle
import shutil
from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn import datasets, ensemble

from pine_boost import InvalidInputError, Region, load_scorer, survey
from pine_boost.certificate.certificate import Certificate
from pine_boost.cli import build_parser, main
from pine_boost.fleet import Job, Policy, read_jobs, run_fleet, run_job
from pine_boost.options import Options, fleet_options, option_of
from tests.support.command_line import refused, words, write_inputs
from tests.support.native_models import CATBOOST_QUIET
from tests.support.verifying import verify_folder

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

OPTIONS = {"alpha": 0.3, "time_limit": 30}
PRUNE = Policy("prune", OPTIONS, trust_pickle=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with three models, their tables, and jobs.csv."""
    folder = tmp_path_factory.mktemp("fleet")
    X, y = datasets.load_breast_cancer(return_X_y=True)
    X = X[:, :5]
    rows = []
    for number, name in enumerate(("de", "fr", "jp")):
        model = ensemble.GradientBoostingClassifier(n_estimators=4 + number, max_depth=2)
        model.fit(X[:250], y[:250])
        (folder / name).mkdir()
        write_inputs(folder / name, model, fit=X[:250], cal=X[250:450])
        rows.append([name, f"{name}/model.pkl", f"{name}/fit.npy", f"{name}/cal.npy"])
    with (folder / "jobs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["name", "model", "fit", "cal"], *rows])
    return folder


def subcommands():
    actions = build_parser()._actions
    return dict(next(a for a in actions if isinstance(a, argparse._SubParsersAction)).choices)


def inodes(folder):
    return {path.name: path.stat().st_ino for path in folder.iterdir() if path.is_dir()}


def test_every_job_gets_its_folder_and_a_second_run_does_nothing(place, tmp_path):
    seen = []
    found = run_fleet(
        place / "jobs.csv",
        tmp_path / "out",
        options=OPTIONS,
        trust_pickle=True,
        n_jobs=2,
        callback=lambda row, done, total: seen.append((row.name, done, total)),
    )
    assert found.ok
    assert [row.name for row in found.rows] == ["de", "fr", "jp"]
    assert {row.status for row in found.rows} == {"CERTIFIED"}
    assert sorted(name for name, _, _ in seen) == ["de", "fr", "jp"]
    assert [done for _, done, _ in seen] == [1, 2, 3]
    assert "3 jobs: 3 CERTIFIED" in found.summary()
    folder = tmp_path / "out" / "jp"
    assert {path.name for path in folder.iterdir()} == {"model.pkl", "region.json", "certificate.json", "job.json"}
    assert verify_folder(place / "jp" / "model.pkl", folder, trust_pickle=True).agrees
    lines = list(csv.DictReader((tmp_path / "out" / "summary.csv").read_text().splitlines()))
    assert [line["trees_before"] for line in lines] == ["4", "5", "6"]
    page = (tmp_path / "out" / "summary.html").read_text()
    assert "none failed" in page
    assert "http" not in page.replace("http-equiv", "")
    before = inodes(tmp_path / "out")
    again = run_fleet(place / "jobs.csv", tmp_path / "out", options=OPTIONS, trust_pickle=True, n_jobs=2)
    assert all(row.done_before for row in again.rows)
    assert inodes(tmp_path / "out") == before
    assert "3 done before" in again.summary()


@pytest.mark.parametrize("method", ["prune", "compress", "accelerate"])
def test_a_catboost_file_is_a_job_of_every_method(place, tmp_path, method):
    import catboost

    X, y = datasets.load_breast_cancer(return_X_y=True)
    model = catboost.CatBoostClassifier(iterations=8, **CATBOOST_QUIET).fit(X[:250, :5], y[:250])
    model.save_model(str(tmp_path / "model.json"), format="json")
    fit, unseen = (str(place / "de" / name) for name in ("fit.npy", "cal.npy"))
    others = {"prune": {"cal": unseen}, "compress": {"val": unseen}, "accelerate": {}}[method]
    job = Job("cat", str(tmp_path / "model.json"), fit, **others)
    options = {"prune": OPTIONS, "compress": {"fidelity": 0.9}, "accelerate": {}}[method]
    found = run_fleet([job], tmp_path / "out", method=method, options=options)
    assert found.ok, found.summary()
    assert found.rows[0].status == ("VALIDATED" if method == "compress" else "CERTIFIED")
    rows = ["--val", unseen] if method == "compress" else []
    assert main(["verify", job.model, str(tmp_path / "out" / "cat"), *rows]) == 0


def test_only_what_changed_is_done_again(place, tmp_path):
    work = tmp_path / "work"
    shutil.copytree(place, work)
    jobs = read_jobs(work / "jobs.csv")
    first = {job.name: run_job(job, str(tmp_path / "out"), PRUNE) for job in jobs[:2]}
    assert not any(row.done_before for row in first.values())
    # another table: done again
    fit = np.load(work / "de" / "fit.npy")
    np.save(work / "de" / "fit.npy", fit[:-1])
    assert not run_job(jobs[0], str(tmp_path / "out"), PRUNE).done_before
    assert run_job(jobs[1], str(tmp_path / "out"), PRUNE).done_before
    # another policy, another threshold, a damaged or missing file of the result: done again
    assert not run_job(jobs[1], str(tmp_path / "out"), Policy("prune", {"alpha": 0.4}, trust_pickle=True)).done_before
    assert not run_job(jobs[1], str(tmp_path / "out"), PRUNE).done_before
    assert not run_job(replace(jobs[1], options={"threshold": 0.3}), str(tmp_path / "out"), PRUNE).done_before
    region = tmp_path / "out" / "fr" / "region.json"
    assert not run_job(jobs[1], str(tmp_path / "out"), PRUNE).done_before
    region.unlink()
    assert not run_job(jobs[1], str(tmp_path / "out"), PRUNE).done_before
    assert Region.load(region).alpha == 0.3


def test_a_failing_model_stops_no_other_and_comes_first(place, tmp_path):
    jobs = list(read_jobs(place / "jobs.csv"))
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"learner": <b>')
    jobs += [replace(jobs[0], name="zz-damaged", model=str(damaged)), replace(jobs[1], name="no-cal", cal="")]
    found = run_fleet(jobs, tmp_path / "out", options=OPTIONS, trust_pickle=True, n_jobs=2)
    assert not found.ok
    assert [row.name for row in found.rows] == ["no-cal", "zz-damaged", "de", "fr", "jp"]
    assert "no cal" in found.rows[0].error
    assert not (tmp_path / "out" / "zz-damaged").exists()
    page = (tmp_path / "out" / "summary.html").read_text()
    assert "2 failed" in page
    assert page.index("zz-damaged") < page.index(">de<")
    assert "<b>" not in page


def test_a_missing_file_of_one_job_stops_no_other(place, tmp_path, capsys):
    work = tmp_path / "work"
    shutil.copytree(place / "de", work / "de")
    (work / "no-fit").mkdir()
    shutil.copy(place / "fr" / "model.pkl", work / "no-fit")
    listed = [*read_jobs(work), Job("nowhere", "nowhere.json", "nowhere.npy")]
    found = run_fleet(listed, tmp_path / "out", options=OPTIONS, trust_pickle=True, n_jobs=1)
    errors = {row.name: row.error for row in found.rows}
    assert [row.status for row in found.rows] == ["FAILED", "FAILED", "CERTIFIED"]
    assert "no fit" in errors["no-fit"]
    assert "nowhere.json does not exist; correct the path" in errors["nowhere"]
    (work / "jobs.csv").write_text(
        "name,model,fit,cal\nde,de/model.pkl,de/fit.npy,de/cal.npy\na,de/model.pkl,m.npy,m.npy\n"
    )
    arguments = words(f"fleet {work}/jobs.csv -o {tmp_path}/out --alpha 0.3 --time-limit 30 --trust-pickle --workers 1")
    assert main(arguments) == 1
    assert "1 CERTIFIED, 1 FAILED" in capsys.readouterr().out


def test_the_pool_works_through_the_whole_list(place, tmp_path, monkeypatch):
    """It took the jobs from a dictionary that shrank meanwhile, and the rest ran one by one."""

    def never(*_):
        raise AssertionError("no process died")

    monkeypatch.setattr("pine_boost.fleet._alone", never)
    jobs = [replace(job, name=f"{job.name}{n}") for n in range(2) for job in read_jobs(place)]
    for n_jobs in (1, 2):
        out = tmp_path / f"{n_jobs}"
        found = run_fleet(jobs, out, options=OPTIONS, trust_pickle=True, n_jobs=n_jobs)
        assert {row.status for row in found.rows} == {"CERTIFIED"}


def die(job, folder, policy):
    """What a crash of a library does to its process."""
    if job.name == "fr":
        os._exit(1)
    return run_job(job, folder, policy)


@pytest.mark.filterwarnings("ignore")  # joblib's remarks on a worker that died
def test_a_process_that_dies_takes_only_its_own_job(place, tmp_path, monkeypatch):
    monkeypatch.setattr("pine_boost.fleet.run_job", die)
    found = run_fleet(place / "jobs.csv", tmp_path / "out", options=OPTIONS, trust_pickle=True, n_jobs=2)
    assert {row.name: row.status for row in found.rows} == {"fr": "FAILED", "de": "CERTIFIED", "jp": "CERTIFIED"}
    assert "process died" in found.failed[0].error


def test_what_a_killed_process_left_behind_is_swept_up(place, tmp_path):
    (job, *_) = read_jobs(place / "jobs.csv")
    out = tmp_path / "out"
    (out / ".de.abcd1234.pine_boost").mkdir(parents=True)
    # of a job called de.x, perhaps being written right now, and of somebody else
    others = {".de.x.abcd1234.pine_boost", ".de.abcd1234"}
    for name in others:
        (out / name).mkdir()
    assert run_job(job, str(out), PRUNE).status == "CERTIFIED"
    assert {path.name for path in out.iterdir()} == {"de", *others}


def test_files_of_somebody_else_are_never_replaced(place, tmp_path):
    (job, *_) = read_jobs(place / "jobs.csv")
    mine = tmp_path / "out" / "de"
    mine.mkdir(parents=True)
    (mine / "model.pkl").write_text("my own")
    row = run_job(job, str(tmp_path / "out"), PRUNE)
    assert row.status == "FAILED"
    assert "already holds model.pkl" in row.error
    assert (mine / "model.pkl").read_text() == "my own"


def test_an_interrupted_run_says_how_far_it_came(place, tmp_path):
    def stop(row, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_fleet(place / "jobs.csv", tmp_path / "out", options=OPTIONS, trust_pickle=True, n_jobs=1, callback=stop)
    lines = list(csv.DictReader((tmp_path / "out" / "summary.csv").read_text().splitlines()))
    assert sorted(line["status"] for line in lines) == ["CERTIFIED", "NOT_RUN", "NOT_RUN"]
    found = run_fleet(place / "jobs.csv", tmp_path / "out", options=OPTIONS, trust_pickle=True, n_jobs=1)
    assert sum(row.done_before for row in found.rows) == 1
    assert found.ok


def test_a_folder_of_folders_and_the_command_line(place, tmp_path, capsys):
    jobs = read_jobs(place)
    assert [job.name for job in jobs] == ["de", "fr", "jp"]
    assert jobs == read_jobs(place / "jobs.csv")
    arguments = ["fleet", str(place), "-o", str(tmp_path / "out"), "--alpha", "0.3", "--trust-pickle", "--workers"]
    assert main([*arguments, "1"]) == 0
    printed = capsys.readouterr()
    assert "3 jobs: 3 CERTIFIED" in printed.out
    assert "3/3" in printed.err
    assert main([*arguments, "1", "--json"]) == 0
    assert all(row["done_before"] for row in json.loads(capsys.readouterr().out))
    (place / "jobs2.csv").write_text("name,model,fit\nde,de/model.pkl,de/fit.npy\n")
    assert main(["fleet", str(place / "jobs2.csv"), "-o", str(tmp_path / "out2")]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "columns none"),
        ("name,model,fit,owner\n", "accepted are name, model, fit, cal, val and the options alpha"),
        ("name,model,fit\n", "no jobs"),
        ("name,model,fit\na,m.json\n", "line 2: not as many cells"),
        ("name,model,fit\na,m.json,f.npy,more\n", "line 2: not as many cells"),
        ("name,model,fit\n,m.json,f.npy\n", "line 2: name is empty"),
        ("name,model,fit\n../a,m.json,f.npy\n", "a name becomes a folder"),
        ("name,model,fit\na,jobs.csv,jobs.csv\nA,jobs.csv,jobs.csv\n", "must be unique"),
        ("name,model,fit,threshold\na,jobs.csv,jobs.csv,high\n", "threshold must not be 'high'"),
    ],
)
def test_lists_that_cannot_be_run_are_refused_before_any_work(text, message, tmp_path):
    (tmp_path / "jobs.csv").write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        read_jobs(tmp_path / "jobs.csv")


def test_an_option_of_a_job_that_cannot_be_run_fails_that_job(place, tmp_path):
    wrong = [replace(job, options={"alpha": 7}) for job in read_jobs(place / "jobs.csv")]
    assert len(run_fleet(wrong, tmp_path / "out", n_jobs=1).failed) == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "shrink"}, "method must be 'prune', 'compress' or 'accelerate', got 'shrink'"),
        ({"options": {"domain": object()}}, "cannot be written down"),
        ({"options": {"alpha": 7}}, "alpha must be a number"),
        ({"options": {"minimize": "work"}}, "prune does not have"),
        ({"jobs": []}, "no jobs"),
        ({"n_jobs": 0}, "n_jobs must be a positive integer or -1, got 0"),
        ({"n_jobs": "two"}, "n_jobs must be"),
        ({"reports": "yes"}, "reports must be True or False"),
        ({"trust_pickle": 1}, "trust_pickle must be True or False"),
        ({"callback": 3}, "callback must be callable"),
        ({"dask": 8786}, "dask must be a text or None"),
        ({"options": 3}, "options must be a mapping"),
        ({"folder": 3}, "3 is not the path of a folder"),
        ({"jobs": 3}, "jobs must be a path or Jobs, got 3"),
        ({"jobs": [("a", "m.pkl")]}, "jobs must be a path or Jobs, got"),
        ({"jobs": [Job(3, "model.json")]}, "Job 3: a name becomes a folder"),
        ({"jobs": [Job("a", 3)]}, "3 is not the path of a model"),
        ({"jobs": [Job("a", "model.json", options=3)]}, "options must be a mapping"),
    ],
    ids=range(18),
)
def test_calls_that_cannot_be_run_are_refused_before_any_work(wrong, message, place, tmp_path):
    with pytest.raises(InvalidInputError, match=message):
        run_fleet(**({"jobs": place / "jobs.csv", "folder": tmp_path / "out"} | wrong))
    with pytest.raises(InvalidInputError, match="3 is not the path of a list of jobs"):
        read_jobs(3)
    assert not (tmp_path / "out").exists()


def test_compressing_needs_rows_to_validate_on(place, tmp_path):
    rng = np.random.default_rng(0)
    fit = np.load(place / "de" / "fit.npy")
    val = fit[rng.integers(0, len(fit), 400)] * rng.normal(1, 0.02, (400, 5))
    np.save(tmp_path / "val.npy", val)
    jobs = [replace(job, val=str(tmp_path / "val.npy")) for job in read_jobs(place)[:1]]
    jobs.append(read_jobs(place)[1])
    policy = {"fidelity": 0.95}
    found = run_fleet(jobs, tmp_path / "out", method="compress", options=policy, n_jobs=1, trust_pickle=True)
    assert {row.name: row.status for row in found.rows} == {"fr": "FAILED", "de": "VALIDATED"}
    assert "no val" in found.failed[0].error
    assert (tmp_path / "out" / "de" / "compression.json").is_file()
    again = run_fleet(jobs, tmp_path / "out", method="compress", options=policy, n_jobs=1, trust_pickle=True)
    assert [row.done_before for row in again.rows] == [False, True]


def test_the_command_takes_every_option_of_the_three_methods(place, tmp_path, capsys):
    fleet = subcommands()["fleet"]
    flags = {flag for action in fleet._actions for flag in action.option_strings}
    for method in ("prune", "compress", "accelerate"):
        names = {option_of(f"{method}_booster", name).flag_name for name in fleet_options(method)}
        assert names - {""} <= flags
        own = {flag for action in subcommands()[method]._actions for flag in action.option_strings}
        of_one_model = {"--fit", "--cal", "--val", "--test", "--label", "--force", "--no-report", "--jobs", "--speedup"}
        assert own - of_one_model <= flags
    shown = {action.dest: action.help for action in fleet._actions}
    assert "for compress, 1 for accelerate" in shown["fidelity"]
    assert shown["minimize"].endswith(f"(compress; default: {option_of('compress_booster', 'minimize').default}).")
    rows = np.load(place / "de" / "cal.npy")
    np.save(tmp_path / "val.npy", rows)
    (tmp_path / "jobs.csv").write_text(f"name,model,fit,val\nde,{place}/de/model.pkl,{place}/de/fit.npy,val.npy\n")
    command = [
        "fleet",
        str(tmp_path / "jobs.csv"),
        "-o",
        str(tmp_path / "out"),
        "--method",
        "compress",
        "--workers",
        "1",
    ]
    command += ["--trust-pickle", "--fidelity", "0.9", "--tolerance", "0.3", "--minimize", "trees"]
    assert main(command) in (0, 2)
    record = json.loads((tmp_path / "out" / "de" / "compression.json").read_text())
    assert (record["tolerance"], record["minimize"], record["fidelity"]) == (0.3, "trees", 0.9)
    model = pickle.loads((place / "de" / "model.pkl").read_bytes())
    labelled = "\n".join(
        ",".join(map(repr, [*row, int(label)])) for row, label in zip(rows.tolist(), model.predict(rows), strict=True)
    )
    (tmp_path / "val.csv").write_text(f"a,b,c,d,e,target\n{labelled}\n")
    (tmp_path / "labels.csv").write_text(
        f"name,model,fit,val,label\nde,{place}/de/model.pkl,{place}/de/fit.npy,val.csv,target\n"
    )
    policy = ["--method", "compress", "--workers", "1", "--trust-pickle", "--max-loss", "0.1"]
    assert main(["fleet", str(tmp_path / "labels.csv"), "-o", str(tmp_path / "by-loss"), *policy]) in (0, 2)
    record = json.loads((tmp_path / "by-loss" / "de" / "compression.json").read_text())
    assert (record["max_loss"], record["status"]) == (0.1, "NON_INFERIOR")
    looked = survey(
        pickle.loads((place / "de" / "model.pkl").read_bytes()), np.load(place / "de" / "fit.npy"), rows, time_limit=2
    )
    looked.save(tmp_path / "survey.json")
    capsys.readouterr()
    assert "survey" in refused(capsys, *command, "--spent", tmp_path / "survey.json")


def test_every_option_may_be_given_per_job_or_for_all(place, tmp_path):
    """A column of jobs.csv holds for its job and takes precedence over the policy."""
    assert set(fleet_options("prune")) == {f.name for f in fields(Options)} - {"callback", "verbose", "n_jobs"} | {
        "spent"
    }
    (tmp_path / "domain.json").write_text('{"never_missing": true}')
    (tmp_path / "jobs.csv").write_text(
        "name,model,fit,cal,alpha,objective,threshold,allow_overlap,domain\n"
        f"own,{place}/de/model.pkl,{place}/de/fit.npy,{place}/de/cal.npy,0.5,l1,0.4 0.6,true,domain.json\n"
        f"all,{place}/de/model.pkl,{place}/de/fit.npy,{place}/de/cal.npy,,,,,\n"
    )
    jobs = {job.name: job for job in read_jobs(tmp_path / "jobs.csv")}
    own = {"alpha": 0.5, "objective": "l1", "threshold": (0.4, 0.6), "allow_overlap": True}
    assert jobs["own"].options == {**own, "domain": str(tmp_path / "domain.json")}
    assert jobs["all"].options == {}
    options = {**OPTIONS, "objective": "l0"}
    found = run_fleet(tmp_path / "jobs.csv", tmp_path / "out", options=options, trust_pickle=True, n_jobs=1)
    assert found.ok
    certificates = {name: Certificate.load(tmp_path / "out" / name / "certificate.json") for name in jobs}
    assert (certificates["own"].alpha, certificates["own"].thresholds) == (0.5, (0.4, 0.6))
    assert certificates["own"].objective == "l1"
    assert (certificates["all"].alpha, certificates["all"].objective) == (0.3, "l0")
    again = run_fleet(tmp_path / "jobs.csv", tmp_path / "out", options=options, trust_pickle=True, n_jobs=1)
    assert all(row.done_before for row in again.rows)
    (tmp_path / "domain.json").write_text('{"never_missing": false}')
    again = run_fleet(tmp_path / "jobs.csv", tmp_path / "out", options=options, trust_pickle=True, n_jobs=1)
    assert {row.name: row.done_before for row in again.rows} == {"own": False, "all": True}
    with pytest.raises(InvalidInputError, match=r"Job 'own': compress does not have \['alpha'"):
        run_fleet(tmp_path / "jobs.csv", tmp_path / "out", method="compress")


def test_a_fleet_of_scorers_needs_no_tables(place, tmp_path):
    jobs = [Job(job.name, job.model) for job in read_jobs(place)]
    found = run_fleet(jobs, tmp_path / "out", method="accelerate", trust_pickle=True, n_jobs=1)
    assert {row.status for row in found.rows} == {"CERTIFIED"}
    X = np.load(place / "de" / "cal.npy")
    model = pickle.loads((place / "de" / "model.pkl").read_bytes())
    assert np.array_equal(load_scorer(tmp_path / "out" / "de").predict(X), model.predict(X))
    again = run_fleet(jobs, tmp_path / "out", method="accelerate", trust_pickle=True, n_jobs=1)
    assert all(row.done_before for row in again.rows)
