"""A search begins with what no input can tell from the rest left out, and ends on the original; constant trees."""

import signal
from dataclasses import replace

import lightgbm
import numpy as np
import pytest
import xgboost
from lightgbm import LGBMClassifier
from sklearn import ensemble
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from pine_boost import CertificateMismatch, compress_booster, prune_booster, simplify, survey, sweep, verify
from pine_boost.certificate.claims import claim_of, headline_of, kept_reason
from pine_boost.model.reach import find_live, find_reach
from pine_boost.model.routing import route
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import build_space
from pine_boost.native.predict import original_bytes
from pine_boost.parsers import read_model
from pine_boost.proof.problem import build_problem
from pine_boost.search import deduplicated_trees
from pine_boost.search.deduplicated_trees import deduplicate_trees
from tests.adversary.attack import count_breaks
from tests.adversary.natives import native_model
from tests.support.bruteforce import all_states
from tests.support.grids import edge_rows
from tests.support.simplifiable import MANNERS, drawn_model, probe
from tests.support.verifying import verify_folder
from tests.support.xgboost_models import edit_trees


def has_more_to_leave_out(forest):
    """Dead sides or twins below the first splits, which every tree keeps."""
    inner = np.setdiff1d(np.flatnonzero(forest.kind != SplitKind.LEAF), forest.tree_offset)
    left, right = forest.left[inner], forest.right[inner]
    both = (forest.kind[left] == SplitKind.LEAF) & (forest.kind[right] == SplitKind.LEAF)
    value = np.ascontiguousarray(forest.value).view(np.uint64)
    twins = both & np.all(value[left] == value[right], axis=1)
    live = find_live(forest)
    return bool(twins.any() or not (live[left] & live[right]).all())


@pytest.mark.parametrize("manner", sorted(MANNERS))
@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (3, {"alpha": 0.0}),
        (4, {"alpha": 0.2, "unit": "tree", "reweight": "leaf"}),
        (5, {"alpha": 0.2, "unit": "leaf", "time_limit": 10}),
        (6, {"alpha": 0.1, "indifference": 0.05}),
        (7, {"alpha": 0.2, "score": "leaf-support"}),
    ],
)
def test_drawn_models_with_dead_branches_and_twins(manner, seed, options):
    model, category = drawn_model(MANNERS[manner], seed, 1)
    given = original_bytes(model) if model.native is None else model.native
    rows = probe(model, seed + 1, category)
    result = prune_booster(given, rows[::2], rows[1::2], allow_overlap=True, **options)
    assert result.status == "CERTIFIED"
    assert count_breaks(result, rows)[1] == 0
    assert count_breaks(result, probe(model, seed + 100, category))[1] == 0
    after = result.pruned.forest
    assert result.certificate.leaves_before == model.forest.n_leaves
    assert result.certificate.leaves_after <= after.n_leaves  # constants aside
    if options.get("score") != "leaf-support":
        assert not has_more_to_leave_out(after)
    found = verify(given, result.model, result.region, result.certificate)
    assert found.agrees


@pytest.mark.parametrize(("manner", "seed"), [("xgboost", 1), ("xgboost", 3), ("lightgbm", 2)])
def test_three_classes_with_exact_ties(manner, seed):
    """Sums of quarters tie; the tie falls as natively, and verify follows it beside the guard."""
    model, category = drawn_model(MANNERS[manner], seed, 3)
    given = original_bytes(model) if model.native is None else model.native
    rows = probe(model, seed + 1, category)
    result = prune_booster(given, rows[::2], rows[1::2], alpha=0.3, allow_overlap=True)
    assert result.status == "CERTIFIED"
    assert result.certificate.grid >= 0  # something was removed
    assert result.original.forest.decision.guard > 0
    for more in range(10):
        assert count_breaks(result, probe(model, seed + 100 + more, category))[1] == 0
    assert verify(given, result.model, result.region, result.certificate).agrees


@pytest.fixture(scope="module")
def voting():
    X, y = load_breast_cancer(return_X_y=True)
    trees = DecisionTreeClassifier(max_depth=4, random_state=0)
    model = ensemble.AdaBoostClassifier(trees, n_estimators=8, random_state=0)
    return model.fit(X[:300], y[:300]), X[:300], X[300:450]


def test_votes_lose_leaves_although_every_tree_is_kept(voting, tmp_path):
    model, X_fit, X_cal = voting
    result = prune_booster(model, X_fit, X_cal, alpha=0.05)
    c = result.certificate
    assert (c.trees_after, c.units_kept, c.grid) == (8, 8, -1)
    assert c.leaves_before == sum(tree.tree_.n_leaves for tree in model.estimators_)
    assert c.leaves_after == sum(tree.tree_.n_leaves for tree in result.model.estimators_)
    assert c.leaves_after == simplify(model).leaves_after < c.leaves_before
    rows = np.nan_to_num(edge_rows(result.original.forest, X_fit, limit=60, seed=0))
    margins = (owner.decision_function(rows) for owner in (model, result.model))
    assert np.array_equal(*margins)
    gone = f"without {c.leaves_before - c.leaves_after} of its {c.leaves_before} leaves"
    assert gone in headline_of(c)
    assert f"{c.leaves_before} -> {c.leaves_after} leaves" in result.summary()
    folder = result.save(tmp_path / "out", X_cal)
    assert gone in (folder / "report.html").read_text()
    found = verify_folder(model, folder, trust_pickle=True)
    assert found.agrees
    assert "bit for bit" in found.remarks[-1]
    fewer = replace(c, leaves_after=c.leaves_after - 1)
    with pytest.raises(CertificateMismatch, match="reason"):
        verify(model, result.model, result.region, fewer)
    reworded = replace(fewer, claim=claim_of(fewer), reason=kept_reason(fewer))
    with pytest.raises(CertificateMismatch, match="leaves_after"):
        verify(model, result.model, result.region, reworded)


def test_a_kept_original_with_another_leaf_is_refused(voting):
    model, X_fit, X_cal = voting
    result = prune_booster(model, X_fit, X_cal, alpha=0.05)
    tree = result.model.estimators_[3].tree_
    leaf = int(np.flatnonzero(tree.children_left < 0)[0])
    tree.value[leaf] = tree.value[leaf][:, ::-1]
    from pine_boost.model.digest import forest_digest

    digest = forest_digest(read_model(result.model).forest)
    forged = replace(result.certificate, pruned_digest=digest)
    with pytest.raises(CertificateMismatch, match="another value"):
        verify(model, result.model, result.region, forged)


def edited_booster():
    """A booster whose trees ask the first question twice, and have twins on the left."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
    trained = xgboost.train(
        {"objective": "binary:logistic", "max_depth": 3, "eta": 0.1, "nthread": 1}, xgboost.DMatrix(X, y), 12
    )

    def ask_twice(trees):
        for tree in trees:
            first, second = tree["left_children"][0], tree["right_children"][0]
            for name in ("split_indices", "split_conditions"):
                tree[name][second] = tree[name][0]
            tree["default_left"][0] = 1
            last = tree["left_children"][first]
            ends = tree["left_children"][last], tree["right_children"][last]
            tree["split_conditions"][ends[0]] = tree["split_conditions"][ends[1]]

    return xgboost.Booster({"nthread": 1}, model_file=bytearray(edit_trees(trained, ask_twice))), X


@pytest.mark.parametrize("unit", ["round", "leaf"])
def test_an_edited_booster(unit, tmp_path):
    booster, X = edited_booster()
    result = prune_booster(booster, X[:300], X[300:], alpha=0.6, unit=unit, time_limit=20)
    c = result.certificate
    assert c.status == "CERTIFIED"
    assert c.grid >= 0
    assert not has_more_to_leave_out(result.pruned.forest)
    whole = np.diff(result.original.forest.tree_offset)[list(c.kept)].sum()
    assert result.pruned.forest.n_nodes < whole
    assert c.leaves_after == result.pruned.forest.n_leaves
    assert count_breaks(result, edge_rows(result.original.forest, X[:40], limit=60, seed=1))[1] == 0
    folder = result.save(tmp_path / "out", report=False)
    booster.save_model(tmp_path / "original.json")
    assert verify_folder(tmp_path / "original.json", folder).agrees


def test_a_sweep_begins_with_it_too():
    booster, X = edited_booster()
    swept = sweep(booster, X[:300], X[300:], alphas=[0.4, 0.8])
    for result in swept.results:
        assert result.status == "CERTIFIED"
        assert not has_more_to_leave_out(result.pruned.forest)
        assert verify(booster, result.model, result.region, result.certificate).agrees
        assert count_breaks(result, X)[1] == 0
    assert swept[0.8].certificate.trees_after < 12


@pytest.mark.parametrize("call", ["prune", "sweep"])
def test_ctrl_c_after_the_search_loses_nothing(call, monkeypatch, python_hears_ctrl_c):
    booster, X = edited_booster()
    untrimmed, pressed = deduplicated_trees.untrimmed, []

    def press(*arguments):
        if not pressed:  # one Ctrl-C; a second one ends the work that is done again
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        return untrimmed(*arguments)

    monkeypatch.setattr(deduplicated_trees, "untrimmed", press)
    if call == "prune":
        result = prune_booster(booster, X[:300], X[300:], alpha=0.8)
    else:
        result = sweep(booster, X[:300], X[300:], alphas=[0.8])[0.8]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert pressed
    assert result.status == "CERTIFIED"
    assert result.certificate.trees_after < 12


def test_trained_models_have_nothing_to_leave_out():
    """Then nothing is built: the search is that of the original."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6))
    y = (X[:, 0] + X[:, 1] + rng.normal(size=600) > 0).astype(int)
    X[rng.random(X.shape) < 0.1] = np.nan
    for model in (
        xgboost.XGBClassifier(n_estimators=20, max_depth=4, n_jobs=1),
        lightgbm.LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1),
    ):
        forest = read_model(model.fit(X, y)).forest
        result = prune_booster(model, X[:300], X[300:], alpha=0.3, time_limit=1)
        region = result.region
        assert find_reach(forest).alive.all()
        assert deduplicate_trees(build_problem(forest, region.space, region.tables)) is None
        assert result.search.remaining is None


@pytest.mark.parametrize("manner", sorted(MANNERS))
@pytest.mark.parametrize("seed", range(6))
def test_live_leaves_are_those_that_some_state_reaches(manner, seed):
    """Against every row of states there is."""
    forest = drawn_model(MANNERS[manner], seed, 1)[0].forest
    space = build_space(forest)
    trees = route(forest, space)
    every = all_states(space)
    reached = np.unique(trees.leaves(every))
    live = np.flatnonzero(find_live(forest) & (forest.kind == SplitKind.LEAF))
    assert np.array_equal(np.sort(trees.leaf_of_node[live]), reached)


def test_an_edited_lightgbm_text(tmp_path):
    """Twins from rounded leaves, and a split that asks again what its parent has answered."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    options = {"objective": "binary", "num_leaves": 8, "num_threads": 1, "verbose": -1}
    trained = lightgbm.train(options, lightgbm.Dataset(X, y), 12)
    parsed = read_model(trained.model_to_string().encode())
    forest = parsed.forest
    feature, threshold = forest.feature.copy(), forest.threshold.copy()
    for root in forest.tree_offset[:-1]:
        again = forest.right[root]
        if forest.kind[again] != SplitKind.LEAF:
            feature[again], threshold[again] = feature[root], threshold[root]
    value = np.where(forest.kind[:, None] == SplitKind.LEAF, np.round(forest.value, 1), 0.0)
    edited = replace(forest, feature=feature, threshold=threshold, value=value)
    text = native_model(edited, MANNERS["lightgbm"], None)
    (tmp_path / "original.txt").write_bytes(original_bytes(text))
    result = prune_booster(tmp_path / "original.txt", X[:300], X[300:], alpha=0.3)
    c = result.certificate
    assert c.status == "CERTIFIED"
    assert result.search.remaining is not None
    assert not has_more_to_leave_out(result.pruned.forest)
    assert count_breaks(result, edge_rows(forest, X[:40], limit=60, seed=1))[1] == 0
    folder = result.save(tmp_path / "out", report=False)
    assert verify_folder(tmp_path / "original.txt", folder).agrees


_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(1400, 4))
MODELS = {
    "xgboost": XGBClassifier(n_estimators=4, gamma=1e6),
    "lightgbm": LGBMClassifier(n_estimators=4, min_child_samples=10**4, verbose=-1),
    "histogram": HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=10**4),
    "gradient": GradientBoostingClassifier(n_estimators=4, min_impurity_decrease=1e9),
}


def _fitted(name, n_classes):
    y = (X[:, 0] > 0.3).astype(int) if n_classes == 2 else np.digitize(X[:, 0], [-0.5, 0.8])
    return clone(MODELS[name]).fit(X[:200], y[:200])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("unit", ["round", "tree", "leaf"])
def test_every_unit_prunes_a_model_of_constants(unit, name, n_classes):
    model = _fitted(name, n_classes)
    result = prune_booster(model, X[200:500], X[500:800], alpha=0.1, unit=unit, time_limit=20)
    assert result.status == "CERTIFIED"
    assert result.certificate.trees_after <= result.certificate.trees_before
    assert np.array_equal(result.model.predict(X), model.predict(X))
    assert verify(model, result.model, result.region, result.certificate).agrees


@pytest.mark.parametrize("name", MODELS)
def test_the_other_calls_answer_for_a_model_of_constants(name):
    model = _fitted(name, 2)
    assert np.array_equal(simplify(model).model.predict(X), model.predict(X))
    assert len(sweep(model, X[200:500], X[500:800], alphas=[0.1, 0.2], unit="leaf", time_limit=10)) == 2
    survey(model, X[200:500], X[500:], time_limit=10)
    compressed = compress_booster(model, X[200:500], X[500:], time_limit=10)
    assert np.array_equal(compressed.model.predict(X), model.predict(X))
