"""The exported C file, compiled: every class is that of the native model."""

import subprocess
from pathlib import Path

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
FLAGS = ["-std=c99", "-ffp-contract=off", "-Wall", "-Werror", "-Wno-unused-function"]


def compiled(parts, program, level="-O0"):
    """The program of a scorer, beside its source."""
    source = program.with_suffix(".c")
    source.write_bytes(to_c(parts.flat, parts.native, parts.plan, parts.classes, "A claim.\n"))
    subprocess.run([find_compiler(), *FLAGS, level, "-o", program, source, "-lm"], check=True)
    return program


def compiled_answers(parts, X, folder):
    rows = "\n".join(",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in X)
    (folder / "rows.csv").write_text("a,b,c,d\n" + rows + "\n")
    program = compiled(parts, folder / "scorer")
    done = subprocess.run([program, folder / "rows.csv"], check=True, capture_output=True, text=True)
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


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Compiled scorers of one and of two features, by their number."""
    from sklearn.ensemble import RandomForestClassifier

    folder, made = tmp_path_factory.mktemp("programs"), {}
    for n_features in (1, 2):
        X = np.random.default_rng(0).normal(size=(50, n_features))
        native = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, (X[:, 0] > 0).astype(int))
        made[n_features] = compiled(
            pine_boost.accelerate_booster(native).scorer.parts, folder / f"of_{n_features}", "-O1"
        )
    return made


READ = {
    "plain": (2, b"1,2\n-3,4", ["1", "0"]),
    "names": (2, b"a,b\n1,2\n", ["1"]),
    "names that begin like numbers": (2, b"inflation,2nd\n1,2\n", ["1"]),
    "quoted names that begin like numbers": (2, b'"2nd","inflation"\n1,2\n', ["1"]),
    "quoted names": (2, b'"a, b", c\r\n1,2\r\n', ["1"]),
    "byte order mark": (2, "1,2\n-3,4\n".encode("utf-8-sig"), ["1", "0"]),
    "byte order mark and names": (2, "a,b\n-3,4\n".encode("utf-8-sig"), ["0"]),
    "blank lines": (2, b"\n1,2\n\r\n \n-3,4\n\n", ["1", "0"]),
    "nothing": (2, b"", []),
    "missing": (1, b"x\nNA\n-1\nnan\n", None),
    "long lines": (2, b" " * 9000 + b"1," + b" " * 9000 + b"2\n", ["1"]),
}
REFUSED = {
    "UTF-16": (2, "1,2\n3,4\n".encode("utf-16")),
    "a NUL byte": (2, b"1,2\n\x003,4\n1,1\n"),
    "a NUL byte at the end of a line": (2, b"1,2\x00\n"),
    "too many numbers first": (2, b"1,2,3\n1,2\n"),
    "too few numbers first": (2, b"1\n1,2\n"),
    "a text among numbers first": (2, b"x,2\n1,2\n"),
    "a missing value beside a text first": (2, b"NA,x\n1,2\n"),
    "numbers in quotes first": (2, b'"1","2"\n'),
    "a number in quotes first": (1, b'"1"\n2\n'),
    "a number in quotes beside a text first": (2, b'"1","a"\n1,2\n'),
    "too many names": (2, b"a,b,c\n1,2\n"),
    "another separator": (2, b"1;2\n"),
    "another separator, one feature": (1, b"1;2\n"),
    "tabs": (2, b"1\t2\n"),
    "lines that end with carriage returns": (1, b"a\r1\r2\r"),
    "a name later": (2, b"1,2\na,b\n"),
    "a blank line that may be a missing value": (1, b"1\n\n2\n"),
    "a blank first line that may be a missing value": (1, b"\n2\n"),
}


@pytest.mark.parametrize("what", READ)
def test_every_row_of_a_file_gets_an_answer(what, programs):
    n_features, contents, expected = READ[what]
    done = subprocess.run([programs[n_features]], input=contents, capture_output=True, check=True)
    answers = done.stdout.decode().split()
    assert answers == expected or (expected is None and len(answers) == 3 and answers[1] == "0")


@pytest.mark.parametrize("what", REFUSED)
def test_no_row_of_a_file_is_left_out_in_silence(what, programs):
    n_features, contents = REFUSED[what]
    done = subprocess.run([programs[n_features]], input=contents, capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr


def test_reading_and_writing_that_fails_is_told(programs, tmp_path):
    done = subprocess.run(
        [programs[2], tmp_path], capture_output=True, check=False
    )  # a folder opens, but cannot be read
    assert done.returncode == 1
    full = Path("/dev/full")
    if full.exists():
        with full.open("wb") as output:
            done = subprocess.run([programs[2]], input=b"1,2\n", stdout=output, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 1
        assert b"cannot be written" in done.stderr
