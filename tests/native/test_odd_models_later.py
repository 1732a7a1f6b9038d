"""What becomes of odd models after pruning: the region knows the original, files verify."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pine_boost import prune_booster, verify
from pine_boost.errors import InvalidInputError
from pine_boost.native.predict import predict_margins
from pine_boost.parsers import read_model

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
ensemble = pytest.importorskip("sklearn.ensemble")


def _table() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 4)).round(1)
    return X, np.exp(0.5 * X[:, 0]) + (X[:, 1] > 0) + random.random(600)


THRESHOLDED: dict[str, tuple[Any, float]] = {
    "xgboost poisson": (lambda: xgboost.XGBRegressor(objective="count:poisson", n_estimators=6, max_depth=2), 0.5),
    "lightgbm gamma": (
        lambda: lightgbm.LGBMRegressor(objective="gamma", n_estimators=6, max_depth=2, verbose=-1, n_jobs=1),
        0.5,
    ),
    "histogram poisson": (lambda: ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=6), 0.5),
    "forest": (lambda: ensemble.RandomForestRegressor(6, max_depth=3, random_state=0), 2.0),
    "forest of classes": (lambda: ensemble.RandomForestClassifier(6, max_depth=3, random_state=0), 0.4),
}


@pytest.mark.parametrize("name", THRESHOLDED)
def test_the_region_takes_the_original_itself(name: str) -> None:
    make, threshold = THRESHOLDED[name]
    X, y = _table()
    model = make().fit(X, (y > 2).astype(int) if "classes" in name else y)
    result = prune_booster(model, X[:300], X[300:], alpha=0.4, indifference=0.05, threshold=threshold, time_limit=20)
    region, rows = result.region, X[300:]
    assert region.delta is not None
    margins, _ = predict_margins(read_model(model, threshold=threshold), rows)
    expected = region.contains(rows, margins=margins)
    assert 0 < expected.sum() < len(rows)
    # a forest's own margin is its mean times its trees: rows exactly at delta may fall either way
    clear = np.abs(np.abs(margins[:, 0] - region.cuts[0]) - region.delta) > 1e-12
    assert clear.mean() > 0.5
    assert np.array_equal(region.contains(rows, model=model)[clear], expected[clear])
    other = make().fit(X, (y > 1.9).astype(int) if "classes" in name else y + X[:, 2] ** 2)
    with pytest.raises(InvalidInputError, match="not the one"):
        region.contains(rows, model=other)


@pytest.mark.parametrize(
    "options",
    [{"missing": -999.0}, {"missing": 0.0}, {"objective": "binary:logitraw"}],
    ids=["missing -999", "missing 0", "logitraw"],
)
def test_files_of_odd_wrappers_verify(options: dict[str, Any], tmp_path: Path) -> None:
    X, y = _table()
    X[::7, 1] = options.get("missing", X[::7, 1])
    label = (y > 2).astype(int) ^ (np.random.default_rng(1).random(600) < 0.1)
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=1, n_jobs=1, **options).fit(X, label)
    result = prune_booster(model, X[:300], X[300:], alpha=0.3, time_limit=20)
    assert result.certificate.trees_after < result.certificate.trees_before
    model.save_model(tmp_path / "original.json")
    folder = tmp_path / "pruned"
    result.save(folder)
    files = [folder / name for name in ("model.json", "region.json", "certificate.json")]
    assert verify(tmp_path / "original.json", *files).agrees is True
