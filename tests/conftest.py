"""What holds for every test: nothing that was imported is looked through by the collector again."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Leave the libraries out of garbage collection, which otherwise walks them again and again."""
    gc.collect()
    gc.freeze()
