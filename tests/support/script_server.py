"""Scripts in processes of their own, forked from one that has imported the libraries already.

In comes a script and a folder; out goes what it printed. Importing xgboost, lightgbm, scikit-learn
and the solvers costs two to three seconds in every fresh interpreter, so it happens once.
pine_boost is not among them: every process imports it again, with short timings.
"""

import importlib
import os
import runpy
import signal
import subprocess
import sys
import warnings
from pathlib import Path

LIBRARIES = (
    "pandas",
    "scipy.optimize",
    "xgboost",
    "lightgbm",
    "sklearn.ensemble",
    "sklearn.datasets",
    "sklearn.model_selection",
    "treelite",
    "matplotlib.pyplot",
    "ortools.sat.python.cp_model",
)
LIMIT = 300
SECONDS_OF_A_TIMING = 0.02


class ScriptServer:
    """A Python with every warning an error that forks itself for every script."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLCONFIGDIR": str(folder)}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.support.script_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )

    def run(self, script: Path, folder: Path) -> str:
        """Run the script in the folder; what it prints, or a failed assertion with its errors."""
        assert self._process.stdin is not None
        print(script, folder, sep="\t", file=self._process.stdin, flush=True)
        code = self._process.stdout.readline().strip()
        printed, errors = ((folder / name).read_text(encoding="utf-8") for name in ("stdout.txt", "stderr.txt"))
        assert code == "0", f"exit code {code}\n{errors}"
        return printed

    def close(self) -> None:
        """End the process, which ends by itself when nothing can be asked any more."""
        self._process.communicate()


def _serve() -> None:
    for library in LIBRARIES:
        importlib.import_module(library)
    for line in sys.stdin:
        script, folder = line.rstrip("\n").split("\t")
        child = _fork()
        if child == 0:
            _become(script, folder)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of threads, which no library starts by being imported with one thread
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _become(script: str, folder: str) -> None:
    """Run a script as ``python SCRIPT`` in its folder would, and end with its exit code."""
    os.chdir(folder)
    for number, name in ((1, "stdout.txt"), (2, "stderr.txt")):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    with open(os.devnull, encoding="utf-8") as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.argv[:] = [script]
    sys.path[0] = str(Path(script).parent)
    signal.alarm(LIMIT)
    importlib.import_module("pine_boost.native.figures")._OF_SIZE = SECONDS_OF_A_TIMING  # type: ignore[attr-defined]
    runpy.run_path(script, run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    _serve()
