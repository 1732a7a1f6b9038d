"""guard and score: from a result on disk to classes of a table."""

import csv
import json

import numpy as np
import pytest
import xgboost
from sklearn import datasets

from pine_boost import compress_booster, prune_booster
from tests.support.command_line import exit_code, printed, refused, write_inputs
from tests.support.scorer_folders import rewrite

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guard")
    X, y = datasets.make_moons(4000, noise=0.3, random_state=0)
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=2, n_jobs=1).fit(X[:600], y[:600])
    write_inputs(folder, model, fresh=X[1200:], val=X[600:1200])
    model.set_params(n_estimators=4).fit(X[:600], y[:600]).save_model(folder / "other.json")
    original = str(folder / "model.json")
    prune_booster(original, X[:600], X[600:1200], alpha=0.2).save(folder / "pruned", report=False)
    compress_booster(original, X[:600], X[600:1200], fidelity=0.9).save(folder / "compressed")
    return folder


def test_a_certified_result_is_guarded_and_scores_as_the_original(place, tmp_path, capsys):
    asked = ["guard", place / "pruned", "--original", place / "model.json", "-o", tmp_path / "s"]
    assert exit_code(*asked, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["status"], document["margin"], document["folder"]) == ("CERTIFIED", None, str(tmp_path / "s"))
    assert document["claim"].startswith("On every input, the guarded model")
    assert document["files"] == sorted(path.name for path in (tmp_path / "s").iterdir())
    assert exit_code(*asked) == 0
    said = capsys.readouterr().out
    assert "CERTIFIED: 10 -> " in said
    assert " trees, guarded by the region\nOn every input, the guarded model" in said
    assert exit_code("score", tmp_path / "s", place / "fresh.npy", "-o", tmp_path / "out.csv", "--proba") == 0
    assert "2800 rows: the smaller model answered" in capsys.readouterr().out
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    booster = xgboost.Booster(model_file=place / "model.json")
    proba = booster.predict(xgboost.DMatrix(np.load(place / "fresh.npy")))
    assert np.array_equal(np.array([row["p_1"] for row in rows], dtype=np.float32), proba)
    expected = proba > 0.5
    assert [int(row["class"]) for row in rows] == expected.astype(int).tolist()
    assert {row["answered_by"] for row in rows} == {"pruned", "original"}


def test_a_compressed_result_needs_fresh_rows(place, tmp_path, capsys):
    start = ["guard", place / "compressed", "--original", place / "model.json", "-o", tmp_path / "s"]
    assert "no certified region" in refused(capsys, *start)
    assert "chose the size" in refused(capsys, *start, "--val", place / "val.npy", "--fidelity", "0.9")
    assert "not a proof" in printed(capsys, *start, "--val", place / "fresh.npy", "--fidelity", "0.99")
    assert exit_code("score", tmp_path / "s", place / "fresh.npy", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"] == 2800 == document["guarded"] + document["fallbacks"]


def test_a_guarded_folder_is_verified(place, tmp_path, capsys):
    model = place / "model.json"
    assert exit_code("guard", place / "pruned", "--original", model, "-o", tmp_path / "s") == 0
    capsys.readouterr()
    assert exit_code("verify", model, tmp_path / "s") == 0
    said = capsys.readouterr().out
    assert said.startswith("AGREES")
    assert "On every input, the guarded model" in said
    assert exit_code("verify", model, tmp_path / "s", "--json") == 0
    assert json.loads(capsys.readouterr().out)["proved_twice"]
    assert "original" in refused(capsys, "verify", place / "other.json", tmp_path / "s")
    assert "names its certificate and region by digest" in refused(capsys, "verify", model, tmp_path / "s", "--record")
    assert "leave out --val." in refused(capsys, "verify", model, tmp_path / "s", "--val", place / "fresh.npy")
    assert exit_code("verify", model, place / "pruned", "--val", place / "fresh.npy", "--label", "y") == 1
    assert "for a certificate; leave out --val, --label." in capsys.readouterr().err
    assert exit_code("verify", model, place / "compressed", "--val", place / "val.npy", "--jobs", "2") == 1
    assert "verify takes --val, --label for a compression; leave out --jobs." in capsys.readouterr().err
    region = tmp_path / "s" / "region.json"
    region.write_bytes(region.read_bytes() + b" ")
    assert "their digests differ" in refused(capsys, "verify", model, tmp_path / "s")


def test_labels_that_the_model_file_does_not_hold_are_said_to_be_trusted(place, tmp_path, capsys):
    start = ["guard", "--original", place / "model.json", "-o", tmp_path / "s"]
    asked = ["verify", place / "model.json", tmp_path / "s"]
    for rows in ([], ["--val", place / "fresh.npy"]):
        printed(capsys, *start, place / "pruned", *rows, "--fidelity", "0.99")
        assert "labels" not in printed(capsys, *asked, *rows)
        rewrite(tmp_path / "s", None, lambda manifest: manifest.update(classes=["no", "yes"]))
        said = printed(capsys, *asked, *rows)
        assert "that the labels are 'no', 'yes', which the model file does not hold." in said


def test_a_guard_by_the_margin_is_chosen_again(place, tmp_path, capsys):
    start = ["guard", place / "compressed", "--original", place / "model.json", "-o", tmp_path / "s"]
    assert exit_code(*start, "--val", place / "fresh.npy", "--fidelity", "0.99") == 0
    capsys.readouterr()
    asked = ["verify", place / "model.json", tmp_path / "s"]
    assert "pass them with --val" in refused(capsys, *asked)
    assert exit_code(*asked, "--val", place / "fresh.npy") == 0
    said = capsys.readouterr().out
    assert "Recomputed on 2800 validation rows: the margin matches the folder." in said
    assert "not a proof" in said
    assert exit_code(*asked, "--val", place / "fresh.npy", "--json") == 0
    assert json.loads(capsys.readouterr().out)["agrees"]
    assert exit_code(*asked, "--val", place / "val.npy") == 1
    said = capsys.readouterr().out
    assert "These rows give another margin than the folder states: distance " in said
    assert "changed of 600 instead of 2800 rows." in said
    assert exit_code(*asked, "--val", place / "fresh.npy", "--record", "--time-limit", "9") == 1
    assert "verify takes --val for a margin guard; leave out --time-limit, --record." in capsys.readouterr().err
    assert exit_code("verify", place / "other.json", tmp_path / "s", "--val", place / "fresh.npy") == 1
    assert "is not the original model" in capsys.readouterr().err


def test_another_original_is_refused(place, tmp_path, capsys):
    for result in ("pruned", "compressed"):
        code = exit_code(
            f"guard {place}/{result} --original {place}/other.json -o {tmp_path}/s "
            f"--val {place}/fresh.npy --fidelity 0.9"
        )
        assert code == 1
        assert "other.json is not" in capsys.readouterr().err
        assert not (tmp_path / "s").exists()
