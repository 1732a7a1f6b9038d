"""Rows per second and bytes of a model, natively, in Treelite's gtil and compiled by tl2cgen.

The best of several timings of the call a server makes, input checks included; one thread.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Predict = Callable[[npt.NDArray[Any]], Any]
MEASURE_SECONDS = 0.5


def model_bytes(model: Any) -> bytes:
    """The file a server would load: UBJSON, LightGBM text or a pickle."""
    if hasattr(model, "get_booster"):
        return bytes(model.get_booster().save_raw(raw_format="ubj"))
    if hasattr(model, "booster_"):
        return bytes(model.booster_.model_to_string(num_iteration=-1).encode())
    return pickle.dumps(model)


def is_catboost(model: Any) -> bool:
    """Whether a model is CatBoost's, which predicts in all threads unless each call says otherwise."""
    return type(model).__module__.startswith("catboost")


def native_predict(model: Any) -> Predict:
    """The library's own class probabilities, one thread."""
    if hasattr(model, "get_booster"):
        booster = model.get_booster()
        booster.set_param({"nthread": 1})
        return lambda X: booster.inplace_predict(X)
    if hasattr(model, "booster_"):
        booster = model.booster_
        return lambda X: booster.predict(X, num_threads=1)
    if is_catboost(model):
        return lambda X: model.predict_proba(X, thread_count=1)
    return lambda X: model.predict_proba(X)


def treelite_model(model: Any) -> Any:
    """Exact Treelite twin of a native model."""
    from pine_boost.exporters.treelite import to_treelite

    return to_treelite(model)


def gtil_predict(model: Any, dtype: Any) -> Predict:
    """Treelite's reference predictor, one thread."""
    import treelite

    twin = treelite_model(model)
    return lambda X: treelite.gtil.predict(twin, np.asarray(X, dtype=dtype), nthread=1)


def compiled_predict(model: Any, dtype: Any, folder: Path) -> tuple[Predict, int]:
    """tl2cgen's compiled predictor, one thread, and the bytes of its library."""
    import tl2cgen

    path = folder / f"model_{time.monotonic_ns()}.so"
    tl2cgen.export_lib(treelite_model(model), toolchain="gcc", libpath=str(path), params={"parallel_comp": 8})
    predictor = tl2cgen.Predictor(str(path), nthread=1)

    def predict(X: npt.NDArray[Any]) -> Any:
        return predictor.predict(tl2cgen.DMatrix(np.asarray(X, dtype=dtype)))

    return predict, path.stat().st_size


def input_type(model: Any) -> Any:
    """What Treelite must be fed: float32 for XGBoost, float64 otherwise."""
    return np.float32 if hasattr(model, "get_booster") else np.float64


def rows_per_second(
    predictors: Sequence[Predict], X: npt.NDArray[Any], clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Best of repeated calls for each predictor, taken in turns.

    In turns, because a busy or throttled machine then slows all of them alike; ``time.thread_time`` counts only what
    the calling thread computes.
    """
    for predict in predictors:
        predict(X)
    best = [np.inf] * len(predictors)
    spent, calls = 0.0, 0
    while calls < 5 or spent < MEASURE_SECONDS * len(predictors):
        for i, predict in enumerate(predictors):
            started = clock()
            predict(X)
            elapsed = clock() - started
            best[i] = min(best[i], elapsed)
            spent += elapsed
        calls += 1
    return [len(X) / seconds for seconds in best]


def repeat_rows(X: npt.NDArray[Any], n_rows: int) -> npt.NDArray[Any]:
    """A batch of a given size, drawn from the rows with a fixed seed."""
    return np.ascontiguousarray(X[np.random.default_rng(0).integers(0, len(X), n_rows)])
