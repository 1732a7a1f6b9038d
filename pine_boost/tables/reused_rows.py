"""Raise on rows that a survey has already used: they no longer support a guarantee."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np

from pine_boost import json_fields as f
from pine_boost.errors import InvalidInputError
from pine_boost.files import CERTIFICATE_LIMIT, read_limited
from pine_boost.tables.overlap import Hashes, count_overlap

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
        looked_at = read_hashes(spent)
    elif isinstance(getattr(spent, "hashes", None), np.ndarray):
        looked_at = spent.hashes
    else:
        raise InvalidInputError(
            f"spent is a {type(spent).__name__}: what pine_boost.survey returned is accepted, or "
            "the path of the file that it was saved to."
        )
    found = count_overlap(looked_at, hashes)
    if found.is_evident:
        raise InvalidInputError(
            f"{found.n_seen} of the {len(hashes)} rows of {name} were looked at by a survey and "
            "cannot carry a promise any more. Split a table before surveying and keep one part."
        )


def read_hashes(path: str | os.PathLike[str]) -> Hashes:
    """Read the hashes of the rows that a saved survey has used."""
    return np.array(read_survey(path)["hashes"], dtype=np.uint64)


def read_survey(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields of a saved survey."""
    contents = read_limited(path, CERTIFICATE_LIMIT, "survey file", InvalidInputError)
    with f.reading("survey file", "Use the file that Survey.save wrote", InvalidInputError):
        return f.read(f.open_document(contents, SURVEY_FORMAT), _FIELDS)


_COUNT = f.integer(0, 2**53)
_FIELDS: dict[str, f.Reader] = {
    "offers": f.sequence(
        f.record(
            {
                **dict.fromkeys(("promise", "note", "call", "command"), f.text()),
                **dict.fromkeys(("trees", "leaves", "bytes"), _COUNT),
                "speed": f.optional(f.number(0)),
            }
        )
    ),
    "seconds": f.number(0),
    "hashes": f.sequence(f.integer(0, 2**64 - 1)),
}
