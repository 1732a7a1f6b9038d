"""Whether two models can stand in for one another, beyond their trees.

In come two parsed models; out goes nothing, or a CertificateMismatch that names what differs:
names and order of the columns, their types and categories, the objective, what counts as missing,
labels, attributes of a wrapper. What a file does not hold is not asked of a file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pine_boost.errors import CertificateMismatch
from pine_boost.model.forest import Model
from pine_boost.parsers.traits import describe
from pine_boost.region.region import Region

# what a wrapper adds to its booster and no model file holds, by the attribute that holds it
_OF_WRAPPERS = {"classes": "classes_", "missing": "missing"}


def as_region_reads(model: Model, region: Region) -> Model:
    """A model from a file, with the missing value that the region was made for.

    ``XGBClassifier(missing=-999)`` keeps that number to itself; the region says how tables are
    read, and its fingerprint is in the certificate.
    """
    value = region.schema.missing_value
    if model.native is not None or np.isnan(value):
        return model
    return replace(model, forest=replace(model.forest, missing_value=value))


def require_interchangeable(original: Model, pruned: Model) -> None:
    """Check everything that decides how a table is read and what the answer is called."""
    before, after = describe(original), describe(pruned)
    for name in sorted(before.keys() | after.keys()):
        if original.kind != pruned.kind and _is_lacking(name, original, pruned):
            continue
        if before.get(name) != after.get(name):
            raise CertificateMismatch(
                f"Original and pruned model differ in {name}: {_short(before.get(name))} and "
                f"{_short(after.get(name))}. A file was changed or belongs to another run."
            )


def _is_lacking(name: str, *models: Model) -> bool:
    """Whether one of them, a file or booster of a wrapper say, cannot hold this."""
    attribute = _OF_WRAPPERS.get(name)
    return attribute is not None and not all(hasattr(m.native, attribute) for m in models)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
