"""``pine-boost survey``: a model file and tables in, a table of what can be had out.

Writes survey.json where asked to, by which the rows that were looked at are known again. Refuses
to look at rows that the fit rows repeat.
"""

from __future__ import annotations

import argparse
from typing import Any

from pine_boost.cli import options
from pine_boost.cli.words import files_of, in_flags

EXAMPLES = """examples:
  pine-boost survey model.json --fit train.csv --look some_holdout.csv
  pine-boost survey model.txt --fit train.csv --look look.csv --time-limit 300 -o survey.json"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    options.add_model_options(parser)
    data = options.data_group(parser)
    data.add_argument("--fit", required=True, metavar="FILE", help="the training rows are fine")
    data.add_argument("--look", required=True, metavar="FILE", help="unseen rows, spent by this")
    parser.add_argument("-o", "--output", metavar="FILE.json", help="write the survey (nowhere)")
    options.add_flag(parser, "--force", "replace FILE.json")
    parser.add_argument("--tolerance", type=float, metavar="T", help="for compressed models; regressors need it")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS", help="half of it for proofs (60)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(0)")
    options.add_threshold(parser)
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Look, print the table, perhaps write it."""
    from pine_boost.files import require_free_file
    from pine_boost.progress import Progress
    from pine_boost.surveying import survey

    if arguments.output is not None:
        inputs = (arguments.model, arguments.fit, arguments.look)
        require_free_file(arguments.output, inputs=inputs, overwrite=arguments.force)
    given = options.read_given_model(arguments, decision="value")
    fit, look = (options.read_data(path, given) for path in (arguments.fit, arguments.look))
    progress = Progress(time_limit=arguments.time_limit, option="--time-limit")
    try:
        found = survey(
            given.source,
            fit.X,
            look.X,
            tolerance=arguments.tolerance,
            threshold=options.thresholds(arguments),
            time_limit=arguments.time_limit,
            random_state=arguments.seed,
            callback=progress,
        )
    finally:
        progress.close()
    if arguments.output is not None:
        found.save(arguments.output)
    if arguments.json:
        options.print_json({"offers": _offers(arguments, found), "n_look": found.n_look, "seconds": found.seconds})
    else:
        print(in_flags(found.summary(), files_of(arguments)))
    return 0


def _offers(arguments: argparse.Namespace, found: Any) -> list[dict[str, Any]]:
    """The table with the command line of each offer beside its call in Python."""
    files = files_of(arguments)
    return [row | {"command": in_flags(row["call"], files)} for row in found.table()]
