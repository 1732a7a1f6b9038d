"""Region files: JSON with a format version, read as untrusted input.

In comes a Region or a document; out goes plain JSON data or the checked fields of a Region.
Refuses other versions, unknown or absent keys, and every number that does not fit the others.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pine_boost import json_fields as f
from pine_boost.errors import InvalidInputError, MalformedModelError
from pine_boost.files import REGION_LIMIT, clear_errors, read_limited, write_file
from pine_boost.json_fields import require
from pine_boost.model.forest import CategoryRule, Comparison
from pine_boost.model.routing import Shape, make_trees
from pine_boost.model.states import Axis, StateSpace
from pine_boost.region.score_tables import (
    ForbiddenPair,
    PairTable,
    RegionTables,
    ScoreTables,
    TreeCost,
)
from pine_boost.region.scores.fitting import check_tables
from pine_boost.tables.schema import InputSchema

if TYPE_CHECKING:
    from pine_boost.region.region import Region

FORMAT = "pine_boost region"
FORMAT_VERSION = 1


def canonical(document: Mapping[str, Any]) -> str:
    """The one text of a document: sorted keys, no spaces, shortest exact floats."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical text."""
    return hashlib.sha256(canonical(document).encode()).hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write under a temporary name in the same folder, then replace in one step."""
    with clear_errors(path):
        write_file(path, text.encode("utf-8"))


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a file; says which one when it is not there or no text."""
    contents = read_limited(path, REGION_LIMIT, "region file")
    try:
        return contents.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedModelError(f"{str(path)!r} is no region file: not UTF-8 text.") from error


def region_to_json(region: Region) -> dict[str, Any]:
    """Plain JSON data of a region."""
    tables = region.tables
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "schema": _schema_to_json(region.schema),
        "space": _space_to_json(region.space),
        "domain": {
            "allowed": [f.write_flags(allowed) for allowed in tables.allowed],
            "forbidden": [
                [pair.first, pair.second, [f.write_flags(row) for row in pair.forbidden]]
                for pair in tables.forbidden
            ],
            "at_least_one": [
                [[feature, f.write_flags(literal)] for feature, literal in clause]
                for clause in tables.at_least_one
            ],
        },
        "score_name": region.score_name,
        "score": None if region.score_tables is None else _score_to_json(region.score_tables),
        "alpha": region.alpha,
        "tau": region.tau,
        "n_fit": region.n_fit,
        "n_cal": region.n_cal,
        "calibration": region.calibration.tolist(),
        "indifference": region.indifference,
        "delta": region.delta,
        "cuts": list(region.cuts),
        "n_outputs": region.n_outputs,
    }


def region_fields(document: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    """The constructor arguments of a Region, everything checked.

    Raises
    ------
    MalformedModelError
        No JSON, another format or version, keys or numbers that do not belong together.
    """
    with f.reading("region file", "Write it again with Region.save"):
        return _fields(f.parse(document))


def _fields(data: Mapping[str, Any]) -> dict[str, Any]:
    require(data.get("format") == FORMAT, f"'format' is {data.get('format')!r}, not {FORMAT!r}")
    version = data.get("format_version")
    require(
        version == FORMAT_VERSION and type(version) is int,
        f"'format_version' is {version!r}; this release reads {FORMAT_VERSION}",
    )
    f.keys(
        data,
        "format format_version schema space domain score_name score alpha tau n_fit n_cal "
        "calibration indifference delta cuts n_outputs",
    )
    schema = _schema_from_json(f.mapping(data, "schema"))
    space = _space_from_json(f.mapping(data, "space"), schema)
    require(space.comparison is schema.comparison, "schema and space compare differently")
    score = None
    if data["score"] is not None:
        score = _score_from_json(f.mapping(data, "score"), space)
    tau = None if data["tau"] is None else f.integer(data, "tau")
    require(tau is None or score is not None, "there is a 'tau' but no 'score'")
    tables = _domain_from_json(f.mapping(data, "domain"), space, score, tau)
    n_cal, n_outputs = f.integer(data, "n_cal", 0), f.integer(data, "n_outputs", 1)
    calibration = f.integers(data, "calibration")
    require(len(calibration) <= n_cal, "more 'calibration' scores than 'n_cal'")
    require(bool(np.all(np.diff(calibration) >= 0)), "'calibration' is not ascending")
    cuts = tuple(f.floats(data, "cuts").tolist())
    require((len(cuts) > 0) == (n_outputs == 1), "'cuts' go with one output, and only with one")
    delta = None if data["delta"] is None else f.number(data, "delta")
    require(delta is None or delta > 0, "'delta' is not positive")
    alpha, indifference = f.number(data, "alpha"), f.number(data, "indifference")
    require(0 <= alpha < 1 and 0 <= indifference < 1, "'alpha' or 'indifference' is no level")
    require(delta is None or (indifference > 0 and tau is not None), "'delta' without guarantee")
    return {
        "space": space,
        "schema": schema,
        "tables": tables,
        "score_tables": score,
        "score_name": f.text(data, "score_name"),
        "alpha": alpha,
        "n_fit": f.integer(data, "n_fit", 0),
        "n_cal": n_cal,
        "calibration": calibration,
        "indifference": indifference,
        "delta": delta,
        "cuts": cuts,
        "n_outputs": n_outputs,
    }


def _schema_to_json(schema: InputSchema) -> dict[str, Any]:
    categories = [
        None if known is None else [f.write_category(category) for category in known]
        for known in schema.feature_categories
    ]
    return {
        "n_features": schema.n_features,
        "feature_names": None if schema.feature_names is None else list(schema.feature_names),
        "feature_categories": categories,
        "library": schema.library,
        "comparison": schema.comparison.name,
        "category_rule": schema.category_rule.name,
        "missing_value": None if np.isnan(schema.missing_value) else schema.missing_value,
        "sparse_zero_is_missing": schema.sparse_zero_is_missing,
        "accepts_missing": schema.accepts_missing,
    }


def _schema_from_json(data: Mapping[str, Any]) -> InputSchema:
    f.keys(
        data,
        "n_features feature_names feature_categories library comparison category_rule "
        "missing_value sparse_zero_is_missing accepts_missing",
    )
    n_features = f.integer(data, "n_features", 1)
    names = None
    if data["feature_names"] is not None:
        names = tuple(f.sequence(data, "feature_names", n_features))
        require(all(isinstance(name, str) for name in names), "a feature name is no text")
    categories = f.sequence(data, "feature_categories")
    require(len(categories) in (0, n_features), "'feature_categories' has another length")
    return InputSchema(
        n_features=n_features,
        feature_names=names,
        feature_categories=tuple(f.categories(known) for known in categories),
        library=f.text(data, "library"),
        comparison=f.member(data, "comparison", Comparison),
        category_rule=f.member(data, "category_rule", CategoryRule),
        missing_value=np.nan if data["missing_value"] is None else f.number(data, "missing_value"),
        sparse_zero_is_missing=f.flag(data, "sparse_zero_is_missing"),
        accepts_missing=f.flag(data, "accepts_missing"),
    )


def _space_to_json(space: StateSpace) -> dict[str, Any]:
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


def _space_from_json(data: Mapping[str, Any], schema: InputSchema) -> StateSpace:
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
    f.keys(
        data,
        "edges n_states missing_state zero_state codes code_states other_state n_known reachable",
    )
    edges = f.floats(data, "edges", finite=False)
    require(bool(np.all(np.diff(edges) > 0)), "the edges of a feature do not ascend")
    # intervals or groups of codes, and at most two special states
    most = len(edges) + 3 if data["codes"] is None else len(f.integers(data, "codes", 0)) + 2
    n_states = f.integer(data, "n_states", 1, most)
    last = n_states - 1
    missing, zero, other = (
        f.integer(data, key, -1, last) for key in ("missing_state", "zero_state", "other_state")
    )
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


def _domain_from_json(
    data: Mapping[str, Any], space: StateSpace, score: ScoreTables | None, tau: int | None
) -> RegionTables:
    f.keys(data, "allowed forbidden at_least_one")
    n_states = space.n_states.tolist()
    allowed = [
        f.flags(flags, n_states[j])
        for j, flags in enumerate(f.sequence(data, "allowed", space.n_features))
    ]
    forbidden = []
    for entry in f.sequence(data, "forbidden"):
        first, second, rows = f.unpack(entry, 3)
        first, second = (f.position(j, space.n_features) for j in (first, second))
        rows = f.unpack(rows, n_states[first])
        table = np.stack([f.flags(row, n_states[second]) for row in rows])
        forbidden.append(ForbiddenPair(first, second, table))
    clauses = []
    for clause in f.sequence(data, "at_least_one"):
        literals = []
        for literal in f.unpack(clause, None):
            feature, flags = f.unpack(literal, 2)
            feature = f.position(feature, space.n_features)
            literals.append((feature, f.flags(flags, n_states[feature])))
        clauses.append(tuple(literals))
    in_use = score if tau is not None else None
    return RegionTables(tuple(allowed), tuple(forbidden), tuple(clauses), in_use, tau)


def _score_to_json(score: ScoreTables) -> dict[str, Any]:
    return {
        "scale": score.scale,
        "bins": [table.tolist() for table in score.bins],
        "unary": [cost.tolist() for cost in score.unary],
        "pairs": [[pair.first, pair.second, pair.cost.tolist()] for pair in score.pairs],
        "trees": None if score.trees is None else _trees_to_json(score.trees),
    }


def _score_from_json(data: Mapping[str, Any], space: StateSpace) -> ScoreTables:
    f.keys(data, "scale bins unary pairs trees")
    bins, unary = (
        tuple(f.integer_list(entry) for entry in f.sequence(data, key, space.n_features))
        for key in ("bins", "unary")
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
        Shape(root, is_leaf, left, right), feature, rank, intervals[feature],
        np.cumsum(n_special) - n_special,
        f.flags(data["special_left"], int(n_special.sum()) + 1),
    )  # fmt: skip
    return TreeCost(trees, f.integers(data, "cost"), f.flag(data, "of_model"))
