"""``pine-boost prune``: a model file and tables in, a folder with the pruned model out.

The folder holds the native model, certificate.json, region.json and report.html. Ctrl-C keeps the
best model certified so far. Refuses tables that do not fit the model.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from pine_boost.cli import INTERRUPTED, options, output
from pine_boost.cli.words import advice_in_flags
from pine_boost.model.digits import percent_down, percent_up

EXAMPLES = """examples:
  pine-boost prune model.json --fit train.csv --cal holdout.csv -o pruned
  pine-boost prune model.txt --fit train.parquet --cal cal.parquet --alpha 0.2 --time-limit 60
  pine-boost prune forest.joblib --trust-pickle --fit train.csv --cal cal.csv --test test.csv \\
      --label target --json"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    options.add_model_options(parser)
    options.add_data_options(parser)
    output.add_output(parser, "pruned")
    parser.add_argument(
        "--alpha", type=float, default=0.1, help="share of inputs that may lie outside the region (0.1; 0: none)"
    )
    options.add_search_options(parser)
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Prune, save, say what was promised."""
    from pine_boost.certificate.saved import CERTIFICATE, REPORT
    from pine_boost.progress import Progress
    from pine_boost.prune import prune_booster
    from pine_boost.report.report import render_report

    given = options.read_given_model(arguments)
    given.require_writable()
    output.require_place(arguments, output.result_names(given, report=not arguments.no_report))
    report_seconds = output.seconds_for_report(arguments)
    keywords = options.search_arguments(arguments, report_seconds)
    X_fit, X_cal = (options.read_rows(path, given) for path in (arguments.fit, arguments.cal))
    test = options.read_test(arguments, given)
    progress = Progress(time_limit=arguments.time_limit, option="--time-limit")
    try:
        result = prune_booster(
            given.source, X_fit, X_cal, alpha=arguments.alpha, callback=progress, spent=arguments.spent, **keywords
        )
    finally:
        progress.close()
    files = result.files()
    folder = output.write_results(arguments, files, [CERTIFICATE])
    written = list(files)
    measured = output.measure(result, given, test)
    evaluation, X_test = measured.evaluation, measured.rows
    inner = getattr(result, "inner", result)  # the page is about the ensemble
    if not arguments.no_report and output.write_report(
        folder / REPORT, lambda budget: render_report(inner, X_test, (), budget), report_seconds
    ):
        written.append(REPORT)
    if arguments.json:
        options.print_json(describe(result, folder, evaluation))
    else:
        print(advice_in_flags(result.summary()))
        if evaluation is not None:
            print(evaluated(evaluation))
        print(f"Written to {folder}: {', '.join(sorted(written))}")
    code = exit_code(result)
    measured.require(folder)
    return code


def exit_code(result: Any) -> int:
    """0 certified, 2 not certified within the budget, 130 interrupted (what is written holds)."""
    if str(result.search.stopped) == "interrupted":
        certified = (
            "the best model certified so far"
            if result.status == "CERTIFIED"
            else ("the original, as nothing smaller was certified")
        )
        print(f"pine-boost: interrupted; written is {certified}", file=sys.stderr)
        return INTERRUPTED
    return 0 if result.status == "CERTIFIED" else 2


def describe(result: Any, folder: Any, evaluation: Any = None) -> dict[str, Any]:
    """A result for machines."""
    c = result.certificate
    document = {
        "status": c.status,
        "claim": c.claim,
        "reason": c.reason,
        "alpha": c.alpha,
        "trees_before": c.trees_before,
        "trees_after": c.trees_after,
        "leaves_before": c.leaves_before,
        "leaves_after": c.leaves_after,
        "pruning_rate": result.pruning_rate,
        "lower_bound": c.lower_bound,
        "optimal": c.optimal,
        "seconds": result.search.seconds,
        "folder": str(folder),
        "model": result.model_file()[0],
    }
    if evaluation is not None:
        measured = asdict(evaluation)
        share = measured["fidelity_in_region"]
        measured["fidelity_in_region"] = None if share != share else share
        document["test"] = measured
    return document


def evaluated(evaluation: Any) -> str:
    """An evaluation in one sentence."""
    e, cover = evaluation, evaluation.coverage
    text = (
        f"On {e.n_rows} test rows: {e.fidelity:.2%} keep their class, {cover.share:.2%} lie in the "
        f"region ({percent_down(cover.low)} to {percent_up(cover.high)})"
    )
    if e.accuracy_before is not None:
        text += f", accuracy {e.accuracy_before:.2%} before and {e.accuracy_after:.2%} after"
    return text + "."
