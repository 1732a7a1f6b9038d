"""Check on this machine what proofs and scorers rely on: arithmetic, native predictions, the kernel, the solvers.

Every check is a planted model or problem whose answer is known, and would show the fault that it looks for.
"""

from __future__ import annotations

import itertools
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from pine_boost._version import __version__
from pine_boost.accelerate import accelerate_booster
from pine_boost.budget import Budget
from pine_boost.kernels.compiled import CompiledTrees
from pine_boost.kernels.flat_forest import Link
from pine_boost.kernels.library import load
from pine_boost.kernels.numpy_twin import NumpyTrees
from pine_boost.model import reference
from pine_boost.model.exact import LIGHTGBM_ZERO, PROGRAM_NOISE
from pine_boost.model.flatten import flatten
from pine_boost.model.forest import FloatArray, Forest, Model
from pine_boost.model.rules import Comparison, SplitKind
from pine_boost.model.synthetic_rows import edge_rows, edge_values
from pine_boost.native.predict import predict_classes, predict_margins
from pine_boost.notebooks import displayed, table_html
from pine_boost.options import counted
from pine_boost.parsers import read_model
from pine_boost.parsers.traits import LIBRARIES, traits_of, untested_version
from pine_boost.proof.cpsat import solver as cpsat
from pine_boost.proof.problem import Answer
from pine_boost.scoring.native_sum import leaf_nodes, plain_sum
from pine_boost.search.lp import LinearProgram, RowPool, Solver
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of

_PACKAGES = ("numpy", "scipy", "ortools")
_SPECIAL = (np.nan, 0.0, -0.0, 5e-324, -1e-40, LIGHTGBM_ZERO, -2 * LIGHTGBM_ZERO, np.inf, -np.inf)
_SETTINGS = (cpsat.FIRST, cpsat.SECOND, cpsat.FIRST_LP, cpsat.SECOND_LP)
_CODES = (np.nan, -1.0, 0.0, 1.9, 2.0, 5.0, 9.0, 1e6)


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes
    ----------
    name : str
    passed : bool or None
        None if there was nothing to check: a library is not installed, or no kernel was compiled.
    text : str
        What was compared, or what differs.
    """

    name: str
    passed: bool | None
    text: str


@displayed
@dataclass(frozen=True)
class Installation:
    """What was checked on this machine.

    Attributes
    ----------
    versions : dict
        Version by package; None if it is not installed.
    platform : str
    checks : tuple of Check
    seconds : float
    """

    versions: dict[str, str | None]
    platform: str
    checks: tuple[Check, ...]
    seconds: float

    @property
    def healthy(self) -> bool:
        """Whether no check failed."""
        return all(check.passed is not False for check in self.checks)

    @property
    def verdict(self) -> str:
        """One sentence."""
        failed = [check.name for check in self.checks if check.passed is False]
        if failed:
            return f"Do not rely on proofs or scorers here: {', '.join(failed)} failed. Please report it."
        n_checked = sum(check.passed is True for check in self.checks)
        return f"Everything that was checked holds here ({counted(n_checked, 'check')})."

    def summary(self) -> str:
        """Versions, a line per check, and the verdict."""
        found = [f"{name} {version or 'not installed'}" for name, version in self.versions.items()]
        width = max(len(check.name) for check in self.checks)
        lines = [f"{_word(check):<7} {check.name:<{width}}  {check.text}" for check in self.checks]
        return "\n".join([self.platform, ", ".join(found), *lines, f"{self.verdict} ({self.seconds:.1f} s)"])

    def _repr_html_(self) -> str:
        """The checks as a table, for notebooks."""
        cells = [(_word(check), check.name, check.text) for check in self.checks]
        return table_html((), cells, self.verdict)


def _word(check: Check) -> str:
    return {True: "ok", False: "FAILED", None: "-"}[check.passed]


def check_installation(libraries: Sequence[str] = LIBRARIES) -> Installation:
    """Check what proofs and scorers rely on, on this machine and with the installed libraries.

    Small models are trained with each installed library, and their native predictions are compared
    with the rules that proofs use, on rows at every threshold, one ulp beside it, with NaN, zeros, tiny
    and infinite values, known and unknown categories; sums are compared bit for bit. Then the compiled
    kernel is compared with its numpy twin, and the solvers are asked questions whose answers are known.

    Parameters
    ----------
    libraries : sequence of str
        The training libraries to check; those that are not installed are named.

    Returns
    -------
    Installation
        ``healthy`` is False if any check failed.

    Raises
    ------
    UnsupportedModelError
        There is no reader for a library.

    Examples
    --------
    >>> import pine_boost
    >>> pine_boost.check_installation().healthy
    True
    """
    started = time.monotonic()
    checks = [_guarded("floating point", _arithmetic)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the libraries say about three-tree models
        for library in libraries:
            title = traits_of(library).title
            if _version(library) is None:
                checks.append(Check(title, None, "not installed"))
                continue
            checks += [_guarded(name, partial(_library, fit)) for name, fit in _PLANTED[library].items()]
            if (untested := untested_version(library)) is not None:  # the checks above decide
                version, tested = untested
                checks.append(Check(f"{title} {version}", None, f"not among the tested versions ({tested})"))
        checks.append(_guarded("C kernel", _kernel))
        checks += [_guarded(f"CP-SAT, setting {s.name}", partial(_cp_sat, s)) for s in _SETTINGS]
        checks.append(_guarded("linear programs", _linear_programs))
    machine = f"{platform.system()} {platform.machine()}, {platform.python_implementation()}, {sys.byteorder}-endian"
    versions: dict[str, str | None] = {"pine-boost": __version__, "python": platform.python_version()}
    versions |= {name: _version(name) for name in (*_PACKAGES, *libraries)}
    return Installation(versions, machine, tuple(checks), time.monotonic() - started)


def _guarded(name: str, run: Callable[[], str | None]) -> Check:
    """The outcome of a check; an exception is a failure, None that there is nothing to check."""
    try:
        text = run()
    except _Difference as found:
        return Check(name, False, str(found))
    except Exception as error:  # a broken library can raise anything
        return Check(name, False, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    if text is None:
        return Check(name, None, "not available; the numpy twin runs instead")
    return Check(name, True, text)


class _Difference(Exception):
    """Something is not as it must be."""


def _require(holds: Any, text: str) -> None:
    if not holds:
        raise _Difference(text)


def _version(name: str) -> str | None:
    try:
        return str(import_module(name).__version__)
    except ImportError:
        return None
    except AttributeError:
        return metadata.version(name)


def _arithmetic() -> str:
    """IEEE 754, with tiny numbers kept and without wider registers."""
    for kind, tiny in ((np.float32, 1e-45), (np.float64, 5e-324)):
        least, half = kind(tiny), kind(np.finfo(kind).eps / 2)
        _require(least > 0 and kind(1) * least == least, f"{kind.__name__}: numbers below the normal range become 0")
        numbers = np.array([1, half, half], dtype=kind)
        _require(
            numbers[0] + numbers[1] == 1 and (numbers[1] + numbers[2]) + numbers[0] > 1,
            f"{kind.__name__}: sums are not rounded after each addition",
        )
    third = np.array([1 / 3])
    _require(third.astype(np.float32)[0] == np.float32(11184811 / 2**25), "float64 is not rounded to float32 correctly")
    return "IEEE 754 single and double, no flushing to zero"


def _data(n_classes: int) -> tuple[FloatArray, Any]:
    """Decimal numbers (float32 and float64 differ), missing values, zeros, a category; two or three classes."""
    random = np.random.default_rng(11)
    X = random.normal(size=(300, 4)).round(1)
    X[:, 3] = random.integers(0, 6, len(X))
    X[random.random(len(X)) < 0.1, 2] = np.nan
    score = X[:, 0] * X[:, 1] + np.nan_to_num(X[:, 2], nan=0.7) + np.isin(X[:, 3], [1, 4])
    y = np.digitize(score, [0.0, 0.9])
    return X, y if n_classes == 3 else y > 0


def _plant_xgboost(n_classes: int, **parameters: Any) -> Any:
    import xgboost

    data = xgboost.DMatrix(*_data(n_classes), feature_types=["q", "q", "q", "c"], enable_categorical=True, nthread=1)
    own = {"max_depth": 4, "tree_method": "hist", "nthread": 1, "max_cat_to_onehot": 1}
    return xgboost.train(own | parameters, data, 8)


def _plant_lightgbm(n_classes: int, **parameters: Any) -> Any:
    import lightgbm

    own = {"num_leaves": 9, "min_data_in_leaf": 5, "num_threads": 1, "verbose": -1, "min_data_per_group": 5}
    return lightgbm.train(own | parameters, lightgbm.Dataset(*_data(n_classes), categorical_feature=[3]), 8)


def _plant_catboost(n_classes: int, **parameters: Any) -> Any:
    from catboost import CatBoostClassifier

    X, y = _data(n_classes)
    table = X.astype(object)
    table[:, 3] = X[:, 3].astype(np.int64)
    own = {"iterations": 8, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    return CatBoostClassifier(**own, one_hot_max_size=9, cat_features=[3], **parameters).fit(table, y)


def _plant_sklearn(n_classes: int, kind: str, **parameters: Any) -> Any:
    from sklearn import ensemble

    X, y = _data(n_classes)
    filled = np.nan_to_num(X, nan=0.35) if kind == "GradientBoostingClassifier" else X
    return getattr(ensemble, kind)(random_state=0, **parameters).fit(filled, y)


_PLANTED: dict[str, dict[str, Callable[[], Any]]] = {
    "catboost": {
        "CatBoost, two classes": partial(_plant_catboost, 2, nan_mode="Max", boost_from_average=True),
        "CatBoost, three classes": partial(_plant_catboost, 3, grow_policy="Lossguide"),
    },
    "xgboost": {
        "XGBoost, two classes": partial(_plant_xgboost, 2, objective="binary:logistic"),
        "XGBoost, three classes": partial(_plant_xgboost, 3, objective="multi:softprob", num_class=3),
    },
    "lightgbm": {
        "LightGBM, two classes": partial(_plant_lightgbm, 2, objective="binary"),
        "LightGBM, three classes": partial(_plant_lightgbm, 3, objective="multiclass", num_class=3),
        "LightGBM, zero_as_missing": partial(_plant_lightgbm, 2, objective="binary", zero_as_missing=True),
    },
    "sklearn": {
        name: partial(_plant_sklearn, n_classes, name, **parameters)
        for name, n_classes, parameters in (
            ("RandomForestClassifier", 3, {"n_estimators": 8, "max_depth": 4, "n_jobs": 1}),
            ("GradientBoostingClassifier", 3, {"n_estimators": 8, "max_depth": 3}),
            ("HistGradientBoostingClassifier", 2, {"max_iter": 8, "categorical_features": [3]}),
        )
    },
}


def _rows(forest: Forest) -> FloatArray:
    """Rows at, beside and far from every threshold and category that the library accepts."""
    random = np.random.default_rng(5)
    base = edge_rows(forest)
    found = [base]
    for feature in range(forest.n_features):
        is_categorical = np.any(forest.kind[forest.feature == feature] == SplitKind.CATEGORICAL)
        values = np.append(edge_values(forest, feature), _CODES if is_categorical else _SPECIAL)
        moved = base[random.integers(len(base), size=4 * len(values))]
        moved[:, feature] = np.tile(values, 4)
        found.append(moved)
    X = np.concatenate(found)
    if forest.comparison is Comparison.FLOAT32_VALUE_LESS_EQUAL:
        X = X[~(np.abs(X) > np.finfo(np.float32).max).any(axis=1)]
    return X if forest.accepts_missing else X[~np.isnan(X).any(axis=1)]


def _library(fit: Callable[[], Any]) -> str:
    """Compare a planted model's native predictions with the reference, and the scorer with both."""
    trained = fit()
    model = read_model(trained)
    forest = model.forest
    X = _rows(forest)
    schema = schema_of(forest)
    table = as_table(X, schema)
    X = to_matrix(table, schema)  # as the library reads it: to HistGradientBoosting unknown categories are missing
    ours = reference.native_margins(forest, X)
    native, blur = predict_margins(model, table)
    apart = np.abs(native - ours.astype(np.float64)).max(axis=1)
    _require(
        np.all(apart <= blur),
        f"{np.count_nonzero(~(apart <= blur))} of {len(X)} sums differ from the library's, by up to {apart.max():g}",
    )
    own = predict_classes(model, table)
    labels = np.asarray(accelerate_booster(trained, verbose=False).scorer.predict(table))
    _require(np.array_equal(labels, np.asarray(forest.classes)[own]), "the scorer gives other classes than the library")
    return f"{len(X)} rows agree; {_power(model, X, ours, blur)}"


def _power(model: Model, X: FloatArray, margins: Any, blur: float) -> str:
    """How many rows would show each fault; a planted model that shows none is a fault of its own."""
    forest = model.forest
    up = forest.comparison is Comparison.FLOAT32_LESS
    kind = np.float32 if up else np.float64
    beside = np.nextafter(forest.threshold.astype(kind), kind(np.inf if up else -np.inf)).astype(np.float64)
    other = np.float64 if forest.arithmetic is np.float32 else np.float32
    faults = {"a threshold on the other side": replace(forest, threshold=beside)}
    if forest.accepts_missing:
        faults["a missing value on the other side"] = replace(forest, default_left=~forest.default_left)
    if np.any(forest.kind == SplitKind.CATEGORICAL):
        faults["a category on the other side"] = replace(forest, set_left=~forest.set_left)
    shown = {}
    if blur == 0:  # means are multiplied back, so that their last digit is not compared
        leaves = reference.find_leaves(forest, X)
        values = forest.leaf_vectors().astype(forest.arithmetic)
        total = np.tile(forest.intercept.astype(forest.arithmetic), (len(X), 1))
        for tree in reversed(range(forest.n_trees)):
            total = total + values[leaves[:, tree]]
        shown["another order of adding"] = int((total != margins).any(axis=1).sum())
        faults["another float type"] = replace(forest, arithmetic=other)
    for name, wrong in faults.items():
        apart = np.abs(reference.native_margins(wrong, X).astype(np.float64) - margins.astype(np.float64))
        shown[name] = int((apart > blur).any(axis=1).sum())
    for name, count in shown.items():
        _require(count, f"the planted model would not show {name}")
    return f"would notice {', '.join(f'{name} ({count} rows)' for name, count in shown.items())}"


def _planted_forest(float32: bool) -> Forest:
    """Twelve trees of depth 2 that lie beside this module, so that no library is needed."""
    forest = read_model(Path(__file__).with_name("planted_model.json")).forest
    if float32:
        return forest
    fine = {name: getattr(forest, name) / 3 for name in ("threshold", "value", "intercept")}  # all digits of a double
    return replace(forest, **fine, arithmetic=np.float64, comparison=Comparison.FLOAT64_LESS_EQUAL, library="lightgbm")


def _kernel() -> str | None:
    """Compare the compiled kernel with its twin, and the twin with the reference, bit for bit."""
    library = load()
    n_rows = 0
    for float32 in (True, False):
        forest = _planted_forest(float32)
        X, flat = _rows(forest), flatten(forest)
        native = plain_sum(forest)
        twin = NumpyTrees(flat, native, None)
        same = leaf_nodes(forest)[twin.leaves(X)] == reference.find_leaves(forest, X)
        _require(same.all(), f"{np.count_nonzero(~same)} leaves of the numpy twin are not those of the reference")
        _require(
            np.array_equal(twin.margins(X)[0], reference.native_margins(forest, X)), "sums of the numpy twin differ"
        )
        n_rows += len(X)
        if library is None:
            continue
        compiled = CompiledTrees(library, flat, native, None)
        same = compiled.leaves(X) == twin.leaves(X)
        _require(same.all(), f"{np.count_nonzero(~same)} leaves differ from those of the numpy twin")
        for link in (None, *Link):
            _require(
                np.array_equal(compiled.margins(X, link=link)[0], twin.margins(X, link=link)[0], equal_nan=True),
                f"{'sums' if link is None else link.name} of the kernel and its numpy twin differ",
            )
    return None if library is None else f"{n_rows} rows as the numpy twin, bit for bit"


def _cp_sat(setting: cpsat.SolverSetting) -> str:
    """One leaf of each tree, a sum to reach, another to stay below: asked at the optimum and one beyond it."""
    n_asked = 0
    for seed in range(4):
        random = np.random.default_rng(seed)
        gain, cost = random.integers(-(2**24), 2**24, size=(2, 5, 4))
        choices = np.array(list(itertools.product(range(4), repeat=5)))
        totals = gain[np.arange(5), choices].sum(axis=1)
        costs = cost[np.arange(5), choices].sum(axis=1)
        most = int(np.median(costs))
        best = int(totals[costs <= most].max())
        for target, expected in ((best, Answer.FOUND), (best + 1, Answer.PROVED)):
            model = cp_model.CpModel()
            leaves = [[model.new_bool_var("") for _ in range(4)] for _ in range(5)]
            for tree in leaves:
                model.add_exactly_one(tree)
            flat = list(itertools.chain.from_iterable(leaves))
            model.add(cp_model.LinearExpr.weighted_sum(flat, gain.ravel().tolist()) >= target)
            model.add(cp_model.LinearExpr.weighted_sum(flat, cost.ravel().tolist()) <= most)
            solver = cpsat.configured(setting, Budget.of(20.0), 100.0)
            answer = cpsat.answer_of(cpsat.solve(solver, model))
            _require(answer is expected, f"a planted problem: {answer.name} instead of {expected.name}")
            n_asked += 1
            if answer is Answer.FOUND:
                chosen = np.array([[solver.boolean_value(leaf) for leaf in tree] for tree in leaves])
                fits = (chosen.sum(axis=1) == 1).all() and (cost * chosen).sum() <= most
                _require(fits and (gain * chosen).sum() == best, "a solution of CP-SAT breaks a row")
    return f"{n_asked} planted problems, half of them infeasible"


def _linear_programs() -> str:
    """Programs with a known optimum or none; they only propose, proofs do not rely on them."""
    random = np.random.default_rng(0)
    rows = random.integers(-5, 6, size=(30, 8)).astype(np.float64)
    solution = random.integers(1, 5, size=8).astype(np.float64)
    tight = rows[:8] + 20 * np.eye(8)
    rows[:8] = tight
    at_least = rows @ solution - np.where(np.arange(30) < 8, 0.0, 3.0)
    cost = tight.T @ np.arange(1.0, 9.0)  # positive multipliers of the tight rows: the solution is optimal
    for solver in Solver:
        bounds = np.full(8, -1e6), np.full(8, 1e6)
        program = LinearProgram(cost, *bounds, RowPool(rows, at_least), solver=solver)
        found = program.solve(Budget.of(20.0))
        _require(
            found is not None and np.allclose(found.x, solution, atol=1e3 * PROGRAM_NOISE, rtol=0),
            f"{solver.name} misses a planted optimum",
        )
        impossible = RowPool(np.vstack([rows, -cost]), np.append(at_least, 1.0 - cost @ solution))
        none = LinearProgram(cost, np.full(8, -1e6), np.full(8, 1e6), impossible, solver=solver).solve(Budget.of(20.0))
        _require(none is None, f"{solver.name} solves a program that has no solution")
    return f"{len(Solver)} solvers find a planted optimum, and none where there is none"
