"""State spaces and scores in region files.

In come tables or the sections of a document; out goes plain JSON data or the checked tables.
Refuses states that mean nothing, and numbers that do not fit the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pine_boost import json_fields as f
from pine_boost.errors import InvalidInputError
from pine_boost.json_fields import require
from pine_boost.model.routing import Shape, make_trees
from pine_boost.model.rules import CategoryRule, Comparison
from pine_boost.model.states import Axis, StateSpace
from pine_boost.region.region_ladder import Nesting
from pine_boost.region.score_tables import PairTable, ScoreTables, TreeCost
from pine_boost.region.scores.fit_score import check_tables
from pine_boost.tables.schema import InputSchema


def space_to_json(space: StateSpace) -> dict[str, Any]:
    """Plain JSON data of a state space."""
    axes = []
    for axis in space.axes:
        axes.append(
            {
                "edges": [f.write_float(edge) for edge in axis.edges],
                "n_states": axis.n_states,
                "missing_state": axis.missing_state,
                "zero_state": axis.zero_state,
                "codes": None if axis.codes is None else axis.codes.tolist(),
                "code_states": None if axis.code_states is None else axis.code_states.tolist(),
                "other_state": axis.other_state,
                "n_known": axis.n_known,
                "reachable": None if axis.reachable is None else f.write_flags(axis.reachable),
            }
        )
    return {
        "comparison": space.comparison.name,
        "category_rule": space.category_rule.name,
        "snaps_to_zero": space.snaps_to_zero,
        "axes": axes,
    }


def space_from_json(data: Mapping[str, Any], schema: InputSchema) -> StateSpace:
    """The state space of a region file, every state accounted for."""
    f.keys(data, "comparison category_rule snaps_to_zero axes")
    sections = f.sequence(data, "axes", schema.n_features)
    axes = [_axis_from_json(f.as_mapping(axis)) for axis in sections]
    return StateSpace(
        axes=tuple(axes),
        comparison=f.member(data, "comparison", Comparison),
        category_rule=f.member(data, "category_rule", CategoryRule),
        snaps_to_zero=f.flag(data, "snaps_to_zero"),
        missing_value=schema.missing_value,
    )


def _axis_from_json(data: Mapping[str, Any]) -> Axis:
    f.keys(data, "edges n_states missing_state zero_state codes code_states other_state n_known reachable")
    edges = f.floats(data, "edges", finite=False)
    require(bool(np.all(np.diff(edges) > 0)), "the edges of a feature do not ascend")
    # intervals or groups of codes, and at most two special states
    most = len(edges) + 3 if data["codes"] is None else len(f.integers(data, "codes", 0)) + 2
    n_states = f.integer(data, "n_states", 1, most)
    last = n_states - 1
    missing, zero, other = (f.integer(data, key, -1, last) for key in ("missing_state", "zero_state", "other_state"))
    codes = code_states = n_known = None
    if data["codes"] is not None:
        codes = f.integers(data, "codes", 0)
        code_states = f.integers(data, "code_states", 0, last)
        require(len(codes) == len(code_states), "'codes' and 'code_states' differ in length")
        require(bool(np.all(np.diff(codes) > 0)), "the codes of a feature do not ascend")
        require(len(edges) == 0 and zero == -1, "a categorical feature has edges")
        special = {missing, other, *code_states.tolist()} - {-1}
        require(special == set(range(n_states)), "a state of a feature means nothing")
    else:
        require(data["code_states"] is None and other == -1, "a numeric feature has categories")
        n_intervals = len(edges) + 1
        special = {s for s in (missing, zero) if s >= n_intervals}
        expected = set(range(n_intervals, n_states))
        require(special == expected and n_states >= n_intervals, "a state of a feature is unknown")
        require(zero == -1 or zero >= n_intervals, "'zero_state' is an interval")
    if data["n_known"] is not None:
        n_known = f.integer(data, "n_known", 0)
    reachable = None if data["reachable"] is None else f.flags(data["reachable"], n_states)
    return Axis(edges, n_states, missing, zero, codes, code_states, other, n_known, reachable)


def score_to_json(score: ScoreTables) -> dict[str, Any]:
    """Plain JSON data of a score."""
    return {
        "scale": score.scale,
        "bins": [table.tolist() for table in score.bins],
        "unary": [cost.tolist() for cost in score.unary],
        "pairs": [[pair.first, pair.second, pair.cost.tolist()] for pair in score.pairs],
        "trees": None if score.trees is None else _trees_to_json(score.trees),
    }


def score_from_json(data: Mapping[str, Any], space: StateSpace) -> ScoreTables:
    """The score of a region file, checked against its space."""
    f.keys(data, "scale bins unary pairs trees")
    bins, unary = (
        tuple(f.integer_list(entry) for entry in f.sequence(data, key, space.n_features)) for key in ("bins", "unary")
    )
    pairs = []
    for entry in f.sequence(data, "pairs"):
        first, second, rows = f.unpack(entry, 3)
        first, second = (f.position(j, space.n_features) for j in (first, second))
        table = [f.integer_list(row) for row in f.unpack(rows, len(unary[first]))]
        require(all(len(row) == len(unary[second]) for row in table), "a pair table is ragged")
        pairs.append(PairTable(first, second, np.stack(table)))
    trees = None
    if data["trees"] is not None:
        trees = _trees_from_json(f.mapping(data, "trees"), space)
    score = ScoreTables(bins, unary, tuple(pairs), trees, f.integer(data, "scale", 1))
    try:
        check_tables(score, space)
    except InvalidInputError as error:
        raise f.FieldError(str(error).removesuffix(".")) from error
    return score


def _trees_to_json(tree_cost: TreeCost) -> dict[str, Any]:
    trees = tree_cost.trees
    is_leaf = trees.leaf_of_node >= 0
    return {
        "root": trees.root.tolist(),
        "feature": np.where(is_leaf, 0, trees.feature).tolist(),
        "rank": trees.rank.tolist(),
        "left": np.where(is_leaf, -1, trees.left).tolist(),
        "right": np.where(is_leaf, -1, trees.right).tolist(),
        "special_left": f.write_flags(trees.special_left),
        "cost": tree_cost.cost.tolist(),
        "of_model": tree_cost.of_model,
    }


def _trees_from_json(data: Mapping[str, Any], space: StateSpace) -> TreeCost:
    """Rebuild what `routing.route` gave; what follows from the structure is not stored."""
    f.keys(data, "root feature rank left right special_left cost of_model")
    root, left, right = (f.integers(data, key, -1) for key in ("root", "left", "right"))
    n_nodes = len(left)
    feature = f.integers(data, "feature", 0, space.n_features - 1)
    rank = f.integers(data, "rank", -1, 2**31 - 1)
    require(len(right) == len(feature) == len(rank) == n_nodes, "tree arrays differ in length")
    is_leaf = left < 0
    f.check_trees(root, left, right)
    width = np.array([axis.n_states - axis.n_intervals for axis in space.axes])
    n_special = np.where(is_leaf, 0, width[feature])
    intervals = np.array([axis.n_intervals for axis in space.axes])
    trees = make_trees(
        Shape(root, is_leaf, left, right),
        feature,
        rank,
        intervals[feature],
        np.cumsum(n_special) - n_special,
        f.flags(data["special_left"], int(n_special.sum()) + 1),
    )
    return TreeCost(trees, f.integers(data, "cost"), f.flag(data, "of_model"))


def nesting_to_json(nesting: Nesting) -> dict[str, Any]:
    """Plain JSON data of a ladder of regions."""
    return {"share": nesting.share, "tau": nesting.tau.tolist(), "delta": nesting.delta.tolist()}


def nesting_from_json(data: Mapping[str, Any]) -> Nesting:
    """A ladder whose regions grow from step to step and end without toss-ups left out."""
    f.keys(data, "share tau delta")
    share, tau, delta = f.number(data, "share"), f.integers(data, "tau"), f.floats(data, "delta")
    require(0 < share < 1, "'share' is no part of alpha")
    require(len(tau) == len(delta) > 0, "'tau' and 'delta' have other lengths")
    require(bool(np.all(np.diff(tau) >= 0)), "'tau' falls")
    require(bool(np.all(np.diff(delta) <= 0)) and delta[-1] == 0, "'delta' rises or is not 0 last")
    return Nesting(share, tau, delta)
