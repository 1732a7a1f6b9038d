"""A model with its tables as files, and the same pruned, for the tests of the command line."""

import pytest

from pine_boost.cli import main
from tests.support.command_line import words


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model and its tables in several formats, with a label and a column of others."""
    import xgboost
    from sklearn import datasets

    folder = tmp_path_factory.mktemp("files")
    data = datasets.load_breast_cancer(as_frame=True)
    X, y = data.data.iloc[:, :6], data.target
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=2, nthread=1)
    model.fit(X[:250], y[:250])
    model.save_model(folder / "model.json")
    model.save_model(folder / "model.ubj")
    mixed = X.assign(target=y)
    mixed.insert(0, "comment", "text")
    mixed[:250].to_csv(folder / "fit.csv", index=False)
    mixed[250:450].to_csv(folder / "cal.csv", index=False)
    mixed[450:].to_csv(folder / "test.csv.gz", index=False)
    mixed[250:450].to_parquet(folder / "cal.parquet")
    mixed[450:].reset_index().to_feather(folder / "test.feather")
    return folder


@pytest.fixture(scope="module")
def given(files):
    """The model and both tables, as the arguments of a command."""
    return f"{files}/model.json --fit {files}/fit.csv --cal {files}/cal.csv"


@pytest.fixture(scope="module")
def pruned(files, given):
    assert main(words(f"prune {given} --alpha 0.5 -o {files}/pruned")) == 0
    return files / "pruned"
