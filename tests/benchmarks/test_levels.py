"""The simulation of the test's levels judges all alternatives on the same draws."""

from __future__ import annotations

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("xgboost")

from sklearn.datasets import make_classification  # noqa: E402

from benchmarks import levels  # noqa: E402


def test_no_procedure_beats_the_best_size_that_passes(tmp_path, capsys, few_synthetic_rows):
    X, y = make_classification(3000, 6, n_informative=4, random_state=0)
    pd.DataFrame(X).assign(label=y).to_csv(tmp_path / "Toy.csv", index=False)
    found = levels.simulate("Toy", 0, str(tmp_path), 30, "leaves")
    assert {len(gone) for gone in found.values()} == {30}
    assert 0 < np.mean(found["one test"]) <= np.mean(found["ours"])  # what goes on never returns a larger size
    for text in ("ours", *levels.KEPT):
        assert np.all(np.array(found[text]) <= np.array(found[levels.BEST]))
    assert levels.main(f"--datasets Toy --data {tmp_path} --seeds 0 --draws 5".split()) == 0
    assert f"| {levels.BEST} |" in capsys.readouterr().out
