"""``pine-boost verify``: prove a certificate anew from the files alone.

In come both models, the region and the certificate; out goes a verdict: 0 proved anew, 2 the budget
ran out, 1 a counterexample or files that do not belong together.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pine_boost.cli import options

EXAMPLES = """examples:
  pine-boost verify model.json pruned            (a folder that prune wrote)
  pine-boost verify model.json pruned --fit train.csv --cal holdout.csv
  pine-boost verify model.json pruned/model.json --certificate pruned/certificate.json \\
      --region pruned/region.json --time-limit 300"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("original", metavar="ORIGINAL", help="model file before pruning")
    parser.add_argument("pruned", metavar="PRUNED", help="pruned model file, or the folder with it")
    parser.add_argument("--certificate", metavar="FILE", help="(certificate.json beside PRUNED)")
    parser.add_argument("--region", metavar="FILE", help="(region.json beside PRUNED)")
    parser.add_argument("--fit", metavar="FILE", help="the rows the score was fitted on: with them")
    parser.add_argument("--cal", metavar="FILE", help="and the rows of the calibration, region and "
                        "tau are computed anew and rest on nobody's word")  # fmt: skip
    parser.add_argument("--time-limit", type=float, metavar="SECONDS",
                        help="stop then, and say what is open (exit code 2)")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, metavar="N",
                        help="threads (1); -1 for all cores")  # fmt: skip
    parser.add_argument(
        "--record", action="store_true",
        help="write the new proofs into the certificate when every question was proved twice",
    )  # fmt: skip
    options.add_reading_options(parser)
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Prove anew and say so."""
    from pine_boost.certificate.certificate import Certificate
    from pine_boost.certificate.saved import model_path
    from pine_boost.certificate.verification import verify
    from pine_boost.errors import InvalidInputError
    from pine_boost.region.region import Region
    from pine_boost.tables.files import read_table

    pruned = Path(arguments.pruned)
    if pruned.is_dir():
        pruned = model_path(pruned)
    certificate = Path(arguments.certificate or pruned.parent / "certificate.json")
    region = Path(arguments.region or pruned.parent / "region.json")
    for path in (certificate, region):
        if not path.is_file():
            raise InvalidInputError(f"{path} does not exist; name it with --{path.stem}.")
    schema = Region.load(region).schema
    X_fit, X_cal = (
        None if path is None else read_table(path, schema).X
        for path in (arguments.fit, arguments.cal)
    )
    verdict = verify(
        arguments.original,
        pruned,
        region,
        certificate,
        time_limit=arguments.time_limit,
        n_jobs=arguments.jobs,
        trust_pickle=arguments.trust_pickle,
        X_fit=X_fit,
        X_cal=X_cal,
    )
    if arguments.record and verdict.proved_twice:
        stated = Certificate.load(certificate)
        verdict.record(stated).save(certificate)
    if arguments.json:
        found = verdict.counterexample
        options.print_json({
            "agrees": verdict.agrees,
            "proved_twice": verdict.proved_twice,
            "covered": verdict.covered,
            "seconds": verdict.seconds,
            "remarks": list(verdict.remarks),
            "proofs": [
                {"question": p.question.name, "method": p.method, "answer": p.answer.name}
                for p in verdict.proofs
            ],
            "counterexample": None if found is None else {
                "question": found.question,
                "row": [None if value != value else float(value) for value in found.row],
                "original_class": int(found.original_class),
                "pruned_class": int(found.pruned_class),
            },
        })  # fmt: skip
    else:
        print(verdict.summary())
    return {True: 0, False: 1, None: 2}[verdict.agrees]
