"""The trees that a search works on: without what no input can tell from the rest.

In comes the problem of the original; out go its trees without dead branches and twin leaves, and
what was found over them on the nodes of the original again. Its integers and bands are the
original's, so what is proved of the one holds of the other. Where nothing can go, nothing is done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget, StopReason
from pine_boost.model.exact import to_units
from pine_boost.model.forest import Forest, IntArray, PrunedForest, tree_units
from pine_boost.model.reach import Shrunk, find_live, shrink
from pine_boost.model.routing import LeafMasks, StateTrees, leaf_masks, route
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import States
from pine_boost.model.trimming import Trimming, pass_down, trim, trim_pruned, trimmed_forest
from pine_boost.proof.bound import check_bound
from pine_boost.proof.cpsat.solver import finishing
from pine_boost.proof.problem import Problem
from pine_boost.search.leaf_values import search_reweighted
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import SearchOptions


@dataclass(frozen=True, eq=False)
class DeduplicatedTrees:
    """The original's trees, smaller, with the same value for every row of states.

    Attributes
    ----------
    shrunk : Shrunk
        Over the nodes of the original.
    trimming : Trimming
        Node after node of ``forest`` the original's; every tree remains.
    forest : Forest
    trees, masks, leaf_node : of ``forest``, as a Problem has them
    """

    shrunk: Shrunk
    trimming: Trimming
    forest: Forest
    trees: StateTrees
    masks: LeafMasks
    leaf_node: IntArray

    def of(self, problem: Problem) -> Problem:
        """The problem of the original, stated over these trees: the same integers in fewer leaves.

        ``problem`` may be in any region of the state space that the trees were made for.
        """
        value = self.forest.leaf_vectors()[self.leaf_node]
        return replace(
            problem,
            forest=self.forest,
            trees=self.trees,
            masks=self.masks,
            leaf_node=self.leaf_node,
            original_int=to_units(value, problem.scale),
            copies=self._copies(problem.forest),
        )

    def _copies(self, original: Forest) -> IntArray:
        """How many leaves of the original are at or below each leaf."""
        nodes = self.trimming.node[self.leaf_node]
        owner = np.full(original.n_nodes, -1)
        owner[nodes] = np.arange(len(nodes))
        pass_down(original, nodes, owner, self.shrunk.instead)
        owned = owner[(original.kind == SplitKind.LEAF) & (owner >= 0)]
        return np.bincount(owned, minlength=len(nodes))

    def restored(self, problem: Problem, found: SearchResult, unit: str, budget: Budget) -> SearchResult:
        """What was found over these trees, over those of the original, whose problem is given.

        A bound on models with free leaf values was proved of fewer leaves than the original has:
        it is proved again, or not claimed.
        """
        pruned = None if found.pruned is None else self._on_original(problem.forest, found.pruned)
        found = replace(found, pruned=pruned, remaining=self.trimming)
        if found.reference is not None:
            leaf = self.trimming.value_node[self.leaf_node]
            leaves = problem.trees.leaf_of_node[leaf][found.reference.leaves]
            found = replace(found, reference=replace(found.reference, leaves=leaves))
        if found.bound is None or found.reweight == "tree":
            return found
        units = tree_units(problem.forest, unit)
        if check_bound(problem, units, found.bound, budget, by_leaf=True):
            return found
        history = tuple(moment._replace(lower_bound=1) for moment in found.history)
        stopped = StopReason.EFFORT if found.stopped is StopReason.OPTIMAL else found.stopped
        return replace(found, bound=None, lower_bound=1, stopped=stopped, history=history)

    def _on_original(self, original: Forest, pruned: PrunedForest) -> PrunedForest:
        remaining = trim_pruned(pruned)
        ours = remaining.node[remaining.is_leaf]
        leaves = self.trimming.node[ours]
        value = np.zeros((original.n_nodes, pruned.value_int.shape[1]), dtype=np.int64)
        value[leaves] = pruned.value_int[ours]
        pass_down(original, leaves, value, self.shrunk.instead)
        is_leaf = original.kind == SplitKind.LEAF
        is_leaf[leaves] = True
        return replace(pruned, forest=original, value_int=value, is_leaf=is_leaf, instead=self.shrunk.instead)


def deduplicate_trees(problem: Problem) -> DeduplicatedTrees | None:
    """The smaller trees of a problem; None where no node can go.

    Also None where the region's score counts the leaves of the model's own trees.
    """
    forest, score = problem.forest, problem.region.score
    if score is not None and score.trees is not None and score.trees.of_model:
        return None
    alive = find_live(forest)
    if alive.all() and not _has_twins(forest):
        return None
    shrunk = _with_roots(forest, alive, shrink(forest, alive))
    trimming = trim(
        forest, np.arange(forest.n_trees), shrunk.is_leaf, instead=shrunk.instead, value_node=shrunk.value_node
    )
    if len(trimming.node) == forest.n_nodes:
        return None
    lean = trimmed_forest(forest, trimming)
    trees = route(lean, problem.space)
    leaf_node = np.zeros(trees.n_leaves, dtype=np.int64)
    is_leaf = trees.leaf_of_node >= 0
    leaf_node[trees.leaf_of_node[is_leaf]] = np.flatnonzero(is_leaf)
    return DeduplicatedTrees(shrunk, trimming, lean, trees, leaf_masks(trees, problem.space), leaf_node)


def search_lean(
    problem: Problem, fit_states: npt.NDArray[Any], budget: Budget, options: SearchOptions, points: States | None = None
) -> SearchResult:
    """`search_reweighted` over the smaller trees of the original, where it has any."""
    lean = deduplicate_trees(problem)
    if lean is None:
        return search_reweighted(problem, fit_states, budget, options, points).timed()
    found = search_reweighted(lean.of(problem), fit_states, budget, options, points)
    with finishing():  # Ctrl-C ends the search, not what makes its result
        return lean.restored(problem, found, options.unit, budget).timed()


def _has_twins(forest: Forest) -> bool:
    """Whether some split ends in two leaves of the same value, bit for bit."""
    is_leaf = forest.kind == SplitKind.LEAF
    inner = np.flatnonzero(~is_leaf)
    last = inner[is_leaf[forest.left[inner]] & is_leaf[forest.right[inner]]]
    bits = np.ascontiguousarray(forest.value).view(np.uint64)
    same = bits[forest.left[last]] == bits[forest.right[last]]
    return bool(same.all(axis=1).any())


def _with_roots(forest: Forest, alive: npt.NDArray[np.bool_], shrunk: Shrunk) -> Shrunk:
    """A tree that would be one leaf keeps its first split: a tree without any is a constant."""
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
