"""Region files: JSON with a format version, read as untrusted input.

In comes a Region or a document; out goes plain JSON data or the checked fields of a Region.
Refuses other versions, unknown or absent keys, and every number that does not fit the others.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pine_boost import json_fields as f
from pine_boost.errors import MalformedModelError
from pine_boost.files import REGION_LIMIT, clear_errors, read_limited, write_file
from pine_boost.json_fields import require
from pine_boost.model.rules import CategoryRule, Comparison
from pine_boost.model.states import StateSpace
from pine_boost.region.score_tables import ForbiddenPair, RegionTables, ScoreTables
from pine_boost.region.table_storage import (
    nesting_from_json,
    nesting_to_json,
    score_from_json,
    score_to_json,
    space_from_json,
    space_to_json,
)
from pine_boost.tables.overlap import Overlap
from pine_boost.tables.schema import InputSchema

if TYPE_CHECKING:
    from pine_boost.region.region import Region

FORMAT = "pine_boost region"
FORMAT_VERSION = 3
_PLAIN = 2  # a region without a ladder is written as before there were any
_OLDEST = 1  # without the keys of `_LATER`; a region read from such a file is written as one
_LATER = ("thresholds", "overlap", "model_digest")
_UNCALIBRATED = (  # what another alpha or other calibration rows leave as it is
    "schema",
    "space",
    "domain",
    "score",
    "cuts",
    "n_outputs",
    "thresholds",
    "model_digest",
)


def canonical(document: Mapping[str, Any]) -> str:
    """The one text of a document: sorted keys, no spaces, shortest exact floats."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical text."""
    return hashlib.sha256(canonical(document).encode()).hexdigest()


def tables_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of what a region is apart from its calibration: regions with one of it are nested."""
    return fingerprint({name: document.get(name) for name in _UNCALIBRATED})


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
    tables, overlap = region.tables, region.overlap
    document = {
        "format": FORMAT,
        "format_version": _OLDEST if region.model_digest is None else _PLAIN,
        "schema": _schema_to_json(region.schema),
        "space": space_to_json(region.space),
        "domain": {
            "allowed": [f.write_flags(allowed) for allowed in tables.allowed],
            "forbidden": [
                [pair.first, pair.second, [f.write_flags(row) for row in pair.forbidden]] for pair in tables.forbidden
            ],
            "at_least_one": [
                [[feature, f.write_flags(literal)] for feature, literal in clause] for clause in tables.at_least_one
            ],
        },
        "score_name": region.score_name,
        "score": None if region.score_tables is None else score_to_json(region.score_tables),
        "alpha": region.alpha,
        "tau": region.tau,
        "n_fit": region.n_fit,
        "n_cal": region.n_cal,
        "calibration": region.calibration.tolist(),
        "indifference": region.indifference,
        "delta": region.delta,
        "cuts": list(region.cuts),
        "n_outputs": region.n_outputs,
        "thresholds": list(region.thresholds),
        "overlap": None if overlap is None else asdict(overlap),
        "model_digest": region.model_digest,
    }
    if region.model_digest is None:
        for key in _LATER:
            del document[key]
    if region.nesting is not None:
        document["format_version"] = FORMAT_VERSION
        document["nesting"] = nesting_to_json(region.nesting)
    return document


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
        type(version) is int and _OLDEST <= version <= FORMAT_VERSION,
        f"'format_version' is {version!r}; this release reads {_OLDEST} to {FORMAT_VERSION}",
    )
    later = " ".join(_LATER) if version != _OLDEST else ""
    f.keys(
        data,
        "format format_version schema space domain score_name score alpha tau n_fit n_cal "
        f"calibration indifference delta cuts n_outputs {later} "
        f"{'nesting' if version == FORMAT_VERSION else ''}",
    )
    schema = _schema_from_json(f.mapping(data, "schema"))
    space = space_from_json(f.mapping(data, "space"), schema)
    require(space.comparison is schema.comparison, "schema and space compare differently")
    score = None
    if data["score"] is not None:
        score = score_from_json(f.mapping(data, "score"), space)
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
    nesting = None
    if version == FORMAT_VERSION:
        require(score is not None, "there is a 'nesting' but no 'score'")
        nesting = nesting_from_json(f.mapping(data, "nesting"))
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
        "nesting": nesting,
        **(_later_fields(data, n_cal) if later else {}),
    }


def _later_fields(data: Mapping[str, Any], n_cal: int) -> dict[str, Any]:
    digest = f.text(data, "model_digest")
    require(len(digest) == 64, "'model_digest' is no SHA-256")
    overlap = None
    if data["overlap"] is not None:
        found = f.mapping(data, "overlap")
        f.keys(found, "n_rows n_seen n_expected p_value")
        n_rows = f.integer(found, "n_rows", n_cal, n_cal)
        n_seen = f.integer(found, "n_seen", 0, n_rows)
        overlap = Overlap(n_rows, n_seen, f.number(found, "n_expected"), f.number(found, "p_value"))
    thresholds = tuple(f.floats(data, "thresholds").tolist())
    return {"thresholds": thresholds, "overlap": overlap, "model_digest": digest}


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


def _domain_from_json(
    data: Mapping[str, Any], space: StateSpace, score: ScoreTables | None, tau: int | None
) -> RegionTables:
    f.keys(data, "allowed forbidden at_least_one")
    n_states = space.n_states.tolist()
    allowed = [f.flags(flags, n_states[j]) for j, flags in enumerate(f.sequence(data, "allowed", space.n_features))]
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
