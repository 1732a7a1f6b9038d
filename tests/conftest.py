"""What holds for every test, and what several folders share."""

import gc
import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.script_server import SECONDS_OF_A_TIMING

_HERE = Path(__file__).resolve().parent
_LIBRARIES = (
    "catboost cloudpickle dask distributed duckdb joblib lightgbm matplotlib mlflow nbclient nbformat onnx onnxruntime "
    "pandas polars pyarrow resource sklearn threadpoolctl tl2cgen treelite xgboost"
)
_MISSING = {library for library in _LIBRARIES.split() if find_spec(library) is None}


def needs(error):
    """The library that is not installed here and whose import failed, if that is what happened."""
    while error is not None:
        name = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ImportError) and name in _MISSING:
            return name
        error = error.__cause__
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """A module that imports a library which is not installed is skipped as a whole."""
    report = yield
    found = report.call.excinfo
    if found and (library := needs(found.value)):
        report.outcome, report.longrepr = "skipped", (str(collector.path), None, f"Skipped: needs {library}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """So is a test which alone needs it."""
    try:
        return (yield)
    except ImportError as error:
        if library := needs(error):
            pytest.skip(f"needs {library}")
        raise


pytest_runtest_setup = pytest_runtest_call  # and a fixture that does


def pytest_collection_modifyitems(items):
    """The files of this folder come first: they hold the longest tests and the dearest fixtures.

    Workers steal from the end. There a page of the documentation would leave the other worker
    without work for as long as it takes, and a module whose wheel or survey both need has it twice.
    """
    items.sort(key=lambda item: item.path.parent != _HERE)
    if os.name == "nt":
        items[:] = [item for item in items if item.get_closest_marker("posix") is None]


def pytest_collection_finish():
    """Leave the libraries out of garbage collection, which otherwise walks them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def short_timings():
    """Summaries and reports repeat each timed call for 20 ms instead of 300; no test asserts how fast anything is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pine_boost.native.figures._OF_SIZE", SECONDS_OF_A_TIMING)
        yield


@pytest.fixture(scope="module")
def few_synthetic_rows():
    """Compressions fit to thousands of rows instead of tens of thousands.

    How small a model becomes depends on them; what is written, counted and promised does not.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pine_boost.compression.path_rows._MOST_POINTS", 6_000)
        patch.setattr("pine_boost.compression.path_rows._LOOKED_AT", 4_000)
        yield


@pytest.fixture
def python_hears_ctrl_c():
    """A shell that starts the suite in the background leaves SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
