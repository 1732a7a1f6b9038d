"""Damaged XGBoost files: a PineBoostError each time, no crash, no hang, no silent acceptance."""

from __future__ import annotations

import numpy as np
import pytest

from pine_boost.errors import PineBoostError
from pine_boost.exporters import export
from pine_boost.parsers import read_model
from pine_boost.parsers.xgboost.read import read_xgboost
from tests.support.grids import grid_forest

pytest.importorskip("xgboost")
pytest.importorskip("pandas")

from tests.support.healthy_xgboost import healthy_files
from tests.support.malformed_xgboost import malformed_files

CASES = malformed_files()


def test_the_healthy_files_are_accepted():
    for contents in healthy_files().values():
        assert read_model(contents).forest.n_trees >= 3


def test_the_corpus_is_large_enough():
    assert len(CASES) >= 120


@pytest.mark.parametrize(("name", "contents"), CASES, ids=[name for name, _ in CASES])
def test_refused(name, contents):
    with pytest.raises(PineBoostError) as error:
        read_xgboost(contents)
    assert len(str(error.value)) > 20
    with pytest.raises(PineBoostError):
        read_model(contents)


@pytest.mark.parametrize("name", ["binary.json", "binary.ubj", "multi.json", "pandas.json"])
def test_any_flipped_bit_is_refused_or_gives_a_model_that_can_be_written(name):
    contents = healthy_files()[name]
    random = np.random.default_rng(11)
    refused = accepted = 0
    for position in random.integers(len(contents), size=300):
        flipped = bytearray(contents)
        flipped[position] ^= 1 << random.integers(8)
        try:
            model = read_model(bytes(flipped))
        except PineBoostError:
            refused += 1
            continue
        accepted += 1
        try:
            pruned = grid_forest(model.forest)
        except AssertionError:  # a leaf flipped to 1e30 has no grid, which is no parser's fault
            continue
        assert read_model(export(model, pruned)).forest.n_trees >= len(pruned.kept)
    assert refused > 30
    assert accepted > 10


def test_any_cut_is_refused():
    for name in ("binary.json", "binary.ubj"):
        contents = healthy_files()[name]
        for cut in range(0, len(contents), 23):
            with pytest.raises(PineBoostError):
                read_xgboost(contents[:cut])
