"""The page engine: escaped, self-contained, readable in the dark and at phone width."""

from __future__ import annotations

import re

import pytest

from pine_boost.report.charts import Frame, axis_label
from pine_boost.report.pages import beginning_of, render, style

# text on what lies behind it; links have the colour of the accent
PAIRS = (
    ("ink", "ground"),
    ("ink", "card"),
    ("soft", "ground"),
    ("soft", "card"),
    ("accent", "ground"),
    ("accent", "card"),
    ("accent", "pale"),
    ("warn", "warn-pale"),
)


def _luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("screen", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "behind"), PAIRS, ids=str)
def test_text_and_links_have_contrast(screen: int, text: str, behind: str) -> None:
    part = style().split("@media")[screen]
    colours = dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{3,6})", part))
    light, dark = sorted((_luminance(colours[text]), _luminance(colours[behind])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5
    assert "a { color:var(--accent) }" in style()


def test_nothing_is_wider_than_a_phone() -> None:
    widths = [int(width) for width in re.findall(r"(?<!max-)(?:min-)?width:\s*(\d+)px", style())]
    assert max(map(int, re.findall(r"minmax\((\d+)px", style())), default=0) <= 300
    assert max(widths, default=0) <= 300
    assert "nowrap" not in style()
    assert "(max-width: 480px)" in style()
    page = render(
        "fleet.html", "Fleet: 1", rows=[], failed=[("a", "b" * 500)], good=(), n_good=0, shrunk="", what="", version="1"
    )
    assert page.count("<table>") == page.count('<div class="scroll"><table>')
    assert 'name="viewport" content="width=device-width, initial-scale=1"' in page


def test_a_page_escapes_what_it_is_given_and_begins_with_its_title() -> None:
    rows = [
        {"name": "<b>", "status": "FAILED", "leaves_after": None, "trees_after": None, "seconds": 1, "done_before": 0}
    ]
    values = {"failed": [("<b>", "'\"&")], "good": (), "n_good": 0, "shrunk": "", "what": "<i>", "version": "1"}
    page = render("fleet.html", "Fleet: <1>", rows=rows, **values)
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;" in page
    assert page.encode().startswith(beginning_of("Fleet: "))
    assert page.rstrip().endswith("</html>")
    assert not re.search(r"https?:|url\(|@import|<script", page)


@pytest.mark.parametrize(
    ("value", "shown", "label"),
    [
        (-0.0, "{:g}", "0"),
        (-0.001, "{:.0%}", "0%"),
        (-0.04, "{:.1f}", "0.0"),
        (-0.5, "{:g}", "-0.5"),
        (-10, "{:g}", "-10"),
    ],
)
def test_a_zero_on_an_axis_has_no_sign(value: float, shown: str, label: str) -> None:
    assert axis_label(value, shown) == label
    frame = Frame("t", (-1, 1), (-1, 1), "x", "y")
    frame.grid([value], shown)
    frame.ticks([value], shown)
    assert f">{label}<" in frame.text()
    assert ">-0<" not in frame.text()
