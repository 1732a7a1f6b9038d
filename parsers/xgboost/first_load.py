"""Script for a child process: libxgboost loads a file from stdin and predicts one row of zeros.

Imports no package, so it starts in milliseconds. The exit status gives the outcome.
"""

import ctypes
import sys

REFUSED = 3


def main() -> None:
    """Load and predict; if the library rejects the file, print its error and exit with a special status."""
    library = ctypes.CDLL(sys.argv[1])
    n_features = int(sys.argv[2])
    contents = sys.stdin.buffer.read()
    library.XGBGetLastError.restype = ctypes.c_char_p

    def call(name: str, *arguments: object) -> None:
        if getattr(library, name)(*arguments) != 0:
            print(library.XGBGetLastError().decode(errors="replace"), file=sys.stderr)
            sys.exit(REFUSED)

    model, rows = ctypes.c_void_p(), ctypes.c_void_p()
    call("XGBoosterCreate", None, ctypes.c_uint64(0), ctypes.byref(model))
    call("XGBoosterSetParam", model, b"nthread", b"1")
    call("XGBoosterLoadModelFromBuffer", model, contents, ctypes.c_uint64(len(contents)))
    zeros = (ctypes.c_float * n_features)()
    call(
        "XGDMatrixCreateFromMat",
        zeros,
        ctypes.c_uint64(1),
        ctypes.c_uint64(n_features),
        ctypes.c_float(float("nan")),
        ctypes.byref(rows),
    )
    shape, dimension = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_uint64()
    result = ctypes.POINTER(ctypes.c_float)()
    config = b'{"type":0,"training":false,"iteration_begin":0,"iteration_end":0,"strict_shape":true}'
    call(
        "XGBoosterPredictFromDMatrix",
        model,
        rows,
        config,
        ctypes.byref(shape),
        ctypes.byref(dimension),
        ctypes.byref(result),
    )


if __name__ == "__main__":
    main()
