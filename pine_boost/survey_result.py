"""What a survey found: a table of offers, and a check that refuses the rows it looked at for a later promise."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.files import clear_errors, path_of, write_file
from pine_boost.json_fields import write_document
from pine_boost.model.forest import Model
from pine_boost.notebooks import table_html
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.overlap import SURVEY_FORMAT, read_survey, refuse_spent, row_hashes
from pine_boost.tables.schema import schema_of


@dataclass(frozen=True)
class Offer:
    """One line of a survey.

    Attributes
    ----------
    promise : str
        What kind of promise would come with it, in words.
    trees, leaves, bytes : int
        Of the model that was found here; the original's where nothing smaller was.
    speed : float or None
        How many times as many rows per second on this machine, natively or by the scorer.
    note : str
        Why there is nothing, or what is open.
    call : str
        What to call for it, with rows that were not looked at.
    command : str
        The same for the command line; MODEL, FIT, ... stand for files.
    """

    promise: str
    trees: int
    leaves: int
    bytes: int
    speed: float | None
    note: str
    call: str
    command: str

    def figures(self) -> tuple[str, str, str, str]:
        """Trees, leaves, kilobytes and speed, as they are printed."""
        speed = "" if self.speed is None else f"{self.speed:.1f}x"
        return str(self.trees), str(self.leaves), f"{self.bytes / 1000:.0f}", speed

    def text(self) -> str:
        """The promise and the note."""
        return f"{self.promise} ({self.note})" if self.note else self.promise


@dataclass(frozen=True, eq=False, repr=False)
class Survey:
    """What can be had for one model; figures are estimates.

    Attributes
    ----------
    offers : tuple of Offer
        The original first, then accelerated, lossless, proved, compressed.
    n_look : int
        Rows that were looked at, and are spent by it.
    seconds : float
    hashes : uint64 (n_look,)
        By which `check` knows these rows again.
    model : Model
        The original, as parsed.
    """

    offers: tuple[Offer, ...]
    n_look: int
    seconds: float
    hashes: Any = field(repr=False)
    model: Model = field(repr=False)

    def table(self) -> list[dict[str, Any]]:
        """The offers as rows for a DataFrame or a CSV file."""
        return [asdict(offer) for offer in self.offers]

    def summary(self) -> str:
        """The table as text, and what its figures are worth."""
        lines = [f"{'trees':>6} {'leaves':>7} {'kB':>7} {'speed':>6}  promise"]
        for offer in self.offers:
            trees, leaves, size, speed = offer.figures()
            lines.append(f"{trees:>6} {leaves:>7} {size:>7} {speed:>6}  {offer.text()}")
            if offer.call:
                lines.append(f"{'':31}{offer.call}")
        return "\n".join([*lines, self._worth()])

    def _worth(self) -> str:
        return (
            f"These are estimates, because the table was made by looking at {self.n_look} rows. A promise needs other "
            f"rows; spent=survey (on the command line --spent with the saved survey) refuses these. "
            f"({self.seconds:.0f} s)"
        )

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """The table for notebooks."""
        rows = [(*offer.figures(), f"{offer.text()}\n{offer.call}".rstrip()) for offer in self.offers]
        return table_html(("trees", "leaves", "kB", "speed", "promise"), rows, self._worth())

    def check(self, X: Any) -> None:
        """Refuse rows for a promise if this survey has looked at them.

        Raises
        ------
        InvalidInputError
            More of the rows were looked at than would repeat by chance.
        """
        matrix = to_matrix(X, schema_of(self.model.forest), "X")
        refuse_spent(self, row_hashes(matrix), "X")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the table and the hashes of the rows as JSON."""
        fields = {"offers": self.table(), "seconds": self.seconds, "hashes": [int(value) for value in self.hashes]}
        document = write_document(fields, SURVEY_FORMAT)
        path = path_of(path, "file")
        with clear_errors(path):
            write_file(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
        return path


def load_survey(
    path: str | os.PathLike[str], model: Any, *, threshold: Any = None, trust_pickle: bool = False
) -> Survey:
    """Read a saved survey together with its model, to `Survey.check` rows against it.

    Parameters
    ----------
    path : path
        What `Survey.save` wrote.
    model : object, path or bytes
        The model that was surveyed.
    threshold : float or sequence of float, optional
        As it was surveyed.
    trust_pickle : bool
        Load a model from a pickle: only for files you made.

    Returns
    -------
    Survey

    Raises
    ------
    InvalidInputError
        The file is no survey.
    """
    fields = read_survey(path)
    offers = tuple(Offer(**offer) for offer in fields["offers"])
    hashes = np.array(fields["hashes"], dtype=np.uint64)
    parsed = read_model(model, threshold=threshold, trust_pickle=trust_pickle, decision="value")
    return Survey(offers, len(hashes), fields["seconds"], hashes, parsed)
