"""Every fuzz target for a few examples with a fixed seed; by hand they run by the clock."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.fuzz.driver import run

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")
pytest.importorskip("sklearn")
pytest.importorskip("pandas")

TARGETS = (
    "xgboost_json", "xgboost_ubj", "lightgbm_text", "sklearn_trees", "region_json",
    "certificate_json",
)  # fmt: skip


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_documents_are_refused_or_read_right(name):
    target = import_module(f"tests.fuzz.{name}").TARGET
    tally = run(target, 150, first_seed=20_261_116)
    # both must happen, or the target looks at nothing
    assert tally.refused > 30
    assert tally.accepted > 2
    assert len(tally.messages) > 5
