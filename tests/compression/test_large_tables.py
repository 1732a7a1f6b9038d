"""compress_booster and select_alpha over Parquet, Datasets and Dask: the answers of memory."""

from dataclasses import replace

import lightgbm
import numpy as np
import pandas
import pytest
import xgboost
from dask import dataframe as dask_frame
from pyarrow import dataset
from sklearn import ensemble

from pine_boost import InvalidInputError, compress_booster, select_alpha, verify_compression
from pine_boost.tables import rows
from tests.support.native_tables import write_parts

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

NAMES = ["a", "b", "c", "colour"]


def _frame(n_rows=2400):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(n_rows, 3)), columns=NAMES[:3])
    frame.loc[rng.random(n_rows) < 0.1, "b"] = np.nan
    frame["colour"] = pandas.Categorical(rng.choice(["red", "green", "blue"], n_rows))
    y = (frame["a"] + frame["b"].fillna(0) * (frame["colour"] == "red") > 0).astype(int)
    return frame, y.to_numpy()


def _model(kind, frame, y):
    model = {
        "xgboost": lambda: xgboost.XGBClassifier(
            n_estimators=8, max_depth=3, n_jobs=1, enable_categorical=True, tree_method="hist"
        ),
        "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=8, num_leaves=7, n_jobs=1, verbose=-1),
        "histogram": lambda: ensemble.HistGradientBoostingClassifier(
            max_iter=8, max_leaf_nodes=7, categorical_features="from_dtype"
        ),
    }[kind]()
    return model.fit(frame[:600], y[:600])


def _same_record(found, expected):
    timeless = {"date": "", "seconds": 0.0}
    assert replace(found.record, **timeless) == replace(expected.record, **timeless)


@pytest.mark.parametrize(("kind", "form"), [("xgboost", "dask"), ("lightgbm", "folders"), ("histogram", "dataset")])
def test_compression_is_that_of_the_rows_in_memory(kind, form, tmp_path, monkeypatch):
    frame, y = _frame(1500)
    model = _model(kind, frame, y)
    X_fit, X_val = frame[:600], frame[600:].reset_index(drop=True)
    options = {"fidelity": 0.9, "tolerance": 0.4, "segments": "colour"}
    expected = compress_booster(model, X_fit, X_val, **options)
    assert expected.status == "VALIDATED"
    assert expected.leaves_after < expected.leaves_before
    monkeypatch.setattr(rows, "CHUNK_ROWS", 150)
    fit, val = write_parts(X_fit, tmp_path / "fit", 2), write_parts(X_val, tmp_path / "val", 3)
    first, second = {
        "folders": (fit, val),
        "dataset": (X_fit, dataset.dataset(val)),
        "dask": (fit, dask_frame.from_pandas(X_val, npartitions=3)),
    }[form]
    found = compress_booster(model, first, second, **options)
    _same_record(found, expected)
    assert (found.changed == expected.changed).all()
    again = verify_compression(model, found.model, found.record, val)
    assert again.agrees
    with pytest.raises(InvalidInputError, match="also occur in X_fit"):
        compress_booster(model, fit, fit, **options)


def test_selection_is_that_of_the_rows_in_memory(tmp_path, monkeypatch):
    frame, y = _frame()
    model = _model("xgboost", frame, y)
    X_fit, X_cal, X_sel = frame[:600], frame[600:1200], frame[1200:].reset_index(drop=True)
    options = {"rule": "empirical", "alphas": [0.2, 0.5], "time_limit": 20}
    expected = select_alpha(model, X_fit, X_cal, X_sel, 0.9, **options)
    monkeypatch.setattr(rows, "CHUNK_ROWS", 150)
    sel = write_parts(X_sel, tmp_path / "sel", 3)
    for large in (sel, dataset.dataset(sel), dask_frame.from_pandas(X_sel, npartitions=2)):
        found = select_alpha(model, X_fit, X_cal, large, 0.9, **options)
        assert found.candidates == expected.candidates
        assert (found.alpha, found.n_sel) == (expected.alpha, len(X_sel))


def test_a_sample_of_the_fit_rows_is_drawn_alike(tmp_path):
    """More rows than are looked at: the sample does not depend on where they lie."""
    from pine_boost.compression.path_rows import draw_states
    from pine_boost.model.states import build_space
    from pine_boost.parsers import read_model
    from pine_boost.tables.schema import schema_of

    frame, y = _frame()
    forest = read_model(_model("xgboost", frame, y)).forest
    space, schema = build_space(forest), schema_of(forest)
    drawn = [
        draw_states(rows.open_rows(table, schema), space, 100, np.random.default_rng(5))
        for table in (frame, write_parts(frame, tmp_path / "all", 4))
    ]
    assert len(drawn[0]) == 100
    assert (drawn[0] == drawn[1]).all()


def test_a_pipeline_takes_no_table_in_chunks(tmp_path):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    frame, y = _frame(1200)
    frame = frame[["a", "c"]]
    pipeline = make_pipeline(StandardScaler(), xgboost.XGBClassifier(n_estimators=5, n_jobs=1))
    pipeline.fit(frame[:400], y[:400])
    folder = write_parts(frame[400:], tmp_path / "val", 2)
    with pytest.raises(InvalidInputError, match="read in chunks, and the first steps"):
        compress_booster(pipeline, frame[:400], folder)


def test_selection_hands_prepared_rows_to_the_ensembles():
    """Raw rows went to the trees behind a scaler, which saw them all on one side."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    frame, y = _frame(1800)
    frame = 1000 + 50 * frame[["a", "c"]]
    pipeline = make_pipeline(StandardScaler(), xgboost.XGBClassifier(n_estimators=8, n_jobs=1))
    pipeline.fit(frame[:600], y[:600])
    options = {"rule": "empirical", "alphas": [0.6], "time_limit": 20, "reweight": "tree"}
    X_fit, X_cal, X_sel = frame[:600], frame[600:1200], frame[1200:]
    found = select_alpha(pipeline, X_fit, X_cal, X_sel, 0.5, **options)
    (result,) = found.sweep
    differs = int((result.model.predict(X_sel) != pipeline.predict(X_sel)).sum())
    assert differs > 0
    assert found.candidates[0].mismatches == differs
    kept = select_alpha(pipeline, X_fit, X_cal, X_sel, 0.9999, **options)
    assert kept.model is pipeline  # nothing reached the target: the whole original comes back
