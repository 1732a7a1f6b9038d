"""Docstrings of the public API: numpydoc sections are there and their examples run."""

import dataclasses
import doctest
import importlib
import inspect
import os
import re
import shlex
from pathlib import Path

import pytest

import pine_boost

for library in ("xgboost", "lightgbm", "sklearn", "treelite"):
    pytest.importorskip(library)

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    "pine_boost." + ".".join(path.relative_to(ROOT / "pine_boost").with_suffix("").parts)
    for path in (ROOT / "pine_boost").rglob("*.py")
    if path.name != "__init__.py"
) + sorted(f"pine_boost.parsers.{path.stem}" for path in (ROOT / "parsers").glob("*.py") if path.name != "__init__.py")
WITH_EXAMPLES = [name for name in MODULES if ">>> " in (inspect.getsource(importlib.import_module(name)))]
ENTRANCES = [
    "pine_boost.region.fitting.fit_region",
    "pine_boost.parsers.read_model",
    "pine_boost.parsers.xgboost.read.read_xgboost",
    "pine_boost.parsers.lightgbm.read.read_lightgbm",
    "pine_boost.parsers.sklearn.read.read_sklearn",
    "pine_boost.exporters.treelite.to_treelite",
]
FUNCTIONS = [
    f"pine_boost.{name}" for name in pine_boost.__all__ if inspect.isfunction(getattr(pine_boost, name))
] + ENTRANCES


def lookup(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    outcome = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_follow_numpydoc(name):
    function = lookup(name)
    text = inspect.getdoc(function) or ""
    for section in ("Parameters", "Returns", "Raises"):
        assert re.search(rf"^{section}\n-+$", text, re.MULTILINE), f"{name} lacks {section}"
    parameters = text.partition("Parameters\n")[2].partition("Returns\n")[0]
    headings = " ".join(re.findall(r"^\S.*$", parameters, re.MULTILINE))
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"\b{parameter}\b", headings), f"{name} does not document {parameter}"


def test_the_main_entrances_have_a_runnable_example():
    for name in ("pine_boost.prune_booster", *ENTRANCES[2:6]):
        assert ">>> " in (inspect.getdoc(lookup(name)) or ""), name


@pytest.mark.parametrize("name", pine_boost.__all__)
def test_every_public_name_resolves_and_is_documented(name):
    public = getattr(pine_boost, name)
    if name.startswith("__"):
        return
    text = inspect.getdoc(public) or ""
    assert len(text) > 20, name
    if dataclasses.is_dataclass(public):
        assert not text.startswith(f"{name}("), f"{name} only has the docstring dataclass makes"


@pytest.mark.parametrize("name", MODULES)
def test_modules_say_what_they_do(name):
    text = inspect.getdoc(importlib.import_module(name)) or ""
    assert len(text.split()) >= 3, f"{name}: one or two lines that say what it does"


def test_every_public_name_is_on_the_api_page_with_a_reason():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    table = page.partition("| name | reason |\n")[2].partition("\n\n")[0]
    explained = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    public = [name for name in pine_boost.__all__ if not name.startswith("__")]
    assert sorted(explained) == sorted(public)
    for name in public:
        assert re.search(rf"\bpine_boost\.(\w+\.)*{name}\b", page), f"{name} is not in api.md"


def test_every_shell_line_with_our_command_is_understood():
    from pine_boost.cli import COMMANDS, build_parser

    shown = set()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S):
            for line in re.findall(r"^pine-boost (.*)$", block, re.M):
                parsed = build_parser().parse_args(shlex.split(line, comments=True))
                shown.add(parsed.command)
    assert shown == set(COMMANDS)


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://", "mailto:")):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
