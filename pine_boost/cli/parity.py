"""``pine-boost parity``: compare two models on a table. Exit code 0 if ``--fidelity`` is reached, 2 if not.

Examples
--------
  pine-boost parity old.json new.json holdout.csv --fidelity 0.999
  pine-boost parity model.json scorer holdout.csv --label target -o comparison.html
  pine-boost parity old.pkl new.pkl holdout.parquet --trust-pickle --segments region --json
"""

from __future__ import annotations

import argparse
from typing import Any

from pine_boost.cli import flags, output
from pine_boost.errors import UnsupportedModelError

_OPTIONS = ("confidence", "tolerance", "segments", "threshold")


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    flags.add_arguments(parser, "parity", "a b data label output force")
    flags.add_options(parser, "compare_models", ("fidelity", *_OPTIONS))


def main(arguments: argparse.Namespace) -> int:
    """Compare, write the page and print the figures."""
    from pine_boost.parity import compare_answers, open_predictor, segment_column

    output.require_file(arguments, arguments.output)
    threshold = flags.thresholds(arguments)
    before, after = (
        open_predictor(path, threshold=threshold, trust_pickle=arguments.trust_pickle)
        for path in (arguments.a, arguments.b)
    )
    first, second = (_read(arguments, model) for model in (before, after))
    segments = None if arguments.segments is None else segment_column(arguments.data, arguments.segments)
    found = compare_answers(
        before,
        after,
        first.X,
        second.X,
        first.y,
        fidelity=arguments.fidelity,
        confidence=arguments.confidence,
        tolerance=arguments.tolerance,
        segments=segments,
    )
    if arguments.output is not None:
        found.write_report(arguments.output, overwrite=arguments.force)
    written = "" if arguments.output is None else f"\nWritten to {arguments.output}"
    flags.answer(arguments, found.to_dict(), f"{found.summary()}{written}")
    return 0 if found.reached else 2


def _read(arguments: argparse.Namespace, model: Any) -> Any:
    """The table as this model takes it."""
    if model.read is None:
        raise UnsupportedModelError(
            f"{model.name} can predict, but its columns cannot be found in a table file; use "
            "pine_boost.compare_models in Python."
        )
    return flags.noted(arguments.data, model.read(arguments.data, label=arguments.label))
