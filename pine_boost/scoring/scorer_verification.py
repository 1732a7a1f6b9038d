"""Proves a saved scorer again from the model and the folder alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError
from pine_boost.model.digest import forest_digest
from pine_boost.model.flatten import flatten
from pine_boost.model.forest import Model
from pine_boost.parsers import open_pickle, read_model
from pine_boost.pipelines.unwrapping import unwrap
from pine_boost.proof.exits import faults_of
from pine_boost.scoring.fast_scorer import ScorerParts
from pine_boost.scoring.native_sum import native_sum, probability_rule
from pine_boost.scoring.scorer_folder import read_parts
from pine_boost.tables.schema import schema_of


@dataclass(frozen=True)
class ScorerVerification:
    """Whether a scorer is what its manifest claims.

    Attributes
    ----------
    agrees : bool
        Trees, values, decision and exits were derived from the model again, and the exits proved.
    faults : tuple of str
        What is wrong, in the order in which it was found.
    claim : str
        What the manifest claims.
    n_stages : int
        Stages whose exits were proved.
    seconds : float
    """

    agrees: bool
    faults: tuple[str, ...]
    claim: str
    n_stages: int
    seconds: float

    def summary(self) -> str:
        """The verdict in a few lines."""
        if self.agrees:
            return f"Proved again: the exits of {self.n_stages} stages.\n{self.claim}\n{self.seconds:.2f} s."
        return "NOT proved: " + "; ".join(self.faults[:5]) + ("; ..." if len(self.faults) > 5 else "") + "."


def verify_scorer(model: Any, folder: str | os.PathLike[str], *, trust_pickle: bool = False) -> ScorerVerification:
    """Prove the exits of a saved scorer again from the model, without the code that built them.

    Parameters
    ----------
    model : object, path or bytes
        The model that was accelerated.
    folder : path
        What `AccelerateResult.save` wrote.
    trust_pickle : bool
        As for `prune_booster`.

    Returns
    -------
    ScorerVerification

    Raises
    ------
    CertificateMismatch
        The files of the folder do not belong together.
    MalformedModelError
        The arrays do not form trees with exits.
    """
    started = time.perf_counter()
    parts, manifest = read_parts(folder, trust_pickle=trust_pickle)
    if manifest["status"] != "CERTIFIED":
        raise InvalidInputError(
            f"The scorer in {folder} is {manifest['status']}: its promise is a statistic about its validation rows; "
            "name them with X_val (--val).",
            option="X_val",
        )
    outer = unwrap(open_pickle(model, trust_pickle))
    thresholds = tuple(manifest["thresholds"]) or None if outer.threshold is None else outer.threshold
    parsed = read_model(outer.inner, threshold=thresholds, decision="value")
    faults = tuple(_differences(parsed, parts, manifest))
    if not faults:
        faults = tuple(faults_of(parsed.forest, parts.plan))
    seconds = time.perf_counter() - started
    return ScorerVerification(not faults, faults, manifest["claim"], parts.plan.n_stages, seconds)


def _differences(parsed: Model, parts: ScorerParts, manifest: dict[str, Any]) -> Iterator[str]:
    """Where the scorer is not that of the model."""
    forest = parsed.forest
    if forest_digest(forest) != manifest["model_digest"]:
        yield "the model is another one than the manifest names"
    if forest.decision.thresholds != tuple(manifest["thresholds"]):
        yield "the thresholds are not those of the manifest"
    for found, expected in ((parts.flat, flatten(forest)), (parts.native, native_sum(parsed))):
        for field in fields(expected):
            if not _is_same(getattr(found, field.name), getattr(expected, field.name)):
                yield f"{field.name} is not the model's"
    if parts.probability != probability_rule(parsed):
        yield "the probabilities are not the model's"
    schema = schema_of(forest)
    for field in fields(schema):
        if not _is_same(getattr(parts.schema, field.name), getattr(schema, field.name)):
            yield f"{field.name} is not the model's"
    labels = list(forest.classes)
    # a model file knows only 0, 1, ... in place of a wrapper's labels
    if list(parts.classes) != labels and labels != list(range(len(parts.classes))):
        yield "the classes are not the model's"


def _is_same(found: Any, expected: Any) -> bool:
    if isinstance(expected, np.ndarray):
        return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()
    both_nan = isinstance(expected, float) and isinstance(found, float) and found != found and expected != expected
    return both_nan or bool(found == expected)
