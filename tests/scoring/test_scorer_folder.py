"""Scorer folders: what is saved loads bit for bit, and nothing malformed reaches the kernel."""

import io
import pickle
import subprocess
import sys

import numpy as np
import pytest

import pine_boost
from pine_boost.errors import (
    CertificateMismatch,
    InvalidInputError,
    MalformedModelError,
    MissingDependencyError,
    PineBoostError,
    UnsupportedModelError,
    UntestedVersionWarning,
)
from pine_boost.scoring.scorer_folder import ARRAYS, LAYERS, MANIFEST, _sha256
from pine_boost.scoring.scorer_verification import verify_scorer
from tests.support.hard_rows import hard_rows
from tests.support.native_models import MODELS, built
from tests.support.scorer_folders import rewrite


@pytest.fixture
def saved(tmp_path):
    """The folder of a scorer with categories, and its model."""
    native, X = built("xgb binary")
    pine_boost.accelerate_booster(native).save(tmp_path / "scorer")
    return native, X, tmp_path / "scorer"


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_scorer_answers_alike_and_is_proved_again(name, tmp_path):
    native, _ = built(name)
    result = pine_boost.accelerate_booster(native)
    result.save(tmp_path / "scorer")
    loaded = pine_boost.load_scorer(tmp_path / "scorer")
    X = hard_rows(result.original.forest, 500, special=0)
    X = np.clip(np.nan_to_num(X, nan=0.5), -1e30, 1e30)
    assert np.array_equal(loaded.predict(X), result.scorer.predict(X))
    assert np.array_equal(loaded.decision_function(X), result.scorer.decision_function(X))
    verdict = verify_scorer(native, tmp_path / "scorer")
    assert verdict.agrees, verdict.faults
    assert result.claim in verdict.summary()


def test_loading_imports_no_training_library_and_no_solver(saved):
    code = (
        "import sys, numpy, pine_boost;"
        f"s = pine_boost.load_scorer({str(saved[2])!r});"
        "s.predict(numpy.zeros((1, 4))), s.predict_proba(numpy.zeros((3, 4)));"
        "print([m for m in ('scipy', 'ortools', 'sklearn', 'xgboost', 'lightgbm', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


CHANGES = {
    "forest.node": lambda a: a.__setitem__(0, a[0] ^ np.uint64(1)),
    "forest.edge": lambda a: a.__setitem__(0, np.nextafter(a[0], -np.inf)),
    "native.value": lambda a: a.__setitem__((0, 0), a[0, 0] + 1),
    "native.cuts": lambda a: a.__setitem__(0, 0.0),
    "exits.low": lambda a: a.__setitem__((0, 0), a[0, 0] + 1),
    "exits.high": lambda a: a.__setitem__((-1, 0), a[-1, 0] - 1e-6),
    "exits.low to infinity": lambda a: a.__setitem__((0, 0), np.inf),
    "exits.high to infinity": lambda a: a.__setitem__((0, 0), -np.inf),
    "exits.order": lambda a: a.__setitem__(slice(None), a[::-1].copy()),
    "exits.value": lambda a: a.__setitem__((3, 0, 0), np.nextafter(a[3, 0, 0], 9)),
    "exits.intercept": lambda a: a.__setitem__((0, 0), a[0, 0] + 1e-9),
    "forest.column_nan": lambda a: a.__setitem__(slice(1, None), 65535 - a[1:]),
    "forest.word": lambda a: a.__setitem__(0, ~a[0]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_bound_order_value_or_threshold_is_noticed(name, saved):
    native, _, folder = saved

    def change(arrays):
        CHANGES[name](arrays[name.partition(" ")[0]])

    rewrite(folder, change)
    try:
        verdict = verify_scorer(native, folder)
    except PineBoostError:
        return  # refused when it was read
    assert not verdict.agrees


MALFORMED = {
    "child out of range": ("forest.node", lambda a: a.__setitem__(0, a[0] | np.uint64(2**24 - 1) << np.uint64(40))),
    "leaf in the middle": ("forest.node", lambda a: a.__setitem__(0, a[0] & np.uint64(2**40 - 1))),
    "column out of range": ("forest.node", lambda a: a.__setitem__(0, a[0] | np.uint64(2**23 - 1) << np.uint64(16))),
    "category bit": ("forest.node", lambda a: a.__setitem__(0, a[0] ^ np.uint64(1) << np.uint64(39))),
    "root": ("forest.root", lambda a: a.__setitem__(1, 10**6)),
    "depth": ("forest.depth", lambda a: a.__setitem__(0, 1)),
    "leaf number": ("forest.leaf_of_node", lambda a: a.__setitem__(a >= 0, 10**6)),
    "feature": ("forest.source_feature", lambda a: a.__setitem__(0, 400)),
    "negative feature": ("forest.source_feature", lambda a: a.__setitem__(0, -1)),
    "edge offset": ("forest.source_edge", lambda a: a.__setitem__(1, 10**6)),
    "nan edge": ("forest.edge", lambda a: a.__setitem__(0, np.nan)),
    "edges descend": ("forest.edge", lambda a: a.__setitem__(slice(None), a[::-1].copy())),
    "edge offsets whose differences wrap": (
        "forest.source_edge",
        lambda a: a.__setitem__(slice(1, 4), [1, -(2**31), -1]),
    ),
    "last root wraps": ("forest.root", lambda a: a.__setitem__(-1, -(2**31))),
    "code offset": ("forest.source_code", lambda a: a.__setitem__(1, 10**6)),
    "negative code": ("forest.code", lambda a: a.__setitem__(0, -1)),
    "column base": ("forest.column_base", lambda a: a.__setitem__(1, 1)),
    "base of the column that is always 0": ("forest.column_base", lambda a: a.__setitem__(0, 1)),
    "state": ("forest.code_state", lambda a: a.__setitem__(0, 5000)),
    "other state": ("forest.source_other", lambda a: a.__setitem__(slice(None), 65000)),
    "set": ("forest.set_word", lambda a: a.__setitem__(-1, 10**6)),
    "tree set": ("forest.tree_set", lambda a: a.__setitem__(slice(None), -1)),
    "output": ("forest.tree_output", lambda a: a.__setitem__(0, 7)),
    "order": ("exits.order", lambda a: a.__setitem__(0, 99)),
    "stage": ("exits.stage", lambda a: a.__setitem__(-1, 10**6)),
    "stage set": ("exits.stage_set", lambda a: a.__setitem__(-1, 3)),
    "infinite value": ("exits.value", lambda a: a.__setitem__((0, 0, 0), np.inf)),
    "nan exit": ("exits.low", lambda a: a.__setitem__((0, 0), np.nan)),
    "nan leaf": ("native.value", lambda a: a.__setitem__((0, 0), np.nan)),
    "nan cut": ("native.cuts", lambda a: a.__setitem__(0, np.nan)),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_arrays_are_refused_before_the_kernel_sees_them(what, saved):
    name, change = MALFORMED[what]
    rewrite(saved[2], lambda arrays: change(arrays[name]))
    with pytest.raises(MalformedModelError, match="Invalid scorer"):
        pine_boost.load_scorer(saved[2])


def flagged(contents, place, value):
    """An archive with another byte in the first entry of its directory."""
    at = contents.index(b"PK\x01\x02") + place
    return contents[:at] + bytes([value]) + contents[at + 1 :]


def packed_with_noise(contents):
    packed = io.BytesIO()
    np.savez_compressed(packed, **np.load(io.BytesIO(contents)))
    return packed.getvalue()[:80] + b"\xff" * 30 + packed.getvalue()[110:]


DAMAGED = {
    "no archive": lambda contents: b"x" * 50,
    "an array": lambda contents: contents[contents.index(b"\x93NUMPY") :],
    "encrypted": lambda contents: flagged(contents, 8, 1),
    "unknown compression": lambda contents: flagged(contents, 10, 99),
    "damaged compression": packed_with_noise,
}


@pytest.mark.parametrize("what", DAMAGED)
def test_arrays_that_cannot_be_unpacked_are_refused(what, saved):
    contents = DAMAGED[what]((saved[2] / ARRAYS).read_bytes())
    (saved[2] / ARRAYS).write_bytes(contents)
    rewrite(saved[2], change_manifest=lambda manifest: manifest["files"].update({ARRAYS: _sha256(contents)}))
    with pytest.raises(MalformedModelError, match="Invalid scorer"):
        pine_boost.load_scorer(saved[2])


def test_a_category_owns_one_column(saved):
    """The kernel fills no other: the trees would read what happens to lie in memory."""

    def change(arrays):
        source = int(np.flatnonzero(arrays["forest.source_known"] >= 0)[0])
        column = int(arrays["forest.source_column"][source])
        arrays["forest.source_column"][source + 1 :] += 1
        for name, value in (("column_base", 0), ("column_nan", 0), ("column_zero", -1)):
            longer = np.insert(arrays[f"forest.{name}"], column + 1, value)
            arrays[f"forest.{name}"] = longer.astype(np.int32)
        read = arrays["forest.node"] >> np.uint64(16) & np.uint64(0x7FFFFF)
        arrays["forest.node"] += (read >= column).astype(np.uint64) << np.uint64(16)

    def count(manifest):
        manifest["forest"]["n_columns"] += 1

    rewrite(saved[2], change, count)
    with pytest.raises(MalformedModelError, match="a category feature with several columns"):
        pine_boost.load_scorer(saved[2])


@pytest.mark.parametrize(
    "how", ["empty", "shorter", "longer", "other type", "missing", "unknown", "object", "two dimensions"]
)
def test_arrays_of_other_shapes_are_refused(how, saved):
    for name in (
        "forest.node",
        "forest.edge",
        "exits.low",
        "native.value",
        "forest.column_nan",
        "forest.leaf_offset",
        "forest.set_word",
    ):

        def change(arrays, name=name):
            array = arrays[name]
            arrays |= {
                "empty": {name: array[:0]},
                "shorter": {name: array[:-1]},
                "longer": {name: np.concatenate([array, array[:1]])},
                "other type": {name: array.astype(np.int16)},
                "missing": {},
                "unknown": {"other.array": array},
                "object": {name: array.astype(object)},
                "two dimensions": {name: array[None]},
            }[how]
            if how == "missing":
                del arrays[name]

        native, _, folder = saved
        pine_boost.accelerate_booster(native).save(folder, overwrite=True)
        rewrite(folder, change)
        with pytest.raises(PineBoostError):
            pine_boost.load_scorer(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["forest"].update(n_features=0),
        lambda m: m["forest"].update(n_columns=2**30),
        lambda m: m["forest"].update(is_float32="yes"),
        lambda m: m["forest"].update(code_rule="OTHER"),
        lambda m: m["forest"].pop("zero"),
        lambda m: m["native"].update(link="OTHER"),
        lambda m: m["native"].update(divisor=0),
        lambda m: m["schema"].update(n_features=9),
        lambda m: m["schema"].update(library="other"),
        lambda m: m["schema"].update(feature_names=["a"]),
        lambda m: m["schema"].update(comparison=3),
        lambda m: m.update(classes=[0, 1, 2]),
        lambda m: m["probability"].update(form="other"),
        lambda m: m["probability"].update(form="columns"),
        lambda m: m.update(format_version=99),
        lambda m: m.update(extra=1),
    ],
)
def test_a_malformed_manifest_is_refused(change, saved):
    rewrite(saved[2], None, change)
    with pytest.raises(PineBoostError):
        pine_boost.load_scorer(saved[2])


def test_exchanged_files_are_refused(saved, tmp_path):
    _, _, folder = saved
    (folder / ARRAYS).write_bytes((folder / ARRAYS).read_bytes() + b"x")
    with pytest.raises(CertificateMismatch, match="digests differ"):
        pine_boost.load_scorer(folder)
    (folder / ARRAYS).unlink()
    with pytest.raises(CertificateMismatch, match="lacks"):
        pine_boost.load_scorer(folder)
    (folder / MANIFEST).write_text((folder / MANIFEST).read_text().replace("CERTIFIED", "CERTIFIEd"))
    with pytest.raises(CertificateMismatch, match="changed after it was written"):
        pine_boost.load_scorer(folder)
    with pytest.raises(InvalidInputError, match="not a scorer folder"):
        pine_boost.load_scorer(tmp_path)


@pytest.fixture
def saved_pipeline(tmp_path):
    """The folder of a scorer with first steps, its pipeline and rows."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    native, X = built("gradient boosting")
    pipeline = make_pipeline(StandardScaler(), type(native)(n_estimators=5)).fit(X, native.predict(X))
    pine_boost.accelerate_booster(pipeline).save(tmp_path / "scorer")
    return pipeline, X


def test_a_pipeline_is_loaded_only_when_trusted(saved_pipeline, tmp_path):
    pipeline, X = saved_pipeline
    with pytest.raises(InvalidInputError, match="trust_pickle"):
        pine_boost.load_scorer(tmp_path / "scorer")
    scorer = pine_boost.load_scorer(tmp_path / "scorer", trust_pickle=True)
    assert np.array_equal(scorer.predict(X), pipeline.predict(X))
    assert verify_scorer(pipeline, tmp_path / "scorer", trust_pickle=True).agrees


def _negate(arrays):
    """Another model: every leaf with the other sign, and no exits that could be too tight."""
    for name in ("native.value", "exits.value"):
        arrays[name] *= -1
    arrays["exits.low"][:], arrays["exits.high"][:] = -np.inf, np.inf


_TESTED = {
    "compressed_digest": "0" * 64,
    "validation_digest": "0" * 64,
    "fidelity": 0.9,
    "confidence": 0.95,
    "bound": 0.91,
    "overlap": 0.0,
    "tolerance": None,
    "n_val": 100,
    "n_changed": 0,
}
FORGERIES = {
    "a proof that names a smaller model": (_negate, lambda m: m["facts"].update(validation=_TESTED)),
    "a failed test that names a smaller model": (
        _negate,
        lambda m: (m.update(status="NOT_VALIDATED"), m["facts"].update(validation=_TESTED)),
    ),
    "another sentence": (None, lambda m: m.update(claim="The probabilities of every input are right.")),
    "another status": (None, lambda m: m.update(status="PROVED TWICE")),
    "labels in another order": (None, lambda m: m.update(classes=[1, 0])),
    "labels of two kinds": (None, lambda m: m.update(classes=[1, "0"])),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_careful_forger_is_not_believed(what, saved, tmp_path):
    native, _, folder = saved
    native.save_model(tmp_path / "model.json")
    rewrite(folder, *FORGERIES[what])
    try:
        verdict = verify_scorer(tmp_path / "model.json", folder)
    except CertificateMismatch:
        return
    assert not verdict.agrees


def test_labels_that_a_model_file_does_not_hold_are_listed_as_trusted(saved, tmp_path):
    native, _, folder = saved
    native.save_model(tmp_path / "model.json")
    rewrite(folder, None, lambda m: m.update(classes=["no", "yes"]))
    verdict = verify_scorer(tmp_path / "model.json", folder)
    assert verdict.agrees
    assert "Taken on trust: that the labels are 'no', 'yes'" in verdict.summary()
    assert not verify_scorer(native, folder).agrees  # the wrapper has labels of its own


def test_a_folder_without_the_first_steps_of_its_pipeline_is_noticed(saved_pipeline, tmp_path):
    pipeline, _ = saved_pipeline
    assert "layers.pkl" in verify_scorer(pipeline, tmp_path / "scorer", trust_pickle=True).summary()
    rewrite(tmp_path / "scorer", None, lambda m: m["files"].pop("layers.pkl"))
    assert not verify_scorer(pipeline, tmp_path / "scorer", trust_pickle=True).agrees


def test_a_manifest_cannot_own_files_outside_its_folder(saved, tmp_path):
    native, _, folder = saved
    other = tmp_path / "other.txt"
    other.write_text("mine")
    rewrite(folder, None, lambda m: m["files"].update({"../other.txt": _sha256(b"mine")}))
    try:
        pine_boost.accelerate_booster(native).save(folder, overwrite=True)
    finally:
        assert other.read_text() == "mine"


def test_an_untested_version_of_the_library_is_named_when_a_scorer_is_verified(saved, monkeypatch):
    from pine_boost.parsers import traits

    native, _, folder = saved
    monkeypatch.setattr(traits, "_warned", set())
    monkeypatch.setattr(traits, "installed_version", lambda name: "99.1.0")
    with pytest.warns(UntestedVersionWarning, match=r"XGBoost 99\.1\.0 is installed"):
        assert verify_scorer(native, folder).agrees


@pytest.mark.parametrize(
    ("contents", "error", "message"),
    [
        (b"cpine_boost.no_such_module\nName\n.", MissingDependencyError, "needs pine_boost.no_such_module"),
        (b"cpine_boost.errors\nNoSuchName\n.", UnsupportedModelError, "cannot be unpickled"),
        (b"", UnsupportedModelError, "cannot be unpickled"),
        (pickle.dumps(3), MalformedModelError, "does not hold the steps"),
    ],
)
def test_steps_that_cannot_be_loaded_are_an_error_of_ours(contents, error, message, saved):
    (saved[2] / LAYERS).write_bytes(contents)
    rewrite(saved[2], change_manifest=lambda manifest: manifest["files"].update({LAYERS: _sha256(contents)}))
    with pytest.raises(error, match=message):
        pine_boost.load_scorer(saved[2], trust_pickle=True)
