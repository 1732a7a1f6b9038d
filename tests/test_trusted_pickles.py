"""Pickles: every call whose message asks for trust_pickle takes it, and then loads the file."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn import ensemble, pipeline, preprocessing

import pine_boost
from pine_boost.errors import UnsupportedModelError

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")
X = np.random.default_rng(0).normal(size=(700, 3))
CALLS = {
    "prune_booster": {"alpha": 0.3, "objective": "l1"},
    "sweep": {"alphas": [0.3], "objective": "l1"},
    "compress_booster": {"fidelity": 0.98},
    "survey": {"time_limit": 2.0},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    boosting = ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), boosting)
    path = tmp_path_factory.mktemp("pickles") / "model.pkl"
    path.write_bytes(pickle.dumps(model.fit(X[:300], X[:300, 0] > 0.1)))
    return path


@pytest.mark.parametrize("name", CALLS)
def test_what_the_message_says_works(path, name):
    function = getattr(pine_boost, name)
    with pytest.raises(UnsupportedModelError, match="trust_pickle=True"):
        function(path, X[:300], X[300:], **CALLS[name])
    assert inspect.signature(function).parameters["trust_pickle"].default is False
    result = function(path, X[:300], X[300:], trust_pickle=True, **CALLS[name])
    if name in ("prune_booster", "compress_booster"):
        assert type(result.model).__name__ == "Pipeline"


@pytest.mark.parametrize("contents", [b"\x80\x04", b"\x80\x04\x95\x10"])
def test_a_damaged_pickle_says_why(tmp_path, contents):
    (tmp_path / "model.pkl").write_bytes(contents)
    for source in (tmp_path / "model.pkl", contents):
        with pytest.raises(UnsupportedModelError, match=r"unpickled \(\w+.*\): it is damaged or t"):
            pine_boost.simplify(source, trust_pickle=True)
