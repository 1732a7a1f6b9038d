"""Rows that a survey has looked at cannot carry a promise any more: they raise."""

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
    """What `pine_boost.survey` returns knows its rows by their hashes."""

    @property
    def hashes(self) -> Hashes:
        """One hash for each row that was looked at."""


Spent = HasHashes | str | os.PathLike[str]


def refuse_spent(spent: Spent | None, hashes: Hashes, name: str) -> None:
    """Refuse rows, by their hashes, that a survey has looked at; None: there was no survey.

    Raises
    ------
    InvalidInputError
        More of the rows were looked at than would repeat by chance, or ``spent`` is no survey.
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
    """The hashes of the rows that a saved survey has looked at."""
    return np.array(read_survey(path)["hashes"], dtype=np.uint64)


def read_survey(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a saved survey."""
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
