"""``pine-boost compress``: files in, files and exit codes out."""

import json
import re
from html import escape

import numpy as np
import pandas
import pytest
import xgboost

from pine_boost import verify_compression
from pine_boost.cli import main
from tests.support.command_line import refused, words
from tests.support.native_models import make_table

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compress")
    X, y = make_table(2, n_rows=1500)
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = xgboost.XGBClassifier(n_estimators=15, max_depth=4, n_jobs=1)
    model.fit(frame[:600], y[:600])
    model.save_model(folder / "model.json")
    regressor = xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1)
    regressor.fit(frame[:600], y[:600]).save_model(folder / "regressor.json")
    frame[:600].to_csv(folder / "fit.csv", index=False)
    frame[600:1200].to_csv(folder / "val.csv", index=False)
    frame[1200:].to_csv(folder / "test.csv", index=False)
    return folder


def _arguments(files, out, *more, model="model.json"):
    return words(
        f"compress {files}/{model} --fit {files}/fit.csv --val {files}/val.csv --fidelity 0.9 -o {files}/{out}", *more
    )


@pytest.fixture(scope="module")
def compressed(files):
    assert main(_arguments(files, "out")) == 0
    return files / "out"


def test_the_folder_holds_a_native_model_and_its_record(files, compressed):
    booster = xgboost.Booster(model_file=str(compressed / "model.json"))
    record = json.loads((compressed / "compression.json").read_text())
    assert record["status"] == "VALIDATED"
    assert len(booster.trees_to_dataframe()) == 2 * record["leaves_after"] - record["trees_after"]
    frame = pandas.read_csv(files / "val.csv")
    verdict = verify_compression(
        files / "model.json", compressed / "model.json", compressed / "compression.json", frame
    )
    assert verdict.agrees
    page = (compressed / "report.html").read_text()
    assert escape(record["claim"]) in page
    assert "CERTIFIED" not in page


def test_json_progress_and_test_rows(files, capsys):
    more = ["--json", "--test", f"{files}/test.csv", "--segments", "b"]
    assert main(_arguments(files, "again", *more)) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert document["path"][-1]["leaves"] <= document["path"][0]["leaves"]
    assert 0.8 < document["test_fidelity"] <= 1
    assert sum(segment["n_rows"] for segment in document["segments"]) == 600
    assert " leaves, trying " in printed.err
    assert "at least" not in printed.err  # nothing is proved here


def test_files_of_others_are_not_replaced(files, compressed, capsys):
    (files / "mine").mkdir()
    (files / "mine" / "model.json").write_text("{}")
    assert main(_arguments(files, "mine")) == 1
    assert "--force" in capsys.readouterr().err
    assert (files / "mine" / "model.json").read_text() == "{}"
    assert main(_arguments(files, ".")) == 1  # would replace the input
    assert "is an input of this command" in capsys.readouterr().err
    assert main([*_arguments(files, "out"), "--time-limit", "30"]) == 0  # its own may be


def test_too_few_rows_and_a_regressor_without_tolerance(files, capsys):
    assert "needs at least" in refused(capsys, *_arguments(files, "few"), "--fidelity", "0.999")
    assert main(_arguments(files, "values", model="regressor.json")) == 1
    assert "tolerance" in capsys.readouterr().err
    assert not (files / "few").exists()
    done = main([*_arguments(files, "values", model="regressor.json"), "--tolerance", "0.3"])
    assert done == 0
    before = xgboost.XGBRegressor()
    before.load_model(files / "regressor.json")
    frame = pandas.read_csv(files / "val.csv")
    after = xgboost.Booster(model_file=str(files / "values" / "model.json"))
    moved = np.abs(before.predict(frame) - after.predict(xgboost.DMatrix(frame)))
    assert np.mean(moved > 0.3) < 0.1


def test_overlap_is_measured_only(files, capsys):
    arguments = _arguments(files, "seen")
    arguments[arguments.index("--val") + 1] = f"{files}/fit.csv"
    assert "--allow-overlap" in refused(capsys, *arguments)
    assert main([*arguments, "--allow-overlap"]) == 0
    assert capsys.readouterr().out.startswith("MEASURED")


def test_verify_counts_again_what_compress_wrote(files, compressed, capsys):
    arguments = ["verify", f"{files}/model.json", str(compressed)]
    assert "pass them with --val" in refused(capsys, *arguments)
    assert main([*arguments, "--val", f"{files}/val.csv"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("AGREES")
    assert "CERTIFIED" not in out
    assert main([*arguments, "--val", f"{files}/val.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agrees"] is True
    assert "is not the table of the record" in refused(capsys, *arguments, "--val", f"{files}/test.csv")


def test_report_takes_a_folder_of_a_compression(files, compressed, capsys):
    # neither the times nor how many sizes there was time for, nor the digest of a text that states them
    measured = re.compile("<tr><td>Milliseconds .*</tr>\\n?|<!-- written by .*-->")
    first = measured.sub("", (compressed / "report.html").read_text())
    assert main(["report", str(compressed)]) == 0
    bare = (compressed / "report.html").read_text()
    assert "The path" in bare
    assert "Rows that change" not in bare
    whole = ["report", str(compressed), "--original", f"{files}/model.json", "--data", f"{files}/val.csv"]
    assert main(whole) == 0
    assert measured.sub("", (compressed / "report.html").read_text()) == first
    assert main([*whole[:2], "--data", f"{files}/val.csv"]) == 1
    assert main([*whole[:3], str(next(compressed.glob("model.*"))), *whole[4:]]) == 1
    assert "is not the model that was compressed" in capsys.readouterr().err
    assert main(_arguments(files, compressed.name)) == 0  # a report that was written again is replaced


@pytest.mark.parametrize("command", ["compress", "prune", "fleet"])
def test_the_column_of_labels_is_left_out_of_every_table_of_a_model_without_names(command, tmp_path, capsys):
    X, y = make_table(2, n_rows=900)
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(X[:300], y[:300])
    model.save_model(tmp_path / "model.json")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    frame[:300].assign(y=y[:300]).to_csv(tmp_path / "fit.csv", index=False)
    frame[300:].assign(y=y[300:]).to_csv(tmp_path / "rest.csv", index=False)
    fit, rest = tmp_path / "fit.csv", tmp_path / "rest.csv"
    calls = {
        "compress": f"compress {tmp_path}/model.json --fit {fit} --val {rest} --test {rest} --label y --fidelity 0.9",
        "prune": f"prune {tmp_path}/model.json --fit {fit} --cal {rest} --test {rest} --label y",
        "fleet": f"fleet {tmp_path}/jobs.csv --method compress --fidelity 0.9",
    }
    (tmp_path / "jobs.csv").write_text(f"name,model,fit,val,label\nm,{tmp_path}/model.json,{fit},{rest},y\n")
    code = main(words(f"{calls[command]} -o {tmp_path}/out"))
    assert code in (0, 2), capsys.readouterr().err
