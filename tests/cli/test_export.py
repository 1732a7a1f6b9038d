"""pine-boost export: Treelite, C and ONNX files from model files."""

import json
import pickle
import subprocess

import numpy as np
import onnxruntime
import pytest
import treelite

from pine_boost.kernels.library import find_compiler
from tests.support.command_line import expect, printed, run
from tests.support.xgboost_models import booster_margins, make_rows, train


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
def test_one_model_three_ways(tmp_path, capsys):
    booster = train(rounds=4, objective="binary:logistic")
    source = tmp_path / "model.json"
    booster.save_model(source)
    rows = make_rows(50).astype(np.float32)
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="f0,f1,f2,f3,f4", comments="")

    target = tmp_path / "model.tl"
    assert f"Written to {target}" in printed(capsys, "export", source, "--to", "treelite", "-o", target)
    loaded = treelite.Model.deserialize(str(target))
    found = treelite.gtil.predict(loaded, rows, nthread=1, pred_margin=True).reshape(-1, 1)
    np.testing.assert_array_equal(found, booster_margins(booster, rows))

    target = tmp_path / "model.onnx"
    out, _ = expect(
        capsys, 0, "export", source, "--to", "onnx", "-o", target, "--data", tmp_path / "rows.csv", "--json"
    )
    assert json.loads(out)["bytes"] == target.stat().st_size
    session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    label = session.run(["label"], {"X": rows})[0]
    np.testing.assert_array_equal(label, booster_margins(booster, rows)[:, 0] > 0)

    target = tmp_path / "scorer.c"
    expect(capsys, 0, "export", source, "--to", "c", "-o", target)
    assert "predict" in target.read_text()
    subprocess.run(["cc", "-std=c99", "-ffp-contract=off", "-o", tmp_path / "scorer", target, "-lm"], check=True)
    done = subprocess.run([tmp_path / "scorer", tmp_path / "rows.csv"], check=True, capture_output=True, text=True)
    np.testing.assert_array_equal(np.array(done.stdout.split(), int), booster_margins(booster, rows)[:, 0] > 0)


@pytest.mark.parametrize(
    ("kind", "words", "owner"),
    [
        ("c", "--table t", "sql"),
        ("onnx", "--keep a", "sql"),
        ("c", "--data d.csv", "onnx"),
        ("sql", "--label y", "onnx"),
    ],
)
def test_flags_that_say_nothing_about_the_target_are_refused(kind, words, owner, tmp_path, capsys):
    source = tmp_path / "model.json"
    train(rounds=2, objective="binary:logistic").save_model(source)
    _, err = expect(capsys, 1, "export", source, "--to", kind, "-o", tmp_path / "out", *words.split())
    assert f"{words.split()[0]} belongs to --to {owner}, not to --to {kind}." in err
    assert not (tmp_path / "out").exists()


def test_a_pickle_needs_trust(tmp_path, capsys):
    from sklearn.ensemble import RandomForestClassifier

    rows = np.nan_to_num(make_rows())
    forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(rows, rows[:, 0] > 0)
    source, target = tmp_path / "model.pkl", tmp_path / "model.onnx"
    source.write_bytes(pickle.dumps(forest))
    assert run(capsys, "export", source, "--to", "onnx", "-o", target)[0] == 1
    assert not target.exists()
    expect(capsys, 0, "export", source, "--to", "onnx", "-o", target, "--trust-pickle")
    session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    label, probability = session.run(["label", "probability"], {"X": rows})
    np.testing.assert_array_equal(label.astype(bool), forest.predict(rows))
    assert probability == pytest.approx(forest.predict_proba(rows))


def test_category_codes_come_with_their_order(tmp_path, capsys):
    import lightgbm
    import pandas

    colours = pandas.Categorical(["red", "green", "blue"] * 40, categories=["red", "green", "blue"])
    table = pandas.DataFrame({"colour": colours, "size": np.arange(120.0) % 7})
    model = lightgbm.LGBMClassifier(n_estimators=2, min_child_samples=5, verbose=-1, n_jobs=1)
    model.fit(table, np.arange(120) % 3 == 1)
    source = tmp_path / "model.txt"
    model.booster_.save_model(source)
    target = tmp_path / "model.tl"
    _, err = expect(capsys, 1, "export", source, "--to", "treelite", "-o", target)
    assert "pass --codes and feed the position of each value in its list of categories" in err
    assert "PATH.categories.json" in err
    assert "Forest" not in err
    assert "categories.json" in err
    out, err = expect(capsys, 0, "export", source, "--to", "treelite", "-o", target, "--codes")
    beside = tmp_path / "model.tl.categories.json"
    assert str(beside) in out
    assert json.loads(beside.read_text()) == {"colour": ["red", "green", "blue"]}
    assert run(capsys, "export", source, "--to", "c", "-o", tmp_path / "scorer.c")[0] == 1
    expect(capsys, 0, "export", source, "--to", "c", "-o", tmp_path / "scorer.c", "--codes")
    assert (tmp_path / "scorer.c.categories.json").read_bytes() == beside.read_bytes()
