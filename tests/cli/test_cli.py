"""The command line: files and folders in, files and exit codes out; the native library checks what it wrote."""

import json
import pickle
import sys
from pathlib import Path

import lightgbm
import numpy as np
import pandas
import pytest
import xgboost
from sklearn import datasets, ensemble

from pine_boost import PruneResult
from pine_boost.cli import COMMANDS, main
from pine_boost.errors import InvalidInputError
from pine_boost.fleet import Job, Policy, run_job
from pine_boost.region.region import Region
from pine_boost.tables.table_files import read_any
from tests.support.command_line import expect, printed, refused, run, words
from tests.support.native_tables import write_parts


def test_prune_writes_a_model_that_keeps_its_promise(files, pruned):
    assert {path.name for path in pruned.iterdir()} == {"model.json", "certificate.json", "region.json", "report.html"}
    X = datasets.load_breast_cancer(as_frame=True).data.iloc[:, :6]
    region = Region.load(pruned / "region.json")
    before = xgboost.Booster(model_file=files / "model.json").predict(xgboost.DMatrix(X)) > 0.5
    after = xgboost.Booster(model_file=pruned / "model.json").predict(xgboost.DMatrix(X)) > 0.5
    inside = region.contains(X)
    np.testing.assert_array_equal(before[inside], after[inside])
    kept = json.loads((pruned / "certificate.json").read_text())
    assert kept["trees_after"] < kept["trees_before"]


def test_all_formats_give_the_same(files, pruned, tmp_path, capsys):
    out, _ = expect(
        capsys,
        0,
        f"prune {files}/model.ubj --fit {files}/fit.csv --cal {files}/cal.parquet --test "
        f"{files}/test.feather --label target --alpha 0.5 -o {tmp_path}/out --json",
    )
    document = json.loads(out)
    assert document["model"] == "model.ubj"
    assert document["test"]["fidelity_in_region"] == 1.0
    assert document["test"]["accuracy_before"] > 0.8
    first, second = (json.loads((folder / "certificate.json").read_text()) for folder in (pruned, tmp_path / "out"))
    assert first["region_fingerprint"] == second["region_fingerprint"]
    assert first["kept"] == second["kept"]


def test_several_thresholds_are_score_bands(given, tmp_path, capsys):
    bands = "--threshold 0.3 --threshold 0.7"
    out, _ = expect(capsys, 0, f"prune {given} --alpha 0.6 {bands} --objective l1 -o {tmp_path}/out")
    assert json.loads((tmp_path / "out/certificate.json").read_text())["thresholds"] == [0.3, 0.7]
    assert "CERTIFIED" in out


def test_without_calibration_rows_the_split_is_said(files, tmp_path, capsys):
    _, err = expect(
        capsys, 0, f"prune {files}/model.json --fit {files}/cal.csv --alpha 0.5 --objective l1 -o {tmp_path}/out"
    )
    assert "pine-boost: warning: No --cal was given" in err


def test_sweep_writes_a_folder_per_alpha(files, given, tmp_path, capsys):
    line = f"sweep {given} --test {files}/test.csv.gz --alphas 0.3,0.6 --objective l1 -o {tmp_path}/out"
    out, _ = expect(capsys, 0, line)
    assert out.splitlines()[0].split()[:2] == ["alpha", "trees"]
    rows = json.loads((tmp_path / "out/sweep.json").read_text())
    assert [row["alpha"] for row in rows] == [0.3, 0.6]
    assert all(0 <= row["coverage"] <= 1 for row in rows)
    assert "<svg" in (tmp_path / "out/alpha-0.6/report.html").read_text()
    out, _ = expect(capsys, 0, line, "--json")  # into the folder that is there
    assert [row["trees"] for row in json.loads(out)["table"]] == [row["trees"] for row in rows]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_verify_agrees_and_refuses_what_was_changed(files, pruned, tmp_path, capsys):
    out, _ = expect(capsys, 0, "verify", files / "model.json", pruned)
    assert out.startswith("AGREES")
    _, out, _ = run(
        capsys,
        f"verify {files}/model.json {pruned}/model.json --certificate {pruned}/certificate.json "
        f"--region {pruned}/region.json --json",
    )
    assert json.loads(out)["agrees"] is True
    _, err = expect(capsys, 1, "verify", pruned / "model.json", pruned)
    assert err.count("\n") == 1
    document = json.loads((pruned / "model.json").read_text())
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["split_conditions"][-1] *= 2
    (tmp_path / "model.json").write_text(json.dumps(document))
    _, err = expect(
        capsys,
        1,
        f"verify {files}/model.json {tmp_path}/model.json --certificate {pruned}/certificate.json "
        f"--region {pruned}/region.json",
    )
    assert "pine-boost: error:" in err


def test_verify_needs_no_training_library(files, pruned, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert printed(capsys, "verify", files / "model.json", pruned).startswith("AGREES")


def test_inspect_counts(files, capsys):
    out, _ = expect(capsys, 0, "inspect", files / "model.ubj", "--json")
    facts = json.loads(out)
    booster = xgboost.Booster(model_file=files / "model.json")
    assert facts["trees"] == booster.num_boosted_rounds() == 10
    table = booster.trees_to_dataframe()
    assert facts["leaves"] == int((table["Feature"] == "Leaf").sum())
    assert facts["feature_names"] == booster.feature_names
    assert "binary:logistic" in printed(capsys, "inspect", files / "model.json")


def test_check_inputs_lists_the_rows_outside(files, pruned, capsys):
    X = datasets.load_breast_cancer(as_frame=True).data.iloc[450:, :6]
    inside = Region.load(pruned / "region.json").contains(X)
    out, _ = expect(capsys, 0, "check-inputs", pruned / "region.json", files / "test.csv.gz", "--json")
    document = json.loads(out)
    assert document["rows_outside"] == np.flatnonzero(~inside).tolist()
    assert document["n_inside"] == int(inside.sum())
    out, _ = expect(capsys, 0, "check-inputs", pruned / "region.json", files / "test.csv.gz", "--limit", "2")
    assert out.count("outside the region: score") == 2
    assert f"and {int((~inside).sum()) - 2} more rows outside" in out


def test_report_is_written_anew(files, pruned, capsys):
    (pruned / "report.html").unlink()
    expect(capsys, 0, "report", pruned)
    assert "Not measured" in (pruned / "report.html").read_text()
    _, out, _ = run(capsys, f"report {pruned} --original {files}/model.json --data {files}/test.csv.gz --json")
    page = Path(json.loads(out)["report"]).read_text(encoding="utf-8")
    assert "Milliseconds for 100 000 rows" in page
    assert "rows given for this report" in page


def test_pickles_only_with_trust(files, tmp_path, capsys):
    data = datasets.load_breast_cancer(as_frame=True)
    forest = ensemble.RandomForestClassifier(n_estimators=4, max_depth=2, random_state=0)
    forest.fit(data.data.iloc[:250, :6], data.target[:250])
    (tmp_path / "forest.pkl").write_bytes(pickle.dumps(forest))
    arguments = words(
        f"prune {tmp_path}/forest.pkl --fit {files}/fit.csv --cal {files}/cal.csv --alpha 0.6 "
        f"--objective l1 -o {tmp_path}/out"
    )
    assert "run code from the file" in refused(capsys, *arguments)
    expect(capsys, 0, *arguments, "--trust-pickle")
    expect(capsys, 0, "verify", tmp_path / "forest.pkl", tmp_path / "out", "--trust-pickle")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "nowhere.json"], "cannot be read"),
        (["prune", "MODEL", "--fit", "nowhere.csv"], "nowhere.csv does not exist"),
        (["prune", "MODEL", "--fit", "MODEL"], "has a suffix that cannot be read"),
        (
            ["prune", "MODEL", "--fit", "FIT", "--alpha", "2"],
            "--alpha must be a number in [0, 1), got 2.0 (2 % is 0.02)",
        ),
        (["prune", "MODEL"], "--fit is missing; pass a table of rows"),
        (["prune", "FIT", "--fit", "FIT"], "is not a readable model"),
        (["inspect", "BROKEN"], "broken.json is not a readable model"),
        (["prune", "MODEL", "--fit", "FIT", "--threshold", "7"], "threshold"),
        (["sweep", "MODEL", "--fit", "FIT", "--alphas", "0.1;0.2"], "--alphas"),
        (["check-inputs", "MODEL", "FIT"], ""),
        (["report", "."], "does not exist"),
        (["report", "MODEL"], "is a file, and report writes the page of a folder"),
        (["verify", "MODEL", "MODEL"], "certificate.json does not exist"),
    ],
)
def test_errors_are_one_line(files, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    broken = files / "broken.json"
    broken.write_text("precious notes")
    names = {"MODEL": f"{files}/model.json", "FIT": f"{files}/fit.csv", "BROKEN": str(broken)}
    out, err = expect(capsys, 1, *(names.get(argument, argument) for argument in arguments))
    errors = [line for line in err.splitlines() if "error:" in line]
    assert out == ""
    assert len(errors) == 1
    assert message in errors[0]
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback():
    with pytest.raises(InvalidInputError):
        main(["inspect", "nowhere.json", "--debug"])


@pytest.mark.parametrize("arguments", [[], ["dance"], ["prune"], ["prune", "m", "--alpha", "x"]])
def test_wrong_usage_is_an_error_and_not_two(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 1
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"  pine-boost {command}" in capsys.readouterr().out


def test_a_region_that_was_never_calibrated_says_nothing_about_inputs(files, given, tmp_path, capsys):
    expect(capsys, 2, f"prune {given} --alpha 0.5 --time-limit 1e-9 --json -o {tmp_path}/out")
    for command in (["check-inputs"], ["monitor", "--state", tmp_path / "state"]):
        code, out, err = run(capsys, command[0], tmp_path / "out", files / "cal.csv", *command[1:])
        assert (code, out) == (1, "")
        assert "calibrated" in err


def test_a_table_that_was_counted_is_not_counted_again(files, pruned, tmp_path, capsys):
    command = ["monitor", pruned, files / "cal.csv", "--state", tmp_path / "state"]
    _, first, err = run(capsys, *command)
    assert "counted before" not in err
    _, second, err = run(capsys, *command)
    assert "cal.csv was counted before and is skipped" in err
    assert first == second


def _folder(source, target):
    return write_parts(read_any(source, {}), target)


def test_folders_are_pruned_as_one_file(files, tmp_path, capsys):
    fit, cal = (_folder(files / f"{name}.csv", tmp_path / name) for name in ("fit", "cal"))
    common = ["prune", files / "model.json", "--alpha", 0.5, "--no-report"]
    expect(capsys, 0, *common, "--fit", fit, "--cal", cal, "-o", tmp_path / "chunks")
    expect(capsys, 0, *common, "--fit", files / "fit.csv", "--cal", files / "cal.csv", "-o", tmp_path / "whole")
    chunks, whole = ((tmp_path / n / "region.json").read_bytes() for n in ("chunks", "whole"))
    assert chunks == whole
    job = Job("a", str(files / "model.json"), str(fit), str(cal))
    row = run_job(job, str(tmp_path / "fleet"), Policy("prune", {"alpha": 0.5}))
    assert row.status == "CERTIFIED", row.error
    assert (tmp_path / "fleet" / "a" / "region.json").read_bytes() == whole
    assert "AGREES" in printed(capsys, "verify", files / "model.json", tmp_path / "chunks", "--fit", fit, "--cal", cal)


def test_folders_are_compressed_as_one_file(files, tmp_path, capsys, few_synthetic_rows):
    val = _folder(files / "cal.csv", tmp_path / "val")
    common = ["compress", files / "model.json", "--fit", files / "fit.csv", "--fidelity", 0.9]
    found = []
    for number, given in enumerate((val, files / "cal.csv")):
        code, out, err = run(capsys, *common, "--val", given, "-o", tmp_path / f"{number}", "--json")
        assert code in (0, 2), err
        document = json.loads(out)
        found.append({k: v for k, v in document.items() if k not in ("seconds", "folder")})
    assert found[0] == found[1]
    out, err = expect(capsys, 0, "verify", files / "model.json", tmp_path / "0", "--val", val)
    (tmp_path / "empty").mkdir()
    _, err = expect(capsys, 1, *common, "--val", tmp_path / "empty", "-o", tmp_path / "none")
    assert "Traceback" not in err


def test_a_regressor_is_described(tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(100, 3))
    options = {"objective": "poisson", "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(options, lightgbm.Dataset(X, np.exp(X[:, 0])), 3)
    booster.save_model(tmp_path / "model.txt")
    assert main(["inspect", str(tmp_path / "model.txt"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["decides"].startswith("a value: compress")
    assert facts["classes"] == []
    assert main(["inspect", str(tmp_path / "model.txt"), "--json", "--threshold", "0.5"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["decides"] == "a class"
    assert facts["classes"] == [0, 1]


WITH_TEST_ROWS = ("prune {} --alpha 0.5", "sweep {} --alphas 0.5,0.6")


@pytest.mark.parametrize("command", WITH_TEST_ROWS)
def test_labels_of_another_kind_are_refused_before_the_search(files, given, tmp_path, capsys, command):
    table = pandas.read_csv(files / "cal.csv")
    table["target"] = table["target"].map({0: "malignant", 1: "benign"})
    table.to_csv(tmp_path / "test.csv", index=False)
    out, err = expect(
        capsys, 1, f"{command.format(given)} --test {tmp_path}/test.csv --label target --no-report -o {tmp_path}/out"
    )
    assert out == ""
    assert "test.csv, column 'target': y holds" in err
    assert "a label the model does not have; its predict returns 0, 1" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", WITH_TEST_ROWS)
def test_an_evaluation_that_fails_costs_neither_result_nor_summary(
    files, given, tmp_path, capsys, monkeypatch, command
):
    def fail(*_):
        raise MemoryError("no room for these rows")

    monkeypatch.setattr(PruneResult, "evaluate", fail)
    folder = tmp_path / "out"
    out, err = expect(
        capsys, 1, f"{command.format(given)} --test {files}/test.csv.gz --label target --no-report -o {folder}"
    )
    assert "CERTIFIED" in out
    assert f"Written to {folder}" in out
    assert "Only the evaluation on --test failed (MemoryError: no room for these rows)" in err
    assert f"the result in {folder} is valid without it" in err
    assert list(folder.rglob("certificate.json"))
