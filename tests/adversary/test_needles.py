"""Planted counterexamples of every kind, in trees and leaf values: no method may prove what one input refutes."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import threadpoolctl

from pine_boost.exporters import export
from pine_boost.model.rules import SplitKind
from pine_boost.model.shape import Splits
from pine_boost.native.predict import original_bytes
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.problem import Answer
from tests.adversary.natives import native_classes
from tests.adversary.planting import BAND, CORNER, KINDS, PATHS, TIE, plant, possible
from tests.adversary.proving import ADVERSARIES, EVERY, proofs
from tests.support.naive import broken_rows
from tests.support.native_files import load_native

COMBINATIONS = [
    pytest.param(kind, manner, id=f"{kind}, {name}")
    for kind in KINDS
    for name, manner in ADVERSARIES.items()
    if possible(kind, manner)
]
FAST = {kind: 110 for kind in PATHS} | {CORNER: 55, BAND: 55, TIE: 55}  # 3025 triples in all
SLOW_FACTOR = 4


@pytest.fixture(autouse=True)
def one_thread():
    """HistGradientBoosting predicts with a thread per core, which takes 100 ms on a busy one."""
    with threadpoolctl.threadpool_limits(1):
        yield


def _refute(triple, prover, methods):
    """Every method refutes each broken question; returns the states that they name."""
    case, pruned = triple.case, triple.pruned
    broken = broken_rows(case, pruned)
    named = []
    for proof in proofs(case, pruned, prover, broken.any(axis=0), methods):
        assert proof.answer is Answer.FOUND, f"{proof.method} certified a broken model"
        assert proof.states is not None
        row = int(np.flatnonzero((case.rows == proof.states).all(axis=1))[0])
        assert broken[row, proof.question.index]
        named.append(proof.states)
    return np.array(named)


def _require_proved(case, pruned, methods):
    """The nearly equal model that nothing refutes is proved by every method."""
    assert not broken_rows(case, pruned).any()
    every = np.ones(len(case.problem.questions), dtype=bool)
    for proof in proofs(case, pruned, Prover(case.problem), every, methods):
        assert proof.answer is Answer.PROVED


def _attack(kind, manner, first_seed, n_triples, thorough):
    """Numbers of triples refuted, natively too, and of twins proved."""
    n_refuted = n_twins = 0
    for seed in range(first_seed, first_seed + n_triples):
        prover = None
        for triple in plant(kind, manner, seed):
            if n_refuted == n_triples:
                return n_refuted, n_twins
            # fast: one method for each triple in turn, so that each sees more than 600
            methods = EVERY if thorough else EVERY[n_refuted % len(EVERY) :][:1]
            if prover is None or prover.problem is not triple.case.problem:
                prover = Prover(triple.case.problem)
            _require_native_difference(triple, _refute(triple, prover, methods))
            n_refuted += 1
            if triple.twin is not None:
                _require_proved(*triple.twin, methods)
                n_twins += 1
    return n_refuted, n_twins


def _require_native_difference(triple, named):
    """The libraries themselves give the two models different classes at the inputs named."""
    rows = triple.case.problem.space.representative(np.unique(named, axis=0))
    before = _loaded(triple.model)
    after = export(triple.model, triple.pruned)
    after = load_native(triple.model.forest.library, after) if isinstance(after, bytes) else after
    n_classes = len(triple.model.forest.classes)
    classes = [native_classes(model, rows, n_classes) for model in (before, after)]
    assert (classes[0] != classes[1]).all(), "the libraries do not see this counterexample"


@lru_cache(maxsize=1)  # a model has several triples, one after another
def _loaded(model):
    return model.native or load_native(model.forest.library, original_bytes(model))


@pytest.mark.parametrize(("kind", "manner"), COMBINATIONS)
def test_no_planted_counterexample_is_certified(kind, manner):
    n_refuted, n_twins = _attack(kind, manner, 0, FAST[kind], thorough=False)
    assert n_refuted == FAST[kind]
    assert n_twins >= n_refuted // 10


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "manner"), COMBINATIONS)
def test_ten_thousand_planted_counterexamples(kind, manner):
    wanted = SLOW_FACTOR * FAST[kind]
    assert _attack(kind, manner, 10**6, wanted, thorough=True)[0] == wanted


def test_every_kind_is_present_thousands_of_times():
    kinds = [str(parameters.values[0]) for parameters in COMBINATIONS]
    assert set(kinds) == set(KINDS)
    n_fast = sum(FAST[kind] for kind in kinds)
    assert n_fast >= 2500
    assert SLOW_FACTOR * n_fast >= 10_000


N_TRIPLES = 12


def _moved(triple, rng):
    """Every leaf of a kept tree moved by itself, by up to a quarter of the largest leaf."""
    pruned = triple.pruned
    forest = pruned.forest
    leaves = np.isin(forest.node_tree, pruned.kept) & (forest.kind == SplitKind.LEAF)
    most = max(1, int(np.abs(pruned.value_int).max()) // 4)
    size = int(rng.choice([1, most // 16 + 1, most]))
    moves = rng.integers(-size, size + 1, pruned.value_int.shape) * leaves[:, None]
    return replace(pruned, value_int=pruned.value_int + moves)


def _collapsed(triple, rng):
    """One subtree of leaves only becomes a leaf: with the value of one side, or one between."""
    pruned = triple.pruned
    splits = Splits(triple.case.problem.forest)
    kept = splits.of_model(pruned)
    gone = int(rng.choice(np.flatnonzero(splits.ends(kept) & ~splits.is_root)))
    kept[gone] = False
    node, subtrees = splits.node[gone], splits.subtrees
    below = subtrees.leaf_node[subtrees.first[node] : subtrees.last[node]]
    value = pruned.value_int.copy()
    sides = value[below, 0]
    value[below, 0] = rng.choice([sides[0], sides[-1], (sides[0] + sides[-1]) // 2])
    return splits.collapse(replace(pruned, value_int=value), kept)


@pytest.mark.parametrize("change", [_moved, _collapsed])
@pytest.mark.parametrize("manner", ADVERSARIES.values(), ids=ADVERSARIES)
@pytest.mark.parametrize("kind", PATHS[:2])
def test_every_method_tells_broken_from_kept(kind, manner, change):
    n_found = n_proved = 0
    for seed in range(N_TRIPLES):
        rng = np.random.default_rng([seed, 17])
        triples = list(plant(kind, manner, seed))[:2]
        for number, triple in enumerate(triples):
            pruned = change(triple, rng)
            broken = broken_rows(triple.case, pruned)
            every = np.ones(broken.shape[1], dtype=bool)
            methods = EVERY[(2 * seed + number) % len(EVERY) :][:1]
            prover = Prover(triple.case.problem)
            for proof in proofs(triple.case, pruned, prover, every, methods):
                is_broken = bool(broken[:, proof.question.index].any())
                assert proof.answer is (Answer.FOUND if is_broken else Answer.PROVED)
                n_found, n_proved = n_found + is_broken, n_proved + (not is_broken)
    assert n_found >= N_TRIPLES // 2
    assert n_proved >= 1
