"""Where a command writes: asked before the work begins, and never at the cost of the work.

In come the arguments of a command and its results; out go folders and the names of what was
written. Refuses to replace what is read, and what is not a result of ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pine_boost.cli.options import add_flag
from pine_boost.errors import OutputError, PineBoostError

_LONGEST_REPORT = 30.0
Owned = Callable[[str], Collection[str]]


def add_output(parser: argparse.ArgumentParser, default: str) -> None:
    """The folder and what may happen in it."""
    parser.add_argument("-o", "--output", metavar="DIR", default=default, help=f"folder to write ({default})")
    add_flag(parser, "--force", "replace files of the same names in DIR that are no earlier result (never an input)")
    add_flag(parser, "--no-report", "write no report.html")


def add_target(parser: argparse.ArgumentParser, metavar: str, what: str) -> None:
    """What a command that makes one thing writes to."""
    parser.add_argument("-o", "--output", required=True, metavar=metavar, help=what)
    add_flag(parser, "--force", f"replace {metavar} if it exists")


def require_place(arguments: argparse.Namespace, names: Iterable[str], owned: Owned | None = None) -> None:
    """Refuse a folder that cannot be written, before anything is searched for it.

    ``owned`` says which files of a folder are an earlier result; by default those of ``prune``.
    """
    from pine_boost.files import require_free, require_writable

    inputs = ("model", "fit", "cal", "val", "test", "domain")
    given = (getattr(arguments, name, None) for name in inputs)
    require_free(
        arguments.output,
        names,
        owned=_owned(arguments, owned),
        overwrite=arguments.force,
        inputs=[path for path in given if path is not None],
    )
    require_writable(arguments.output)


def result_names(given: Any, *, report: bool) -> list[str]:
    """Names of the files that the result of pruning this model will have."""
    from pine_boost.certificate.saved import CERTIFICATE, REGION

    return [*model_names(given, report=report), REGION, CERTIFICATE]


def model_names(given: Any, *, report: bool) -> list[str]:
    """Names of the model files and the report of a result about this model."""
    from pine_boost.certificate.saved import REPORT
    from pine_boost.native.predict import original_bytes
    from pine_boost.pipelines.result import WHOLE_MODEL
    from pine_boost.result import model_file

    parsed = given.parsed
    native = original_bytes(parsed) if parsed.native is None else parsed.native
    name, _ = model_file(native, parsed.forest.library)
    return [name, *([WHOLE_MODEL] if given.is_wrapped else []), *([REPORT] if report else [])]


def write_results(
    arguments: argparse.Namespace, files: Mapping[str, bytes], last: Sequence[str], owned: Owned | None = None
) -> Path:
    """Write the files; where that fails all the same, keep them under another name."""
    from pine_boost.files import keep_elsewhere, write_folder

    try:
        folder = write_folder(
            arguments.output, files, last=last, owned=_owned(arguments, owned), overwrite=arguments.force
        )
        arguments.written = folder  # whoever interrupts from now on has lost nothing but the report
        return folder
    except PineBoostError as error:
        kept = keep_elsewhere(arguments.output, files, last)
        if kept is None:
            raise
        raise OutputError(f"{error} The result was kept in {kept}.") from error


def _owned(arguments: argparse.Namespace, owned: Owned | None) -> Collection[str]:
    from pine_boost.certificate.saved import owned_files

    return (owned or owned_files)(arguments.output)


def seconds_for_report(arguments: argparse.Namespace) -> float:
    """What of the time limit is kept for the report; without a limit it may take half a minute.

    A report whose time is spent still shows what needs no measuring.
    """
    if arguments.no_report:
        return 0.0
    limit = arguments.time_limit
    return _LONGEST_REPORT if limit is None else min(_LONGEST_REPORT, 0.1 * float(limit))


@dataclass(frozen=True)
class Measured:
    """What --test says of a result: the evaluation and the prepared rows, or what went wrong."""

    evaluation: Any = None
    rows: Any = None
    failed: Exception | None = None

    def require(self, folder: Path) -> None:
        """Say last of all that the evaluation failed; the result is there and was told of."""
        if self.failed is not None:
            raise PineBoostError(
                f"Only the evaluation on --test failed ({type(self.failed).__name__}: "
                f"{self.failed}); what is written to {folder} holds, and needs no evaluation."
            ) from self.failed


def measure(result: Any, given: Any, test: Any) -> Measured:
    """Evaluate a result that was written on the rows of --test; never raises for what fails."""
    if test is None:
        return Measured()
    try:
        return Measured(result.evaluate(test.X, test.y), given.wrapper.rows(test.X))
    except Exception as error:  # the result holds whatever these rows are like
        return Measured(failed=error)


def write_report(path: Path, render: Callable[[Any], str], seconds: float) -> bool:
    """Add a report to a result that is on disk already; says why where that fails.

    ``render`` is given a budget: how long it may take, and whom to tell what it does.
    """
    from pine_boost.budget import Budget
    from pine_boost.files import clear_errors, write_file

    stream = sys.stderr

    def report_progress(text: str) -> None:
        if stream.isatty():
            print(f"\r{text:<60}", end="", file=stream, flush=True)

    try:
        budget = Budget.of(seconds, callback=lambda step: report_progress(step.phase))
        page = render(budget).encode()
        report_progress("")
        with clear_errors(path):
            write_file(path, page)
    except PineBoostError as error:
        print(f"pine-boost: warning: no report was written: {error}", file=sys.stderr)
        return False
    return True
