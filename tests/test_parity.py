"""`compare_models` counts what the native models answer, and its intervals are exact."""

import json
from functools import cache

import lightgbm
import numpy as np
import pandas
import pytest
import xgboost
from scipy.stats import binomtest
from sklearn import ensemble

import pine_boost
from pine_boost import InvalidInputError, UnsupportedModelError, compare_models
from tests.support.command_line import expect, run


@cache
def table(seed=0, n_rows=500):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 4)).round(2)
    return X, np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * random.normal(size=n_rows), [0.0])


@cache
def booster(rounds=20):
    return xgboost.train(
        {"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, xgboost.DMatrix(*table()), rounds
    )


@cache
def classifier():
    return lightgbm.LGBMClassifier(n_estimators=20, num_leaves=7, n_jobs=1, verbose=-1).fit(*table())


def test_counts_intervals_and_accuracies_are_those_of_the_native_models():
    X, y = table(1)
    found = compare_models(booster(), classifier(), X, y, confidence=0.9, segments=X[:, 3] > 0)
    chances = booster().predict(xgboost.DMatrix(X))
    a, b = (chances > 0.5).astype(int), classifier().predict(X)
    assert found.n_changed == np.count_nonzero(a != b) > 0
    exact = binomtest(int((a == b).sum()), len(X)).proportion_ci(0.9, "exact")
    assert (found.low, found.high) == pytest.approx(tuple(exact), abs=1e-12)
    assert not found.reached
    moved = np.abs(chances - classifier().predict_proba(X)[:, 1])
    assert found.differences["maximum"] == pytest.approx(moved.max(), abs=1e-6)
    assert sum(segment.n_changed for segment in found.segments) == found.n_changed
    assert sum(segment.n_rows for segment in found.decisions) == len(X)
    for segment in found.to_dict()["segments"]:
        inside = (X[:, 3] > 0) == (segment["name"] == "True")
        exact = binomtest(int((a == b)[inside].sum()), int(inside.sum())).proportion_ci(0.9, "exact")
        assert (segment["low"], segment["high"]) == pytest.approx(tuple(exact), abs=1e-12)
    assert "same decision 90% interval " in found.summary()
    accuracy = found.accuracy
    assert (accuracy.a, accuracy.b) == ((a == y).mean(), (b == y).mean())
    assert accuracy.only_a - accuracy.only_b == (a == y).sum() - (b == y).sum()
    lost, won = (binomtest(count, len(X)).proportion_ci(0.95, "exact") for count in (accuracy.only_a, accuracy.only_b))
    assert accuracy.low == pytest.approx(won.low - lost.high)
    assert accuracy.high == pytest.approx(won.high - lost.low)
    order = [(a[row.row] == b[row.row], -row.difference) for row in found.worst]
    assert order == sorted(order)
    assert sum(not same for same, _ in order) == min(found.n_changed, len(order)) > 0
    assert "NOT REACHED" in found.claim
    assert "accuracy" in found._repr_html_()


def test_a_model_is_itself_in_every_form(tmp_path):
    X, _ = table(1)
    booster().save_model(tmp_path / "model.json")
    scorer = pine_boost.accelerate_booster(booster(), verbose=False).scorer
    forms = [str(tmp_path / "model.json"), booster().save_raw("ubj"), scorer, lambda rows: scorer.predict(rows)]
    for form in forms:
        found = compare_models(booster(), form, X, fidelity=1.0)
        assert (found.n_changed, found.reached, found.worst) == (0, True, ())
    loose = compare_models(booster(), booster(19), X, fidelity=0.5)
    strict = compare_models(booster(), booster(19), X, fidelity=0.5, tolerance=1e-9)
    assert loose.n_changed < strict.n_changed
    shifted = compare_models(booster(), booster(19), X, threshold=(0.3, 0.6))
    native = [
        np.digitize(model.predict(xgboost.DMatrix(X)), [0.3, 0.6], right=True) for model in (booster(), booster(19))
    ]
    assert shifted.n_changed == np.count_nonzero(native[0] != native[1])


def test_values_are_compared_after_the_link():
    X, _ = table()
    y = np.exp(X[:, 0])
    wrapper = xgboost.XGBRegressor(objective="count:poisson", n_estimators=5, max_depth=2, n_jobs=1).fit(X, y)
    found = compare_models(wrapper, wrapper.get_booster(), X, fidelity=1.0)
    assert found.reached, found.summary()
    other = compare_models(wrapper, lambda rows: wrapper.predict(rows) + 0.25, X, tolerance=0.3)
    assert other.n_changed == 0
    assert other.differences["mean"] == pytest.approx(0.25, abs=1e-6)
    assert compare_models(wrapper, lambda rows: wrapper.predict(rows) + 0.25, X).n_changed == len(X)


def test_what_cannot_be_compared_is_refused():
    X, y = table()
    named = ensemble.RandomForestClassifier(3, random_state=0).fit(X, np.array(["no", "yes"])[y])
    with pytest.raises(InvalidInputError, match="answer differently"):
        compare_models(booster(), named, X)
    with pytest.raises(InvalidInputError, match="answer differently"):
        compare_models(booster(), ensemble.RandomForestRegressor(3).fit(X, X[:, 0]), X)
    with pytest.raises(InvalidInputError, match="none of the labels"):
        compare_models(named, named, X, y)
    with pytest.raises(UnsupportedModelError, match="neither has predict"):
        compare_models(booster(), object(), X)
    with pytest.raises(InvalidInputError, match="does not predict this table"):
        compare_models(named, named, X[:, :2])
    with pytest.raises(InvalidInputError, match="not a column"):
        compare_models(named, named, X, segments="country")
    with pytest.raises(InvalidInputError, match="fidelity"):
        compare_models(named, named, X, fidelity=1.5)
    with pytest.raises(InvalidInputError, match="one answer per row"):
        compare_models(named, lambda rows: named.predict(rows)[:-1], X)


def test_the_command_has_an_exit_code_a_page_and_json(tmp_path, capsys):
    X, y = table(1)
    names = [f"f{j}" for j in range(4)]
    for name, rounds in (("old.json", 20), ("new.json", 19)):
        rows = xgboost.DMatrix(*table(), feature_names=names)
        xgboost.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, rows, rounds).save_model(
            tmp_path / name
        )
    pandas.DataFrame(X, columns=names).assign(label=y, group=np.where(X[:, 0] > 0, "up", "down")).to_csv(
        tmp_path / "rows.csv", index=False
    )
    place = [tmp_path / name for name in ("old.json", "new.json", "rows.csv")]
    page = tmp_path / "page.html"
    expected = compare_models(booster(), booster(19), X, y, fidelity=0.9)
    code, out, _ = run(
        capsys, "parity", *place, "--fidelity", 0.9, "--label", "label", "--segments", "group", "-o", page, "--json"
    )
    found = json.loads(out)
    assert (code, found["n_changed"], found["bound"]) == (0, expected.n_changed, expected.bound)
    assert {segment["name"] for segment in found["segments"]} == {"up", "down"}
    assert found["accuracy"]["b"] == expected.accuracy.b
    text = page.read_text()
    assert "REACHED" in text
    assert "By segment" in text
    assert "same decision, exact interval" in text
    for name in ("a, Booster", "b, Booster"):
        assert f"accuracy of {name} " in expected.summary()
    assert run(capsys, "parity", *place, "-o", page)[0] == 1
    # a random sample can still be an unlucky one: no condition on the rows makes the promise certain
    assert expected.promise().startswith("REACHED: at least 90% of inputs like these keep their decision, if")
    assert expected.promise().endswith("This is a statistic, not a proof: an unlucky sample of rows can mislead it.")
    code, out, _ = run(capsys, "parity", *place, "--fidelity", 1)
    assert code == (0 if expected.n_changed == 0 else 2)
    assert out.splitlines()[-1].startswith("REACHED: every row" if code == 0 else "NOT REACHED: not every row")


def test_folders_of_the_package_are_models_too(tmp_path, capsys):
    names = [f"f{j}" for j in range(4)]
    rows = pandas.DataFrame(table()[0], columns=names)
    tiny = xgboost.XGBClassifier(n_estimators=4, max_depth=2, n_jobs=1).fit(rows, table()[1])
    tiny.save_model(tmp_path / "tiny.json")
    result = pine_boost.prune_booster(tiny, rows[:250], rows[250:], alpha=0.3)
    assert result.status == "CERTIFIED"
    result.save(tmp_path / "pruned")
    pine_boost.GuardedModel(result).save(tmp_path / "guarded")
    pine_boost.accelerate_booster(tiny, verbose=False).save(tmp_path / "scorer")
    rows.assign(more=1).to_csv(tmp_path / "rows.csv", index=False)
    for folder in ("pruned", "guarded", "scorer"):
        command = ("parity", tmp_path / "tiny.json", tmp_path / folder, tmp_path / "rows.csv", "--json")
        out, err = expect(capsys, 0, *command, "--fidelity", 0.4)
        assert "columns left out: more" in err
        assert folder == "pruned" or json.loads(out)["n_changed"] == 0


def test_a_scorer_that_decides_at_a_threshold_of_its_own_is_said_to(tmp_path, capsys):
    X, _ = table()
    path = tmp_path / "model.json"
    booster().save_model(path)
    pine_boost.accelerate_booster(path, threshold=0.7).save(tmp_path / "scorer")
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="f0,f1,f2,f3", comments="")
    out, _ = expect(capsys, 2, "parity", path, tmp_path / "scorer", tmp_path / "rows.csv", "--fidelity", "1")
    assert "b decides at" in out
    assert "0.7, its own threshold, unlike the other model; pass the threshold to ask both at it" in out
    assert "decides at" not in compare_models(path, tmp_path / "scorer", X, threshold=0.7).summary()
    assert "decides at" not in compare_models(tmp_path / "scorer", tmp_path / "scorer", X).summary()
