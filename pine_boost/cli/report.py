"""``pine-boost report``: write the HTML report of a saved result again.

Examples
--------
  pine-boost report pruned
  pine-boost report pruned --original model.json --data test.csv
  pine-boost report compressed --original model.json --data holdout.csv
  pine-boost report scorer --original model.json
  pine-boost report survey.json
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pine_boost.certificate.saved import COMPRESSION, REPORT, SWEEP_JSON, read_table, result_folders
from pine_boost.cli import flags, output
from pine_boost.cli.saved_input import read_original, read_prepared, read_result
from pine_boost.errors import CertificateMismatch, InvalidInputError
from pine_boost.files import save_file
from pine_boost.folders import is_own_page
from pine_boost.scoring.scorer_folder import MANIFEST, REMEDY, read_manifest, read_parts
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    flags.add_arguments(parser, "report", "folder original data label force")


def main(arguments: argparse.Namespace) -> int:
    """Render report.html; a page that is there is replaced if it was written here and not changed since."""
    given = Path(arguments.folder)
    makers: dict[Path, Callable[[], str]]
    if given.is_file():
        makers = {given.with_suffix(".html"): _survey(arguments, given)}
    else:
        makers = {folder / REPORT: partial(_page, arguments, folder) for folder in result_folders(given)}
    for place in makers:
        if os.path.lexists(place) and not (arguments.force or is_own_page(place)):
            raise InvalidInputError(
                f"{place} was changed since it was written, or is not a page of this version of pine_boost; move it "
                "away, or pass --force to replace it."
            )
        output.require_file(arguments, place, replaces=True)
    for place, make in makers.items():
        save_file(place, make().encode())
    written = [str(place) for place in makers]
    document = {"report": written[0] if len(written) == 1 else written}
    flags.answer(arguments, document, "\n".join(f"Written to {path}" for path in written))
    return 0


def _survey(arguments: argparse.Namespace, path: Path) -> Callable[[], str]:
    """What makes the page of a saved survey."""
    from pine_boost.surveying import survey_page

    if arguments.original or arguments.data or arguments.label:
        raise InvalidInputError("The page of a survey shows its table alone; leave out --original, --data and --label.")
    try:
        page = survey_page(path)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{path} is a file, and report writes the page of a folder that prune, sweep, compress or accelerate "
            f"wrote, or of a file that survey wrote. {error}"
        ) from error
    return lambda: page


def _page(arguments: argparse.Namespace, folder: Path) -> str:
    """The page of a folder."""
    is_scorer = (folder / MANIFEST).is_file() and not (folder / COMPRESSION).is_file()
    return _acceleration(arguments, folder) if is_scorer else _result(arguments, folder)


def _result(arguments: argparse.Namespace, folder: Path) -> str:
    """The page of a pruning or a compression."""
    from pine_boost.report.compression_report import render_compression
    from pine_boost.report.prune_report import render_report
    from pine_boost.result import PruneResult

    given, result = read_result(arguments, folder)
    is_proof = isinstance(result, PruneResult)
    schema = result.region.schema if is_proof else schema_of(result.compressed.forest)
    X = None if arguments.data is None else read_prepared(arguments.data, given, schema, arguments.label)
    if not is_proof:
        return render_compression(result, X)
    beside = folder.resolve().parent / SWEEP_JSON  # the folder may belong to a sweep
    return render_report(result, X, read_table(beside) if beside.is_file() else [])


def _acceleration(arguments: argparse.Namespace, folder: Path) -> str:
    """A page of what the folder of a scorer says; with the original both are measured."""
    from pine_boost.native.figures import HOW
    from pine_boost.report.pages import render

    manifest = read_manifest(folder)
    sides = []
    if arguments.original is not None:
        sides = _beside(arguments, folder).side_by_side.table()
    facts = manifest.get("facts", {})
    tested = facts.get("validation") or {}
    named = {
        "mean share of the trees visited": facts.get("work"),
        "measured on": facts.get("work_rows"),
        "validation rows": tested.get("n_val"),
        "of them changed": tested.get("n_changed"),
        "kernel": facts.get("kernel"),
        "built": facts.get("date"),
        "pine_boost": manifest["pine_boost"],
        "digest of the model": manifest["model_digest"],
        "digest of the smaller model": manifest.get("pruned_digest"),
    }
    columns = ("work", "n_changed", "bound", "accepted")
    return render(
        "acceleration.html",
        "Acceleration report",
        status=manifest["status"],
        claim=manifest["claim"],
        sides=sides,
        how=HOW,
        figures=[(name, _rounded(value)) for name, value in named.items() if value is not None],
        levels=[[_rounded(level.get(name)) for name in columns] for level in tested.get("path", [])],
    )


def _beside(arguments: argparse.Namespace, folder: Path) -> Any:
    """The scorer of a folder beside the ensemble that it was made from, without the layers around both."""
    from pine_boost import json_fields as f
    from pine_boost.accelerate import AccelerateResult
    from pine_boost.model.synthetic_rows import WORK_ROWS, synthetic_rows
    from pine_boost.native.figures import native_predict
    from pine_boost.scoring.fast_scorer import FastScorer

    parts, manifest = read_parts(folder, trust_pickle=arguments.trust_pickle)
    stated = manifest["thresholds"], manifest["model_digest"]
    otherwise = f"{arguments.original} is not the model that was accelerated."
    original = read_original(arguments, arguments.original, *stated, "value", otherwise).parsed
    facts = {"work_rows": "synthetic rows", **manifest["facts"], **manifest}
    with f.reading("scorer manifest", REMEDY, CertificateMismatch):
        facts["work_per_row"] = f.sequence(f.number(0), 2)(facts.get("work_per_row"), "work_per_row")
    return AccelerateResult(
        scorer=FastScorer(replace(parts, prepare=None, finish=None)),
        seconds=0.0,
        facts=facts,
        original=original,
        native=native_predict(original),
        sample=as_table(synthetic_rows(original.forest, WORK_ROWS), parts.schema),
    )


def _rounded(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
