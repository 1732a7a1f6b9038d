"""Counterexamples replayed natively: true ones pass for every kind of model, wrong ones raise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pine_boost import prune_booster, sweep
from pine_boost.errors import MissingDependencyError, PineBoostError, UnsupportedModelError
from pine_boost.model.forest import Model, PrunedForest, SplitKind
from pine_boost.native import replay as referee
from pine_boost.native.replay import Referee
from pine_boost.parsers import read_model
from pine_boost.proof.boxes.search import counterexamples
from pine_boost.proof.problem import Game, build_game
from pine_boost.region.fitting import fit_region
from pine_boost.region.region import Region
from pine_boost.search import run
from pine_boost.search.algorithm import Effort, search
from pine_boost.search.grid import needed_sides
from pine_boost.search.oracle import Answer
from tests.support.grids import grid_forest
from tests.support.native_models import MODELS, built, xgboost

Parts = tuple[Model, Region, Game]


def _parts(name: str, threshold: Any = None) -> tuple[Parts, np.ndarray]:
    model, X = built(name)
    parsed = read_model(model, threshold=threshold)
    region = fit_region(parsed.forest, X[:200], X[200:], alpha=0.2)
    return (parsed, region, build_game(parsed.forest, region.space, region.tables)), X


def _candidate(game: Game, seed: int) -> PrunedForest:
    """Reweighted trees without some of them: it loses here and there."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, game.n_units) * (rng.random(game.n_units) < 0.6)
    weights[rng.integers(game.n_units)] = 1.0
    return grid_forest(game.forest, weights[game.unit], grid=18)


def _lost(game: Game, pruned: PrunedForest, n_states: int = 4000) -> np.ndarray:
    rng = np.random.default_rng(0)
    states = np.stack([rng.integers(0, n, n_states) for n in game.space.n_states], axis=1)
    states = states.astype(np.int32)
    lost = [counterexamples(game, pruned, question, states) for question in game.questions]
    return np.asarray(states[np.any(lost, axis=0)])


@pytest.mark.parametrize("name", list(MODELS))
def test_true_counterexamples_of_every_kind_pass(name: str) -> None:
    parts, _ = _parts(name)
    game = parts[2]
    judge = Referee(*parts)
    n_points = 0
    for seed in range(3):
        pruned = _candidate(game, seed)
        states = _lost(game, pruned)
        if len(states):
            judge(pruned, states)
        n_points += len(states)
    assert n_points > 20


@pytest.mark.parametrize("threshold", [0.3, (0.2, 0.5, 0.9)])
@pytest.mark.parametrize("name", ["xgb binary", "lgb binary", "gradient boosting", "histogram"])
def test_true_counterexamples_of_thresholds_pass(name: str, threshold: Any) -> None:
    parts, _ = _parts(name, threshold)
    pruned = _candidate(parts[2], 1)
    states = _lost(parts[2], pruned)
    assert len(states) >= 20
    Referee(*parts)(pruned, states)


def test_a_forest_with_a_threshold_and_a_file() -> None:
    parts, _ = _parts("random forest", 0.3)
    pruned = _candidate(parts[2], 1)
    states = _lost(parts[2], pruned)
    assert len(states) > 20
    Referee(*parts)(pruned, states)
    model, X = built("xgb binary")
    contents = bytes(model.get_booster().save_raw("json"))
    parsed = read_model(contents)
    assert parsed.native is None
    region = fit_region(parsed.forest, X[:200], X[200:], alpha=0.2)
    game = build_game(parsed.forest, region.space, region.tables)
    pruned = _candidate(game, 1)
    Referee(parsed, region, game)(pruned, _lost(game, pruned))


@pytest.mark.parametrize("name", ["xgb 3 classes", "lgb binary", "random forest", "ada boost"])
def test_a_point_that_is_none_raises(name: str) -> None:
    parts, X = _parts(name)
    parsed, region, game = parts
    pruned = _candidate(game, 0)
    judge = Referee(*parts)
    states = region.space.states(X)
    lost = np.any([counterexamples(game, pruned, q, states) for q in game.questions], axis=0)
    assert lost.any()
    judge(pruned, states[lost])
    inside = region.tables.contains(states)
    assert (inside & ~lost).any()
    with pytest.raises(PineBoostError, match="is no counterexample"):
        judge(pruned, states[inside & ~lost][:1])
    mixed = np.concatenate([states[lost], states[inside & ~lost][:1]])
    with pytest.raises(PineBoostError, match="is no counterexample"):
        judge(pruned, mixed)
    # outside the region nothing is claimed, so nothing there speaks against a candidate
    narrow = replace(game, region=replace(game.region, tau=-1))
    with pytest.raises(PineBoostError, match="is no counterexample"):
        Referee(parsed, region, narrow)(pruned, states[lost])


@pytest.mark.parametrize("name", ["xgb binary", "xgb 3 classes", "lgb 3 classes", "histogram"])
def test_a_wrong_leaf_of_the_original_is_caught(name: str) -> None:
    """The integers of one leaf are off, so that proofs about them would speak of another model."""
    parts, _ = _parts(name)
    parsed, region, game = parts
    pruned = _candidate(game, 0)
    states = _lost(game, pruned)
    leaves = game.trees.leaves(states)
    leaf = int(leaves[0, 0])
    table = game.original_int.copy()
    output = int(np.argmax(np.abs(table[leaf])))
    table[leaf, output] += int(0.001 * 2.0**game.scale)
    wrong = replace(game, original_int=table)
    still = np.any([counterexamples(wrong, pruned, q, states) for q in game.questions], axis=0)
    hit = still & (leaves[:, 0] == leaf)
    assert hit.any()
    with pytest.raises(PineBoostError, match="native original margin"):
        Referee(parsed, region, wrong)(pruned, states[hit])
    unhit = still & (leaves[:, 0] != leaf)
    Referee(parsed, region, wrong)(pruned, states[unhit])


@pytest.mark.parametrize("name", ["xgb binary", "lgb binary", "gradient boosting", "random forest"])
def test_an_exporter_that_writes_another_leaf_is_caught(name: str, monkeypatch: Any) -> None:
    parts, _ = _parts(name)
    game = parts[2]
    pruned = _candidate(game, 0)
    states = _lost(game, pruned)
    judge = Referee(*parts)
    judge(pruned, states)
    node = game.leaf_node[game.trees.leaves(states)[0, int(pruned.kept[0])]]

    def careless(model: Model, written: PrunedForest) -> Any:
        value_int = written.value_int.copy()
        value_int[node] += 40  # 40 / 2**18: no class changes, and still the file is another
        return export(model, replace(written, value_int=value_int))

    export = referee.export
    monkeypatch.setattr(referee, "export", careless)
    with pytest.raises(PineBoostError, match="native pruned"):
        judge(pruned, states)


def test_a_whole_run_on_wrong_integers_certifies_nothing() -> None:
    """Every leaf of the first tree is wrong on the integers; the search itself cannot see it."""
    model, X = built("xgb binary")
    parsed = read_model(model)
    region = fit_region(parsed.forest, X[:200], X[200:], alpha=0.2)
    game = build_game(parsed.forest, region.space, region.tables)
    table = game.original_int.copy()
    table[game.trees.leaf_tree == 0] += int(0.05 * 2.0**game.scale)
    wrong = replace(game, original_int=table)
    states = region.states(X[:20])
    effort = Effort(n_walks=0)  # the fewer rows at first, the more the Oracle has to object
    blind = search(wrong, states, effort=effort)
    assert blind.pruned is not None
    assert blind.rounds > 1
    right = search(game, states, effort=effort, referee=Referee(parsed, region, game))
    assert right.rounds > 1
    with pytest.raises(PineBoostError, match=r"Internal error.*please report"):
        search(wrong, states, effort=effort, referee=Referee(parsed, region, wrong))


def _in_the_band() -> tuple[Parts, PrunedForest, np.ndarray]:
    """A candidate one grid unit nearer to its threshold than a proof needs, at one input."""
    parts, X = _parts("xgb binary", 0.3)
    game = parts[2]
    states = parts[1].space.states(X)
    original = game.original_margins_int(game.trees.leaves(states))
    above = game.decided(original)[:, 0] & parts[1].tables.contains(states)
    state = states[above][:1]
    pruned = grid_forest(game.forest, grid=18)
    value = pruned.value_int[game.leaf_node][:, 0]
    margin = int(value[game.trees.leaves(state)[0]].sum() + pruned.intercept_int[0])
    needed = int(needed_sides(game, pruned.grid)[0])
    first = (game.forest.kind == SplitKind.LEAF) & (game.forest.node_tree == int(pruned.kept[0]))
    value_int = pruned.value_int.copy()
    value_int[first] += needed - 1 - margin
    return parts, replace(pruned, value_int=value_int), state


def test_inside_the_band_the_same_class_is_legitimate() -> None:
    (parsed, region, game), pruned, state = _in_the_band()
    Referee(parsed, region, game)(pruned, state)
    native = referee.export(parsed, pruned)
    row = region.space.representative(state)
    before, after = (m.predict_proba(row)[0, 1] > 0.3 for m in (parsed.native, native))
    assert before
    assert after  # the same class: an objection to the proof's distance, not to the class
    lowest, highest = referee.certain_classes(
        game, np.array([[needed_sides(game, 18)[0] - 1]]), needed_sides(game, 18)
    )
    assert (lowest[0], highest[0]) == (0, 1)


def test_without_the_library_the_integers_decide(monkeypatch: Any) -> None:
    parts, _ = _parts("xgb binary")
    pruned = _candidate(parts[2], 0)
    states = _lost(parts[2], pruned)

    def missing(model: Model) -> Any:
        raise MissingDependencyError("no xgboost here")

    monkeypatch.setattr(referee, "load_native", missing)
    Referee(*parts)(pruned, states)
    keeps = grid_forest(parts[2].forest)
    with pytest.raises(PineBoostError, match="is no counterexample"):
        Referee(*parts)(keeps, states)


def test_a_candidate_that_cannot_be_written_is_skipped(monkeypatch: Any) -> None:
    parts, _ = _parts("xgb binary")
    pruned = _candidate(parts[2], 0)
    states = _lost(parts[2], pruned)

    def refuse(model: Model, written: PrunedForest) -> Any:
        raise UnsupportedModelError("too fine")

    monkeypatch.setattr(referee, "export", refuse)
    Referee(*parts)(pruned, states)


def test_every_point_that_speaks_against_a_candidate_is_replayed(monkeypatch: Any) -> None:
    """What CP-SAT and boxes report reaches the referee of `prune_booster` and `sweep`."""
    reported: list[bytes] = []
    replayed: list[bytes] = []
    objections, call = run.Run.objections, Referee.__call__

    def listen(self: Any, pruned: Any, proofs: Any) -> bool:
        reported.extend(p.states.tobytes() for p in proofs if p.answer is Answer.FOUND)
        return objections(self, pruned, proofs)

    def watch(self: Referee, pruned: PrunedForest, states: np.ndarray) -> None:
        replayed.extend(row.astype(np.int32).tobytes() for row in states)
        call(self, pruned, states)

    monkeypatch.setattr(run.Run, "objections", listen)
    monkeypatch.setattr(Referee, "__call__", watch)
    # without walks and climbs the proofs have much to report
    monkeypatch.setattr(run.Run, "walk_from", lambda self, starts: 0)
    monkeypatch.setattr(run.Oracle, "climb", lambda self, pruned, pool: pool.states[:0])
    for name in ("xgb binary", "lgb binary"):
        model, X = built(name)
        assert prune_booster(model, X[:50], X[200:], alpha=0.2).status == "CERTIFIED"
    n_single = len(reported)
    assert n_single > 3
    model, X = built("xgb binary")
    sweep(model, X[:50], X[200:], alphas=[0.1, 0.5])
    assert len(reported) > n_single
    assert sorted(reported) == sorted(replayed)


def test_names_and_text_categories() -> None:
    pandas = pytest.importorskip("pandas")
    _, X = built("xgb binary")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["b"] = pandas.Categorical.from_codes(X[:, 1].astype(int), list("uvwxyz"))
    noise = np.random.default_rng(0).normal(size=len(X))
    y = (X[:, 0] + np.isin(X[:, 1], [1, 4]) + noise > 0.5).astype(int)
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1, enable_categorical=True)
    parsed = read_model(model.fit(frame, y))
    region = fit_region(parsed.forest, frame[:200], frame[200:], alpha=0)
    game = build_game(parsed.forest, region.space, region.tables)
    pruned = grid_forest(game.forest, np.arange(10) < 3, grid=18)
    states = _lost(game, pruned)
    assert len(states) > 20
    Referee(parsed, region, game)(pruned, states)
