"""Script for a child process: a library loads a file from stdin and predicts one row of zeros.

Called with the library, the path of its C library and the number of features. Imports no package, so it starts in
milliseconds (except for CatBoost, whose package has no C library). The exit status gives the outcome.
"""

import ctypes
import os
import sys
import tempfile
from ctypes import byref

REFUSED = 3


class _Caller:
    """Calls functions of a C library; if one fails, prints its error and exits with a special status."""

    def __init__(self, path: str, last_error: str) -> None:
        self._library = ctypes.CDLL(path)
        self._last_error = getattr(self._library, last_error)
        self._last_error.restype = ctypes.c_char_p

    def __call__(self, name: str, *arguments: object, forgiven: bytes | None = None) -> None:
        if getattr(self._library, name)(*arguments) != 0 and self._last_error() != forgiven:
            print(self._last_error().decode(errors="replace"), file=sys.stderr)
            sys.exit(REFUSED)

    def has(self, name: str) -> bool:
        """Whether the library has a function of this name."""
        return hasattr(self._library, name)


def load_xgboost(path: str, n_features: int, contents: bytes) -> None:
    """Load and predict with libxgboost."""
    call = _Caller(path, "XGBGetLastError")
    model, rows = ctypes.c_void_p(), ctypes.c_void_p()
    call("XGBoosterCreate", None, ctypes.c_uint64(0), byref(model))
    call("XGBoosterSetParam", model, b"nthread", b"1")
    call("XGBoosterLoadModelFromBuffer", model, contents, ctypes.c_uint64(len(contents)))
    zeros, height, width = (ctypes.c_float * n_features)(), ctypes.c_uint64(1), ctypes.c_uint64(n_features)
    call("XGDMatrixCreateFromMat", zeros, height, width, ctypes.c_float(float("nan")), byref(rows))
    shape, dimension = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_uint64()
    result = ctypes.POINTER(ctypes.c_float)()
    config = b'{"type":0,"training":false,"iteration_begin":0,"iteration_end":0,"strict_shape":true}'
    call("XGBoosterPredictFromDMatrix", model, rows, config, byref(shape), byref(dimension), byref(result))


def load_lightgbm(path: str, n_features: int, contents: bytes) -> None:
    """Load and predict with lib_lightgbm."""
    call = _Caller(path, "LGBM_GetLastError")
    model, n_rounds, n_classes = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    length = ctypes.c_int64()
    call("LGBM_BoosterLoadModelFromString", contents, byref(n_rounds), byref(model))
    call("LGBM_BoosterGetNumClasses", model, byref(n_classes))
    if call.has("LGBM_BoosterGetLoadedParam"):
        # Newer Python packages read the parameters right after loading. 4.0 does not, and it does not
        # have every parameter that a newer version writes.
        room = ctypes.create_string_buffer(len(contents) + 2**20)
        size = ctypes.c_int64(len(room))
        call("LGBM_BoosterGetLoadedParam", model, size, byref(length), room, forgiven=b"unordered_map::at")
    zeros, result = (ctypes.c_double * n_features)(), (ctypes.c_double * n_classes.value)()
    is_double, height, width, row_major, raw_score = 1, ctypes.c_int32(1), ctypes.c_int32(n_features), 1, 1
    rounds, options = (0, -1), b"num_threads=1"
    form = (is_double, height, width, row_major, raw_score)
    call("LGBM_BoosterPredictForMat", model, zeros, *form, *rounds, options, byref(length), result)


def load_catboost(path: str, n_features: int, contents: bytes) -> None:
    """Load and predict with the package of CatBoost."""
    # isolated and without site: what the package itself imports may lie in another folder of the parent's path
    sys.path += [os.path.dirname(os.path.dirname(path)), *sys.argv[4:]]
    import catboost

    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "model.json")
        with open(name, "wb") as file:
            file.write(contents)
        try:
            model = catboost.CatBoost()
            model.load_model(name, format="json")
            model.predict([[0.0] * n_features], prediction_type="RawFormulaVal", thread_count=1)
        except catboost.CatBoostError as error:
            print(error, file=sys.stderr)
            sys.exit(REFUSED)


if __name__ == "__main__":
    loaders = {"xgboost": load_xgboost, "lightgbm": load_lightgbm, "catboost": load_catboost}
    loaders[sys.argv[1]](sys.argv[2], int(sys.argv[3]), sys.stdin.buffer.read())
