"""Region files: a Region as plain JSON and back, read as untrusted input.

Unknown or absent keys are refused, and so is every number that does not fit the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pine_boost import json_fields as f
from pine_boost.errors import InvalidInputError, MalformedModelError
from pine_boost.json_fields import require
from pine_boost.model.forest import BoolArray, IntArray, require_trees
from pine_boost.model.routing import make_trees, special_places
from pine_boost.model.rules import CategoryRule, Comparison
from pine_boost.model.states import Axis, StateSpace
from pine_boost.region.region_ladder import RegionLadder
from pine_boost.region.score_tables import ForbiddenPair, PairTable, RegionTables, ScoreTables, TreeCost
from pine_boost.region.scores.fit_score import check_tables
from pine_boost.tables.overlap import Overlap
from pine_boost.tables.schema import InputSchema, schema_from_json, schema_to_json

if TYPE_CHECKING:
    from pine_boost.region.region import Region

FORMAT = "pine_boost region"
UNCALIBRATED = (  # what another alpha or other calibration rows leave as it is
    *("schema", "space", "domain", "score", "cuts", "n_outputs", "thresholds", "model_digest"),
)
_SCORES = (-(2**62), 2**62)
_COUNT = f.integer(0, 2**53)
_CODES = f.integers(0, 2**31 - 1)


def region_to_json(region: Region) -> dict[str, Any]:
    """Plain JSON data of a region."""
    tables, score = region.tables, region.score_tables
    known: dict[str, Any] = {
        "schema": schema_to_json(region.schema),
        "space": f.plain(region.space),
        "domain": {name: f.plain(getattr(tables, name)) for name in _DOMAIN},
        "score": None if score is None else f.plain(replace(score, trees=None)),
        "tau": tables.tau,
    }
    if score is not None and score.trees is not None:
        known["score"]["trees"] = _trees_to_json(score.trees)
    others = {name: f.plain(getattr(region, name)) for name in _FIELDS if name not in known}
    return f.write_document(known | others, FORMAT)


_DOMAIN = ("allowed", "forbidden", "at_least_one")
_FIELDS: dict[str, f.Reader] = {
    **dict.fromkeys(("schema", "space", "domain", "score"), f.anything),  # they need one another
    "score_name": f.text(),
    "alpha": f.LEVEL,
    "tau": f.optional(f.integer(*_SCORES)),
    "n_fit": _COUNT,
    "n_cal": _COUNT,
    "calibration": f.integers(*_SCORES),
    "indifference": f.LEVEL,
    "delta": f.optional(f.number(0, exclude=(0,))),
    "cuts": f.sequence(f.number()),
    "n_outputs": f.integer(1, 2**31 - 1),
    "thresholds": f.sequence(f.number()),
    "overlap": f.optional(f.record_of(Overlap)),
    "model_digest": f.digest,
    "nesting": f.optional(f.record({"share": f.SHARE, "tau": f.integers(*_SCORES), "delta": f.floats()}, RegionLadder)),
}


def region_fields(document: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    """The constructor arguments of a Region, everything checked.

    Raises
    ------
    MalformedModelError
        Not JSON, another format or version, or fields that do not fit one another.
    """
    with f.reading("region file", "Write it again with Region.save"):
        return _fields(f.read(f.open_document(document, FORMAT), _FIELDS))


def _fields(data: dict[str, Any]) -> dict[str, Any]:
    tau, delta, nesting, overlap = (data[name] for name in ("tau", "delta", "nesting", "overlap"))
    schema = schema_from_json(data.pop("schema"), "schema")
    require(0 < schema.n_features <= 2**22, "'schema.n_features' is 0 or too large")
    space = _space_from_json(data.pop("space"), schema)
    reads_alike = space.comparison is schema.comparison
    reads_alike &= np.array_equal(space.missing_value, schema.missing_value, equal_nan=True)
    require(reads_alike, "schema and space compare differently")
    score = data.pop("score")
    score = None if score is None else _score_from_json(score, space)
    require(score is not None or (tau is None and nesting is None), "there is a 'tau' or 'nesting' but no 'score'")
    calibration = data["calibration"]
    require(len(calibration) <= data["n_cal"], "'calibration' has more entries than 'n_cal'")
    require(bool(np.all(np.diff(calibration) >= 0)), "'calibration' is not ascending")
    require(bool(data["cuts"]) == (data["n_outputs"] == 1), "'cuts' go with one output, and only with one")
    require(delta is None or (data["indifference"] > 0 and tau is not None), "'delta' without guarantee")
    if overlap is not None:
        fits = overlap.n_seen <= overlap.n_rows == data["n_cal"]
        require(fits, "'overlap.n_rows' is not 'n_cal', or 'overlap.n_seen' is larger")
    if nesting is not None:
        require(len(nesting.tau) == len(nesting.delta) > 0, "'nesting.tau' and 'nesting.delta' differ in length")
        require(bool(np.all(np.diff(nesting.tau) >= 0)), "'nesting.tau' falls")
        falls = bool(np.all(np.diff(nesting.delta) <= 0)) and nesting.delta[-1] == 0
        require(falls, "'nesting.delta' rises or does not end with 0")
    tables = _domain_from_json(data.pop("domain"), space, score, data.pop("tau"))
    return {**data, "schema": schema, "space": space, "score_tables": score, "tables": tables}


def _domain_from_json(section: Any, space: StateSpace, score: ScoreTables | None, tau: int | None) -> RegionTables:
    feature, n_states = f.integer(0, space.n_features - 1), space.n_states.tolist()

    def pair(value: Any, where: str) -> ForbiddenPair:
        data = f.read(value, {"first": feature, "second": feature, "forbidden": f.anything}, where)
        first, second = data["first"], data["second"]
        rows = f.sequence(f.flags(n_states[second]), n_states[first])(data["forbidden"], where)
        return ForbiddenPair(first, second, np.stack(rows))

    def literal(value: Any, where: str) -> tuple[int, BoolArray]:
        j, states = f.sequence(f.anything, 2)(value, where)
        return j, f.flags(n_states[feature(j, where)])(states, where)

    lists = (f.sequence(f.anything, space.n_features), f.sequence(pair), f.sequence(f.sequence(literal)))
    data = f.read(section, dict(zip(_DOMAIN, lists, strict=True)), "domain")
    allowed = tuple(f.flags(n)(flags, "domain.allowed") for n, flags in zip(n_states, data["allowed"], strict=True))
    return RegionTables(allowed, data["forbidden"], data["at_least_one"], score if tau is not None else None, tau)


def _space_from_json(section: Any, schema: InputSchema) -> StateSpace:
    """The state space of a region file, every state accounted for."""
    table: dict[str, f.Reader] = {
        "comparison": f.member_of(Comparison),
        "category_rule": f.member_of(CategoryRule),
        "snaps_to_zero": f.flag,
        "missing_value": f.nan_as_null,
        "axes": f.sequence(_axis_from_json, schema.n_features),
    }
    return StateSpace(**f.read(section, table, "space"))


_STATE = f.integer(-1, 2**31 - 1)
_AXIS: dict[str, f.Reader] = {
    "edges": f.floats(finite=False),
    "n_states": f.integer(1, 2**31 - 1),
    **dict.fromkeys(("missing_state", "zero_state", "other_state"), _STATE),
    "codes": f.optional(_CODES),
    "code_states": f.optional(_CODES),
    "n_known": f.optional(f.integer(0, 2**31 - 1)),
    "reachable": f.anything,
}


def _axis_from_json(section: Any, where: str) -> Axis:
    data = f.read(section, _AXIS, where)
    edges, codes, code_states, n_states = (data[name] for name in ("edges", "codes", "code_states", "n_states"))
    missing, zero, other = (data[name] for name in ("missing_state", "zero_state", "other_state"))
    require(bool(np.all(np.diff(edges) > 0)), f"the edges of {where!r} do not ascend")
    # intervals or groups of codes, and at most two special states
    most = len(edges) + 3 if codes is None else len(codes) + 2
    require(n_states <= most, f"'n_states' is {n_states}, at most {most} are possible for {where!r}")
    require(max(missing, zero, other) < n_states, f"a special state of {where!r} is not below 'n_states'")
    if codes is not None:
        fits = code_states is not None and len(codes) == len(code_states)
        require(fits, f"'codes' and 'code_states' of {where!r} differ in length")
        require(bool(np.all(np.diff(codes) > 0)), f"the codes of {where!r} do not ascend")
        require(len(edges) == 0 and zero == -1, f"{where!r} is categorical and has edges")
        special = {missing, other, *code_states.tolist()} - {-1}
        require(special == set(range(n_states)), f"a state of {where!r} means nothing")
    else:
        require(code_states is None and other == -1, f"{where!r} is numeric and has categories")
        n_intervals = len(edges) + 1
        special = {s for s in (missing, zero) if s >= n_intervals}
        expected = set(range(n_intervals, n_states))
        require(special == expected and n_states >= n_intervals, f"a state of {where!r} is unknown")
        require(zero == -1 or zero >= n_intervals, f"'zero_state' of {where!r} is an interval")
    reachable = f.optional(f.flags(n_states))(data["reachable"], f"{where}.reachable")
    return Axis(edges, n_states, missing, zero, codes, code_states, other, data["n_known"], reachable)


def _score_from_json(section: Any, space: StateSpace) -> ScoreTables:
    """The score of a region file, checked against its space."""
    costs, feature = f.sequence(f.integers(*_SCORES), space.n_features), f.integer(0, space.n_features - 1)
    table: dict[str, f.Reader] = {
        "scale": f.integer(1, 2**53),
        **dict.fromkeys(("bins", "unary"), costs),
        "pairs": f.sequence(f.record({"first": feature, "second": feature, "cost": _matrix}, PairTable)),
        "trees": f.optional(lambda value, where: _trees_from_json(value, where, space)),
    }
    try:
        score = ScoreTables(**f.read(section, table, "score"))
        check_tables(score, space)
    except (InvalidInputError, MalformedModelError) as error:
        raise f.FieldError(str(error).removesuffix(".")) from error
    return score


def _matrix(value: Any, where: str) -> IntArray:
    rows = f.sequence(f.integers(*_SCORES))(value, where)
    require(len({len(row) for row in rows}) == 1, f"{where!r} is empty, or its rows differ in length")
    return np.stack(rows)


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


def _trees_from_json(section: Any, where: str, space: StateSpace) -> TreeCost:
    """Rebuild what `routing.route` gave; what follows from the structure is not stored."""
    nodes = f.integers(-1, 2**31 - 1)
    table: dict[str, f.Reader] = {
        **dict.fromkeys(("root", "left", "right", "rank"), nodes),
        "feature": f.integers(0, space.n_features - 1),
        "special_left": f.anything,
        "cost": f.integers(*_SCORES),
        "of_model": f.flag,
    }
    data = f.read(section, table, where)
    root, left, right, feature, rank = (data[name] for name in ("root", "left", "right", "feature", "rank"))
    require(len(left) == len(right) == len(feature) == len(rank), "tree arrays differ in length")
    is_leaf = left < 0
    require(len(root) > 0 and root[0] == 0 and bool(np.all(np.diff(root) > 0)), "the roots do not ascend from 0")
    require(root[-1] < len(left), "a root is no node")
    require(np.array_equal(right < 0, is_leaf), "a node has one child")
    require_trees(root, is_leaf, left, right)
    first_special, special_offset, n_sides = special_places(space, feature, is_leaf)
    is_rank = (rank >= 0) & (rank < first_special - 1)
    require(bool(np.all(is_rank[~is_leaf & (first_special > 0)])), "a rank names no threshold")
    trees = make_trees(
        root,
        is_leaf,
        left,
        right,
        feature=feature,
        rank=rank,
        first_special=first_special,
        special_offset=special_offset,
        special_left=f.flags(n_sides)(data["special_left"], f"{where}.special_left"),
        n_states=space.n_states,
    )
    return TreeCost(trees, data["cost"], data["of_model"])
