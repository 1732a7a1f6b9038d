"""What can be left out of a forest without changing a margin.

In come a Model and what inputs reach in it; out goes a Plan: the nodes and trees that remain. It
only plans what is bit for bit neutral, and constants that move only when it is asked to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pine_boost.model.forest import BoolArray, FloatArray, Forest, IntArray, Model
from pine_boost.model.reach import Reach, Shrunk, shrink
from pine_boost.model.rules import SplitKind
from pine_boost.model.trimming import Trimming, trim
from pine_boost.parsers.traits import traits_of


@dataclass(frozen=True, eq=False)
class Plan:
    """The smaller model over the nodes of the original.

    Attributes
    ----------
    trimming : Trimming
    shift : float64 (n_trees,)
        Constants of trees that go, for the leaves of a tree that stays; 0 unless asked for.
    exact : bool
        No bit of any margin changes.
    n_dead, n_twins, n_codes : int
        Splits with a side that nothing reaches, splits between equal leaves, category codes that
        cannot occur where they are named; in the trees that remain and in those that go.
    """

    trimming: Trimming
    shift: FloatArray
    exact: bool
    n_dead: int
    n_twins: int
    n_codes: int

    def changes(self, forest: Forest) -> bool:
        """Whether anything is left out."""
        return len(self.trimming.node) < forest.n_nodes or self.n_codes > 0


def make_plan(model: Model, reach: Reach, *, fold_constants: bool) -> Plan:
    """Plan a simplification.

    Parameters
    ----------
    model : Model
    reach : Reach
        Of ``model.forest``.
    fold_constants : bool
        Trees that add a constant are folded into the leaves of another tree, which rounds. Trees
        that add zero go in any case, where the sign of a zero cannot depend on them.
    """
    forest = model.forest
    shrunk = shrink(forest, reach.alive)
    category_kept = _kept_codes(forest, reach)
    constant = _constants(forest, shrunk)
    kept, shift, exact = np.arange(forest.n_trees), np.zeros(forest.n_trees), True
    if _may_lose_trees(model):
        neutral = _is_neutral(forest, constant, reach.alive)
        goes = ~np.isnan(constant) if fold_constants else neutral
        kept = _kept_trees(forest, goes, neutral)
        shift = _shifts(forest, constant, kept)
        exact = len(np.setdiff1d(np.flatnonzero(~neutral), kept)) == 0
    trimming = trim(
        forest, kept, shrunk.is_leaf, instead=shrunk.instead, value_node=shrunk.value_node, category_kept=category_kept
    )
    n_codes = int(np.count_nonzero(~category_kept))
    return Plan(trimming, shift, exact, shrunk.n_dead, shrunk.n_twins, n_codes)


def _kept_codes(forest: Forest, reach: Reach) -> BoolArray:
    """Codes that stay in their sets; a set keeps one code at least, as XGBoost demands.

    Where a library stores sets of a fixed size, nothing is gained.
    """
    kept = reach.category_alive.copy()
    if traits_of(forest.library).keeps_whole_sets:
        kept[:] = True
    sizes = np.diff(forest.category_offset)
    for node in np.flatnonzero(sizes):
        start, end = forest.category_offset[node : node + 2]
        if not kept[start:end].any():
            kept[start] = True
    return kept


def _constants(forest: Forest, shrunk: Shrunk) -> FloatArray:
    """The constant of every tree that is a single leaf, NaN for the others."""
    root = shrunk.instead[forest.tree_offset[:-1]]
    return np.where(shrunk.is_leaf[root], forest.value[shrunk.value_node[root], 0], np.nan)


def _may_lose_trees(model: Model) -> bool:
    """Only a plain sum may: a mean, or a vote, divides by its trees."""
    if model.forest.value.shape[1] > 1 or getattr(model.document, "average_output", False):
        return False
    return getattr(model.document, "family", "gradient") in ("gradient", "histogram")


def _kept_trees(forest: Forest, goes: BoolArray, neutral: BoolArray) -> IntArray:
    """Trees that stay: single trees go, where several outputs share a round whole rounds.

    Every output keeps a tree, rather one that adds something, and rounds that go hold as many
    trees as XGBoost 1.7 counts on.
    """
    goes, rounds = goes.copy(), forest.tree_round
    if forest.n_outputs > 1:
        whole = np.bincount(rounds) % forest.n_outputs == 0
        np.logical_and.at(whole, rounds, goes)
        goes = whole[rounds]
    for output in range(forest.n_outputs):
        mine = np.flatnonzero(forest.tree_output == output)
        if len(mine) and goes[mine].all():
            goes[rounds == rounds[mine[np.argmin(neutral[mine])]]] = False
    return np.flatnonzero(~goes)


def _is_neutral(forest: Forest, constant: FloatArray, alive: BoolArray) -> BoolArray:
    """Trees whose constant changes no bit of any sum.

    x + 0.0 is x but for x = -0.0, and x + -0.0 is x always. A sum is -0.0 only if every term of
    it is, the intercept included. So +0.0 may go where the intercept is no zero (of either sign:
    XGBoost's for a probability of 0.5 is -0.0, which no prediction shows), or where a tree that
    stays never gives -0.0.
    """
    is_minus_zero = (forest.value == 0) & np.signbit(forest.value)
    gives = np.logical_or.reduceat(
        is_minus_zero[:, 0] & (forest.kind == SplitKind.LEAF) & alive, forest.tree_offset[:-1]
    )
    starts = forest.intercept == 0
    if traits_of(forest.library).sums_from_zero:
        starts = np.zeros(forest.n_outputs, dtype=bool)
    zero = constant == 0
    neutral = np.zeros(forest.n_trees, dtype=bool)
    for output in range(forest.n_outputs):
        mine = forest.tree_output == output
        safe = not starts[output] or np.any(mine & ~zero & ~gives)
        neutral |= mine & zero & (np.signbit(constant) | safe)
    return neutral


def _shifts(forest: Forest, constant: FloatArray, kept: IntArray) -> FloatArray:
    """What each tree takes over: the constants of an output go to its first tree that stays."""
    shift = np.zeros(forest.n_trees)
    gone = np.ones(forest.n_trees, dtype=bool)
    gone[kept] = False
    for output in range(forest.n_outputs):
        mine = kept[forest.tree_output[kept] == output]
        if len(mine) == 0:
            continue
        # a tree with splits first: a constant one would keep its node for the constant alone
        target = mine[np.argmax(np.isnan(constant[mine]))]
        shift[target] = constant[gone & (forest.tree_output == output)].sum()
    return shift
