"""Flags from the table of options, and the files that they name."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pine_boost.errors import InvalidInputError
from pine_boost.json_fields import plain
from pine_boost.options import Option, Options, flag_of, option_of, read_texts, require_seconds
from pine_boost.progress import Progress
from pine_boost.tables.schema import InputSchema
from pine_boost.tables.table_files import label_if_any, read_table

_TEXTS = read_texts(Path(__file__).with_name("arguments.txt").read_text(encoding="utf-8"))
SEARCH = tuple(entry.name for entry in fields(Options) if entry.name != "allow_overlap")


def add_arguments(parser: Any, command: str, names: str, **how: dict[str, Any]) -> None:
    """Add arguments that are no options of a call; ``arguments.txt`` has their flags, metavars and texts.

    ``how`` is what argparse must know beyond that; flags without a metavar or more to know are switches.
    """
    for name in names.split():
        words, text = _TEXTS.get(f"{command}.{name}") or _TEXTS[name]
        flags = [word for word in words.split() if word.startswith("-")]
        told = {"dest": name} if flags else {}
        if metavar := " ".join(words.split()[len(flags) :]):
            told["metavar"] = metavar
        elif name not in how:
            told["action"] = "store_true"
        known = how.get(name, {})
        if flags and metavar and not known.get("required") and "default" not in text:
            text = f"{text.rstrip('.')} (default: none)."
        parser.add_argument(*(flags or [name]), help=text.format(**known), **told, **known)


def add_options(parser: Any, call: str, names: Iterable[str], **defaults: Any) -> None:
    """Add the flags of some options of a call; those without a flag are left out.

    ``defaults`` are those of this command where it differs from the table.
    """
    for name in names:
        option = option_of(call, name)
        option = replace(option, default=defaults.get(name, option.default))
        if option.flag_name:
            add_option(parser, option, option.help(call))


def add_option(parser: Any, option: Option, text: str) -> None:
    """Add the flag of one option with its help text."""
    how: dict[str, Any] = {"dest": option.name, "help": text}
    if option.default is False:
        how["action"] = "store_true"
    else:
        how["default"] = option.default if option.has_default else None
        how["required"] = not option.has_default
        how |= {"choices": option.choices} if option.choices else {"type": _parse_of(option), "metavar": option.metavar}
        if option.name == "threshold":
            how["action"] = "append"
    parser.add_argument(option.flag_name, **how)


def _parse_of(option: Option) -> Callable[[str], Any]:
    """What reads the value of a flag; a percentage is told how a share is written."""
    if option.metavar not in ("SHARE", "P", "LOSS"):
        return option.parse

    def parse(text: str) -> Any:
        try:
            return option.parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number; write a share such as 0.99") from None

    return parse


def add_data(parser: argparse.ArgumentParser, call: str, names: Iterable[str]) -> Any:
    """Add the tables of a call and the options about their rows."""
    data = parser.add_argument_group("data (CSV, Parquet, Feather/Arrow, .npy)")
    add_options(data, call, names)
    return data


def call_options(arguments: argparse.Namespace, names: Iterable[str], kept: float = 0.0) -> dict[str, Any]:
    """The keyword arguments of a call.

    The time limit is that of the whole command: the time spent on importing and reading is
    subtracted, and ``kept`` seconds are left for the report.
    """
    taken = {name: getattr(arguments, name) for name in names if hasattr(arguments, name)}
    if "threshold" in taken:
        taken["threshold"] = thresholds(arguments)
    if taken.get("domain") is not None:
        from pine_boost.region.domain import read_domain

        taken["domain"] = read_domain(taken["domain"])
    limit = taken.get("time_limit")
    if limit is not None:
        require_seconds(limit, "time_limit")
        taken["time_limit"] = max(limit - kept - (time.monotonic() - arguments.started), 0.001 * limit)
    return taken


def thresholds(arguments: argparse.Namespace) -> Any:
    """One threshold as a number, several as a tuple, None without any."""
    given = arguments.threshold
    if not given:
        return None
    return given[0] if len(given) == 1 else tuple(given)


def progress_of(arguments: argparse.Namespace) -> Progress:
    """The progress line of a command, which counts from its beginning."""
    progress = Progress(time_limit=arguments.time_limit, option="--time-limit", started=arguments.started)
    progress.say("reading the model and the tables")
    return progress


def message_of(error: BaseException | Warning) -> str:
    """The message in one line, with flags for the options that it is about."""
    text = " ".join(str(error).split())
    for name in getattr(error, "option", ()):
        if flag := flag_of(name):
            text = re.sub(rf"(?<![\w./'-]){name}(?:=True)?(?![\w/']|\.\w)", flag, text)
    return text


def read_given_model(arguments: argparse.Namespace, decision: str = "class") -> Any:
    """The model that was named, with what lies around it."""
    from pine_boost.pipelines.unwrapping import read_given

    return read_given(
        arguments.model, threshold=thresholds(arguments), trust_pickle=arguments.trust_pickle, decision=decision
    )


def read_given_or_average(arguments: argparse.Namespace) -> tuple[Any, bool]:
    """The model that was named, and whether it averages several ensembles."""
    from pine_boost.committee import committee_of
    from pine_boost.parsers import open_pickle

    average = committee_of(open_pickle(arguments.model, arguments.trust_pickle))
    return (read_given_model(arguments, "value"), False) if average is None else (average.given, True)


def read_rows(path: str | None, given: Any, label: str | None = None) -> Any:
    """The rows of a table file without its labels, or None; a folder of Parquet files is read in chunks later."""
    if path is None:
        return None
    return given.read_rows(path) if Path(path).is_dir() else read_data(path, given, label_if_any(label)).X


def read_labelled(path: str, given: Any, label: str | None) -> tuple[Any, Any]:
    """The rows of a table file and the labels of one of its columns; None without the name of one."""
    if label is None:
        return read_rows(path, given), None
    if Path(path).is_dir():
        raise InvalidInputError(f"--label {label}: {path} is a folder; labels are read from single files only.")
    table = read_data(path, given, label)
    return table.X, table.y


def read_data(path: str | None, columns: Any, label: str | None = None) -> Any:
    """A table file, or None; notes on stderr which columns the model does not have.

    ``columns`` is an InputSchema, or a GivenModel whose Pipeline takes raw columns.
    """
    if path is None:
        if label is not None:
            raise InvalidInputError(f"--label {label} names a column of --test, but --test is missing.")
        return None
    table = read_table(path, columns, label) if isinstance(columns, InputSchema) else columns.read_table(path, label)
    return noted(path, table)


def noted(path: str, table: Any) -> Any:
    """A table that was read; says on stderr which of its columns the model does not have."""
    if table.left_out:
        listed = ", ".join(table.left_out[:8]) + (", ..." if len(table.left_out) > 8 else "")
        print(f"pine-boost: note: {path}: columns left out: {listed}", file=sys.stderr)
    return table


def read_test(arguments: argparse.Namespace, given: Any) -> Any:
    """The table of --test, or None; raises for labels that the model does not have."""
    from pine_boost.result import classes_of

    test = read_data(arguments.test, given, arguments.label)
    if test is not None and test.y is not None:
        try:
            classes_of(given.parsed, test.y, len(test.y))
        except InvalidInputError as error:
            raise InvalidInputError(f"{arguments.test}, column {arguments.label!r}: {error}") from error
    return test


def answer(arguments: argparse.Namespace, document: Any, text: Any) -> None:
    """Print the answer of a command: strict JSON with --json, else a text."""
    print(json.dumps(plain(document), indent=1) if arguments.json else text)
