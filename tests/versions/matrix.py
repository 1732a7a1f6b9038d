"""Supported versions: the smoke run in virtual environments with old and new libraries.

``python -m tests.versions.matrix --venvs DIR`` makes one environment per row of ENVIRONMENTS and
OVERLAYS, installs pine_boost from this work tree, runs `smoke.py` in each and writes
docs/versions.md. Needs pip and its index; takes half an hour and 4 GB, so it is run by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# name: (Python, requirements); the oldest row holds the lower bounds that setup.cfg declares
ENVIRONMENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "oldest": (
        "3.10",
        (
            "xgboost==1.7.6",
            "lightgbm==4.0.0",
            "scikit-learn==1.6.0",
            "ortools==9.12.4544",
            "numpy==1.24.4",
            "scipy==1.10.1",
            "pandas==2.0.3",
        ),
    ),
    "middle": (
        "3.12",
        (
            "xgboost-cpu==2.1.4",
            "lightgbm==4.5.0",
            "scikit-learn==1.6.1",
            "ortools==9.14.6206",
            "numpy==1.26.4",
            "pandas<3",
        ),
    ),
    "newest": (
        "3.13",
        ("xgboost-cpu==3.2.0", "lightgbm==4.7.0", "scikit-learn==1.9.1", "ortools==9.15.6755", "pandas"),
    ),
}

# one library at a time, laid over the newest environment
OVERLAYS = (
    "xgboost==1.7.6",
    "xgboost-cpu==2.1.4",
    "xgboost-cpu==3.0.5",
    "xgboost-cpu==3.1.3",
    "lightgbm==4.0.0",
    "scikit-learn==1.6.0",
    "ortools==9.12.4544",
)
NAMES = (*ENVIRONMENTS, *OVERLAYS)


def find_python(version: str) -> str:
    """An interpreter of this version: on the PATH, under pyenv, or else the running one."""
    found = shutil.which(f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    local = sorted(pyenv.glob(f"{version}.*/bin/python"))
    if local:
        return str(local[-1])
    if found:
        return found
    print(f"no Python {version} here; using {sys.version.partition(' ')[0]}", file=sys.stderr)
    return sys.executable


def run_environment(name: str, venvs: Path) -> dict[str, Any]:
    """Make (or reuse) an environment, run the smoke program, return what it printed."""
    overlay = "" if name in ENVIRONMENTS else str(make_overlay(name, venvs))
    venv = make_environment(name if name in ENVIRONMENTS else "newest", venvs)
    smoke = shutil.copy(ROOT / "tests" / "versions" / "smoke.py", venv / "smoke.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": overlay}
    command = [str(venv / "bin" / "python"), str(smoke)]
    done = subprocess.run(command, cwd=venv, env=environment, capture_output=True, text=True)
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        reason = done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}"
        return {"versions": {}, "outcome": {"everything": {"failed": reason}}}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def make_environment(name: str, venvs: Path) -> Path:
    """A virtual environment with pine_boost as it is in this work tree."""
    version, requirements = ENVIRONMENTS[name]
    venv = venvs / name
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([find_python(version), "-m", "venv", str(venv)], check=True)
        _pip(python, "--upgrade", "pip", "setuptools>=69", "wheel")
    _pip(python, *requirements)
    source = venv / "source"  # building in the work tree would leave files there
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    for part in ("pine_boost", "parsers", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, source / part)
    _pip(python, "--no-deps", "--force-reinstall", "--no-build-isolation", str(source))
    return venv


def make_overlay(requirement: str, venvs: Path) -> Path:
    """A folder with one package of another version, to stand first on the path."""
    folder = venvs / "overlays" / requirement
    if not folder.exists():
        python = make_environment("newest", venvs) / "bin" / "python"
        _pip(python, "--no-deps", "--target", str(folder), requirement)
    return folder


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *arguments], check=True)


def table(results: dict[str, dict[str, Any]]) -> str:
    """The page docs/versions.md."""
    together = {name: r for name, r in results.items() if name in ENVIRONMENTS}
    single = {name: r for name, r in results.items() if name not in ENVIRONMENTS}
    lines = [
        "# Supported versions",
        "",
        f"Run on {date.today().isoformat()} with `python -m tests.versions.matrix`: every model "
        "kind is trained, pruned (alpha 0.3), compared natively on in-region rows without "
        "tolerance, saved, read back, and its certificate proved again by `verify`, in virtual "
        "environments of their own. A cell gives the trees before and after, and the number of "
        "in-region rows compared.",
        "",
        "## Everything old, everything new",
        "",
        *_columns(together),
        "",
        "## One library at a time",
        "",
        "The named package over the newest environment. *Does not train*: the library's own "
        "wrapper does not work with the newest of its neighbours, so there is nothing to prune; "
        "see the oldest environment for it.",
        "",
        *_columns(single),
    ]
    return "\n".join([*lines, *_NOTES]) + "\n"


_NOTES = """
## What differs between versions

- LightGBM 4.0 leaves `leaf_count` of a one-leaf tree empty where later versions write a number. A
  pruned text that LightGBM 4.0 reads and writes again is therefore not the same bytes; leaves,
  thresholds and predictions are.
- XGBoost before 3.1 does not store the values of pandas categories: a model of 3.0 reads codes, so
  a table must have its categories in the order of training, natively and here.
- XGBoost before 3.1 refuses a `base_score` of exactly 0 or 1, which later versions clip: such a
  file is refused with XGBoost's own reason.
- XGBoost 3.0 writes vector leaves without `loss_changes` and `sum_hessian`; they are refused as
  vector leaves in every version.
- XGBoost 3.3 writes the weights of dropout (DART) beside the model and 3.4 inside it, where earlier
  versions silently ignore them: such a file is refused while an earlier version is installed. Models
  that pine_boost writes have the weights in their leaves, so all versions read them alike.
- From 3.3 on, `inplace_predict` (which wrappers use) sums dropout exactly as `Booster.predict`
  does: the rounding band of DART wrappers, needed before, is 0.
- XGBoost 3.3 and later refuse `polars.Categorical` (use `polars.Enum`), and tables that declare a
  category which the model does not know, even if no row holds it; scorers still read such tables.
- LightGBM's 4.0 classifier does not train with scikit-learn 1.8 and later; boosters and texts do.
""".rstrip().split("\n")


def _columns(results: dict[str, dict[str, Any]]) -> list[str]:
    packages = list(dict.fromkeys(package for r in results.values() for package in r["versions"]))
    kinds = list(dict.fromkeys(kind for r in results.values() for kind in r["outcome"]))
    lines = ["| | " + " | ".join(results) + " |", "|---|" + "---|" * len(results)]
    for package in packages:
        cells = [r["versions"].get(package, "") for r in results.values()]
        lines.append(f"| {package} | " + " | ".join(cells) + " |")
    for kind in kinds:
        cells = [_cell(r["outcome"].get(kind)) for r in results.values()]
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return lines


def _cell(outcome: dict[str, Any] | None) -> str:
    if outcome is None:
        return "not installed"
    if "untrainable" in outcome:
        return "does not train"
    if "failed" in outcome:
        return f"**failed**: {outcome['failed']}".replace("|", "/").replace("\n", " ")
    return f"{outcome['trees']}, {outcome['rows']} rows"


def main() -> None:
    """Run all or some environments; write the page only when all were run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--venvs", type=Path, required=True, help="folder for the environments")
    parser.add_argument("--only", choices=NAMES, action="append")
    options = parser.parse_args()
    options.venvs.mkdir(parents=True, exist_ok=True)
    names = options.only or list(NAMES)
    results = {name: run_environment(name, options.venvs.resolve()) for name in names}
    page = table(results)
    print(page)
    if len(names) == len(NAMES):
        (ROOT / "docs" / "versions.md").write_text(page, encoding="utf-8")
    failed = [name for r in results.values() for name, o in r["outcome"].items() if "failed" in o]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
