"""Pages and pictures: they say what the numbers say, escaped, in colours readable in the dark, and end in time."""

import re
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingClassifier

from pine_boost import prune_booster
from pine_boost.budget import Budget
from pine_boost.report.charts import Frame, axis_label, draw_calibration, draw_history, draw_margins, round_ticks
from pine_boost.report.pages import beginning_of, render, style
from pine_boost.report.prune_report import gather, render_report
from pine_boost.result import Absent
from tests.support.native_models import cancer_boosting

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


@pytest.fixture(scope="module")
def result():
    model, X = cancer_boosting(6, 10)
    pruned = prune_booster(model, X[:250], X[250:450], alpha=0.3)
    assert pruned.certificate.grid >= 0
    return pruned, X[450:]


def test_columns_of_the_calibration_end_at_tau_and_count_every_row():
    scores = np.array([1.0, 1.0, 2.0, 3.0, 3.0, 3.0, 7.0, 9.0])
    picture = draw_calibration(scores, 3.0, 2, "nats")
    assert "tau = 3.00" in picture
    assert "+ 2 outside whatever their score" in picture
    inside, outside = picture.count('class="bar-in"'), picture.count('class="bar-out"')
    assert (inside, outside) == (3, 2)  # 1, 2 and 3 are in, 7 and 9 are not
    edges = [
        float(x) + float(w)
        for x, w in re.findall(r'class="bar-in" x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)"', picture)
    ]
    mark = float(re.findall(r'class="mark" x1="([0-9.]+)"', picture)[0])
    assert max(edges) <= mark
    assert draw_calibration(scores, None, 0, "nats") == ""


def test_rows_whose_class_changed_lie_across_the_decision():
    before, after = np.array([1.0, -2.0, 0.5]), np.array([0.5, -1.0, -0.25])
    picture = draw_margins(before, after, np.array([True, True, False]))
    assert picture.count("<circle") == 3
    assert picture.count('class="open changed"') == 1
    assert "0.5 before, -0.25 after" in picture


def test_margins_of_the_page_are_those_of_the_models(result):
    pruned, X = result
    before, after, inside = gather(pruned, X, Budget()).margins
    assert np.allclose(before, pruned.original.native.decision_function(X))
    assert np.allclose(after, pruned.model.decision_function(X))
    assert np.array_equal(inside, pruned.region.contains(X))
    crossed = (before > 0) != (after > 0)
    assert not (crossed & inside).any()


def test_margins_of_several_classes_are_leads_over_the_best_rival():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    model = GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0)
    pruned = prune_booster(model.fit(X[:70], y[:70]), X[:70], X[70:130], alpha=0.3)
    if pruned.certificate.grid < 0:
        pytest.fail("nothing was pruned; take another model")
    before, after, _ = gather(pruned, X[130:], Budget()).margins
    assert (before >= 0).all()
    changed = model.predict(X[130:]) != pruned.model.predict(X[130:])
    assert np.array_equal(after < 0, changed)


def test_the_history_is_a_stair_down_to_what_was_found():
    picture = draw_history([(0.2, 12), (0.5, 9), (2.0, 7)], 20, 6, "round")
    assert picture.count("<circle") == 3
    assert "7 rounds proved twice after 2.00 s" in picture
    assert draw_history([(0.2, 12)], 20, 6, "round") == ""


def test_what_is_proved_once_is_a_stair_of_its_own():
    picture = draw_history([(2.0, 7)], 20, 6, "round", once=[(0.2, 12), (0.5, 7)])
    assert "12 rounds proved once after 0.20 s" in picture
    assert "7 rounds proved twice after 2.00 s" in picture
    assert picture.count("<path") == 2


def test_every_colour_is_the_style_sheets_and_known_in_the_dark_and_on_paper(result):
    page = render_report(*result)
    pictures = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(pictures) == 3
    for picture in pictures:
        assert not re.search(r"#[0-9a-fA-F]{3,6}|rgb\(|style=", picture)
        for names in re.findall(r'class="([^"]+)"', picture):
            assert any(f"svg .{name} " in style() or name in ("tick", "axis") for name in names.split()), names
    variables = [set(re.findall(r"(--[a-z-]+):", part)) for part in style().split("@media")]
    assert variables[0] <= variables[1]  # dark
    assert variables[0] <= variables[-1]  # print


def test_scores_have_one_scale_and_a_unit(result):
    pruned, _ = result
    page = render_report(*result)
    tau = pruned.region.tau / pruned.region.score_tables.scale
    assert f"{tau:.4f} nats" in page
    assert f"tau = {tau:.2f}" in page
    assert f"<td>{pruned.region.tau}</td>" not in page


def test_a_report_ends_in_time_and_says_what_it_left_out(result):
    told = []
    budget = Budget.of(1e-9, callback=lambda step: told.append(step.phase))
    time.sleep(0.001)
    page = render_report(*result, (), budget)
    assert "Not measured: the time for the report was over." in page
    assert "Not searched for: the time for the report was over." in page
    assert told == ["report: coverage and margins", "report: fidelity"]
    measured = "seconds of this report: "
    assert re.findall(measured + "([a-z, ]+)", page) == ["coverage and margins", "fidelity"]
    full = render_report(*result, (), Budget())
    assert all(measured + part in full for part in ("sizes, work and speed", "inputs outside the region"))


def test_all_that_is_drawn_has_a_colour_and_the_exact_claim_is_printed(result):
    page = render_report(*result, (), Budget.of(1e-9))
    drawn = set(" ".join(re.findall(r'<(?:line|path|circle|rect)[^>]*class="([^"]+)"', page)).split())
    assert {"bar-in", "mark"} <= drawn
    assert all(f"svg .{kind} " in page for kind in drawn)
    assert "<details open><summary>The exact claim" in page  # closed ones are not printed


def test_a_model_that_stayed_says_why_its_speed_was_not_measured(result):
    pruned, X = result
    kept = prune_booster(pruned.original.native, X, X[:60] * 1.0001, alpha=0.3, time_limit=1e-9)
    assert kept.status == "NOT_CERTIFIED"
    page = render_report(kept, X)
    assert "Not measured: the model is the original, unchanged." in page
    assert "Little was removed: the time limit ran out" in page
    assert "compress_booster(" in page


def test_without_an_original_only_what_the_folder_knows_is_shown(result):
    pruned, X = result
    absent = Absent("A folder does not hold it.")
    bare = replace(pruned, original=absent, search=absent)
    page = render_report(bare, X)
    assert page.count("<svg") == 1
    assert "Not measured: the original is not available." in page


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 7.9), (0, 1e-6), (5, 5)])
def test_ticks_are_round_and_within(low, high):
    ticks = round_ticks(low, high)
    assert "-0" not in [f"{tick:g}" for tick in ticks]
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)
    assert len(ticks) <= 12


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


def _luminance(colour):
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("screen", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "behind"), PAIRS, ids=str)
def test_text_and_links_have_contrast(screen, text, behind):
    part = style().split("@media")[screen]
    colours = dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{3,6})", part))
    light, dark = sorted((_luminance(colours[text]), _luminance(colours[behind])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5
    assert "a { color:var(--accent) }" in style()


def test_nothing_is_wider_than_a_phone():
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


def test_a_page_escapes_what_it_is_given_and_begins_with_its_title():
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
def test_a_zero_on_an_axis_has_no_sign(value, shown, label):
    assert axis_label(value, shown) == label
    frame = Frame("t", (-1, 1), (-1, 1), "x", "y")
    frame.grid([value], shown)
    frame.ticks([value], shown)
    assert f">{label}<" in frame.text()
    assert ">-0<" not in frame.text()
