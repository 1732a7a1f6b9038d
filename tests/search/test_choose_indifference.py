"""How much of alpha undecided inputs get: Ctrl-C while that is being chosen ends the whole call."""

from dataclasses import replace

import numpy as np
import pytest
from xgboost import XGBClassifier

from pine_boost import prune_booster, sweep, verify
from pine_boost.budget import StopReason
from pine_boost.certificate.claims import choice_of
from pine_boost.cli.prune import exit_code
from pine_boost.model.forest import PrunedForest
from pine_boost.options import Options
from pine_boost.parsers import read_model
from pine_boost.proof.problem import build_problem
from pine_boost.region.fitting import fit_with_states
from pine_boost.search.choose_indifference import Choice, Chosen
from pine_boost.search.search_result import SearchResult
from tests.support.verifying import boosted_products


@pytest.fixture(scope="module")
def data():
    return boosted_products(10, random_state=0)


def _press(*_, **__):
    raise KeyboardInterrupt


def _press_later(*_, **__):
    yield _press()


# in the middle of a short search, and before one begins
@pytest.fixture(params=["proposals", "build_state"])
def pressed(request, monkeypatch):
    press = _press_later if request.param == "proposals" else _press
    monkeypatch.setattr(f"pine_boost.search.choose_indifference.{request.param}", press)
    where = request.param
    return where


def _check(result, pressed, capsys):
    assert result.search.stopped == "interrupted"
    assert exit_code(result) == 130
    assert "interrupted; wrote" in capsys.readouterr().err
    c = result.certificate
    if pressed == "proposals":
        assert "interrupted" in c.choice
    if c.trees_after == c.trees_before:
        assert c.status == "NOT_CERTIFIED"
        assert "interrupted" in c.reason
    assert "no time" not in f"{c.choice} {c.reason} {c.rests_on}"


def test_ctrl_c_while_choosing_ends_prune(data, pressed, capsys):
    model, X = data
    result = prune_booster(model, X[:250], X[250:], alpha=0.2, indifference="auto")
    _check(result, pressed, capsys)


def test_ctrl_c_while_choosing_ends_a_sweep(data, pressed, capsys):
    model, X = data
    swept = sweep(model, X[:250], X[250:], alphas=[0.1, 0.2], indifference="auto")
    assert swept.alphas == (0.1, 0.2)
    for result in swept:
        _check(result, pressed, capsys)


def test_no_time_is_said_only_where_a_limit_ended_the_choice():
    assert "no time" in choice_of(0.0, ())
    assert "no time" not in choice_of(0.0, (), StopReason.INTERRUPTED)
    assert "0.5 of alpha" in choice_of(0.5, ((0.0, 9), (0.5, 7)))


def _chosen(n_kept, share=0.9):
    """A search that kept so many of 100 trees with a share of alpha given up."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 4))
    y = (X[:, 0] * X[:, 1] + 0.5 * X[:, 2] > 0).astype(int)
    model = read_model(XGBClassifier(n_estimators=100, max_depth=2, learning_rate=0.3).fit(X[:200], y[:200]))
    fitted = fit_with_states(model.forest, X[200:400], X[400:], Options(alpha=0.1, indifference="auto"))
    region = fitted.with_indifference(share)
    problem = build_problem(model.forest, region.space, region.tables, delta=region.delta or 0.0)
    kept = np.arange(n_kept)
    nodes = np.isin(model.forest.node_tree, kept)[:, None]
    value_int = np.where(nodes, np.rint(2**10 * model.forest.value), 0).astype(np.int64)
    pruned = PrunedForest(model.forest, kept, value_int, 10, np.zeros(1, np.int64), np.ones(100))
    found = SearchResult(pruned, (), n_kept)
    return Chosen(region, problem, Choice(share, ((0.0, 100), (share, n_kept)))), found, fitted.region


def test_a_saving_below_two_percent_is_not_worth_undecided_inputs():
    chosen, found, plain = _chosen(99)
    assert chosen.region.delta is not None
    weighed, result = chosen.weigh(found, plain, "round")
    assert result.pruned is None
    assert result.n_kept == 100
    assert result.stopped is StopReason.NOT_WORTH_IT
    assert weighed.region is plain
    assert weighed.region.delta is None
    assert weighed.problem.delta == 0
    words = choice_of(weighed.choice.share, weighed.choice.kept, weighed.choice.why)
    assert "the original is the better choice and is returned" in words


def test_a_saving_of_two_percent_is_kept_and_so_is_what_a_user_asked_for():
    chosen, found, plain = _chosen(98)
    assert chosen.weigh(found, plain, "round") == (chosen, found)
    chosen, found, plain = _chosen(99)
    asked = replace(chosen, choice=None)
    assert asked.weigh(found, plain, "round") == (asked, found)


def test_prune_returns_the_original_where_undecided_inputs_buy_nothing(monkeypatch):
    """One tree of twelve, which a share of 0.9 pays for: status, sentence, region and verification agree."""
    random = np.random.default_rng(0)
    X = random.normal(size=(900, 4))
    y = (X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + random.normal(size=900) > 0).astype(int)
    model = XGBClassifier(n_estimators=12, max_depth=2).fit(X[:300], y[:300])
    monkeypatch.setattr("pine_boost.search.choose_indifference.WORTH", 0.99)
    options = {"alpha": 0.1, "indifference": "auto", "time_limit": 20}
    choice = Choice(0.9, ((0.0, 12), (0.9, 11)))
    monkeypatch.setattr("pine_boost.search.choose_indifference.choose_share", lambda *_: choice)
    result = prune_booster(model, X[300:600], X[600:], **options)
    c = result.certificate
    assert (c.status, c.trees_after, c.delta) == ("CERTIFIED", 12, None)
    assert "the original is the better choice" in c.choice
    assert np.array_equal(result.model.predict(X), model.predict(X))
    assert verify(model, result.model, result.region, c).agrees


def test_a_share_that_buys_too_little_is_not_chosen(monkeypatch):
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = XGBClassifier(n_estimators=12, max_depth=2).fit(X[:200], y[:200])
    monkeypatch.setattr("pine_boost.search.choose_indifference.WORTH", 1.01)
    result = prune_booster(model, X[200:400], X[400:], alpha=0.1, indifference="auto", time_limit=10)
    assert result.certificate.delta is None
    assert "get 0 of alpha" in result.certificate.choice
