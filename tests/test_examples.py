"""Every example and every Python block of the README and of the docs runs as it stands."""

import json
import re
from pathlib import Path

import pytest

from tests.support.script_server import ScriptServer

for library in ("xgboost", "lightgbm", "sklearn", "treelite", "matplotlib", "pandas"):
    pytest.importorskip(library)

pytestmark = pytest.mark.posix  # scripts run in forks
ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
# what may differ on another machine: times, and among equally small models which one was found
VOLATILE = re.compile(
    r"each by .* moved by [\d.]+|Searched for \d+\.\d s|(?<=size|izes) in \d+\.\d s"
    r"|kernel: \w+; built and checked in [\d.]+ s|[\d.]+ ms a request"
    r"|Speed-up over the original, measured on this machine: .*"
)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    server = ScriptServer(tmp_path_factory.mktemp("server"))
    yield server
    server.close()


def test_there_is_an_example_for_every_use():
    assert {path.stem for path in EXAMPLES} == {
        "alpha_selection",
        "faithful",
        "fleet",
        "guarded_scorer",
        "lightgbm_multiclass",
        "monitor_drift",
        "pipeline",
        "score_bands",
        "sklearn_forest",
        "treelite_export",
        "two_moons",
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, scripts, tmp_path):
    printed = scripts.run(path, tmp_path)
    assert "NOT_CERTIFIED" not in printed
    if path.stem != "alpha_selection":
        assert "trees" in printed
    if path.stem == "two_moons":
        assert (tmp_path / "two-moons.png").read_bytes().startswith(b"\x89PNG")


def cells_of(path):
    """Code and printed text of the cells of a notebook."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    return [("".join(c["source"]), "".join("".join(o.get("text", "")) for o in c["outputs"])) for c in cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_was_committed(path, scripts, tmp_path):
    """In one process without a kernel, which would cost seconds; tests/test_notebooks.py has a kernel."""
    cells = cells_of(path)
    script = tmp_path / "notebook.py"
    script.write_text("\n".join(f"print('@@@')\n{code}" for code, _ in cells), encoding="utf-8")
    printed = scripts.run(script, tmp_path).split("@@@\n")[1:]
    assert any(shown for _, shown in cells)
    for (_, shown), found in zip(cells, printed, strict=True):
        assert VOLATILE.sub("", found).split() == VOLATILE.sub("", shown).split()


def test_there_is_a_notebook_for_every_way_in():
    assert {path.stem for path in NOTEBOOKS} == {"credit_scoring", "lightgbm_categories", "serving_fastapi"}


def blocks_of(page):
    return [(code, shown) for code, shown in BLOCK.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=lambda page: page.stem)
def test_python_blocks_of_a_page_run_and_print_what_is_shown(page, scripts, tmp_path):
    """The blocks of a page run in order in one process; ``text`` after a block is its output."""
    parts = []
    for number, (code, _) in enumerate(blocks_of(page)):
        parts.append(f"print('@@@ {number}')\n{code}")
    script = tmp_path / "page.py"
    script.write_text("\n".join(parts), encoding="utf-8")
    printed = re.split(r"^@@@ \d+\n", scripts.run(script, tmp_path), flags=re.MULTILINE)[1:]
    for (_, shown), found in zip(blocks_of(page), printed, strict=True):
        if shown:
            assert VOLATILE.sub("", found).split() == VOLATILE.sub("", shown).split()
