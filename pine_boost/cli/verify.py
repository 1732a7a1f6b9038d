"""``pine-boost verify``: prove a certificate anew from the files alone.

In come both models, the region and the certificate; out goes a verdict: 0 everything that the
certificate says was proved anew, its serving margin too; 2 the budget ran out before that; 1 a
counterexample or files that do not belong together. A folder of a sweep is verified alpha by alpha,
the time limit for all of them together; a compression is counted again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pine_boost.cli import options

if TYPE_CHECKING:
    from pine_boost.certificate.verdict import Verification

EXAMPLES = """examples:
  pine-boost verify model.json pruned            (a folder that prune or sweep wrote)
  pine-boost verify model.json pruned --fit train.csv --cal holdout.csv
  pine-boost verify model.json pruned/model.json --certificate pruned/certificate.json \\
      --region pruned/region.json --time-limit 300"""
_CODES = {True: 0, False: 1, None: 2}


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("original", metavar="ORIGINAL", help="model file before pruning")
    parser.add_argument("pruned", metavar="PRUNED", help="pruned model file, or the folder with it")
    parser.add_argument("--certificate", metavar="FILE", help="(certificate.json beside PRUNED)")
    parser.add_argument("--region", metavar="FILE", help="(region.json beside PRUNED)")
    parser.add_argument("--fit", metavar="FILE", help="the rows the score was fitted on: with them")
    parser.add_argument(
        "--cal",
        metavar="FILE",
        help="and the rows of the calibration, region and tau are computed anew and rest on nobody's word",
    )
    parser.add_argument("--val", metavar="FILE", help="the validation rows of a compression, to count again")
    parser.add_argument(
        "--time-limit", type=float, metavar="SECONDS", help="stop then, and say what is open (exit code 2)"
    )
    options.add_jobs(parser)
    options.add_flag(
        parser, "--record", "write the new proofs into the certificate when every question was proved twice"
    )
    options.add_reading_options(parser)
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Prove anew and say so."""
    from pine_boost.certificate.saved import result_folders
    from pine_boost.options import require_seconds

    require_seconds(arguments.time_limit)
    given = Path(arguments.pruned)
    if (given if given.is_dir() else given.parent).joinpath("compression.json").is_file():
        return _recount(arguments, given)
    places = result_folders(given) if given.is_dir() else (given,)
    verdicts: dict[str, Any] = {}
    codes = []
    for number, place in enumerate(places):
        left = None
        if arguments.time_limit is not None:
            spent = time.monotonic() - arguments.started
            left = max(arguments.time_limit - spent, 0.01) / (len(places) - number)
        verdict = _verify(arguments, place, left)
        codes.append(exit_code(verdict))
        verdicts[place.name] = _describe(verdict)
        if not arguments.json:
            print(f"{place.name}: {verdict.summary()}" if len(places) > 1 else verdict.summary())
    if arguments.json:
        options.print_json(verdicts if len(places) > 1 else next(iter(verdicts.values())))
    return 1 if 1 in codes else max(codes)


def exit_code(verdict: Verification) -> int:
    """2 also where the claim was proved anew and the certificate's serving margin was not."""
    code = _CODES[verdict.agrees]
    return 2 if code == 0 and verdict.serving_proved is False else code


def _recount(arguments: argparse.Namespace, given: Path) -> int:
    """A compression: its numbers are counted again on the validation rows."""
    from dataclasses import asdict, replace

    from pine_boost.certificate.saved import model_path
    from pine_boost.compression.record import RECORD, read_record
    from pine_boost.compression.verification import verify_compression
    from pine_boost.errors import InvalidInputError
    from pine_boost.pipelines.given import read_named_model

    if arguments.val is None:
        raise InvalidInputError(
            f"{given} holds a compression, whose promise is about the rows it was validated on; name them with --val."
        )
    compressed = model_path(given) if given.is_dir() else given
    record = read_record(compressed.parent / RECORD)
    original = read_named_model(
        arguments.original, record.thresholds, trust_pickle=arguments.trust_pickle, decision="value"
    )
    original.wrapper.require_own_probabilities(record.tolerance)
    _check_whole_model(arguments, compressed.parent, record.files, record.compressed_digest, record)
    X_val = options.read_rows(arguments.val, original)
    verdict = verify_compression(
        original.wrapper.inner, compressed, record, original.wrapper.rows(X_val), trust_pickle=arguments.trust_pickle
    )
    if original.is_wrapped:
        verdict = replace(verdict, remarks=(*verdict.remarks, original.remark))
    if arguments.json:
        options.print_json(asdict(verdict))
    else:
        print(verdict.summary())
    return 0 if verdict.agrees else 1


def _verify(arguments: argparse.Namespace, place: Path, limit: float | None) -> Verification:
    from pine_boost.certificate.certificate import Certificate
    from pine_boost.certificate.saved import CERTIFICATE, REGION, model_path
    from pine_boost.errors import InvalidInputError
    from pine_boost.pipelines.given import read_named_model
    from pine_boost.verifying import verify

    pruned = model_path(place) if place.is_dir() else place
    certificate = Path(arguments.certificate or pruned.parent / CERTIFICATE)
    region = Path(arguments.region or pruned.parent / REGION)
    for path in (certificate, region):
        if not path.is_file():
            raise InvalidInputError(f"{path} does not exist; name it with --{path.stem}.")
    stated = Certificate.load(certificate)
    given = read_named_model(arguments.original, stated.thresholds, trust_pickle=arguments.trust_pickle)
    _check_whole_model(arguments, pruned.parent, stated.files, stated.pruned_digest, stated)
    X_fit, X_cal = (options.read_rows(path, given) for path in (arguments.fit, arguments.cal))
    verdict = verify(
        given.source,
        pruned,
        region,
        certificate,
        time_limit=limit,
        n_jobs=arguments.jobs,
        trust_pickle=arguments.trust_pickle,
        X_fit=X_fit,
        X_cal=X_cal,
    )
    if arguments.record and verdict.proved_twice:
        verdict.record(Certificate.load(certificate)).save(certificate)
    return verdict


def _check_whole_model(arguments: argparse.Namespace, folder: Path, files: Any, digest: str, stated: Any) -> None:
    """The whole model beside a certificate must hold the ensemble that it speaks of."""
    from pine_boost.certificate.saved import digests
    from pine_boost.errors import CertificateMismatch
    from pine_boost.files import MODEL_LIMIT, read_limited
    from pine_boost.model.digest import forest_digest
    from pine_boost.pipelines.given import read_named_model
    from pine_boost.pipelines.result import WHOLE_MODEL

    path = folder / WHOLE_MODEL
    if WHOLE_MODEL not in files or not path.is_file():
        return
    contents = read_limited(path, MODEL_LIMIT, "model file")
    if digests({WHOLE_MODEL: contents})[WHOLE_MODEL] != files[WHOLE_MODEL]:
        raise CertificateMismatch(f"{path} was changed after it was written: its digest differs.")
    whole = read_named_model(path, stated.thresholds, trust_pickle=arguments.trust_pickle, decision="value")
    if forest_digest(whole.parsed.forest) != digest:
        raise CertificateMismatch(f"{path} holds another model than the certificate speaks of.")


def _describe(verdict: Verification) -> dict[str, Any]:
    found = verdict.counterexample
    return {
        "agrees": verdict.agrees,
        "proved_twice": verdict.proved_twice,
        "serving_proved": verdict.serving_proved,
        "covered": verdict.covered,
        "seconds": verdict.seconds,
        "remarks": list(verdict.remarks),
        "proofs": [{"question": p.question.name, "method": p.method, "answer": p.answer.name} for p in verdict.proofs],
        "counterexample": None
        if found is None
        else {
            "question": found.question,
            "row": [None if value != value else float(value) for value in found.row],
            "original_class": int(found.original_class),
            "pruned_class": int(found.pruned_class),
        },
    }
