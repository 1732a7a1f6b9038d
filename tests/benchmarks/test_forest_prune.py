"""Depth cuts under an accuracy bound: the cut trees by hand, the bound, the whole model."""

from __future__ import annotations

import json

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")
pytest.importorskip("sklearn")

from benchmarks.cells import train  # noqa: E402
from benchmarks.forest_prune import Case, run_case  # noqa: E402
from benchmarks.pruning_rules.depth_cuts import ABSOLUTE_ERROR, CutForest, forest_prune, layers_of  # noqa: E402
from pine_boost.parsers import read_model  # noqa: E402


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(3)
    X = random.normal(size=(600, 4)).astype(np.float32)
    y = (X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + random.normal(size=600) / 3 > 0).astype(int)
    return X, y


@pytest.fixture(scope="module")
def trained(rows):
    X, y = rows
    native = train("xgboost", 12, 3, 0, X[:400], y[:400])
    return native, layers_of(native, read_model(native).forest)


def test_uncut_trees_are_the_model_and_cut_ones_answer_with_their_inner_node(rows, trained):
    X, _ = rows
    native, layers = trained
    intercept = float(layers.forest.intercept[0])
    whole = CutForest(layers, np.full(12, layers.depth), np.ones(12), intercept)
    assert np.array_equal(whole.predict(X), native.predict(X))
    # the first tree cut at depth 1, by hand from the JSON: which side of the root's split
    tree = json.loads(native.get_booster().save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"][0]
    left, right = tree["left_children"][0], tree["right_children"][0]
    is_left = X[:, tree["split_indices"][0]] < np.float32(tree["split_conditions"][0])
    by_hand = 0.1 * np.where(is_left, tree["base_weights"][left], tree["base_weights"][right])
    assert layers.answers(X)[0, 1] == pytest.approx(by_hand)
    assert layers.answers(X)[0, 0].tolist() == [0.0] * 600


def test_a_tree_that_stops_growing_at_the_cut_is_the_same_tree(rows, trained):
    X, y = rows
    _, layers = trained
    # XGBoost grows the first tree of depth 2 as the top of the first tree of depth 3
    shallow = train("xgboost", 1, 2, 0, X[:400], y[:400])
    margin = shallow.predict(X, output_margin=True) - layers.forest.intercept[0]
    assert layers.answers(X)[0, 2] == pytest.approx(margin, abs=1e-6)


def test_leaves_are_counted_at_every_depth(trained):
    _, layers = trained
    dumps = [json.loads(t) for t in trained[0].get_booster().get_dump(dump_format="json")]

    def count(node, depth):
        if depth == 0 or "leaf" in node:
            return 1
        return sum(count(child, depth - 1) for child in node["children"])

    for tree, dump in enumerate(dumps):
        expected = [0] + [count(dump, depth) for depth in range(1, layers.depth + 1)]
        assert layers.n_leaves[tree].tolist() == expected


@pytest.mark.parametrize("polish", [False, True])
def test_fewer_leaves_within_the_accuracy_bound(rows, trained, polish):
    X, y = rows
    native, layers = trained
    cut = forest_prune(layers, X[:400], y[:400], X[400:], y[400:], polish=polish)
    before = (native.predict(X[400:]) == y[400:]).mean()
    after = (cut.predict(X[400:]) == y[400:]).mean()
    assert after >= before - ABSOLUTE_ERROR
    assert 0 < cut.n_leaves < layers.n_leaves[:, -1].sum()


def test_every_method_is_a_row_with_its_leaves(rows, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = rows
    table = pandas.DataFrame(X, columns=list("abcd")).assign(target=y)
    table.to_csv(tmp_path / "Toy.csv", index=False)
    case = Case("Toy", 3, 0, 60.0, str(tmp_path), trees=5, indifference=("0", "0.1"))
    found = {row["method"]: row for row in run_case(case)}
    ours = [method for method in found if method.startswith("pine_boost")]
    assert ours == ["pine_boost", "pine_boost, unit leaf", "pine_boost, unit leaf, indifference 0.1"]
    for method in ours:
        assert found[method]["status"] == "CERTIFIED"
        assert float(found[method]["fidelity_in_region"]) == 100
    trees, leaves, _ = (found[method]["leaves_after"] for method in ours)
    assert leaves <= trees
