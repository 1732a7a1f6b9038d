"""What an evaluation prints: a readable table, as text and as HTML."""

from __future__ import annotations

from pine_boost.evaluation import Evaluation
from pine_boost.region.conformal import Coverage


def test_an_evaluation_prints_a_table() -> None:
    evaluation = Evaluation(200, 0.995, 1.0, Coverage.of(200, 180), 0.9, 0.895)
    lines = str(evaluation).splitlines()
    assert lines[0].split() == ["rows", "200"]
    assert lines[1].endswith("99.50%")
    assert "90.00% (95% interval: 84" in lines[3]
    assert lines[-1].startswith("accuracy of the pruned model")
    assert evaluation._repr_html_().count("<tr>") == len(lines) == 6
    without_labels = Evaluation(200, 0.995, 1.0, Coverage.of(200, 180), None, None)
    assert "accuracy" not in str(without_labels)
