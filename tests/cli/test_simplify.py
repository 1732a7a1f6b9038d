"""pine-boost simplify: same format out, nothing replaced unasked, JSON and words."""

import json
import pickle
import threading

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble, tree

from tests.support.command_line import expect, printed
from tests.support.xgboost_models import booster_margins, make_labels, make_rows, train


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_xgboost_files(suffix, tmp_path, capsys):
    booster = train(rounds=30, objective="binary:logistic", gamma=30.0)
    source, target = tmp_path / f"model.{suffix}", tmp_path / f"smaller.{suffix}"
    booster.save_model(source)
    before = source.read_bytes()
    out, _ = expect(capsys, 0, "simplify", source, "-o", target, "--fold-constants", "--json")
    facts = json.loads(out)
    assert facts["trees_after"] < facts["trees_before"] == 30
    assert facts["bytes_after"] == target.stat().st_size < facts["bytes_before"]
    assert not facts["exact"]
    rows = make_rows(100)
    moved = booster_margins(xgboost.Booster(model_file=target), rows) - booster_margins(booster, rows)
    assert np.abs(moved).max() <= facts["bound"]
    assert source.read_bytes() == before


def test_pickles_stay_pickles(tmp_path, capsys):
    rows = np.nan_to_num(make_rows())
    stump = tree.DecisionTreeClassifier(max_depth=3, random_state=0)
    native = ensemble.AdaBoostClassifier(stump, n_estimators=6).fit(rows, make_labels(rows, 2))
    source, target = tmp_path / "model.pkl", tmp_path / "smaller.pkl"
    source.write_bytes(pickle.dumps(native))
    _, err = expect(capsys, 1, "simplify", source, "-o", target)
    assert "trust_pickle" in err or "--trust-pickle" in err
    assert not target.exists()
    out, _ = expect(capsys, 0, "simplify", source, "-o", target, "--trust-pickle")
    assert "is the same, bit for bit" in out
    assert f"Written to {target}" in out
    loaded = pickle.loads(target.read_bytes())
    np.testing.assert_array_equal(loaded.decision_function(rows), native.decision_function(rows))


class _MakesLock:
    """What comes back from a pickle as a lock, which goes into none."""

    def __reduce__(self):
        return threading.Lock, ()


def test_what_cannot_be_pickled_again_is_said(tmp_path, capsys):
    rows = np.nan_to_num(make_rows())
    native = ensemble.GradientBoostingClassifier(n_estimators=3).fit(rows, make_labels(rows, 2))
    native.lock = _MakesLock()
    source, target = tmp_path / "model.pkl", tmp_path / "smaller.pkl"
    source.write_bytes(pickle.dumps(native))
    _, err = expect(capsys, 1, "simplify", source, "-o", target, "--trust-pickle")
    assert "cannot be pickled" in err
    assert "what no file can hold" in err
    assert not target.exists()


def test_a_place_where_no_model_can_be_is_refused(tmp_path, capsys):
    source = tmp_path / "model.json"
    train(rounds=2, objective="binary:logistic").save_model(source)
    for target, message in (
        (tmp_path, "is a folder"),
        (tmp_path / "smaller.ubj", "suffix"),
        (tmp_path / "no" / "folder.json", "cannot be written"),
    ):
        _, err = expect(capsys, 1, "simplify", source, "-o", target)
        assert message in err
        assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_lightgbm_text(tmp_path, capsys):
    rows = make_rows()
    booster = lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1, "min_gain_to_split": 5.0},
        lightgbm.Dataset(rows, make_labels(rows, 2)),
        20,
    )
    source, target = tmp_path / "model.txt", tmp_path / "smaller.txt"
    booster.save_model(source)
    assert "trees" in printed(capsys, "simplify", source, "-o", target)
    np.testing.assert_array_equal(
        lightgbm.Booster(model_file=target).predict(rows, raw_score=True), booster.predict(rows, raw_score=True)
    )
