"""The figure people remember: every way measured at the same size, and drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import glance, glance_figure, readme, runner


def test_every_way_is_measured_at_the_leaves_of_the_proved_model(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glance, "ALPHAS", (0.2, 0.8))
    out = tmp_path / "glance.csv"
    options = ["--datasets", "Toy", "--data", folder, "--models", "30x2", "--jobs", "0"]
    assert glance.main([*options, "--time-limit", "600", "--out", str(out)]) == 0
    rows = runner.read_rows(out)
    methods = {"proved", "validated", "slicing", "retraining", *glance.BEST_RULES}
    assert {(row["size"], row["method"]) for row in rows} == {
        (size, method) for size in ("0.2", "0.8") for method in methods
    }
    for row in rows:
        (proved,) = [other for other in rows if other["size"] == row["size"] and other["method"] == "proved"]
        assert proved["status"] == "CERTIFIED"
        assert int(row["leaves_after"]) <= int(proved["leaves_after"]) < int(row["leaves_before"])
        assert 0 <= float(row["fidelity"]) <= 100


def _lines(model: str, sizes: dict[str, float]) -> list[dict[str, object]]:
    methods = ("proved", "validated", "slicing", "retraining", *glance.BEST_RULES)
    return [
        {
            "dataset": dataset,
            "model": model,
            "seed": 0,
            "size": size,
            "method": method,
            "leaves_before": 100,
            "leaves_after": kept,
            "leaves_kept": kept,
            "fidelity": 100 - position - extra,
            "status": "",
        }
        for dataset, extra in (("A", 0), ("B", 2))
        for size, kept in sizes.items()
        for position, method in enumerate(methods)
    ]


def test_curves_are_means_over_data_sets_and_the_best_rule_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "glance.csv"
    small = _lines("30x2", {"0.05": 60, "0.8": 30})
    large = _lines("100x6", {"50": 50, "25": 25, "10": 10, "returned": 40})
    runner.append_rows(out, glance.COLUMNS, [*small, *large])
    rows = runner.read_rows(out)
    curves = glance_figure.curves_of(rows, "30x2")
    assert curves["proved"] == [(60, 99), (30, 99)]
    assert curves["rule"] == [(60, 95), (30, 95)]  # the first of the two, 4 points lost and 1
    assert len(glance_figure.curves_of(rows, "100x6")["validated"]) == 3
    path = glance_figure.draw(out, tmp_path / "glance.svg")
    text = path.read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "prefers-color-scheme" in text
    assert glance_figure.INK not in text
    first = path.read_bytes()
    assert glance_figure.draw(out, path).read_bytes() == first
    assert "docs/glance.svg" in readme.table_text(tmp_path)
