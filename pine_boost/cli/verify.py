r"""``pine-boost verify``: prove a saved result again from its files, or count it again on its validation rows.

Exit code 0: everything in the certificate was proved again. 2: the budget ran out before. 1: a
counterexample was found, or the files do not belong together. A folder of a sweep is verified alpha
by alpha within one time limit; for a compression the changed rows are counted again. Of a guarded model the
certificate in its folder is proved again, or its margin measured again on the validation rows.

Examples
--------
  pine-boost verify model.json pruned            (a folder that prune or sweep wrote)
  pine-boost verify model.json scorer            (a folder that accelerate or guard wrote)
  pine-boost verify model.json pruned --fit train.csv --cal holdout.csv
  pine-boost verify model.json pruned/model.json --certificate pruned/certificate.json \
      --region pruned/region.json --time-limit 300
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.saved import CERTIFICATE, COMPRESSION, REGION, WHOLE_MODEL, model_path, result_folders
from pine_boost.cli import flags
from pine_boost.cli.saved_input import read_original
from pine_boost.errors import CertificateMismatch, InvalidInputError
from pine_boost.files import file_digest
from pine_boost.model.digest import forest_digest
from pine_boost.options import flag_of, require_seconds
from pine_boost.scoring.scorer_folder import MANIFEST, read_manifest, trusted_around_trees

if TYPE_CHECKING:
    from pine_boost.certificate.verification import Verification
    from pine_boost.scoring.guards import Evidence

_CODES = {True: 0, False: 1, None: 2}
_DEFAULTS = {"n_jobs": 1, "record": False}  # of the others None
_SEARCH = ("fit", "cal", "time_limit", "n_jobs")
_BY_REGION = "a region guard, whose manifest names its certificate and region by digest"
_ACCEPTED = {
    "a certificate": (*_SEARCH, "certificate", "region", "record"),
    _BY_REGION: _SEARCH,
    "a margin guard": ("val",),
    "a scorer": ("val", "fit"),
    "a compression": ("val", "label"),
}
_ABOUT_ROWS = {"a margin guard": "is guarded by a margin", "a compression": "holds a compression"}


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    names = "original pruned certificate region fit cal val label time_limit"
    flags.add_arguments(parser, "verify", names, time_limit={"type": float})
    flags.add_options(parser, "", ["n_jobs"])
    flags.add_arguments(parser, "verify", "record")


def main(arguments: argparse.Namespace) -> int:
    """Prove again and print the verdict."""
    from pine_boost.scoring.guards import verify_guarded

    require_seconds(arguments.time_limit, "time_limit")
    given = Path(arguments.pruned)
    if (given if given.is_dir() else given.parent).joinpath(COMPRESSION).is_file():
        return _recount(arguments, given)
    places, guarded = result_folders(given) if given.is_dir() else (given,), None
    trusted: tuple[str, ...] = ()
    if given.joinpath(MANIFEST).is_file():
        manifest = read_manifest(given)
        if "guard" not in manifest:
            return _verify_scorer(arguments, manifest)
        _require_flags(arguments, _BY_REGION if manifest["guard"] is None else "a margin guard")
        guarded = verify_guarded(given, trust_pickle=arguments.trust_pickle)
        trusted = tuple(trusted_around_trees(manifest, guarded.original))
        if guarded.margin is not None:
            return _measure_again(arguments, guarded, trusted)
        places = tuple(given / name for name in manifest["files"] if name.startswith("pruned."))
    verdicts: dict[str, Verification] = {}
    for number, place in enumerate(places):
        left = None
        if arguments.time_limit is not None:
            spent = time.monotonic() - arguments.started
            left = max(arguments.time_limit - spent, 0.01) / (len(places) - number)
        verdict = _verify(arguments, place, left)
        if trusted:
            verdict = replace(
                verdict, remarks=(*verdict.remarks, f"Of the folder, taken on trust: {'; '.join(trusted)}.")
            )
        verdicts[place.name] = verdict
        if len(places) > 1 and not arguments.json:  # a sweep takes its time
            print(f"{place.name}: {verdict.summary()}")
    codes = [_CODES[verdict.agrees] for verdict in verdicts.values()]
    if len(places) == 1:
        claim = f"\n{guarded.claim}" if guarded is not None and verdict.agrees else ""
        flags.answer(arguments, _describe(verdict), verdict.summary() + claim)
    elif arguments.json:
        flags.answer(arguments, {name: _describe(verdict) for name, verdict in verdicts.items()}, "")
    return 1 if 1 in codes else max(codes)


def _require_flags(arguments: argparse.Namespace, kind: str) -> None:
    """Refuse the flags that say nothing about a result of this kind, and a promise about rows without them."""
    names = dict.fromkeys(name for accepted in _ACCEPTED.values() for name in accepted)
    others = [n for n in names if n not in _ACCEPTED[kind] and getattr(arguments, n) != _DEFAULTS.get(n)]
    if others:
        taken, wrong = (
            ", ".join(flag_of(name) or f"--{name}" for name in among) for among in (_ACCEPTED[kind], others)
        )
        raise InvalidInputError(f"{arguments.pruned}: verify takes {taken} for {kind}; leave out {wrong}.")
    if kind in _ABOUT_ROWS and arguments.val is None:
        raise InvalidInputError(
            f"{arguments.pruned} {_ABOUT_ROWS[kind]}, whose promise is about its validation rows; pass them with --val."
        )


def _measure_again(arguments: argparse.Namespace, guarded: Evidence, trusted: tuple[str, ...]) -> int:
    """Measure the margin of a guarded model again on its validation rows."""
    from pine_boost.scoring.guards import measure_margin

    stated = guarded.margin
    assert stated is not None
    thresholds, digest = guarded.original.forest.decision.thresholds, forest_digest(guarded.original.forest)
    otherwise = f"{arguments.original} is not the original model of {arguments.pruned}."
    given = read_original(arguments, arguments.original, thresholds, digest, "value", otherwise)
    rows = given.wrapper.rows(flags.read_rows(arguments.val, given))
    found = measure_margin(given.parsed, guarded.pruned, rows, stated.fidelity, stated.confidence)
    agrees = found == stated
    of_rows = f"of {found.n_val}" if found.n_val == stated.n_val else f"of {found.n_val} instead of {stated.n_val}"
    said = (
        f"These rows give another margin than the folder states: distance {found.distance} instead of "
        f"{stated.distance}, {found.n_differ} instead of {stated.n_differ} changed {of_rows} rows. Pass the rows that "
        "`guard --val` was given, or do not trust the folder."
    )
    if agrees:
        trusted = ("that nothing had seen these rows", "that future inputs come from the same source", *trusted)
        said = (
            f"Recomputed on {found.n_val} validation rows: the margin matches the folder.\n{guarded.claim}\n"
            f"Taken on trust: {'; '.join(trusted)}."
        )
    document = {"agrees": agrees, "claim": guarded.claim, "stated": stated, "found": found}
    flags.answer(arguments, document, said)
    return 0 if agrees else 1


def _verify_scorer(arguments: argparse.Namespace, manifest: dict[str, Any]) -> int:
    """Prove the exits of a scorer again, or count its validation rows again."""
    from pine_boost.accelerate import accelerate_booster
    from pine_boost.scoring.scorer_verification import verify_scorer

    _require_flags(arguments, "a scorer")
    X_fit = X_val = None
    if arguments.val is not None or arguments.fit is not None:
        named = (manifest["thresholds"], manifest["model_digest"])
        given = read_original(arguments, arguments.original, *named, "value")
        X_fit, X_val = (flags.read_rows(path, given) for path in (arguments.fit, arguments.val))
    how = {"X_fit": X_fit, "build": accelerate_booster, "trust_pickle": arguments.trust_pickle}
    verdict = verify_scorer(arguments.original, arguments.pruned, X_val, **how)
    flags.answer(arguments, verdict, verdict.summary())
    return 0 if verdict.agrees else 1


def _recount(arguments: argparse.Namespace, given: Path) -> int:
    """Count the changed validation rows of a compression again."""
    from pine_boost.compression.record import read_record
    from pine_boost.compression.recount import verify_compression

    _require_flags(arguments, "a compression")
    compressed = model_path(given) if given.is_dir() else given
    record = read_record(compressed.parent / COMPRESSION)
    original = read_original(arguments, arguments.original, record.thresholds, record.original_digest, "value")
    original.wrapper.require_own_probabilities(record.tolerance)
    _check_whole_model(arguments, compressed.parent, record.files, record.compressed_digest, record)
    X_val, y_val = flags.read_labelled(arguments.val, original, arguments.label)
    rows = original.wrapper.rows(X_val)
    trust = arguments.trust_pickle
    verdict = verify_compression(original.wrapper.inner, compressed, record, rows, y_val, trust_pickle=trust)
    if original.is_wrapped:
        verdict = replace(verdict, remarks=(*verdict.remarks, original.remark))
    flags.answer(arguments, verdict, verdict.summary())
    return 0 if verdict.agrees else 1


def _verify(arguments: argparse.Namespace, place: Path, limit: float | None) -> Verification:
    from pine_boost.verifying import verify

    pruned = model_path(place) if place.is_dir() else place
    certificate = Path(arguments.certificate or pruned.parent / CERTIFICATE)
    region = Path(arguments.region or pruned.parent / REGION)
    for path in (certificate, region):
        if not path.is_file():
            raise InvalidInputError(f"{path} does not exist; pass it with --{path.stem}.")
    _require_flags(arguments, "a certificate")
    stated = Certificate.load(certificate)
    given = read_original(arguments, arguments.original, stated.thresholds, stated.original_digest)
    _check_whole_model(arguments, pruned.parent, stated.files, stated.pruned_digest, stated)
    X_fit, X_cal = (flags.read_rows(path, given) for path in (arguments.fit, arguments.cal))
    verdict = verify(
        given.source,
        pruned,
        region,
        certificate,
        time_limit=limit,
        n_jobs=arguments.n_jobs,
        trust_pickle=arguments.trust_pickle,
        X_fit=X_fit,
        X_cal=X_cal,
    )
    if arguments.record and verdict.proved_twice:
        verdict.record(Certificate.load(certificate)).save(certificate)
    return verdict


def _check_whole_model(arguments: argparse.Namespace, folder: Path, files: Any, digest: str, stated: Any) -> None:
    """Raise unless the whole model beside a certificate holds the ensemble that it names."""
    path = folder / WHOLE_MODEL
    if WHOLE_MODEL not in files or not path.is_file():
        return
    if file_digest(path) != files[WHOLE_MODEL]:
        raise CertificateMismatch(f"{path} was changed after it was written (its digest differs).")
    otherwise = f"{path} holds another model than the certificate names."
    read_original(arguments, path, stated.thresholds, digest, "value", otherwise)


def _describe(verdict: Verification) -> dict[str, Any]:
    names = ("agrees", "proved_twice", "serving_proved", "covered", "seconds", "remarks")
    found, of_input = verdict.counterexample, ("question", "row", "original_class", "pruned_class")
    return {
        **{name: getattr(verdict, name) for name in names},
        "proofs": [{"question": p.question.name, "method": p.method, "answer": p.answer} for p in verdict.proofs],
        "counterexample": None if found is None else {name: getattr(found, name) for name in of_input},
    }
