"""The program: flags from the table of options, errors that name them; domains, the demo, logs, Ctrl-C."""

import argparse
import ast
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import xgboost
from sklearn import datasets

import pine_boost.accelerate
from pine_boost.cli import COMMANDS, build_parser
from pine_boost.cli.flags import message_of
from pine_boost.cli.survey import with_files
from pine_boost.errors import HoldoutWarning, InvalidInputError, MissingDependencyError, OutputError
from pine_boost.options import TABLE, as_command, flag_of, read_texts
from pine_boost.region.domain import Condition, Domain, read_domain
from pine_boost.region.region import Region
from tests.support.command_line import expect, run, words, write_inputs

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


def test_every_text_of_an_argument_is_the_help_of_a_command():
    shown = [action.help or "" for parser in _parsers().values() for action in parser._actions]
    texts = read_texts((PACKAGE / "cli" / "arguments.txt").read_text())
    assert [
        name
        for name, (_, text) in texts.items()
        if not any(h.startswith(text.split("{")[0].rstrip(".")) for h in shown)
    ] == []


@pytest.mark.parametrize(
    ("flag", "text"), [("--fidelity", "99%"), ("--confidence", "95 %"), ("--max-loss", "1%"), ("--threshold", "30%")]
)
def test_a_percentage_is_told_how_to_write_a_share(flag, text, capsys):
    with pytest.raises(SystemExit):
        build_parser().parse_args(["compress", "model.json", "--fit", "a", "--val", "b", flag, text])
    assert f"argument {flag}: {text!r} is not a number; write a share such as 0.99" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_has_one_sentence_of_help(command):
    for action in _parsers()[command]._actions:
        if action.dest == "help":
            continue
        assert action.help, action.dest
        assert action.help[0].isupper() or action.help.startswith(("region.json", "XGBoost")), action.help
        assert action.help.endswith("."), action.help
        assert ". " not in action.help.replace("e.g. ", ""), action.help
        assert "``" not in action.help, action.help
        takes_a_value = action.option_strings and action.nargs != 0
        assert not takes_a_value or action.required or "default" in action.help, action.option_strings


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


def test_a_domain_file_says_what_a_domain_says(tmp_path):
    path = tmp_path / "domain.json"
    path.write_text(
        json.dumps(
            {
                "lower": {"age": 18},
                "integer": ["age"],
                "never_missing": True,
                "forbidden": [[{"feature": "age", "upper": 20}, {"feature": "job", "categories": ["x"]}]],
            }
        )
    )
    expected = Domain(
        lower={"age": 18},
        integer=["age"],
        never_missing=True,
        forbidden=[(Condition("age", upper=20), Condition("job", categories=["x"]))],
    )
    assert read_domain(str(path)) == expected
    for wrong in ('{"lowest": {}}', "[]", "{", '{"forbidden": [[{"name": "age"}]]}'):
        path.write_text(wrong)
        with pytest.raises(InvalidInputError):
            read_domain(str(path))


def test_the_domain_reaches_the_region(files, given, tmp_path, capsys):
    # an upper bound forbids a state only if all of it lies above: take it below a threshold
    nodes = xgboost.Booster(model_file=files / "model.json").trees_to_dataframe()
    splits = nodes[nodes["Feature"] != "Leaf"].groupby("Feature")["Split"].max()
    name = "mean area"
    upper = float(splits[name]) * 0.999
    (tmp_path / "domain.json").write_text(json.dumps({"upper": {name: upper}}))
    domain = tmp_path / "domain.json"
    _, err = expect(capsys, 0, f"prune {given} --alpha 0.5 --objective l1 --domain {domain} -o {tmp_path}/out")
    assert "The domain excludes" in err
    X = datasets.load_breast_cancer(as_frame=True).data.iloc[:1, :6]
    X.loc[X.index[0], name] = float(splits[name]) * 1.001
    assert not Region.load(tmp_path / "out/region.json").contains(X)[0]


def test_demo_prunes_and_reports(tmp_path, capsys):
    out, _ = expect(capsys, 0, "demo", "-o", tmp_path / "demo", "--alpha", "0.4", "--time-limit", "3", "--json")
    document = json.loads(out)
    assert document["trees_after"] < document["trees_before"] / 2
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"original.json", "model.json", "report.html", "certificate.json"} <= names


def test_as_a_program_with_plain_lines_in_a_log(files, tmp_path):
    done = subprocess.run(
        words(
            f"{sys.executable} -m pine_boost prune model.json --fit fit.csv --cal cal.csv --alpha 0.5 -o {tmp_path}/out"
        ),
        cwd=files,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("CERTIFIED")
    assert "\r" not in done.stderr
    assert "10 rounds, nothing smaller proved yet" in done.stderr
    assert "(proved once)" in done.stderr
    assert (tmp_path / "out" / "certificate.json").is_file()


@pytest.mark.usefixtures("python_hears_ctrl_c")
@pytest.mark.parametrize(
    ("raised", "expected", "words"),
    [
        (ImportError("a half of numpy"), 130, "interrupted; nothing was written"),
        (MissingDependencyError("Install xgboost."), 130, "interrupted; nothing was written"),
        (TypeError("cannot compare structured or void to non-structured arrays"), 130, "interrupted; nothing"),
        (OutputError("The result was kept in /tmp."), 1, "The result was kept in /tmp."),
    ],
)
def test_an_error_that_ctrl_c_became_is_an_interruption(raised, expected, words, monkeypatch, capsys):
    def press(_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise raised from None

    monkeypatch.setattr("pine_boost.cli.doctor.main", press)
    code, _, err = run(capsys, "doctor")
    assert (code, words in err) == (expected, True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("body", "expected", "words"),
    [
        ("exec('import signal; signal.raise_signal(signal.SIGINT)')", 130, "error: interrupted; nothing was written"),
        ("atexit.register(signal.raise_signal, signal.SIGINT) and 0", 0, ""),
    ],
)
def test_ctrl_c_in_an_import_or_at_the_end_does_not_kill_the_interpreter(body, expected, words):
    program = f"""
import atexit, signal, sys
import pine_boost.cli.doctor
from pine_boost.__main__ import run
signal.signal(signal.SIGINT, signal.default_int_handler)
pine_boost.cli.doctor.main = lambda _: {body}
sys.argv = ["pine-boost", "doctor"]
sys.exit(run())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("python_hears_ctrl_c")
def test_ctrl_c_is_acknowledged_without_a_terminal(tmp_path, monkeypatch, capsys):
    X, y = datasets.load_breast_cancer(return_X_y=True)
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, nthread=1).fit(X, y)
    model.save_model(tmp_path / "model.json")
    real, pressed = pine_boost.accelerate.proved_plan, []

    def press(*given, **named):
        if not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        return real(*given, **named)

    monkeypatch.setattr("pine_boost.accelerate.proved_plan", press)
    _, err = expect(capsys, 130, "accelerate", tmp_path / "model.json", "-o", tmp_path / "out")
    assert err.index("Ctrl-C: stopping; the best result so far is kept") < err.index("interrupted; wrote a scorer")
    monkeypatch.setattr("pine_boost.fleet.run_fleet", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    _, err = expect(capsys, 130, "fleet", tmp_path, "-o", tmp_path / "many")
    assert err.startswith("Ctrl-C: stopping; what is done is kept")


@pytest.mark.posix
def test_ctrl_c_keeps_the_best_certified_model(tmp_path):
    X, y = datasets.load_breast_cancer(return_X_y=True)
    model = xgboost.XGBClassifier(n_estimators=60, max_depth=3, nthread=1).fit(X[:250], y[:250])
    write_inputs(tmp_path, model, fit=X[:250], cal=X[250:])
    process = subprocess.Popen(
        words(f"{sys.executable} -m pine_boost prune model.json --fit fit.npy --cal cal.npy --alpha 0.05 -o out"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    process.stderr.readline()  # the search has begun
    time.sleep(1.0)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    status = json.loads((tmp_path / "out/certificate.json").read_text())["status"]
    written = {"CERTIFIED": "best model certified so far", "NOT_CERTIFIED": "the original"}[status]
    assert f"interrupted; wrote the {written}".replace("the the", "the") in err
    assert "Ctrl-C: stopping; the best result so far is kept" in err
    assert out.startswith(status)
    assert (tmp_path / "out/model.json").is_file()
