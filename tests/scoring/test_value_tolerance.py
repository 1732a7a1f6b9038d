"""accelerate_booster(tolerance=) at fidelity 1: raw values within the tolerance of the native ones, on every input."""

import shutil
from dataclasses import replace
from fractions import Fraction

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble

import pine_boost
from pine_boost import InvalidInputError
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model
from pine_boost.proof.exits import truncation_faults
from pine_boost.scoring.native_sum import native_sum
from pine_boost.scoring.proved_exits import restrict, truncate
from pine_boost.scoring.scorer_verification import verify_scorer
from tests.support.hard_rows import hard_table
from tests.support.scorer_folders import rewrite

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

_RNG = np.random.default_rng(0)
_X = _RNG.normal(size=(1200, 5))
_X[:, 1] = _RNG.integers(0, 7, 1200)
_Y = 50 + 4 * _X[:, 0] ** 2 + _X[:, 1] * _X[:, 2] + _RNG.normal(size=1200)
_GROUPS = [100] * 12
_RANKS = np.clip(np.round(_Y - _Y.min()) // 12, 0, 4).astype(int)


def _missing():
    X = _X.copy()
    X[_RNG.random(X.shape) < 0.05] = np.nan
    return X


MODELS = {
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=60, max_depth=4, n_jobs=1).fit(_missing(), _Y),
    "xgboost categories": lambda: xgboost.XGBRegressor(
        n_estimators=30, max_depth=4, n_jobs=1, enable_categorical=True, feature_types=["q", "c", "q", "q", "q"]
    ).fit(_missing(), _Y),
    "xgboost dart": lambda: xgboost.XGBRegressor(
        n_estimators=20, max_depth=3, booster="dart", rate_drop=0.3, n_jobs=1
    ).fit(_missing(), _Y),
    "xgboost poisson": lambda: xgboost.XGBRegressor(n_estimators=60, objective="count:poisson", n_jobs=1).fit(
        _missing(), np.abs(_Y)
    ),
    "xgboost ranker": lambda: xgboost.XGBRanker(n_estimators=40, max_depth=4, n_jobs=1).fit(
        _missing(), _RANKS, group=_GROUPS
    ),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=60, num_leaves=15, n_jobs=1, verbose=-1).fit(
        _missing(), _Y, categorical_feature=[1]
    ),
    "lightgbm ranker": lambda: lightgbm.LGBMRanker(n_estimators=40, num_leaves=15, n_jobs=1, verbose=-1).fit(
        _missing(), _RANKS, group=_GROUPS
    ),
    "histogram": lambda: ensemble.HistGradientBoostingRegressor(max_iter=60, categorical_features=[1]).fit(
        _missing(), _Y
    ),
    "gradient boosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=60, random_state=0).fit(_X, _Y),
    "forest": lambda: ensemble.RandomForestRegressor(20, max_depth=5, random_state=0, n_jobs=1).fit(_X, _Y),
}


def _width(forest):
    """Of what a typical tree can add."""
    ends = [(v.min(), v.max()) for v in np.split(forest.value[:, 0], forest.tree_offset[1:-1])]
    return float(np.median([high - low for low, high in ends]))


@pytest.fixture(params=list(MODELS))
def accelerated(request):
    model = MODELS[request.param]()
    parsed = read_model(model, decision="value")
    tolerance = 3 * _width(parsed.forest) / native_sum(parsed).divisor
    return model, pine_boost.accelerate_booster(model, tolerance=tolerance), tolerance


def test_raw_values_are_within_the_tolerance_on_thresholds_and_beside_them(accelerated, tmp_path):
    model, result, tolerance = accelerated
    forest, divisor = result.original.forest, result.scorer.parts.native.divisor
    assert result.status == "CERTIFIED"
    assert result.work < 1
    assert result.scorer.parts.flat.n_trees == round(result.work * forest.n_trees) < forest.n_trees
    assert "raw value is within" in result.claim
    table = hard_table(forest, 3000)
    native = predict_margins(result.original, table)[0][:, 0].astype(np.float64)
    ours = result.scorer.decision_function(table).astype(np.float64)
    moved = np.abs(ours - native) / divisor
    assert moved.max() <= tolerance
    assert moved.max() > 0  # trees were left out
    one = [result.scorer.decision_function(table[i : i + 1])[0] for i in range(20)]
    assert np.array_equal(one, ours[:20])
    # saved, loaded, proved again
    result.save(tmp_path / "scorer")
    loaded = pine_boost.load_scorer(tmp_path / "scorer")
    assert np.array_equal(loaded.predict(table), result.scorer.predict(table))
    verdict = verify_scorer(model, tmp_path / "scorer")
    assert verdict.agrees, verdict.faults


def test_values_without_a_link_are_within_the_tolerance_of_predict():
    for name in ("xgboost", "lightgbm", "histogram", "forest"):
        model = MODELS[name]()
        parsed = read_model(model, decision="value")
        tolerance = 2 * _width(parsed.forest) / native_sum(parsed).divisor
        scorer = pine_boost.accelerate_booster(model, tolerance=tolerance).scorer
        table = hard_table(parsed.forest, 1000)
        assert np.abs(scorer.predict(table).astype(float) - model.predict(table)).max() <= tolerance


def test_a_tolerance_that_leaves_no_tree_out_gives_the_models_own_values():
    model = MODELS["xgboost"]()
    result = pine_boost.accelerate_booster(model, tolerance=1e-9)
    table = hard_table(result.original.forest, 500)
    assert result.work == 1
    assert "scorer's value is that of the model's own predict" in result.claim
    assert np.array_equal(result.scorer.predict(table), model.predict(table))


def test_a_huge_tolerance_keeps_a_tree():
    result = pine_boost.accelerate_booster(MODELS["lightgbm"](), tolerance=1e6)
    assert result.scorer.parts.flat.n_trees == 1
    table = hard_table(result.original.forest, 500)
    native = predict_margins(result.original, table)[0][:, 0]
    assert np.abs(result.scorer.decision_function(table) - native).max() <= 1e6


def test_a_classifier_or_threshold_is_refused():
    classifier = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(_X, _Y > 55)
    for model, threshold in ((classifier, None), (MODELS["xgboost"](), 55.0)):
        with pytest.raises(InvalidInputError, match="decides a class"):
            pine_boost.accelerate_booster(model, tolerance=0.1, threshold=threshold)


def test_the_check_is_tight_and_finds_what_moves_the_value_too_far():
    parsed = read_model(MODELS["histogram"](), decision="value")
    forest, native = parsed.forest, native_sum(parsed)
    tolerance = 4 * _width(forest)
    kept, shorter = truncate(forest, native, tolerance)
    assert not truncation_faults(forest, kept, shorter, tolerance)
    ends = np.array([(v.min(), v.max()) for v in np.split(forest.value[:, 0], forest.tree_offset[1:-1])])
    half = (ends[:, 1] - ends[:, 0]) / 2
    # leaving one more out, the narrowest of those kept, is too much
    fewer = np.delete(kept, np.argmin(half[kept]))
    rest = np.setdiff1d(np.arange(forest.n_trees), fewer)
    middle = forest.intercept + ends[rest].mean(axis=1).sum()
    assert half[rest].sum() > tolerance
    assert truncation_faults(forest, fewer, restrict(forest, native, fewer, middle), tolerance)
    # the midpoint moved by what is left of the tolerance
    off = replace(shorter, intercept=shorter.intercept + (tolerance - half[np.setdiff1d(rest, kept)].sum()) * 1.001)
    assert truncation_faults(forest, kept, off, tolerance)
    assert truncation_faults(forest, kept, replace(shorter, intercept=native.intercept), float(Fraction(tolerance) / 9))
    assert truncation_faults(forest, kept[::-1], shorter, tolerance)
    assert truncation_faults(forest, kept[:0], shorter, tolerance)
    assert truncation_faults(forest, kept[:-1], shorter, tolerance)


def _set(name, value):
    return lambda manifest: manifest["facts"]["truncation"].__setitem__(name, value)


EDITS = {
    "tolerance": (None, _set("tolerance", 1e-3)),
    "larger tolerance": (None, _set("tolerance", 1e9)),
    "no tolerance": (None, lambda manifest: manifest["facts"].pop("truncation")),
    "trees": (None, lambda manifest: manifest["facts"]["truncation"]["trees"].pop()),
    "other trees": (None, lambda manifest: manifest["facts"]["truncation"]["trees"].reverse()),
    "trees beyond the model": (None, _set("trees", [0, 10**6])),
    "claim": (None, lambda manifest: manifest.__setitem__("claim", "It is exact.")),
    "validation": (
        lambda a: a["native.value"].__setitem__((0, 0), 1e3),
        lambda manifest: manifest["facts"].__setitem__("validation", {"compressed_digest": "0" * 64}),
    ),
    "value": (lambda a: a["native.value"].__setitem__((3, 0), a["native.value"][3, 0] + np.float32(1e-3)), None),
    "midpoint": (lambda a: a["native.intercept"].__setitem__(0, a["native.intercept"][0] + 1), None),
    "exit intercept": (lambda a: a["exits.intercept"].__setitem__((0, 0), 0.0), None),
    "threshold": (lambda a: a["forest.edge"].__setitem__(0, np.nextafter(a["forest.edge"][0], -np.inf)), None),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, and the folder of its scorer."""
    model = MODELS["xgboost"]()
    tolerance = 3 * _width(read_model(model, decision="value").forest)
    folder = pine_boost.accelerate_booster(model, tolerance=tolerance).save(tmp_path_factory.mktemp("saved") / "scorer")
    assert verify_scorer(model, folder).agrees
    return model, folder


@pytest.mark.parametrize("edit", list(EDITS))
def test_an_edited_scorer_is_noticed(edit, saved, tmp_path):
    model, folder = saved
    shutil.copytree(folder, tmp_path / "scorer")
    rewrite(tmp_path / "scorer", *EDITS[edit])
    try:
        verdict = verify_scorer(model, tmp_path / "scorer")
    except pine_boost.PineBoostError:
        return  # refused when it was read
    assert not verdict.agrees
