"""The CP-SAT model of trees and region: literals for states, one Boolean per leaf, integer rows over the leaves.

One base model is cloned for every question. It has no enforced linear rows (or-tools#5293) and no floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from pine_boost.budget import Budget
from pine_boost.errors import PineBoostError, UnsupportedModelError
from pine_boost.model import exact
from pine_boost.model.forest import BoolArray, Int32Array, IntArray
from pine_boost.model.routing import StateTrees
from pine_boost.model.states import StateSpace, unique_rows
from pine_boost.proof.minsum import cheapest_leaves, cheapest_scores, leaf_flags
from pine_boost.region.score_tables import PairTable, RegionTables

Literal = Any  # a Boolean variable of CP-SAT or its negation; ortools exports no common type
Leaves = tuple[cp_model.IntVar | None, ...]  # None: no point of the region reaches the leaf
Features = tuple["FeatureLiterals", ...]


@dataclass(frozen=True, eq=False)
class Encoding:
    """A CP-SAT model whose solutions are the points of the region.

    Attributes
    ----------
    model : CpModel
    leaves : tuple
        Boolean of each leaf of the model's trees; None if no point of the region reaches the leaf.
    leaf_tree : int64 (n_leaves,)
        The tree of each leaf.
    features : tuple
        The `FeatureLiterals` of each feature.
    feasible : bool
        False if the tables alone show that the region is empty.
    """

    model: cp_model.CpModel
    leaves: Leaves
    leaf_tree: IntArray
    features: Features
    feasible: bool

    def states_of(self, solution: Any) -> Int32Array:
        """The state row of a solver's solution."""
        return np.array([f.state_of(solution) for f in self.features], dtype=np.int32)


def encode_region(
    space: StateSpace,
    region: RegionTables,
    trees: StateTrees,
    wanted: BoolArray | None = None,
    budget: Budget | None = None,
) -> Encoding:
    """The base model: states, leaves of all trees, domain and score.

    Leaves of trees that are not ``wanted`` are None; a score with costs for the model's leaves needs all trees.
    Raises `OutOfTime` if the budget ends first.
    """
    budget = budget or Budget()
    model = cp_model.CpModel()
    allowed, affordable_pairs = [a.copy() for a in region.allowed], None
    least = cheapest_scores(region)
    if least is not None and region.score is not None and region.tau is not None:
        for feature, cost in enumerate(least[0]):
            allowed[feature] &= (cost <= region.tau)[region.score.bins[feature]]
        affordable_pairs = [cost <= region.tau for cost in least[1]]
    if any(not a.any() for a in allowed):
        return Encoding(model, (None,) * trees.n_leaves, trees.leaf_tree, (), False)
    features = tuple(FeatureLiterals(model, axis.n_intervals, allowed[j]) for j, axis in enumerate(space.axes))
    reachable = _reachable_leaves(trees, allowed) & cheapest_leaves(region, trees, allowed)
    if wanted is None:
        wanted = np.ones(trees.n_trees, dtype=bool)
    kept = reachable & wanted[trees.leaf_tree]
    leaves = _add_trees(model, features, trees, kept, wanted, budget)
    if leaves is None:
        return Encoding(model, (None,) * trees.n_leaves, trees.leaf_tree, features, False)
    _add_domain(model, features, region)
    feasible = _add_score(model, features, region, leaves, affordable_pairs, budget)
    return Encoding(model, leaves, trees.leaf_tree, features, feasible)


def encode_values(value: IntArray, leaf_offset: IntArray, least: int) -> cp_model.CpModel:
    """The row ``sum >= least`` over any combination of leaves, which includes every input."""
    model = cp_model.CpModel()
    literals: list[Literal] = []
    values: list[int] = []
    for start, stop in pairwise(leaf_offset):
        distinct = np.unique(value[start:stop]).tolist()
        own = [model.new_bool_var("") for _ in distinct]
        model.add_exactly_one(own)
        literals += own
        values += distinct
    model.add(cp_model.LinearExpr.weighted_sum(literals, values) >= least)
    return model


def _reachable_leaves(trees: StateTrees, allowed: list[BoolArray]) -> BoolArray:
    """Leaves that some combination of allowed states reaches."""
    words = np.full(trees.masks.mask.shape[1:], 2**64 - 1, dtype=np.uint64)
    for feature, states in enumerate(allowed):
        words &= np.bitwise_or.reduce(trees.masks.of(feature, np.flatnonzero(states)), axis=0)
    return leaf_flags(trees, words)


def _add_trees(
    model: cp_model.CpModel, features: Features, trees: StateTrees, kept: BoolArray, wanted: BoolArray, budget: Budget
) -> Leaves | None:
    """One Boolean per ``kept`` leaf, exactly one true per ``wanted`` tree, linked to the states by cliques.

    For each set of states that a tree splits on, at most one is true of "the state is outside" and all leaves
    that need the state inside, and the mirror of that. None if a tree has no leaf left.
    """
    leaves = tuple(model.new_bool_var("") if flag else None for flag in kept)
    for tree in np.flatnonzero(wanted).tolist():
        start, stop = trees.leaf_offset[tree], trees.leaf_offset[tree + 1]
        members = [leaf for leaf in leaves[start:stop] if leaf is not None]
        if not members:
            return None
        model.add_exactly_one(members)
    seen: set[tuple[int, int, bytes]] = set()
    nodes = np.flatnonzero(trees.leaf_of_node < 0)
    owners = np.searchsorted(trees.root, nodes, side="right") - 1
    for node, tree in zip(nodes[wanted[owners]], owners[wanted[owners]].tolist(), strict=True):
        budget.check()
        feature = int(trees.feature[node])
        left = trees.goes_left(int(node))
        allowed = features[feature].is_allowed
        key = (tree, feature, (left & allowed).tobytes())
        if key in seen:
            continue
        seen.add(key)
        literal = features[feature].in_set(left)
        for side, outside in ((left, ~literal), (~left, literal)):
            needing = _leaves_needing(trees, tree, feature, allowed & ~side)
            bound = [leaves[leaf] for leaf in needing if leaves[leaf] is not None]
            if bound:
                model.add_at_most_one([*bound, outside])
    return leaves


def _leaves_needing(trees: StateTrees, tree: int, feature: int, outside: BoolArray) -> list[int]:
    """Leaves of a tree that none of the states ``outside`` reaches."""
    start = trees.masks.state_offset[feature]
    reached = trees.masks.mask[start : start + len(outside), tree][outside]
    words = np.bitwise_or.reduce(reached, axis=0, initial=np.uint64(0)).tolist()
    number = sum(word << (64 * k) for k, word in enumerate(words))
    first, last = trees.leaf_offset[tree : tree + 2].tolist()
    return [leaf for leaf in range(first, last) if not (number >> (leaf - first)) & 1]


def _add_domain(model: cp_model.CpModel, features: Features, region: RegionTables) -> None:
    for pair in region.forbidden:
        first_rows, inverse = unique_rows(pair.forbidden)
        for k, row in enumerate(pair.forbidden[first_rows]):
            if row.any():
                first = features[pair.first].in_set(inverse == k)
                second = features[pair.second].in_set(row)
                model.add_bool_or([~first, ~second])
    for clause in region.at_least_one:
        model.add_bool_or([features[j].in_set(literal) for j, literal in clause])


def _add_score(
    model: cp_model.CpModel,
    features: Features,
    region: RegionTables,
    leaves: Leaves,
    affordable: list[BoolArray] | None,
    budget: Budget,
) -> bool:
    """Add the row ``score <= tau`` over bin, pair and leaf literals; False if it cannot hold.

    ``affordable`` are the cells of each pair table that may fit into tau; None if that is not known.
    """
    score, tau = region.score, region.tau
    if score is None or tau is None:
        return True
    terms: list[tuple[Literal, int]] = []
    bin_literals: dict[int, dict[int, Literal]] = {}
    used = {j for pair in score.pairs for j in (pair.first, pair.second)}
    used |= {j for j, cost in enumerate(score.unary) if cost.any()}
    for feature in sorted(used):
        bins = score.bins[feature]
        present = np.unique(bins[features[feature].is_allowed])
        bin_literals[feature] = {int(b): features[feature].in_set(bins == b) for b in present}
        model.add_exactly_one(bin_literals[feature].values())
        terms += [(x, int(score.unary[feature][b])) for b, x in bin_literals[feature].items()]
    for index, pair in enumerate(score.pairs):
        is_cell = np.ones(pair.cost.shape, dtype=bool) if affordable is None else affordable[index]
        terms += _add_pair(model, bin_literals, pair, is_cell)
    extra = region.extra_trees
    costs = region.leaf_cost if extra is None else extra.cost
    if extra is not None:
        reachable = _reachable_leaves(extra.trees, [feature.is_allowed for feature in features])
        added = _add_trees(model, features, extra.trees, reachable, np.ones(extra.trees.n_trees, dtype=bool), budget)
        if added is None:
            return False
        leaves = added
    if costs is not None:
        terms += [(leaf, int(cost)) for leaf, cost in zip(leaves, costs, strict=True) if leaf is not None]
    if sum(abs(cost) for _, cost in terms) + abs(tau) > exact.ROW_LIMIT:
        raise UnsupportedModelError(
            "The costs of this score add up beyond the solver's safe range (2**31); use a coarser "
            "scale, fewer bins or fewer features."
        )
    literals, prices = [literal for literal, _ in terms], [cost for _, cost in terms]
    model.add(cp_model.LinearExpr.weighted_sum(literals, prices) <= tau)
    return True


def _add_pair(
    model: cp_model.CpModel, bin_literals: dict[int, dict[int, Literal]], pair: PairTable, is_cell: BoolArray
) -> list[tuple[Literal, int]]:
    """Pair literals with row and column sums, which give the integer hull on a tree of features."""
    firsts, seconds = bin_literals[pair.first], bin_literals[pair.second]
    terms: list[tuple[Literal, int]] = []
    cells: dict[tuple[int, int], Literal] = {}
    for a in firsts:
        for b in seconds:
            if is_cell[a, b]:
                cells[a, b] = model.new_bool_var("")
                terms.append((cells[a, b], int(pair.cost[a, b])))
    for a, literal in firsts.items():
        model.add_exactly_one([*(x for (i, _), x in cells.items() if i == a), ~literal])
    for b, literal in seconds.items():
        model.add_exactly_one([*(x for (_, j), x in cells.items() if j == b), ~literal])
    return terms


def add_at_least(model: cp_model.CpModel, encoding: Encoding, values: IntArray, least: int, *, exactly: bool) -> bool:
    """Add ``sum(values[leaf]) >= least``; return whether the row is exact.

    Values beyond the solver's safe range are divided by a power of two. Unless ``exactly``, they are rounded up,
    so the row admits all that the sum admits and a little more. Exactly means digit by digit: with
    ``value = high * 2**k + low`` and ``0 <= low < 2**k``, the sum reaches ``least`` iff some integer carry has
    ``sum(low) - carry * 2**k >= low part of least`` and ``sum(high) + carry >= high part of least``; and so on
    with the high parts while they are too large.
    """
    excess = _excess_bits(values)
    if excess and not exactly:
        model.add(leaf_sum(encoding, -((-values) >> excess)) >= -((-least) >> excess))
        return False
    bits = exact.integer_scale(len(values) + 1, exact.ROW_LIMIT // 8)
    n_trees = int(np.count_nonzero(np.diff(encoding.leaf_tree))) + 1
    carry: Any = 0
    while _excess_bits(values):
        high, high_least = values >> bits, least >> bits
        low, low_least = values - (high << bits), least - (high_least << bits)
        # the sum of n low parts and a carry lies between -2 and (n + 1) * 2**bits
        more = model.new_int_var(-2, n_trees + 1, "")
        model.add(leaf_sum(encoding, low) + carry - more * 2**bits >= low_least)
        values, least, carry = high, high_least, more
    model.add(leaf_sum(encoding, values) + carry >= least)
    return True


def add_at_most(model: cp_model.CpModel, encoding: Encoding, values: IntArray, most: int, *, exactly: bool) -> bool:
    """Add ``sum(values[leaf]) <= most``, as `add_at_least` does."""
    return add_at_least(model, encoding, -values, -most, exactly=exactly)


def leaf_sum(encoding: Encoding, values: IntArray) -> Any:
    """The integer sum over the leaf Booleans; raises if it leaves the solver's safe range."""
    terms = [
        (leaf, int(value))
        for leaf, value in zip(encoding.leaves, values, strict=True)
        if leaf is not None and value != 0
    ]
    if sum(abs(value) for _, value in terms) > exact.ROW_LIMIT // 2:
        raise PineBoostError("Internal error: a margin row passes the solver's safe range; please report this.")
    leaves = [leaf for leaf, _ in terms]
    return cp_model.LinearExpr.weighted_sum(leaves, [value for _, value in terms])


def _excess_bits(values: IntArray) -> int:
    """How many bits the values must lose for their sum to be a safe row."""
    total = sum(abs(int(value)) for value in values[values != 0])
    return max(0, total.bit_length() - (exact.ROW_LIMIT // 4).bit_length())


class FeatureLiterals:
    """Literals "the state is in this set" of one feature.

    Allowed interval states form a chain of order literals ``state <= s``; allowed special states and categories
    have one literal each. A set is then a literal of the chain, or a new Boolean.
    """

    def __init__(self, model: cp_model.CpModel, n_intervals: int, allowed: BoolArray) -> None:
        self.model = model
        self.is_allowed, self.allowed = allowed, np.flatnonzero(allowed)
        self.intervals = self.allowed[self.allowed < n_intervals]
        specials = self.allowed[self.allowed >= n_intervals]
        self.special = {int(state): model.new_bool_var("") for state in specials}
        self.order: dict[int, Literal] = {}
        self._sets: dict[bytes, Literal] = {}
        self._true = model.new_constant(1)
        self._false = ~self._true
        self._in_intervals: Literal = self._true
        if self.special:
            members = list(self.special.values())
            if len(self.intervals):
                self._in_intervals = model.new_bool_var("")
                members.append(self._in_intervals)
            else:
                self._in_intervals = self._false
            model.add_exactly_one(members)
        for state in self.intervals[:-1]:
            self.order[int(state)] = model.new_bool_var("")
        chain = [self.order[int(state)] for state in self.intervals[:-1]]
        for earlier, later in pairwise(chain):
            model.add_implication(earlier, later)
        # a special state counts as the first interval of the chain, which fixes the free literals
        for literal in self.special.values():
            for order in chain[:1]:
                model.add_implication(literal, order)

    def at_most(self, state: int) -> Literal:
        """A literal for "the interval state (the first one for a special state) is <= state"."""
        if len(self.intervals) == 0 or state >= self.intervals[-1]:
            return self._true
        if state < self.intervals[0]:
            return self._false
        return self.order[int(self.intervals[self.intervals <= state][-1])]

    def in_set(self, members: BoolArray) -> Literal:
        """A literal equivalent to "the state is one of these"."""
        inside = members[self.allowed]
        if inside.all():
            return self._true
        if not inside.any():
            return self._false
        key = members.tobytes()
        if key not in self._sets:
            self._sets[key] = self._new_set(members)
        return self._sets[key]

    def _new_set(self, members: BoolArray) -> Literal:
        intervals = members[self.intervals]
        runs = np.flatnonzero(np.diff(intervals.astype(int)))
        if not self.special and len(runs) == 1:
            below = self.at_most(int(self.intervals[runs[0]]))
            return below if intervals[0] else ~below
        model = self.model
        literal = model.new_bool_var("")
        parts = [self.special[state] for state in self.special if members[state]]
        others = [self.special[state] for state in self.special if not members[state]]
        for part in parts:
            model.add_implication(part, literal)
        for other in others:
            model.add_implication(other, ~literal)
        # for each run of intervals: the state is in the run only if the literal says so
        bounds = np.concatenate([[0], runs + 1, [len(intervals)]])
        for start, stop in pairwise(bounds):
            if stop == start:
                continue
            low = int(self.intervals[start])
            high = int(self.intervals[stop - 1])
            before = self.at_most(low - 1) if start > 0 else self._false
            here = [~self._in_intervals, before, ~self.at_most(high)]
            model.add_bool_or([*here, literal if intervals[start] else ~literal])
        return literal

    def state_of(self, solution: Any) -> int:
        """The state of this feature in a solution."""
        for state, literal in self.special.items():
            if solution.boolean_value(literal):
                return state
        for state in self.intervals[:-1]:
            if solution.boolean_value(self.order[int(state)]):
                return int(state)
        return int(self.intervals[-1])
