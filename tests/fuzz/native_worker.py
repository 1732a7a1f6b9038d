"""A child process that loads accepted model files natively, one after another, and answers with margins.

A library that refuses the file, crashes, hangs or eats memory is a finding; only the child ends.
"""

import os
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from pine_boost.native.child_process import limit_process
from tests.support.native_files import load_native

TIME_LIMIT = 60.0
MEMORY_LIMIT = 4 * 2**30


class Worker:
    """Asks one child for as long as it lives; counts what was loaded."""

    def __init__(self) -> None:
        self.child: Any = None
        self.loaded = 0

    def margins(self, contents: bytes, library: str, rows: Any) -> Any:
        """Native margins of a document; AssertionError if it is refused or the child did not survive it."""
        if self.child is None:
            self.asked, answers = get_context("spawn").Pipe()
            self.child = get_context("spawn").Process(target=serve, args=(answers,), daemon=True)
            self.child.start()
            answers.close()  # else the end of the child is not the end of the pipe
        try:
            self.asked.send((library, contents, rows))
            if not self.asked.poll(TIME_LIMIT):
                self._end()
                raise AssertionError(f"the native library took more than {TIME_LIMIT:g} s")
            answer = self.asked.recv()
        except (EOFError, ConnectionError) as error:
            raise AssertionError(f"the native library ended the child: status {self._end()}") from error
        self.loaded += 1
        assert not isinstance(answer, str), f"the native library refuses the file: {answer}"
        return answer

    def _end(self) -> int | None:
        child, self.child = self.child, None
        child.join(1)
        child.kill()
        child.join()
        self.asked.close()
        return child.exitcode


WORKER = Worker()


def serve(asked: Connection) -> None:
    """What the child does until it is ended."""
    limit_process(os.getpid(), MEMORY_LIMIT)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever a library prints is no answer
    while True:
        library, contents, rows = asked.recv()
        try:
            asked.send(_margins(library, contents, rows))
        except Exception as error:  # each library has its own errors
            asked.send(f"{type(error).__name__}: {error}"[:500])


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
