"""Pipelines, thresholds and calibration from the command line: raw tables in, same kind out."""

import csv
import json
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tests.support.command_line import expect, printed, refused, run, words

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


def trees():
    return xgboost.XGBClassifier(n_estimators=12, max_depth=2, n_jobs=1, random_state=0)


def table(n_rows=1500):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(size=n_rows)),
            "weight": rng.normal(size=n_rows),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
        }
    )
    y = ((frame["size"].fillna(0) + frame["weight"] > 0) ^ (frame["colour"] == "red")).astype(int)
    return frame, y.to_numpy()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A Pipeline over text and numbers with a threshold at its end, and raw tables."""
    folder = tmp_path_factory.mktemp("wrapped")
    frame, y = table()
    columns = make_column_transformer(
        (SimpleImputer(), ["size", "weight"]), (OneHotEncoder(handle_unknown="ignore"), ["colour"])
    )
    last = FixedThresholdClassifier(trees(), threshold=0.4)
    pipeline = Pipeline([("columns", columns), ("trees", last)]).fit(frame[:400], y[:400])
    joblib.dump(pipeline, folder / "pipeline.joblib")
    other = Pipeline([("columns", columns), ("trees", FixedThresholdClassifier(trees(), threshold=0.6))])
    joblib.dump(other.fit(frame[:400], y[:400]), folder / "other.joblib")
    shuffled = frame.iloc[:, ::-1].assign(target=y)
    shuffled[:400].to_csv(folder / "fit.csv", index=False)
    shuffled[400:700].to_parquet(folder / "cal.parquet")
    shuffled[700:1200].to_csv(folder / "val.csv", index=False)
    shuffled[1200:].to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def pruned(place):
    from pine_boost.cli import main

    arguments = words(
        f"prune {place}/pipeline.joblib --trust-pickle --fit {place}/fit.csv --cal "
        f"{place}/cal.parquet --alpha 0.3 --test {place}/new.csv --label target -o {place}/pruned"
    )
    assert main([str(argument) for argument in arguments]) == 0
    return place / "pruned"


def test_the_same_kind_comes_out_with_the_same_classes(place, pruned):
    names = {"model.json", "region.json", "certificate.json", "report.html", "whole_model.pkl"}
    assert {path.name for path in pruned.iterdir()} == names
    before, after = (joblib.load(place / "pipeline.joblib"), pickle.loads((pruned / "whole_model.pkl").read_bytes()))
    assert type(after) is Pipeline
    assert isinstance(after[-1], FixedThresholdClassifier)
    frame, _ = table()
    from pine_boost.region import Region

    inside = Region.load(pruned / "region.json").contains(before[:-1].transform(frame))
    assert inside.mean() > 0.5
    assert (before.predict(frame) == after.predict(frame))[inside].all()


def test_a_pickle_needs_trust_in_the_same_words(place, capsys):
    fit = ["--fit", place / "fit.csv"]
    for command in (
        ["prune", place / "pipeline.joblib", *fit],
        ["compress", place / "pipeline.joblib", *fit, "--val", place / "val.csv"],
        ["sweep", place / "pipeline.joblib", *fit],
        ["simplify", place / "pipeline.joblib", "-o", place / "simple.pkl"],
        ["inspect", place / "pipeline.joblib"],
    ):
        _, err = expect(capsys, 1, *command)
        assert "is a pickle, and loading it would run code from the file" in err
        assert "--trust-pickle" in err


def test_verify_proves_the_ensembles_inside_and_says_so(place, pruned, capsys):
    asked = ["verify", place / "pipeline.joblib", pruned, "--trust-pickle"]
    out, _ = expect(capsys, 0, *asked, "--fit", place / "fit.csv", "--cal", place / "cal.parquet")
    assert "AGREES" in out
    assert "This is about the XGBClassifier inside (Pipeline around a FixedThreshold" in out
    _, err = expect(capsys, 1, "verify", place / "other.joblib", pruned, "--trust-pickle")
    assert "its threshold or calibrator was changed" in err


def test_a_whole_model_that_was_exchanged_is_refused(place, pruned, tmp_path, capsys):
    import shutil

    copied = shutil.copytree(pruned, tmp_path / "copied")
    (copied / "whole_model.pkl").write_bytes((place / "other.joblib").read_bytes())
    _, err = expect(capsys, 1, "verify", place / "pipeline.joblib", copied, "--trust-pickle")
    assert "whole_model.pkl was changed after it was written" in err


def test_guard_and_score_take_raw_tables(place, pruned, tmp_path, capsys):
    asked = ["guard", pruned, "--original", place / "pipeline.joblib", "--trust-pickle"]
    assert "On every input, the guarded model" in printed(capsys, *asked, "-o", tmp_path / "guarded")
    expect(capsys, 0, f"score {tmp_path}/guarded {place}/new.csv --trust-pickle -o {tmp_path}/classes.csv")
    with (tmp_path / "classes.csv").open(newline="") as file:
        classes = [int(row["class"]) for row in csv.DictReader(file)]
    expected = joblib.load(place / "pipeline.joblib").predict(table()[0][1200:])
    assert classes == expected.tolist()
    out, _ = expect(capsys, 0, "verify", place / "pipeline.joblib", tmp_path / "guarded", "--trust-pickle")
    assert "On every input, the guarded model" in out
    expect(capsys, 1, "guard", pruned, "--original", place / "other.joblib", "--trust-pickle", "-o", tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


def test_monitor_and_check_inputs_prepare_the_rows(place, pruned, tmp_path, capsys):
    asked = ["--model", place / "pipeline.joblib", "--trust-pickle", "--json"]
    out, _ = expect(
        capsys, 0, f"monitor {pruned} {place}/new.csv {place}/val.csv --state {tmp_path}/state.json", *asked
    )
    assert json.loads(out)["coverage"]["n_rows"] == 800
    out, _ = expect(capsys, 0, "check-inputs", pruned, place / "new.csv", *asked)
    assert json.loads(out)["n_rows"] == 300
    for command in (
        ["monitor", pruned, place / "new.csv", "--state", tmp_path / "s"],
        ["check-inputs", pruned / "region.json", place / "new.csv"],
    ):  # a scaler leaves as many columns: raw rows would be taken for prepared ones
        assert "name that model with --model" in refused(capsys, *command)


def test_compress_writes_the_whole_model_and_verifies(place, tmp_path, capsys):
    out, _ = expect(
        capsys,
        0,
        f"compress {place}/pipeline.joblib --trust-pickle --fit {place}/fit.csv --val "
        f"{place}/val.csv --fidelity 0.9 --segments colour -o {tmp_path}/small --json",
    )
    document = json.loads(out)
    assert {s["name"] for s in document["segments"]} == {"red", "green", "blue"}
    names = {path.name for path in (tmp_path / "small").iterdir()}
    assert names == {"model.json", "compression.json", "report.html", "whole_model.pkl"}
    out, _ = expect(capsys, 0, f"verify {place}/pipeline.joblib {tmp_path}/small --val {place}/val.csv --trust-pickle")
    assert "This is about the XGBClassifier inside" in out
    asked = ["parity", place / "pipeline.joblib", tmp_path / "small", place / "new.csv", "--json", "--trust-pickle"]
    found = json.loads(printed(capsys, *asked, "--fidelity", 0.5))
    whole = pickle.loads((tmp_path / "small" / "whole_model.pkl").read_bytes())  # not the ensemble inside on raw rows
    rows = pd.read_csv(place / "new.csv")
    before = joblib.load(place / "pipeline.joblib")
    assert found["n_changed"] == int((before.predict(rows) != whole.predict(rows)).sum())
    asked = ["guard", tmp_path / "small", "--original", place / "pipeline.joblib", "--trust-pickle"]
    expect(capsys, 0, *asked, "--val", place / "new.csv", "--fidelity", 0.95, "-o", tmp_path / "guarded")


def test_sweep_survey_simplify_inspect_and_report(place, pruned, tmp_path, capsys):
    rows = ["--trust-pickle", "--fit", place / "fit.csv"]
    expect(
        capsys,
        0,
        "sweep",
        f"{place}/pipeline.joblib",
        *rows,
        *words(f"--cal {place}/cal.parquet --alphas 0.2,0.4 --no-report -o {tmp_path}/swept"),
    )
    assert (tmp_path / "swept" / "alpha-0.4" / "whole_model.pkl").is_file()
    out, _ = expect(
        capsys, 0, "survey", place / "pipeline.joblib", *rows, "--look", place / "val.csv", "--time-limit", 3
    )
    assert "the original" in out
    expect(capsys, 0, "simplify", place / "pipeline.joblib", "--trust-pickle", "-o", tmp_path / "simple.pkl")
    frame, _ = table()
    simple = pickle.loads((tmp_path / "simple.pkl").read_bytes())
    assert isinstance(simple, Pipeline)
    before = joblib.load(place / "pipeline.joblib")
    assert (simple.predict_proba(frame) == before.predict_proba(frame)).all()
    _, out, _ = run(capsys, "inspect", place / "pipeline.joblib", "--trust-pickle", "--json")
    assert json.loads(out)["layers"] == ["Pipeline", "FixedThresholdClassifier"]
    expect(capsys, 0, f"report {pruned} --original {place}/pipeline.joblib --trust-pickle --data {place}/new.csv")


@pytest.mark.parametrize("kind", ["tuned", "calibrated", "frozen", "array-pipeline"])
def test_every_wrapper_from_a_pickle(kind, tmp_path, capsys):
    frame, y = table()
    frame = frame[["size", "weight"]]
    fit = frame[:400], y[:400]
    made = {
        "tuned": lambda: TunedThresholdClassifierCV(trees(), cv=3, random_state=0).fit(*fit),
        "calibrated": lambda: CalibratedClassifierCV(FrozenEstimator(trees().fit(*fit)), ensemble=False, cv=3).fit(
            frame[700:], y[700:]
        ),
        "frozen": lambda: FrozenEstimator(trees().fit(*fit)),
        "array-pipeline": lambda: make_pipeline(StandardScaler(), trees()).fit(frame[:400].to_numpy(), y[:400]),
    }[kind]()
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(made))
    frame[:400].to_csv(tmp_path / "fit.csv", index=False)
    frame[400:700].to_csv(tmp_path / "cal.csv", index=False)
    expect(
        capsys,
        0,
        f"prune {tmp_path}/model.pkl --trust-pickle --fit {tmp_path}/fit.csv --cal "
        f"{tmp_path}/cal.csv --alpha 0.4 --no-report -o {tmp_path}/out",
    )
    after = pickle.loads((tmp_path / "out" / "whole_model.pkl").read_bytes())
    assert type(after) is type(made)
    assert "AGREES" in printed(capsys, "verify", tmp_path / "model.pkl", tmp_path / "out", "--trust-pickle")


def test_layers_that_cannot_be_written_back_are_found_before_the_search(place, tmp_path, capsys):
    """cloudpickle wrote a lambda, which plain pickle reads and cannot write."""
    import cloudpickle
    from sklearn.preprocessing import FunctionTransformer

    frame, y = table()
    numbers = frame[["weight"]]
    made = make_pipeline(FunctionTransformer(lambda X: X * 2.0), trees()).fit(numbers[:400], y[:400])
    (tmp_path / "model.pkl").write_bytes(cloudpickle.dumps(made))
    _, err = expect(
        capsys, 1, f"prune {tmp_path}/model.pkl --trust-pickle --fit {tmp_path}/nowhere.csv -o {tmp_path}/out"
    )
    assert "The Pipeline cannot be pickled" in err
    from pine_boost import OutputError, prune_booster

    result = prune_booster(made, numbers[:400], numbers[400:700], alpha=0.4)
    with pytest.raises(OutputError, match=r"result\.inner\.save"):
        result.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_codes_in_csv_are_not_taken_for_numbers(place, tmp_path, capsys):
    raw = pd.read_csv(place / "fit.csv", dtype=str)
    raw["weight"] = "0" + raw.index.astype(str)
    raw.to_csv(tmp_path / "codes.csv", index=False)
    _, err = expect(
        capsys, 1, f"prune {place}/pipeline.joblib --trust-pickle --fit {tmp_path}/codes.csv -o {tmp_path}/out"
    )
    assert "column 'weight' holds '00', which may be a text or a number" in err
    raw.drop(columns="colour").to_csv(tmp_path / "lacks.csv", index=False)
    _, err = expect(
        capsys, 1, f"prune {place}/pipeline.joblib --trust-pickle --fit {tmp_path}/lacks.csv -o {tmp_path}/out"
    )
    assert "lacks the model's column(s) 'colour'" in err
    (tmp_path / "folder").mkdir()
    _, err = expect(
        capsys, 1, f"prune {place}/pipeline.joblib --trust-pickle --fit {tmp_path}/folder -o {tmp_path}/out"
    )
    assert "the first steps of a Pipeline take a table as a whole" in err


def test_a_record_with_a_tolerance_is_not_verified_for_a_calibrated_model(tmp_path, capsys):
    """It was tested before the calibrator, so that its sentence is not about the whole model."""
    from dataclasses import replace

    import pine_boost

    frame, y = table()
    frame = frame[["size", "weight"]]
    inner = trees().fit(frame[:400], y[:400])
    made = CalibratedClassifierCV(FrozenEstimator(inner), ensemble=False, cv=3)
    made.fit(frame[700:], y[700:])
    result = pine_boost.compress_booster(made, frame[:400], frame[400:], fidelity=0.9)
    folder = result.save(tmp_path / "out")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(made))
    frame[400:].to_csv(tmp_path / "val.csv", index=False)
    asked = ("verify", tmp_path / "model.pkl", folder, "--trust-pickle", "--val", tmp_path / "val.csv")
    out, err = expect(capsys, 0, *asked)
    assert "AGREES" in out
    record = pine_boost.CompressResult.load(folder).record
    (folder / "compression.json").write_text(replace(record, tolerance=0.05).to_json())
    code, _, err = run(capsys, *asked)
    assert code != 0
    assert "the calibrator may move probabilities farther" in err
