"""The HTML pages: Jinja2 templates with autoescape, one style sheet for light, dark, phone and paper.

A page is one self-contained text without scripts and without anything to load.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from pine_boost.files import sealed_page
from pine_boost.model.digits import decimals_down

_BEGINNING = '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>'


def beginning_of(title: str) -> bytes:
    """The first bytes of every page with this title, by which an earlier page is recognised."""
    return (_BEGINNING + title).encode()


@cache
def style() -> str:
    """The style sheet."""
    return _templates()["style.css"]


def render(template: str, title: str, **values: Any) -> str:
    """A page from one of the templates; every value is escaped unless it is Markup.

    Its last line has the digest of its text, by which a page that nobody changed is known.
    """
    page = _environment().get_template(template)
    return sealed_page(page.render(beginning=Markup(_BEGINNING), title=title, style=Markup(style()), **values))


@cache
def _templates() -> dict[str, str]:
    return {
        entry.name: entry.read_text(encoding="utf-8") for entry in (files("pine_boost.report") / "templates").iterdir()
    }


@cache
def _environment() -> Environment:
    loader = DictLoader(_templates())
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    made.filters["bounds"] = lambda segments: [
        (s.name, s.n_rows, s.n_changed, decimals_down(s.bound)) for s in segments
    ]
    return made
