"""Models that carry what cannot be copied: the search's result is written all the same."""

import copy
import threading
from functools import cache

import numpy as np
import pytest

import pine_boost
from pine_boost.exporters import copy_value, export, export_trimmed
from pine_boost.model.trimming import trim
from pine_boost.parsers import read_model
from tests.support.grids import grid_forest
from tests.support.native_models import small_models

KINDS = ("lightgbm", "xgboost", "gradient", "histogram")


@cache
def _table():
    X = np.random.default_rng(3).normal(size=(900, 3))
    return X, (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)


@cache
def _with_lock(kind):
    X, y = _table()
    model = small_models(0, 2)[kind].fit(X[:300], y[:300])
    model.lock = threading.Lock()
    model.notes = {"seen": [1, 2]}
    return model


def _check(model, smaller):
    assert type(smaller) is type(model)
    assert smaller is not model
    assert smaller.lock is model.lock
    assert smaller.notes == model.notes
    assert smaller.notes is not model.notes


@pytest.mark.parametrize("kind", KINDS)
def test_pruned_with_a_lock(kind):
    X, _ = _table()
    model = _with_lock(kind)
    before = model.predict(X)
    result = pine_boost.prune_booster(model, X[:300], X[300:600], alpha=0.3)
    assert result.search.pruned is not None
    assert result.certificate.trees_after < result.certificate.trees_before
    _check(model, result.model)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("kind", KINDS)
def test_compressed_with_a_lock(kind, few_synthetic_rows):
    X, _ = _table()
    model = _with_lock(kind)
    result = pine_boost.compress_booster(model, X[:300], X[300:], fidelity=0.9)
    assert result.status == "VALIDATED"
    _check(model, result.model)


def test_what_a_failed_copy_left_behind_is_not_used_again():
    memo = {}
    notes = ["shared"]
    assert copy_value(notes, memo) is not notes
    pair = [notes, threading.Lock()]
    assert copy_value(pair, memo) is pair
    holder = {"pair": pair}  # a copy of the pair without its lock stood in the memo
    assert copy_value(holder, memo)["pair"] is pair
    assert copy_value({"notes": notes}, memo)["notes"] is copy_value(notes, memo)


def test_memory_errors_are_not_taken_for_what_cannot_be_copied():
    class Large:
        def __deepcopy__(self, memo):
            raise MemoryError

    with pytest.raises(MemoryError):
        copy_value([Large()])


@pytest.mark.parametrize("trimmed", [False, True])
def test_whatever_a_writer_raises_is_an_error_of_ours(trimmed, monkeypatch):
    X, y = _table()
    model = read_model(small_models(0, 2)["gradient"].fit(X[:300], y[:300]))
    forest = model.forest
    pruned = grid_forest(forest, np.ones(forest.n_trees))
    trimming = trim(forest, np.arange(forest.n_trees))

    def write():
        return export_trimmed(model, trimming) if trimmed else export(model, pruned)

    def refuse(error):
        def copied(_):
            raise error

        monkeypatch.setattr(copy, "copy", copied)

    refuse(TypeError("no copies of this"))
    words = r"cannot be written .*TypeError: no copies of this.*Pass the plain estimator"
    with pytest.raises(pine_boost.UnsupportedModelError, match=words) as caught:
        write()
    assert isinstance(caught.value.__cause__, TypeError)
    for error in (MemoryError(), ImportError("gone")):
        refuse(error)
        with pytest.raises(type(error)):
            write()
