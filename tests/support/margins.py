"""Searches without the margin that serving can see, for tests of something else."""

from __future__ import annotations

import pytest


def look_for_no_serving_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proving it takes most of the time of a small search; test_serving and test_verify ask it."""
    monkeypatch.setattr("pine_boost.build_result.find_margin", lambda *_: None)
