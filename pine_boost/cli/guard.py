"""``pine-boost guard``: a result and its original become a guarded model in a folder.

The region of a certified result is the guard; with --val the margin of the smaller model is. The
folder holds both models and a digest of each file. Refuses an original that is another model.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from pine_boost.cli import options

EXAMPLES = """examples:
  pine-boost guard pruned --original model.json -o scorer
  pine-boost guard compressed --original model.json --val fresh.parquet --fidelity 0.999 -o scorer
  pine-boost score scorer today.csv -o classes.csv"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("result", metavar="RESULT", help="folder that prune or compress wrote")
    parser.add_argument("--original", metavar="MODEL", required=True, help="what it was made from")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="folder to write")
    parser.add_argument("--val", metavar="FILE", help="unseen rows, to guard by the margin")
    parser.add_argument("--fidelity", type=float, default=0.999, help="with --val (0.999)")
    parser.add_argument("--confidence", type=float, default=0.95, help="with --val (0.95)")
    options.add_reading_options(parser)


def main(arguments: argparse.Namespace) -> int:
    """Read, guard, write, say what is promised."""
    from pine_boost.serving.guarded import GuardedModel
    from pine_boost.tables.schema import schema_of

    result = _read_result(arguments)
    rows = None
    if arguments.val is not None:
        rows = options.read_data(arguments.val, schema_of(result.original.forest)).X
    guarded = GuardedModel(
        result, rows, fidelity=arguments.fidelity, confidence=arguments.confidence
    )
    folder = guarded.save(arguments.output)
    print(guarded)
    print(guarded.claim)
    if guarded.margin is not None:
        print(f"The smaller model answers {guarded.margin.share_guarded:.1%} of these rows alone.")
    print(f"Written to {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    return 0


def _read_result(arguments: argparse.Namespace) -> Any:
    """The result of either kind, with its original."""
    from pine_boost.compression.record import RECORD

    folder, trust = Path(arguments.result), arguments.trust_pickle
    if not (folder / RECORD).is_file():
        from pine_boost.result import PruneResult

        return PruneResult.load(folder, arguments.original, trust_pickle=trust)
    from pine_boost.compression.result import CompressResult
    from pine_boost.errors import CertificateMismatch
    from pine_boost.model.digest import forest_digest
    from pine_boost.parsers import read_model

    result = CompressResult.load(folder, trust_pickle=trust)
    record = result.record
    original = read_model(
        arguments.original, threshold=record.thresholds or None, decision="value",
        trust_pickle=trust,
    )  # fmt: skip
    if forest_digest(original.forest) != record.original_digest:
        raise CertificateMismatch(f"{arguments.original} is not the model that was compressed.")
    return replace(result, original=original)
