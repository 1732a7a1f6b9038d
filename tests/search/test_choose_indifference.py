"""How much of alpha toss-ups get: Ctrl-C while that is being chosen ends the whole call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pine_boost import prune_booster, sweep
from pine_boost.certificate.claims import choice_of
from pine_boost.cli.prune import exit_code

ensemble = pytest.importorskip("sklearn.ensemble")


@pytest.fixture(scope="module")
def data() -> Any:
    X = np.random.default_rng(0).normal(size=(400, 4))
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
    model = ensemble.GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0)
    return model.fit(X, y), X


def _press(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def _press_later(*_: Any, **__: Any) -> Iterator[Any]:
    yield _press()


# in the middle of a short search, and before one begins
@pytest.fixture(params=["proposals", "build_state"])
def pressed(request: Any, monkeypatch: Any) -> str:
    press = _press_later if request.param == "proposals" else _press
    monkeypatch.setattr(f"pine_boost.search.choose_indifference.{request.param}", press)
    where: str = request.param
    return where


def _check(result: Any, pressed: str, capsys: Any) -> None:
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


def test_ctrl_c_while_choosing_ends_prune(data: Any, pressed: str, capsys: Any) -> None:
    model, X = data
    result = prune_booster(model, X[:250], X[250:], alpha=0.2, indifference="auto")
    _check(result, pressed, capsys)


def test_ctrl_c_while_choosing_ends_a_sweep(data: Any, pressed: str, capsys: Any) -> None:
    model, X = data
    swept = sweep(model, X[:250], X[250:], alphas=[0.1, 0.2], indifference="auto")
    assert swept.alphas == (0.1, 0.2)
    for result in swept:
        _check(result, pressed, capsys)


def test_no_time_is_said_only_where_a_limit_ended_the_choice() -> None:
    assert "no time" in choice_of(0.0, (), interrupted=False)
    assert "no time" not in choice_of(0.0, (), interrupted=True)
    assert "0.5 of alpha" in choice_of(0.5, ((0.0, 9), (0.5, 7)), interrupted=False)
