"""Proved in one environment, verified and loaded in another: without libraries, with older and with newer ones."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pine_boost import PruneResult, verify
from pine_boost.errors import UntestedVersionWarning
from pine_boost.parsers import traits
from tests.versions.relay import COMPRESSED, THRESHOLDS

for _library in ("xgboost", "lightgbm", "sklearn", "catboost"):
    pytest.importorskip(_library)

ROOT = Path(__file__).resolve().parents[2]
ALL = ("xgboost", "lightgbm", "sklearn", "catboost")
WITHOUT = (*((library,) for library in ALL), ALL)
# the oldest supported versions, and XGBoost 2.1 and 3.0, which read some files of later ones in another way
OLD = ("xgboost-cpu==2.1.4", "xgboost-cpu==3.0.5", "lightgbm==4.0.0", "scikit-learn==1.6.0", "catboost==1.2.8 six")


def run(legs, folder, *, library=None):
    """What the last leg of a relay answers; ``library`` is a requirement laid over this environment."""
    return run_all(legs.split(), folder, library)[-1]


def run_all(legs, folder, library=None):
    """The answers of all legs."""
    command = [sys.executable, "-m", "tests.versions.relay", str(folder), *legs]
    path = [str(ROOT)] if library is None else [str(overlay(library)), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "null"))]
    assert len(answers) == len(legs)
    return answers


def overlay(requirement):
    """A folder with one package of another version and what only it needs; kept, because it is downloaded."""
    cache = os.environ.get("PINE_BOOST_OLD_LIBS", Path.home() / ".cache" / "pine_boost" / "old-libs")
    folder = Path(cache) / requirement
    if not folder.exists():
        pip = [getattr(sys, "_base_executable", sys.executable), "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), *requirement.split()], check=True)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Model files of this environment's libraries, and results that were proved with all of them."""
    folder = tmp_path_factory.mktemp("relay")
    run("train prove", folder)
    assert len(list(folder.glob("proved/*/*"))) == 2 * len(THRESHOLDS)
    assert len(list(folder.glob("accelerated/*"))) == len(THRESHOLDS)
    assert len(list(folder.glob("compressed/*"))) == len(COMPRESSED)
    return folder


@pytest.fixture(scope="module")
def checks(trained):
    """What is said of these results without some libraries."""
    legs = ["check", *(f"check-{','.join(without)}" for without in WITHOUT)]
    return dict(zip(((), *WITHOUT), run_all(legs, trained), strict=True))


@pytest.fixture(scope="module")
def checked(checks):
    """What all libraries together say of these results."""
    return checks[()]


def assert_agree(found, *, without=()):
    """Every result agrees; what needs a library that is not there is refused because it is missing."""
    assert found
    for key, outcome in found.items():
        # scikit-learn's models are pickles, which nobody else reads; rows are counted again with the native library
        needed = key.startswith("sklearn") or key.endswith("compressed")
        if needed and key.startswith(without):
            remedy = (
                "needs sklearn" if key.startswith("sklearn") else f'pip install "pine-boost[{key.partition("-")[0]}]"'
            )
            assert outcome["error"].startswith("MissingDependencyError"), (key, outcome)
            assert remedy in outcome["error"], (key, outcome)
        else:
            assert outcome.get("agrees") is True, (key, outcome)


@pytest.mark.parametrize("without", WITHOUT)
def test_what_was_proved_with_a_library_is_verified_without(checks, checked, without):
    found = checks[without]
    assert_agree(found, without=without)
    assert found.keys() == checked.keys()
    # a scorer needs no library at all
    assert all(outcome.get("classes") == checked[key].get("classes") for key, outcome in found.items())


def test_what_was_proved_without_any_library_is_verified_with_all(trained, checked, tmp_path):
    for name in THRESHOLDS:
        for path in trained.glob(f"{name}.*"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    found = run(f"prove-{','.join(ALL)} check", tmp_path)
    assert_agree(found)
    # without a library the same pruned models come out as with it
    assert found.keys() == {
        f"{name} {made}" for name in THRESHOLDS if not name.startswith("sklearn") for made in ("file", "scorer")
    }
    assert found == {key: checked[key] for key in found}


def test_native_files_of_a_live_result_mean_what_its_model_says(trained, checked):
    """XGBoost's own save_model, result.save and the file result all give one margin, bit for bit."""
    for key, outcome in checked.items():
        margins = outcome.get("margins", {})
        if "native.json" in margins:
            assert margins["native.json"] == margins["model.json"], key
        if "native.json" in margins and key.startswith("xgboost"):
            name = key.partition(" ")[0]
            for path in ("live/model.json", "live/native.json", "file/model.json"):
                document = json.loads((trained / "proved" / name / path).read_text())
                text = document["learner"]["learner_model_param"]["base_score"]
                # XGBoost before 3.1 reads every vector as 0.5
                assert not text.startswith("[") or set(text.strip("[]").split(",")) == {"5E-1"}, (path, text)


def test_a_result_warns_once_of_a_version_that_was_not_tested(trained, monkeypatch):
    import xgboost

    folder, original = trained / "proved" / "xgboost-half" / "file", trained / "xgboost-half.json"
    made_with = PruneResult.load(folder).certificate.versions
    assert made_with["xgboost-cpu" if "xgboost-cpu" in made_with else "xgboost"] == xgboost.__version__
    monkeypatch.setattr(traits, "_warned", set())
    PruneResult.load(folder)  # a tested version: no warning, which would be an error here
    monkeypatch.setattr(xgboost, "__version__", "9.1.0")
    with pytest.warns(UntestedVersionWarning, match=r"XGBoost 9\.1\.0 .* tested with 1\.7 to 3\.4"):
        PruneResult.load(folder)
    verify(original, folder / "model.json", folder / "region.json", folder / "certificate.json")  # not twice
    monkeypatch.setattr(xgboost, "__version__", "9.2.0")
    with pytest.warns(UntestedVersionWarning, match=r"9\.2\.0"):
        verify(original, folder / "model.json", folder / "region.json", folder / "certificate.json")


@pytest.mark.slow
@pytest.mark.parametrize("library", OLD)
def test_results_travel_between_versions(trained, tmp_path, library):
    """Proved with the newest, checked with an older version, and the other way round."""
    prefix = {"xgboost-cpu": "xgboost", "lightgbm": "lightgbm", "scikit-learn": "sklearn"}
    prefix = prefix.get(library.partition("==")[0], "catboost")
    run("train prove", tmp_path, library=library)
    for folder in (trained, tmp_path):
        here, there = run("check", folder), run("check", folder, library=library)
        own = {key for key in here if key.startswith(prefix)}
        assert own
        if prefix != "sklearn":
            assert_agree(here)
            assert_agree(there)
            # native margins too, bit for bit
            assert here == there
            continue
        # scikit-learn does not promise that its pickles load elsewhere: they do and agree, or they are refused
        for key in own:
            for outcome in (here[key], there[key]):
                assert outcome.get("agrees") is True or "versions" in outcome["error"], (key, outcome)
