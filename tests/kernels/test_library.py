"""Where the kernel comes from: compiled, cached, sanitised, or numpy where there is no compiler."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pine_boost
from pine_boost.kernels import library

ROOT = Path(__file__).resolve().parents[2]
SCORE = """
import sys
import numpy as np, pine_boost
from pine_boost import kernels
scorer = pine_boost.load_scorer(sys.argv[1])
with np.load(sys.argv[1] + ".npz") as native:
    X, classes, probabilities = native["X"], native["classes"], native["probabilities"]
assert (scorer.predict(X) == classes).all()
assert scorer.predict(X[:1])[0] == classes[0]
assert (scorer.predict_proba(X) == probabilities).all()
print(kernels.name())
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Score in a process; what scikit-learn predicts lies beside the scorer, so that it need not be loaded there."""
    from sklearn import ensemble

    X = np.random.default_rng(0).normal(size=(300, 3))
    model = ensemble.GradientBoostingClassifier(n_estimators=8, random_state=0).fit(X, X[:, 0] > X[:, 1])
    folder = str(tmp_path_factory.mktemp("kernels") / "scorer")
    pine_boost.accelerate_booster(model).save(folder)
    np.savez(f"{folder}.npz", X=X, classes=model.predict(X), probabilities=model.predict_proba(X))

    def kernel_used(**environment):
        env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        command = [sys.executable, "-c", SCORE, folder]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.strip()

    return kernel_used


def test_without_a_compiler_numpy_scores(run, tmp_path):
    """Nothing on the PATH and an empty cache: the twin answers, with the same classes."""
    assert run(PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"), CC="") == "numpy"


def test_numpy_can_be_chosen(run):
    assert run(PINE_BOOST_KERNEL="numpy") == "numpy"


@pytest.mark.skipif(library.find_compiler() is None, reason="no C compiler")
class TestCompiled:
    """Only where there is a compiler."""

    def test_the_first_use_compiles_into_the_cache(self, run, tmp_path):
        cache = tmp_path / "cache"
        assert run(XDG_CACHE_HOME=str(cache)) == "C"
        assert [path.name for path in cache.rglob("*") if path.is_file()] == [library.file_name()]
        # a second process finds it without a compiler
        assert run(XDG_CACHE_HOME=str(cache), PATH=str(tmp_path), CC="") == "C"

    def test_a_damaged_file_in_the_cache_is_replaced(self, run, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        place = library.cache_folder()
        place.mkdir(parents=True)
        (place / library.file_name()).write_bytes(b"no library")
        assert run(XDG_CACHE_HOME=str(tmp_path)) == "C"

    def test_a_read_only_home_still_compiles(self, run, tmp_path):
        (tmp_path / "file").write_text("")
        assert run(XDG_CACHE_HOME=str(tmp_path / "file")) == "C"

    def test_the_source_is_plain_c99_without_warnings(self, tmp_path):
        compiler = library.find_compiler()
        flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", "-fsyntax-only"]
        subprocess.run([compiler, *flags, str(library.SOURCE)], check=True)

    @pytest.mark.slow
    def test_sanitisers_find_nothing(self, tmp_path):
        """The tests of leaves, exits and the twin once more, with address and undefined checks."""
        gcc = shutil.which("gcc")
        if gcc is None:
            pytest.skip("the preloaded sanitiser is gcc's")
        target = tmp_path / "sanitised.so"
        flags = (*library.FLAGS, "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
        assert library.compile_to(target, flags)
        found = subprocess.run([gcc, "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
        env = {**os.environ, "PINE_BOOST_KERNEL": str(target), "LD_PRELOAD": found.stdout.strip()}
        env |= {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(ROOT)}
        tests = ["tests/kernels/test_twin.py", "tests/kernels/test_leaves.py"]
        membership = ("test_pair_tables_of_every_size", "test_sums_over_trees_are_those_of_the_walk")
        tests += [f"tests/region/test_fast_membership.py::{name}" for name in membership]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@pytest.mark.parametrize(("kind", "first"), [("scorer_t", "n_features"), ("region_t", "n_terms")])
def test_the_struct_of_the_kernel_is_that_of_the_source(kind, first):
    """Every field, in its order: a shifted pointer would read anywhere."""
    import re

    source = library.SOURCE.read_text()
    body = source[source.index(f"typedef struct {{\n    int64_t {first}") : source.index(f"}} {kind};")]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    names = []
    for statement in body.partition("{")[2].split(";"):
        words = re.sub(r"\b(const|u?int\d+_t|double|void|quick_t|brief_t|part_t)\b", "", statement)
        names += [name.strip(" *\n") for name in words.split(",") if name.strip(" *\n")]
    struct = {"scorer_t": library.ScorerStruct, "region_t": library.RegionStruct}[kind]
    assert names == [name for name, *_ in struct._fields_]
