"""The second belt: native prediction of a stranger's file in a process of its own.

In come a parsed model that came as a file and a table; out go class indices. A library that
crashes, hangs or eats memory takes only the child with it, and what is left here is one error.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import numpy as np

from pine_boost.errors import MissingDependencyError, PineBoostError, UnsupportedModelError
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.native.predict import original_bytes, predict_classes
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of

TIME_LIMIT = 120.0
MEMORY_LIMIT = 4 * 2**30
_REFUSED, _NOT_INSTALLED = 3, 4  # exit statuses of a child that raised an error of ours


def predict_in_child(
    model: Model, X: Any, *, time_limit: float = TIME_LIMIT, memory_limit: int = MEMORY_LIMIT
) -> IntArray:
    """Class index of every row by the native library, which runs in a child process.

    The parser has checked the file and only re-serialised contents are passed on; this is for
    what neither parser nor library was known to do wrong. A live object, which the caller has
    loaded already, is asked in this process.

    Parameters
    ----------
    model : Model
    X : table
    time_limit : float
        Seconds that the child may run.
    memory_limit : int
        Bytes of address space of the child (where the system can limit it).

    Raises
    ------
    UnsupportedModelError
        The library did not survive this file, or not within the limits.
    PineBoostError
        What `native.predict_classes` raises.
    """
    if model.native is not None:
        return predict_classes(model, X)
    matrix = to_matrix(X, schema_of(model.forest))
    options = {"thresholds": model.forest.decision.thresholds, "memory": int(memory_limit)}
    request = _pack(json.dumps(options).encode(), original_bytes(model), _save(matrix))
    # the child finds pine_boost as this process does, wherever it was imported from
    command = [sys.executable, "-c", _CHILD.format(path=sys.path)]
    try:
        done = subprocess.run(command, input=request, capture_output=True, timeout=time_limit)
    except subprocess.TimeoutExpired as error:
        raise UnsupportedModelError(
            f"{model.forest.library} did not finish with this file in {time_limit:g} s and was "
            "stopped; the file is damaged or far too large."
        ) from error
    if done.returncode in (_REFUSED, _NOT_INSTALLED):
        kind = PineBoostError if done.returncode == _REFUSED else MissingDependencyError
        raise kind(done.stderr.decode(errors="replace").strip()[-2000:])
    if done.returncode != 0:
        raise UnsupportedModelError(_obituary(model, done.returncode, done.stderr))
    classes = np.load(io.BytesIO(done.stdout), allow_pickle=False)
    if classes.shape != (len(matrix),) or classes.dtype != np.int64:
        raise UnsupportedModelError("The child process answered something else than classes.")
    return np.asarray(classes)


def rehearse(model: Model, *, time_limit: float = TIME_LIMIT) -> None:
    """Let a child load the file and predict one row, before this process does; raises if it dies.

    For programs that were handed a file and will load it natively themselves. Says nothing where
    the library is not installed: then nothing will be loaded.
    """
    if model.native is not None:
        return
    row = np.zeros((1, model.forest.n_features))  # category code 0 where there are categories
    try:
        predict_in_child(model, as_table(row, schema_of(model.forest)), time_limit=time_limit)
    except ImportError:
        return


def read_rehearsed(model: Any, *, threshold: Any = None) -> Model:
    """Read a model that will be loaded natively here; a file only after a child survived it."""
    from pine_boost.parsers import read_model

    parsed: Model = read_model(model, threshold=threshold)
    rehearse(parsed)
    return parsed


_CHILD = (
    "import sys; sys.path[:] = {path!r}; "
    "from pine_boost.native.child_process import answer; answer()"
)


def answer() -> None:
    """What the child does: limits itself, reads a request, predicts, answers on stdout."""
    options_text, contents, saved = _unpack(sys.stdin.buffer.read())
    options = json.loads(options_text)
    _limit(int(options["memory"]))
    from pine_boost.parsers import read_model

    try:
        model = read_model(contents, threshold=tuple(options["thresholds"]) or None)
        classes = predict_classes(model, _table(model, np.load(io.BytesIO(saved))))
    except PineBoostError as error:
        print(error, file=sys.stderr)
        sys.exit(_NOT_INSTALLED if isinstance(error, MissingDependencyError) else _REFUSED)
    sys.stdout.buffer.write(_save(np.asarray(classes, dtype=np.int64)))
    sys.stdout.flush()


def _table(model: Model, matrix: FloatArray) -> Any:
    """Stored categories must be given as such; everything else may stay a plain matrix."""
    if any(model.forest.feature_categories):
        return as_table(matrix, schema_of(model.forest))
    return matrix


def _limit(memory: int) -> None:
    try:
        import resource
    except ImportError:  # not on this system; the time limit is the parent's
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _obituary(model: Model, status: int, errors: bytes) -> str:
    last = errors.decode(errors="replace").strip().rpartition("\n")[2][:300]
    how = f"was ended by signal {-status}" if status < 0 else f"failed ({last or status})"
    return (
        f"A child process that loaded this file with {model.forest.library} {how}. The file is "
        "damaged, hostile or too large for the limits; it was not loaded here."
    )


def _save(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _pack(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _unpack(request: bytes) -> list[bytes]:
    parts, position = [], 0
    while position < len(request):
        length = int.from_bytes(request[position : position + 8], "big")
        parts.append(request[position + 8 : position + 8 + length])
        position += 8 + length
    return parts
