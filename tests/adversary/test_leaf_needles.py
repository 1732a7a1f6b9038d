"""Needles in models whose leaf values are no multiples of the original's: the oracle is unmoved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pine_boost.model.forest import PrunedForest
from pine_boost.model.rules import SplitKind
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.question import Answer
from pine_boost.search.shapes import find_splits
from tests.adversary.planting import PATHS, Triple, plant
from tests.adversary.proving import EVERY, NAMES, proofs
from tests.support.forests import MANNERS, Manner
from tests.support.naive import broken_rows

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")
pytest.importorskip("sklearn")
N_TRIPLES = 12


def _moved(triple: Triple, rng: np.random.Generator) -> PrunedForest:
    """Every leaf of a kept tree moved by itself, by up to a quarter of the largest leaf."""
    pruned = triple.pruned
    forest = pruned.forest
    leaves = np.isin(forest.node_tree, pruned.kept) & (forest.kind == SplitKind.LEAF)
    most = max(1, int(np.abs(pruned.value_int).max()) // 4)
    size = int(rng.choice([1, most // 16 + 1, most]))
    moves = rng.integers(-size, size + 1, pruned.value_int.shape) * leaves[:, None]
    return replace(pruned, value_int=pruned.value_int + moves)


def _collapsed(triple: Triple, rng: np.random.Generator) -> PrunedForest:
    """One subtree of leaves only becomes a leaf: with the value of one side, or one between."""
    pruned = triple.pruned
    splits = find_splits(triple.case.problem)
    kept = splits.of_model(pruned)
    gone = int(rng.choice(np.flatnonzero(splits.ends(kept) & ~splits.is_root)))
    kept[gone] = False
    below = splits.leaf_node[splits.first[gone] : splits.last[gone]]
    value = pruned.value_int.copy()
    sides = value[below, 0]
    value[below, 0] = rng.choice([sides[0], sides[-1], (sides[0] + sides[-1]) // 2])
    return splits.collapse(replace(pruned, value_int=value), kept)


@pytest.mark.parametrize("change", [_moved, _collapsed])
@pytest.mark.parametrize("manner", MANNERS, ids=NAMES)
@pytest.mark.parametrize("kind", PATHS[:2])
def test_every_method_tells_broken_from_kept(kind: str, manner: Manner, change: Callable[..., PrunedForest]) -> None:
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
