"""Pairs of leaves say exactly which trees rise with a feature: brute force over all states."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.search.lp_columns import in_order, ordered_leaves, renamed
from tests.support.bruteforce import Small, small_problem
from tests.support.forests import MANNERS, Manner


def _rises(small: Small, tree: int, feature: int, value: np.ndarray) -> bool:
    """Whether a tree never falls from one interval of a feature to the next, other states alike."""
    problem = small.problem
    states = small.everything
    own = problem.trees.leaves(states)[:, tree]
    n_intervals = problem.space.axes[feature].n_intervals
    value_of = {row.tobytes(): value[leaf] for row, leaf in zip(states, own, strict=True)}
    for row in states[states[:, feature] < n_intervals - 1]:
        above = row.copy()
        above[feature] += 1
        if value_of[row.tobytes()] > value_of[above.tobytes()]:
            return False
    return True


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(0, 2**16), st.sampled_from(MANNERS))
def test_pairs_are_in_order_where_and_only_where_the_trees_are(seed: int, manner: Manner) -> None:
    small = small_problem(seed, manner, n_trees=3, score=None)
    problem = small.problem
    random = np.random.default_rng(seed)
    value = random.integers(0, 3, problem.trees.n_leaves)
    numeric = [f for f, axis in enumerate(problem.space.axes) if axis.n_intervals > 1]
    for feature in numeric:
        directions = np.zeros(problem.space.n_features, dtype=int)
        directions[feature] = 1
        pairs = ordered_leaves(problem, tuple(directions))
        falling = ordered_leaves(problem, tuple(-directions))
        assert sorted(map(tuple, falling)) == sorted(map(tuple, pairs[:, ::-1]))
        leaf_tree = problem.trees.leaf_tree
        assert (leaf_tree[pairs[:, 0]] == leaf_tree[pairs[:, 1]]).all()
        raised = in_order(value, pairs)
        for tree in range(problem.trees.n_trees):
            own = pairs[leaf_tree[pairs[:, 0]] == tree]
            in_line = bool((value[own[:, 0]] <= value[own[:, 1]]).all())
            assert in_line == _rises(small, tree, feature, value)
            assert _rises(small, tree, feature, raised)


def test_values_rise_as_little_as_they_must() -> None:
    pairs = np.array([[0, 1], [1, 2], [3, 2]])
    assert in_order(np.array([3, 1, 2, 5]), pairs).tolist() == [3, 3, 5, 5]
    assert in_order(np.array([1, 2, 2, 0]), pairs).tolist() == [1, 2, 2, 0]
    column = np.array([0, 0, 1, -1])
    assert renamed(pairs, column).tolist() == [[0, 1]]
    assert renamed(np.zeros((0, 2), dtype=np.int64), column).shape == (0, 2)


def test_without_directions_there_are_no_pairs() -> None:
    problem = small_problem(0, MANNERS[0]).problem
    assert ordered_leaves(problem, ()).shape == (0, 2)
    assert ordered_leaves(problem, (0,) * problem.space.n_features).shape == (0, 2)
