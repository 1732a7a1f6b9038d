"""How results are shown: as text, as HTML in notebooks, and an updating line of text in the output of a cell."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeVar

_Kind = TypeVar("_Kind", bound=type)
_NUMBER = ' style="text-align:right;white-space:nowrap"'
_TEXT = ' style="text-align:left"'


def displayed(kind: _Kind) -> _Kind:
    """Print a result as its ``summary()``; notebooks show its ``claim`` below, ``repr`` the first line.

    What the class defines itself stays.
    """
    defaults: dict[str, Callable[[Any], str]] = {
        "__str__": lambda result: str(result.summary()),
        "__repr__": lambda result: f"<{kind.__name__} {_first_line(result)}>",
        "_repr_html_": lambda result: text_html(str(result), getattr(result, "claim", "")),
    }
    for name, show in defaults.items():
        if name not in vars(kind):
            setattr(kind, name, show)
    return kind


def _first_line(result: Any) -> str:
    """The headline, where there is one: it measures nothing."""
    told = result.headline() if hasattr(result, "headline") else str(result)
    return str(told).splitlines()[0]


def aligned(figures: Sequence[tuple[str, str]]) -> str:
    """Names and figures as lines of text with the figures in one column."""
    width = max(len(name) for name, _ in figures)
    return "\n".join(f"{name:<{width}}  {figure}" for name, figure in figures)


def text_html(text: str, exact: str = "") -> str:
    """The lines of a summary as HTML: the first in bold, indented ones and those with a dash as a list.

    ``exact`` is a longer statement that is shown below on demand.
    """
    first, *others = text.splitlines() or [""]
    parts = [f"<p><b>{html.escape(first)}</b></p>"]
    for is_listed, lines in groupby(others, lambda line: line.startswith(("- ", "  "))):
        tag = "li" if is_listed else "p"
        items = "".join(f"<{tag}>{html.escape(line.lstrip('- ') if is_listed else line)}</{tag}>" for line in lines)
        parts.append(f"<ul>{items}</ul>" if is_listed else items)
    if exact and exact not in text:
        parts.append(f"<details><summary>The exact statement</summary><p>{html.escape(exact)}</p></details>")
    return f"<div>{''.join(parts)}</div>"


def table_html(header: Sequence[str], rows: Sequence[Sequence[Any]], below: str = "") -> str:
    """A table as HTML; everything but text with blanks is aligned to the right. Without a header, pairs."""
    lines = []
    if header:
        lines.append("".join(f"<th{_TEXT}>{html.escape(name)}</th>" for name in header))
    for row in rows:
        cells = [html.escape(str(cell)).replace("\n", "<br>") for cell in row]
        lines.append("".join(f"<td{_TEXT if ' ' in cell else _NUMBER}>{cell}</td>" for cell in cells))
    table = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>{table}</table>" + (f"<p>{html.escape(below)}</p>" if below else "")


def is_notebook() -> bool:
    """Whether this code runs in a cell of a notebook."""
    if "ipykernel" not in sys.modules or "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class CellLine:
    """One line in the output of a cell, which is replaced instead of followed by another; needs no widgets."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        """Show the text in place of what was shown before."""
        from IPython.display import display

        shown = {"text/plain": text}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython
        else:
            self._handle.update(shown, raw=True)
