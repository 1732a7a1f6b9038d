"""What the library tells a caller in Python, in the words of the command line.

In come errors, warnings and advice; out goes the same with flags and command lines in place of
keywords and calls. The one place where both are known; what it does not know passes unchanged.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping
from typing import Any

# sentences that are not made of keywords alone
SENTENCES = {
    "Load it yourself and pass the model, or pass trust_pickle=True (--trust-pickle on the command "
    "line)": "Say --trust-pickle",
    "pass trust_pickle=True": "say --trust-pickle",
    "say overwrite=True (--force on the command line)": "say --force",
    "Pass both X_fit and X_cal (--fit and --cal)": "Name both --fit and --cal",
    "Pass X_cal.": "Name one with --cal.",
    "pass model=<the original> or margins=<its raw scores>": "name the original with --model",
    "pass codes=True and feed the position of each value in Forest.feature_categories": "say "
    "--codes and feed the position of each value in the categories.json that is written then",
    "Leave threshold=None": "Leave --threshold out",
    "leave threshold=None": "leave --threshold out",
    "takes threshold=None": "takes no --threshold",
    "spent=survey (what pine_boost.survey returned, or the file it was saved to)": "--spent with "
    "the file that -o wrote",
    "PruneResult.load(folder, original=...)": "--original",
    "pass X_fit and X_cal to fit_region": "prune with a larger alpha",
}
# tables, and keywords that have another name as a flag
RENAMED = {
    "X_fit": "--fit",
    "X_cal": "--cal",
    "X_val": "--val",
    "X_look": "--look",
    "X_test": "--test",
    "n_jobs": "--jobs",
    "n_bins": "--bins",
    "random_state": "--seed",
    "overwrite": "--force",
}
SAME = (
    "allow_overlap",
    "alpha",
    "alphas",
    "backend",
    "codes",
    "confidence",
    "domain",
    "fidelity",
    "fold_constants",
    "indifference",
    "objective",
    "reweight",
    "score",
    "segments",
    "spent",
    "threshold",
    "time_limit",
    "tolerance",
    "trust_pickle",
    "unit",
)
FLAGS = {name: f"--{name.replace('_', '-')}" for name in SAME} | RENAMED
COMMANDS = {
    "prune_booster": "prune",
    "compress_booster": "compress",
    "simplify": "simplify",
    "sweep": "sweep",
    "survey": "survey",
}
_OURS = {"objective": ("l0", "l1")}  # other values of it are those of a training library
_NEEDS = {"simplify": "-o SMALLER"}
_VALUE = r"True\b|None\b|'[^']*'|\([^()]*\)|-?\w[\w.]*\w|-?\w|"
_KEYWORD = re.compile(rf"(?<![\w'(./-])(\(?)({'|'.join(FLAGS)})=(?!=)({_VALUE})")
_UNMISTAKABLE = [name for name in FLAGS if "_" in name]
_NAME = re.compile(rf"(?<![\w'/.-])({'|'.join(_UNMISTAKABLE)})(?![\w'/]|\.\w)")
_CALL = re.compile(rf"(?:pine_boost\.)?\b({'|'.join(COMMANDS)})\((?:[^()]|\([^()]*\))+\)")
_FUNCTION = re.compile(r"(?<![\w'/.])(prune|compress)_booster\b(?!\()")


def in_flags(text: str, files: Mapping[str, str] | None = None) -> str:
    """The text with command lines, flags and commands in place of calls, keywords and functions.

    ``files`` are those that were named to this command, by the names that calls give them.
    """
    for python, here in SENTENCES.items():
        text = text.replace(python, here)
    text = _CALL.sub(lambda found: _command(found, files or {}), text)
    text = _KEYWORD.sub(_flag, text)
    text = _NAME.sub(lambda found: FLAGS[found[1]], text)
    return _FUNCTION.sub(lambda found: f"pine-boost {found[1]}", text)


def advice_in_flags(summary: str) -> str:
    """A summary whose last part, what to try, is in flags; promises stay as they were written."""
    promised, mark, advice = summary.partition("Little was removed:")
    return promised + mark + in_flags(advice)


def files_of(arguments: Any) -> dict[str, str]:
    """The files of a command by the names that calls give them."""
    model = shlex.quote(str(arguments.model))
    named = {"model": f"{model} --trust-pickle" if arguments.trust_pickle else model}
    for name, given in (("X_fit", "fit"), ("survey", "output")):
        if getattr(arguments, given, None) is not None:
            named[name] = shlex.quote(str(getattr(arguments, given)))
    return named


def _flag(found: re.Match[str]) -> str:
    opened, name, value = found[1], found[2], found[3]
    if value.strip("'") not in _OURS.get(name, (value.strip("'"),)):
        return found[0]
    if value == "None":
        return f"{opened}no {FLAGS[name]}"
    values = [part.strip(" '") for part in value.strip("()").split(",") if part.strip()]
    return opened + _given(FLAGS[name], () if value in ("True", "") else values)


def _given(flag: str, values: Any) -> str:
    return " ".join(f"{flag} {value}" for value in values) or flag


def _command(found: re.Match[str], files: Mapping[str, str]) -> str:
    """A call as a command line; one that is no example of a call (``f(...)``) stays."""
    try:
        call = ast.parse(found[0], mode="eval").body
        assert isinstance(call, ast.Call)
        words = ["pine-boost", COMMANDS[found[1]]]
        for argument in call.args:
            name = ast.unparse(argument)
            here = files.get(name, name.removeprefix("X_").upper())
            words.append(here if name == "model" else f"{FLAGS[name]} {here}")
        for keyword in call.keywords:
            words.append(_given(FLAGS[str(keyword.arg)], _values(keyword.value, files)))
    except (SyntaxError, KeyError):
        return found[0]
    return " ".join([*words, *([_NEEDS[found[1]]] if found[1] in _NEEDS else [])])


def _values(value: ast.expr, files: Mapping[str, str]) -> list[Any]:
    if isinstance(value, ast.Name):  # spent=survey: the file that it was saved to
        return [files.get(value.id, f"{value.id.upper()}.json")]
    constant = ast.literal_eval(value)
    if constant is True:
        return []
    return list(constant) if isinstance(constant, tuple) else [constant]
