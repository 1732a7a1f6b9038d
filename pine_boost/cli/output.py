"""Where a command writes: checked before the work begins, and results are never lost."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pine_boost.budget import Budget
from pine_boost.certificate.saved import REPORT, WHOLE_MODEL
from pine_boost.cli import INTERRUPTED
from pine_boost.errors import OutputError, PineBoostError
from pine_boost.files import require_free_file, save_file
from pine_boost.folders import keep_elsewhere, require_free, require_writable, write_folder
from pine_boost.progress import Progress

_LONGEST_REPORT = 30.0
# arguments that name what is read
_INPUTS = (
    *("model", "original", "a", "b", "X_fit", "X_cal", "X_val", "X_look", "data", "test", "val"),
    *("domain", "spent", "region", "state"),
)


def require_place(arguments: argparse.Namespace, names: Iterable[str]) -> None:
    """Raise if the output folder cannot be written, before the work begins; the manifest is the last name."""
    require_free(arguments.output, names, overwrite=arguments.force, inputs=_inputs_of(arguments))
    require_writable(arguments.output)


def require_file(
    arguments: argparse.Namespace, path: Any, beginning: bytes | None = None, *, replaces: bool = False
) -> None:
    """Raise if a file that was named, if any, cannot be written; see `require_free_file`."""
    if path is not None:
        require_free_file(
            path, inputs=_inputs_of(arguments), beginning=beginning, overwrite=replaces or arguments.force
        )


def _inputs_of(arguments: argparse.Namespace) -> list[str]:
    """The files that a command reads and never replaces."""
    named = [getattr(arguments, name, None) for name in _INPUTS]
    region = getattr(arguments, "region", None)
    named.append(None if region is None else os.path.join(region, "region.json"))
    return [path for value in named if value is not None for path in (value if isinstance(value, list) else [value])]


def result_names(given: Any, *manifests: str, report: bool) -> list[str]:
    """Names of the model files and the report of a result about this model, and of its manifests."""
    from pine_boost.native.predict import model_file, original_bytes

    parsed = given.parsed
    native = original_bytes(parsed) if parsed.native is None else parsed.native
    name, _ = model_file(native, parsed.forest.library)
    return [name, *([WHOLE_MODEL] if given.is_wrapped else []), *([REPORT] if report else []), *manifests]


def write_results(arguments: argparse.Namespace, files: Mapping[str, bytes]) -> Path:
    """Write the files; if that fails, keep them under another name."""
    try:
        folder = write_folder(arguments.output, files, overwrite=arguments.force)
        arguments.written = folder  # an interruption from now on loses only the report
        return folder
    except PineBoostError as error:
        kept = keep_elsewhere(arguments.output, files)
        if kept is None:
            raise
        raise OutputError(f"{error} The result was kept in {kept}.") from error


def seconds_for_report(arguments: argparse.Namespace) -> float:
    """The part of the time limit that is kept for the report; half a minute without a limit.

    A report without time left still shows what needs no measuring.
    """
    if arguments.no_report:
        return 0.0
    limit = arguments.time_limit
    return _LONGEST_REPORT if limit is None else min(_LONGEST_REPORT, 0.1 * float(limit))


def measure(result: Any, given: Any, test: Any) -> tuple[Any, Any, Exception | None]:
    """The evaluation on --test and the prepared rows, or None for both; an error is kept for `require_measured`."""
    if test is None or was_interrupted(result):
        return None, None, None
    try:
        return result.evaluate(test.X, test.y), given.wrapper.rows(test.X), None
    except Exception as error:  # the result is valid whatever these rows are
        return None, None, error


def require_measured(failed: Exception | None, folder: Path) -> None:
    """Raise if the evaluation failed; the result has been written and printed by then."""
    if failed is not None:
        raise PineBoostError(
            f"Only the evaluation on --test failed ({type(failed).__name__}: {failed}); the result in {folder} is "
            "valid without it."
        ) from failed


def was_interrupted(result: Any) -> bool:
    """Whether Ctrl-C ended the work: then nothing more is measured, and no report is written."""
    return bool(result.stopped == "interrupted")


def exit_code(result: Any, kept: str) -> int:
    """0 with a promise, 2 without, 130 interrupted; ``kept`` says what was written then, which holds."""
    if was_interrupted(result):
        print(f"pine-boost: interrupted; wrote {kept}", file=sys.stderr)
        return INTERRUPTED
    return 2 if result.status.startswith("NOT_") else 0


def write_report(
    arguments: argparse.Namespace, result: Any, folder: Path, X: Any = None, curve: Sequence[Any] = (), parts: int = 1
) -> list[str]:
    """Add a report to a result that is already on disk, unless --no-report or Ctrl-C; a failure is only a warning.

    Returns the names of the files that were written. ``parts`` reports share the time for them.
    """
    from pine_boost.report.prune_report import render_report

    if arguments.no_report or was_interrupted(result):
        return []
    try:
        with Progress() as progress:
            budget = Budget.of(seconds_for_report(arguments) / parts, callback=lambda step: progress.say(step.phase))
            page = render_report(getattr(result, "inner", result), X, curve, budget)  # it is about the ensemble
        save_file(folder / REPORT, page.encode())
    except PineBoostError as error:
        print(f"pine-boost: warning: no report was written: {error}", file=sys.stderr)
        return []
    return [REPORT]
