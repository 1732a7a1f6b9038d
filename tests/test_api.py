"""The public face: exports, one-table split, warnings about held-out rows, saved folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

import pine_boost
from pine_boost import HoldoutWarning, InvalidInputError, prune_booster
from pine_boost.certificate.certificate import Certificate
from pine_boost.files import write_folder


@pytest.fixture(scope="module")
def table() -> tuple[Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    return X[:, :6], y


@pytest.fixture(scope="module")
def boosting(table: Any) -> Any:
    X, y = table
    return GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0).fit(X[:250], y[:250])


@pytest.fixture(scope="module")
def result(table: Any, boosting: Any) -> Any:
    X, _ = table
    return prune_booster(boosting, X[:250], X[250:450], alpha=0.3)


@pytest.mark.parametrize("name", pine_boost.__all__)
def test_everything_exported_is_there(name: str) -> None:
    assert getattr(pine_boost, name) is not None


def test_functions_stay_functions_whatever_is_imported_first() -> None:
    code = (
        "import importlib, pkgutil, pine_boost\n"
        "[importlib.import_module(f'pine_boost.{m.name}') for m in"
        " pkgutil.iter_modules(pine_boost.__path__)]\n"
        "assert all(callable(getattr(pine_boost, n)) for n in pine_boost.__all__"
        " if n != '__version__')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_loads_no_library() -> None:
    code = (
        "import sys, pine_boost\n"
        "loaded = {'ortools', 'sklearn', 'xgboost', 'lightgbm', 'pandas'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_table_is_split_and_said_so(table: Any, boosting: Any) -> None:
    X, _ = table
    with pytest.warns(HoldoutWarning, match="255 rows to fit the score and 64 to calibrate"):
        first = prune_booster(boosting, X[250:], alpha=0.3)
    assert (first.region.n_fit, first.region.n_cal) == (255, 64)
    with pytest.warns(HoldoutWarning):
        again = prune_booster(boosting, X[250:], alpha=0.3)
    assert again.region.fingerprint() == first.region.fingerprint()


def test_calibrating_on_the_rows_of_the_fit_is_refused(table: Any, boosting: Any) -> None:
    X, _ = table
    with pytest.raises(InvalidInputError, match="X_cal also occur in X_fit"):
        prune_booster(boosting, X[:250], X[100:250], alpha=0.3)


def test_alpha_0_needs_no_tables_splits_nothing_off_and_warns_of_nothing(table: Any, boosting: Any) -> None:
    bare = prune_booster(boosting, alpha=0, objective="l1")
    assert bare.region.tau is None
    assert (bare.region.n_fit, bare.region.n_cal) == (0, 0)
    helped = prune_booster(boosting, table[0][:100], alpha=0, objective="l1")
    assert helped.region == bare.region
    assert bare.status == helped.status == "CERTIFIED"


def test_the_result_keeps_what_it_promises(table: Any, result: Any, boosting: Any) -> None:
    X, y = table
    measured = result.evaluate(X[450:], y[450:])
    assert result.status == "CERTIFIED"
    assert 0 < result.pruning_rate < 1
    assert measured.fidelity_in_region == 1.0
    assert measured.coverage.n_rows == len(X) - 450
    assert measured.accuracy_before == np.mean(boosting.predict(X[450:]) == y[450:])
    assert measured.accuracy_after == np.mean(result.model.predict(X[450:]) == y[450:])
    assert f"{result.certificate.trees_before} -> {len(result.kept)} trees" in result.summary()
    assert "CERTIFIED" in result._repr_html_()


def test_labels_of_another_length_are_refused(table: Any, result: Any) -> None:
    X, y = table
    with pytest.raises(InvalidInputError, match="10 rows and y 9"):
        result.evaluate(X[:10], y[:9])


def test_a_saved_folder_is_complete_and_readable(result: Any, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "deep" / "out")
    names = {path.name for path in folder.iterdir()}
    assert names == {"model.pkl", "certificate.json", "region.json", "report.html"}
    assert Certificate.load(folder / "certificate.json") == Certificate.from_json(result.certificate.to_json())
    assert pine_boost.Region.load(folder / "region.json") == result.region
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def test_a_failed_write_leaves_no_folder_and_no_certificate(tmp_path: Path) -> None:
    files: dict[str, Any] = {"region.json": b"{}", "report.html": None, "certificate.json": b"{}"}
    with pytest.raises(TypeError):
        write_folder(tmp_path / "new", files, last=["certificate.json"], overwrite=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "certificate.json").write_text("{}")
    with pytest.raises(TypeError):
        write_folder(tmp_path / "old", files, last=["certificate.json"], overwrite=True)
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["certificate.json"]
    assert (tmp_path / "old" / "certificate.json").read_text() == "{}"  # untouched


def test_a_file_is_no_folder(result: Any, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InvalidInputError, match="is a file"):
        result.save(tmp_path / "taken")
