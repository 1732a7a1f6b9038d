"""Supported versions: the smoke run in virtual environments with old and new libraries.

``python -m tests.versions.matrix --venvs DIR`` makes one environment per row of ENVIRONMENTS,
installs pine_boost from this work tree, runs `smoke.py` in each and writes docs/versions.md. Needs
pip and its index; takes some minutes and 3 GB, so it is run by hand and not by the test suite.
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
    "oldest": ("3.10", (
        "xgboost==1.7.6", "lightgbm==4.0.0", "scikit-learn==1.5.2", "ortools==9.12.4544",
        "numpy==1.24.4", "scipy==1.10.1", "pandas==2.0.3",
    )),
    "middle": ("3.12", (
        "xgboost-cpu==2.1.4", "lightgbm==4.5.0", "scikit-learn==1.6.1", "ortools==9.14.6206",
        "numpy==1.26.4", "pandas<3",
    )),
    "newest": ("3.13", (
        "xgboost-cpu==3.2.0", "lightgbm==4.7.0", "scikit-learn==1.9.1", "ortools==9.15.6755",
        "pandas",
    )),
}  # fmt: skip


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
    smoke = shutil.copy(ROOT / "tests" / "versions" / "smoke.py", venv / "smoke.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    command = [str(python), str(smoke)]
    done = subprocess.run(command, cwd=venv, env=environment, capture_output=True, text=True)
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        reason = done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}"
        return {"versions": {}, "outcome": {"everything": {"failed": reason}}}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *arguments], check=True)


def table(results: dict[str, dict[str, Any]]) -> str:
    """The page docs/versions.md."""
    packages = sorted({package for r in results.values() for package in r["versions"]})
    kinds = list(dict.fromkeys(kind for r in results.values() for kind in r["outcome"]))
    lines = [
        "# Supported versions", "",
        f"Run on {date.today().isoformat()} with `python -m tests.versions.matrix`: every model "
        "kind is trained, pruned (alpha 0.3), compared natively on in-region rows without "
        "tolerance, saved, read back, and its certificate proved anew by `verify`, in virtual "
        "environments of their own.", "",
        "| | " + " | ".join(results) + " |", "|---|" + "---|" * len(results),
    ]  # fmt: skip
    for package in packages:
        cells = [r["versions"].get(package, "") for r in results.values()]
        lines.append(f"| {package} | " + " | ".join(cells) + " |")
    lines += ["", "Trees before and after, and the number of in-region rows compared:", ""]
    lines += ["| model | " + " | ".join(results) + " |", "|---|" + "---|" * len(results)]
    for kind in kinds:
        cells = [_cell(r["outcome"].get(kind)) for r in results.values()]
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(outcome: dict[str, Any] | None) -> str:
    if outcome is None:
        return "not installed"
    if "failed" in outcome:
        return f"**failed**: {outcome['failed']}".replace("|", "/").replace("\n", " ")
    return f"{outcome['trees']}, {outcome['rows']} rows"


def main() -> None:
    """Run all or some environments; write the page only when all were run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--venvs", type=Path, required=True, help="folder for the environments")
    parser.add_argument("--only", choices=ENVIRONMENTS, action="append")
    options = parser.parse_args()
    options.venvs.mkdir(parents=True, exist_ok=True)
    names = options.only or list(ENVIRONMENTS)
    results = {name: run_environment(name, options.venvs.resolve()) for name in names}
    page = table(results)
    print(page)
    if len(names) == len(ENVIRONMENTS):
        (ROOT / "docs" / "versions.md").write_text(page, encoding="utf-8")
    failed = [name for r in results.values() for name, o in r["outcome"].items() if "failed" in o]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
