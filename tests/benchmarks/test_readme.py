"""Tables and README from the results: what is committed agrees."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import data, pages, readme, runner, tables


def test_tables_from_the_results(results):
    assert tables.main(["--results", str(results)]) == 0
    text = (results / "TABLES.md").read_text()
    rows = runner.read_rows(results / "paper_l0.csv")
    rates = [float(r["pruning_rate"]) for r in rows if r["alpha"] == "0.2" and r["dataset"] == "Toy"]
    assert f"{np.mean(rates):.1f}±{np.std(rates):.1f}" in text
    assert "Not run yet: " in text


def test_a_page_is_written_between_its_markers_only(results, tmp_path):
    page = tmp_path / "README.md"
    start, end = readme.README.markers
    page.write_text(f"top\n{start}\nold\n{end}\nbottom\n")
    arguments = ["--root", str(tmp_path), "--results", str(results)]
    assert readme.main(arguments) == 0
    first = page.read_text()
    assert first.startswith("top\n")
    assert first.endswith("\nbottom\n")
    assert "old" not in first
    assert pages.between_markers(first, start, end)[1] == readme.README.text(results)
    assert readme.main(arguments) == 0
    assert page.read_text() == first
    page.write_text("no markers")
    with pytest.raises(SystemExit, match="benchmark table"):
        readme.main(arguments)


BLOCKS = [readme.README, *pages.DOCS]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}, {block.name}")
def test_committed_pages_agree_with_the_committed_results(block):
    text = (data.ROOT / block.page).read_text(encoding="utf-8")
    inside = pages.between_markers(text, *block.markers)[1]
    assert inside == block.text(runner.RESULTS), "run python -m benchmarks.readme"
