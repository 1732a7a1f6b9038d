"""Tables become a matrix once and states once per call, with and without undecided inputs."""

import sys
from collections import Counter
from functools import cache

import lightgbm
import numpy as np
import pandas
import pytest
import xgboost
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

from pine_boost import prune_booster
from pine_boost.budget import Budget, OutOfTime
from pine_boost.model.states import StateSpace
from pine_boost.options import Options
from pine_boost.parsers import read_model
from pine_boost.region.fitting import fit_with_states
from pine_boost.sweeping import sweep
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.rows import BatchRows, StateRows, open_rows
from pine_boost.tables.schema import schema_of

N_FIT, N_CAL = 301, 149  # no other table of a call has so many rows
ONCE = {("matrix", N_FIT): 1, ("matrix", N_CAL): 1, ("states", N_FIT): 1, ("states", N_CAL): 1}


@cache
def model_and_rows():
    X, y = load_breast_cancer(return_X_y=True)
    model = GradientBoostingClassifier(n_estimators=15, max_depth=2, random_state=0)
    return model.fit(X[:N_FIT], y[:N_FIT]), X[:N_FIT], X[N_FIT : N_FIT + N_CAL]


@pytest.fixture
def counted(monkeypatch):
    """How often tables of how many rows were converted to what."""
    counts = Counter()
    make_states = StateSpace.states

    def matrix_of(X, *rest, **options):
        made = to_matrix(X, *rest, **options)
        counts["matrix", len(made)] += 1
        return made

    def states_of(space, X):
        counts["states", len(X)] += 1
        return make_states(space, X)

    for name, module in list(sys.modules.items()):
        if name.startswith("pine_boost") and getattr(module, "to_matrix", None) is to_matrix:
            monkeypatch.setattr(module, "to_matrix", matrix_of)
    monkeypatch.setattr(StateSpace, "states", states_of)
    return counts


def of_tables(counts):
    return {what: count for what, count in counts.items() if what[1] in (N_FIT, N_CAL)}


@pytest.mark.parametrize("indifference", [0.0, 0.02, "auto"])
def test_a_call_converts_every_table_once(indifference, counted):
    model, X_fit, X_cal = model_and_rows()
    result = prune_booster(model, X_fit, X_cal, alpha=0.2, indifference=indifference)
    assert result.search.pruned is not None
    assert (result.certificate.serving is not None) == (indifference != 0)
    assert of_tables(counted) == ONCE


def test_a_sweep_converts_every_table_once(counted):
    model, X_fit, X_cal = model_and_rows()
    swept = sweep(model, X_fit, X_cal, alphas=[0.2, 0.4], indifference=0.02)
    assert all(result.certificate.serving is not None for result in swept)
    assert of_tables(counted) == ONCE


@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
def test_rows_that_pass_the_serving_margin_are_those_of_the_pruned_models_own_states(library):
    """Counted in the states of the region; `contains` makes states of the pruned model alone."""
    model, X_fit, X_cal = model_and_rows()
    y = model.predict(X_fit)
    if library == "xgboost":
        model = xgboost.XGBClassifier(n_estimators=12, max_depth=2, n_jobs=1).fit(X_fit, y)
    if library == "lightgbm":
        model = lightgbm.LGBMClassifier(n_estimators=12, max_depth=2, n_jobs=1, verbose=-1).fit(X_fit, y)
    result = prune_booster(model, X_fit, X_cal, alpha=0.3, indifference=0.05)
    serving = result.certificate.serving
    passing = result.region.contains(X_cal, model=result.pruned, serving=serving)
    assert (serving.n_cal, serving.n_inside) == (N_CAL, passing.sum())
    assert 0 < serving.n_inside < N_CAL


def test_of_calibration_rows_no_more_is_kept_than_undecided_need():
    model, X_fit, X_cal = model_and_rows()
    forest = read_model(model).forest
    assert fit_with_states(forest, X_fit, X_cal, Options(alpha=0.2)).cal_rows is None
    kept = fit_with_states(forest, X_fit, X_cal, Options(alpha=0.2, indifference=0.02)).cal_rows
    assert isinstance(kept, StateRows)  # the matrix is gone
    assert kept.n_rows == N_CAL


def test_rows_read_in_chunks_are_read_anew_and_after_the_deadline(tmp_path):
    model, X_fit, _ = model_and_rows()
    forest = read_model(model).forest
    names = [f"x{feature}" for feature in range(X_fit.shape[1])]
    pandas.DataFrame(X_fit, columns=names).to_parquet(tmp_path / "rows.parquet")
    schema = schema_of(forest)
    late = open_rows(tmp_path / "rows.parquet", schema, "X", Budget(deadline=0.0))
    assert isinstance(late, BatchRows)
    fitted = fit_with_states(forest, X_fit, X_fit + 1e-3, Options(alpha=0.2))
    space = fitted.region.space
    with pytest.raises(OutOfTime):
        list(late.map_states(space, len))
    kept = np.concatenate(list(late.kept(space).map_states(space, np.asarray)))
    assert np.array_equal(kept, fitted.fit_states)
    some = np.array([0, 7, 300])
    again = open_rows(tmp_path / "rows.parquet", schema)
    assert np.array_equal(again.take_states(space, some), fitted.fit_states[some])
