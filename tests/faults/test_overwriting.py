"""Nothing of a user is replaced or removed: neither the model that is read nor a file of theirs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from pine_boost import Certificate, InvalidInputError, OutputError, prune_booster
from pine_boost.certificate.saved import owned_files, read_saved
from pine_boost.cli import main
from pine_boost.files import require_writable

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")


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
    xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1).fit(X, y).save_model(tmp_path / "model.json")
    np.save(tmp_path / "fit.npy", X[:200])
    np.save(tmp_path / "cal.npy", X[200:])
    return tmp_path


def _prune(place: Path, *arguments: str) -> int:
    return main(
        [
            "prune",
            str(place / "model.json"),
            "--fit",
            str(place / "fit.npy"),
            "--cal",
            str(place / "cal.npy"),
            "--alpha",
            "0.5",
            "--objective",
            "l1",
            "--no-report",
            *arguments,
        ]
    )


def test_the_original_is_never_replaced_by_the_result(place, capsys):
    before = (place / "model.json").read_bytes()
    for arguments in ([], ["--force"]):
        assert _prune(place, "-o", str(place), *arguments) == 1
        assert "is read here and would be replaced" in capsys.readouterr().err
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
    with pytest.raises(InvalidInputError, match=f"already holds {name}, which no certificate"):
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
    assert owned_files(folder) == {"model.txt", "region.json", "certificate.json"}
    (folder / "model.txt").write_text("retrained, by hand")
    assert owned_files(folder) == {"region.json", "certificate.json"}
    with pytest.raises(InvalidInputError, match=r"already holds model\.txt,"):
        results[0].save(folder)
    document = json.loads((folder / "certificate.json").read_text())
    (folder / "certificate.json").write_text(json.dumps({**document, "alpha": 0.1}))
    assert owned_files(folder) == frozenset()


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
    assert f"is a file; name a folder to write to. The result was kept in {kept}." in error
    assert read_saved(kept).certificate.status == "CERTIFIED"


def test_a_sweep_replaces_an_earlier_sweep_and_nothing_else(place, capsys):
    def sweep(*arguments: str) -> int:
        return main(
            [
                "sweep",
                str(place / "model.json"),
                "--fit",
                str(place / "fit.npy"),
                "--cal",
                str(place / "cal.npy"),
                "--objective",
                "l1",
                "--no-report",
                "-o",
                str(place / "out"),
                *arguments,
            ]
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


def test_a_search_is_not_lost_to_a_report_that_cannot_be_made(results, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise InvalidInputError("no report today")

    monkeypatch.setattr("pine_boost.report.prune_report.render_report", refuse)
    with pytest.raises(OutputError, match=r"no report today.*certificate are in"):
        results[0].save(tmp_path / "out")
    assert read_saved(tmp_path / "out").certificate == results[0].certificate


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
    arguments = [
        "prune",
        str(place / "model.json"),
        "--fit",
        str(place / "fit.npy"),
        "--cal",
        str(place / "cal.npy"),
        "--alpha",
        "0.5",
        "--objective",
        "l1",
        "-o",
        str(place / "out"),
    ]
    assert main(arguments) == 130
    assert f"interrupted; written to {place / 'out'}" in capsys.readouterr().err
    assert read_saved(place / "out").certificate.status == "CERTIFIED"
    monkeypatch.setattr("pine_boost.prune.prune_booster", interrupted)
    assert main([*arguments[:-1], str(place / "other")]) == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err
    assert not (place / "other").exists()
