"""The pruned file on the original's trees: the same integers, and nothing that does not belong."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pine_boost.certificate.tree_matching import match_trees, require_decisive
from pine_boost.errors import CertificateMismatch
from pine_boost.exporters import export
from pine_boost.model.forest import spread
from pine_boost.model.reference import find_leaves
from pine_boost.parsers import read_model
from pine_boost.proof.problem import build_problem
from pine_boost.result import PruneResult
from tests.support.grids import grid_forest, integer_margins
from tests.support.verifying import MAKERS, fitted, pruned_model


@pytest.fixture(scope="module")
def booster() -> tuple[Any, PruneResult]:
    model, result = pruned_model("xgboost")
    assert result.certificate.grid >= 0  # something was removed
    return model, result


@pytest.mark.parametrize("kind", MAKERS)
def test_the_file_gives_back_the_integers(kind: str) -> None:
    """Random weights, exported, read again: the same margins over the original's trees."""
    model, X = fitted(kind)
    parsed = read_model(model)
    forest = parsed.forest
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 5, forest.n_trees) / 4.0
    weights[rng.permutation(forest.n_trees)[: forest.n_trees // 3]] = 0.0
    pruned = grid_forest(forest, weights, grid=16)
    smaller = read_model(export(parsed, pruned)).forest
    matched = match_trees(forest, smaller, pruned.kept.tolist(), 16)
    rows = X + 0.0
    if forest.accepts_missing:
        rows[rng.random(X.shape) < 0.1] = np.nan
    assert np.array_equal(integer_margins(matched.pruned, rows), integer_margins(pruned, rows))
    space_free = find_leaves(smaller, rows)
    native = spread(smaller, smaller.value)[space_free].sum(axis=1) + smaller.intercept
    error = np.abs(np.ldexp(native, 16) - integer_margins(matched.pruned, rows)).max()
    assert Fraction(float(error)) <= matched.deviation * 2**16 + Fraction(1, 2**30)
    if kind.startswith(("xgboost", "dart", "gradient", "histogram", "forest")):
        assert matched.deviation == 0


@pytest.mark.parametrize("grid", [-7, 21, 60])
def test_an_impossible_grid_is_refused(booster: tuple[Any, PruneResult], grid: int) -> None:
    _, result = booster
    kept = list(result.certificate.kept)
    with pytest.raises(CertificateMismatch, match="grid"):
        match_trees(result.original.forest, result.pruned.forest, kept, grid)


@pytest.mark.parametrize("kept", [[3, 2], [0, 0], [-1], [10**6]])
def test_impossible_trees_are_refused(booster: tuple[Any, PruneResult], kept: list[int]) -> None:
    _, result = booster
    with pytest.raises(CertificateMismatch, match="ascending"):
        match_trees(result.original.forest, result.pruned.forest, kept, 16)


def test_another_kind_of_model_is_refused(booster: tuple[Any, PruneResult]) -> None:
    _, result = booster
    other = read_model(fitted("lightgbm")[0]).forest
    with pytest.raises(CertificateMismatch, match="differ in library"):
        match_trees(result.original.forest, other, list(result.certificate.kept), 16)


def test_leaves_off_the_grid_are_not_decisive(booster: tuple[Any, PruneResult]) -> None:
    """Thirds of a coarse unit: the integers say nothing about the native margin any more."""
    _, result = booster
    forest = result.original.forest
    smaller = replace(forest, value=forest.value / 3)
    problem = build_problem(forest, result.region.space, result.region.tables)
    matched = match_trees(forest, smaller, range(forest.n_trees), 4)
    with pytest.raises(CertificateMismatch, match="smaller than what the native decision"):
        require_decisive(problem, smaller, matched)
