"""Results: what an evaluation prints, the anytime curve as a plot, and an answer that cannot be written."""

import logging

import pytest
from sklearn import ensemble
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from pine_boost import UnsupportedModelError, build_result, prune_booster, simplify, verify
from pine_boost.plots import plot_history
from pine_boost.region.conformal import Coverage
from pine_boost.result import Evaluation
from pine_boost.search.search_result import Moment
from tests.support.verifying import boosted_products


@pytest.mark.parametrize("step", ["export_trimmed", "read_model"])
def test_a_lossless_part_that_is_refused_leaves_the_original(step, monkeypatch, caplog):
    X, y = load_breast_cancer(return_X_y=True)
    trees = DecisionTreeClassifier(max_depth=4, random_state=0)
    model = ensemble.AdaBoostClassifier(trees, n_estimators=8, random_state=0).fit(X[:300], y[:300])
    assert simplify(model).leaves_after < simplify(model).leaves_before

    def refuse(*_, **__):
        raise UnsupportedModelError("These nodes cannot be written.")

    monkeypatch.setattr(build_result, step, refuse)
    with caplog.at_level(logging.WARNING, "pine_boost"):
        result = prune_booster(model, X[:300], X[300:450], alpha=0.05)
    assert "not written with fewer leaves: These nodes cannot be written." in caplog.text
    assert result.model is model
    c = result.certificate
    assert c.status == "CERTIFIED"
    assert (c.leaves_after, c.pruned_digest) == (c.leaves_before, c.original_digest)
    monkeypatch.undo()
    assert verify(model, result.model, result.region, c).agrees


def test_an_evaluation_prints_a_table():
    evaluation = Evaluation(200, 0.995, 1.0, Coverage.of(200, 180), 0.9, 0.895)
    lines = str(evaluation).splitlines()
    assert lines[0].split() == ["rows", "200"]
    assert lines[1].endswith("99.50%")
    assert "90.00% (95% interval: 84" in lines[3]
    assert lines[-1].startswith("accuracy of the pruned model")
    assert evaluation._repr_html_().count("<tr>") == len(lines) == 6
    without_labels = Evaluation(200, 0.995, 1.0, Coverage.of(200, 180), None, None)
    assert "accuracy" not in str(without_labels)


def test_the_curve_shows_what_was_proved_once_and_twice_and_the_bound():
    import matplotlib

    matplotlib.use("Agg")
    history = (Moment(0.1, 12, 1, 1), Moment(0.2, 9, 1, 1), Moment(0.6, 9, 2, 8))
    ax = plot_history(history, 30, "round", 1.0)
    once, twice, bound = ax.get_lines()
    assert list(once.get_xdata()) == [0.0, 0.1, 0.2, 0.6, 1.0]
    assert list(once.get_ydata()) == [30, 12, 9, 9, 9]
    assert list(twice.get_xdata()) == [0.0, 0.6, 1.0]
    assert list(twice.get_ydata()) == [30, 9, 9]
    assert list(bound.get_ydata()) == [1, 1, 1, 8, 8]
    assert ax.get_ylabel() == "rounds of the best model"
    assert plot_history(history, 30, "leaf", 1.0, ax).get_ylabel() == "leaves of the best model"
    matplotlib.pyplot.close(ax.figure)


def test_a_summary_says_that_too_few_calibration_rows_leave_alpha_unused():
    model, X = boosted_products(4, random_state=0)
    with pytest.warns(UserWarning, match="5 calibration rows cannot support alpha=0.1"):
        few = prune_booster(model, X[:395], X[395:], alpha=0.1, time_limit=20)
    assert "alpha=0.1 was not used: 5 calibration rows are too few for it" in few.summary()
    enough = prune_booster(model, X[:200], X[200:], alpha=0.1, time_limit=20)
    assert "was not used" not in enough.summary()
