"""A live CatBoost model and the JSON that it saves: CatBoost loads other last digits, the commands take the file.

A result about the live model is verified, guarded and scored from what ``save_model(format="json")`` wrote.
"""

import csv
import json

import catboost
import numpy as np
import pytest

import pine_boost
from pine_boost import CertificateMismatch
from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from tests.support.catboost_models import KINDS
from tests.support.command_line import exit_code
from tests.support.native_models import has_same_probabilities, make_table

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")
CASES = [("binary", "leaf"), ("binary", "tree"), ("depthwise binary", "leaf"), ("3 classes", "tree")]


def saved(native, path):
    native.save_model(str(path), format="json")
    return path


def tables(native, folder):
    """Rows to fit and to calibrate, and a file of fresh ones."""
    n_classes = max(len(native.classes_), 2)
    X_fit, X_cal, fresh = (make_table(n_classes, n_rows=n, seed=seed)[0] for n, seed in ((300, 1), (300, 2), (600, 3)))
    np.save(folder / "fresh.npy", fresh)
    return X_fit, X_cal, folder / "fresh.npy"


def scored(folder, rows, *options):
    out = folder / "out.csv"
    assert exit_code("score", folder, rows, "-o", out, "--force", *options) == 0
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("name", "unit"), CASES)
def test_a_pruned_live_model_is_verified_guarded_and_scored_from_its_file(name, unit, tmp_path, capsys):
    native = KINDS[name]()
    X_fit, X_cal, rows = tables(native, tmp_path)
    original, pruned, guard = saved(native, tmp_path / "model.json"), tmp_path / "pruned", tmp_path / "guard"
    result = pine_boost.prune_booster(native, X_fit, X_cal, alpha=0.3, unit=unit, time_limit=10)
    assert result.status == "CERTIFIED"
    result.save(pruned, report=False)
    assert exit_code("verify", original, pruned, "--json") == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["agrees"]
    assert any("live model that the file of the original was saved from" in remark for remark in verdict["remarks"])
    assert exit_code("guard", pruned, "--original", original, "-o", guard) == 0
    fresh = np.load(rows)
    expected = [str(label) for label in native.predict(fresh).reshape(-1)]
    loss = "MultiClass" if name == "3 classes" else "Logloss"
    for backend in ("kernel", "native"):
        answers = scored(guard, rows, "--proba", "--backend", backend)
        assert [row["class"] for row in answers] == expected
        chances = [[float(row[f"p_{label}"]) for label in native.classes_] for row in answers]
        assert has_same_probabilities(loss, chances, native.predict_proba(fresh))
    assert {row["answered_by"] for row in answers} == {"pruned", "original"}
    # what the guard stores of the original is the live model, in digits that CatBoost reads exactly
    kept = catboost.CatBoost().load_model(str(guard / "original.json"), format="json")
    raw = {"prediction_type": "RawFormulaVal", "thread_count": 1}
    assert np.array_equal(kept.predict(fresh, **raw), native.predict(fresh, **raw))
    assert np.array_equal(result.region.contains(fresh, model=original), result.region.contains(fresh, model=native))
    loaded = pine_boost.PruneResult.load(pruned, original)
    assert loaded.evaluate(fresh).n_rows == len(fresh)


def test_a_scorer_of_several_classes_writes_the_probabilities_of_its_model(tmp_path):
    native = KINDS["3 classes"]()
    X_fit, _, rows = tables(native, tmp_path)
    pine_boost.accelerate_booster(native, X_fit).save(tmp_path / "scorer")
    chances = [[float(row[f"p_{k}"]) for k in native.classes_] for row in scored(tmp_path / "scorer", rows, "--proba")]
    assert has_same_probabilities("MultiClass", chances, native.predict_proba(np.load(rows)))


def test_a_file_of_another_model_is_still_refused(tmp_path, capsys):
    native = KINDS["binary"]()
    X_fit, X_cal, _ = tables(native, tmp_path)
    result = pine_boost.prune_booster(native, X_fit, X_cal, alpha=0.3, unit="tree", time_limit=10)
    result.save(tmp_path / "pruned", report=False)
    document = json.loads(saved(native, tmp_path / "model.json").read_text())
    document["oblivious_trees"][0]["leaf_values"][0] += 2.0**-40
    (tmp_path / "other.json").write_text(json.dumps(document))
    assert exit_code("verify", tmp_path / "other.json", tmp_path / "pruned") == 1
    assert "is not the one that the certificate names" in capsys.readouterr().err
    with pytest.raises(CertificateMismatch, match="not the original model"):
        pine_boost.PruneResult.load(tmp_path / "pruned", tmp_path / "other.json")


def test_a_result_about_the_file_is_not_one_about_the_live_model(tmp_path):
    native = KINDS["binary"]()
    X_fit, X_cal, _ = tables(native, tmp_path)
    original = saved(native, tmp_path / "model.json")
    pine_boost.prune_booster(original, X_fit, X_cal, alpha=0.3, unit="tree", time_limit=10).save(tmp_path / "pruned")
    assert exit_code("verify", original, tmp_path / "pruned") == 0
    with pytest.raises(CertificateMismatch, match="not the original model"):
        pine_boost.PruneResult.load(tmp_path / "pruned", native)
    fresh = make_table(2, seed=3)[0]
    assert not np.array_equal(
        native_margins(read_model(original).forest, fresh), native_margins(read_model(native).forest, fresh)
    )


def test_a_compressed_and_an_accelerated_live_model_are_verified_from_its_file(tmp_path, capsys):
    native = KINDS["binary"]()
    X_fit, X_val, fresh = tables(native, tmp_path)
    original = saved(native, tmp_path / "model.json")
    np.save(tmp_path / "val.npy", X_val)
    pine_boost.compress_booster(native, X_fit, X_val, fidelity=0.9).save(tmp_path / "compressed")
    assert exit_code("verify", original, tmp_path / "compressed", "--val", tmp_path / "val.npy") == 0
    assert exit_code("report", tmp_path / "compressed", "--original", original, "--data", tmp_path / "val.npy") == 0
    guard = ("guard", tmp_path / "compressed", "--original", original, "-o", tmp_path / "s", "--val", fresh)
    assert exit_code(*guard, "--fidelity", "0.9") == 0
    pine_boost.accelerate_booster(native, X_fit).save(tmp_path / "scorer")
    assert exit_code("verify", original, tmp_path / "scorer") == 0
    told = capsys.readouterr().out
    assert told.count("live model that the file of the original was saved from") == 2
