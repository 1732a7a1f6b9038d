"""``pine-boost accelerate``: write a scorer that gives the model's own classes in microseconds.

Examples
--------
  pine-boost accelerate model.json -o scorer           (no data: proved for every input)
  pine-boost accelerate model.txt --fit train.csv -o scorer --speedup
  pine-boost accelerate model.json --fit train.csv --val held-out.csv --fidelity 0.999 -o scorer   (a statistic)
  pine-boost verify model.json scorer
  pine-boost score scorer today.csv -o classes.csv
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from pine_boost.cli import flags, output
from pine_boost.options import AccelerateOptions
from pine_boost.scoring.scorer_folder import ARRAYS, MANIFEST

_ROWS = ("X_fit", "X_val", "allow_overlap", "segments", "spent")
_SEARCH = tuple(entry.name for entry in fields(AccelerateOptions) if entry.name not in _ROWS)


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    flags.add_arguments(parser, "accelerate", "model")
    flags.add_data(parser, "accelerate_booster", _ROWS)
    flags.add_arguments(parser, "accelerate", "output force speedup", output={"required": True})
    flags.add_options(parser.add_argument_group("search"), "accelerate_booster", _SEARCH)


def main(arguments: argparse.Namespace) -> int:
    """Accelerate, save and print the summary."""
    from pine_boost import committee
    from pine_boost.accelerate import accelerate_booster
    from pine_boost.native.figures import times_in_words

    with flags.progress_of(arguments) as progress:
        given, is_average = flags.read_given_or_average(arguments)
        output.require_place(arguments, committee.FILES if is_average else [ARRAYS, MANIFEST])
        X_fit, X_val = (flags.read_rows(path, given) for path in (arguments.X_fit, arguments.X_val))
        options = flags.call_options(arguments, (*_SEARCH, "allow_overlap", "segments", "spent"))
        result: Any = accelerate_booster(given.source, X_fit, X_val, **options, callback=progress)
        progress.say("writing the scorer")
        arguments.written = folder = result.save(arguments.output, overwrite=arguments.force)
        progress.say("measuring")
        measured = result.speedup() if arguments.speedup and not output.was_interrupted(result) else {}
    names = ("status", "claim", "work", "work_rows", "seconds")
    facts = result.to_dict() if is_average else {name: getattr(result, name) for name in names}
    speed = {str(size): ratio for size, ratio in measured.items()}
    lines = [
        f"{size} row{'' if size == '1' else 's'} per call: {times_in_words(ratio)} times as fast as the native predict."
        for size, ratio in speed.items()
    ]
    said = "\n".join([result.summary(), *lines, f"Written to {folder}"])
    flags.answer(arguments, facts | {"speedup": speed, "folder": str(folder)}, said)
    # 2: no exits passed the test, and the scorer is the proved one
    kept = "a scorer with what was proved or had passed by then"
    if is_average and result.status == "NOT_VALIDATED":
        kept = "the original: no scorers had passed the test by then"
    return output.exit_code(result, kept)
