"""The layout stays as docs/architecture.md says: which module may import which."""

import ast
import configparser
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# What `certificate/` may import: the kernel, the readers, and what these stand on.
VERIFY_RESTS_ON = {
    "kernels",
    "model",
    "region",
    "proof",
    "parsers",
    "certificate",
    "tables",
    "json_fields",
    "files",
    "options",
    "budget",
    "notebooks",
    "errors",
    "_version",
}
OLD_WORDS = re.compile(r"In comes?\b|\banew\b|DESIGN\b|\bfacts/")


def check_imports(folder):
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--config", str(ROOT / ".importlinter"), "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("proof/problem.py", "from pine_boost.search import algorithm", "trusted kernel"),
        ("proof/problem.py", "from scipy.optimize import linprog", "nothing of scipy"),
        ("proof/problem.py", "from pine_boost.progress import shown", "One direction"),
        ("certificate/verification.py", "from pine_boost import exporters", "kernel alone"),
        ("certificate/verification.py", "from pine_boost.compression import goal", "kernel alone"),
        ("certificate/verification.py", "from pine_boost.pipelines import scores", "kernel alone"),
        ("certificate/claims.py", "from pine_boost.result import PruneResult", "kernel alone"),
        ("verifying.py", "from pine_boost.search import algorithm", "nothing that searched"),
        ("search/search_result.py", "from pine_boost.certificate import claim", "no certificate"),
        ("proof/boxes/branch_and_bound.py", "from pine_boost.proof.cpsat import encoding", "no CP-SAT"),
        ("proof/boxes/branch_and_bound.py", "from ortools.sat.python import cp_model", "no CP-SAT"),
        ("proof/boxes/branch_and_bound.py", "import scipy.optimize", "nothing of scipy"),
        ("model/forest.py", "from pine_boost.region import region", "One direction"),
        ("result.py", "from pine_boost import build_result", "One direction"),
        ("forgotten.py", "from pine_boost import errors", "One direction"),
    ],
)
def test_a_forbidden_import_is_noticed(tmp_path, module, line, contract):
    shutil.copytree(ROOT / "pine_boost", tmp_path / "pine_boost")  # follows the link to parsers/
    changed = tmp_path / "pine_boost" / module
    before = changed.read_text() if changed.exists() else ""
    changed.write_text(f"{before}\n{line}\n")
    outcome = check_imports(tmp_path)
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    broken = [text for text in outcome.stdout.splitlines() if " BROKEN" in text]
    assert any(contract in text for text in broken), outcome.stdout


def test_the_arrows_of_the_data_point_one_way():
    outcome = check_imports(ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_verification_is_forbidden_all_that_it_does_not_rest_on():
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    forbidden = contracts["importlinter:contract:verify"]["forbidden_modules"].split()
    rooms = {path.stem for path in (ROOT / "pine_boost").iterdir() if _is_imported(path)}
    assert {name.removeprefix("pine_boost.") for name in forbidden} == rooms - VERIFY_RESTS_ON


def test_proofs_solve_with_nothing_but_cp_sat():
    # import-linter knows the roots of other packages only; ortools has linear solvers too
    for path in sorted((ROOT / "pine_boost" / "proof").rglob("*.py")):
        names = [name for node in ast.walk(ast.parse(path.read_text())) for name in _imported(node)]
        solvers = {name for name in names if name.partition(".")[0] in ("ortools", "scipy")}
        assert solvers <= {"ortools.sat.python"}, path


def test_no_rows_are_compared_as_records():
    """In np.unique(axis=0) numpy turns Ctrl-C into a TypeError; `unique_rows` does not."""
    calls = (
        (path.name, node)
        for path in (ROOT / "pine_boost").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.unique"
    )
    assert [name for name, call in calls if any(keyword.arg == "axis" for keyword in call.keywords)] == []


def test_no_test_file_imports_another():
    for path in sorted((ROOT / "tests").glob("**/*.py")):
        for node in _nodes(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
                assert not node.module.rpartition(".")[2].startswith("test_"), path


def test_no_two_files_share_a_name_unless_they_are_the_same_part_of_sibling_folders():
    places = {}
    for name in _modules():
        folder, _, stem = name.removesuffix(".py").rpartition("/")
        # readers are the same part of every library, a command has the name of the call that it runs
        part = "parsers" if folder.startswith("parsers") else "" if folder == "cli" else folder
        places.setdefault(stem, set()).add(part)
    shared = {stem for stem, folders in places.items() if len(folders) > 1} - {"__init__"}
    assert not shared


def test_no_two_public_classes_share_a_name():
    seen = set()
    twice = set()
    for path in _modules().values():
        names = {n.name for n in _nodes(path) if isinstance(n, ast.ClassDef) and not n.name.startswith("_")}
        twice |= names & seen
        seen |= names
    assert not twice


def test_docstrings_are_in_plain_english_and_refer_to_nothing_outside_the_repository():
    benchmarks = {f"benchmarks/{path.name}": path for path in (ROOT / "benchmarks").glob("*.py")}
    for name, path in (_modules() | benchmarks).items():
        for node in _nodes(path):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                found = OLD_WORDS.search(ast.get_docstring(node) or "")
                assert found is None, f"{name}: {found}"


def test_the_architecture_page_names_files_and_rooms_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    places = (ROOT / "pine_boost", ROOT)
    for name in re.findall(r"`([\w/.]+(?:\.py|\.md|/))`", page):
        assert any((place / name).exists() for place in places), name


def _modules():
    """Every module of the package by its path, those of the readers as parsers/..."""
    folders = {"": ROOT / "pine_boost", "parsers/": ROOT / "parsers"}
    found = {}
    for prefix, folder in folders.items():
        for path in folder.rglob("*.py"):
            name = prefix + path.relative_to(folder).as_posix()
            if prefix or not name.startswith("parsers/"):  # a link to the readers
                found[name] = path
    return found


def _is_imported(path):
    is_room = path.is_dir() and (path / "__init__.py").exists()
    return is_room or (path.suffix == ".py" and path.stem != "__init__")


def _imported(node):
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


@cache  # several tests look at every file
def _nodes(path):
    return list(ast.walk(ast.parse(path.read_text())))
