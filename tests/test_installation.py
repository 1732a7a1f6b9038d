"""`check_installation` finds faults that were planted in what it checks."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from pine_boost import installation
from pine_boost.installation import check_installation
from pine_boost.kernels import library
from pine_boost.model import reference
from pine_boost.model.rules import Comparison
from pine_boost.proof.cpsat import solver
from pine_boost.proof.problem import Answer
from tests.support.command_line import expect, run

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")
pytest.importorskip("sklearn")
SUMS = reference.native_margins


def failed(found):
    return {check.name for check in found.checks if check.passed is False}


def test_everything_holds_here_and_json_says_the_same(capsys):
    code, out, _ = run(capsys, "doctor", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["healthy"]
    assert found["verdict"].startswith("Everything that was checked holds")
    assert all(check["passed"] for check in found["checks"] if check["name"] != "C kernel")
    assert found["versions"]["xgboost"] == sys.modules["xgboost"].__version__


def test_a_changed_comparison_is_found(monkeypatch, capsys):
    rule = reference._goes_left

    def changed(forest, node, x):
        if forest.comparison is Comparison.FLOAT32_LESS:
            forest = replace(forest, comparison=Comparison.FLOAT32_VALUE_LESS_EQUAL)
        return rule(forest, node, x)

    monkeypatch.setattr(reference, "_goes_left", changed)
    out, _ = expect(capsys, 1, "doctor")
    lines = [line for line in out.splitlines() if line.startswith("FAILED")]
    assert [line.split("  ")[1].strip() for line in lines] == [
        "CatBoost, two classes",
        "CatBoost, three classes",
        "XGBoost, two classes",
        "XGBoost, three classes",
        "C kernel",
    ]
    assert "Do not rely on proofs" in out


def other_type(forest, X):
    return SUMS(replace(forest, arithmetic=np.float64), X)


def other_order(forest, X):
    leaves = reference.find_leaves(forest, X)
    total = np.tile(forest.intercept.astype(forest.arithmetic), (len(X), 1))
    for tree in reversed(range(forest.n_trees)):
        total += forest.leaf_vectors().astype(forest.arithmetic)[leaves[:, tree]]
    return total


@pytest.mark.parametrize("sums", [other_type, other_order])
def test_another_type_and_another_order_of_sums_are_found(monkeypatch, sums):
    monkeypatch.setattr(reference, "native_margins", sums)
    found = check_installation(["xgboost"])
    assert failed(found) == {"XGBoost, two classes", "XGBoost, three classes", "C kernel"}
    assert "sums differ from the library's" in found.checks[1].text


@pytest.mark.skipif(library.load() is None, reason="no C compiler: there is only the twin")
def test_a_kernel_with_a_changed_comparison_is_found(monkeypatch, tmp_path):
    source = library.SOURCE.read_text()
    assert "s->is_closed" in source
    (tmp_path / "trees.c").write_text(source.replace("s->is_closed", "!s->is_closed"))
    monkeypatch.setattr(library, "SOURCE", tmp_path / "trees.c")
    built = tmp_path / library.file_name()
    assert library.compile_to(built)
    monkeypatch.setenv("PINE_BOOST_KERNEL", str(built))
    library.load.cache_clear()
    try:
        found = check_installation()
    finally:
        monkeypatch.undo()
        library.load.cache_clear()
    assert "C kernel" in failed(found)
    assert "LightGBM, two classes" in failed(found)  # its scorer asks the kernel


def test_a_solver_that_calls_feasible_problems_infeasible_is_found(monkeypatch):
    wrong = dict.fromkeys(solver.STATUS_MAP, Answer.PROVED)
    monkeypatch.setattr(solver, "STATUS_MAP", wrong)
    found = check_installation([])
    assert failed(found) == {f"CP-SAT, setting {setting.name}" for setting in installation._SETTINGS}
    assert "CP-SAT" in found._repr_html_()


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    found = check_installation()
    assert found.healthy
    assert found.versions["lightgbm"] is None
    assert "LightGBM" in {check.name for check in found.checks if check.text == "not installed"}
    assert "lightgbm not installed" in found.summary()
