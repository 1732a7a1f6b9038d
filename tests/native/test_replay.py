"""Counterexamples replayed natively: true ones pass for every kind of model, wrong ones raise."""

from dataclasses import replace

import numpy as np
import pytest

from pine_boost import build_result, prune_booster, sweep
from pine_boost.budget import Budget, Effort
from pine_boost.build_result import certain_classes, replay_points
from pine_boost.errors import MissingDependencyError, PineBoostError
from pine_boost.exporters import export
from pine_boost.model.forest import tree_units
from pine_boost.model.rules import SplitKind
from pine_boost.options import Options
from pine_boost.parsers import read_model
from pine_boost.proof.problem import build_problem
from pine_boost.region.fitting import fit_region
from pine_boost.search.algorithm import search
from pine_boost.search.oracle import Oracle
from pine_boost.search.search_state import SearchState, SearchTask
from tests.support.grids import grid_forest
from tests.support.native_models import MODELS, built, xgboost


def _parts(name, threshold=None):
    model, X = built(name)
    parsed = read_model(model, threshold=threshold)
    region = fit_region(parsed.forest, X[:200], X[200:], alpha=0.2)
    return (parsed, region, build_problem(parsed.forest, region.space, region.tables)), X


def _candidate(problem, seed):
    """Reweighted trees without some of them: it loses here and there."""
    rng = np.random.default_rng(seed)
    unit = tree_units(problem.forest, "round")
    n_units = int(unit.max()) + 1
    weights = rng.uniform(0.5, 1.5, n_units) * (rng.random(n_units) < 0.6)
    weights[rng.integers(n_units)] = 1.0
    return grid_forest(problem.forest, weights[unit], grid=18)


def _replay(parts, pruned, states):
    """Export a candidate and predict the points with both native models."""
    parsed, region, problem = parts
    threshold = parsed.forest.decision.thresholds or None
    smaller = read_model(export(parsed, pruned), threshold=threshold)
    replay_points(problem, region.schema, (parsed, smaller), pruned, states)


def _lost(problem, pruned, n_states=4000):
    rng = np.random.default_rng(0)
    states = np.stack([rng.integers(0, n, n_states) for n in problem.space.n_states], axis=1)
    states = states.astype(np.int32)
    lost = [problem.lost(pruned, states)[:, question.index] for question in problem.questions]
    return np.asarray(states[np.any(lost, axis=0)])


@pytest.mark.parametrize("name", list(MODELS))
def test_true_counterexamples_of_every_kind_pass(name):
    parts, _ = _parts(name)
    problem = parts[2]
    n_points = 0
    for seed in range(3):
        pruned = _candidate(problem, seed)
        states = _lost(problem, pruned)
        if len(states):
            _replay(parts, pruned, states)
        n_points += len(states)
    assert n_points > 20


@pytest.mark.parametrize("threshold", [0.3, (0.2, 0.5, 0.9)])
@pytest.mark.parametrize("name", ["xgb binary", "lgb binary", "gradient boosting", "histogram"])
def test_true_counterexamples_of_thresholds_pass(name, threshold):
    parts, _ = _parts(name, threshold)
    pruned = _candidate(parts[2], 1)
    states = _lost(parts[2], pruned)
    assert len(states) >= 20
    _replay(parts, pruned, states)


def test_a_forest_with_a_threshold_and_a_file():
    parts, _ = _parts("random forest", 0.3)
    pruned = _candidate(parts[2], 1)
    states = _lost(parts[2], pruned)
    assert len(states) > 20
    _replay(parts, pruned, states)
    model, X = built("xgb binary")
    contents = bytes(model.get_booster().save_raw("json"))
    parsed = read_model(contents)
    assert parsed.native is None
    region = fit_region(parsed.forest, X[:200], X[200:], alpha=0.2)
    problem = build_problem(parsed.forest, region.space, region.tables)
    pruned = _candidate(problem, 1)
    _replay((parsed, region, problem), pruned, _lost(problem, pruned))


@pytest.mark.parametrize("name", ["xgb binary", "xgb 3 classes", "lgb 3 classes", "histogram"])
def test_a_wrong_leaf_of_the_original_is_caught(name):
    """The integers of one leaf are off, so that proofs about them would speak of another model."""
    parts, _ = _parts(name)
    parsed, region, problem = parts
    pruned = _candidate(problem, 0)
    states = _lost(problem, pruned)
    leaves = problem.trees.leaves(states)
    leaf = int(leaves[0, 0])
    table = problem.original_int.copy()
    output = int(np.argmax(np.abs(table[leaf])))
    table[leaf, output] += int(0.001 * 2.0**problem.scale)
    wrong = replace(problem, original_int=table)
    still = np.any([wrong.lost(pruned, states)[:, q.index] for q in problem.questions], axis=0)
    hit = still & (leaves[:, 0] == leaf)
    assert hit.any()
    with pytest.raises(PineBoostError, match="native original margin"):
        _replay((parsed, region, wrong), pruned, states[hit])
    unhit = still & (leaves[:, 0] != leaf)
    _replay((parsed, region, wrong), pruned, states[unhit])


@pytest.mark.parametrize("name", ["xgb binary", "lgb binary", "gradient boosting", "random forest"])
def test_an_exporter_that_writes_another_leaf_is_caught(name):
    parts, _ = _parts(name)
    problem = parts[2]
    pruned = _candidate(problem, 0)
    states = _lost(problem, pruned)
    _replay(parts, pruned, states)
    node = problem.leaf_node[problem.trees.leaves(states)[0, int(pruned.kept[0])]]

    value_int = pruned.value_int.copy()
    value_int[node] += 40  # 40 / 2**18: no class changes, and still the file is another
    careless = export(parts[0], replace(pruned, value_int=value_int))
    models = (parts[0], read_model(careless))
    with pytest.raises(PineBoostError, match="native pruned"):
        replay_points(problem, parts[1].schema, models, pruned, states)


def test_a_whole_run_on_wrong_integers_certifies_nothing():
    """Every leaf of the first tree is wrong on the integers; the search itself cannot see it."""
    model, X = built("xgb binary")
    parsed = read_model(model)
    region = fit_region(parsed.forest, X[:200], X[200:], alpha=0.2)
    problem = build_problem(parsed.forest, region.space, region.tables)
    table = problem.original_int.copy()
    table[problem.trees.leaf_tree == 0] += int(0.05 * 2.0**problem.scale)
    wrong = replace(problem, original_int=table)
    states = region.states(X[:20])
    effort = Effort(n_walks=0)  # the fewer rows at first, the more the Oracle has to object
    budget = Budget.of(None, effort)
    found = search(SearchTask(wrong, states, Options()), budget)
    assert found.pruned is not None
    assert found.rounds > 1
    assert found.points is not None
    right = search(SearchTask(problem, states, Options()), budget)
    assert right.pruned is not None
    assert right.points is not None
    _replay((parsed, region, problem), right.pruned, right.points)
    with pytest.raises(PineBoostError, match=r"Internal error.*please report"):
        _replay((parsed, region, wrong), found.pruned, found.points)


def _in_the_band():
    """A candidate one grid unit nearer to its threshold than a proof needs, at one input."""
    parts, X = _parts("xgb binary", 0.3)
    problem = parts[2]
    states = parts[1].space.states(X)
    original = problem.original_margins_int(problem.trees.leaves(states))
    above = problem.decided(original)[:, 0] & parts[1].tables.contains(states)
    state = states[above][:1]
    pruned = grid_forest(problem.forest, grid=18)
    value = pruned.value_int[problem.leaf_node][:, 0]
    margin = int(value[problem.trees.leaves(state)[0]].sum() + pruned.intercept_int[0])
    needed = int(problem.needed_sides(pruned.grid)[0])
    first = (problem.forest.kind == SplitKind.LEAF) & (problem.forest.node_tree == int(pruned.kept[0]))
    value_int = pruned.value_int.copy()
    value_int[first] += needed - 1 - margin
    return parts, replace(pruned, value_int=value_int), state


def test_inside_the_band_the_same_class_is_legitimate():
    (parsed, region, problem), pruned, state = _in_the_band()
    _replay((parsed, region, problem), pruned, state)
    native = export(parsed, pruned)
    row = region.space.representative(state)
    before, after = (m.predict_proba(row)[0, 1] > 0.3 for m in (parsed.native, native))
    assert before
    assert after  # the same class: an objection to the proof's distance, not to the class
    lowest, highest = certain_classes(problem, np.array([[problem.needed_sides(18)[0] - 1]]), problem.needed_sides(18))
    assert (lowest[0], highest[0]) == (0, 1)


def test_without_the_library_nothing_is_compared(monkeypatch):
    parts, _ = _parts("xgb binary")
    problem = parts[2]
    pruned = _candidate(problem, 0)
    wrong = replace(problem, original_int=problem.original_int + 2**20)

    def missing(model):
        raise MissingDependencyError("no xgboost here")

    monkeypatch.setattr(build_result, "load_native", missing)
    _replay((parts[0], parts[1], wrong), pruned, _lost(problem, pruned))


@pytest.mark.parametrize("kind", ["prune", "sweep"])
def test_a_wrong_original_never_leaves_prune_or_sweep(monkeypatch, kind):
    """Integers of another model: the search believes them, the native libraries do not."""
    model, X = built("xgb binary")

    def wrong(*arguments, **options):
        problem = build_problem(*arguments, **options)
        table = problem.original_int.copy()
        table[problem.trees.leaf_tree == 0] += int(0.05 * 2.0**problem.scale)
        return replace(problem, original_int=table)

    monkeypatch.setattr("pine_boost.search.choose_indifference.build_problem", wrong)
    run = {
        "prune": lambda: prune_booster(model, X[:200], X[200:], alpha=0.2),
        "sweep": lambda: sweep(model, X[:200], X[200:], alphas=[0.2, 0.5]),
    }[kind]
    with pytest.raises(PineBoostError, match=r"Internal error.*please report"):
        run()


def test_every_point_of_a_proof_is_replayed_in_one_batch(monkeypatch):
    """What proofs report reaches the native models of `prune_booster` and `sweep`, once each."""
    reported = set()
    replayed = set()
    batches = []
    prove = Oracle.prove

    def listen(self, pruned, budget):
        verdict = prove(self, pruned, budget)
        if verdict.counterexamples is not None:
            reported.update(row.tobytes() for row in verdict.counterexamples)
        return verdict

    def watch(problem, schema, models, pruned, states):
        replayed.update(row.astype(np.int32).tobytes() for row in states)
        batches.append(len(states))
        replay_points(problem, schema, models, pruned, states)

    monkeypatch.setattr(Oracle, "prove", listen)
    monkeypatch.setattr(build_result, "replay_points", watch)
    # without walks and climbs the proofs have much to report
    monkeypatch.setattr(SearchState, "_walk_from", lambda self, starts: None)
    monkeypatch.setattr(Oracle, "climb", lambda self, pruned, rows, budget: rows.states[:0])
    for name in ("xgb binary", "lgb binary"):
        model, X = built(name)
        assert prune_booster(model, X[:50], X[200:], alpha=0.2).status == "CERTIFIED"
    assert len(reported) > 3
    assert len(batches) == 2
    n_single = len(reported)
    model, X = built("xgb binary")
    sweep(model, X[:50], X[200:], alphas=[0.1, 0.5])
    assert len(reported) > n_single
    assert reported <= replayed
    assert len(batches) <= 4


def test_names_and_text_categories():
    import pandas

    _, X = built("xgb binary")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["b"] = pandas.Categorical.from_codes(X[:, 1].astype(int), list("uvwxyz"))
    noise = np.random.default_rng(0).normal(size=len(X))
    y = (X[:, 0] + np.isin(X[:, 1], [1, 4]) + noise > 0.5).astype(int)
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1, enable_categorical=True)
    parsed = read_model(model.fit(frame, y))
    region = fit_region(parsed.forest, frame[:200], frame[200:], alpha=0)
    problem = build_problem(parsed.forest, region.space, region.tables)
    pruned = grid_forest(problem.forest, np.arange(10) < 3, grid=18)
    states = _lost(problem, pruned)
    assert len(states) > 20
    _replay((parsed, region, problem), pruned, states)
