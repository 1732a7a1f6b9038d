"""The original's trees without dead branches and twin leaves, which is what is searched.

Their integers and bands are the original's, so what is proved about them holds for the original.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pine_boost.budget import Budget
from pine_boost.model.exact import to_units
from pine_boost.model.forest import BoolArray, Forest, IntArray, tree_units
from pine_boost.model.reach import Shrunk, find_live, shrink
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import Trimming, leaf_above, trim, trimmed_forest, untrimmed
from pine_boost.proof.bound import check_bound
from pine_boost.proof.problem import Problem
from pine_boost.search.search_result import SearchResult


@dataclass(frozen=True, eq=False)
class DeduplicatedTrees:
    """Smaller trees with the same value as the original's on every row of states.

    Attributes
    ----------
    trimming : Trimming
        For each node of ``forest`` the original's; every tree remains.
    forest : Forest
    trees : StateTrees
        Those of ``forest`` over the states of the problem.
    """

    trimming: Trimming
    forest: Forest
    trees: StateTrees

    def of(self, problem: Problem) -> Problem:
        """The problem of the original over these trees: the same integers in fewer leaves.

        ``problem`` may have any region of the state space that the trees were made for.
        """
        value = self.forest.leaf_vectors()[self.trees.subtrees.leaf_node]
        return replace(
            problem,
            forest=self.forest,
            trees=self.trees,
            original_int=to_units(value, problem.scale),
            copies=self._copies(problem.forest),
        )

    def _copies(self, original: Forest) -> IntArray:
        """How many leaves of the original are at or below each leaf."""
        above = leaf_above(original, self.trimming)
        above = above[(original.kind == SplitKind.LEAF) & (above >= 0)]
        return np.bincount(above, minlength=original.n_nodes)[self.trimming.node[self.trees.subtrees.leaf_node]]

    def restored(self, problem: Problem, found: SearchResult, unit: str, budget: Budget) -> SearchResult:
        """A result over these trees, mapped back to the trees of the original ``problem``.

        A bound on models with free leaf values was proved for fewer leaves than the original has: it
        is checked again, or dropped.
        """
        found = replace(found, remaining=self.trimming)
        if found.pruned is not None:
            found = replace(found, pruned=untrimmed(found.pruned, problem.forest, self.trimming))
        if found.fit is not None:
            leaf = self.trimming.value_node[self.trees.subtrees.leaf_node]
            leaves = problem.trees.leaf_of_node[leaf][found.fit.leaves]
            found = replace(found, fit=replace(found.fit, leaves=leaves))
        if found.bound is None or found.reweight == "tree":
            return found
        units = tree_units(problem.forest, unit)
        is_bound = check_bound(problem, units, found.bound, budget, by_leaf=True)
        return found if is_bound else found.without_bound()


def deduplicate_trees(problem: Problem) -> DeduplicatedTrees | None:
    """The smaller trees of a problem; None if no node is redundant.

    Also None if the region's score is a function of the model's own leaves.
    """
    forest = problem.forest
    if problem.region.leaf_cost is not None:
        return None
    alive = find_live(forest)
    shrunk = _with_roots(forest, alive, shrink(forest, alive))
    trimming = trim(
        forest, np.arange(forest.n_trees), shrunk.is_leaf, instead=shrunk.instead, value_node=shrunk.value_node
    )
    if len(trimming.node) == forest.n_nodes:
        return None
    lean = trimmed_forest(forest, trimming)
    return DeduplicatedTrees(trimming, lean, route(lean, problem.space))


def _with_roots(forest: Forest, alive: BoolArray, shrunk: Shrunk) -> Shrunk:
    """Keep the root split of a tree that would be one leaf: a tree without a split is a constant."""
    instead, value_node = shrunk.instead.copy(), shrunk.value_node.copy()
    is_leaf = shrunk.is_leaf.copy()
    roots = forest.tree_offset[:-1][np.diff(forest.tree_offset) > 1]
    for root in roots[is_leaf[instead[roots]]]:
        value = value_node[instead[root]]
        instead[root], is_leaf[root], value_node[root] = root, False, root
        for child in (forest.left[root], forest.right[root]):
            value_node[child] = value_node[instead[child]] if alive[child] else value
            instead[child], is_leaf[child] = child, True
    return Shrunk(instead, is_leaf, value_node, shrunk.n_dead, shrunk.n_twins)
