"""The exported C file, compiled: every class is that of the native model."""

import subprocess

import numpy as np
import pytest

import pine_boost
from pine_boost.cli import main
from pine_boost.exporters.c_code import to_c
from pine_boost.kernels.library import find_compiler
from tests.support.hard_rows import hard_rows
from tests.support.native_models import MODELS, built
from tests.support.value_models import lgb, xgb

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
FLAGS = ["-std=c99", "-O1", "-ffp-contract=off", "-Wall", "-Werror", "-Wno-unused-function"]


def compiled_answers(parts, X, folder, extra=()):
    source = folder / "scorer.c"
    source.write_bytes(to_c(parts.flat, parts.native, parts.plan, parts.classes, "A claim.\n"))
    subprocess.run([find_compiler(), *FLAGS, *extra, "-o", folder / "scorer", source, "-lm"], check=True)
    rows = "\n".join(",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in X)
    (folder / "rows.csv").write_text("a,b,c,d\n" + rows + "\n")
    done = subprocess.run([folder / "scorer", folder / "rows.csv"], check=True, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize("name", MODELS)
def test_every_class_of_the_compiled_file(name, tmp_path):
    result = pine_boost.accelerate_booster(built(name)[0])
    forest = result.original.forest
    X = hard_rows(forest, 800)
    if not forest.accepts_missing:
        X = np.nan_to_num(X, nan=0.5)
    if result.scorer.parts.flat.refuses_infinite:
        X = np.clip(X, -1e30, 1e30)
    parts = result.scorer.parts
    expected = result.scorer._trees.classes(X)
    assert compiled_answers(parts, X, tmp_path) == [str(parts.classes[c]) for c in expected]


@pytest.mark.parametrize(
    "make", [lambda: xgb("reg:squarederror"), lambda: xgb("count:poisson"), lambda: lgb("poisson")]
)
def test_values(make, tmp_path):
    native = make()
    result = pine_boost.accelerate_booster(native)
    X = hard_rows(result.original.forest, 300, special=0)
    answers = [float(line) for line in compiled_answers(result.scorer.parts, X, tmp_path)]
    assert answers == result.scorer.predict(X).astype(float).tolist()


def test_labels_and_the_command(tmp_path, capsys):
    from sklearn.ensemble import RandomForestClassifier

    _, X = built("random forest")
    labels = np.where(X[:, 0] > 0, 'say "yes"', "né\\n?")
    native = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, labels)
    result = pine_boost.accelerate_booster(native)
    rows = np.nan_to_num(X[:50], nan=0.1)
    assert compiled_answers(result.scorer.parts, rows, tmp_path) == native.predict(rows).tolist()
    result.save(tmp_path / "folder")
    assert main(["export", str(tmp_path / "folder"), "--to", "c", "-o", str(tmp_path / "again.c")]) == 0
    assert (tmp_path / "again.c").read_bytes().count(b"pine_scorer = {") == 1
    capsys.readouterr()
    for target in ("onnx", "treelite", "sql"):  # none of them can stop early
        assert main(["export", str(tmp_path / "folder"), "--to", target, "-o", str(tmp_path / "other")]) == 1
        error = capsys.readouterr().err
        assert "has no early exit" in error
        assert "Export the model itself" in error
        assert "--to c" in error
        assert not (tmp_path / "other").exists()


def test_a_row_that_the_library_refuses_ends_the_program(tmp_path):
    result = pine_boost.accelerate_booster(built("gradient boosting")[0])
    with pytest.raises(subprocess.CalledProcessError):
        compiled_answers(result.scorer.parts, np.full((1, 4), np.nan), tmp_path)
