"""Models and rows on which libraries are caught reading a table otherwise than we do.

In comes the name of a kind; out go a trained model, and whole or broken numbers at, beside and
half-way between its thresholds. Columns: a plain number, whole numbers that float32 cannot tell
apart, nanosecond time stamps beyond 2**53.
"""

from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.forest import FloatArray, Forest
from pine_boost.model.rules import SplitKind

NAMES = ("ratio", "amount", "moment")
KINDS = (
    "XGBClassifier",
    "xgboost.Booster",
    "XGBClassifier missing",
    "LGBMClassifier",
    "lightgbm.Booster",
    "RandomForest",
    "GradientBoosting",
    "HistGradientBoosting",
)


def write_parts(frame: Any, folder: Path, n_files: int = 4) -> Path:
    """The rows of a frame as a folder of Parquet files."""
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        frame.iloc[part].to_parquet(folder / f"part-{number}.parquet", index=False)
    return folder


def training_rows(n_rows: int = 1200) -> tuple[FloatArray, np.ndarray]:
    """Numbers whose splits fall among values that float32 or float64 must round."""
    rng = np.random.default_rng(7)
    X = np.empty((n_rows, 3))
    X[:, 0] = np.round(rng.normal(size=n_rows), 2)
    X[:, 1] = rng.integers(2**24, 2**24 + 64, n_rows)
    X[:, 2] = 1_700_000_000_000_000_000 + rng.integers(0, 4000, n_rows) * 2**38
    y = (X[:, 0] > 0.1) ^ (X[:, 1] % 32 > 13) ^ (X[:, 2] > np.median(X[:, 2]))
    return X, y.astype(int)


@cache
def trained(kind: str) -> Any:
    """A small model of a kind, trained on `training_rows` without column names."""
    X, y = training_rows()
    if kind.startswith("XGB") or kind == "xgboost.Booster":
        import xgboost

        missing = 0.0 if kind.endswith("missing") else np.nan
        model = xgboost.XGBClassifier(n_estimators=20, max_depth=4, n_jobs=1, max_bin=64, missing=missing).fit(X, y)
        return model.get_booster() if kind == "xgboost.Booster" else model
    if kind.startswith("LGBM") or kind == "lightgbm.Booster":
        import lightgbm

        model = lightgbm.LGBMClassifier(
            n_estimators=20, num_leaves=15, n_jobs=1, verbosity=-1, min_child_samples=5
        ).fit(X, y)
        return model.booster_ if kind == "lightgbm.Booster" else model
    from sklearn import ensemble

    if kind == "RandomForest":
        return ensemble.RandomForestClassifier(n_estimators=10, max_depth=6, random_state=0, n_jobs=1).fit(X, y)
    if kind == "GradientBoosting":
        return ensemble.GradientBoostingClassifier(n_estimators=20, max_depth=4, random_state=0).fit(X, y)
    return ensemble.HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=15, early_stopping=False).fit(X, y)


def probes(forest: Forest, n_rows: int = 3000, seed: int = 0) -> list[list[int | float]]:
    """Columns of exact Python numbers near the thresholds: whole ones in the last two columns."""
    rng = np.random.default_rng(seed)
    columns: list[list[int | float]] = []
    for feature in range(3):
        edges = np.unique(forest.threshold[(forest.feature == feature) & (forest.kind != SplitKind.LEAF)])
        pool = [candidate for edge in edges for candidate in _beside(float(edge), feature > 0)]
        if feature == 0:
            pool += [0.0, -0.0, 1.0, LIGHTGBM_ZERO, -LIGHTGBM_ZERO, LIGHTGBM_ZERO / 3]
        columns.append([pool[i] for i in rng.integers(0, len(pool), n_rows)])
    return columns


def _beside(edge: float, whole: bool) -> list[int | float]:
    """The edge, its float neighbours, and the places where a second rounding shows."""
    f32 = np.float32(edge)
    around = [f32, np.nextafter(f32, np.float32(-np.inf)), np.nextafter(f32, np.float32(np.inf))]
    if not whole:
        return [
            edge,
            float(np.nextafter(edge, -np.inf)),
            float(np.nextafter(edge, np.inf)),
            *(float(value) for value in around),
        ]
    found: list[int | float] = [int(edge), int(edge) + 1, int(edge) - 1]
    found += [int(value) for value in around]
    for low, high in ((around[1], around[0]), (around[0], around[2])):
        middle = (int(low) + int(high)) // 2  # ties to even in float32
        for step in (0, 1, 100, 128, 129):
            found += [middle + step, middle - step]
    return found


def native_margins_of(model: Any, X: Any) -> FloatArray:
    """What the library itself makes of a table: margins, or mean probabilities of a forest."""
    library = type(model).__module__.partition(".")[0]
    if type(model).__module__ == "xgboost.core":
        import xgboost

        bare = not hasattr(X, "columns")
        data = xgboost.DMatrix(
            X,
            enable_categorical=True,
            nthread=1,
            feature_names=model.feature_names if bare else None,
            feature_types=model.feature_types if bare else None,
        )
        margins = model.predict(data, output_margin=True)
    elif library in ("xgboost", "lightgbm"):
        option = "output_margin" if library == "xgboost" else "raw_score"
        margins = model.predict(X, **{option: True})
    elif library == "catboost":
        margins = model.predict(X, prediction_type="RawFormulaVal")
    elif hasattr(model, "decision_function"):
        margins = model.decision_function(X)
    else:
        margins = model.predict_proba(X)
    margins = np.asarray(margins)
    return margins.reshape(len(margins), -1)


def numeric_tables(columns: list[list[int | float]]) -> dict[str, Any]:
    """The same numbers in every kind of table and dtype that people hand to a model."""
    import pandas as pd
    import polars as pl

    floats = np.array([[float(value) for value in column] for column in columns]).T
    whole = np.array([[int(value) for value in column] for column in columns]).T
    tables: dict[str, Any] = {
        "float64": floats,
        "fortran": np.asfortranarray(floats),
        "reversed": floats[::-1],
        "strided": np.repeat(floats, 2, axis=0)[::2],
        "float32": floats.astype(np.float32),
        "float16": np.clip(floats, -6e4, 6e4).astype(np.float16),
        "bool": floats > 0.3,
        "longdouble": whole.astype(np.longdouble),
        "big-endian": floats.astype(">f8"),
        "big-endian float32": floats.astype(">f4"),
        "big-endian int": whole.astype(">i8"),
        "list": [[a, int(b), int(c)] for a, b, c in zip(*columns, strict=True)],
        "list of int": whole.tolist(),
        "one row": floats[:1],
        "no row": floats[:0],
    }
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        limits = np.iinfo(dtype)
        low, high = max(limits.min, -(2**62)), min(limits.max, 2**62)
        tables[dtype] = np.clip(whole, low, high).astype(dtype)
    objects = np.empty(whole.shape, dtype=object)
    objects[:, 0], objects[:, 1:] = floats[:, 0], whole[:, 1:]
    tables["object"] = objects
    tables["Decimal"] = np.array([[Decimal(int(v)) for v in row] for row in whole], dtype=object)
    tables |= {
        f"pandas {name}": pd.DataFrame(dict(zip(NAMES, made, strict=True)))
        for name, made in _frame_columns(floats, whole).items()
    }
    tables["pandas object"] = pd.DataFrame(objects, columns=list(NAMES))
    for name, made in _polars_columns(floats, whole).items():
        frame = pl.DataFrame(dict(zip(NAMES, made, strict=True)))
        tables[f"polars {name}"] = frame
        tables[f"arrow {name}"] = frame.to_arrow()
    two = pl.DataFrame(floats, schema=list(NAMES)).to_arrow()
    import pyarrow as pa

    tables["arrow in chunks"] = pa.concat_tables([two.slice(0, 7), two.slice(7)])
    tables["arrow batch"] = two.combine_chunks().to_batches()[0]
    return tables | _sparse_tables(floats, whole)


def _frame_columns(floats: FloatArray, whole: np.ndarray) -> dict[str, list[Any]]:
    import pandas as pd

    some = np.arange(len(floats)) % 7 == 0
    ratio, amount, moment = floats.T
    _, amount_int, moment_int = whole.T
    gaps = pd.array(moment_int, dtype="Int64")
    gaps[some] = pd.NA
    small = pd.array(amount_int % 100, dtype="Int8")
    return {
        "float64": [ratio, amount, moment],
        "float32": [column.astype(np.float32) for column in floats.T],
        "int64": list(whole.T),
        "uint64": [np.abs(column).astype(np.uint64) for column in whole.T],
        "float64 and int64": [ratio, amount_int, moment_int],
        "float32 and int64": [ratio.astype(np.float32), amount_int, moment_int],
        "float32 and int16": [ratio.astype(np.float32), (amount_int % 999).astype(np.int16), moment.astype(np.float32)],
        "float32 and int32": [ratio.astype(np.float32), amount_int.astype(np.int32), moment.astype(np.float32)],
        "float16 and float64": [ratio.astype(np.float16), amount, moment],
        "bool and int64": [ratio > 0.3, amount_int, moment_int],
        "bool and float32": [ratio > 0.3, amount.astype(np.float32), moment.astype(np.float32)],
        "int64 and uint64": [whole[:, 0], amount_int.astype(np.uint64), moment_int],
        "int32 and int64": [whole[:, 0].astype(np.int32), amount_int, moment_int],
        "longdouble": [ratio, amount, moment_int.astype(np.longdouble)],
        "big-endian": [column.astype(">f8") for column in floats.T],
        "Int64": [pd.array(column, dtype="Int64") for column in whole.T],
        "Int64 with gaps": [ratio, amount_int, gaps],
        "Float32 and Int64": [
            pd.array(ratio.astype(np.float32), dtype="Float32"),
            pd.array(amount_int, dtype="Int64"),
            moment,
        ],
        "boolean and Int8": [pd.array(ratio > 0.3, dtype="boolean"), small, moment],
        "arrow dtypes": [
            pd.array(ratio, dtype="double[pyarrow]"),
            pd.array(amount_int, dtype="int64[pyarrow]"),
            pd.array(moment_int, dtype="int64[pyarrow]"),
        ],
        "sparse": [pd.arrays.SparseArray(ratio, fill_value=0.0), amount, moment],
        "datetime": [ratio, amount_int, pd.to_datetime(moment_int)],
        "timedelta": [ratio, amount_int, pd.to_timedelta(moment_int)],
    }


def _polars_columns(floats: FloatArray, whole: np.ndarray) -> dict[str, list[Any]]:
    import polars as pl

    ratio, amount, moment = floats.T
    _, amount_int, moment_int = whole.T
    some = np.arange(len(floats)) % 7 == 0
    gaps = [None if gap else int(value) for gap, value in zip(some, moment_int, strict=True)]
    floats_with_gaps = [None if gap else v for gap, v in zip(some, ratio.tolist(), strict=True)]
    return {
        "float64": list(floats.T),
        "float32": [c.astype(np.float32) for c in floats.T],
        "int64": list(whole.T),
        "float64 and int64": [ratio, amount_int, moment_int],
        "float32 and int64": [ratio.astype(np.float32), amount_int, moment_int],
        "int32 and int64": [whole[:, 0].astype(np.int32), amount_int, moment_int],
        "int64 and uint64": [whole[:, 0], amount_int.astype(np.uint64), moment_int],
        "float32 and int32": [ratio.astype(np.float32), amount_int.astype(np.int32), moment.astype(np.float32)],
        "bool and float64": [ratio > 0.3, amount, moment],
        "bool and int64": [ratio > 0.3, amount_int, moment_int],
        "float64 with gaps": [floats_with_gaps, amount, moment],
        "int64 with gaps": [ratio, amount_int, gaps],
        "datetime": [ratio, amount_int, pl.Series(moment_int).cast(pl.Datetime("ns"))],
        "decimal": [ratio, amount_int, pl.Series(moment_int).cast(pl.Decimal(38, 2))],
    }


def _sparse_tables(floats: FloatArray, whole: np.ndarray) -> dict[str, Any]:
    from scipy import sparse

    n_rows = len(floats)
    gaps = floats.copy()
    gaps[np.abs(gaps) < 0.2] = 0  # absent, and no value next to zero
    tables = {form: getattr(sparse, f"{form}_matrix")(gaps) for form in ("csr", "csc", "coo")}
    for form in ("lil", "dok", "bsr", "dia"):
        tables[form] = getattr(sparse, f"{form}_matrix")(gaps[:40])
    tables["csr array"] = sparse.csr_array(gaps)
    tables["csr float32"] = sparse.csr_matrix(gaps.astype(np.float32))
    tables["csr int64"] = sparse.csr_matrix(whole)
    tables["csc int64"] = sparse.csc_matrix(whole)
    tables["csr bool"] = sparse.csr_matrix(gaps > 0.3)
    shape = floats.shape
    ends = np.arange(0, 3 * n_rows + 1, 3)
    order = [2, 0, 1]
    tables["csr unsorted"] = sparse.csr_matrix((gaps[:, order].ravel(), np.tile(order, n_rows), ends), shape=shape)
    explicit = sparse.csr_matrix((gaps.ravel(), np.tile([0, 1, 2], n_rows), ends), shape=shape)
    tables["csr with stored zeros"], tables["csc with stored zeros"] = explicit, explicit.tocsc()
    twice = np.column_stack([gaps[:, 0], np.ones(n_rows), gaps[:, 1:]]).ravel()
    tables["csr with repeated entries"] = sparse.csr_matrix(
        (twice, np.tile([0, 0, 1, 2], n_rows), np.arange(0, 4 * n_rows + 1, 4)), shape=shape
    )
    tiny = gaps.copy()
    tiny[::3, 0], tiny[1::3, 0] = -LIGHTGBM_ZERO, LIGHTGBM_ZERO / 2
    tables["csr next to zero"] = sparse.csr_matrix(tiny)
    return {f"sparse {form}": table for form, table in tables.items()}
