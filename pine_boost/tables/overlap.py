"""Detect held-out rows that occur in another table, or in a survey, more often than chance explains.

No model stores its training rows, so finding no overlap proves nothing.
"""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost.errors import HoldoutWarning, InvalidInputError, class_with_article
from pine_boost.files import CERTIFICATE_LIMIT, read_limited
from pine_boost.model.forest import FloatArray
from pine_boost.tables.rows import Rows

_LOGGER = logging.getLogger("pine_boost")
Hashes = npt.NDArray[np.uint64]
MOST_OVERLAP = 0.01  # share of the held-out rows, beyond what chance explains
# Upper bound on the probability of rejecting rows drawn like the seen ones.
CHANCE = 1e-3


@dataclass(frozen=True)
class Overlap:
    """Rows of a held-out table that equal some seen row in every cell.

    Attributes
    ----------
    n_rows : int
        Rows of the held-out table.
    n_seen : int
        Held-out rows that occur in the seen table.
    n_expected : float
        How many would occur by chance: the share of the seen rows that repeat among the other seen
        rows, times ``n_rows``. For exchangeable rows both shares have the same expectation, however
        coarse the features are, so a table of few discrete features is not mistaken for a leak.
    p_value : float
        Bound on the probability of at least this many by chance, had the rows of both been shuffled.
    """

    n_rows: f.Count
    n_seen: f.Count
    n_expected: f.Size
    p_value: f.Part

    @property
    def share(self) -> float:
        """Share of the held-out rows that were seen, beyond what is expected; at least 0."""
        return max(0.0, (self.n_seen - self.n_expected) / self.n_rows)

    @property
    def is_evident(self) -> bool:
        """Whether the excess is more than 1% and not explained by chance."""
        return self.share > MOST_OVERLAP and self.p_value < CHANCE


def row_hashes(matrix: FloatArray) -> Hashes:
    """Return a 64-bit hash per row, equal for rows that no tree can distinguish.

    Two different rows collide with probability 2**-64. Among ten million rows, some pair collides
    in 3 of a million tables, which raises a count by one.
    """
    mixed = np.zeros(len(matrix), dtype=np.uint64)
    for feature in range(matrix.shape[1]):
        column = matrix[:, feature] + 0.0  # -0.0 is 0.0
        column[np.isnan(column)] = np.nan  # one bit pattern
        mixed = _mix(mixed ^ _mix(column.view(np.uint64) + np.uint64(feature + 1)))
    return mixed


def hashes_of(rows: Rows) -> Hashes:
    """Compute `row_hashes` of all rows, chunk by chunk."""
    hashes, start = np.empty(rows.n_rows, dtype=np.uint64), 0
    for chunk in rows.map_values(row_hashes):
        hashes[start : start + len(chunk)] = chunk
        start += len(chunk)
    return hashes


def _mix(bits: Hashes) -> Hashes:
    """Apply the finaliser of SplitMix64: every input bit affects every output bit."""
    with np.errstate(over="ignore"):
        bits = bits ^ (bits >> np.uint64(30))
        bits *= np.uint64(0xBF58476D1CE4E5B9)
        bits ^= bits >> np.uint64(27)
        bits *= np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
        return bits


def count_overlap(seen: Hashes, held_out: Hashes) -> Overlap:
    """Count the held-out rows among the seen ones and the number expected by chance; sorts both arrays."""
    (rows, n_own), (others, n_other) = _distinct(seen), _distinct(held_out)
    place = np.minimum(np.searchsorted(rows, others), len(rows) - 1)
    is_shared = rows[place] == others
    n_seen = int(n_other[is_shared].sum())
    expected = n_own[n_own > 1].sum() / len(seen) * len(held_out)
    share = len(held_out) / (len(seen) + len(held_out))
    n_own[place[is_shared]] += n_other[is_shared]
    n_groups = np.zeros(1 + max(n_own.max(), n_other.max()), dtype=np.int64)
    for counts in (n_own, n_other[~is_shared]):
        n_groups += np.bincount(counts, minlength=len(n_groups))
    repeated = np.flatnonzero(n_groups)
    n_groups = n_groups[repeated]
    p_value = _chance(repeated[repeated > 1], n_groups[repeated > 1], n_seen, share)
    return Overlap(len(held_out), n_seen, float(expected), p_value)


def _distinct(hashes: Hashes) -> tuple[Hashes, npt.NDArray[np.int32]]:
    """Return the distinct hashes in ascending order and their counts; sorts in place to save memory."""
    hashes.sort()
    is_first = np.ones(len(hashes) + 1, dtype=bool)
    is_first[1:-1] = hashes[1:] != hashes[:-1]
    counts = np.diff(np.flatnonzero(is_first)).astype(np.int32)
    return hashes[is_first[:-1]], counts


def _chance(size: npt.NDArray[Any], n_groups: npt.NDArray[Any], found: int, share: float) -> float:
    """Bound the probability of ``found`` or more held-out rows with a seen twin.

    If the rows of both tables were shuffled, a group of ``m`` equal rows would put a
    Binomial(m, share) number of them among the held-out ones, and these have a seen twin unless
    the whole group is held out. Chernoff's bound is taken over groups, because equal rows are not
    independent: a test that counts single rows would overstate the evidence.
    """
    from scipy.optimize import minimize_scalar

    def exponent(t: float) -> float:
        grown = np.log1p(share * np.expm1(t))
        whole = size * (np.log(share) + t - grown)
        none = size * (np.log(share) - grown)
        log_mean = size * grown + np.log1p(np.exp(none) - np.exp(whole))
        return float((n_groups * log_mean).sum() - t * found)

    if found == 0:
        return 1.0
    best = minimize_scalar(exponent, bounds=(0.0, 20.0), method="bounded")
    return float(np.exp(min(0.0, best.fun)))


def check_overlap(overlap: Overlap, seen_name: str, name: str, allow_overlap: bool, stacklevel: int = 2) -> None:
    """Raise (or warn, if overlap is allowed) when held-out rows were evidently seen."""
    if overlap.n_seen:
        share = overlap.n_seen / overlap.n_rows
        _LOGGER.info("%.1f %% of the rows of %s also occur in %s", 100 * share, name, seen_name)
    if not overlap.is_evident:
        return
    found = (
        f"{overlap.n_seen} of the {overlap.n_rows} rows of {name} also occur in {seen_name} "
        f"({overlap.n_expected:.0f} would be expected by chance): calibrating or selecting on rows "
        "that the model or the score has seen breaks the guarantee."
    )
    if not allow_overlap:
        raise InvalidInputError(
            f"{found} Use rows that were held out; allow_overlap=True continues without the "
            "guarantee, and every claim says so.",
            option=(name, seen_name, "allow_overlap"),
        )
    warnings.warn(
        HoldoutWarning(f"{found} allow_overlap=True was given.", option=(name, seen_name, "allow_overlap")),
        stacklevel=stacklevel,
    )


SURVEY_FORMAT = "pine_boost survey"


class HasHashes(Protocol):
    """An object that holds the hashes of the rows it used, as `pine_boost.survey` returns."""

    @property
    def hashes(self) -> Hashes:
        """One hash for each row that was used."""


Spent = HasHashes | str | os.PathLike[str]


def refuse_spent(spent: Spent | None, hashes: Hashes, name: str) -> None:
    """Raise on rows, given by their hashes, that a survey has used; None means that there was no survey.

    Raises
    ------
    InvalidInputError
        More of the rows were used than would repeat by chance, or ``spent`` is not a survey.
    """
    if spent is None:
        return
    if isinstance(spent, (str, os.PathLike)):
        looked_at = np.array(read_survey(spent)["hashes"], dtype=np.uint64)
    elif isinstance(getattr(spent, "hashes", None), np.ndarray):
        looked_at = spent.hashes
    else:
        raise InvalidInputError(
            "spent must be what pine_boost.survey returned, or the path of the file that it was saved to, got "
            f"{class_with_article(spent)}."
        )
    found = count_overlap(looked_at, hashes)
    if found.is_evident:
        raise InvalidInputError(
            f"{found.n_seen} of the {len(hashes)} rows of {name} were used by a survey and "
            "can no longer support a promise. Split a table before surveying and keep one part."
        )


def read_survey(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields of a saved survey."""
    contents = read_limited(path, CERTIFICATE_LIMIT, "survey file", InvalidInputError)
    with f.reading("survey file", "Use the file that Survey.save wrote", InvalidInputError):
        fields = f.read(f.open_document(contents, SURVEY_FORMAT), _FIELDS)
        f.require(len(fields["offers"]) > 0, "'offers' is empty")
        return fields


_COUNT = f.integer(0, 2**53)
_FIELDS: dict[str, f.Reader] = {
    "offers": f.sequence(
        f.record(
            {
                **dict.fromkeys(("promise", "note", "call", "command"), f.text()),
                **dict.fromkeys(("trees", "leaves", "bytes"), _COUNT),
                "work": f.number(0),
                **dict.fromkeys(("speed_1", "speed_100", "speed_100000"), f.optional(f.number(0))),
            }
        )
    ),
    "seconds": f.number(0),
    "hashes": f.sequence(f.integer(0, 2**64 - 1)),
}
