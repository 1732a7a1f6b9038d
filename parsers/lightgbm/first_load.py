"""Script for a child process: lib_lightgbm loads a text from stdin and predicts one row of zeros.

Imports no package, so it starts in milliseconds. The exit status gives the outcome.
"""

import ctypes
import sys

REFUSED = 3
_FLOAT64, _RAW_SCORE = 1, 1


def main() -> None:
    """Load and predict; if the library rejects the file, print its error and exit with a special status."""
    library = ctypes.CDLL(sys.argv[1])
    n_features = int(sys.argv[2])
    contents = sys.stdin.buffer.read()
    library.LGBM_GetLastError.restype = ctypes.c_char_p

    def call(name: str, *arguments: object, forgiven: bytes | None = None) -> None:
        if getattr(library, name)(*arguments) != 0 and library.LGBM_GetLastError() != forgiven:
            print(library.LGBM_GetLastError().decode(errors="replace"), file=sys.stderr)
            sys.exit(REFUSED)

    model, n_rounds, n_classes = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    length = ctypes.c_int64()
    call("LGBM_BoosterLoadModelFromString", contents, ctypes.byref(n_rounds), ctypes.byref(model))
    call("LGBM_BoosterGetNumClasses", model, ctypes.byref(n_classes))
    if hasattr(library, "LGBM_BoosterGetLoadedParam"):
        # Newer Python packages read the parameters right after loading. 4.0 does not, and it does not
        # have every parameter that a newer version writes.
        room = ctypes.create_string_buffer(len(contents) + 2**20)
        size = ctypes.c_int64(len(room))
        call("LGBM_BoosterGetLoadedParam", model, size, ctypes.byref(length), room, forgiven=b"unordered_map::at")
    zeros, result = (ctypes.c_double * n_features)(), (ctypes.c_double * n_classes.value)()
    call(
        "LGBM_BoosterPredictForMat",
        model,
        zeros,
        _FLOAT64,
        ctypes.c_int32(1),
        ctypes.c_int32(n_features),
        1,
        _RAW_SCORE,
        0,
        -1,
        b"num_threads=1",
        ctypes.byref(length),
        result,
    )


if __name__ == "__main__":
    main()
