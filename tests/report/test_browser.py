"""Pages in a real headless browser: no overflow at three widths, contrast in light and dark, whole numbers."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from pine_boost import RegionMonitor, accelerate_booster, compare_models, compress_booster, prune_booster
from pine_boost.cli import main
from pine_boost.monitoring.page import write_page
from pine_boost.report.compression_report import render_compression
from pine_boost.report.pages import render
from pine_boost.report.prune_report import render_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (390, 800, 1200)
SCRIPT = """
function parts(colour) { return colour.match(/[\\d.]+/g).map(Number); }
function luminance(c) {
  const l = c.slice(0, 3).map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2];
}
function behind(element, view) {
  for (let e = element; e; e = e.parentElement) {
    const c = parts(view.getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
}
window.onload = () => {
  const found = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, view = frame.contentWindow;
    let least = 21, words = "", broken = [];
    let drawn = 0;
    for (const e of page.querySelectorAll("p,h1,h2,li,td,th,a,span,summary,strong,.label,.number,svg text")) {
      const text = e.textContent.trim(), style = view.getComputedStyle(e), inChart = e.tagName === "text";
      if (!text || (!inChart && !e.innerText)) continue;
      const pair = [parts(inChart ? style.fill : style.color), behind(e, view)].map(luminance).sort((a, b) => b - a);
      const ratio = (pair[0] + 0.05) / (pair[1] + 0.05) * style.opacity;
      if (ratio < least) { least = ratio; words = text.slice(0, 40); }
      drawn += inChart;
    }
    for (const e of page.querySelectorAll("td")) {
      const node = e.firstChild;
      if (node && node.nodeType === 3 && /^[\\d.,%]+$/.test(node.data.trim())) {
        const range = page.createRange(); range.selectNodeContents(node);
        if (range.getClientRects().length > 1) broken.push(node.data);
      }
    }
    const outside = [...page.querySelectorAll(".card")].filter(e => e.scrollWidth > e.clientWidth + 1).length;
    found.push({width: frame.width, over: page.documentElement.scrollWidth - view.innerWidth, least, words, broken,
      outside, drawn, dark: view.matchMedia("(prefers-color-scheme: dark)").matches});
  }
  document.body.innerText = "@@" + JSON.stringify(found) + "@@";
};
"""


def measured(page, folder, dark):
    """What a browser measures in frames of three widths."""
    frames = "".join(f'<iframe width="{width}" height="900" srcdoc="{html.escape(page)}"></iframe>' for width in WIDTHS)
    path = folder / "frames.html"
    path.write_text(f"<!doctype html><html><body>{frames}<script>{SCRIPT}</script></body></html>", encoding="utf-8")
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    assert BROWSER is not None
    shown = subprocess.run(
        [BROWSER, *arguments, scheme, f"--user-data-dir={folder / 'profile'}", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    (text,) = re.findall(r"@@(.*)@@", html.unescape(shown), re.DOTALL)
    found = json.loads(text)
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(1200, 3))
    model = GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0)
    y = X[:, 0] + X[:, 1] > 0
    model.fit(X[:400], y[:400])
    pruned = prune_booster(model, X[:400], X[400:], alpha=0.1, time_limit=10)
    compressed = compress_booster(model, X[:400], X[400:], fidelity=0.98, time_limit=10)
    folder = tmp_path_factory.mktemp("pages")
    accelerated = accelerate_booster(model, X[:400], X[400:], fidelity=0.98, time_limit=10).save(folder / "scorer")
    assert main(["report", str(accelerated)]) == 0
    compared = compare_models(model, pruned.model, X[400:], y[400:], segments=np.where(X[400:, 2] > 0, "up", "down"))
    monitor = RegionMonitor(pruned.region)
    for start in range(400, 1200, 100):
        monitor.update(X[start : start + 100] + (start > 800), name=f"batch {start}")
    job = {
        **{"name": "a-rather-long-name-of-a-model", "status": "CERTIFIED", "seconds": 12.3, "done_before": 1},
        **{"trees_before": 1000, "trees_after": 100, "leaves_before": 1234567, "leaves_after": 234567},
    }
    values = {"failed": [("b", "c" * 300)], "good": ("CERTIFIED",), "n_good": 1, "shrunk": "", "what": ""}
    return {
        "prune": render_report(pruned, X[400:]),
        "compression": render_compression(compressed, X[400:]),
        "acceleration": (accelerated / "report.html").read_text(encoding="utf-8"),
        "comparison": compared.write_report(folder / "comparison.html").read_text(encoding="utf-8"),
        "monitor": write_page(monitor),
        "fleet": render("fleet.html", "Fleet: 1", rows=[job], version="1", **values),
    }


@pytest.mark.slow
@pytest.mark.skipif(
    BROWSER is None, reason="no browser is installed (chromium or google-chrome), so no page was looked at"
)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["prune", "compression", "acceleration", "comparison", "monitor", "fleet"])
def test_pages_are_readable_at_every_width(pages, name, dark, tmp_path):
    found = measured(pages[name], tmp_path, dark)
    assert [int(frame["width"]) for frame in found] == list(WIDTHS)
    for frame in found:
        assert frame["dark"] == dark
        assert frame["over"] <= 0, frame
        assert frame["least"] >= 4.5, frame
        assert frame["broken"] == [], frame
        assert frame["outside"] == 0, frame
        assert (frame["drawn"] > 0) == (name in ("prune", "compression", "monitor")), frame
