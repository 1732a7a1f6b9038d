"""What evaluates a model behind a guard: the native library, Treelite's gtil, or compiled C.

In come a parsed Model and rows; out go class indices, margins and probabilities. gtil and tl2cgen
sum in double precision; where that could decide otherwise than the native library, and for inputs
that compiled code misreads, the native library is asked. Refuses what Treelite cannot say.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, MissingDependencyError, UnsupportedModelError
from pine_boost.model.exact import XGBOOST_MAX_CATEGORY, certain_distance
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.model.rules import Comparison, SplitKind
from pine_boost.native.predict import (
    has_plain_link,
    linked_probabilities,
    load_native,
    predict_classes,
    predict_margins,
    predict_probabilities,
)
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.schema import schema_of

BACKENDS = ("native", "gtil", "tl2cgen")
_LOW_WORD = 0xFFFFFFFF


class Engine(Protocol):
    """One model, ready to answer batch after batch."""

    def classes(self, X: Any) -> IntArray:
        """Class index (or score band) of every row, as the native ``predict`` gives it."""

    def margins(self, X: Any) -> FloatArray:
        """Margins, (n_rows, n_outputs)."""

    def probabilities(self, X: Any) -> FloatArray:
        """Class probabilities, (n_rows, n_classes)."""


def make_engine(model: Model, backend: str) -> Engine:
    """The engine of a model.

    Raises
    ------
    InvalidInputError
        An unknown backend.
    MissingDependencyError
        The library of the model, Treelite or tl2cgen is not installed.
    UnsupportedModelError
        Treelite cannot hold the model, or it could not be compiled.
    """
    if backend not in BACKENDS:
        raise InvalidInputError(f"backend={backend!r}: accepted are {', '.join(BACKENDS)}.")
    native = NativeEngine(replace(model, native=load_native(model)))
    if backend == "native":
        return native
    from pine_boost.exporters.treelite import to_treelite_sums

    has_codes = any(known is not None for known in model.forest.feature_categories)
    twin = to_treelite_sums(model, codes=has_codes)
    predict = _interpreted(twin) if backend == "gtil" else _compiled(twin)
    return SumEngine(
        native,
        predict,
        certain_distance(model.forest),
        backend == "tl2cgen",
        np.unique(model.forest.feature[model.forest.kind == SplitKind.CATEGORICAL]).astype(int),
    )


@dataclass(frozen=True, eq=False)
class NativeEngine:
    """The library itself."""

    model: Model

    def classes(self, X: Any) -> IntArray:
        """Class index (or score band) by the native ``predict``."""
        return predict_classes(self.model, X)

    def margins(self, X: Any) -> FloatArray:
        """Margins as the library returns them."""
        return predict_margins(self.model, X)[0]

    def probabilities(self, X: Any) -> FloatArray:
        """``predict_proba``, or what a booster's ``predict`` returns, one column per class."""
        return predict_probabilities(self.model, X)


@dataclass(frozen=True, eq=False)
class SumEngine:
    """Sums of leaves in double precision, and the native library where they do not settle it.

    Attributes
    ----------
    native : NativeEngine
    predict : callable
        From float64 rows to margins.
    categorical : int64
        Columns split by category: the libraries read fractions and negative codes each in their
        own way, so that such rows are the library's.
    certain : float
        Distance to the decision above which the sums decide as the library does.
    is_compiled : bool
        tl2cgen takes a double whose low 32 bits are all ones for missing; such rows are not its.
    """

    native: NativeEngine
    predict: Callable[[FloatArray], FloatArray]
    certain: float
    is_compiled: bool
    categorical: IntArray

    def classes(self, X: Any) -> IntArray:
        """The native class: far from the decision by the sums, elsewhere by the library."""
        margins, odd = self._sums(X)
        decision = self.native.model.forest.decision
        classes = decision.classes(margins)
        open_ = odd | (decision.distance(margins) <= self.certain)
        if open_.any():
            rows = np.flatnonzero(open_)
            classes[rows] = self.native.classes(_rows(X, rows))
        return classes

    def margins(self, X: Any) -> FloatArray:
        """Exact sums of a model on a grid; native ones for rows that compiled code misreads."""
        margins, odd = self._sums(X)
        if odd.any():
            rows = np.flatnonzero(odd)
            margins[rows] = self.native.margins(_rows(X, rows))
        return margins

    def probabilities(self, X: Any) -> FloatArray:
        """Sigmoid, softmax or mean of the sums, in double precision."""
        if not has_plain_link(self.native.model):
            return self.native.probabilities(X)
        return linked_probabilities(self.native.model, self.margins(X))

    def _sums(self, X: Any) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        forest = self.native.model.forest
        matrix = to_matrix(X, schema_of(forest))
        if forest.comparison is not Comparison.FLOAT64_LESS_EQUAL:
            with np.errstate(over="ignore"):
                matrix = matrix.astype(np.float32).astype(np.float64)
        matrix = np.ascontiguousarray(matrix)
        odd = np.zeros(len(matrix), dtype=bool)
        if self.is_compiled and forest.comparison is Comparison.FLOAT64_LESS_EQUAL:
            bits = matrix.view(np.uint64)
            odd = ((bits & _LOW_WORD) == _LOW_WORD).any(axis=1)
        if len(self.categorical):
            codes = matrix[:, self.categorical]
            known = (codes >= 0) & (codes < XGBOOST_MAX_CATEGORY) & (codes == np.floor(codes))
            odd |= ~(np.isnan(codes) | known).all(axis=1)
        return self.predict(matrix).reshape(len(matrix), forest.n_outputs), odd


def _interpreted(twin: Any) -> Callable[[FloatArray], FloatArray]:
    from treelite import gtil

    def predict(matrix: FloatArray) -> FloatArray:
        if len(matrix) == 0:
            return np.zeros(0)
        return np.asarray(gtil.predict(twin, matrix, nthread=1, pred_margin=True))

    return predict


def _compiled(twin: Any) -> Callable[[FloatArray], FloatArray]:
    try:
        import tl2cgen
    except ImportError as error:
        raise MissingDependencyError("backend='tl2cgen' needs tl2cgen; install it with: pip install tl2cgen") from error
    if shutil.which("gcc") is None:
        raise MissingDependencyError(
            "backend='tl2cgen' compiles C code and no gcc was found on the PATH; install gcc, or use backend='gtil'."
        )
    # the library stays mapped after its file is gone
    with tempfile.TemporaryDirectory(prefix="pine-boost-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tl2cgen remarks on checkpoints of a newer Treelite
        path = Path(folder) / "model.so"
        try:
            tl2cgen.export_lib(twin, toolchain="gcc", libpath=str(path), params={"parallel_comp": 8})
        except Exception as error:  # tl2cgen raises its own and what subprocess raises
            raise UnsupportedModelError(
                f"tl2cgen could not compile the model ({str(error).strip()[:200]}); install gcc, or use backend='gtil'."
            ) from error
        predictor = tl2cgen.Predictor(str(path), nthread=1)

    def predict(matrix: FloatArray) -> FloatArray:
        if len(matrix) == 0:
            return np.zeros(0)
        return np.asarray(predictor.predict(tl2cgen.DMatrix(matrix), pred_margin=True))

    return predict


def _rows(X: Any, rows: IntArray) -> Any:
    from pine_boost.tables.native import take_rows

    return take_rows(X, rows)
