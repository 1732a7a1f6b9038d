"""``pine-boost survey``: show which smaller models are achievable, with which promise.

Examples
--------
  pine-boost survey model.json --fit train.csv --look some_holdout.csv
  pine-boost survey model.txt --fit train.csv --look look.csv --time-limit 300 -o survey.json
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from typing import Any

from pine_boost.cli import INTERRUPTED, flags, output

_OPTIONS = ("tolerance", "threshold", "time_limit", "random_state")


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    flags.add_arguments(parser, "survey", "model")
    flags.add_data(parser, "survey", ("X_fit", "X_look"))
    flags.add_arguments(parser, "survey", "output force")
    flags.add_options(parser, "survey", _OPTIONS)


def main(arguments: argparse.Namespace) -> int:
    """Survey, print the table and write it if requested."""
    from pine_boost.surveying import survey

    output.require_file(arguments, arguments.output)
    with flags.progress_of(arguments) as progress:
        given = flags.read_given_model(arguments, decision="value")
        fit, look = (flags.read_data(path, given) for path in (arguments.X_fit, arguments.X_look))
        options = flags.call_options(arguments, _OPTIONS) | {"time_limit": arguments.time_limit}
        found = survey(given.source, fit.X, look.X, callback=progress, **options)
    if arguments.output is not None:
        found.save(arguments.output)
    offers = tuple(replace(offer, command=with_files(offer.command, arguments)) for offer in found.offers)
    document = {"offers": replace(found, offers=offers).table(), "n_look": found.n_look, "seconds": found.seconds}
    shown = replace(found, offers=tuple(replace(offer, call=offer.command) for offer in offers))
    flags.answer(arguments, document, shown.summary())
    if found.is_interrupted:
        print("pine-boost: interrupted; what was tried by then is shown", file=sys.stderr)
        return INTERRUPTED
    return 0


def with_files(command: str, arguments: argparse.Namespace) -> str:
    """A command with the files of this one in place of MODEL, FIT and SURVEY.json."""
    files: dict[str, Any] = {"MODEL": arguments.model, "FIT": arguments.X_fit, "SURVEY.json": arguments.output}
    quoted = {word: shlex.quote(str(path)) for word, path in files.items() if path is not None}
    if arguments.trust_pickle:
        quoted["MODEL"] += " --trust-pickle"
    return " ".join(quoted.get(word, word) for word in command.split(" "))
