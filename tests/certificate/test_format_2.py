"""A certificate that an earlier version wrote: its wider band is kept, and it is proved anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from pine_boost import verify
from pine_boost.certificate.certificate import Certificate
from pine_boost.parsers import read_model
from pine_boost.proof.problem import build_problem, restated
from pine_boost.region.region import Region

FOLDER = Path(__file__).parent / "format_2"


def test_a_certificate_of_format_2_is_proved_anew_with_its_own_band() -> None:
    pytest.importorskip("lightgbm")
    certificate = Certificate.load(FOLDER / "certificate.json")
    assert certificate.version == 2
    region = Region.load(FOLDER / "region.json")
    forest = read_model(FOLDER / "original.txt").forest
    narrow = build_problem(forest, region.space, region.tables)
    assert 0 < narrow.undecided < certificate.undecided / 1000
    wide = restated(narrow, region.tables, 0.0, certificate.undecided)
    assert (wide.least >= narrow.least).all()
    assert wide.undecided == pytest.approx(certificate.undecided, rel=1e-12)
    found = verify(FOLDER / "original.txt", FOLDER / "model.txt", FOLDER / "region.json", FOLDER / "certificate.json")
    assert found.agrees is True
    assert found.proved_twice
    assert any("earlier format" in remark for remark in found.remarks)
