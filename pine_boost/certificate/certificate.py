"""The certificate: what was proved, by which methods, about which files.

In come the parsed models, the region and the proofs; out goes plain JSON with a format version.
Only a CERTIFIED certificate carries a claim; nothing here proves anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from functools import cache
from importlib import metadata
from typing import Any

from pine_boost._version import __version__
from pine_boost.certificate.bound_record import BoundRecord, parse_bound
from pine_boost.certificate.serving_record import parse_serving
from pine_boost.errors import CertificateMismatch
from pine_boost.files import CERTIFICATE_LIMIT, clear_errors, path_of, read_limited, write_file
from pine_boost.json_fields import parse, reading, record, require
from pine_boost.parsers.traits import traits_of
from pine_boost.region.margins import ServingMargin

FORMAT = "pine_boost certificate"
FORMAT_VERSION = 5
# 1 had no digest of its own; 2 neither date nor names of files; 3 knew weights of whole trees
# only, 4 a fixed share of toss-ups only. Files of all can still be read.
_SINCE_3: dict[str, Any] = {
    "date": "",
    "model_name": "",
    "files": {},
    "narrowed": False,
    "native_band": 0.0,
    "overlap": 0.0,
    "overlap_evident": False,
    "rests_on": [],
    "fitted_with": {},
    "bound": None,
}
_SINCE_4: dict[str, Any] = {"reweight": "tree"}
_SINCE_5: dict[str, Any] = {"sureness": 0.0, "toss_ups": 0.0, "choice": "", "serving": None}
_REWEIGHTS = ("tree", "leaf")
_REMEDY = "Take the file that prune_booster wrote"


class Status(Enum):
    """CERTIFIED carries a claim, NOT_CERTIFIED none; there is nothing in between."""

    CERTIFIED = "CERTIFIED"
    NOT_CERTIFIED = "NOT_CERTIFIED"


@dataclass(frozen=True)
class QuestionProof:
    """One method's answer to one question."""

    question: str
    method: str
    answer: str


@dataclass(frozen=True, repr=False)
class Certificate:
    """What an auditor reads; `to_json` and `from_json` are inverse to one another.

    Attributes
    ----------
    status : str
        A `Status`.
    claim : str
        What is promised (`claim.claim_of`), true as it stands; empty unless CERTIFIED.
    reason : str
        Why there is no claim or why the model is not smaller; empty otherwise.
    original_digest, pruned_digest : str
        `forest_digest` of the two models as parsed from what was given and what was written.
    region_fingerprint : str
    alpha, tau, n_cal, n_fit, score, indifference, delta, narrowed, overlap : of the region
        ``narrowed``: a domain leaves inputs out. ``overlap``: the share of the calibration rows
        that were found among the fit rows, beyond what chance explains; ``overlap_evident``: more
        than 1 %, and not by chance (``allow_overlap=True`` was given).
    undecided : float
        Inputs whose exact margin is nearer than this to a cut are not part of the claim.
    native_band : float
        The part of ``undecided`` that is rounding of the original's own sum.
    undecided_exists : bool or None
        Whether the region holds such an input at all; None: not settled within the effort.
    grid : int
        Leaves of the pruned model are multiples of ``2**-grid``; -1 where the original is kept.
    trees_before, trees_after, leaves_before, leaves_after : int
    unit, objective : str
    units_before, units_kept, lower_bound : int
        In units of the search (rounds, trees or leaves).
    optimal : bool
    bound : BoundRecord or None
        Rows and multipliers that prove the lower bound; None where it is 1.
    kept : tuple of int
        Indices of the kept trees.
    weights : tuple of float
        Their weights relative to the original; 1 where leaf values were chosen anew.
    reweight : str
        ``"tree"``: leaves of a kept tree are a multiple of the original's, constants aside;
        ``"leaf"``: they have values of their own. The lower bound is about the same form.
    sureness : float
        At least so sure of its class (a probability against any other class, rounded up) the
        original is at least ``delta`` away from its decision; 0 where no link says it.
    toss_ups : float
        The part of alpha that was meant for toss-ups, where calibration chose tau and delta
        together; else 0.
    choice : str
        How that part was chosen; empty where there was nothing to choose.
    serving : ServingMargin or None
        From which own margin on the pruned model alone tells the original's class.
    probability_shift : mapping
        Mean, largest and Brier change of the ensemble's probabilities (before any calibrator
        around it) on X_fit.
    proofs : tuple of QuestionProof
    versions : mapping
    timings : mapping
        Seconds; with the date the only part that differs between two runs on the same inputs.
    date : str
        When it was issued (UTC).
    model_name : str
        Name of the file that was pruned; empty for a live object.
    files : mapping
        SHA-256 of the files that were saved with it, by name; empty before that. Not compared.
    rests_on : tuple of str
        What `verify` takes on the certificate's word unless it is given X_fit and X_cal.
    fitted_with : mapping
        ``n_bins`` and ``random_state`` of the score, to fit it anew.
    version : int
        Format version of the file that it was read from. Not compared.
    """

    status: str
    claim: str
    reason: str
    original_digest: str
    pruned_digest: str
    region_fingerprint: str
    alpha: float
    tau: int | None
    n_cal: int
    n_fit: int
    score: str
    indifference: float
    delta: float | None
    undecided: float
    undecided_exists: bool | None
    grid: int
    trees_before: int
    trees_after: int
    leaves_before: int
    leaves_after: int
    unit: str
    objective: str
    units_before: int
    units_kept: int
    lower_bound: int
    optimal: bool
    kept: tuple[int, ...]
    weights: tuple[float, ...]
    thresholds: tuple[float, ...]
    probability_shift: Mapping[str, float]
    proofs: tuple[QuestionProof, ...]
    versions: Mapping[str, str]
    timings: Mapping[str, float]
    date: str = field(default="", compare=False)
    model_name: str = ""
    files: Mapping[str, str] = field(default_factory=dict, compare=False)
    narrowed: bool = False
    native_band: float = 0.0
    overlap: float = 0.0
    overlap_evident: bool = False
    rests_on: tuple[str, ...] = ()
    fitted_with: Mapping[str, int] = field(default_factory=dict)
    bound: BoundRecord | None = field(default=None, repr=False)
    reweight: str = "tree"
    sureness: float = 0.0
    toss_ups: float = 0.0
    choice: str = ""
    serving: ServingMargin | None = None
    version: int = field(default=FORMAT_VERSION, compare=False, repr=False)

    @property
    def has_digest(self) -> bool:
        """Whether the file carries a digest of its own; format version 1 does not."""
        return self.version > 1

    def __repr__(self) -> str:
        return f"<Certificate {self.status}: {self.trees_before} -> {self.trees_after} trees, alpha={self.alpha:g}>"

    def to_json(self) -> str:
        """The certificate as indented JSON text with its format, version and digest."""
        document = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(self)}
        del document["version"]
        document["digest"] = _digest(document)
        return json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """Read what `to_json` wrote; anything else raises CertificateMismatch.

        The digest is a checksum: it tells of damage and of edits by hand. It is no signature;
        whoever writes a new digest is caught by `verify` where a field follows from the models.
        """
        if not isinstance(text, (str, bytes, bytearray)):
            raise CertificateMismatch(f"A certificate is read from text or bytes, not from {type(text).__name__}.")
        with reading("certificate", _REMEDY, CertificateMismatch):
            document = dict(parse(text))
            name = document.pop("format", None)
            require(name == FORMAT, f"'format' is {name!r}, not {FORMAT!r}")
        version = document.pop("format_version", None)
        if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
            raise CertificateMismatch(
                f"The certificate has format version {repr(version)[:40]}; this pine_boost reads "
                f"1 to {FORMAT_VERSION}. Use the version of pine_boost that wrote it."
            )
        if version == 1:
            return cls(**_checked(document, version), version=version)
        stated = document.pop("digest", None)
        checked = _checked(document, version)
        if stated != _digest({"format": FORMAT, "format_version": version, **document}):
            raise CertificateMismatch(
                "The certificate was changed after it was written: its digest does not fit its "
                "fields. Take the file that prune_booster wrote."
            )
        return cls(**checked, version=version)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate to a file; an existing one is replaced only when complete."""
        path = path_of(path, "file")
        with clear_errors(path):
            write_file(path, self.to_json().encode("utf-8"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a certificate file."""
        return cls.from_json(read_limited(path, CERTIFICATE_LIMIT, "certificate file", CertificateMismatch))


def _digest(document: dict[str, Any]) -> str:
    """SHA-256 of everything but date and timings, which no two runs share."""
    covered = {name: value for name, value in document.items() if name not in ("timings", "date")}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _checked(document: dict[str, Any], version: int) -> dict[str, Any]:
    """Types of all fields, as this is untrusted input."""
    with reading("certificate", _REMEDY, CertificateMismatch):
        since = {3: _SINCE_3, 4: _SINCE_4, 5: _SINCE_5}
        later = {k: v for n, added in since.items() if version < n for k, v in added.items()}
        require(not set(document) & set(later), "fields of a later version")
        document = {**document, **later}
        checked = record(document, _kinds(Certificate, leave_out="version"))
        known = {status.value for status in Status}
        require(checked["status"] in known, f"unknown status {checked['status']!r}")
        require(checked["reweight"] in _REWEIGHTS, f"unknown reweight {checked['reweight']!r}")
        proofs = (record(proof, _kinds(QuestionProof)) for proof in checked["proofs"])
        checked["bound"] = parse_bound(checked["bound"])
        checked["serving"] = parse_serving(checked["serving"])
        return {**checked, "proofs": tuple(QuestionProof(**proof) for proof in proofs)}


def _kinds(kind: type[Any], leave_out: str = "") -> dict[str, str]:
    return {entry.name: str(entry.type) for entry in fields(kind) if entry.name != leave_out}


def library_versions(library: str) -> dict[str, str]:
    """Versions of everything that took part."""
    versions = {"pine_boost": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "ortools", *traits_of(library).packages):
        if (installed := _installed_version(name)) is not None:
            versions[name] = installed
    return versions


@cache  # looking it up reads the file system, and it does not change while this process runs
def _installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
