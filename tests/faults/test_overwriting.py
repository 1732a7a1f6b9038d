"""Nothing of a user is replaced or removed unasked: neither the model that is read nor a file of theirs."""

import json
import os
import shutil

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pine_boost import Certificate, InvalidInputError, OutputError, prune_booster
from pine_boost.certificate.saved import CERTIFICATE, SWEEP_JSON, read_saved
from pine_boost.cli import main
from pine_boost.errors import CertificateMismatch, MalformedModelError
from pine_boost.files import clear_errors, write_file
from pine_boost.fleet import _STARTS, run_fleet
from pine_boost.folders import owned_in, remove_leftovers, require_writable
from pine_boost.json_fields import write_document
from pine_boost.monitoring.region_monitor import watch
from pine_boost.scoring.guards import verify_guarded
from pine_boost.scoring.scorer_folder import load_scorer
from tests.support.command_line import exit_code, refused, words, write_inputs
from tests.support.scorer_folders import rewrite


@pytest.fixture(scope="module")
def table():
    X = np.random.default_rng(0).normal(size=(400, 4))
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.7).astype(int)


@pytest.fixture(scope="module")
def results(table):
    """Results of two libraries: model.txt and model.json."""
    X, y = table
    models = (
        lightgbm.LGBMClassifier(n_estimators=6, num_leaves=3, n_jobs=1, verbose=-1).fit(X, y),
        xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1).fit(X, y),
    )
    return [prune_booster(model, X[:200], X[200:], alpha=0.5) for model in models]


@pytest.fixture
def place(table, tmp_path):
    """A folder with a model called model.json and tables, as a user has it."""
    X, y = table
    model = xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1).fit(X, y)
    write_inputs(tmp_path, model, fit=X[:200], cal=X[200:])
    return tmp_path


def _prune(place, *arguments):
    return main(
        words(
            f"prune {place}/model.json --fit {place}/fit.npy --cal {place}/cal.npy --alpha 0.5 "
            "--objective l1 --no-report",
            *arguments,
        )
    )


@pytest.mark.posix
def test_the_original_is_never_replaced_by_the_result(place, capsys):
    before = (place / "model.json").read_bytes()
    for arguments in ([], ["--force"]):
        assert _prune(place, "-o", str(place), *arguments) == 1
        assert "is an input of this command and would be replaced" in capsys.readouterr().err
    link = place / "link"
    link.mkdir()
    (link / "model.json").symlink_to(place / "model.json")
    assert _prune(place, "-o", str(link), "--force") == 1
    assert (place / "model.json").read_bytes() == before
    assert not (place / "certificate.json").exists()


@pytest.mark.parametrize("name", ["model.txt", "region.json", "report.html", "certificate.json"])
def test_files_of_others_are_neither_replaced_nor_removed(results, tmp_path, name):
    (tmp_path / name).write_text("mine")
    (tmp_path / "model.ubj").write_text("mine, too")
    with pytest.raises(InvalidInputError, match=f"already holds {name}, which may not have been written by pine_boost"):
        results[0].save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["model.ubj", name])
    assert (tmp_path / name).read_text() == "mine"
    results[0].save(tmp_path, overwrite=True)
    assert (tmp_path / name).read_text() != "mine"
    assert (tmp_path / "model.ubj").read_text() == "mine, too"
    assert read_saved(tmp_path).model.name == "model.txt"


def test_files_of_an_earlier_result_are_replaced_and_only_those(results, tmp_path):
    results[0].save(tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    (tmp_path / "out" / "model.ubj").write_text("mine, too")
    results[1].save(tmp_path / "out", report=False)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    # model.txt and the report were the earlier result's, and it named them
    assert names == {"model.json", "model.ubj", "notes.txt", "region.json", "certificate.json"}
    assert os.listdir(tmp_path) == ["out"]
    assert read_saved(tmp_path / "out").certificate.status == "CERTIFIED"


def test_a_result_that_was_changed_since_is_no_longer_ours(results, tmp_path):
    folder = results[0].save(tmp_path / "out", report=False)
    assert owned_in(folder, CERTIFICATE) == {"model.txt", "region.json", "certificate.json"}
    (folder / "model.txt").write_text("retrained, by hand")
    assert owned_in(folder, CERTIFICATE) == {"region.json", "certificate.json"}
    with pytest.raises(InvalidInputError, match=r"already holds model\.txt,"):
        results[0].save(folder)
    document = json.loads((folder / "certificate.json").read_text())
    (folder / "certificate.json").write_text(json.dumps({**document, "alpha": 0.1}))
    assert owned_in(folder, CERTIFICATE) == frozenset()


def test_a_report_that_was_edited_is_somebody_elses(results, tmp_path, capsys):
    folder = results[0].save(tmp_path / "out")
    page = folder / "report.html"
    edited = page.read_text().replace("</main>", "<p>discussed on Monday</p></main>")
    page.write_text(edited)
    with pytest.raises(InvalidInputError, match=r"already holds report\.html,"):
        results[0].save(folder)
    assert "report.html was changed since it was written, or is not a page" in refused(capsys, "report", folder)
    assert page.read_text() == edited
    assert exit_code("report", folder, "--force") == 0
    assert "Monday" not in page.read_text()
    assert exit_code("report", folder) == 0  # our own page needs no --force
    results[0].save(folder)


def test_report_replaces_no_page_of_others(made, tmp_path, capsys):
    page = shutil.copytree(made / "scorer", tmp_path / "scorer") / "report.html"
    page.write_text("<html>the quarterly report</html>")
    assert exit_code("report", tmp_path / "scorer") == 1
    assert page.read_text() == "<html>the quarterly report</html>"


def test_the_page_of_an_earlier_scorer_goes_with_it(made, tmp_path):
    folder = tmp_path / "scorer"
    calls = (
        ("accelerate", made / "model.json", "-o", folder),
        ("guard", made / "pruned", "--original", made / "model.json", "-o", folder),
    )
    for number, call in enumerate(calls):
        assert exit_code(*call) == 0
        assert exit_code("report", folder) == 0
        (folder / "notes.txt").write_text("mine")
        assert exit_code(*call) == 0
        assert not (folder / "report.html").exists()
        assert (folder / "notes.txt").exists()
        if number == 0:
            assert exit_code("report", folder) == 0
            (folder / "report.html").write_text("mine")
            assert exit_code(*call) == 0
            assert (folder / "report.html").read_text() == "mine"
            shutil.rmtree(folder)


def test_a_manifest_of_a_stranger_owns_no_page_and_no_file_that_cannot_exist(tmp_path):
    (tmp_path / "report.html").write_text("a page of mine")

    def owned(model_digest):
        files = {"n" * 300: "0", "\ud800": "0", "a\0b": "0", "": "0"}
        fields = {"original_digest": model_digest, "pruned_digest": model_digest, "files": files}
        (tmp_path / CERTIFICATE).write_text(json.dumps(write_document(fields, "pine_boost certificate", sealed=True)))
        return owned_in(tmp_path, CERTIFICATE)

    assert owned("") == owned("page") == owned("\ud800") == set()
    assert owned("0" * 64) == {CERTIFICATE}


def test_a_certificate_names_its_files_and_reads_back_equal(results, tmp_path):
    folder = results[0].save(tmp_path / "out", report=False)
    read = Certificate.load(folder / "certificate.json")
    assert set(read.files) == {"model.txt", "region.json"}
    assert read == results[0].certificate
    assert read.date == results[0].certificate.date
    read.save(tmp_path / "again.json")
    assert Certificate.load(tmp_path / "again.json").files == read.files


def test_what_was_written_is_listed_and_nothing_else(place, capsys):
    (place / "out").mkdir()
    (place / "out" / "notes.txt").write_text("mine")
    assert _prune(place, "-o", str(place / "out")) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"Written to {place / 'out'}: certificate.json, model.json, region.json"


def test_a_place_that_cannot_be_written_is_told_before_the_search(place, capsys, monkeypatch):
    def search(*_, **__):
        raise AssertionError("searched before the place was looked at")

    monkeypatch.setattr("pine_boost.prune.prune_booster", search)
    (place / "taken").write_text("")
    for target in (place / "taken", place / "taken" / "deeper", "/proc/pine", ""):
        assert _prune(place, "-o", str(target)) == 1
        assert capsys.readouterr().err.count("\n") == 1
    assert sorted(os.listdir(place)) == ["cal.npy", "fit.npy", "model.json", "taken"]


def test_a_survey_that_is_read_is_never_replaced(place, capsys):
    (place / "out").mkdir()
    (place / "out" / "certificate.json").write_text("a survey of this name")
    assert _prune(place, "-o", f"{place}/out", "--spent", f"{place}/out/certificate.json", "--force") == 1
    assert "is an input of this command and would be replaced" in capsys.readouterr().err


@pytest.mark.parametrize("page", ["pruned/region.json", "model.json", "fit.npy"])
def test_a_page_of_a_monitor_replaces_no_input(page, place, capsys):
    (place / "pruned").mkdir()
    (place / "pruned" / "region.json").write_text("a region")
    before = (place / page).read_bytes()
    command = f"monitor {place}/pruned {place}/fit.npy --state {place}/state.json --model {place}/model.json"
    assert main(words(f"{command} --page {place / page} --force")) == 1
    assert "is an input of this command" in capsys.readouterr().err
    assert (place / page).read_bytes() == before


def test_trying_a_place_leaves_nothing_behind(tmp_path):
    require_writable(tmp_path / "a" / "b" / "c")
    require_writable(tmp_path)
    assert os.listdir(tmp_path) == []
    with pytest.raises(OutputError, match="cannot be written"):
        require_writable("/proc/a/b")


def test_a_result_that_cannot_be_written_after_all_is_kept_elsewhere(place, capsys, monkeypatch):
    from pine_boost.prune import prune_booster as real

    def search(*arguments, **options):
        result = real(*arguments, **options)
        (place / "out").write_text("somebody made this during the search")
        return result

    monkeypatch.setattr("pine_boost.prune.prune_booster", search)
    assert _prune(place, "-o", str(place / "out")) == 1
    error = capsys.readouterr().err
    kept = place / "out-kept-1"
    assert f"is a file; choose a folder to write to. The result was kept in {kept}." in error
    assert read_saved(kept).certificate.status == "CERTIFIED"


def test_a_sweep_replaces_an_earlier_sweep_and_nothing_else(place, capsys):
    def sweep(*arguments):
        return main(
            words(
                f"sweep {place}/model.json --fit {place}/fit.npy --cal {place}/cal.npy --objective l1 "
                f"--no-report -o {place}/out",
                *arguments,
            )
        )

    assert sweep("--alphas", "0.3,0.5") == 0
    assert sweep("--alphas", "0.4,0.5") == 0
    names = {path.name for path in (place / "out").iterdir()}
    assert names == {"alpha-0.4", "alpha-0.5", "sweep.csv", "sweep.json"}
    (place / "out" / "sweep.csv").write_text("mine")
    assert sweep("--alphas", "0.5") == 1
    assert "already holds sweep.csv" in capsys.readouterr().err
    assert (place / "out" / "sweep.csv").read_text() == "mine"
    assert (place / "out" / "alpha-0.4").is_dir()


@pytest.mark.parametrize("more", [{"more": 1}, {"bound": "\ud800"}, {"bound": [1]}])
def test_a_table_of_a_sweep_that_was_changed_is_nobodys(more, tmp_path):
    row = {"alpha": 0.1, "removed": 0.5, "trees": 3, "status": "CERTIFIED", "bound": 1}
    (tmp_path / SWEEP_JSON).write_text(json.dumps([row, row]))
    assert owned_in(tmp_path, SWEEP_JSON) == {SWEEP_JSON}
    (tmp_path / SWEEP_JSON).write_text(json.dumps([row, row | more]))
    assert owned_in(tmp_path, SWEEP_JSON) == set()


def test_a_search_is_not_lost_to_a_report_that_cannot_be_made(results, table, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise InvalidInputError("no report today")

    monkeypatch.setattr("pine_boost.report.prune_report.render_report", refuse)
    X, y = table
    pipeline = make_pipeline(StandardScaler(), xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1))
    whole = prune_booster(pipeline.fit(X, y), X[:200], X[200:], alpha=0.5)
    for result, name in ((results[0], "plain"), (whole, "whole")):
        with pytest.raises(OutputError, match=r"no report today.*certificate are in"):
            result.save(tmp_path / name)
        assert read_saved(tmp_path / name).certificate == result.certificate


@pytest.mark.parametrize("error", [InvalidInputError, OutputError])
def test_a_search_is_not_lost_to_an_exporter_that_refuses(table, monkeypatch, error):
    """Whatever class of ours an exporter raises: the original is returned, and it says why."""
    X, y = table
    model = lightgbm.LGBMClassifier(n_estimators=6, num_leaves=3, n_jobs=1, verbose=-1).fit(X, y)

    def refuse(*_, **__):
        raise error("these weights have no place in this file")

    monkeypatch.setattr("pine_boost.build_result.export", refuse)
    result = prune_booster(model, X[:200], X[200:], alpha=0.5)
    assert result.status == "NOT_CERTIFIED"
    assert "these weights have no place" in result.certificate.reason
    assert result.model is model


def test_who_interrupts_the_report_is_told_that_the_result_is_there(place, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pine_boost.report.prune_report.render_report", interrupted)
    arguments = words(
        f"prune {place}/model.json --fit {place}/fit.npy --cal {place}/cal.npy --alpha 0.5 "
        f"--objective l1 -o {place}/out"
    )
    assert main(arguments) == 130
    assert f"interrupted; written to {place / 'out'}" in capsys.readouterr().err
    assert read_saved(place / "out").certificate.status == "CERTIFIED"
    monkeypatch.setattr("pine_boost.prune.prune_booster", interrupted)
    assert main([*arguments[:-1], str(place / "other")]) == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err
    assert not (place / "other").exists()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    X = np.random.default_rng(0).normal(size=(900, 3))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.7).astype(int)
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(X[:300], y[:300])
    write_inputs(folder, model, fit=X[:300], cal=X[300:600], val=X[600:])
    original = str(folder / "model.json")
    prune_booster(original, X[:300], X[300:600], alpha=0.4).save(folder / "pruned", report=False)
    assert exit_code("guard", folder / "pruned", "--original", original, "-o", folder / "scorer") == 0
    return folder


def _contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def _commands(folder, target):
    model, fit, cal, val = (folder / n for n in ("model.json", "fit.npy", "cal.npy", "val.npy"))
    return {
        "score": ["score", folder / "scorer", val, "-o", target],
        "monitor": ["monitor", folder / "pruned", val, "--state", folder / "state.json", "--page", target],
        "survey": ["survey", model, "--fit", fit, "--look", cal, "--time-limit", "1", "-o", target],
        "simplify": ["simplify", model, "-o", target],
        "export": ["export", model, "--to", "onnx", "--data", val, "-o", target],
        "export to treelite": ["export", model, "--to", "treelite", "-o", target],
        "export to c": ["export", model, "--to", "c", "-o", target],
    }


READ = [
    ("score", "val.npy"),
    ("monitor", "val.npy"),
    ("survey", "fit.npy"),
    ("survey", "cal.npy"),
    ("survey", "model.json"),
    ("simplify", "model.json"),
    ("export", "val.npy"),
    ("export", "model.json"),
]


@pytest.mark.parametrize(("command", "name"), READ)
def test_what_is_read_is_never_replaced(made, command, name, capsys):
    before = _contents(made)
    for force in ([], ["--force"]):
        assert exit_code(*_commands(made, made / name)[command], *force) == 1
        error = capsys.readouterr().err
        assert "is an input of this command" in error
        assert error.count("\n") == 1
        assert _contents(made) == before


@pytest.mark.parametrize(
    "command", ["score", "monitor", "survey", "simplify", "export", "export to treelite", "export to c"]
)
def test_a_file_of_somebody_else_is_replaced_only_by_force(made, command, tmp_path, capsys):
    target = tmp_path / "theirs.json"
    target.write_text("the only copy")
    call = _commands(made, target)[command]
    assert exit_code(*call) == 1
    error = capsys.readouterr().err
    assert "theirs.json exists" in error
    assert error.count("\n") == 1
    assert target.read_text() == "the only copy"
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.json"]
    assert exit_code(*call, "--force") in (0, 3)
    assert target.read_bytes() != b"the only copy"


@pytest.mark.parametrize("command", ["score", "monitor"])
def test_an_earlier_output_is_replaced(made, command, tmp_path):
    target = tmp_path / "today"
    for _ in range(2):
        assert exit_code(*_commands(made, target)[command]) in (0, 3)
    assert target.stat().st_size > 0


def test_a_file_that_is_no_state_is_neither_counted_into_nor_locked(made, tmp_path):
    from pine_boost import Region

    target = tmp_path / "model.json"
    target.write_text("{}")
    region = Region.load(made / "pruned" / "region.json")
    with pytest.raises(Exception, match="monitor state"):
        watch(region, np.load(made / "val.npy"), target)
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_guard_lists_what_it_wrote_and_nothing_else(made, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    call = ["guard", made / "pruned", "--original", made / "model.json", "-o", tmp_path]
    assert exit_code(*call) == 0
    assert "notes.txt" not in capsys.readouterr().out
    (tmp_path / "region.json").write_text("edited since")
    assert "--force" in refused(capsys, *call)
    assert exit_code(*call, "--force") == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "changes",
    [
        {"files": 5},
        {"files": ["a"]},
        {"classes": [1]},
        {"classes": None},
        {"thresholds": "x"},
        {"guard": [1]},
        {"guard": {"distance": "far"}},
        {"claim": "On every input, it is right."},
        {"status": "VALIDATED"},
        {"more": 1},
    ],
)
def test_a_forged_manifest_is_refused_in_one_sentence(made, changes, tmp_path):
    call = ["guard", made / "pruned", "--original", made / "model.json", "-o", tmp_path / "s"]
    assert exit_code(*call) == 0
    rewrite(tmp_path / "s", change_manifest=lambda manifest: manifest.update(changes))
    with pytest.raises(MalformedModelError if changes == {"classes": [1]} else CertificateMismatch):
        # the sentence follows from the certificate, which the kernel does not read
        (verify_guarded if "claim" in changes else load_scorer)(tmp_path / "s")


def test_a_manifest_with_a_key_twice_is_refused(made, tmp_path):
    call = ["guard", made / "pruned", "--original", made / "model.json", "-o", tmp_path / "s"]
    assert exit_code(*call) == 0
    path = tmp_path / "s" / "scorer.json"
    path.write_text(path.read_text().replace('"guard"', '"guard": null,\n "guard"'))
    with pytest.raises(CertificateMismatch, match="twice"):
        load_scorer(tmp_path / "s")


def test_a_fleet_replaces_no_summary_of_others_and_not_its_own_list(made, tmp_path):
    line = f"a,{made / 'model.json'},{made / 'fit.npy'},{made / 'cal.npy'}\n"
    jobs = tmp_path / "summary.csv"
    jobs.write_text("name,model,fit,cal\n" + line)
    with pytest.raises(InvalidInputError, match="is not the summary of a fleet"):
        run_fleet(jobs, tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    (out / "summary.html").write_text("<p>of the quarter</p>")
    with pytest.raises(InvalidInputError, match="is not the summary of a fleet"):
        run_fleet(jobs, out)
    assert (out / "summary.html").read_text() == "<p>of the quarter</p>"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["out", "summary.csv", "summary.html"]
    (out / "summary.html").unlink()
    (out / "summary.csv").write_bytes(_STARTS["summary.csv"])  # of an earlier run
    assert run_fleet(jobs, out, options={"alpha": 0.4, "objective": "l1"}, n_jobs=1).rows
    assert len((out / "summary.csv").read_text().splitlines()) == 2


def test_a_fleet_sweeps_up_nothing_but_its_own(tmp_path):
    theirs = [".sales.archived", ".sales.abcd1234", ".sales.old.abcd1234.pine_boost", ".other.abcd1234.pine_boost"]
    for name in (*theirs, ".sales.abcd1234.pine_boost"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    remove_leftovers(tmp_path / "sales")
    assert {path.name for path in tmp_path.iterdir()} == set(theirs)


def test_a_folder_that_lacks_is_named(tmp_path):
    target = tmp_path / "nodir" / "x.txt"
    message = r"there is no folder '.*nodir'; make it"
    with pytest.raises(OutputError, match=message), clear_errors(target):
        write_file(target, b"")
