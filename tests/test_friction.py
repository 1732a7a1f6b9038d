"""What a user trips over: completion, long representations, loading a result, weights, advice."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

import pine_boost
from pine_boost import InvalidInputError, PineClassifier, PruneResult, prune_booster
from pine_boost.certificate.next_steps import next_steps
from pine_boost.certificate.saved import COMPRESSION
from pine_boost.cli import build_parser, main
from pine_boost.compression.record import RECORD
from pine_boost.errors import CertificateMismatch, OutputError

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


@pytest.fixture(scope="module")
def table() -> Any:
    X, y = load_breast_cancer(return_X_y=True)
    return X[:, :6], y


@pytest.fixture(scope="module")
def model(table: Any) -> Any:
    X, y = table
    boosting = GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0)
    return boosting.fit(X[:250], y[:250])


@pytest.fixture(scope="module")
def result(table: Any, model: Any) -> Any:
    X, _ = table
    return prune_booster(model, X[:250], X[250:450], alpha=0.3)


def test_completion_knows_every_public_name() -> None:
    code = "import pine_boost; assert set(pine_boost.__all__) <= set(dir(pine_boost))"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "SolverBudgetExceeded" not in dir(pine_boost)


def test_representations_fit_into_a_line(result: Any) -> None:
    for thing in (result, result.region, result.certificate):
        assert len(repr(thing)) < 160
        assert "\n" not in repr(thing)
    assert "CERTIFIED" in repr(result)
    assert "alpha=0.3" in repr(result.region)


def test_a_saved_result_is_loaded_again(result: Any, table: Any, model: Any, tmp_path: Path) -> None:
    X, _ = table
    folder = result.save(tmp_path / "out", report=False)
    with pytest.raises(Exception, match="trust_pickle"):
        PruneResult.load(folder)
    bare = PruneResult.load(folder, trust_pickle=True)
    assert bare.certificate == result.certificate
    assert bare.region == result.region
    assert np.array_equal(bare.weights, result.weights)
    assert np.array_equal(bare.model.predict(X), result.model.predict(X))
    assert bare.summary().splitlines()[0] == result.summary().splitlines()[0]
    with pytest.raises(InvalidInputError, match=r"load\(folder, original=\.\.\.\)"):
        bare.evaluate(X[450:])
    full = PruneResult.load(folder, model, trust_pickle=True)
    assert full.evaluate(X[450:]) == result.evaluate(X[450:])
    assert full.save(tmp_path / "again", report=False).is_dir()
    assert bare.save(tmp_path / "bare").is_dir()
    assert "original is not at hand" in (tmp_path / "bare" / "report.html").read_text()
    other = GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, X[:, 0] > 14)
    with pytest.raises(CertificateMismatch, match="The original model given is not"):
        PruneResult.load(folder, other, trust_pickle=True)


def test_weights_of_the_rows_reach_the_estimator(table: Any) -> None:
    X, y = table
    weight = np.where(y == 1, 5.0, 0.1)
    options = {"alpha": 0.5, "random_state": 0, "objective": "l1"}
    plain = PineClassifier(**options).fit(X, y)
    weighted = PineClassifier(**options).fit(X, y, sample_weight=weight)
    train, _ = plain._split(y, int(np.random.RandomState(0).randint(2**31 - 1)))
    expected = GradientBoostingClassifier(n_estimators=30, max_depth=2, random_state=0)
    expected.fit(X[train], y[train], sample_weight=weight[train])
    assert np.array_equal(weighted.original_.predict_proba(X), expected.predict_proba(X))
    assert not np.array_equal(weighted.original_.predict_proba(X), plain.original_.predict_proba(X))
    with pytest.raises(ValueError, match="sample_weight"):
        PineClassifier(**options).fit(X, y, sample_weight=weight[:10])


def test_little_removed_names_the_next_steps_that_fit(result: Any) -> None:
    c = result.certificate
    assert next_steps(c) == ()
    all_kept = replace(c, units_kept=c.units_before)
    needed = next_steps(replace(all_kept, optimal=True))
    assert "every round is proved to be needed" in needed[0]
    assert any("indifference='auto'" in step for step in needed)
    assert any("compress_booster" in step for step in needed)
    assert not any("time_limit" in step for step in needed)
    late = replace(
        all_kept,
        status="NOT_CERTIFIED",
        optimal=False,
        reason="The time limit ran out before a smaller model was proved.",
    )
    assert "time limit ran out" in next_steps(late)[0]
    assert "time_limit" in next_steps(late)[1]
    indifferent = next_steps(replace(all_kept, optimal=True, indifference=0.05, alpha=0.1))
    assert not any("indifference=" in step for step in indifferent)
    assert any("larger alpha" in step for step in indifferent)
    rounds = next_steps(replace(all_kept, optimal=True, trees_before=3 * c.units_before))
    assert any("unit='tree'" in step for step in rounds)
    assert 3 <= len(rounds) <= 4


def test_the_summary_of_a_model_that_stayed_ends_with_them(table: Any, model: Any) -> None:
    X, _ = table
    kept = prune_booster(model, X[:250], X[250:450], alpha=0.3, time_limit=1e-9)
    assert kept.summary().splitlines()[-1].startswith("- pine_boost.compress_booster(")


@pytest.fixture(scope="module")
def place(table: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    xgboost = pytest.importorskip("xgboost")
    X, y = table
    folder = tmp_path_factory.mktemp("place")
    model = xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1).fit(X[:250], y[:250])
    model.save_model(folder / "model.json")
    other = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(X[:250], y[:250])
    other.save_model(folder / "other.json")
    for name, rows in (("fit", X[:250]), ("cal", X[250:450]), ("test", X[450:])):
        np.save(folder / f"{name}.npy", rows)
    arguments = [
        "sweep",
        folder / "model.json",
        "--fit",
        folder / "fit.npy",
        "--cal",
        folder / "cal.npy",
        "--alphas",
        "0.3,0.5",
        "--objective",
        "l1",
        "--indifference",
        "0.05",
        "--no-report",
        "-o",
        folder / "swept",
    ]
    assert main([str(argument) for argument in arguments]) == 0
    return folder


def _run(capsys: Any, *arguments: Any) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_folders_of_sweeps_are_verified_and_reported(place: Path, capsys: Any) -> None:
    code, out, _ = _run(capsys, "verify", place / "model.json", place / "swept")
    assert code == 0
    assert "alpha-0.3: AGREES" in out
    assert "alpha-0.5: AGREES" in out
    code, out, _ = _run(capsys, "verify", place / "model.json", place / "swept", "--json")
    assert set(json.loads(out)) == {"alpha-0.3", "alpha-0.5"}
    code, out, _ = _run(capsys, "report", place / "swept")
    assert code == 0
    assert out.count("report.html") == 2
    assert "Trade-off" in (place / "swept" / "alpha-0.5" / "report.html").read_text()


def test_inputs_are_checked_against_a_folder_and_its_own_original(place: Path, capsys: Any) -> None:
    inner, rows = place / "swept" / "alpha-0.3", place / "test.npy"
    code, out, _ = _run(capsys, "check-inputs", inner, rows, "--model", place / "model.json")
    assert code == 0
    assert "lie in the region" in out
    code, _, err = _run(capsys, "check-inputs", inner, rows, "--model", place / "other.json")
    assert code == 1
    assert "--model is not the original" in err
    code, _, err = _run(capsys, "check-inputs", place / "swept", rows)
    assert code == 1
    assert "name one of its folders: alpha-0.3, alpha-0.5" in err


def test_labels_that_are_not_there_are_an_error(place: Path, capsys: Any) -> None:
    base = ["prune", place / "model.json", "--fit", place / "fit.npy", "--cal", place / "cal.npy"]
    code, _, err = _run(capsys, *base, "--label", "y", "-o", place / "nowhere")
    assert code == 1
    assert "--label y names a column of --test, but --test is missing" in err
    code, _, err = _run(capsys, *base, "--test", place / "test.npy", "--label", "y", "-o", place / "nowhere")
    assert code == 1
    assert "no column 'y'" in err
    assert not (place / "nowhere").exists()


def test_errors_name_what_the_command_line_has(place: Path, capsys: Any) -> None:
    (place / "model.pkl").write_bytes(b"\x80\x04K\x01.")
    code, _, err = _run(capsys, "inspect", place / "model.pkl")
    assert code == 1
    assert "--trust-pickle" in err
    assert "trust_pickle=True" not in err


@pytest.mark.parametrize("option", ["--time-limit", "--jobs", "--seed", "--unit", "--score"])
def test_every_option_has_a_help_text(option: str) -> None:
    subparsers = build_parser()._subparsers
    assert subparsers is not None
    prune = subparsers._group_actions[0].choices["prune"]  # type: ignore[index]
    action = next(a for a in prune._actions if option in a.option_strings)
    assert action.help is not None
    assert len(action.help) > 20


def test_one_of_a_kind_is_no_plural(result: Any) -> None:
    from pine_boost.fleet.run import FleetResult
    from pine_boost.fleet.work import Row

    c = replace(result.certificate, lower_bound=1, optimal=False)
    text = replace(result, certificate=c).summary()
    assert "at least 1 round is needed" in text
    assert "probabilities moved by" in text
    assert FleetResult(Path("f"), (Row("a", "FAILED"),)).summary() == "1 job: 1 FAILED"


def test_a_regressor_has_no_probabilities(table: Any) -> None:
    from sklearn.ensemble import GradientBoostingRegressor

    X, y = table
    model = GradientBoostingRegressor(n_estimators=3, max_depth=2, random_state=0)
    found = prune_booster(model.fit(X[:250], 100.0 * y[:250]), X[:250], X[250:450], alpha=0.3, threshold=50.0)
    assert "Proved" in found.summary()
    assert "probabilities moved" not in found.summary()


def test_a_folder_that_lacks_is_named(tmp_path: Path) -> None:
    from pine_boost.files import clear_errors, write_file

    target = tmp_path / "nodir" / "x.txt"
    message = r"there is no folder '.*nodir'; make it"
    with pytest.raises(OutputError, match=message), clear_errors(target):
        write_file(target, b"")


def test_a_compression_is_told_from_a_certificate(tmp_path: Path, capsys: Any) -> None:
    assert COMPRESSION == RECORD
    (tmp_path / COMPRESSION).write_text("{}")
    for command in ("report", "check-inputs", "monitor"):
        more = [] if command == "report" else ["rows.csv"]
        state = ["--state", "s.json"] if command == "monitor" else []
        assert main([command, str(tmp_path), *more, *state]) == 1
        assert "holds a compression, a statistic without a region" in capsys.readouterr().err
