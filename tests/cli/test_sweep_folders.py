"""Folders of sweeps on the command line: verified, reported, checked against; errors and help in its words."""

import json

import pytest
import xgboost
from sklearn.datasets import load_breast_cancer

from pine_boost.certificate.saved import COMPRESSION
from pine_boost.cli import build_parser, main
from pine_boost.compression.record import RECORD
from tests.support.command_line import expect, printed, refused, words, write_inputs


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :6]
    folder = tmp_path_factory.mktemp("place")
    model = xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1).fit(X[:250], y[:250])
    write_inputs(folder, model, fit=X[:250], cal=X[250:450], test=X[450:])
    other = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(X[:250], y[:250])
    other.save_model(folder / "other.json")
    arguments = words(
        f"sweep {folder}/model.json --fit {folder}/fit.npy --cal {folder}/cal.npy --alphas 0.3,0.5 "
        f"--objective l1 --indifference 0.05 --no-report -o {folder}/swept"
    )
    assert main(arguments) == 0
    return folder


def test_folders_of_sweeps_are_verified_and_reported(place, capsys):
    out, _ = expect(capsys, 0, "verify", place / "model.json", place / "swept")
    assert "alpha-0.3: AGREES" in out
    assert "alpha-0.5: AGREES" in out
    out, _ = expect(capsys, 0, "verify", place / "model.json", place / "swept", "--json")
    assert set(json.loads(out)) == {"alpha-0.3", "alpha-0.5"}
    out, _ = expect(capsys, 0, "report", place / "swept")
    assert out.count("report.html") == 2
    assert "Trade-off" in (place / "swept" / "alpha-0.5" / "report.html").read_text()


def test_inputs_are_checked_against_a_folder_and_its_own_original(place, capsys):
    inner, rows = place / "swept" / "alpha-0.3", place / "test.npy"
    assert "lie in the region" in printed(capsys, "check-inputs", inner, rows, "--model", place / "model.json")
    _, err = expect(capsys, 1, "check-inputs", inner, rows, "--model", place / "other.json")
    assert "--model is not the original" in err
    assert "name one of its folders: alpha-0.3, alpha-0.5" in refused(capsys, "check-inputs", place / "swept", rows)


def test_labels_that_are_not_there_are_an_error(place, capsys):
    base = ["prune", place / "model.json", "--fit", place / "fit.npy", "--cal", place / "cal.npy"]
    _, err = expect(capsys, 1, *base, "--label", "y", "-o", place / "nowhere")
    assert "--label y names a column of --test, but --test is missing" in err
    _, err = expect(capsys, 1, *base, "--test", place / "test.npy", "--label", "y", "-o", place / "nowhere")
    assert "no column 'y'" in err
    assert not (place / "nowhere").exists()


def test_errors_name_what_the_command_line_has(place, capsys):
    (place / "model.pkl").write_bytes(b"\x80\x04K\x01.")
    _, err = expect(capsys, 1, "inspect", place / "model.pkl")
    assert "--trust-pickle" in err
    assert "trust_pickle=True" not in err


@pytest.mark.parametrize("option", ["--time-limit", "--jobs", "--seed", "--unit", "--score"])
def test_every_option_has_a_help_text(option):
    subparsers = build_parser()._subparsers
    prune = subparsers._group_actions[0].choices["prune"]
    action = next(a for a in prune._actions if option in a.option_strings)
    assert len(action.help) > 20


def test_a_compression_is_told_from_a_certificate(tmp_path, capsys):
    assert COMPRESSION == RECORD
    (tmp_path / COMPRESSION).write_text("{}")
    for command, *state in (("check-inputs",), ("monitor", "--state", "s.json")):
        assert main([command, str(tmp_path), "rows.csv", *state]) == 1
        assert "holds a compression, a statistic without a region" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 1  # takes compressions, and this is an empty record
    assert "Invalid compression record" in capsys.readouterr().err
