"""Load files of unknown origin natively in a child process first.

A library that crashes, hangs or runs out of memory ends only the child; the caller gets an error.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import Any

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.native.predict import original_bytes, predict_classes
from pine_boost.parsers import first_load, read_model
from pine_boost.parsers.first_load import REFUSED
from pine_boost.parsers.traits import traits_of
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of

TIME_LIMIT = 120.0
MEMORY_LIMIT = 4 * 2**30
_SCRIPT = first_load.__file__

_PASSED: set[tuple[Any, ...]] = set()  # library, number of features, SHA-256 of the contents, and the limits


def read_and_try(model: Any, *, threshold: Any = None) -> Model:
    """Read a model that will be loaded natively in this process; load a file in a child process first."""
    parsed = read_model(model, threshold=threshold)
    try_in_child(parsed)
    return parsed


def try_in_child(*models: Model, time_limit: float = TIME_LIMIT, memory_limit: int = MEMORY_LIMIT) -> None:
    """Load files and predict one row of each in a child process before this process does.

    The child is a script that calls the C library and imports no package, so it takes a tenth of a
    second. Does nothing for a live object, for contents that passed before with these limits, or if the library is not
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
        if model.native is not None:
            continue
        library, n_features, contents = model.forest.library, model.forest.n_features, original_bytes(model)
        file = (library, n_features, hashlib.sha256(contents).hexdigest(), time_limit, memory_limit)
        if file in _PASSED:
            continue
        try:
            path = traits_of(library).shared_library()
        except ImportError:
            continue
        # isolated and without site: none of the user's setup runs, and it starts quickly
        command = [sys.executable, "-I", "-S", _SCRIPT, library, path, str(n_features)]
        _run([*command, *filter(None, sys.path)], contents, library, time_limit, memory_limit)
        _PASSED.add(file)


def try_and_predict(model: Model, matrix: FloatArray) -> IntArray:
    """Predict the class index of every row of our matrix natively, a file only after `try_in_child`."""
    try_in_child(model)
    by_value = any(model.forest.feature_categories)
    return predict_classes(model, as_table(matrix, schema_of(model.forest)) if by_value else matrix)


def _run(command: list[str], contents: bytes, library: str, time_limit: float, memory_limit: int) -> None:
    """Run a child on the contents of a file; raise if it fails."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as child:
        try:
            limit_process(child.pid, memory_limit)
            _, errors = child.communicate(contents, timeout=time_limit)
        except subprocess.TimeoutExpired as error:
            raise UnsupportedModelError(
                f"{library} did not finish with this file in {time_limit:g} s and was stopped; "
                "the file is damaged or far too large."
            ) from error
        finally:  # Ctrl-C as well
            child.kill()
            child.wait()
    text, status = errors.decode(errors="replace").strip(), child.returncode
    if status == REFUSED:
        reason = next((line for line in text.splitlines() if line.strip()), "no reason given")
        raise UnsupportedModelError(
            f"{library} itself refuses this file: {reason.strip()[:300]}. Save the model again."
        )
    if status != 0:
        last = text.rpartition("\n")[2][:300]
        how = f"was ended by signal {-status}" if status < 0 else f"failed ({last or status})"
        raise UnsupportedModelError(
            f"A child process that loaded this file with {library} {how}. The file is damaged, "
            f"hostile or too large for {memory_limit / 2**30:.3g} GiB; it was not loaded here."
        )


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
