"""Count the code lines and modules of the package, room by room.

A code line holds code: docstrings, comments and blank lines do not count.

    python -m benchmarks.size            # this checkout
    python -m benchmarks.size --against 2a33374
    python -m benchmarks.size --kinds    # what the lines of the package are
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tokenize
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("pine_boost", "parsers", "tests", "benchmarks", "examples")
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> set[int]:
    """Numbers of the lines of a module that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines.difference_update(_span(first))
    return lines


def count_code_lines(source: str) -> int:
    """Lines of a module that hold code."""
    return len(code_lines(source))


def count_kinds(sources: Iterable[str]) -> dict[str, int]:
    """Code lines by what they are; a line that is of several kinds counts for the first of them."""
    counts = dict.fromkeys(("imports", "refusals", "signatures", "fields and constants", "statements"), 0)
    for source in sources:
        left = code_lines(source)
        tree = ast.parse(source)
        kinds: dict[str, set[int]] = {kind: set() for kind in counts}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                kinds["imports"].update(_span(node))
            elif isinstance(node, ast.Raise):
                kinds["refusals"].update(_span(node))
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                first = min(part.lineno for part in (node, *node.decorator_list))
                kinds["signatures"].update(range(first, node.body[0].lineno))
            if isinstance(node, (ast.Module, ast.ClassDef)):
                for part in node.body:
                    if isinstance(part, (ast.Assign, ast.AnnAssign)):
                        kinds["fields and constants"].update(_span(part))
        kinds["statements"] = set(left)
        for kind, lines in kinds.items():
            counts[kind] += len(left & lines)
            left -= lines
    return counts


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def count_rooms(commit: str | None = None) -> dict[str, tuple[int, int]]:
    """Map each room to its number of modules and of code lines, in this checkout or at a commit."""
    rooms: dict[str, tuple[int, int]] = {}
    for path, source in _sources(commit):
        modules, lines = rooms.get(_room(path), (0, 0))
        rooms[_room(path)] = (modules + 1, lines + count_code_lines(source))
    return rooms


def _sources(commit: str | None) -> Iterable[tuple[str, str]]:
    listing = ["ls-files"] if commit is None else ["ls-tree", "-r", "--name-only", commit]
    for path in _git(*listing, "--", *FOLDERS).splitlines():
        if path.endswith(".py"):
            yield path, (ROOT / path).read_text() if commit is None else _git("show", f"{commit}:{path}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _room(path: str) -> str:
    parts = Path(path).parts
    return "/".join(parts[:2]) if parts[0] == "pine_boost" and len(parts) > 2 else parts[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--against", metavar="COMMIT", help="show the counts of this commit beside; with --kinds, of it alone"
    )
    parser.add_argument("--kinds", action="store_true", help="show what the lines of the package are instead")
    given = parser.parse_args()
    against = given.against
    if given.kinds:
        product = [source for path, source in _sources(against) if path.startswith(("pine_boost/", "parsers/"))]
        for kind, lines in count_kinds(product).items():
            print(f"{kind:28} {lines:6} code lines")
        return
    now = count_rooms()
    before = count_rooms(against) if against else {}
    for room in sorted({*now, *before}):
        _show(room, now.get(room, (0, 0)), before.get(room, (0, 0)) if against else None)
    product = [room for room in {*now, *before} if room == "parsers" or room.startswith("pine_boost")]
    _show("package", _total(now, product), _total(before, product) if against else None)


def _total(rooms: dict[str, tuple[int, int]], names: list[str]) -> tuple[int, int]:
    counts = [rooms.get(name, (0, 0)) for name in names]
    return sum(modules for modules, _ in counts), sum(lines for _, lines in counts)


def _show(room: str, now: tuple[int, int], before: tuple[int, int] | None) -> None:
    text = f"{room:28} {now[0]:4} modules {now[1]:6} code lines"
    print(text if before is None else f"{text}   before: {before[0]:4} {before[1]:6}")


if __name__ == "__main__":
    main()
