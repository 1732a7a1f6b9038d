"""The report of a compression: what was counted, escaped, self-contained, one promise."""

import re

import numpy as np
import pytest
import xgboost
from markupsafe import escape
from sklearn import ensemble

import pine_boost
from pine_boost.compression.compress_result import CompressResult
from pine_boost.report.compression_report import render_compression
from tests.support.native_models import make_table

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


def test_a_page_of_what_was_counted():
    X, y = make_table(2, missing=False, n_rows=1400)
    names = np.array(["<b>no</b>", "yes"])[y]
    model = ensemble.GradientBoostingClassifier(n_estimators=15, random_state=0)
    model.fit(X[:600], names[:600])
    result = pine_boost.compress_booster(model, X[:600], X[600:], fidelity=0.9, segments=1)
    page = render_compression(result, X[600:])
    record = result.record
    assert str(escape(record.claim)) in page
    assert "<b>no</b>" not in page
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert "CERTIFIED" not in page
    assert not re.search(r"(src|href)=|<script", page)
    first = int(np.flatnonzero(result.changed)[0])
    before, after = model.predict_proba(X[600:])[first], result.model.predict_proba(X[600:])[first]
    assert f"({before[0]:.3f}, {before[1]:.3f})" in page
    assert f"({after[0]:.3f}, {after[1]:.3f})" in page
    for size in record.path:
        assert f"<td>{size.leaves:,}</td><td>{size.cost:,.0f}</td><td>{size.n_changed}</td>" in page
    for segment in record.segments:
        assert f"<td>{segment.n_rows}</td><td>{segment.n_changed}</td>" in page
    assert page.count('class="dot chosen"') == 1
    drawn = set(" ".join(re.findall(r'<(?:line|path|circle|rect)[^>]*class="([^"]+)"', page)).split())
    assert {"mark", "reach"} <= drawn  # the target, and how far down the bound is
    assert all(f"svg .{kind} " in page for kind in drawn)  # what has no colour is not seen


def test_values_and_results_without_a_smaller_model(tmp_path):
    X, y = make_table(3, n_rows=900)
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1).fit(X[:500], y[:500])
    result = pine_boost.compress_booster(model, X[:500], X[500:], fidelity=0.9, tolerance=1e-6)
    assert result.status == "NOT_VALIDATED"
    page = render_compression(result, X[500:])
    assert "nothing is promised" in page
    assert "Per class" not in page
    folder = result.save(tmp_path / "out", X[500:])
    assert (folder / "report.html").read_text() == page
    loaded = CompressResult.load(folder)
    with pytest.raises(pine_boost.InvalidInputError, match="original"):
        render_compression(loaded, X[500:])


def test_a_regressor_with_a_threshold_has_classes_and_no_probabilities():
    X, y = make_table(3, n_rows=900)
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1).fit(X[:500], y[:500])
    result = pine_boost.compress_booster(model, X[:500], X[500:], fidelity=0.9, threshold=1.0)
    assert not result.record.probability_shift
    assert "Per class" in render_compression(result, X[500:])
