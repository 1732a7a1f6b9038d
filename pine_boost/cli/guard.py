"""``pine-boost guard``: combine a result and its original into one guarded model in a folder.

The region of a certified result is the guard; with --val it is the margin of the smaller model.

Examples
--------
  pine-boost guard pruned --original model.json -o scorer
  pine-boost guard compressed --original model.json --val fresh.parquet --fidelity 0.999 -o scorer
  pine-boost score scorer today.csv -o classes.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pine_boost.cli import flags
from pine_boost.cli.saved_input import read_result
from pine_boost.folders import owned_in, require_free
from pine_boost.scoring.scorer_folder import MANIFEST


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    required = {"required": True}
    flags.add_arguments(parser, "guard", "result original output force val", original=required, output=required)
    flags.add_options(parser, "", ["fidelity", "confidence"], fidelity=0.999)


def main(arguments: argparse.Namespace) -> int:
    """Read, guard, write and print the promise."""
    from pine_boost.scoring.guarded import GuardedModel

    given, result = read_result(arguments, Path(arguments.result))
    rows = None if arguments.val is None else flags.read_data(arguments.val, given).X
    guarded = GuardedModel(
        given.wrapper.rewrap(result), rows, fidelity=arguments.fidelity, confidence=arguments.confidence
    )
    names = [f"{role}.{Path(arguments.original).suffix[1:]}" for role in ("original", "pruned")]
    require_free(arguments.output, names, overwrite=True, inputs=[arguments.original])
    folder = guarded.save(arguments.output, overwrite=arguments.force)
    files = sorted(owned_in(folder, MANIFEST))
    margin, lines = guarded.margin, [guarded.headline(), guarded.parts.evidence.promise()]
    if margin is not None:
        lines.append(f"The smaller model answers {margin.share_guarded:.1%} of these rows alone.")
    document = {"status": guarded.status, "claim": guarded.claim, "margin": margin, "folder": str(folder)}
    lines.append(f"Written to {folder}: {', '.join(files)}")
    flags.answer(arguments, document | {"files": files}, "\n".join(lines))
    return 0
