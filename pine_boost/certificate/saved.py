"""A saved result: the folder with a certificate, its region and the pruned model, and folders of sweeps."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pine_boost import json_fields as f
from pine_boost.certificate.certificate import Certificate, require
from pine_boost.errors import CertificateMismatch, InvalidInputError
from pine_boost.files import CERTIFICATE_LIMIT, path_of, read_limited, refuse_average
from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import Model
from pine_boost.parsers import read_model
from pine_boost.parsers.traits import warn_if_untested
from pine_boost.region.region import Region

MODEL_SUFFIXES = ("json", "ubj", "txt", "pkl")
CERTIFICATE, REGION, REPORT = "certificate.json", "region.json", "report.html"
COMPRESSION = "compression.json"  # what a folder of the other kind holds
WHOLE_MODEL = "whole_model.pkl"  # the model with the layers around the ensemble
SWEEP_JSON, SWEEP_CSV = "sweep.json", "sweep.csv"


@dataclass(frozen=True, eq=False)
class Saved:
    """A folder that `PruneResult.save` wrote."""

    certificate: Certificate
    region: Region
    model: Path


def read_saved(folder: str | os.PathLike[str]) -> Saved:
    """Read certificate and region of a folder and find its model file.

    Raises
    ------
    InvalidInputError
        The folder lacks a file, or is one that a sweep wrote with a folder per alpha in it.
    CertificateMismatch
        The region is not the one that the certificate names.
    """
    folder = path_of(folder)
    certificate = Certificate.load(_existing(folder, CERTIFICATE))
    region = Region.load(_existing(folder, REGION))
    if region.fingerprint() != certificate.region_fingerprint:
        raise CertificateMismatch(f"{folder / REGION} is not the certificate's region.")
    return Saved(certificate, region, model_path(folder))


def read_named(
    model: Any,
    stated: Any,
    role: str,
    what: str,
    *,
    decision: str = "class",
    trust_pickle: bool = False,
    asks_library: bool = True,
) -> Model:
    """The original, pruned or compressed model of a saved result, which ``stated`` names by its digest.

    ``stated`` has the thresholds and versions of the result; ``what`` it is appears in the error for another model.
    """
    parsed: Model = model
    digest = getattr(stated, f"{role}_digest")
    if not isinstance(model, Model):
        thresholds = tuple(stated.thresholds) or None
        how: dict[str, Any] = {"decision": decision, "trust_pickle": trust_pickle, "asks_library": asks_library}
        parsed = read_model(model, threshold=thresholds, digest=digest, **how)
    name = model if isinstance(model, (str, os.PathLike)) else f"The {role} model given"
    require(forest_digest(parsed.forest) == digest, f"{name} is not the {role} model that the {what} names.")
    warn_if_untested(parsed.forest.library, stated.versions)
    return parsed


def result_folders(folder: str | os.PathLike[str]) -> tuple[Path, ...]:
    """The folder itself, or those of its alphas where a sweep wrote it; ascending in alpha."""
    folder = path_of(folder)
    if (folder / CERTIFICATE).is_file() or not (folder / SWEEP_JSON).is_file():
        return (folder,)
    rows = read_table(folder / SWEEP_JSON)
    inner = tuple(folder / f"alpha-{row['alpha']:g}" for row in rows)
    return tuple(path for path in inner if path.is_dir()) or (folder,)


def model_path(folder: Path) -> Path:
    """The one native model file of a folder: the one its certificate names, else any."""
    found = [folder / f"model.{suffix}" for suffix in MODEL_SUFFIXES]
    found = [path for path in found if path.is_file()]
    if len(found) > 1 and (folder / CERTIFICATE).is_file():
        named = Certificate.load(folder / CERTIFICATE).files
        found = [path for path in found if path.name in named] or found
    if len(found) != 1:
        refuse_average(folder)
        names = ", ".join(path.name for path in found) or "none"
        raise InvalidInputError(f"{folder} must hold one model file (model.json, .ubj, .txt or .pkl); found {names}.")
    return found[0]


def digests(files: Mapping[str, bytes]) -> dict[str, str]:
    """SHA-256 of every file's bytes."""
    return {name: hashlib.sha256(contents).hexdigest() for name, contents in files.items()}


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows of a sweep.json, as far as a report and a folder need them checked."""
    with f.reading("sweep file", "Sweep again", InvalidInputError):
        rows: list[dict[str, Any]] = f.parse_text(
            read_limited(path, CERTIFICATE_LIMIT, "sweep file", InvalidInputError)
        )
        f.require(isinstance(rows, list) and len(rows) > 0, "expected a list of rows")
        for row in rows:
            is_like_first = isinstance(row, dict) and row.keys() == rows[0].keys()
            f.require(is_like_first, "a row is not an object with the columns of the first")
            f.mapping(f.optional(f.scalar))(row, "a row")
            shown = {name: row.get(name) for name in _SWEPT}
            f.read(shown, _SWEPT, "a row")
    return rows


_SWEPT: dict[str, f.Reader] = {"alpha": f.LEVEL, "removed": f.number(-1, 1), "trees": f.integer(0), "status": f.text()}


def table_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows with the same columns, such as those of a sweep, as CSV."""
    return csv_bytes(list(rows[0]), ([row[name] for name in rows[0]] for row in rows))


def csv_bytes(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """A header and rows as CSV."""
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    return text.getvalue().encode()


def table_json(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows of a sweep as JSON."""
    return (json.dumps(rows, indent=1) + "\n").encode()


def _existing(folder: Path, name: str) -> Path:
    path = folder / name
    if path.is_file():
        return path
    refuse_average(folder)
    if (folder / SWEEP_JSON).is_file():
        inner = ", ".join(path.name for path in result_folders(folder)[:8])
        raise InvalidInputError(f"{folder} holds a sweep; name one of its folders: {inner}.")
    if (folder / COMPRESSION).is_file():
        raise InvalidInputError(
            f"{folder} holds a compression, a statistic without a region or certificate (there is "
            f"a {COMPRESSION}, no {name}); name a folder that pine-boost prune wrote. pine-boost "
            "verify and guard take a compression too."
        )
    raise InvalidInputError(f"{path} does not exist; name a folder that pine-boost prune or PruneResult.save wrote.")
