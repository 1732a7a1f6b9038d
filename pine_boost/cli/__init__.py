"""The command line: one module per command, dispatched here.

Results go to stdout, everything else to stderr. Exit codes: 0 certified or done, 2 not certified
within the budget, 3 alarm of a monitor, 1 error (one line; a traceback with --debug), 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from pine_boost._version import __version__
from pine_boost.budget import finishing
from pine_boost.cli.flags import add_arguments, add_options, message_of
from pine_boost.errors import PineBoostError

INTERRUPTED = 130  # as shells count Ctrl-C
COMMANDS = {
    "prune": "prune a model and certify that it predicts the same classes",
    "compress": "make a model much smaller and test it on unseen rows",
    "accelerate": "write a scorer that gives the model's own classes in microseconds",
    "fleet": "prune, compress or accelerate many models",
    "sweep": "prune a model for many alphas",
    "survey": "show which smaller models are achievable, with which promise",
    "simplify": "write the same model with fewer nodes, without data",
    "export": "convert a model to Treelite, C code, ONNX or SQL",
    "guard": "combine a result and its original into one guarded model",
    "score": "predict the classes of a table with a scorer or guarded model",
    "verify": "prove a saved result again from its files, or count it again on its validation rows",
    "parity": "compare the answers of two models on a table",
    "inspect": "show what is in a model file, and whether it is supported",
    "check-inputs": "show which rows of a table a certificate covers, and why it does not cover the others",
    "monitor": "count live inputs against a region and raise an alarm on drift",
    "report": "write the HTML report of a saved result again",
    "doctor": "check on this machine what proofs and scorers rely on",
    "demo": "train, prune and report on data that scikit-learn ships",
}


class _Parser(argparse.ArgumentParser):
    """Exits with 1 on wrong usage, because 2 means "not certified within the budget"."""

    def error(self, message: str) -> NoReturn:
        self.exit(1, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


class _Version(argparse.Action):
    """Prints the version; finding the kernel may compile it, so not before it is needed."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from pine_boost import kernels

        print(f"pine-boost {__version__} (kernel: {kernels.name()})")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(
        prog="pine-boost",
        description="Faster and smaller tree ensembles, with a promise that can be checked.",
        epilog="Exit codes: 0 certified or done, 2 not certified within the budget, 3 alarm of monitor, 1 error, "
        "130 interrupted (what was written is valid).",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="Show the version and the kernel that runs here.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        module = _module(name)
        examples = (module.__doc__ or "").partition("Examples\n--------\n")[2].rstrip()
        command = commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.format_parser(command)
        if name not in ("doctor", "demo"):
            add_options(command, "", ["trust_pickle"])
        add_arguments(command, name, "json debug")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    started = time.monotonic()  # a time limit covers the whole command, imports included
    parsed = argparse.Namespace(debug=False)
    with finishing(ignored=0) as presses:  # a library that is interrupted while it is imported may raise another error
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                warnings.showwarning = _show_warning
                parsed = build_parser().parse_args(arguments)
                parsed.started = started
                return int(_module(parsed.command).main(parsed))
        except BrokenPipeError:  # the reader of our output is gone, as with head
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except KeyboardInterrupt:
            if parsed.debug:
                raise
            return _interrupted(parsed)
        except Exception as error:
            if parsed.debug:
                raise
            is_certain = isinstance(error, (OSError, PineBoostError)) and not isinstance(error, ImportError)
            return _interrupted(parsed) if presses and not is_certain else _fail(_one_line(error))


def _module(command: str) -> Any:
    return import_module(f"pine_boost.cli.{command.replace('-', '_')}")


def _interrupted(parsed: argparse.Namespace) -> int:
    written = getattr(parsed, "written", None)
    _fail(f"interrupted; {f'written to {written}' if written else 'nothing was written'}")
    return INTERRUPTED


def _fail(text: str) -> int:
    print(f"pine-boost: error: {text}", file=sys.stderr)
    return 1


def _one_line(error: Exception) -> str:
    text = message_of(error)
    if isinstance(error, PineBoostError):
        return text
    if isinstance(error, OSError):
        return f"{error.strerror or text}: {error.filename}" if error.filename else text
    return f"{type(error).__name__}: {text} (run again with --debug for the traceback)"


def _show_warning(message: Any, category: Any, *_: Any, **__: Any) -> None:
    if issubclass(category, UserWarning):
        print(f"pine-boost: warning: {message_of(message)}", file=sys.stderr)
