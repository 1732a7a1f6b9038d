"""Messages in the words of the command line: every keyword that a message names, and every call."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pine_boost
from pine_boost.certificate.next_steps import _COMPRESS
from pine_boost.cli import build_parser
from pine_boost.cli.words import FLAGS, advice_in_flags, files_of, in_flags

PACKAGE = Path(pine_boost.__file__).parent
# no command can bring these about, or they are words of another library
PYTHON_ONLY = {
    "callback",
    "verbose",
    "method",
    "options",
    "decision",
    "serving",
    "init",
    "missing",
    "model",
    "margins",
    "delta",
}


def _messages() -> Iterator[str]:
    """The text of everything that is raised or warned of; a number stands for what is filled in."""
    for path in sorted([*PACKAGE.rglob("*.py"), *(PACKAGE / "parsers").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            is_warning = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "warn"
            if isinstance(node, ast.Raise) or is_warning:
                inside = list(ast.walk(node))
                parts = {id(v) for n in inside if isinstance(n, ast.JoinedStr) for v in n.values}
                for part in inside:
                    if isinstance(part, ast.JoinedStr):
                        texts = (v.value if isinstance(v, ast.Constant) else 7 for v in part.values)
                        yield "".join(map(str, texts))
                    elif id(part) not in parts and isinstance(part, ast.Constant):
                        yield str(part.value)


def _options() -> set[str]:
    actions = build_parser()._actions
    found = next(a for a in actions if isinstance(a, argparse._SubParsersAction))
    return {flag for p in found.choices.values() for a in p._actions for flag in a.option_strings}


def _keywords() -> set[str]:
    named = (getattr(pine_boost, name) for name in pine_boost.__all__)
    functions = [thing for thing in named if inspect.isfunction(thing)]
    taken = {p for f in functions for p in inspect.signature(f).parameters}
    return (taken | set(FLAGS)) - PYTHON_ONLY


def test_no_message_names_a_keyword_on_the_command_line() -> None:
    messages = set(_messages())
    assert len(messages) > 300
    keyword = re.compile(rf"(?<![\w'])({'|'.join(sorted(_keywords()))})=")
    left = [in_flags(text) for text in messages if keyword.search(in_flags(text))]
    # what is asked of a training library is not ours to translate
    assert [text for text in left if "objective='multi" not in text] == []
    tables = re.compile(r"\bX_(fit|cal|val|look|test)\b|_booster\b")
    assert [in_flags(text) for text in messages if tables.search(in_flags(text))] == []


def test_every_flag_exists() -> None:
    known = _options()
    assert set(FLAGS.values()) <= known
    for text in _messages():
        if in_flags(text) != text:
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", in_flags(text))) <= known


@pytest.mark.parametrize(
    ("python", "here"),
    [
        ("alpha=2: a number in [0, 1)", "--alpha 2: a number in [0, 1)"),
        ("threshold=(0.7, 0.3) must ascend", "--threshold 0.7 --threshold 0.3 must ascend"),
        ("only alpha=0 with indifference=0 (every", "only --alpha 0 with --indifference 0 (every"),
        ("n_jobs=-5: a whole number", "--jobs -5: a whole number"),
        ("(reweight='tree'), on", "(--reweight tree), on"),
        ("pass tolerance=, the most", "pass --tolerance, the most"),
        ("train with objective='multiclass'.", "train with objective='multiclass'."),
        ("objective='l1', which is faster", "--objective l1, which is faster"),
        ("X_val has no rows.", "--val has no rows."),
        ("a larger time_limit, or", "a larger --time-limit, or"),
        ("X_fit.csv, data/X_fit and 'X_fit'", "X_fit.csv, data/X_fit and 'X_fit'"),
        ("prune_booster drops whole trees", "pine-boost prune drops whole trees"),
    ],
)
def test_words(python: str, here: str) -> None:
    assert in_flags(python) == here


def test_calls_are_command_lines() -> None:
    call = "pine_boost.prune_booster(model, X_fit, X_cal, alpha=0.1, indifference='auto', "
    call += "threshold=(0.3, 0.7), spent=survey)"
    asked = "--alpha 0.1 --indifference auto --threshold 0.3 --threshold 0.7 --spent"
    assert in_flags(call) == f"pine-boost prune MODEL --fit FIT --cal CAL {asked} SURVEY.json"
    arguments = ["survey", "my model.pkl", "--trust-pickle", "--fit", "a.csv", "--look", "b.csv"]
    files = files_of(build_parser().parse_args([*arguments, "-o", "s.json"]))
    found = in_flags(call, files)
    assert found.startswith("pine-boost prune 'my model.pkl' --trust-pickle --fit a.csv --cal CAL")
    assert found.endswith("--spent s.json")
    assert in_flags("pine_boost.simplify(model)") == "pine-boost simplify MODEL -o SMALLER"
    build_parser().parse_args(in_flags(call).split()[1:])
    advice = advice_in_flags(f"X_cal is promised\nLittle was removed: so. To try:\n- {_COMPRESS}")
    assert advice.startswith("X_cal is promised\nLittle")
    assert "- pine-boost compress MODEL --fit FIT --val VAL --fidelity 0.99: a much" in advice
