"""A child process that loads accepted model files natively, one after another, and answers with margins.

A library that refuses the file, crashes, hangs or eats memory is a finding; only the child ends.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.native_files import load_native

TIME_LIMIT = 60.0
MEMORY_LIMIT = 4 * 2**30


class Worker:
    """Asks one child for as long as it lives; counts what was loaded."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.loaded = 0

    def margins(self, contents: bytes, library: str, rows: Any) -> Any:
        """Native margins of a document; AssertionError if it is refused or the child did not survive it."""
        child = self._alive()
        assert child.stdin is not None
        try:
            _send(child.stdin, library.encode())
            _send(child.stdin, contents)
            _send(child.stdin, _save(rows))
            answer = self._receive(child)
        except (EOFError, BrokenPipeError) as error:
            status = self._end()
            raise AssertionError(f"the native library ended the child: status {status}") from error
        self.loaded += 1
        if answer[:1] == b"!":
            raise AssertionError(f"the native library refuses the file: {answer[1:].decode(errors='replace')}")
        return np.load(io.BytesIO(answer), allow_pickle=False)

    def _alive(self) -> subprocess.Popen[bytes]:
        if self.child is None:
            command = [sys.executable, "-m", "tests.fuzz.native_worker"]
            root = Path(__file__).resolve().parents[2]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=root,
                env=environment,
            )
            atexit.register(self._end)
        return self.child

    def _receive(self, child: subprocess.Popen[bytes]) -> bytes:
        assert child.stdout is not None
        end = time.monotonic() + TIME_LIMIT
        descriptor, data, length = child.stdout.fileno(), b"", 8
        header = True
        while True:
            if len(data) >= length:
                if not header:
                    return data
                header, length, data = False, int.from_bytes(data, "big"), b""
                continue
            if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                self._end()
                raise AssertionError(f"the native library took more than {TIME_LIMIT:g} s")
            part = os.read(descriptor, length - len(data))
            if not part:
                raise EOFError
            data += part

    def _end(self) -> int | None:
        child, self.child = self.child, None
        if child is None:
            return None
        if child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()  # a child that is well ends then
        try:
            status = child.wait(timeout=1)
        except subprocess.TimeoutExpired:
            child.kill()
            status = child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        return status


WORKER = Worker()


def serve() -> None:
    """What the child does until its input ends."""
    from pine_boost.native.child_process import limit_process

    limit_process(os.getpid(), MEMORY_LIMIT)
    source = sys.stdin.buffer
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    while library := _receive_part(source).decode():
        contents, rows = _receive_part(source), np.load(io.BytesIO(_receive_part(source)))
        try:
            answer = _save(_margins(library, contents, rows))
        except Exception as error:  # each library has its own errors
            answer = b"!" + f"{type(error).__name__}: {error}"[:500].encode()
        _send(target, answer)


def _receive_part(source: Any) -> bytes:
    return bytes(source.read(int.from_bytes(source.read(8), "big")))


def _margins(library: str, contents: bytes, rows: Any) -> Any:
    """Rows for CatBoost are texts: numbers, and the names of categories."""
    native = load_native(library, contents)
    if library == "lightgbm":
        return np.asarray(native.predict(rows, raw_score=True, num_threads=1))
    if library == "catboost":
        table = rows.astype(object)
        for column in set(range(table.shape[1])) - set(native.get_cat_feature_indices()):
            table[:, column] = rows[:, column].astype(np.float64)
        return np.asarray(native.predict(table, prediction_type="RawFormulaVal", thread_count=1))
    import xgboost

    names = {"feature_names": native.feature_names, "feature_types": native.feature_types}
    data = xgboost.DMatrix(rows, **names, enable_categorical=True, nthread=1)
    return np.asarray(native.predict(data, output_margin=True))


def _save(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def _send(stream: Any, contents: bytes) -> None:
    stream.write(len(contents).to_bytes(8, "big") + contents)
    stream.flush()


if __name__ == "__main__":
    serve()
