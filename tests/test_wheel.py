"""The wheel alone, in an empty environment: imports and parses with numpy, scipy and ortools."""

import configparser
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import lightgbm
import numpy as np
import pytest
import xgboost

import pine_boost

ROOT = Path(__file__).resolve().parent.parent

PARSE = """
import importlib.util, sys
import pine_boost
from pine_boost.parsers import read_model
from pine_boost.exporters import export
assert "site-packages" in pine_boost.__file__, pine_boost.__file__
for library in ("xgboost", "lightgbm", "sklearn", "treelite"):  # ortools itself brings pandas
    assert importlib.util.find_spec(library) is None, library
for path in sys.argv[1:]:
    print(read_model(path).forest.n_trees)
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the sources as a clone has them: setuptools writes build/ and egg-info there."""
    source = tmp_path_factory.mktemp("clone") / "source"
    tracked = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    for name in filter(None, tracked):
        if (ROOT / name).is_symlink() or (ROOT / name).is_file():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target, follow_symlinks=False)
    return source


@pytest.fixture(scope="module")
def clone_without_links(clone, tmp_path_factory):
    """The clone as git writes it on Windows: a link is a text file that names its target."""
    copied = tmp_path_factory.mktemp("windows") / "source"
    shutil.copytree(clone, copied, symlinks=True)
    link = copied / "pine_boost" / "parsers"
    target = os.readlink(link)
    link.unlink()
    link.write_text(target)
    return copied


@pytest.fixture(scope="module")
def wheel(clone_without_links, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", folder, clone_without_links], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_one_top_level_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"pine_boost"}
    assert "pine_boost/parsers/xgboost/read.py" in names
    assert "pine_boost/exporters/xgboost.py" in names
    assert "pine_boost/py.typed" in names
    templates = {path.name for path in (ROOT / "pine_boost/report/templates").iterdir()}
    assert {f"pine_boost/report/templates/{name}" for name in templates} <= set(names)


def test_the_extras_compose_and_the_tools_are_pinned():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    options = config["options.extras_require"]
    extras = {name: [line for line in options[name].splitlines() if line and line[0] != "#"] for name in options}
    users = set(extras) - {"all", "others", "demo", "test", "docs", "release"}
    named = {
        name: set(extras[name][0].removeprefix("pine-boost[").rstrip("]").split(","))
        for name in ("all", "others", "demo", "test")
    }
    assert named["others"] == users - {"xgboost"}
    assert named["all"] == {"xgboost", "others"}
    assert named["demo"] == {"sklearn"}
    assert named["test"] == {"demo", "others"}  # with xgboost-cpu
    pinned = {line.partition("==")[0]: line for line in extras["test"] if "==" in line}
    assert set(pinned) >= {"ruff", "mypy", "import-linter", "pytest", "hypothesis", "build"}
    for name in ("docs", "release"):
        # a range stands only where the pinned version needs Python 3.11
        assert all("==" in line or line.endswith('python_version < "3.11"') for line in extras[name])
    assert f"[{pinned['ruff']}]" in (ROOT / ".pre-commit-config.yaml").read_text()


def test_the_wheel_holds_every_package_of_the_sources(wheel, clone):
    """Also where git makes no links and pine_boost/parsers is a text file; no __init__.py, not installed."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if name.endswith(".py")}
    own = {path.relative_to(clone).as_posix() for path in (clone / "pine_boost").glob("**/*.py")}
    own = {name for name in own if not name.startswith("pine_boost/parsers/")}
    parsers = {f"pine_boost/{path.relative_to(clone).as_posix()}" for path in (clone / "parsers").glob("**/*.py")}
    assert own | parsers == found


def test_the_clone_imports_whole_beside_an_installed_wheel(clone, wheel, tmp_path):
    """From the clone's root Python finds the folder pine_boost/ before the installed package."""
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", installed]
    subprocess.run([*pip, wheel], check=True, capture_output=True)
    program = (
        "import pine_boost, pine_boost.parsers, pine_boost.parsers.xgboost.read\n"
        "print(pine_boost.__file__, pine_boost.parsers.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    for folder, home in ((clone, clone), (tmp_path, installed)):
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert all(Path(path).is_relative_to(home) for path in done.stdout.split())


def test_the_conda_recipe_follows_setup_cfg():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    needs = {line.replace("ortools", "ortools-python") for line in config["options"]["install_requires"].split()}
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0].splitlines()
    assert {line.strip(" -").replace(" ", "") for line in run} == needs | {"python>=3.10"}
    assert f"version: {pine_boost.__version__}\n" in recipe
    assert config["metadata"]["description"] in recipe


@pytest.mark.slow
def test_the_wheel_parses_without_any_library(wheel, tmp_path):
    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 3))
    labels = (rows[:, 0] > 0).astype(int)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(rows, labels), 4)
    booster.save_model(tmp_path / "model.json")
    booster.save_model(tmp_path / "model.ubj")
    data = lightgbm.Dataset(rows, labels)
    light = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, data, 5)
    light.save_model(tmp_path / "model.txt")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    files = [tmp_path / name for name in ("model.json", "model.ubj", "model.txt")]
    done = subprocess.run([python, "-c", PARSE, *files], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["4", "4", "5"]


def test_the_kernel_is_in_the_wheel_and_the_wheel_is_for_every_python(wheel):
    """One wheel per platform: the compiled kernel has no Python headers. Pure without a compiler."""
    from pine_boost.kernels import library

    names = zipfile.ZipFile(wheel).namelist()
    data = {"kernels/trees.c", "exporters/main.c", "option_texts.txt", "planted_model.json", "cli/arguments.txt"}
    assert {f"pine_boost/{name}" for name in data} <= set(names)
    compiled = f"pine_boost/kernels/{library.file_name()}" in names
    assert compiled == (library.find_compiler() is not None)
    assert wheel.name.endswith("-py3-none-any.whl") != compiled
    assert "-py3-none-" in wheel.name
