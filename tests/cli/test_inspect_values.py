"""inspect says of a regressor what it decides and which command takes it."""

from __future__ import annotations

import json
from pathlib import Path

import lightgbm
import numpy as np
import pytest

from pine_boost.cli import main


def test_a_regressor_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(0).normal(size=(100, 3))
    options = {"objective": "poisson", "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(options, lightgbm.Dataset(X, np.exp(X[:, 0])), 3)
    booster.save_model(tmp_path / "model.txt")
    assert main(["inspect", str(tmp_path / "model.txt"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["decides"].startswith("a value: compress")
    assert facts["classes"] == []
    assert main(["inspect", str(tmp_path / "model.txt"), "--json", "--threshold", "0.5"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["decides"] == "a class"
    assert facts["classes"] == [0, 1]
