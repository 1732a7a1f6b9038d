r"""``pine-boost prune``: prune a model and write it with its certificate, region and report.

Examples
--------
  pine-boost prune model.json --fit train.csv --cal holdout.csv -o pruned
  pine-boost prune model.txt --fit train.parquet --cal cal.parquet --alpha 0.2 --time-limit 60
  pine-boost prune forest.joblib --trust-pickle --fit train.csv --cal cal.csv --test test.csv \
      --label target --json
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from pine_boost.certificate.saved import CERTIFICATE, REGION
from pine_boost.cli import flags, output
from pine_boost.model.digits import percent_down, percent_up


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    add_search(parser, "prune_booster", flags.SEARCH, "pruned")


def add_search(parser: argparse.ArgumentParser, call: str, names: Iterable[str], folder: str) -> None:
    """Add the arguments of a search for certified models, which are written to ``folder`` by default."""
    flags.add_arguments(parser, "prune", "model")
    data = flags.add_data(parser, call, ("X_fit", "X_cal", "allow_overlap", "spent"))
    flags.add_arguments(data, "test", "test label")
    flags.add_arguments(parser, "result", "output force no_report", output={"default": folder})
    flags.add_options(parser.add_argument_group("search"), call, names)


def main(arguments: argparse.Namespace) -> int:
    """Prune, save and print the summary."""
    from pine_boost.prune import prune_booster

    given, test, result = search(arguments, prune_booster, flags.SEARCH)
    files = result.files()
    folder = output.write_results(arguments, files)
    evaluation, rows, failed = output.measure(result, given, test)
    written = [*files, *output.write_report(arguments, result, folder, rows)]
    tested = [] if evaluation is None else [evaluated(evaluation)]
    lines = [summary(result), *tested, f"Written to {folder}: {', '.join(sorted(written))}"]
    flags.answer(arguments, describe(result, folder, evaluation), "\n".join(lines))
    code = exit_code(result)
    output.require_measured(failed, folder)
    return code


def search(
    arguments: argparse.Namespace,
    call: Callable[..., Any],
    names: Iterable[str],
    folders: Iterable[str] = ("",),
    tables: Iterable[str] = (),
) -> tuple[Any, Any, Any]:
    """Run a search with the files and options that were named; the model as it was given, the test rows, the result.

    A result is written to each of the ``folders``, and ``tables`` beside them.
    """
    with flags.progress_of(arguments) as progress:
        given = flags.read_given_model(arguments)
        given.require_writable()
        files = output.result_names(given, REGION, CERTIFICATE, report=not arguments.no_report)
        output.require_place(arguments, [*(f"{folder}{name}" for folder in folders for name in files), *tables])
        X_fit, X_cal = (flags.read_rows(path, given, arguments.label) for path in (arguments.X_fit, arguments.X_cal))
        test = flags.read_test(arguments, given)
        kept = output.seconds_for_report(arguments)
        options = flags.call_options(arguments, (*names, "allow_overlap", "spent"), kept)
        return given, test, call(given.source, X_fit, X_cal, callback=progress, **options)


def summary(result: Any) -> str:
    """The summary of a result, with advice in flags."""
    from pine_boost.certificate.claims import next_steps

    text: str = result.summary()
    advice = (next_steps(result.certificate, as_flags=as_flags) for as_flags in (False, True))
    for python, command in zip(*advice, strict=True):
        text = text.replace(python, command)
    return text


def exit_code(result: Any) -> int:
    """0 certified, 2 not certified within the budget, 130 interrupted (what is written holds)."""
    nothing = "the original, as nothing smaller was certified"
    kept = "the best model certified so far" if result.status == "CERTIFIED" else nothing
    return output.exit_code(result, kept)


def describe(result: Any, folder: Any, evaluation: Any = None) -> dict[str, Any]:
    """A result for programs."""
    c = result.certificate
    names = ("status", "claim", "reason", "alpha", "trees_before", "trees_after", "leaves_before", "leaves_after")
    return {
        **{name: getattr(c, name) for name in names},
        "pruning_rate": result.pruning_rate,
        "lower_bound": c.lower_bound,
        "optimal": c.optimal,
        "seconds": result.search.seconds,
        "folder": str(folder),
        "model": result.model_file()[0],
        **({} if evaluation is None else {"test": evaluation}),
    }


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
