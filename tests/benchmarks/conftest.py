"""Two small data sets as files, and a results folder with a tiny run of the paper."""

import numpy as np
import pytest

from benchmarks import paper


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Two small data sets as files: one with text, 0/1 and numeric columns, one with 3 classes."""
    import pandas as pd
    from sklearn import datasets

    place = tmp_path_factory.mktemp("data")
    X, y = datasets.load_breast_cancer(return_X_y=True)
    frame = pd.DataFrame(X[:300, :3], columns=["a", "b", "c"])
    frame["flag"] = np.where(X[:300, 5] > 0.1, "yes", "no")
    frame["size"] = pd.cut(X[:300, 6], 3, labels=["small", "?", "large"]).astype(str)
    frame.assign(label=y[:300]).to_csv(place / "Toy.csv", index=False)
    X, y = datasets.load_iris(return_X_y=True)
    pd.DataFrame(X).assign(label=y).to_csv(place / "Flowers.csv.gz", index=False)
    return str(place)


@pytest.fixture(scope="session")
def results(folder, tmp_path_factory):
    """A results folder with a tiny run of the paper's experiment."""
    place = tmp_path_factory.mktemp("results")
    out = str(place / "paper_l0.csv")
    code = paper.main(
        (
            f"--datasets Toy,Flowers --data {folder} --seeds 2 --alphas faithful,0.2 --trees 30 "
            f"--time-limit 600 --jobs 0 --out {out}"
        ).split()
    )
    assert code == 0
    return place
