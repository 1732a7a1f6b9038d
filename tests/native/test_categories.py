"""Promises about categorical models, asked natively: undecided inputs, serving margin, single leaves.

Every category, one that no training row had, strangers, gaps, thresholds and one unit in the last
place beside them; classes are compared as the library predicts them, without tolerance.
"""

from functools import cache

import numpy as np
import pytest

from pine_boost import GuardedModel, prune_booster
from pine_boost.parsers import read_model
from tests.adversary.attack import adversarial_rows, count_breaks
from tests.support.category_attacks import (
    KINDS,
    STRANGER,
    coloured_attack,
    coloured_model,
    coloured_rows,
    native_distance,
)
from tests.support.native_models import built
from tests.support.verifying import verify_folder

FORMS = {"rounds": {"indifference": "auto"}, "leaves": {"indifference": "auto", "unit": "leaf"}}
CASES = [(kind, form) for kind in KINDS for form in FORMS if form == "leaves" or "-3" not in kind]


@cache
def _pruned(kind, form):
    model = coloured_model(kind)
    X, _ = coloured_rows(len(model.classes_))
    n = len(X) // 2
    result = prune_booster(model, X[:n], X[n:], alpha=0.3, verbose=False, **FORMS[form])
    return model, result


@cache
def _attack(kind):
    # XGBoost itself refuses a category that its training table does not list
    forest = read_model(coloured_model(kind)).forest
    return coloured_attack(forest, strangers=not kind.startswith("xgboost"))


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_where_the_original_is_sure_the_class_is_kept(kind, form):
    model, result = _pruned(kind, form)
    certificate, region, rows = result.certificate, result.region, _attack(kind)
    assert result.status == "CERTIFIED"
    assert region.delta is not None
    assert certificate.units_kept < certificate.units_before
    differs = model.predict(rows) != result.model.predict(rows)
    inside = region.contains(rows, model=model)
    assert not differs[inside].any()
    # what is attacked is there: all colours and gaps inside, and undecided inputs with another class
    assert set(rows["colour"][inside]) == set(rows["colour"])
    assert rows[inside].isna().any().all()
    assert differs[region.tables.contains(region.states(rows))].any()


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_a_pruned_model_that_is_sure_enough_serves_alone(kind, form):
    model, result = _pruned(kind, form)
    region, serving, rows = result.region, result.certificate.serving, _attack(kind)
    assert serving is not None
    before, after = model.predict(rows), result.model.predict(rows)
    plausible = region.tables.contains(region.states(rows))
    beyond = plausible & (native_distance(result.model, rows) >= serving.distance)
    assert not (before != after)[beyond].any()
    assert (before != after)[plausible].any()
    seen = region.contains(rows, model=result.model, serving=serving)
    assert (seen == beyond).all()
    guarded = GuardedModel(result)
    assert (guarded.predict(rows) == before).all()


@pytest.mark.parametrize("kind", ["xgboost", "histogram-3"])
def test_single_leaves_without_undecided_inputs(kind):
    """Rows of the region whose class is beyond the rounding band: here all of them."""
    model, rows = coloured_model(kind), _attack(kind)
    X, _ = coloured_rows(len(model.classes_))
    n = len(X) // 2
    result = prune_booster(model, X[:n], X[n:], alpha=0.3, unit="leaf", verbose=False)
    assert result.certificate.leaves_after < result.certificate.leaves_before
    inside = result.region.contains(rows)
    assert inside.sum() > 1000
    assert (model.predict(rows) == result.model.predict(rows))[inside].all()


@pytest.mark.parametrize("name", ["xgb binary", "lgb binary", "histogram"])
def test_codes_in_arrays_unseen_ones_too(name):
    model, X = built(name)
    n = len(X) // 2
    result = prune_booster(model, X[:n], X[n:], alpha=0.3, indifference=0.1, unit="leaf", verbose=False)
    forest = result.original.forest
    rows = adversarial_rows(np.random.default_rng(0), forest, X, 8000)
    assert (rows[:, 1] > X[:, 1].max()).any()
    tried, breaks = count_breaks(result, rows)
    assert tried > 1000
    assert breaks == 0


@pytest.mark.parametrize("kind", ["xgboost partition-3", "lightgbm"])
def test_verified_from_files_alone(kind, tmp_path):
    model, result = _pruned(kind, "leaves")
    booster = model.get_booster() if kind.startswith("xgboost") else model.booster_
    original = tmp_path / ("original.json" if kind.startswith("xgboost") else "original.txt")
    booster.save_model(original)
    folder = result.save(tmp_path / "pruned", report=False)
    verdict = verify_folder(original, folder)
    assert (verdict.agrees, verdict.serving_proved) == (True, True)


def test_strangers_are_in_the_attack():
    assert (_attack("lightgbm")["colour"] == STRANGER).any()
    with pytest.raises(ValueError, match="category"):
        coloured_model("xgboost").predict(_attack("lightgbm"))
