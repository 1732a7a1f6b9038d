"""From the search's answer to the result: what cannot be written leaves the original."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pine_boost import UnsupportedModelError, build_result, prune_booster, simplify, verify

ensemble = pytest.importorskip("sklearn.ensemble")

from sklearn.datasets import load_breast_cancer  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402


@pytest.mark.parametrize("step", ["export_trimmed", "read_model"])
def test_a_lossless_part_that_is_refused_leaves_the_original(
    step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    trees = DecisionTreeClassifier(max_depth=4, random_state=0)
    model = ensemble.AdaBoostClassifier(trees, n_estimators=8, random_state=0).fit(X[:300], y[:300])
    assert simplify(model).leaves_after < simplify(model).leaves_before

    def refuse(*_: Any, **__: Any) -> Any:
        raise UnsupportedModelError("These nodes cannot be written.")

    monkeypatch.setattr(build_result, step, refuse)
    with caplog.at_level(logging.WARNING, "pine_boost"):
        result = prune_booster(model, X[:300], X[300:450], alpha=0.05)
    assert "not written with fewer leaves: These nodes cannot be written." in caplog.text
    assert result.model is model
    c = result.certificate
    assert c.status == "CERTIFIED"
    assert (c.leaves_after, c.pruned_digest) == (c.leaves_before, c.original_digest)
    monkeypatch.undo()
    assert verify(model, result.model, result.region, c).agrees
