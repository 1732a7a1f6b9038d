"""Promises about categorical models, asked natively: undecided inputs, serving margin, single leaves.

Every category, one that no training row had, strangers, gaps, thresholds and one unit in the last
place beside them; classes are compared as the library predicts them, without tolerance.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest

from pine_boost import GuardedModel, prune_booster
from pine_boost.model.forest import Forest
from pine_boost.parsers import read_model
from tests.adversary.attack import adversarial_rows, count_breaks
from tests.support.category_tables import models_of_categories
from tests.support.grids import feature_edges
from tests.support.native_models import built
from tests.support.verifying import verify_folder

COLOURS = ("red", "green", "blue", "pink", "grey", "never")  # the last in no training row
STRANGER = "stranger"  # not even a category of the training table
KINDS = ("xgboost", "xgboost partition-3", "lightgbm", "lightgbm-3", "histogram", "histogram-3")


def coloured_rows(n_classes: int, n_rows: int = 500, seed: int = 5) -> tuple[Any, np.ndarray]:
    """One category and two numbers, gaps in all three, and noisy labels that need them all."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    code = rng.integers(0, len(COLOURS), n_rows)
    X = np.round(rng.normal(size=(n_rows, 2)), 1)
    signal = np.isin(code, [1, 3]) * 1.5 + X[:, 0] * np.where(code == 2, -1, 1) + 0.5 * X[:, 1]
    noisy = signal + rng.normal(0, 0.6, n_rows)
    y = np.digitize(noisy, np.quantile(noisy, np.arange(1, n_classes) / n_classes))
    X[rng.random(X.shape) < 0.1] = np.nan
    code[rng.random(n_rows) < 0.15] = -1
    colour = pd.Categorical.from_codes(code, categories=list(COLOURS))
    return pd.DataFrame({"colour": colour, "number": X[:, 0], "size": X[:, 1]}), y


@cache
def coloured_model(kind: str) -> Any:
    """A small model of a kind, trained on the first half of `coloured_rows`, without one colour."""
    n_classes = 3 if kind.endswith("-3") else 2
    X, y = coloured_rows(n_classes)
    trained = (np.arange(len(X)) < len(X) // 2) & (X["colour"] != COLOURS[-1]).to_numpy()
    X, y = X[trained], y[trained]
    few = 12 if n_classes == 2 else 5
    library = kind.split("-")[0].split()[0]
    size = {
        "xgboost": {"n_estimators": few, "max_depth": 5 - n_classes, "max_cat_to_onehot": 100},
        "lightgbm": {"n_estimators": few, "num_leaves": 11 - 2 * n_classes, "min_data_per_group": 1},
        "histogram": {"max_iter": few, "max_leaf_nodes": 8 - n_classes, "early_stopping": False, "random_state": 0},
    }[library]
    if "partition" in kind:
        size["max_cat_to_onehot"] = 1
    return models_of_categories()[library].set_params(**size).fit(X, y)


def coloured_attack(forest: Forest, *, strangers: bool, n_rows: int = 6000) -> Any:
    """Rows drawn from all categories, gaps and edges of the forest's numbers together."""
    import pandas as pd

    rng = np.random.default_rng(0)
    values: list[Any] = [*COLOURS, None, *([STRANGER] if strangers else [])]
    numbers = {}
    for name, feature in (("number", 1), ("size", 2)):
        usual = np.round(rng.normal(size=n_rows), 1)
        on_edges = rng.choice(feature_edges(forest, feature), n_rows)
        numbers[name] = np.where(rng.random(n_rows) < 0.7, on_edges, usual)
    drawn = [values[i] for i in rng.integers(0, len(values), n_rows)]
    known = [value for value in values if value is not None]
    return pd.DataFrame({"colour": pd.Categorical(drawn, categories=known), **numbers})


def native_distance(model: Any, X: Any) -> np.ndarray:
    """How far the library's own margin of each row is from the decision."""
    library = type(model).__module__.partition(".")[0]
    if library == "xgboost":
        margins = model.predict(X, output_margin=True)
    elif library == "lightgbm":
        margins = model.predict(X, raw_score=True)
    else:
        margins = model.decision_function(X)
    margins = np.asarray(margins, dtype=np.float64)
    if margins.ndim == 1:
        return np.abs(margins)
    best = np.sort(margins, axis=1)
    return best[:, -1] - best[:, -2]


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
