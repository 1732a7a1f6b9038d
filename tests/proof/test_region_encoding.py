"""Membership in numpy equals membership in the CP-SAT encoding, state by state."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from pine_boost.model.forest import Forest
from pine_boost.model.routing import route
from pine_boost.model.states import StateSpace, build_space
from pine_boost.region.domain import Condition, Domain, compile_domain
from pine_boost.region.score_tables import ScoreTables
from pine_boost.tables.schema import schema_of
from tests.support.encoding import solver_members
from tests.support.forests import MANNERS, Manner, random_forest, random_rows
from tests.support.scores import fit_chow_liu, fit_isolation_forest, fit_leaf_support

pytest.importorskip("sklearn")
MANNER_NAMES = ["xgboost", "lightgbm", "sklearn", "histogram"]


def _score(kind: str, forest: Forest, X: np.ndarray) -> tuple[ScoreTables, StateSpace]:
    space = build_space(forest)
    if kind == "isolation-forest":
        return fit_isolation_forest(X, forest, n_trees=3, max_samples=6, random_state=2)
    if kind == "leaf-support":
        return fit_leaf_support(space.states(X), route(forest, space), space), space
    return fit_chow_liu(space.states(X), space, X, n_bins=3), space


@pytest.mark.parametrize("kind", ["chow-liu", "leaf-support", "isolation-forest"])
@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize("with_domain", [False, True])
def test_solver_and_numpy_agree_on_every_state(manner: Manner, kind: str, with_domain: bool) -> None:
    rng = np.random.default_rng(len(kind))
    forest = random_forest(rng, 3, 2, 3, manner=manner, categorical=(1,), n_categories=3)
    X = random_rows(rng, forest, 200)
    score, space = _score(kind, forest, X)
    domain = None
    if with_domain:
        domain = Domain(
            lower={0: -1.0}, never_missing=[2], forbidden=[(Condition(0, lower=0.0), Condition(2, upper=0.5))]
        )
    tables = compile_domain(domain, space, schema_of(forest))
    everything = np.array(list(product(*(range(n) for n in space.n_states))), dtype=np.int32)
    assert len(everything) < 20_000
    scores = np.unique(score.score(everything[tables.permits(everything)]))
    taus = {int(scores[0]) - 1, int(scores[0]), int(scores[len(scores) // 2])}
    for tau in (*sorted(taus), None):
        region = replace(tables, score=score if tau is not None else None, tau=tau)
        inside = {tuple(row) for row in everything[region.contains(everything)].tolist()}
        assert solver_members(forest, space, region) == inside
        assert (len(inside) == 0) == (tau is not None and tau < scores[0])


@pytest.mark.parametrize("kind", ["one_hot", "ordinal"])
def test_groups_in_the_solver(kind: str) -> None:
    rng = np.random.default_rng(3)
    forest = random_forest(rng, 6, 2, 3, n_thresholds=3)
    space = build_space(forest)
    tables = compile_domain(Domain(**{kind: [(0, 1, 2)]}), space, schema_of(forest))
    everything = np.array(list(product(*(range(n) for n in space.n_states))), dtype=np.int32)
    inside = {tuple(row) for row in everything[tables.contains(everything)].tolist()}
    assert 0 < len(inside) < len(everything)
    assert solver_members(forest, space, tables) == inside
