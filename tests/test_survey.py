"""survey: one table of what can be had; the rows that were looked at are known again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import pine_boost
from pine_boost import InvalidInputError
from pine_boost.cli import main
from tests.support.native_models import make_table

xgboost = pytest.importorskip("xgboost")
pandas = pytest.importorskip("pandas")

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


@pytest.fixture(scope="module")
def found() -> Any:
    X, y = make_table(2, n_rows=1600)
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1).fit(X[:600], y[:600])
    survey = pine_boost.survey(model, X[:600], X[600:1100], time_limit=20)
    return model, X, survey


def test_one_line_for_every_kind_of_promise(found: Any) -> None:
    model, X, survey = found
    kinds = [offer.promise.split(":")[0] for offer in survey.offers]
    assert kinds == ["the original", "lossless", *["proved"] * 5, *["a statistic"] * 4]
    original = survey.offers[0]
    assert original.trees == 10
    assert all(offer.leaves <= original.leaves for offer in survey.offers)
    needs = next(offer for offer in survey.offers if "99.9%" in offer.promise)
    assert needs.note == "needs 2995 rows, X_look has 500"
    last = survey.offers[-1]
    assert last.leaves < original.leaves
    assert last.speed is not None
    # the printed call works as it stands, with rows that were not looked at
    X_fit, X_val = X[:600], X[1100:]
    names = {"pine_boost": pine_boost, "model": model, "X_fit": X_fit, "survey": survey}
    result = eval(last.call, {**names, "X_val": X_val})
    assert result.record.fidelity == 0.98
    # and refuses those that were
    with pytest.raises(InvalidInputError, match="X_val were looked at by a survey"):
        eval(last.call, {**names, "X_val": X[600:1100]})
    proved = next(offer for offer in survey.offers if "80% of" in offer.promise)
    with pytest.raises(InvalidInputError, match="X_cal were looked at by a survey"):
        eval(proved.call, {**names, "X_cal": X[600:1100]})
    text = survey.summary()
    assert "These are estimates" in text
    assert "CERTIFIED" not in text


def test_rows_that_were_looked_at_are_refused(found: Any, tmp_path: Any) -> None:
    model, X, survey = found
    survey.check(X[1100:])
    with pytest.raises(InvalidInputError, match="looked at by a survey"):
        survey.check(X[600:1100])
    path = survey.save(tmp_path / "survey.json")
    with pytest.raises(InvalidInputError, match="X_val were looked at by a survey"):
        pine_boost.compress_booster(model, X[:600], X[700:1100], fidelity=0.9, spent=path)
    with pytest.raises(InvalidInputError, match="X_cal were looked at by a survey"):
        pine_boost.sweep(model, X[:600], X[700:1100], alphas=[0.2], spent=path)
    with pytest.raises(InvalidInputError, match="X_sel were looked at by a survey"):
        pine_boost.select_alpha(model, X[:600], X[1100:1300], X[700:1100], 0.9, spent=survey)
    with pytest.raises(InvalidInputError, match="X_cal were looked at by a survey"):
        pine_boost.select_alpha(model, X[:600], X[700:1100], X[1100:], 0.9, spent=survey)
    with pytest.raises(InvalidInputError, match="spent is a dict"):
        pine_boost.compress_booster(model, X[:600], X[1100:], fidelity=0.9, spent={})
    loaded = pine_boost.load_survey(path, model)
    assert loaded.table() == survey.table()
    with pytest.raises(InvalidInputError, match="looked at by a survey"):
        loaded.check(X[800:1300])
    document = json.loads(path.read_text())
    document["hashes"][0] = -1
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInputError, match=r"'hashes\[0\]' is -1, expected an integer"):
        pine_boost.load_survey(path, model)


def test_a_regressor_is_offered_no_proof() -> None:
    X, y = make_table(3, n_rows=900)
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1).fit(X[:500], y[:500])
    with pytest.raises(InvalidInputError, match="pass tolerance=, the most that its raw value"):
        pine_boost.survey(model, X[:500], X[500:])
    offers = pine_boost.survey(model, X[:500], X[500:], tolerance=0.3, time_limit=5).offers
    assert not any(offer.promise.startswith("proved") for offer in offers)
    assert not any("refused" in offer.note for offer in offers)


def test_command_line(tmp_path: Any, capsys: Any) -> None:
    X, y = make_table(2, n_rows=900)
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(X[:500], y[:500])
    model.save_model(tmp_path / "model.json")
    for name, rows in (("fit", X[:500]), ("look", X[500:])):
        np.save(tmp_path / f"{name}.npy", rows)
    arguments = [
        "survey",
        f"{tmp_path}/model.json",
        "--fit",
        f"{tmp_path}/fit.npy",
        "--look",
        f"{tmp_path}/look.npy",
        "--time-limit",
        "5",
        "-o",
        f"{tmp_path}/s.json",
    ]
    assert main([*arguments, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["offers"]) == 11
    assert main(arguments) == 1
    assert "--force" in capsys.readouterr().err
    tables = ["--fit", f"{tmp_path}/fit.npy", "--spent", f"{tmp_path}/s.json"]
    for command in (["prune", "--cal"], ["sweep", "--cal"], ["compress", "--fidelity", "0.9", "--val"]):
        again = [command[0], f"{tmp_path}/model.json", *tables, "-o", f"{tmp_path}/{command[0]}"]
        assert main([*again, *command[1:], f"{tmp_path}/look.npy"]) == 1
        assert "looked at by a survey" in capsys.readouterr().err
