"""The child process: the same classes as here, and one clear error when the library dies."""

import functools
import subprocess
import sys

import lightgbm
import numpy as np
import pytest
import xgboost

import pine_boost
from pine_boost import prune_booster, sweep
from pine_boost.errors import MissingDependencyError, PineBoostError, UnsupportedModelError
from pine_boost.native.child_process import read_and_try, try_and_predict, try_in_child
from pine_boost.native.predict import load_native, predict_classes
from pine_boost.parsers import read_model
from pine_boost.report.compression_report import render_compression
from pine_boost.report.prune_report import render_report
from pine_boost.scoring.guards import measure_margin

PASSED = "pine_boost.native.child_process._PASSED"


@pytest.fixture(autouse=True)
def nothing_has_passed(monkeypatch):
    monkeypatch.setattr(PASSED, set())


def _rows() -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(200, 4))
    X[::9, 1] = np.nan
    return X


def _multiclass_file() -> bytes:
    X = _rows()
    data = xgboost.DMatrix(X, np.digitize(X[:, 0], [-0.3, 0.9]), nthread=1)
    options = {"objective": "multi:softprob", "num_class": 3, "max_depth": 2, "nthread": 1}
    return bytes(xgboost.train(options, data, 3).save_raw("json"))


def _lightgbm_file() -> bytes:
    X = _rows()
    options = {"objective": "binary", "verbose": -1, "num_threads": 1, "num_leaves": 4}
    return lightgbm.train(options, lightgbm.Dataset(X, X[:, 0] > 0), 4).model_to_string().encode()


def test_a_multiclass_xgboost_file_predicts_as_the_library_does():
    contents, X = _multiclass_file(), _rows()
    native = xgboost.Booster(model_file=bytearray(contents))
    expected = native.predict(xgboost.DMatrix(X, nthread=1)).argmax(axis=1)
    model = read_model(contents)
    assert len(model.document.base_score) == 3  # one intercept per class survives the round trip
    assert np.array_equal(predict_classes(model, X), expected)
    assert np.array_equal(try_and_predict(model, X), expected)


def test_a_lightgbm_file_with_a_threshold_predicts_as_the_library_does():
    contents, X = _lightgbm_file(), _rows()
    native = lightgbm.Booster(model_str=contents.decode())
    expected = native.predict(X, num_threads=1) > 0.3
    found = try_and_predict(read_model(contents, threshold=0.3), X)
    assert np.array_equal(found, expected.astype(np.int64))


def test_every_healthy_file_survives_its_first_load():
    from tests.support.malformed_xgboost import healthy_files

    for contents in (*healthy_files().values(), _multiclass_file(), _lightgbm_file()):
        try_in_child(read_model(contents, decision="value"))


def test_the_same_contents_are_tried_once(monkeypatch):
    tried = []
    monkeypatch.setattr("pine_boost.native.child_process._run", lambda command, contents, *_: tried.append(contents))
    for contents in (_lightgbm_file(), _lightgbm_file(), _multiclass_file()):
        try_in_child(read_model(contents), read_model(contents))
    assert len(tried) == 2


def test_a_live_object_is_asked_here():
    X = _rows()
    live = lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(X, X[:, 0] > 0)
    model = read_model(live)
    try_in_child(model, time_limit=1e-9)
    assert np.array_equal(try_and_predict(model, X), predict_classes(model, X))


def test_a_child_that_takes_too_long_is_stopped():
    with pytest.raises(UnsupportedModelError, match=r"did not finish .* in 1e-06 s"):
        try_in_child(read_model(_lightgbm_file()), time_limit=1e-6)


def test_a_child_without_memory_is_one_error():
    with pytest.raises(UnsupportedModelError, match=r"child process .* lightgbm"):
        try_in_child(read_model(_lightgbm_file()), memory_limit=2**24)
    with pytest.raises(UnsupportedModelError, match=r"child process .* xgboost .* 0\.0156 GiB"):
        try_in_child(read_model(_multiclass_file()), memory_limit=2**24)


def _measured(original, rows, X_val):
    return measure_margin(read_model(original), read_model(original), X_val, 0.9, 0.9)


def _predicted(original, rows, X_val):
    return try_and_predict(read_model(original), X_val)


def _kill_children(monkeypatch, tmp_path):
    """Every child dies, and a file that is loaded here after all is an error of its own."""
    script = tmp_path / "script.py"
    script.write_text("import os; os.kill(os.getpid(), 11)")
    monkeypatch.setattr("pine_boost.native.child_process._SCRIPT", str(script))
    monkeypatch.setattr(lightgbm, "Booster", None)


@pytest.mark.posix
@pytest.mark.parametrize("call", [prune_booster, sweep, _measured, _predicted])
def test_a_file_that_kills_a_child_is_not_loaded_here(monkeypatch, tmp_path, call):
    _kill_children(monkeypatch, tmp_path)
    with pytest.raises(UnsupportedModelError, match=r"signal 11.*it was not loaded here"):
        call(_lightgbm_file(), _rows(), _rows())


def _saved(folder, kind):
    """A folder as anybody may send it, and the class that reads it."""
    X, contents = np.random.default_rng(0).normal(size=(900, 4)), _lightgbm_file()
    if kind == "pruned":
        prune_booster(contents, X[:300], X[300:600], alpha=0.2).save(folder, report=False)
        return pine_boost.PruneResult, X
    pine_boost.compress_booster(contents, X[:300], X[300:], fidelity=0.9).save(folder)
    return pine_boost.CompressResult, X


@pytest.mark.posix
@pytest.mark.parametrize("use", ["evaluate", "speedup", "report"])
@pytest.mark.parametrize("kind", ["pruned", "compressed"])
@pytest.mark.parametrize("damaged", ["original", "smaller"])
def test_models_of_a_folder_are_not_loaded_here_first(monkeypatch, tmp_path, few_synthetic_rows, kind, use, damaged):
    reader, X = _saved(tmp_path / "folder", kind)
    loaded = reader.load(tmp_path / "folder", original=_lightgbm_file())
    smaller = loaded.pruned if kind == "pruned" else loaded.compressed
    monkeypatch.setattr(PASSED, set())  # as in another process
    if damaged == "smaller":
        try_in_child(loaded.original)
        assert smaller is not loaded.original
    _kill_children(monkeypatch, tmp_path)
    uses = {
        "evaluate": lambda: loaded.evaluate(X[600:]),
        "speedup": loaded.speedup,
        "report": lambda: (render_report if kind == "pruned" else render_compression)(loaded, X[600:]),
    }
    with pytest.raises(UnsupportedModelError, match=r"signal 11.*it was not loaded here"):
        uses[use]()


@pytest.mark.posix
def test_a_process_with_a_low_limit_of_its_own_does_not_blame_the_file():
    program = (
        "import resource, sys\n"
        "from pine_boost.native.child_process import try_in_child\n"
        "from pine_boost.parsers import read_model\n"
        "model = read_model(sys.stdin.buffer.read())\n"
        "import xgboost\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))\n"
        "try_in_child(model)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=_multiclass_file(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_what_only_the_library_refuses_is_an_error_of_ours():
    # only LightGBM has the list of its objectives; what decides here is the caller's threshold
    contents = _lightgbm_file().replace(b"objective=binary sigmoid:1", b"objective=unheard_of")
    model = read_model(contents, threshold=0.0)
    with pytest.raises(UnsupportedModelError, match="lightgbm itself refuses"):
        load_native(model)
    with pytest.raises(PineBoostError, match="lightgbm itself refuses"):
        try_and_predict(model, _rows())
    with pytest.raises(UnsupportedModelError, match="lightgbm itself refuses"):
        read_and_try(contents, threshold=0.0)


def test_a_library_that_is_not_installed_is_said_before_any_work(monkeypatch):
    monkeypatch.setattr("pine_boost.native.predict.find_spec", lambda _: None)
    for module in ("compress", "surveying"):
        monkeypatch.setattr(f"pine_boost.{module}.find_path", None)
        monkeypatch.setattr(f"pine_boost.{module}.read_tables", None)
    monkeypatch.setattr("pine_boost.accelerate.find_exits", None)
    tables = _rows(), _rows()
    calls = (
        pine_boost.compress_booster,
        pine_boost.survey,
        functools.partial(pine_boost.accelerate_booster, fidelity=0.9),
    )
    for call in calls:
        with pytest.raises(MissingDependencyError, match="Predicting natively needs lightgbm; install it with: pip"):
            call(_lightgbm_file(), *tables)
    assert pine_boost.accelerate_booster(_lightgbm_file()).status == "CERTIFIED"  # needs no library


def test_a_library_that_is_not_installed_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "pine-boost\[lightgbm\]"'):
        try_and_predict(read_model(_lightgbm_file()), _rows())
