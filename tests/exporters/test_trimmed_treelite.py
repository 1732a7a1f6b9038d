"""Trimmed models through Treelite: gtil gives the integers / 2**grid bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from pine_boost.exporters import export
from pine_boost.exporters.treelite import to_treelite
from pine_boost.parsers import read_model
from tests.support.grids import edge_rows, integer_margins
from tests.support.trimmed import cut_forest, n_remaining

pytest.importorskip("treelite")
pytest.importorskip("sklearn")
pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")

from tests.support.gtil import gtil_margins
from tests.support.native_models import MODELS, built

# zeros that count as missing have no Treelite form, with or without trimming
CONVERTIBLE = [name for name in MODELS if name != "lgb zero as missing" and not name.startswith("cat ")]


@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize("name", CONVERTIBLE)
def test_gtil_margins_are_exact(name: str, share: float) -> None:
    native, X = built(name)
    model = read_model(native)
    forest = model.forest
    weights = np.random.default_rng(2).choice([0.0, 1.0, 0.5], forest.n_trees)
    weights[0] = 1.0
    pruned = cut_forest(forest, weights, share=share, seed=3)
    again = read_model(export(model, pruned))
    rows = np.vstack([X, edge_rows(forest, X, limit=60)])
    for column, known in enumerate(again.forest.feature_categories):
        if known is not None:  # whole known numbers are fed as they are
            rows[:, column] = np.clip(np.floor(rows[:, column]), 0, len(known) - 1)
    converted = to_treelite(again)
    expected = np.ldexp(integer_margins(pruned, rows).astype(np.float64), -pruned.grid)
    family = getattr(model.document, "family", "")
    if family == "average":
        expected = expected / len(pruned.kept)
    np.testing.assert_array_equal(gtil_margins(converted, forest, rows), expected)
    # intercepts become trees, too, because Treelite adds base scores in another order
    assert converted.num_tree == again.forest.n_trees + np.count_nonzero(again.forest.intercept)
    n_nodes = sum(len(converted.get_tree_accessor(i).get_field("cleft")) for i in range(converted.num_tree))
    n_constants = converted.num_tree - len(pruned.kept)
    assert n_nodes == n_remaining(pruned) + n_constants
