"""The public face: exports, one-table split, warnings about held-out rows, saved folders."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

import pine_boost
from pine_boost import HoldoutWarning, InvalidInputError, PruneResult, prune_booster
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claims import next_steps
from pine_boost.errors import CertificateMismatch
from pine_boost.folders import write_folder


@pytest.fixture(scope="module")
def table():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:, :6], y


@pytest.fixture(scope="module")
def boosting(table):
    X, y = table
    return GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0).fit(X[:250], y[:250])


@pytest.fixture(scope="module")
def result(table, boosting):
    X, _ = table
    return prune_booster(boosting, X[:250], X[250:450], alpha=0.3)


@pytest.mark.parametrize("name", pine_boost.__all__)
def test_everything_exported_is_there(name):
    assert getattr(pine_boost, name) is not None


def test_dir_shows_the_public_names_and_nothing_else():
    assert dir(pine_boost) == sorted(pine_boost.__all__)


def test_functions_stay_functions_whatever_is_imported_first():
    code = (
        "import importlib, pkgutil, pine_boost\n"
        "[importlib.import_module(f'pine_boost.{m.name}') for m in"
        " pkgutil.iter_modules(pine_boost.__path__)]\n"
        "assert all(callable(getattr(pine_boost, n)) for n in pine_boost.__all__"
        " if n != '__version__')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_loads_no_library_and_completion_knows_every_name():
    code = (
        "import sys, pine_boost\n"
        "loaded = {'ortools', 'sklearn', 'xgboost', 'lightgbm', 'pandas'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
        "assert set(pine_boost.__all__) <= set(dir(pine_boost))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "SolverBudgetExceeded" not in dir(pine_boost)


def test_one_table_is_split_and_said_so(table, boosting):
    X, _ = table
    with pytest.warns(HoldoutWarning, match="255 rows to fit the score and 64 to calibrate"):
        first = prune_booster(boosting, X[250:], alpha=0.3)
    assert (first.region.n_fit, first.region.n_cal) == (255, 64)
    with pytest.warns(HoldoutWarning):
        again = prune_booster(boosting, X[250:], alpha=0.3)
    assert again.region.fingerprint() == first.region.fingerprint()


def test_alpha_0_needs_no_tables_splits_nothing_off_and_warns_of_nothing(table, boosting):
    bare = prune_booster(boosting, alpha=0, objective="l1")
    assert bare.region.tau is None
    assert (bare.region.n_fit, bare.region.n_cal) == (0, 0)
    helped = prune_booster(boosting, table[0][:100], alpha=0, objective="l1")
    assert helped.region == bare.region
    assert bare.status == helped.status == "CERTIFIED"


def test_the_result_keeps_what_it_promises(table, result, boosting):
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


def test_a_saved_folder_is_complete_and_readable(result, tmp_path):
    folder = result.save(tmp_path / "deep" / "out")
    names = {path.name for path in folder.iterdir()}
    assert names == {"model.pkl", "certificate.json", "region.json", "report.html"}
    assert Certificate.load(folder / "certificate.json") == Certificate.from_json(result.certificate.to_json())
    assert pine_boost.Region.load(folder / "region.json") == result.region
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def test_a_failed_write_leaves_no_folder_and_no_certificate(tmp_path):
    files = {"region.json": b"{}", "report.html": None, "certificate.json": b"{}"}
    with pytest.raises(TypeError):
        write_folder(tmp_path / "new", files, overwrite=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "certificate.json").write_text("{}")
    with pytest.raises(TypeError):
        write_folder(tmp_path / "old", files, overwrite=True)
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["certificate.json"]
    assert (tmp_path / "old" / "certificate.json").read_text() == "{}"  # untouched


def test_representations_fit_into_a_line(result):
    for thing in (result, result.region, result.certificate):
        assert len(repr(thing)) < 160
        assert "\n" not in repr(thing)
    assert "CERTIFIED" in repr(result)
    assert "alpha=0.3" in repr(result.region)


def test_a_saved_result_is_loaded_again(result, table, boosting, tmp_path):
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
    full = PruneResult.load(folder, boosting, trust_pickle=True)
    assert full.evaluate(X[450:]) == result.evaluate(X[450:])
    assert full.save(tmp_path / "again", report=False).is_dir()
    assert bare.save(tmp_path / "bare").is_dir()
    assert "original is not available" in (tmp_path / "bare" / "report.html").read_text()
    other = GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, X[:, 0] > 14)
    with pytest.raises(CertificateMismatch, match="The original model given is not"):
        PruneResult.load(folder, other, trust_pickle=True)


def test_little_removed_names_the_next_steps_that_fit(result):
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


def test_the_summary_of_a_model_that_stayed_ends_with_them(table, boosting):
    X, _ = table
    kept = prune_booster(boosting, X[:250], X[250:450], alpha=0.3, time_limit=1e-9)
    assert kept.summary().splitlines()[-1].startswith("- pine_boost.compress_booster(")


@pytest.mark.parametrize(("reweight", "form"), [("tree", "one weight per tree"), ("leaf", "new leaf values")])
def test_a_bound_is_told_with_the_problem_that_it_bounds(reweight, form, result):
    # a search that ends before new leaf values are tried has a bound that they may undercut
    c = replace(result.certificate, reweight=reweight, lower_bound=7, optimal=False)
    assert f"at least 7 rounds are needed with {form})" in replace(result, certificate=c).headline()
    assert f"provably the fewest with {form})" in replace(result, certificate=replace(c, optimal=True)).headline()


def test_one_of_a_kind_is_no_plural(result):
    from pine_boost.fleet import FleetResult, Row

    c = replace(result.certificate, lower_bound=1, optimal=False)
    text = replace(result, certificate=c).summary()
    assert "at least 1 round is needed" in text
    assert "probabilities moved by" in text
    assert FleetResult(Path("f"), (Row("a", "FAILED"),)).summary() == "1 job: 1 FAILED"


def test_a_regressor_has_no_probabilities(table):
    from sklearn.ensemble import GradientBoostingRegressor

    X, y = table
    model = GradientBoostingRegressor(n_estimators=3, max_depth=2, random_state=0)
    found = prune_booster(model.fit(X[:250], 100.0 * y[:250]), X[:250], X[250:450], alpha=0.3, threshold=50.0)
    assert "Proved" in found.summary()
    assert "probabilities moved" not in found.summary()
