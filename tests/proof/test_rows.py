"""Sums of leaves as rows of CP-SAT: exact however fine they are, and rounded outward otherwise."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from ortools.sat.python import cp_model

from pine_boost.model import exact
from pine_boost.model.forest import IntArray
from pine_boost.proof.cpsat.encoding import Encoding, add_at_least, add_at_most, encode_region
from tests.support.bruteforce import Small, small_problem
from tests.support.forests import MANNERS


def _encoding(small: Small) -> Encoding:
    problem = small.problem
    return encode_region(problem.space, problem.region, problem.trees, problem.masks)


def _sums(small: Small, values: IntArray) -> IntArray:
    states = small.everything[small.inside]
    return np.asarray(values[small.problem.trees.leaves(states)].sum(axis=1))


def _is_feasible(encoding: Encoding, values: IntArray, bound: int, *, most: bool, exactly: bool) -> bool:
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
def test_one_unit_decides_whatever_the_size(bits: int) -> None:
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


def test_boxes_load_no_solver() -> None:
    """Who proves by boxes alone shares no code with CP-SAT."""
    code = (
        "import sys, pine_boost.proof.boxes.branch_and_bound; "
        "print(sorted(name for name in sys.modules if name.split('.')[0] == 'ortools'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_band_is_the_librarys_own_rounding() -> None:
    """float32 leaves are exact integers; float64 sums are told apart to a few 1e-12."""
    for manner in MANNERS:
        problem = small_problem(3, manner, leaf_grid=None, score=None).problem
        assert problem.native_band > 0
        if problem.forest.arithmetic is np.float32:
            assert problem.solver_band == 0
            assert problem.undecided == problem.native_band
        else:
            assert problem.solver_band < 1e-12
