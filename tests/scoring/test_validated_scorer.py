"""accelerate_booster with fidelity below 1: the promise on fresh rows, every kind, the test's own rules, verify."""

import itertools
import json
from dataclasses import replace

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble

import pine_boost
from pine_boost import CertificateMismatch, InvalidInputError, UnsupportedModelError
from pine_boost.budget import Budget
from pine_boost.compression.fixed_sequence import allowed
from pine_boost.compression.path import set_up
from pine_boost.model.shape import GONE, margins
from pine_boost.model.states import build_space
from pine_boost.native.predict import _LOADED
from pine_boost.parsers import read_model
from pine_boost.proof.exits import faults_of
from pine_boost.scoring.scorer_verification import verify_scorer
from pine_boost.scoring.validated_exits import build_stages, estimate_levels
from pine_boost.tables.rows import MemoryRows

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


def _table(n_classes=2):
    from sklearn.datasets import make_classification

    X, y = make_classification(7000, 8, n_informative=5, n_classes=n_classes, flip_y=0.05, random_state=0)
    return X, y


def _models():
    return {
        "xgboost": (xgboost.XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1), 2),
        "xgboost classes": (xgboost.XGBClassifier(n_estimators=15, max_depth=4, n_jobs=1), 3),
        "lightgbm": (lightgbm.LGBMClassifier(n_estimators=40, num_leaves=15, n_jobs=1, verbose=-1), 2),
        "histogram classes": (ensemble.HistGradientBoostingClassifier(max_iter=15), 3),
        "forest": (ensemble.RandomForestClassifier(30, max_depth=6, random_state=0), 2),
        "forest classes": (ensemble.RandomForestClassifier(20, max_depth=6, random_state=0), 3),
        "votes": (ensemble.AdaBoostClassifier(n_estimators=30, random_state=0), 2),
    }


def test_progress_counts_the_trees_of_the_model():
    X, y = _table()
    model = xgboost.XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1).fit(X[:2000], y[:2000])
    steps = []
    pine_boost.accelerate_booster(model, X[:2000], X[2000:4500], fidelity=0.98, callback=steps.append)
    stages = [step for step in steps if step.phase == "stages"]
    assert stages
    assert all((step.unit, step.units) == ("tree", 40) and 0 < step.tried < 40 for step in stages)


@pytest.mark.parametrize("name", list(_models()))
def test_the_promise_holds_on_fresh_rows_with_less_work_than_the_proof(name):
    model, n_classes = _models()[name]
    X, y = _table(n_classes)
    X_fit, X_val, fresh = X[:2000], X[2000:4500], X[4500:]
    model.fit(X_fit, y[:2000])
    result = pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.98)
    tested = result.facts["validation"]
    assert result.status == "VALIDATED"
    assert "probability at least 0.98. This is a statistic, not a proof." in result.claim
    assert "2500 validation rows changed" in result.summary()
    # the numbers of the record are those of the scorer and the native model
    changed = result.scorer.predict(X_val) != model.predict(X_val)
    assert tested["n_changed"] == changed.sum() <= allowed(2500, 0.98, 0.95)
    assert result.work < pine_boost.accelerate_booster(model, X_fit).work
    # binomial error: four standard deviations above the share that is allowed
    wrong = np.mean(result.scorer.predict(fresh) != model.predict(fresh))
    assert wrong < 0.02 + 4 * np.sqrt(0.02 * 0.98 / len(fresh))
    # rows that see all trees have the original's own class
    late = result.scorer.trees_met(fresh) == result.original.forest.n_trees
    assert np.array_equal(result.scorer.predict(fresh)[late], model.predict(fresh)[late])
    if name != "votes":
        np.testing.assert_allclose(result.scorer.predict_proba(fresh), model.predict_proba(fresh), rtol=1e-5, atol=1e-7)


@pytest.fixture(scope="module")
def boosted():
    X, y = _table()
    model = xgboost.XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1).fit(X[:2000], y[:2000])
    return model, X[:2000], X[2000:4500], X[4500:]


def test_levels_stop_at_the_first_that_fails(boosted):
    model, X_fit, X_val, _ = boosted
    path = pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.98).facts["validation"]["path"]
    assert [level["level"] for level in path] == sorted((level["level"] for level in path), reverse=True)
    assert all(level["accepted"] for level in path[:-1])
    most = allowed(len(X_val), 0.98, 0.95)
    assert [level["n_changed"] <= most for level in path] == [level["accepted"] for level in path]
    assert [level["work"] for level in path] == sorted((level["work"] for level in path), reverse=True)


def test_stages_are_nested_prefixes_of_the_order(boosted):
    model, X_fit, X_val, _ = boosted
    parsed = read_model(model)
    task = set_up(parsed, "trees", MemoryRows(X_fit), 0, Budget.of())
    stages = build_stages(task, Budget.of())
    assert sorted(stages.order) == list(range(40))
    for count, shape in zip(stages.counts, stages.shapes, strict=True):
        kept = np.unique(task.subtrees.leaf_tree[shape.owner != GONE])
        assert sorted(stages.order[:count]) == kept.tolist()
    # stricter levels ask for larger distances, change fewer classes and cost more
    distances = np.array([stages.distances(level) for level in (4.0, 2.0, 0.0)])
    assert np.all(np.diff(distances, axis=0) <= 0)
    levels = estimate_levels(task, stages)
    assert all(a.cost >= b.cost for a, b in itertools.pairwise(levels))
    assert levels[0].estimate <= levels[-1].estimate
    # refitted stages are closer to the original than its first trees are
    leaves = task.trees.leaves(build_space(task.goal.forest).states(X_val))
    original = margins(task.original, parsed.forest, leaves)[:, 0]
    middle = len(stages.counts) // 2
    refitted = margins(stages.shapes[middle], parsed.forest, leaves)[:, 0]
    first = model.predict(X_val, output_margin=True, iteration_range=(0, int(stages.counts[middle])))
    assert np.mean((refitted > 0) != (original > 0)) < np.mean((first > 0) != (original > 0))


def test_segments_overlap_and_bands(boosted):
    model, X_fit, X_val, _ = boosted
    labels = np.where(X_val[:, 0] > 0, "high", "low")
    result = pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.97, segments=labels)
    segments = result.facts["validation"]["segments"]
    assert sorted(segment["name"] for segment in segments) == ["high", "low"]
    assert sum(segment["n_changed"] for segment in segments) == result.facts["validation"]["n_changed"]
    assert "Segment " in result.summary()
    with pytest.raises(InvalidInputError, match="also occur in X_fit"):
        pine_boost.accelerate_booster(model, X_fit, X_fit, fidelity=0.97)
    measured = pine_boost.accelerate_booster(model, X_fit, X_fit, fidelity=0.97, allow_overlap=True)
    assert measured.status == "MEASURED"
    assert "promises nothing about future inputs" in measured.claim
    bands = pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.95, threshold=(0.3, 0.7))
    assert bands.status == "VALIDATED"
    expected = np.searchsorted([0.3, 0.7], model.predict_proba(X_val)[:, 1])
    assert np.mean(bands.scorer.predict(X_val) != expected) == bands.facts["validation"]["n_changed"] / len(X_val)


def test_values_within_a_tolerance_come_from_a_smaller_model(tmp_path):
    X, _ = _table()
    target = X[:, 0] ** 2 + X[:, 1] * X[:, 2]
    model = xgboost.XGBRegressor(n_estimators=40, max_depth=4, n_jobs=1).fit(X[:2000], target[:2000])
    result = pine_boost.accelerate_booster(model, X[:2000], X[2000:4500], fidelity=0.95, tolerance=0.6)
    assert result.status == "VALIDATED"
    assert "a raw value within 0.6 of the original's" in result.claim
    assert result.work < 1
    moved = np.abs(result.scorer.predict(X[2000:4500]) - model.predict(X[2000:4500])) > 0.6
    assert moved.sum() == result.facts["validation"]["n_changed"]
    result.save(tmp_path / "scorer")
    assert verify_scorer(model, tmp_path / "scorer", X[2000:4500]).agrees
    with pytest.raises(InvalidInputError, match="tolerance"):
        pine_boost.accelerate_booster(model, X[:2000], X[2000:4500], fidelity=0.95)


def test_without_exits_that_pass_the_scorer_is_the_proved_one(boosted, monkeypatch):
    model, X_fit, X_val, fresh = boosted
    monkeypatch.setattr("pine_boost.scoring.validated_exits._LEVELS", np.array([-30.0]))
    result = pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.98)
    assert result.status == "NOT_VALIDATED"
    assert "this is the proved scorer" in result.claim
    assert faults_of(result.original.forest, result.scorer.parts.plan) == []
    assert np.array_equal(result.scorer.predict(fresh), model.predict(fresh))


def test_without_time_for_the_test_the_scorer_is_the_proved_one(boosted):
    model, X_fit, X_val, fresh = boosted
    result = pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.98, time_limit=1e-3)
    assert result.status == "NOT_VALIDATED"
    assert result.facts["validation"]["path"] == []
    assert np.array_equal(result.scorer.predict(fresh), model.predict(fresh))
    contents = bytes(model.get_booster().save_raw("ubj"))
    late = pine_boost.accelerate_booster(contents, X_fit, X_val, fidelity=0.98, time_limit=1e-3)
    assert late.original not in _LOADED  # a large file takes seconds to load


def test_a_saved_scorer_is_counted_again(boosted, tmp_path):
    model, X_fit, X_val, fresh = boosted
    result = pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.98)
    result.save(tmp_path / "scorer")
    loaded = pine_boost.load_scorer(tmp_path / "scorer")
    assert np.array_equal(loaded.predict(fresh), result.scorer.predict(fresh))
    verdict = verify_scorer(model, tmp_path / "scorer", X_val)
    assert verdict.agrees
    assert "2500 validation rows" in verdict.summary()
    with pytest.raises(InvalidInputError, match="X_val"):
        verify_scorer(model, tmp_path / "scorer")
    with pytest.raises(CertificateMismatch, match="another order"):
        verify_scorer(model, tmp_path / "scorer", X_val[::-1])


@pytest.mark.parametrize("changed", ["threshold", "value", "order", "n_changed", "n_val", "fidelity"])
def test_a_planted_change_is_noticed(boosted, tmp_path, changed):
    """Also by somebody who computes all digests again: the rows are counted, and the claim follows from the counts."""
    model, X_fit, X_val, _ = boosted
    result = pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.98)
    plan, facts = result.scorer.parts.plan, json.loads(json.dumps(dict(result.facts)))
    if changed == "threshold":
        plan = replace(plan, low=plan.low + 3.0, high=plan.high - 3.0)
    elif changed == "value":
        plan = replace(plan, value=-plan.value)
    elif changed == "order":
        plan = replace(plan, order=plan.order[::-1].copy())
    elif changed == "n_changed":
        facts["validation"]["n_changed"] = 0
    elif changed == "n_val":
        facts["validation"]["n_val"] = 10**7
        facts["claim"] = facts["claim"].replace("2500", str(10**7))
    else:
        facts["validation"]["fidelity"] = 0.999
    forged = replace(result, scorer=type(result.scorer)(replace(result.scorer.parts, plan=plan)), facts=facts)
    forged.save(tmp_path / "scorer")
    verdict = verify_scorer(model, tmp_path / "scorer", X_val)
    assert not verdict.agrees
    assert verdict.summary().startswith("DISAGREES: ")


def test_what_no_row_can_show_is_listed_as_taken_on_trust(boosted, tmp_path):
    """Whatever was fixed before X_val was seen carries the statement; that it was, only the digests hold."""
    model, X_fit, X_val, _ = boosted
    result = pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.98)
    plan = result.scorer.parts.plan
    finer = replace(plan, value=np.nextafter(plan.value, 0.0), low=np.nextafter(plan.low, -np.inf))
    parts = replace(result.scorer.parts, plan=finer)
    replace(result, scorer=type(result.scorer)(parts)).save(tmp_path / "scorer")
    verdict = verify_scorer(model, tmp_path / "scorer", X_val)
    assert verdict.agrees
    for what in ("order of the trees", "values of the stages", "exits", "levels", "before X_val was seen"):
        assert what in verdict.summary().partition("Taken on trust: ")[2]
    verdict = verify_scorer(model, tmp_path / "scorer", X_val, X_fit=X_fit, build=pine_boost.accelerate_booster)
    assert not verdict.agrees
    assert "made again from X_fit and X_val it has other stages (order, values or exits)" in verdict.summary()


@pytest.mark.parametrize("options", [{}, {"threshold": 0.3}, {"tolerance": 0.3}, {"fidelity": 0.9999}])
def test_a_tested_scorer_is_made_again_from_its_rows(boosted, options, tmp_path):
    model, X_fit, X_val, _ = boosted
    options = {"fidelity": 0.98, "random_state": 3, **options}
    if options["fidelity"] == 0.9999:
        options["confidence"] = 0.05  # so that so few rows can test it
    result = pine_boost.accelerate_booster(model, X_fit, X_val, **options)
    result.save(tmp_path / "scorer")
    again = {"X_fit": X_fit, "build": pine_boost.accelerate_booster}
    verdict = verify_scorer(model, tmp_path / "scorer", X_val, **again)
    assert verdict.agrees, verdict.faults
    assert "gave the same scorer once more" in verdict.summary()
    assert "before X_val was seen" not in verdict.summary()
    with pytest.raises(CertificateMismatch, match=r"X_fit \(1999 rows\) is not the table of the record \(2000 rows\)"):
        verify_scorer(model, tmp_path / "scorer", X_val, **{**again, "X_fit": X_fit[1:]})
    facts = json.loads(json.dumps(dict(result.facts)))
    facts["made"]["random_state"] = 4
    replace(result, facts=facts).save(tmp_path / "seed")
    assert verify_scorer(model, tmp_path / "seed", X_val).agrees
    if result.status == "VALIDATED":
        assert not verify_scorer(model, tmp_path / "seed", X_val, **again).agrees


@pytest.mark.parametrize(("n_trees", "status"), [(40, "MEASURED"), (1, "NOT_VALIDATED")])
def test_a_scorer_of_rows_that_were_seen_is_made_again(n_trees, status, tmp_path):
    X, y = _table()
    model = xgboost.XGBClassifier(n_estimators=n_trees, max_depth=4, n_jobs=1).fit(X[:2000], y[:2000])
    tables = X[:2000], X[1500:4500]
    result = pine_boost.accelerate_booster(model, *tables, fidelity=0.97, allow_overlap=True)
    assert result.status == status
    result.save(tmp_path / "scorer")
    again = {"X_fit": tables[0], "build": pine_boost.accelerate_booster}
    verdict = verify_scorer(model, tmp_path / "scorer", tables[1], **again)
    assert verdict.agrees, verdict.faults
    assert verdict.made_again


def test_what_time_ended_is_not_made_again(boosted, tmp_path):
    model, X_fit, X_val, _ = boosted
    again = {"X_fit": X_fit, "build": pine_boost.accelerate_booster}
    pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.98, time_limit=60).save(tmp_path / "limited")
    with pytest.raises(InvalidInputError, match="depends on when time_limit=60 ended its search"):
        verify_scorer(model, tmp_path / "limited", X_val, **again)
    pine_boost.accelerate_booster(model).save(tmp_path / "proved")
    with pytest.raises(InvalidInputError, match="X_fit is for one that was tested, with its X_val"):
        verify_scorer(model, tmp_path / "proved", **again)


def test_a_smaller_model_cannot_bring_other_labels_or_another_table(boosted, tmp_path):
    """Its trees are its own; how a table is read and what the classes are called is the model's."""
    model, X_fit, X_val, _ = boosted
    result = pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.9, tolerance=0.3)
    assert "compressed_digest" in result.facts["validation"]
    result.save(tmp_path / "scorer")
    verdict = verify_scorer(model, tmp_path / "scorer", X_val)
    assert verdict.agrees
    assert any("trees, their order, exits" in trusted for trusted in verdict.trusted)
    parts = result.scorer.parts
    forgeries = {
        "classes": replace(parts, classes=parts.classes[::-1]),
        "missing_value": replace(parts, flat=replace(parts.flat, missing_value=0.0)),
        "cuts": replace(parts, native=replace(parts.native, cuts=parts.native.cuts + 1.0)),
    }
    for name, forged in forgeries.items():
        replace(result, scorer=type(result.scorer)(forged)).save(tmp_path / name)
        verdict = verify_scorer(model, tmp_path / name, X_val)
        assert not verdict.agrees
        assert name in verdict.faults[0]


def test_probabilities_of_a_smaller_model_are_not_called_exact(boosted, tmp_path):
    model, X_fit, X_val, fresh = boosted
    result = pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.9, tolerance=0.3)
    result.save(tmp_path / "scorer")
    for scorer in (result.scorer, pine_boost.load_scorer(tmp_path / "scorer")):
        with pytest.raises(UnsupportedModelError, match="smaller model"):
            scorer.predict_proba(fresh)
        smaller = scorer.predict_proba(fresh, exact=False)
        assert not np.array_equal(smaller, model.predict_proba(fresh))
        np.testing.assert_array_equal(smaller.argmax(axis=1), scorer.predict(fresh))
    probability = replace(result.scorer.parts.probability, is_original=True)
    forged = replace(result, scorer=type(result.scorer)(replace(result.scorer.parts, probability=probability)))
    forged.save(tmp_path / "forged")
    verdict = verify_scorer(model, tmp_path / "forged", X_val)
    assert not verdict.agrees
    assert "probabilities" in verdict.faults[0]


def test_rows_that_cannot_carry_the_promise_are_refused(boosted):
    model, X_fit, X_val, _ = boosted
    with pytest.raises(InvalidInputError, match="X_fit and X_val was not given"):
        pine_boost.accelerate_booster(model, fidelity=0.99)
    with pytest.raises(InvalidInputError, match="needs at least 2995"):
        pine_boost.accelerate_booster(model, X_fit, X_val, fidelity=0.999)


@pytest.mark.parametrize("n_trees", [1, 2, 3])
def test_few_trees_have_few_stages_or_none(n_trees):
    X, y = _table()
    model = xgboost.XGBClassifier(n_estimators=n_trees, max_depth=3, n_jobs=1).fit(X[:2000], y[:2000])
    result = pine_boost.accelerate_booster(model, X[:2000], X[2000:4500], fidelity=0.9)
    assert result.status in ("VALIDATED", "NOT_VALIDATED")
    if n_trees == 1:
        assert result.status == "NOT_VALIDATED"
    assert np.mean(result.scorer.predict(X[4500:]) == model.predict(X[4500:])) > 0.88
