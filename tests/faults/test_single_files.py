"""Commands that write one file: what is read and what others wrote is never replaced unasked."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pine_boost import InvalidInputError, prune_booster
from pine_boost.cli import main
from pine_boost.errors import CertificateMismatch, OutputError
from pine_boost.files import UNFINISHED, clear_errors, write_file
from pine_boost.fleet.run import RECORD, _owned, _remove_leftovers, _summary_csv, run_fleet
from pine_boost.json_fields import canonical
from pine_boost.monitoring.state import watch
from pine_boost.serving.folder import load_guarded

xgboost = pytest.importorskip("xgboost")


@pytest.fixture(scope="module")
def made(tmp_path_factory: Any) -> Path:
    folder: Path = tmp_path_factory.mktemp("made")
    X = np.random.default_rng(0).normal(size=(900, 3))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.7).astype(int)
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(X[:300], y[:300])
    model.save_model(folder / "model.json")
    for name, part in (("fit", X[:300]), ("cal", X[300:600]), ("val", X[600:])):
        np.save(folder / f"{name}.npy", part)
    original = str(folder / "model.json")
    prune_booster(original, X[:300], X[300:600], alpha=0.4).save(folder / "pruned", report=False)
    assert run("guard", folder / "pruned", "--original", original, "-o", folder / "scorer") == 0
    return folder


def run(*arguments: Any) -> int:
    return main([str(argument) for argument in arguments])


def _contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def _commands(folder: Path, target: Path) -> dict[str, list[Any]]:
    model, fit, cal, val = (folder / n for n in ("model.json", "fit.npy", "cal.npy", "val.npy"))
    return {
        "score": ["score", folder / "scorer", val, "-o", target],
        "monitor": ["monitor", folder / "pruned", val, "--state", folder / "state.json", "--page", target],
        "survey": ["survey", model, "--fit", fit, "--look", cal, "--time-limit", "1", "-o", target],
        "simplify": ["simplify", model, "-o", target],
        "export": ["export", model, "--to", "onnx", "--data", val, "-o", target],
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
def test_what_is_read_is_never_replaced(made: Path, command: str, name: str, capsys: Any) -> None:
    before = _contents(made)
    for force in ([], ["--force"]):
        assert run(*_commands(made, made / name)[command], *force) == 1
        assert "is read here" in capsys.readouterr().err
        assert _contents(made) == before


@pytest.mark.parametrize("command", ["score", "monitor", "survey", "simplify", "export"])
def test_a_file_of_somebody_else_is_replaced_only_by_force(
    made: Path, command: str, tmp_path: Path, capsys: Any
) -> None:
    target = tmp_path / "theirs.json"
    target.write_text("the only copy")
    assert run(*_commands(made, target)[command]) == 1
    assert "theirs.json exists" in capsys.readouterr().err
    assert target.read_text() == "the only copy"
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.json"]


@pytest.mark.parametrize("command", ["score", "monitor"])
def test_an_earlier_output_is_replaced(made: Path, command: str, tmp_path: Path) -> None:
    target = tmp_path / "today"
    for _ in range(2):
        assert run(*_commands(made, target)[command]) in (0, 3)
    assert target.stat().st_size > 0


def test_a_file_that_is_no_state_is_neither_counted_into_nor_locked(made: Path, tmp_path: Path) -> None:
    from pine_boost import Region

    target = tmp_path / "model.json"
    target.write_text("{}")
    region = Region.load(made / "pruned" / "region.json")
    with pytest.raises(Exception, match="monitor state"):
        watch(region, np.load(made / "val.npy"), target)
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_guard_lists_what_it_wrote_and_nothing_else(made: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    call = ["guard", made / "pruned", "--original", made / "model.json", "-o", tmp_path]
    assert run(*call) == 0
    assert "notes.txt" not in capsys.readouterr().out
    (tmp_path / "region.json").write_text("edited since")
    assert run(*call) == 1
    assert "--force" in capsys.readouterr().err
    assert run(*call, "--force") == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


def _forge(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / "guarded.json").read_text())
    del manifest["digest"]
    manifest.update(changes)
    manifest["digest"] = hashlib.sha256(canonical(manifest).encode()).hexdigest()
    (folder / "guarded.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "changes",
    [
        {"files": 5},
        {"files": ["a"]},
        {"classes": [1]},
        {"classes": None},
        {"thresholds": "x"},
        {"margin": [1]},
        {"margin": {"distance": "far"}},
        {"more": 1},
    ],
)
def test_a_forged_manifest_is_refused_in_one_sentence(made: Path, changes: dict[str, Any], tmp_path: Path) -> None:
    call = ["guard", made / "pruned", "--original", made / "model.json", "-o", tmp_path / "s"]
    assert run(*call) == 0
    _forge(tmp_path / "s", **changes)
    with pytest.raises(CertificateMismatch):
        load_guarded(tmp_path / "s")


def test_a_manifest_with_a_key_twice_is_refused(made: Path, tmp_path: Path) -> None:
    call = ["guard", made / "pruned", "--original", made / "model.json", "-o", tmp_path / "s"]
    assert run(*call) == 0
    path = tmp_path / "s" / "guarded.json"
    path.write_text(path.read_text().replace('"margin"', '"margin": null,\n "margin"'))
    with pytest.raises(CertificateMismatch, match="twice"):
        load_guarded(tmp_path / "s")


def test_a_fleet_replaces_no_summary_of_others_and_not_its_own_list(made: Path, tmp_path: Path) -> None:
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
    (out / "summary.html").unlink()
    (out / "summary.csv").write_bytes(_summary_csv([]))  # of an earlier run
    assert run_fleet(jobs, out, options={"alpha": 0.4, "objective": "l1"}, n_jobs=1).rows
    assert len((out / "summary.csv").read_text().splitlines()) == 2


def test_a_fleet_sweeps_up_nothing_but_its_own(tmp_path: Path) -> None:
    theirs, ours = tmp_path / ".sales.archived", tmp_path / f".sales.abcd1234{UNFINISHED}"
    for folder in (theirs, ours):
        folder.mkdir()
        (folder / "file").write_text("x")
    _remove_leftovers(tmp_path / "sales")
    assert theirs.is_dir()
    assert not ours.exists()


def test_a_forged_record_of_a_fleet_owns_nothing_outside_its_folder(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("x")
    target = tmp_path / "job"
    target.mkdir()
    digest = hashlib.sha256(b"x").hexdigest()
    record = {
        "format": "pine_boost fleet job",
        "files": {"../precious": digest},
        "row": {"name": "job", "status": "CERTIFIED"},
    }
    (target / RECORD).write_text(json.dumps(record))
    assert _owned(target) == []
    (target / RECORD).write_text("[" * 100_000)
    assert _owned(target) == []


def test_a_folder_that_lacks_is_named(tmp_path: Path) -> None:
    target = tmp_path / "nodir" / "x.txt"
    message = r"there is no folder '.*nodir'; make it"
    with pytest.raises(OutputError, match=message), clear_errors(target):
        write_file(target, b"")
