"""What the LightGBM exporter refuses, and what needs no LightGBM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters import export
from pine_boost.exporters.lightgbm import keep_average
from pine_boost.parsers.lightgbm.read import read_lightgbm
from tests.support.grids import grid_forest
from tests.support.lightgbm_texts import leaf, text_of
from tests.support.native_models import make_table

lgb = pytest.importorskip("lightgbm")

QUIET = {"num_threads": 1, "verbose": -1, "seed": 3, "deterministic": True, "num_leaves": 8}
WRAPPER = {"n_jobs": 1, "verbose": -1, "random_state": 3, "num_leaves": 8, "n_estimators": 9}


@given(
    n_kept=st.integers(1, 60),
    n_rounds=st.integers(1, 60),
    slope=st.sampled_from(["1", "2", "0.7", "0.123457", "1e-05", "31"]),
)
@settings(max_examples=60, deadline=None)
def test_average_keeps_its_divisor(n_kept: int, n_rounds: int, slope: str) -> None:
    n_kept = min(n_kept, n_rounds)
    text = text_of([leaf(1.0)] * n_kept, f"binary sigmoid:{slope}", average=True)
    document = keep_average(read_lightgbm(text.encode()).document, n_rounds)
    assert n_kept <= document.n_rounds <= n_rounds
    assert document.objective is not None
    new_slope = float(document.objective.rpartition(":")[2])
    assert f"{new_slope:g}" == document.objective.rpartition(":")[2]
    assert new_slope / document.n_rounds == pytest.approx(float(slope) / n_rounds, rel=1e-15)


def test_what_is_refused_and_why() -> None:
    X, y = make_table(2)
    with pytest.raises(InvalidInputError, match="not fitted"):
        read_lightgbm(lgb.LGBMClassifier())
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_lightgbm("no/such/file.txt")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_lightgbm(Path(os.sep))
    with pytest.raises(UnsupportedModelError, match="accepted"):
        read_lightgbm(object())
    linear = lgb.train({**QUIET, "objective": "binary", "linear_tree": True}, lgb.Dataset(X, y), 2)
    with pytest.raises(UnsupportedModelError, match="linear_tree=False"):
        read_lightgbm(linear)
    stopping = lgb.LGBMClassifier(**WRAPPER, pred_early_stop=True).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="pred_early_stop"):
        read_lightgbm(stopping)
    long = {**QUIET, "objective": "binary", "sigmoid": 0.123456789}
    with pytest.raises(UnsupportedModelError, match="six digits"):
        read_lightgbm(lgb.train(long, lgb.Dataset(X, y), 2))
    custom = lgb.train({**QUIET, "objective": lambda p, d: (p - d.get_label(), np.ones_like(p))}, lgb.Dataset(X, y), 2)
    with pytest.raises(UnsupportedModelError, match="custom"):
        read_lightgbm(custom)
    assert read_lightgbm(custom, threshold=0.5).forest.decision.cuts == (0.5,)
    coarse = read_lightgbm(text_of([leaf(1.0)], "binary sigmoid:1e-05").encode())
    with pytest.raises(UnsupportedModelError, match="coarser"):
        export(coarse, grid_forest(coarse.forest, grid=40))


def test_one_against_all_scores_that_grow_too_much_are_refused() -> None:
    X, y = make_table(3)
    params = {**QUIET, "objective": "multiclassova", "num_class": 3}
    model = read_lightgbm(lgb.train(params, lgb.Dataset(X, y), 6))
    export(model, grid_forest(model.forest, np.full(18, 2.0)))
    with pytest.raises(UnsupportedModelError, match="smaller weights"):
        export(model, grid_forest(model.forest, np.full(18, 12.0)))
    with pytest.raises(UnsupportedModelError, match="same number"):
        export(model, grid_forest(model.forest, np.full(18, 200.0)))


def test_text_is_read_without_lightgbm(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_text(text_of([leaf(0.5)], "binary sigmoid:1"))
    code = (
        "import sys; sys.modules['lightgbm'] = None\n"
        "from pine_boost.parsers import read_model\n"
        "from pine_boost.parsers.lightgbm.write import write_document\n"
        f"model = read_model({str(path)!r})\n"
        "assert write_document(model.document) == open(sys.argv[1], 'rb').read()\n"
        "print(model.forest.n_trees)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
