"""Flags: they come from the table of options, and errors name them."""

import argparse
import ast
import pickle
import re
from pathlib import Path

import pytest

import pine_boost
from pine_boost.cli import COMMANDS, build_parser
from pine_boost.cli.flags import message_of
from pine_boost.cli.survey import with_files
from pine_boost.errors import HoldoutWarning, InvalidInputError, MissingDependencyError, OutputError
from pine_boost.options import TABLE, as_command, flag_of

PACKAGE = Path(pine_boost.__file__).parent
TABLES = ("X_fit", "X_cal", "X_val", "X_look")


def _parsers():
    actions = build_parser()._actions
    return dict(next(a for a in actions if isinstance(a, argparse._SubParsersAction)).choices)


def _raised():
    """Where an error is raised, its text, and the options that it carries."""
    for path in sorted([*PACKAGE.rglob("*.py"), *(PACKAGE / "parsers").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not getattr(node.func, "id", "").endswith(("Error", "Mismatch")):
                continue
            texts = [n.value for a in node.args for n in ast.walk(a) if isinstance(n, ast.Constant)]
            option = next((k.value for k in node.keywords if k.arg == "option"), None)
            names = [n.value for n in ast.walk(option) if isinstance(n, ast.Constant)] if option else []
            yield f"{path.name}:{node.lineno}", " ".join(map(str, texts)), tuple(names)


def test_an_error_that_names_a_table_or_a_flag_of_the_table_carries_it():
    raised = list(_raised())
    assert len(raised) > 300
    internal = ("Internal error", "neither in the region nor in X_fit")
    missing = [
        (where, name)
        for where, text, options in raised
        for name in TABLES
        if re.search(rf"\b{name}\b", text) and name not in options and not any(words in text for words in internal)
    ]
    assert missing == []
    for where, _, options in raised:
        for name in options:
            assert name in TABLE or flag_of(name), (where, name)


def test_every_flag_of_the_table_exists_somewhere():
    known = {flag for parser in _parsers().values() for action in parser._actions for flag in action.option_strings}
    assert {option.flag_name for option in TABLE.values() if option.flag_name} <= known
    assert {flag_of("overwrite"), flag_of("codes")} <= known


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_has_one_sentence_of_help(command):
    for action in _parsers()[command]._actions:
        if action.dest == "help":
            continue
        assert action.help, action.dest
        assert action.help[0].isupper() or action.help.startswith(("region.json", "XGBoost")), action.help
        assert action.help.endswith("."), action.help
        assert ". " not in action.help.replace("e.g. ", ""), action.help


@pytest.mark.parametrize("command", COMMANDS)
def test_the_default_in_the_help_is_the_default(command):
    for action in _parsers()[command]._actions:
        shown = re.search(r"\(default: ([^)]*)\)", action.help or "")
        if shown and action.option_strings and action.default is not None:
            default = f"{action.default:g}" if isinstance(action.default, float) else str(action.default)
            assert shown[1] == default, action.option_strings


@pytest.mark.parametrize(
    ("python", "options", "here"),
    [
        ("alpha must be a number in [0, 1), got 2.", "alpha", "--alpha must be a number in [0, 1), got 2."),
        ("only alpha=0 with indifference=0", ("alpha", "indifference"), "only --alpha=0 with --indifference=0"),
        ("n_jobs must be positive or -1, got -5.", "n_jobs", "--jobs must be positive or -1, got -5."),
        ("pass trust_pickle=True for your own", "trust_pickle", "pass --trust-pickle for your own"),
        ("train with objective='multiclass'.", (), "train with objective='multiclass'."),
        ("X_val has no rows.", "X_val", "--val has no rows."),
        ("a larger time_limit, or", "time_limit", "a larger --time-limit, or"),
        ("X_fit.csv, data/X_fit, 'X_fit': X_fit.", "X_fit", "X_fit.csv, data/X_fit, 'X_fit': --fit."),
        ("callback must be callable or None", "callback", "callback must be callable or None"),
    ],
)
def test_messages_name_flags(python, options, here):
    assert message_of(InvalidInputError(python, option=options)) == here
    assert message_of(HoldoutWarning(python, option=options)) == here


@pytest.mark.parametrize("kind", [InvalidInputError, MissingDependencyError, OutputError, HoldoutWarning])
def test_an_error_travels_between_processes_with_its_option(kind):
    again = pickle.loads(pickle.dumps(kind("alpha must be small", option="alpha")))
    assert (str(again), again.option) == ("alpha must be small", ("alpha",))


def test_an_offered_command_has_the_files_of_the_survey_and_can_be_parsed():
    command = as_command("prune_booster", ("X_fit", "X_cal"), {"alpha": 0.1, "spent": "survey"})
    arguments = ["survey", "my model.pkl", "--trust-pickle", "--fit", "a.csv", "--look", "b.csv", "-o", "s.json"]
    found = with_files(command, build_parser().parse_args(arguments))
    assert found == "pine-boost prune 'my model.pkl' --trust-pickle --fit a.csv --cal CAL --alpha 0.1 --spent s.json"
    build_parser().parse_args(command.split()[1:])
