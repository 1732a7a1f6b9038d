"""The CP-SAT encoding: rows over leaves are exact or rounded outward, membership equals numpy's on every state."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from ortools.sat.python import cp_model

from pine_boost.model import exact
from pine_boost.model.states import build_space
from pine_boost.proof.cpsat.encoding import add_at_least, add_at_most, encode_region
from pine_boost.region.domain import Condition, Domain, compile_domain
from pine_boost.tables.schema import schema_of
from tests.support.bruteforce import all_states, small_problem
from tests.support.encoding import solver_members
from tests.support.forests import MANNER_NAMES, MANNERS, random_forest, random_rows
from tests.support.scores import fit_small


def _encoding(small):
    problem = small.problem
    return encode_region(problem.space, problem.region, problem.trees)


def _sums(small, values):
    states = small.everything[small.inside]
    return np.asarray(values[small.problem.trees.leaves(states)].sum(axis=1))


def _is_feasible(encoding, values, bound, *, most, exactly):
    model = encoding.model.clone()
    add = add_at_most if most else add_at_least
    add(model, encoding, values, bound, exactly=exactly)
    for constraint in model.proto.constraints:
        if constraint.has_linear():
            assert len(constraint.enforcement_literal) == 0
            assert sum(abs(c) for c in constraint.linear.coeffs) < exact.ROW_LIMIT
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    return bool(status == cp_model.OPTIMAL)


@pytest.mark.parametrize("bits", [20, 33, 45, 57])
def test_one_unit_decides_whatever_the_size(bits):
    """The largest and smallest sum of the region are reached, one unit beyond them is not."""
    n_rounded = 0
    for seed in range(4):
        small = small_problem(seed, MANNERS[seed], leaf_grid=None, n_trees=5)
        encoding = _encoding(small)
        rng = np.random.default_rng(seed)
        values = rng.integers(-(2**bits), 2**bits, small.problem.trees.n_leaves)
        sums = _sums(small, values)
        highest, lowest = int(sums.max()), int(sums.min())
        assert _is_feasible(encoding, values, highest, most=False, exactly=True)
        assert not _is_feasible(encoding, values, highest + 1, most=False, exactly=True)
        assert _is_feasible(encoding, values, lowest, most=True, exactly=True)
        assert not _is_feasible(encoding, values, lowest - 1, most=True, exactly=True)
        # rounded outward: never less than what the sum admits
        assert _is_feasible(encoding, values, highest, most=False, exactly=False)
        assert _is_feasible(encoding, values, lowest, most=True, exactly=False)
        n_rounded += _is_feasible(encoding, values, highest + 1, most=False, exactly=False)
    assert n_rounded == (0 if bits == 20 else 4)


def test_boxes_load_no_solver():
    """Who proves by boxes alone shares no code with CP-SAT."""
    code = (
        "import sys, pine_boost.proof.boxes.branch_and_bound; "
        "print(sorted(name for name in sys.modules if name.split('.')[0] == 'ortools'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_band_is_the_librarys_own_rounding():
    """float32 leaves are exact integers; float64 sums are told apart to a few 1e-12."""
    for manner in MANNERS:
        problem = small_problem(3, manner, leaf_grid=None, score=None).problem
        assert problem.native_band > 0
        if problem.forest.arithmetic is np.float32:
            assert problem.solver_band == 0
            assert problem.undecided == problem.native_band
        else:
            assert problem.solver_band < 1e-12


@pytest.mark.parametrize("kind", ["chow-liu", "leaf-support", "isolation-forest"])
@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize("with_domain", [False, True])
def test_solver_and_numpy_agree_on_every_state(manner, kind, with_domain):
    rng = np.random.default_rng(len(kind))
    forest = random_forest(rng, 3, 2, 3, manner=manner, categorical=(1,), n_categories=3)
    X = random_rows(rng, forest, 200)
    score, space = fit_small(kind, X, forest, seed=2)
    domain = None
    if with_domain:
        domain = Domain(
            lower={0: -1.0}, never_missing=[2], forbidden=[(Condition(0, lower=0.0), Condition(2, upper=0.5))]
        )
    tables = compile_domain(domain, space, schema_of(forest))
    everything = all_states(space)
    assert len(everything) < 20_000
    scores = np.unique(score.score(everything[tables.permits(everything)]))
    taus = {int(scores[0]) - 1, int(scores[0]), int(scores[len(scores) // 2])}
    for tau in (*sorted(taus), None):
        region = replace(tables, score=score if tau is not None else None, tau=tau)
        inside = {tuple(row) for row in everything[region.contains(everything)].tolist()}
        assert solver_members(forest, space, region) == inside
        assert (len(inside) == 0) == (tau is not None and tau < scores[0])


@pytest.mark.parametrize("kind", ["one_hot", "ordinal"])
def test_groups_in_the_solver(kind):
    rng = np.random.default_rng(3)
    forest = random_forest(rng, 6, 2, 3, n_thresholds=3)
    space = build_space(forest)
    tables = compile_domain(Domain(**{kind: [(0, 1, 2)]}), space, schema_of(forest))
    everything = all_states(space)
    inside = {tuple(row) for row in everything[tables.contains(everything)].tolist()}
    assert 0 < len(inside) < len(everything)
    assert solver_members(forest, space, tables) == inside
