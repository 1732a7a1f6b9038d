"""Leaf masks and leaf numbers: the bit that is left is the leaf that the walker finds."""

import numpy as np
import pytest

from pine_boost.errors import UnsupportedModelError
from pine_boost.model import routing
from pine_boost.model.routing import route
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import build_space
from pine_boost.model.trimming import forest_subtrees
from tests.support.forests import MANNERS, random_forest, random_rows

MANNER_NAMES = ["xgboost", "lightgbm", "sklearn", "histogram"]


def _leaf_from_masks(masks, states, tree):
    """Positions of the bits left after AND over the features."""
    words = masks.mask[masks.state_offset[:-1] + states, tree]
    left = np.bitwise_and.reduce(words, axis=0)
    number = sum(int(word) << (64 * k) for k, word in enumerate(left))
    return [bit for bit in range(64 * len(left)) if number >> bit & 1]


@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize(("depth", "n_words"), [(3, 1), (8, 2)])
def test_exactly_one_bit_is_left_and_it_is_the_leaf(manner, depth, n_words):
    rng = np.random.default_rng(depth)
    forest = random_forest(rng, 3, depth, 4, manner=manner, categorical=(0,), leaf_probability=0.02)
    space = build_space(forest)
    trees = route(forest, space)
    masks = trees.masks
    assert masks.mask.shape[2] >= n_words
    states = space.states(random_rows(rng, forest, 60))
    reached = trees.leaves(states)
    for row in range(len(states)):
        for tree in range(trees.n_trees):
            expected = int(reached[row, tree] - trees.leaf_offset[tree])
            assert _leaf_from_masks(masks, states[row], tree) == [expected]


@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize("seed", range(6))
def test_a_bit_is_set_iff_every_split_of_the_feature_above_the_leaf_agrees(manner, seed):
    """All states at once, those that no row is in and splits that repeat each other included."""
    rng = np.random.default_rng(seed)
    categorical = (0,) if seed % 2 else ()
    forest = random_forest(rng, 3, 8, 3, manner=manner, categorical=categorical, leaf_probability=0.05, n_thresholds=3)
    space = build_space(forest)
    trees = route(forest, space)
    masks = trees.masks
    expected = np.zeros_like(masks.mask)
    for tree in range(trees.n_trees):
        full = [np.ones(n, dtype=bool) for n in space.n_states]
        stack = [(int(trees.root[tree]), full)]
        while stack:
            node, allowed = stack.pop()
            leaf = int(trees.leaf_of_node[node])
            if leaf >= 0:
                bit = leaf - int(trees.leaf_offset[tree])
                expected[np.concatenate(allowed), tree, bit // 64] |= np.uint64(1) << np.uint64(bit % 64)
                continue
            feature = int(trees.feature[node])
            left = trees.goes_left(node)
            for child, side in ((trees.left[node], left), (trees.right[node], ~left)):
                below = [*allowed]
                below[feature] = allowed[feature] & side
                stack.append((int(child), below))
    assert np.array_equal(masks.mask, expected)


def test_subtrees_list_the_leaves_below_every_node():
    forest = random_forest(np.random.default_rng(1), 5, 6, 3)
    subtrees = forest_subtrees(forest)
    trees = route(forest, build_space(forest))
    assert np.array_equal(trees.leaf_of_node[subtrees.leaf_node], np.arange(trees.n_leaves))
    assert np.array_equal(subtrees.leaf_tree, trees.leaf_tree)
    assert sorted(np.concatenate(subtrees.levels)) == list(range(forest.n_nodes))
    values = np.random.default_rng(2).normal(size=trees.n_leaves)
    for node, spread in zip(subtrees.inner, subtrees.ranges(values, subtrees.inner), strict=True):
        below = _leaves_below(forest, int(node))
        assert [int(trees.leaf_of_node[leaf]) for leaf in below] == list(
            range(subtrees.first[node], subtrees.last[node])
        )
        own = values[subtrees.first[node] : subtrees.last[node]]
        assert spread == own.max() - own.min()
        for child in (forest.left[node], forest.right[node]):
            assert subtrees.parent[child] == node
    assert np.all(subtrees.parent[forest.tree_offset[:-1]] == -1)


def _leaves_below(forest, node):
    if forest.kind[node] == SplitKind.LEAF:
        return [node]
    return _leaves_below(forest, int(forest.left[node])) + _leaves_below(forest, int(forest.right[node]))


def test_leaves_are_numbered_from_left_to_right():
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 5, 5, 3)
    trees = route(forest, build_space(forest))
    for tree in range(forest.n_trees):
        stack, found = [int(forest.tree_offset[tree])], []
        while stack:
            node = stack.pop()
            if forest.kind[node] == SplitKind.LEAF:
                found.append(int(trees.leaf_of_node[node]))
            else:
                stack += [int(forest.right[node]), int(forest.left[node])]
        assert found == list(range(trees.leaf_offset[tree], trees.leaf_offset[tree + 1]))


def test_sides_of_a_split_agree_with_the_walk():
    rng = np.random.default_rng(5)
    forest = random_forest(rng, 1, 1, 2, categorical=(1,), leaf_probability=0)
    space = build_space(forest)
    trees = route(forest, space)
    feature = int(forest.feature[0])
    n_states = int(space.n_states[feature])
    states = np.zeros((n_states, 2), dtype=np.int32)
    states[:, feature] = np.arange(n_states)
    went_left = trees.leaves(states)[:, 0] == 0
    assert np.array_equal(trees.goes_left(0), went_left)
    assert went_left.any()
    assert not went_left.all()


def test_single_leaf_trees_and_many_rows():
    rng = np.random.default_rng(6)
    forest = random_forest(rng, 4, 0, 2)
    trees = route(forest, build_space(forest))
    assert trees.depth == 0
    reached = trees.leaves(np.zeros((5, 2), dtype=np.int32))
    assert np.array_equal(reached, np.tile(np.arange(4), (5, 1)))


def test_chunks_do_not_change_the_leaves(monkeypatch):
    rng = np.random.default_rng(7)
    forest = random_forest(rng, 6, 4, 3)
    space = build_space(forest)
    trees = route(forest, space)
    states = space.states(random_rows(rng, forest, 101))
    whole = trees.leaves(states)
    monkeypatch.setattr(routing, "_CHUNK_CELLS", 60)
    assert np.array_equal(trees.leaves(states), whole)


def test_too_large_masks_are_refused(monkeypatch):
    rng = np.random.default_rng(8)
    forest = random_forest(rng, 6, 4, 3)
    space = build_space(forest)
    monkeypatch.setattr(routing, "MASK_BYTES_LIMIT", 100)
    with pytest.raises(UnsupportedModelError, match="at most 1 GiB"):
        _ = route(forest, space).masks
