"""Tables in chunks: Parquet, Datasets and Dask give the region of the same rows in memory."""

import numpy as np
import pandas
import pytest
from pyarrow import dataset

from pine_boost.errors import InvalidInputError, RegionError
from pine_boost.options import SCORE_NAMES, Options
from pine_boost.region import Domain, fit_region, fitting
from pine_boost.region.fitting import fit_with_states
from pine_boost.region.scores.chow_liu import _nearest, count_nearest, edges_at_quantiles
from pine_boost.tables import rows
from tests.support.forests import MANNERS, random_forest, random_rows
from tests.support.native_tables import write_parts


def _problem(manner=MANNERS[0], seed=0):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 8, 3, 4, manner=manner, categorical=(1,))
    X = random_rows(rng, forest, 900)
    if manner.library == "sklearn":
        X[:, 1] = rng.integers(0, 6, 900)
    frame = pandas.DataFrame(X, columns=list("abcd"))
    return forest, frame[:600], frame[600:].reset_index(drop=True)


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("manner", MANNERS)
def test_the_region_is_that_of_the_rows_in_memory(manner, score, tmp_path, monkeypatch):
    forest, X_fit, X_cal = _problem(manner)
    options = {"alpha": 0.2, "score": score, "indifference": 0.05, "n_bins": 5}
    expected = fit_region(forest, X_fit, X_cal, **options)
    monkeypatch.setattr(rows, "CHUNK_ROWS", 50)
    fit, cal = write_parts(X_fit, tmp_path / "fit"), write_parts(X_cal, tmp_path / "cal", 1)
    tables = {
        "in memory, in chunks": (X_fit, X_cal),
        "folders": (fit, str(cal)),
        "a file": (X_fit, cal / "part-0.parquet"),
        "datasets": (dataset.dataset(fit), dataset.dataset(cal)),
    }
    for name, (first, second) in tables.items():
        region = fit_region(forest, first, second, **options)
        assert region.fingerprint() == expected.fingerprint(), name


def test_the_search_begins_with_the_distinct_states_of_x_fit(tmp_path, monkeypatch):
    forest, X_fit, X_cal = _problem()
    whole = fit_with_states(forest, X_fit, X_cal, Options(alpha=0.2))
    folder = write_parts(X_fit, tmp_path / "fit")
    fitted = fit_with_states(forest, folder, X_cal, Options(alpha=0.2))
    expected = np.unique(whole.fit_states, axis=0)
    order = np.lexsort(fitted.fit_states.T[::-1])
    assert np.array_equal(fitted.fit_states[order], expected)
    # too many: the same sample whatever the chunks
    monkeypatch.setattr(fitting, "MOST_DISTINCT", 40)
    some = fit_with_states(forest, folder, X_cal, Options(alpha=0.2))
    monkeypatch.setattr(rows, "CHUNK_ROWS", 17)
    again = fit_with_states(forest, folder, X_cal, Options(alpha=0.2))
    assert len(some.fit_states) == 40
    assert np.array_equal(some.fit_states, again.fit_states)
    assert {tuple(row) for row in some.fit_states} <= {tuple(row) for row in expected}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_on_dask_the_counting_runs_on_the_workers():
    import distributed
    from dask import dataframe as frames

    forest, X_fit, X_cal = _problem()
    with distributed.Client(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
    ) as client:
        before = set(client.run(lambda: __import__("os").getpid()).values())
        for score in SCORE_NAMES:
            expected = fit_region(forest, X_fit, X_cal, alpha=0.2, score=score)
            fit, cal = (frames.from_pandas(X, npartitions=3) for X in (X_fit, X_cal))
            region = fit_region(forest, fit, cal, alpha=0.2, score=score)
            assert region.fingerprint() == expected.fingerprint()
        pids = client.run(lambda: (__import__("os").getpid(), "pine_boost" in __import__("sys").modules))
        assert {pid for pid, _ in pids.values()} == before
        assert any(used for _, used in pids.values())


def test_pruning_from_parquet(tmp_path):
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import GradientBoostingClassifier

    import pine_boost

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = GradientBoostingClassifier(n_estimators=12, max_depth=2, random_state=0)
    model.fit(X[:250], y[:250])
    fit, cal = write_parts(X[:250].assign(target=1), tmp_path / "fit"), write_parts(X[250:], tmp_path / "cal")
    result = pine_boost.prune_booster(model, fit, cal, alpha=0.2, objective="l1")
    expected = pine_boost.prune_booster(model, X[:250], X[250:], alpha=0.2, objective="l1")
    assert result.status == "CERTIFIED"
    assert result.region == expected.region
    with pytest.raises(InvalidInputError, match="pass X_cal"):
        pine_boost.prune_booster(model, fit, alpha=0.2)


def test_what_does_not_fit_is_refused(tmp_path):
    forest, X_fit, X_cal = _problem()
    folder = write_parts(X_fit.assign(e=1.0), tmp_path / "wide")
    with pytest.raises(InvalidInputError, match="X_fit has 5 columns"):
        fit_region(forest, folder, X_cal, alpha=0.2)
    (tmp_path / "broken.parquet").write_bytes(b"no parquet")
    for path in (tmp_path / "broken.parquet", tmp_path / "absent.parquet"):
        with pytest.raises(InvalidInputError, match="no readable Parquet file at"):
            fit_region(forest, path, X_cal, alpha=0.2)
    empty = write_parts(X_fit[:0], tmp_path / "empty", 1)
    with pytest.raises(InvalidInputError, match="X_fit has 0 row"):
        fit_region(forest, empty, X_cal, alpha=0.2)
    same = write_parts(X_fit, tmp_path / "same")
    with pytest.raises(InvalidInputError, match="300 of the 300 rows of X_cal also occur"):
        fit_region(forest, same, X_fit[:300], alpha=0.2)
    with pytest.raises(RegionError, match="largest indifference that fits is 0"):
        fit_region(forest, same, X_cal, alpha=0.2, indifference=0.5)
    with pytest.warns(UserWarning, match="The domain excludes .* rows of X_cal"):
        fit_region(forest, same, X_cal, alpha=0.9, domain=Domain(lower={0: 0.0}))


@pytest.mark.parametrize("seed", range(20))
def test_thresholds_at_quantiles_equal_those_of_numpy(seed):
    from pine_boost.model.states import build_space

    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 20, 4, 2, n_thresholds=15)
    space = build_space(forest)
    X = np.round(rng.normal(size=(int(rng.integers(1, 400)), 2)) * 2, int(rng.integers(1, 9)))
    X[rng.random(X.shape) < 0.1] = np.nan
    parts = [count_nearest(space, part) for part in np.array_split(X, 3) if len(part)]
    for feature, axis in enumerate(space.axes):
        nearest = parts[0][feature]
        for part in parts[1:]:
            nearest = nearest + part[feature]
        values = X[:, feature].astype(np.float32).astype(float)
        values = values[~np.isnan(values)]
        for n_bins in (2, 4, 7):
            found = edges_at_quantiles(axis, nearest, n_bins)
            if len(values) == 0:
                assert len(found) == 0
                continue
            quantiles = np.quantile(values, np.arange(1, n_bins) / n_bins)
            distance = np.abs(axis.edges[None, :] - quantiles[:, None])
            last = distance.shape[1] - 1 - np.argmin(distance[:, ::-1], axis=1)
            assert found.tolist() == np.unique(last).tolist()
            assert np.array_equal(_nearest(axis.edges, quantiles), last)
