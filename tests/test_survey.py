"""survey: one table of what can be had; the rows that were looked at are known again."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import xgboost

import pine_boost
from pine_boost import InvalidInputError, surveying
from pine_boost.budget import Outcome, StopReason
from pine_boost.cli import main
from pine_boost.surveying import Asked, Line, _monotone
from tests.support.command_line import refused, words, write_inputs
from tests.support.native_models import make_table

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


@pytest.fixture(scope="module")
def found():
    X, y = make_table(2, n_rows=1600)
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1).fit(X[:600], y[:600])
    survey = pine_boost.survey(model, X[:600], X[600:1100], time_limit=20)
    return model, X, survey


def _cost(model, rows):
    """2 and the splits passed, of every row in every tree, from XGBoost's own table of nodes."""
    frame = model.get_booster().trees_to_dataframe()
    parent = {child: row.ID for row in frame.itertuples() for child in (row.Yes, row.No) if row.Feature != "Leaf"}
    depth = dict.fromkeys(frame.ID, 0)
    for node in depth:
        above = node
        while above in parent:
            above, depth[node] = parent[above], depth[node] + 1
    return np.array([[2 + depth[f"{t}-{int(leaf)}"] for t, leaf in enumerate(row)] for row in model.apply(rows)])


def test_one_line_for_every_kind_of_promise(found):
    model, X, survey = found
    kinds = [offer.promise.split(":")[0] for offer in survey.offers]
    scorers = ["accelerated", "accelerated, a statistic"]
    assert kinds == ["the original", *scorers, "lossless", *["proved"] * 5, *["a statistic"] * 4]
    original, accelerated, tested = survey.offers[:3]
    assert original.trees == accelerated.trees == 10
    assert min(accelerated.speed_1, accelerated.speed_100, accelerated.speed_100000) > 0
    assert accelerated.work < original.work
    scorer = eval(accelerated.call, {"pine_boost": pine_boost, "model": model}).scorer
    met, cost = scorer.trees_met(X[:500]), _cost(model, X[:500])  # both lines on the same rows
    assert accelerated.note == f"needs no data; a typical row of X_fit visits {met.mean():.3g} of 10 trees"
    assert original.work == pytest.approx(cost.sum(axis=1).mean())
    is_met = np.arange(10) < met[:, None]
    assert accelerated.work == pytest.approx((cost[:, scorer.parts.plan.order] * is_met).sum(axis=1).mean())
    assert np.array_equal(scorer.predict(X), model.predict(X))
    assert tested.work < accelerated.work
    assert tested.trees == 10
    rows = {"X_fit": X[:600], "X_val": X[1100:]}
    fast = eval(tested.call, {"pine_boost": pine_boost, "model": model, "survey": survey, **rows})
    assert (fast.status, fast.facts["validation"]["fidelity"]) == ("VALIDATED", 0.99)
    with pytest.raises(InvalidInputError, match="X_val were used by a survey"):
        eval(tested.call, {"pine_boost": pine_boost, "model": model, "survey": survey, **rows, "X_val": X[600:1100]})
    assert all(offer.leaves <= original.leaves for offer in survey.offers)
    needs = next(offer for offer in survey.offers if "99.9%" in offer.promise)
    assert needs.note.startswith("needs 2995 rows, X_look has 500")
    last = survey.offers[-1]
    assert last.leaves < original.leaves
    assert last.speed_1 is not None
    assert last.work < original.work
    # the printed call works as it stands, with rows that were not looked at
    X_fit, X_val = X[:600], X[1100:]
    names = {"pine_boost": pine_boost, "model": model, "X_fit": X_fit, "survey": survey}
    result = eval(last.call, {**names, "X_val": X_val})
    assert result.record.fidelity == 0.98
    # and refuses those that were
    with pytest.raises(InvalidInputError, match="X_val were used by a survey"):
        eval(last.call, {**names, "X_val": X[600:1100]})
    proved = next(offer for offer in survey.offers if "80% of" in offer.promise)
    with pytest.raises(InvalidInputError, match="X_cal were used by a survey"):
        eval(proved.call, {**names, "X_cal": X[600:1100]})
    text = survey.summary()
    assert "These are estimates" in text
    assert "CERTIFIED" not in text


def test_one_offer_is_recommended_with_its_reason(found):
    survey = found[2]
    offer, reason = survey.recommended()
    assert offer in survey.offers
    text = f"Recommended: {offer.promise} ({reason}). {offer.call}"
    assert survey.summary().endswith(text.rstrip())
    original, accelerated, tested, *others = survey.offers
    # a statistic is not recommended in place of a proof
    unsure = replace(tested, speed_100000=99.0, work=0.0)
    assert replace(survey, offers=(original, unsure, *others)).recommended()[0] != unsure
    half = replace(others[3], work=original.work / 2)
    slow = replace(survey, offers=(original, replace(accelerated, speed_100000=1.0), *others[:3], half, *others[4:]))
    offer, reason = slow.recommended()
    assert offer == next(offer for offer in slow.offers if offer.work <= original.work / 2)  # strictest first
    assert "strictest" in reason
    at_once = replace(accelerated, speed_1=88.0, speed_100000=1.0)
    slow = replace(slow, offers=(original, at_once, replace(half, speed_1=1.0)))
    assert slow.recommended()[1].endswith("; the accelerated row is proved and 88 times as fast for 1 row")
    slow = replace(slow, offers=(original, at_once, replace(half, speed_1=90.0)))
    assert slow.recommended()[1].endswith("half of the work goes")
    fast = replace(survey, offers=(original, replace(accelerated, speed_100000=7.0), *others))
    assert fast.recommended()[0].promise == accelerated.promise
    nearly = replace(others[-1], work=original.work - 1)
    assert replace(survey, offers=(original, nearly)).recommended()[0] == nearly
    little = replace(others[-1], work=original.work * 0.95)
    unmeasured = replace(accelerated, work=original.work * 0.98, speed_1=None, speed_100=None, speed_100000=None)
    offer, reason = replace(survey, offers=(original, unmeasured, little)).recommended()
    assert offer == unmeasured  # a proof, where a statistic would save next to nothing
    assert reason.startswith("no row saves a tenth of the work")
    refused = replace(unmeasured, note="refused: of a kind without a scorer")
    assert replace(survey, offers=(original, refused, little)).recommended()[0] == little
    assert replace(survey, offers=(original,)).recommended() == (original, "nothing smaller was found")


def test_a_path_that_time_cut_short_is_not_said_to_hold_nothing(found, monkeypatch):
    model, X, _ = found
    monkeypatch.setattr(surveying, "find_path", lambda *_: Outcome([], StopReason.TIME))
    offers = pine_boost.survey(model, X[:600], X[600:1100], time_limit=5).offers
    tested = [offer for offer in offers if offer.promise.startswith("a statistic")]
    assert all("nothing smaller was found in this time" in offer.note for offer in tested if "needs" not in offer.note)
    assert any("needs" not in offer.note for offer in tested)


def test_rows_that_were_looked_at_are_refused(found, tmp_path):
    model, X, survey = found
    survey.check(X[1100:])
    with pytest.raises(InvalidInputError, match="used by a survey"):
        survey.check(X[600:1100])
    path = survey.save(tmp_path / "survey.json")
    with pytest.raises(InvalidInputError, match="X_val were used by a survey"):
        pine_boost.compress_booster(model, X[:600], X[700:1100], fidelity=0.9, spent=path)
    with pytest.raises(InvalidInputError, match="X_cal were used by a survey"):
        pine_boost.sweep(model, X[:600], X[700:1100], alphas=[0.2], spent=path)
    with pytest.raises(InvalidInputError, match="X_sel were used by a survey"):
        pine_boost.select_alpha(model, X[:600], X[1100:1300], X[700:1100], 0.9, spent=survey)
    with pytest.raises(InvalidInputError, match="X_cal were used by a survey"):
        pine_boost.select_alpha(model, X[:600], X[700:1100], X[1100:], 0.9, spent=survey)
    with pytest.raises(InvalidInputError, match=r"spent must be .* got a dict"):
        pine_boost.compress_booster(model, X[:600], X[1100:], fidelity=0.9, spent={})
    loaded = pine_boost.load_survey(path, model)
    assert loaded.table() == survey.table()
    with pytest.raises(InvalidInputError, match="used by a survey"):
        loaded.check(X[800:1300])
    document = json.loads(path.read_text())
    document["hashes"][0] = -1
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInputError, match=r"'hashes\[0\]' is -1, expected an integer"):
        pine_boost.load_survey(path, model)


def test_messages_about_rows_name_the_table_of_the_survey(found):
    model, X, _ = found
    with pytest.raises(InvalidInputError, match="X_look has no rows") as empty:
        pine_boost.survey(model, X[:600], X[:0])
    assert empty.value.option == ("X_look",)
    with pytest.raises(InvalidInputError, match=r"rows of X_look also occur in X_fit .* Pass held-out rows\.$"):
        pine_boost.survey(model, X[:600], X[100:600])


def test_a_regressor_is_offered_no_proof():
    X, y = make_table(3, n_rows=900)
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1).fit(X[:500], y[:500])
    with pytest.raises(InvalidInputError, match=r"pass tolerance \(the most that its raw value"):
        pine_boost.survey(model, X[:500], X[500:])
    offers = pine_boost.survey(model, X[:500], X[500:], tolerance=0.3, time_limit=5).offers
    assert not any(offer.promise.startswith("proved") for offer in offers)
    accelerated = offers[1]
    assert accelerated.promise == "accelerated: a raw value within 0.3 of the model's on every input, proved"
    assert accelerated.call == "pine_boost.accelerate_booster(model, tolerance=0.3)"
    fast = pine_boost.accelerate_booster(model, tolerance=0.3)
    scorer, kept = fast.scorer, fast.facts["truncation"]["trees"]
    assert accelerated.work == pytest.approx(_cost(model, X[:500])[:, kept].sum(axis=1).mean())
    assert scorer.parts.flat.n_trees == accelerated.trees < 5
    assert np.abs(scorer.predict(X) - model.predict(X)).max() <= 0.3
    assert not any("refused" in offer.note for offer in offers)


def test_command_line(tmp_path, capsys, monkeypatch):
    X, y = make_table(2, n_rows=900)
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(X[:500], y[:500])
    write_inputs(tmp_path, model, fit=X[:500], look=X[500:])
    arguments = words(
        f"survey {tmp_path}/model.json --fit {tmp_path}/fit.npy --look {tmp_path}/look.npy "
        f"--time-limit 5 -o {tmp_path}/s.json"
    )
    assert main([*arguments, "--json"]) == 0
    offers = json.loads(capsys.readouterr().out)["offers"]
    assert len(offers) == 13
    assert main(words(f"report {tmp_path}/s.json")) == 0
    page = (tmp_path / "s.html").read_text()
    assert capsys.readouterr().out == f"Written to {tmp_path}/s.html\n"
    assert page.count("<tr>") == 2 + len(offers) + len(offers) - 1
    assert "These are estimates" in page
    assert "Recommended: " in page
    assert main(words(f"report {tmp_path}/s.json")) == 0  # its own page
    (tmp_path / "s.html").write_text(page.replace("estimates", "promises"))
    capsys.readouterr()
    assert main(words(f"report {tmp_path}/s.json")) == 1
    assert "was changed since it was written" in capsys.readouterr().err
    assert main(words(f"report {tmp_path}/s.json --force --data {tmp_path}/fit.npy")) == 1
    assert "leave out --original, --data and --label." in capsys.readouterr().err
    # the command of the scorer runs as printed
    assert offers[1]["command"] == f"pine-boost accelerate {tmp_path}/model.json -o SCORER"
    monkeypatch.chdir(tmp_path)
    assert main(offers[1]["command"].split()[1:]) == 0
    assert np.array_equal(pine_boost.load_scorer("SCORER").predict(X), model.predict(X))
    capsys.readouterr()
    assert "--force" in refused(capsys, *arguments)
    tables = ["--fit", f"{tmp_path}/fit.npy", "--spent", f"{tmp_path}/s.json"]
    for command in (["prune", "--cal"], ["sweep", "--cal"], ["compress", "--fidelity", "0.9", "--val"]):
        again = [command[0], f"{tmp_path}/model.json", *tables, "-o", f"{tmp_path}/{command[0]}"]
        assert "used by a survey" in refused(capsys, *again, *command[1:], f"{tmp_path}/look.npy")


def _line(promise, work, *, everywhere=False):
    return Line(promise, Asked(promise), SimpleNamespace(), work, holds_everywhere=everywhere)


def _sizes(lines):
    return [line.work for line in lines]


def test_a_looser_promise_has_no_larger_model_and_names_where_it_comes_from():
    proved = [_line("p0", 40, everywhere=True), _line("p1", 50), _line("p2", 30), _line("p3", 60), _line("auto", 45)]
    compressed = [_line("c1", 70), _line("c2", 35), _line("c3", 38), _line("c4", 20)]
    lines = _monotone(_line("lossless", 90), proved, compressed, None)
    assert _sizes(lines) == [90, 40, 40, 30, 30, 30, 40, 35, 35, 20]
    assert [line.call.function for line in lines if line.call is not None] == [
        *("lossless", "p0", "p0", "p2", "p2", "p2"),
        *("p0", "c2", "c2", "c4"),
    ]
    assert lines[4].note == "the model of a stricter promise, p2"
    # a tolerance on probabilities, or an input that rounding leaves undecided, is more than a proof of classes says
    for everywhere, tolerance in ((True, 0.1), (False, None)):
        first = _line("p0", 40, everywhere=everywhere)
        again = _monotone(_line("lossless", 90), [first, *proved[1:]], compressed, tolerance)
        assert _sizes(again)[6:] == [70, 35, 35, 20]
    assert _sizes(_monotone(_line("lossless", 90), [], compressed, 0.1)) == [90, 70, 35, 35, 20]


def test_lines_are_monotone_and_proved_everywhere_is_offered_for_every_alpha(found):
    offers = found[2].offers
    offers = [offer for offer in offers if not offer.promise.startswith("accelerated")]
    work = [offer.work for offer in offers]
    assert work[0] >= work[1] >= work[2] >= work[3] >= work[4] >= work[5]
    assert work[4] >= work[6]
    assert work[1] >= work[7] >= work[8] >= work[9] >= work[10]
    assert all(f"{share}% of future" in offer.promise for share, offer in zip((95, 90, 80), offers[3:6], strict=True))


def test_calls_for_a_calibrated_model_run_as_printed():
    from sklearn import calibration

    X, y = make_table(2, n_rows=1600)
    inner = xgboost.XGBClassifier(n_estimators=8, max_depth=2, n_jobs=1)
    model = calibration.CalibratedClassifierCV(inner, ensemble=False).fit(X[:500], y[:500])
    survey = pine_boost.survey(model, X[:500], X[500:1000], time_limit=10)
    names = {"pine_boost": pine_boost, "model": model, "X_fit": X[:500], "survey": survey}
    called = {offer.call for offer in survey.offers[1:]}
    assert not any("threshold" in call for call in called)
    for call in called:
        if not any(f"fidelity={fidelity}" in call for fidelity in (0.999, 0.995)):  # these need more rows
            eval(call, {**names, "X_cal": X[1000:], "X_val": X[1000:]})


def test_the_table_is_html_in_a_notebook(found):
    page = found[2]._repr_html_()
    assert page.count("<tr>") == 1 + len(found[2].offers)
    assert "pine_boost.prune_booster(model, X_fit, X_cal, alpha=0" in page
    assert "These are estimates" in page
