"""The saved results, regions and original models that a command names, and rows as the ensemble takes them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.saved import CERTIFICATE, COMPRESSION, REGION, WHOLE_MODEL, read_saved
from pine_boost.cli import flags
from pine_boost.errors import CertificateMismatch, InvalidInputError
from pine_boost.model.digest import forest_digest
from pine_boost.region.region import Region


def read_original(
    arguments: argparse.Namespace,
    model: Any,
    thresholds: Sequence[float],
    digest: str,
    decision: str = "class",
    otherwise: str = "",
) -> Any:
    """A named model with the thresholds of a saved result about the model of ``digest``; None without a name.

    Another model raises with the text of ``otherwise``; without one the caller compares digests.
    """
    from pine_boost.pipelines.unwrapping import read_named_model

    if model is None:
        return None
    given = read_named_model(model, thresholds, digest, trust_pickle=arguments.trust_pickle, decision=decision)
    if otherwise and forest_digest(given.parsed.forest) != digest:
        raise CertificateMismatch(otherwise)
    return given


def read_prepared(path: str, given: Any, schema: Any, label: str | None = None) -> Any:
    """The rows of a table file as the ensemble takes them, whose columns are known without the model too."""
    X = flags.read_data(path, given or schema, label).X
    return X if given is None else given.wrapper.rows(X)


def read_result(arguments: argparse.Namespace, folder: Path) -> tuple[Any, Any]:
    """The original of a folder that prune or compress wrote, or None, and the result with it."""
    from pine_boost.compression.compress_result import CompressResult
    from pine_boost.result import PruneResult

    trust = arguments.trust_pickle
    if (folder / COMPRESSION).is_file():
        result = CompressResult.load(folder, trust_pickle=trust)
        record = result.record
        otherwise = f"{arguments.original} is not the model that was compressed."
        stated = (record.thresholds, record.original_digest)
        given = read_original(arguments, arguments.original, *stated, "value", otherwise)
        return given, result if given is None else replace(result, original=given.parsed)
    certificate = read_saved(folder).certificate
    given = read_original(arguments, arguments.original, certificate.thresholds, certificate.original_digest)
    return given, PruneResult.load(folder, None if given is None else given.wrapper.inner, trust_pickle=trust)


def read_region(arguments: argparse.Namespace) -> tuple[Any, Any, bool]:
    """The region of REGION, the original of --model or None, and whether a smaller model was certified for it.

    Raises if they do not belong together.
    """
    path, is_certified = Path(arguments.region), True
    if path.is_dir():
        saved = read_saved(path)
        path, is_certified = path / REGION, saved.certificate.status == "CERTIFIED"
    region = Region.load(path)
    beside = path.parent
    if arguments.model is None and (beside / WHOLE_MODEL).is_file():
        raise InvalidInputError(
            f"A model with layers around the ensemble was pruned (see {beside / WHOLE_MODEL}), such as a Pipeline "
            "whose first steps prepare the rows; name that model with --model."
        )
    given = read_original(arguments, arguments.model, region.thresholds, region.model_digest)
    if given is not None and (beside / CERTIFICATE).is_file():
        certificate = Certificate.load(beside / CERTIFICATE)
        is_about = certificate.region_fingerprint == region.fingerprint()
        if is_about and forest_digest(given.parsed.forest) != certificate.original_digest:
            raise CertificateMismatch(
                f"--model is not the original that {beside / CERTIFICATE} names; name the model that was pruned."
            )
    return region, given, is_certified
