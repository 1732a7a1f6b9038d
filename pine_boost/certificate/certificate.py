"""The certificate: what was proved, about which files; plain JSON that is read as untrusted input.

Only a CERTIFIED certificate carries a claim; nothing is proved here. Loads no solver.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Annotated, Any

from pine_boost import json_fields as f
from pine_boost import kernels
from pine_boost._version import __version__
from pine_boost.errors import CertificateMismatch
from pine_boost.files import CERTIFICATE_LIMIT, path_of, read_limited, save_file
from pine_boost.model.exact import LONGEST_MULTIPLIER
from pine_boost.options import MAX_BINS, OBJECTIVES, REWEIGHTS, UNITS
from pine_boost.parsers.traits import installed_version, traits_of
from pine_boost.region.margins import ServingMargin

FORMAT = "pine_boost certificate"


def require(condition: bool, message: str, *, option: str | tuple[str, ...] = ()) -> None:
    """Raise CertificateMismatch unless the condition holds."""
    if not condition:
        raise CertificateMismatch(message, option=option)


def require_fields(stated: Any, found: Mapping[str, Any], sentence: str) -> None:
    """Compare fields of a record with what was computed again; ``sentence`` formats name, stated and found."""
    for name, value in found.items():
        own = getattr(stated, name)
        if own != value:
            raise CertificateMismatch(sentence.format(name=name, stated=own, found=value))


class Status(Enum):
    """CERTIFIED carries a claim, NOT_CERTIFIED none; there is nothing in between."""

    CERTIFIED = "CERTIFIED"
    NOT_CERTIFIED = "NOT_CERTIFIED"


@dataclass(frozen=True)
class QuestionProof:
    """One method that proved one question."""

    question: str
    method: str


def _multiplier(value: Any, where: str) -> str:
    longest = LONGEST_MULTIPLIER // 3  # decimal digits of so many bits are fewer
    fits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= longest
    f.require(fits, f"{where!r} is not the text of a whole number")
    return str(value)


@dataclass(frozen=True)
class CutRecord:
    """At least one of ``units`` is kept: the sum of ``rows``, each times its multiplier, shows it.

    Multipliers are texts: other readers of JSON would round large numbers.
    """

    units: tuple[f.Index, ...]
    rows: tuple[f.Index, ...]
    multipliers: tuple[Annotated[str, _multiplier], ...]


@dataclass(frozen=True)
class BoundRecord:
    """Why there is no model of this form with fewer units than the certificate's lower bound.

    Attributes
    ----------
    states : tuple of tuples of int
        The points that the bound rests on, as states of the region's features.
    questions : tuple of int
        Which side each of them must keep.
    outside : int
        How many of the points lie outside the region: rows of X_fit.
    cuts : tuple of CutRecord
    """

    states: tuple[tuple[f.Index, ...], ...]
    questions: tuple[f.Index, ...]
    outside: f.Count
    cuts: tuple[CutRecord, ...]


def _fitted_with(value: Any, where: str) -> dict[str, int]:
    options = {"n_bins": f.integer(1, MAX_BINS), "random_state": f.integer(0, 2**32 - 1)}
    return f.read(value, {}, where, optional=options)


@dataclass(frozen=True, repr=False)
class Certificate:
    """What an auditor reads; `to_json` and `from_json` are inverse to one another.

    Attributes
    ----------
    status : str
        A `Status`.
    claim : str
        What is promised (`claims.claim_of`), true as it stands; empty unless CERTIFIED.
    reason : str
        Why there is no claim or why the model is not smaller; empty otherwise.
    original_digest, pruned_digest : str
        `forest_digest` of the two models as parsed from what was given and what was written.
    region_fingerprint : str
    alpha, tau, n_cal, n_fit, score, indifference, delta, narrowed, overlap : of the region
        ``narrowed``: a domain leaves inputs out. ``overlap``: the share of the calibration rows
        that were found among the fit rows, beyond what chance explains; ``overlap_evident``: more
        than 1%, and not by chance (``allow_overlap=True`` was given).
    boundary_share : float
        The part of alpha that was meant for inputs near the decision boundary, where calibration
        chose tau and delta together; else 0.
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
    kept : tuple of int
        Indices of the kept trees.
    weights : tuple of float
        Their weights relative to the original; 1 where leaves have new values.
    thresholds : tuple of float
        The user's own decision thresholds.
    probability_shift : mapping
        Mean, largest and Brier change of the ensemble's probabilities (before any calibrator
        around it) on X_fit.
    proofs : tuple of QuestionProof
    versions : mapping
    timings : mapping
        Seconds; with the date the only part that differs between two runs on the same inputs.
    rests_on : tuple of str
        What `verify` takes on trust unless it is given X_fit and X_cal.
    sureness : str
        How sure of its class the original is from ``delta`` on (`claims.sureness_of`); empty where
        no link between margins and probabilities says it.
    bound : BoundRecord or None
        Rows and multipliers that prove the lower bound; None where it is 1.
    reweight : str
        ``"tree"``: leaves of a kept tree are a multiple of the original's, constants aside;
        ``"leaf"``: they have values of their own. The lower bound is about the same form.
    choice : str
        How ``boundary_share`` was chosen; empty where there was nothing to choose.
    serving : ServingMargin or None
        From which own margin on the pruned model alone gives the original's class.
    date : str
        When it was issued (UTC).
    model_name : str
        Name of the file that was pruned; empty for a live object.
    fitted_with : mapping
        ``n_bins`` and ``random_state`` of the score, to fit it again.
    files : mapping
        SHA-256 of the files that were saved with it, by name; empty before that. Not compared.
    """

    status: Annotated[str, f.text([status.value for status in Status])]
    claim: str
    reason: str
    original_digest: f.Digest
    pruned_digest: f.Digest
    region_fingerprint: f.Digest
    alpha: f.Level
    tau: int | None
    n_cal: f.Count
    n_fit: f.Count
    score: str
    indifference: f.Level
    delta: Annotated[float | None, f.optional(f.number(0, exclude=(0,)))]
    boundary_share: f.Level
    narrowed: bool
    overlap: f.Part
    overlap_evident: bool
    undecided: f.Size
    native_band: f.Size
    undecided_exists: bool | None
    grid: Annotated[int, f.integer(-1, 1000)]
    trees_before: f.Positive
    trees_after: f.Count
    leaves_before: f.Positive
    leaves_after: f.Count
    unit: Annotated[str, f.text(UNITS)]
    objective: Annotated[str, f.text(OBJECTIVES)]
    units_before: f.Positive
    units_kept: f.Count
    lower_bound: f.Count
    optimal: bool
    kept: tuple[f.Index, ...]
    weights: tuple[float, ...]
    thresholds: tuple[float, ...]
    probability_shift: Annotated[Mapping[str, float], f.record(dict.fromkeys(("mean", "maximum", "brier"), f.number()))]
    proofs: tuple[QuestionProof, ...]
    versions: Mapping[str, str]
    timings: Mapping[str, f.Size]
    rests_on: tuple[str, ...] = ()
    sureness: str = ""
    bound: BoundRecord | None = field(default=None, repr=False)
    reweight: Annotated[str, f.text(REWEIGHTS)] = "tree"
    choice: str = ""
    serving: ServingMargin | None = None
    date: str = field(default="", compare=False)
    model_name: str = ""
    fitted_with: Annotated[Mapping[str, int], _fitted_with] = field(default_factory=dict)
    files: Mapping[str, f.Digest] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        return f"<Certificate {self.status}: {self.trees_before} -> {self.trees_after} trees, alpha={self.alpha:g}>"

    def to_json(self) -> str:
        """The certificate as indented JSON text with its format, version and digest."""
        document = f.write_document(asdict(self), FORMAT, sealed=True)
        return json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """Read what `to_json` wrote; anything else raises CertificateMismatch.

        The digest is a checksum against damage and edits by hand, not a signature: what follows
        from models and region is computed again by `verify`.
        """
        if not isinstance(text, (str, bytes, bytearray)):
            raise CertificateMismatch(f"A certificate is read from text or bytes, got {type(text).__name__}.")
        with f.reading("certificate", "Use the file that prune_booster wrote", CertificateMismatch):
            found = cls(**f.read_sealed(text, FORMAT, f.table_of(cls)))
            if (margin := found.serving) is not None:
                f.require(margin.n_inside <= margin.n_cal, "'serving.n_inside' is larger than 'serving.n_cal'")
            return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate to a file; an existing one is replaced only when complete."""
        save_file(path_of(path, "file"), self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a certificate file."""
        return cls.from_json(read_limited(path, CERTIFICATE_LIMIT, "certificate file", CertificateMismatch))


def library_versions(library: str) -> dict[str, str]:
    """Versions of everything that took part, and which kernel ran."""
    versions = {"pine_boost": __version__, "python": platform.python_version(), "kernel": kernels.name()}
    for name in ("numpy", "scipy", "ortools", *traits_of(library).packages):
        if (installed := installed_version(name)) is not None:
            versions[name] = installed
    return versions
