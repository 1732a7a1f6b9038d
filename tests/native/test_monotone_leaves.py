"""Models that were trained to rise or fall with a feature: refitted leaf values keep that."""

import lightgbm
import numpy as np
import pandas
import pytest
import xgboost
from sklearn import ensemble

from pine_boost import prune_booster, sweep
from pine_boost.native.predict import predict_margins
from pine_boost.options import Options
from pine_boost.parsers import read_model
from pine_boost.parsers.traits import traits_of
from pine_boost.proof.problem import build_problem
from pine_boost.region.fitting import fit_with_states
from pine_boost.search.lp_columns import kept_directions
from tests.support.grids import feature_edges
from tests.support.leaf_results import check_native, leaves_from_the_original

RISE_AND_FALL = (1, -1, 1, -1)
KINDS = ("booster", "xgboost", "xgboost-3", "lightgbm", "histogram", "histogram by name")


def _trained(kind, directions=RISE_AND_FALL):
    """A model with constraints, and rows with gaps."""
    random = np.random.default_rng(0)
    X = random.normal(size=(500, 4)).round(1)
    X[random.random(X.shape) < 0.05] = np.nan
    score = np.nan_to_num(X) @ [1.0, -1.0, 0.3, -0.3] + 0.3 * random.normal(size=len(X))
    y = np.digitize(score, [-0.7, 0.7]) if kind.endswith("-3") else (score > 0).astype(int)
    size = {"max_depth": 2 if kind.endswith("-3") else 3, "learning_rate": 0.2}
    if kind == "booster":
        given = {"objective": "binary:logistic", "nthread": 1, **size}
        given["monotone_constraints"] = str(directions)
        return xgboost.train(given, xgboost.DMatrix(X, y), 10), X
    if kind.startswith("xgboost"):
        given = {"n_jobs": 1, "monotone_constraints": directions, **size}
        n_rounds = 4 if kind.endswith("-3") else 10
        return xgboost.XGBClassifier(n_estimators=n_rounds, **given).fit(X, y), X
    if kind == "lightgbm":
        given = {"n_jobs": 1, "verbose": -1, "monotone_constraints": list(directions), **size}
        model = lightgbm.LGBMClassifier(n_estimators=10, min_child_samples=5, **given)
        return model.fit(X, y), X
    by_name = kind == "histogram by name"
    rows = pandas.DataFrame(X, columns=list("abcd")) if by_name else X
    constraints = dict(zip("abcd", directions, strict=True)) if by_name else list(directions)
    model = ensemble.HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5, monotonic_cst=constraints, **size)
    return model.fit(rows, y), rows


def _wrong_ways(result, X, directions=RISE_AND_FALL):
    """Rows at which the native margin turns round while one feature goes over all its values."""
    forest, n_wrong = result.original.forest, 0
    for feature in np.flatnonzero(directions):
        edges = feature_edges(forest, int(feature), infinite=True)
        edges = np.unique(edges[~np.isnan(edges)])
        rows = np.repeat(np.asarray(X, dtype=np.float64)[:25], len(edges), axis=0)
        rows[:, feature] = np.tile(edges, 25)
        if isinstance(X, pandas.DataFrame):
            rows = pandas.DataFrame(rows, columns=X.columns)
        margins = predict_margins(result.pruned, rows)[0].reshape(25, len(edges), -1)
        steps = np.diff(margins, axis=1) * directions[feature]
        n_wrong += np.count_nonzero((steps < 0).any(axis=(1, 2)))
    return int(n_wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_leaf_values_keep_the_directions(kind):
    native, X = _trained(kind)
    parsed = read_model(native)
    assert traits_of(parsed.forest.library).monotone(parsed) == RISE_AND_FALL
    by_leaf = leaves_from_the_original(native, X, monotone=RISE_AND_FALL)
    by_leaves = prune_booster(native, X[:250], X[250:], alpha=0.3, unit="leaf", verbose=False)
    for result in (by_leaf, by_leaves):
        assert result.status == "CERTIFIED"
        assert _wrong_ways(result, X) == 0
        assert result.certificate.reweight == "leaf"
    if kind != "histogram by name":  # the others' rows are plain numbers
        check_native(native, X, by_leaf)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "histogram"])
def test_free_values_would_turn_round(kind):
    """What the test above looks for is there to be found."""
    native, X = _trained(kind)
    assert _wrong_ways(leaves_from_the_original(native, X), X) > 0


def test_prune_and_sweep_take_them():
    native, X = _trained("xgboost")
    one = prune_booster(native, X[:250], X[250:], alpha=0.4, reweight="leaf", verbose=False)
    swept = sweep(native, X[:250], X[250:], alphas=[0.4, 0.6], reweight="leaf", verbose=False)
    for result in (one, *swept):
        assert result.status == "CERTIFIED"
        assert _wrong_ways(result, X) == 0


@pytest.mark.parametrize("kind", ["booster", "xgboost", "file"])
def test_a_model_that_was_loaded_does_not_say_so_and_what_all_trees_keep_is_kept(kind, tmp_path):
    native, X = _trained("xgboost" if kind == "file" else kind)
    path = tmp_path / "model.json"
    native.save_model(path)
    loaded = {"booster": xgboost.Booster(), "xgboost": xgboost.XGBClassifier()}.get(kind, path)
    if kind != "file":
        loaded.load_model(path)
    parsed = read_model(loaded)
    assert traits_of(parsed.forest.library).monotone(parsed) is None
    region = fit_with_states(parsed.forest, X[:250], X[250:], Options(alpha=0.2)).region
    directions = kept_directions(build_problem(parsed.forest, region.space, region.tables))
    assert directions == RISE_AND_FALL
    kept = leaves_from_the_original(loaded, X, monotone=None)
    assert kept.certificate.reweight == "leaf"
    result = prune_booster(loaded, X[:250], X[250:], alpha=0.4, reweight="leaf", verbose=False)
    assert result.status == "CERTIFIED"
    assert _wrong_ways(kept, X) == _wrong_ways(result, X) == 0


@pytest.mark.parametrize("kind", ["booster", "xgboost", "lightgbm", "histogram"])
def test_a_model_without_constraints_says_so(kind):
    parsed = read_model(_trained(kind, (0, 0, 0, 0))[0])
    assert traits_of(parsed.forest.library).monotone(parsed) == (0, 0, 0, 0)


def test_parameters_set_after_loading_say_nothing_about_the_trees(tmp_path):
    native, X = _trained("booster")
    native.save_model(tmp_path / "model.json")
    loaded = xgboost.Booster({"nthread": 1, "max_depth": 3}, model_file=tmp_path / "model.json")
    loaded.predict(xgboost.DMatrix(X))
    parsed = read_model(loaded)
    monotone = traits_of(parsed.forest.library).monotone
    assert monotone(parsed) is None
    loaded.set_param({"monotone_constraints": str(RISE_AND_FALL)})
    assert monotone(read_model(loaded)) == RISE_AND_FALL


@pytest.mark.parametrize("metric", [{}, {"eval_metric": "auc"}], ids=str)
def test_a_model_trained_here_that_names_no_constraints_has_none(metric):
    _, X = _trained("booster")
    given = {"objective": "binary:logistic", "nthread": 1, "max_depth": 2, **metric}
    label = np.nan_to_num(X[:, 0]) > 0
    native = xgboost.train(given, xgboost.DMatrix(X, label), 3)
    wrapper = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1, **metric).fit(X, label)
    for live in (native, native.copy(), native[0:2], wrapper):
        parsed = read_model(live)
        assert traits_of(parsed.forest.library).monotone(parsed) == (0,) * X.shape[1]
