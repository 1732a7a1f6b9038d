"""Models that lost leaves or got values of their own: native to the last bit, proved from files alone."""

import json
from dataclasses import replace
from functools import cache

import lightgbm
import numpy as np
import pandas
import pytest

from pine_boost import prune_booster, sweep
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claims import bound_of
from pine_boost.cli import main
from pine_boost.errors import CertificateMismatch, InvalidInputError, UnsupportedModelError
from pine_boost.verifying import verify
from tests.support.leaf_results import KINDS, check_native, leaves_from_the_original, prune_and_verify_by_command
from tests.support.native_models import small_models
from tests.support.verifying import breast_or_iris, fitted, verify_folder


def _deep(kind):
    """A model with subtrees to lose, some of its rows with missing values."""
    X, y = breast_or_iris(2)
    X = X + 0.0
    if kind != "gradient":
        X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    return small_models(0, 2, depth=3, few=6)[kind].fit(X[:300], y[:300]), X


def _pruned(model, X):
    n = len(X) // 2
    return prune_booster(model, X[:n], X[n:], alpha=0.2, unit="leaf", verbose=False)


@cache
def _result(kind, deep=False):
    """A model, its rows and what is left of it; several tests look at the same."""
    native, X = _deep(kind) if deep else fitted(kind)
    return native, X, _pruned(native, X)


def _check(native, X, result):
    """The leaves that are counted are those of the native model, and all of it holds natively."""
    certificate, pruned = result.certificate, result.search.pruned
    # whole trees with a weight each may already be the fewest leaves that were found
    assert certificate.unit == "leaf"
    assert certificate.reweight == ("tree" if pruned.is_leaf is None else "leaf")
    assert certificate.units_before == certificate.leaves_before == result.original.forest.n_leaves
    assert certificate.units_kept == certificate.leaves_after < certificate.leaves_before
    with_splits = result.pruned.forest
    constants = np.count_nonzero(np.diff(with_splits.tree_offset) == 1)
    assert with_splits.n_leaves - constants == certificate.leaves_after
    check_native(native, X, result)


@pytest.mark.parametrize("kind", KINDS)
def test_native_exactly_and_proved_anew(kind):
    _check(*_result(kind))


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "gradient", "histogram"])
def test_subtrees_are_gone_natively(kind):
    native, X, result = _result(kind, deep=True)
    _check(native, X, result)
    pruned = result.search.pruned
    assert result.certificate.reweight == "leaf"
    whole = np.diff(result.original.forest.tree_offset)[pruned.kept].sum()
    assert result.pruned.forest.n_nodes < whole


def test_categories_unseen_ones_too():
    random = np.random.default_rng(3)
    codes = random.integers(0, 6, 400)
    frame = pandas.DataFrame({"c": pandas.Categorical.from_codes(codes, list("abcdef")), "x": random.normal(size=400)})
    y = (np.isin(codes, [1, 4]) ^ (frame["x"] > 0.3)).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=8, min_child_samples=5, n_jobs=1, verbose=-1).fit(
        frame[:200], y[:200]
    )
    result = prune_booster(model, frame[:200], frame[200:], alpha=0.1, unit="leaf", verbose=False)
    assert result.certificate.leaves_after < result.certificate.leaves_before
    unseen = frame.copy()
    unseen["c"] = pandas.Categorical([None] * 400, categories=list("abcdef"))
    for rows in (frame, unseen):
        inside = result.region.contains(rows)
        np.testing.assert_array_equal(model.predict(rows)[inside], result.model.predict(rows)[inside])
    assert verify(model, result.model, result.region, result.certificate).agrees is True


def _saved(folder, native, result):
    """The files that `verify` takes, and the certificate read from its own."""
    native.save_model(folder / "original.json")
    out = result.save(folder / "pruned", report=False)
    assert verify_folder(folder / "original.json", out).agrees is True
    files = [folder / "original.json", out / "model.json", out / "region.json"]
    certificate = Certificate.load(out / "certificate.json")
    assert certificate == result.certificate
    return files, certificate


def test_verify_from_files_notices_every_edit(tmp_path):
    native, _, result = _result("xgboost", deep=True)
    files, certificate = _saved(tmp_path, native, result)
    for edited, words in (
        ({"unit": "tree", "units_before": 6, "units_kept": certificate.trees_after}, "has leaves"),
        ({"reweight": "tree"}, "has leaves where"),
        ({"leaves_after": certificate.leaves_after - 1}, "leaves_after"),
        ({"units_kept": certificate.units_kept - 1}, "units_kept"),
        ({"lower_bound": certificate.units_kept, "optimal": True}, "about leaves"),
        ({"unit": "branch"}, "'unit' is 'branch'"),
    ):
        with pytest.raises(CertificateMismatch, match=words):
            verify(*files, replace(certificate, **edited))


def test_words_count_leaves_and_never_say_the_fewest(tmp_path):
    _, _, result = _result("histogram", deep=True)
    c = result.certificate
    first = result.summary().splitlines()[0]
    assert f"{c.leaves_before} -> {c.leaves_after} leaves, " in first
    assert "of the leaves removed, how few would be enough is not proved" in first
    assert not c.optimal
    assert bound_of(c) == "No lower bound on the number of leaves was proved."
    assert f"({result.pruning_rate:.0%} of the leaves removed" in first
    assert result.pruning_rate == 1 - c.leaves_after / c.leaves_before
    page = (result.save(tmp_path / "saved") / "report.html").read_text()
    assert "fewest" not in page
    assert "leafs" not in page
    assert "Leaves of the best model" in page
    assert set(c.probability_shift) == {"mean", "maximum", "brier"}


@pytest.mark.parametrize("from_the_original", [False, True])
def test_probabilities_are_nearer_than_those_of_the_bare_program(monkeypatch, from_the_original):
    native, X = fitted("xgboost")
    find = leaves_from_the_original if from_the_original else _pruned
    nearer = find(native, X).certificate
    monkeypatch.setattr("pine_boost.search.leaf_values._MOST_ASKED", 0)
    bare = find(native, X).certificate
    assert nearer.leaves_after <= bare.leaves_after
    assert not from_the_original or nearer.kept == bare.kept
    assert nearer.probability_shift["brier"] < bare.probability_shift["brier"]


@pytest.mark.parametrize("option", ["unit", "reweight"])
def test_sweep_and_the_command_line_take_it(option, tmp_path):
    native, X = fitted("gradient")
    n = len(X) // 2
    swept = sweep(native, X[:n], X[n:], alphas=[0.05, 0.2, 0.5], verbose=False, **{option: "leaf"})
    kept = [result.certificate.units_kept for result in swept]
    assert kept == sorted(kept, reverse=True)
    assert ("leaves removed" in str(swept)) == (option == "unit")
    for result in swept:
        assert result.status == "CERTIFIED"
        assert verify(native, result.model, result.region, result.certificate).agrees is True
    arguments = prune_and_verify_by_command(tmp_path, *fitted("xgboost"), f"--{option}", "leaf")
    assert option == "reweight" or main([*arguments, "--reweight", "tree"]) == 1


def test_a_weight_for_each_tree_does_not_go_with_leaves():
    native, X = fitted("gradient")
    for function in (prune_booster, sweep):
        with pytest.raises(InvalidInputError, match="unit='leaf' needs reweight='leaf'"):
            function(native, X, unit="leaf", reweight="tree")


def _from_the_original(kind, unit="round"):
    native, X = fitted(kind)
    return native, X, leaves_from_the_original(native, X, unit)


@pytest.mark.parametrize(("kind", "unit"), [*((kind, "round") for kind in KINDS), ("xgboost-3", "tree")])
def test_new_leaf_values_are_native_exactly(kind, unit):
    native, X, result = _from_the_original(kind, unit)
    certificate = result.certificate
    assert certificate.reweight == "leaf"
    assert certificate.units_kept < certificate.units_before
    assert certificate.optimal == (certificate.units_kept == certificate.lower_bound)
    assert set(certificate.weights) == {1.0}
    check_native(native, X, result)


def test_verify_notices_every_edit_of_new_leaf_values(tmp_path):
    native, _, result = _from_the_original("xgboost")
    files, certificate = _saved(tmp_path, native, result)
    folder = tmp_path / "pruned"
    halved = replace(certificate, weights=(0.5, *certificate.weights[1:]))
    with pytest.raises(CertificateMismatch, match="new leaf values"):
        verify(*files, halved)
    with pytest.raises(CertificateMismatch, match="not the ratio"):
        verify(*files, replace(certificate, reweight="tree"))
    with pytest.raises(CertificateMismatch, match=r"without a proof|do not prove"):
        verify(*files, replace(certificate, lower_bound=certificate.units_kept + 1))
    document = json.loads((folder / "certificate.json").read_text())
    for odd in ({**document, "reweight": "branch"}, {**document, "format_version": 3}):
        (folder / "odd.json").write_text(json.dumps(odd))
        with pytest.raises(CertificateMismatch):
            Certificate.load(folder / "odd.json")
    assert "with new leaf values" in bound_of(certificate)
    words = "provably the fewest with new leaf values"
    assert (words in result.summary()) == certificate.optimal
    assert ("provably the fewest" in result.summary()) == certificate.optimal


def test_new_leaf_values_keep_no_more_units_than_weights():
    native, X = fitted("gradient")
    n = len(X) // 2
    leaf, tree = (prune_booster(native, X[:n], X[n:], alpha=0.2, reweight=reweight) for reweight in ("leaf", "tree"))
    assert leaf.certificate.units_kept <= tree.certificate.units_kept


@pytest.mark.parametrize("kind", ["forest", "forest-3", "extra-trees", "adaboost", "adaboost-3"])
def test_votes_and_shares_are_refused(kind):
    native, X = fitted(kind)
    n = len(X) // 2
    with pytest.raises(UnsupportedModelError, match="Use reweight='tree'"):
        prune_booster(native, X[:n], X[n:], reweight="leaf")
    with pytest.raises(UnsupportedModelError, match="unit='round' or 'tree'"):
        prune_booster(native, X[:n], X[n:], unit="leaf")
