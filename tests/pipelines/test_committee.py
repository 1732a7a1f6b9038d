"""Models that average several ensembles: several calibrators, a soft vote."""

import hashlib
import json
import pickle
import sys
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pine_boost
from pine_boost.budget import SECONDS
from pine_boost.cli.compress import exit_code
from tests.support.command_line import expect, run, write_inputs

X, Y = make_classification(2400, n_features=8, n_informative=5, flip_y=0.05, random_state=3)
FIT, VAL, FRESH = X[:800], X[800:1600], X[1600:]
FOREST = RandomForestClassifier(6, max_depth=4, random_state=0)
BOOSTER = GradientBoostingClassifier(n_estimators=8, random_state=0)


@cache
def whole(name):
    models = {
        "sigmoid": CalibratedClassifierCV(BOOSTER, cv=2),  # calibrates margins
        "isotonic": make_pipeline(StandardScaler(), CalibratedClassifierCV(FOREST, cv=2, method="isotonic")),
        "vote": VotingClassifier([("f", FOREST), ("b", BOOSTER), ("o", "drop")], voting="soft", weights=[1, 2, 9]),
        "threshold": FixedThresholdClassifier(
            VotingClassifier([("f", FOREST), ("b", BOOSTER)], voting="soft"), threshold=0.4
        ),
    }
    return models[name].fit(FIT, np.where(Y[:800] == 1, "yes", "no") if name == "vote" else Y[:800])


@cache
def compressed(name):
    return pine_boost.compress_booster(whole(name), FIT, VAL, fidelity=0.95, minimize="leaves", verbose=False)


NAMES = ["sigmoid", "isotonic", "vote", "threshold"]


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_is_smaller_of_its_kind_and_counted_natively(name, few_synthetic_rows):
    model = whole(name)
    before = model.predict_proba(FRESH)
    result = compressed(name)
    assert result.status == "VALIDATED"
    assert type(result.model) is type(model)
    assert result.leaves_after < result.leaves_before
    assert result.n_changed == np.sum(result.model.predict(VAL) != model.predict(VAL))
    assert result.bound >= 0.95
    assert result.evaluate(FRESH) == np.mean(result.model.predict(FRESH) == model.predict(FRESH)) > 0.9
    assert np.array_equal(model.predict_proba(FRESH), before)  # the original is left alone
    failed = [position for position, outcome in enumerate(result.tested) if not outcome.accepted]
    assert len(failed) < 2 or failed[1:] == [len(result.tested) - 1]  # the sequence ends at the second failure


@pytest.mark.parametrize("name", NAMES)
def test_fast_members_give_the_classes_of_the_whole(name):
    result = pine_boost.accelerate_booster(whole(name), FIT, VAL, fidelity=0.99)
    assert result.status == "VALIDATED"
    assert result.n_changed == 0
    loaded = pickle.loads(pickle.dumps(result.scorer))
    assert np.array_equal(loaded.predict(FRESH), whole(name).predict(FRESH))
    np.testing.assert_allclose(loaded.predict_proba(FRESH), whole(name).predict_proba(FRESH), rtol=1e-6)


def test_several_classes_are_averaged_too(few_synthetic_rows):
    rows, labels = make_classification(1200, n_features=8, n_informative=5, n_classes=3, random_state=1)
    model = CalibratedClassifierCV(FOREST, cv=2).fit(rows[:500], labels[:500])
    result = pine_boost.compress_booster(model, rows[:500], rows[500:], fidelity=0.9, verbose=False)
    assert result.status == "VALIDATED"
    assert result.n_changed == np.sum(result.model.predict(rows[500:]) != model.predict(rows[500:]))


def test_the_saved_model_and_its_claim(tmp_path, few_synthetic_rows):
    result = compressed("vote")
    folder = result.save(tmp_path / "smaller")
    loaded = pickle.loads((folder / "whole_model.pkl").read_bytes())
    assert np.array_equal(loaded.predict(FRESH), result.model.predict(FRESH))
    assert set(loaded.named_estimators_) == {"f", "b"}
    assert result.claim in (folder / "claim.txt").read_text()
    assert "800 validation rows" in result.claim
    assert "VALIDATED" in result._repr_html_()
    record = json.loads((folder / "average.json").read_text())
    assert record["tested"][0]["n_changed"] == result.tested[0].n_changed
    assert record["files"]["claim.txt"] == hashlib.sha256((folder / "claim.txt").read_bytes()).hexdigest()
    result.save(folder)  # an earlier result may be replaced, a changed file is not one
    (folder / "claim.txt").write_text("mine")
    with pytest.raises(pine_boost.InvalidInputError, match=r"already holds claim\.txt"):
        result.save(folder)


def test_the_commands_take_averages_or_name_those_that_do(tmp_path, monkeypatch, capsys, few_synthetic_rows):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "isotonic.pkl").write_bytes(pickle.dumps(whole("isotonic")))
    np.save("fit.npy", FIT)
    np.save("val.npy", VAL)
    call = ["isotonic.pkl", "--trust-pickle", "--fit", "fit.npy"]
    tested = [*call, "--val", "val.npy", "--fidelity", 0.95]
    code, out, _ = run(capsys, "compress", *tested, "--test", "val.npy", "-o", "smaller", "--json")
    document = json.loads(out)
    smaller = pickle.loads((tmp_path / "smaller" / document["model"]).read_bytes())
    changed = np.sum(smaller.predict(VAL) != whole("isotonic").predict(VAL))
    assert (code, document["status"], document["n_changed"]) == (0, "VALIDATED", changed)
    assert document["test_fidelity"] == 1 - changed / len(VAL)
    assert run(capsys, "compress", *tested, "-o", "smaller")[0] == 0  # again
    models = ("isotonic.pkl", "smaller/whole_model.pkl")
    _, out, _ = run(capsys, "parity", *models, "val.npy", "--trust-pickle", "--json")
    assert json.loads(out)["n_changed"] == changed
    out, _ = expect(capsys, 0, "accelerate", *tested, "-o", "fast", "--speedup")
    assert "100 rows per call: " in out
    assert "0 of 800 validation rows changed" in out
    fast = pickle.loads((tmp_path / "fast" / "whole_model.pkl").read_bytes())
    assert np.array_equal(fast.predict(FRESH), whole("isotonic").predict(FRESH))
    commands = ["score F val.npy", "verify isotonic.pkl F", "verify isotonic.pkl F --val val.npy", "report F"]
    commands += ["guard F --original isotonic.pkl -o g", "check-inputs F val.npy", "monitor F val.npy --state s.json"]
    for folder, command in product(("smaller", "fast"), commands):
        _, err = expect(capsys, 1, *command.replace("F", folder).split(), "--trust-pickle")
        assert f"{folder} holds an average of several ensembles" in err
        assert f"pine-boost parity ORIGINAL {folder}/whole_model.pkl" in err
    _, err = expect(capsys, 1, "survey", *call, "--look", "val.npy")
    assert "compress_booster takes it as it is, and accelerate_booster with fidelity below 1" in err


def test_other_calls_name_those_that_take_a_vote():
    for call in (pine_boost.prune_booster, pine_boost.survey):
        with pytest.raises(pine_boost.UnsupportedModelError, match="With voting='soft', compress_booster takes it"):
            call(whole("vote"), FIT, VAL)


@pytest.mark.parametrize(
    ("call", "options", "match"),
    [
        (pine_boost.compress_booster, {"tolerance": 0.1}, "tolerance was given for a VotingClassifier that averages 2"),
        (pine_boost.compress_booster, {"threshold": 0.4}, "threshold was given for a VotingClassifier"),
        (pine_boost.compress_booster, {"fidelity": 0.9999}, "X_val has 800 rows"),
        (pine_boost.accelerate_booster, {"fidelity": 1.0}, "is tested and not proved: pass X_fit, X_val and fidelity"),
    ],
)
def test_what_does_not_fit_an_average_is_refused(call, options, match):
    with pytest.raises(pine_boost.InvalidInputError, match=match):
        call(whole("vote"), FIT, VAL, **options)


def test_rows_that_were_seen_are_refused_or_only_measured(few_synthetic_rows):
    with pytest.raises(pine_boost.InvalidInputError, match="also occur in X_fit"):
        pine_boost.compress_booster(whole("vote"), FIT, FIT, fidelity=0.95)
    result = pine_boost.accelerate_booster(whole("vote"), FIT, FIT, fidelity=0.95, allow_overlap=True)
    assert result.status == "MEASURED"


def test_votes_and_members_without_trees_are_refused():
    hard = VotingClassifier([("f", FOREST), ("b", BOOSTER)], voting="hard").fit(FIT, Y[:800])
    with pytest.raises(pine_boost.UnsupportedModelError, match="voting='hard' counts votes"):
        pine_boost.compress_booster(hard, FIT, VAL)
    mixed = VotingClassifier([("f", FOREST), ("l", LogisticRegression())], voting="soft").fit(FIT, Y[:800])
    with pytest.raises(pine_boost.PineBoostError, match="LogisticRegression"):
        pine_boost.compress_booster(mixed, FIT, VAL, fidelity=0.95)
    with pytest.raises(pine_boost.InvalidInputError, match="not fitted"):
        pine_boost.compress_booster(VotingClassifier([("f", FOREST)]), FIT, VAL)


COLUMNS = [f"c{number}" for number in range(8)]


def _selecting(*models):
    """Steps that choose columns by name, each before a model of its own."""
    chosen = [COLUMNS[:5], COLUMNS[2:]]
    steps = [make_column_transformer((StandardScaler(), names)) for names in chosen]
    return [make_pipeline(step, model) for step, model in zip(steps, models, strict=False)]


@pytest.mark.parametrize("place", ["outside", "inside"])
def test_steps_that_choose_columns_by_name(place, tmp_path, few_synthetic_rows, caplog):
    fit, val = pd.DataFrame(FIT, columns=COLUMNS), pd.DataFrame(VAL, columns=COLUMNS)
    if place == "outside":
        (model,) = _selecting(VotingClassifier([("f", FOREST), ("b", BOOSTER)], voting="soft"))
    else:
        model = VotingClassifier(list(zip("fb", _selecting(FOREST, BOOSTER), strict=True)), voting="soft")
    model.fit(fit, Y[:800])
    for call in (pine_boost.compress_booster, pine_boost.accelerate_booster):
        result = call(model, fit, val, fidelity=0.95, verbose=False)
        assert result.status == "VALIDATED"
        assert result.n_changed == np.sum(result.model.predict(val) != model.predict(val))
        assert "Speed-up over the original, measured on this machine: " in result.summary()
        claim = (result.save(tmp_path / call.__name__) / "claim.txt").read_text()
        assert result.claim in claim
        assert "Speed-up" not in claim
        assert pickle.loads(pickle.dumps(result)).summary().startswith(result.headline())
        assert set(result.speedup(sizes=(1, 5))) == set(result.speedup(val, (1, 5))) == {1, 5}
        with pytest.raises(pine_boost.InvalidInputError, match="are given as sizes="):
            result.speedup((1, 5))
        with pytest.raises(pine_boost.InvalidInputError, match="sizes must be an integer of at least 1"):
            result.speedup(sizes=(0.5,))
    assert "not measured" not in caplog.text
    assert result.side_by_side.before.trees == FOREST.n_estimators + BOOSTER.n_estimators


@pytest.mark.parametrize("member", [1, 2])
def test_ctrl_c_on_the_path_of_a_member_leaves_a_second_for_the_rest(member, capsys, few_synthetic_rows):
    seen = []

    def press(step):
        seen.append(step)
        if step.step == 3 and sum(earlier.step == 1 for earlier in seen) == member:
            raise KeyboardInterrupt

    result = pine_boost.compress_booster(whole("vote"), FIT, VAL, fidelity=0.95, callback=press)
    assert result.stopped == result.to_dict()["stopped"] == "interrupted"
    assert "the work ended early (interrupted)" in result.summary()
    assert result.status in ("VALIDATED", "NOT_VALIDATED")
    assert result.n_changed == np.sum(result.model.predict(VAL) != whole("vote").predict(VAL))
    assert compressed("vote").stopped is None
    for status, kept in (("VALIDATED", "what"), ("NOT_VALIDATED", "the original: nothing smaller")):
        assert exit_code(replace(result, status=status)) == 130
        assert f"interrupted; wrote {kept} had passed the test by then" in capsys.readouterr().err


def test_ctrl_c_while_fast_members_are_made_leaves_a_second_for_the_rest(
    tmp_path, capsys, monkeypatch, few_synthetic_rows
):
    write_inputs(tmp_path, whole("vote"), fit=FIT, val=VAL)
    real, left = sys.modules["pine_boost.accelerate"].proved_plan, []

    def pressed(*given, budget, **named):
        left.append(budget.remaining)
        if len(left) == 1:
            raise KeyboardInterrupt
        return real(*given, budget=budget, **named)

    monkeypatch.setattr(sys.modules["pine_boost.accelerate"], "proved_plan", pressed)
    tables = ("--fit", tmp_path / "fit.npy", "--val", tmp_path / "val.npy")
    call = (
        "accelerate",
        tmp_path / "model.pkl",
        "--trust-pickle",
        *tables,
        "--fidelity",
        0.95,
        "-o",
        tmp_path / "fast",
    )
    out, err = expect(capsys, 130, *call)
    assert "interrupted" in err
    assert "VALIDATED" in out
    assert len(left) == 3  # the first member twice
    assert max(left[1:]) <= SECONDS["after Ctrl-C"]
    fast = pickle.loads((tmp_path / "fast" / "whole_model.pkl").read_bytes())
    assert np.array_equal(fast.predict(FRESH), whole("vote").predict(FRESH))
