"""What holds for every test, and what several folders share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.script_server import SECONDS_OF_A_TIMING

_HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files of this folder come first: they hold the longest tests and the dearest fixtures.

    Workers steal from the end. There a page of the documentation would leave the other worker
    without work for as long as it takes, and a module whose wheel or survey both need has it twice.
    """
    items.sort(key=lambda item: item.path.parent != _HERE)


def pytest_collection_finish() -> None:
    """Leave the libraries out of garbage collection, which otherwise walks them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def short_timings() -> Iterator[None]:
    """Summaries and reports repeat each timed call for 20 ms instead of 300; no test asserts how fast anything is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pine_boost.native.figures._OF_SIZE", SECONDS_OF_A_TIMING)
        yield


@pytest.fixture(scope="module")
def few_synthetic_rows() -> Iterator[None]:
    """Compressions fit to thousands of rows instead of tens of thousands.

    How small a model becomes depends on them; what is written, counted and promised does not.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pine_boost.compression.path_rows._MOST_POINTS", 6_000)
        patch.setattr("pine_boost.compression.path_rows._LOOKED_AT", 4_000)
        yield
