"""What holds for every test, and what several folders share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


def pytest_collection_finish() -> None:
    """Leave the libraries out of garbage collection, which otherwise walks them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def few_synthetic_rows() -> Iterator[None]:
    """Compressions fit to thousands of rows instead of tens of thousands.

    How small a model becomes depends on them; what is written, counted and promised does not.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pine_boost.compression.rows._MOST_POINTS", 6_000)
        patch.setattr("pine_boost.compression.rows._LOOKED_AT", 4_000)
        yield
