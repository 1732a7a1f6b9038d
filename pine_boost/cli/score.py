"""``pine-boost score``: predict the classes of a table with a scorer or a guarded model.

Examples
--------
  pine-boost score scorer today.csv -o classes.csv
  pine-boost score scorer today.parquet --json
"""

from __future__ import annotations

import argparse
from typing import Any

from pine_boost.certificate.saved import csv_bytes
from pine_boost.cli import flags, output
from pine_boost.files import save_file
from pine_boost.scoring.fast_scorer import FastScorer
from pine_boost.scoring.scorer_folder import load_scorer, read_manifest


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    backend = {"default": "kernel", "choices": ("kernel", "native")}
    flags.add_arguments(parser, "score", "folder data output force backend proba", backend=backend)


def main(arguments: argparse.Namespace) -> int:
    """Score, write and print the counts."""
    from pine_boost.pipelines.unwrapping import read_given_table

    output.require_file(arguments, arguments.output, b"class")
    manifest = read_manifest(arguments.folder)
    scorer = load_scorer(arguments.folder, backend=arguments.backend, trust_pickle=arguments.trust_pickle)
    parts = scorer.parts
    rows = flags.noted(arguments.data, read_given_table(arguments.data, parts.prepare, parts.schema)).X
    columns: dict[str, list[Any]] = {}
    facts = {"rows": len(rows), "claim": manifest["claim"]}
    said = f"{len(rows)} rows scored."
    if isinstance(scorer, FastScorer):
        columns["class" if parts.classes else "value"] = scorer.predict(rows).tolist()
    else:
        inside = scorer.guarded(rows).tolist()
        columns["class"] = scorer.predict(rows).tolist()
        columns["answered_by"] = ["pruned" if own else "original" for own in inside]
        facts |= {"guarded": sum(inside), "fallbacks": len(inside) - sum(inside)}
        said = f"{len(rows)} rows: the smaller model answered {facts['guarded']}, the original {facts['fallbacks']}."
    if arguments.proba:
        found = scorer.predict_proba(rows, exact=True)
        columns |= {f"p_{label}": found[:, k].tolist() for k, label in enumerate(parts.classes)}
    if arguments.output is not None:
        save_file(arguments.output, csv_bytes(list(columns), zip(*columns.values(), strict=True)))
    else:
        said += " Nothing was written; pass -o FILE to write the answers."
    flags.answer(arguments, {**facts, **columns}, f"{said}\n{manifest['claim']}")
    return 0
