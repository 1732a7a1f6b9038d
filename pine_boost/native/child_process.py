"""Load files of unknown origin natively in a child process first.

A library that crashes, hangs or runs out of memory ends only the child; the caller gets an error.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from pine_boost import parsers
from pine_boost.errors import MissingDependencyError, PineBoostError, UnsupportedModelError
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.native.predict import original_bytes, predict_classes
from pine_boost.parsers import read_model
from pine_boost.parsers.traits import traits_of
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of

TIME_LIMIT = 120.0
MEMORY_LIMIT = 4 * 2**30
# exit statuses of the child: rejected by the library, an error of ours, library not installed
_REFUSED, _RAISED, _NOT_INSTALLED = 3, 4, 5
_SCRIPT = str(Path(parsers.__file__).with_name("first_load.py"))

_TRIED: WeakSet[Model] = WeakSet()


def read_and_try(model: Any, *, threshold: Any = None) -> Model:
    """Read a model that will be loaded natively in this process; load a file in a child process first."""
    parsed = read_model(model, threshold=threshold)
    try_in_child(parsed)
    return parsed


def try_in_child(*models: Model, time_limit: float = TIME_LIMIT, memory_limit: int = MEMORY_LIMIT) -> None:
    """Load files and predict one row of each in a child process before this process does.

    The child is a script that calls the C library and imports no package, so it takes a tenth of a
    second. Does nothing for a live object, for a `Model` that passed before, or if the library is not
    installed.

    Parameters
    ----------
    models : Model
    time_limit : float
        Seconds that the child may run.
    memory_limit : int
        Bytes of address space of the child (if the system can limit it).

    Raises
    ------
    UnsupportedModelError
        The library rejects the file, crashes on it, or exceeds the limits.
    """
    for model in models:
        if model.native is not None or model in _TRIED:
            continue
        library = model.forest.library
        try:
            path = traits_of(library).shared_library()
        except ImportError:
            continue
        # isolated and without site: none of the user's setup runs, and it starts quickly
        command = [
            sys.executable,
            "-I",
            "-S",
            _SCRIPT,
            library,
            path,
            str(model.forest.n_features),
            *filter(None, sys.path),
        ]
        _run(command, original_bytes(model), model, time_limit, memory_limit)
        _TRIED.add(model)


def predict_in_child(
    model: Model, X: Any, *, time_limit: float = TIME_LIMIT, memory_limit: int = MEMORY_LIMIT
) -> IntArray:
    """Predict the class index of every row with the native library in a child process.

    A live object is already loaded, so it predicts in this process. The limits and errors are
    those of `try_in_child`, besides the errors of `predict_classes`.
    """
    if model.native is not None:
        return predict_classes(model, X)
    matrix = to_matrix(X, schema_of(model.forest))
    options = {"thresholds": model.forest.decision.thresholds}
    request = _pack(json.dumps(options).encode(), original_bytes(model), _save(matrix))
    # the child finds pine_boost as this process does, wherever it was imported from
    command = [sys.executable, "-c", _CHILD.format(path=sys.path)]
    answered = _run(command, request, model, time_limit, memory_limit)
    classes = np.load(io.BytesIO(answered), allow_pickle=False)
    if classes.shape != (len(matrix),) or classes.dtype != np.int64:
        raise UnsupportedModelError("The child process answered something else than classes.")
    return np.asarray(classes)


def _run(command: list[str], request: bytes, model: Model, time_limit: float, memory_limit: int) -> bytes:
    """Run a child on a request and return its answer; raise if it fails."""
    library = model.forest.library
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as child:
        try:
            limit_process(child.pid, memory_limit)
            answered, errors = child.communicate(request, timeout=time_limit)
        except subprocess.TimeoutExpired as error:
            raise UnsupportedModelError(
                f"{library} did not finish with this file in {time_limit:g} s and was stopped; "
                "the file is damaged or far too large."
            ) from error
        finally:  # Ctrl-C as well
            child.kill()
            child.wait()
    text = errors.decode(errors="replace").strip()
    if child.returncode == _RAISED:
        raise PineBoostError(text[-2000:])
    if child.returncode == _REFUSED:
        reason = next((line for line in text.splitlines() if line.strip()), "no reason given")
        raise UnsupportedModelError(
            f"{library} itself refuses this file: {reason.strip()[:300]}. Save the model again."
        )
    if child.returncode == _NOT_INSTALLED:
        raise MissingDependencyError(text[-2000:])
    if child.returncode != 0:
        status = child.returncode
        last = text.rpartition("\n")[2][:300]
        how = f"was ended by signal {-status}" if status < 0 else f"failed ({last or status})"
        raise UnsupportedModelError(
            f"A child process that loaded this file with {library} {how}. The file is damaged, "
            f"hostile or too large for {memory_limit / 2**30:.3g} GiB; it was not loaded here."
        )
    return answered


def limit_process(process: int, memory: int) -> None:
    """Limit the address space of a process and disable core files, if the system can.

    The limit is never above that of this process: only lowering is always allowed, and a child
    that could not set its limits would look like a damaged file.
    """
    try:
        import resource
    except ImportError:  # not available on this system; the parent enforces the time limit
        return
    if not hasattr(resource, "prlimit"):
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    try:
        resource.prlimit(process, resource.RLIMIT_AS, (allowed, allowed))
        resource.prlimit(process, resource.RLIMIT_CORE, (0, 0))
    except ProcessLookupError:  # it has already ended; its exit status gives the reason
        return


_CHILD = "import sys; sys.path[:] = {path!r}; from pine_boost.native.child_process import answer; answer()"


def answer() -> None:
    """Main function of the child: read a request, predict, write the classes to stdout."""
    options_text, contents, saved = _unpack(sys.stdin.buffer.read())
    options = json.loads(options_text)
    try:
        model = read_model(contents, threshold=tuple(options["thresholds"]) or None)
        classes = predict_classes(model, _table(model, np.load(io.BytesIO(saved))))
    except PineBoostError as error:
        print(error, file=sys.stderr)
        sys.exit(_NOT_INSTALLED if isinstance(error, MissingDependencyError) else _RAISED)
    sys.stdout.buffer.write(_save(np.asarray(classes, dtype=np.int64)))
    sys.stdout.flush()


def _table(model: Model, matrix: FloatArray) -> Any:
    """Convert the matrix if categories are stored by value; otherwise return it unchanged."""
    if any(model.forest.feature_categories):
        return as_table(matrix, schema_of(model.forest))
    return matrix


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
