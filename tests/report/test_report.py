"""The reports: self-contained, true to certificate and counts, and the inputs outside really differ."""

import re

import numpy as np
import pandas
import pytest
import xgboost
from markupsafe import escape
from sklearn import datasets, ensemble

import pine_boost
from pine_boost import CertificateMismatch, InvalidInputError, PruneResult, prune_booster, sweep
from pine_boost.certificate.claims import headline_of
from pine_boost.compression.compress_result import CompressResult
from pine_boost.native.figures import SIZES, file_contents
from pine_boost.native.predict import predict_classes
from pine_boost.report.charts import draw_tradeoff
from pine_boost.report.compression_report import render_compression
from pine_boost.report.outside import find_outside
from pine_boost.report.prune_report import render_report
from tests.support.html_tags import Page
from tests.support.native_models import make_table


@pytest.fixture(scope="module")
def parts():
    data = datasets.load_breast_cancer(as_frame=True)
    X = data.data.iloc[:, :6].rename(columns={"mean radius": 'radius & "cells"'})
    y = data.target
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=2, nthread=1)
    model.fit(X[:250], y[:250])
    return model, X[:250], X[250:450], X[450:]


@pytest.fixture(scope="module")
def swept(parts):
    model, X_fit, X_cal, _ = parts
    return sweep(model, X_fit, X_cal, alphas=[0.2, 0.6])


def test_loads_nothing_and_closes_every_tag(parts, swept):
    page = render_report(swept[0.6], parts[3], swept.table())
    tags = Page(page)
    assert tags.open == []
    assert tags.loads == []
    assert not re.search(r"https?:|url\(|@import|<script", page)
    assert "prefers-color-scheme: dark" in page


def test_names_of_the_user_are_escaped(parts, swept):
    page = render_report(swept[0.6], parts[3])
    assert 'radius & "cells"' not in page
    assert "radius &amp; &#34;cells&#34;" in page


def test_says_what_the_certificate_says(parts, swept):
    result = swept[0.6]
    c = result.certificate
    page = render_report(result, parts[3], swept.table())
    assert headline_of(c) in page
    assert f"<td>Trees</td><td>{c.trees_before}</td><td>{c.trees_after}</td>" in page
    assert c.original_digest in page
    for proof in c.proofs:
        assert proof.method in page
    coverage = result.region.coverage(parts[3])
    assert f"<strong>{coverage.share:.1%}</strong> of {len(parts[3])} rows" in page
    assert draw_tradeoff(swept.table(), c.alpha, c.unit) in page
    assert 'class="dot chosen"' in page


def test_without_a_smaller_model_nothing_is_boasted(parts):
    model, X_fit, X_cal, _ = parts
    kept = prune_booster(model, X_fit, X_cal, alpha=0.6, time_limit=1e-9)
    assert kept.status == "NOT_CERTIFIED"
    page = render_report(kept)
    assert Page(page).open == []
    assert "the original is returned, and nothing is promised" in page
    assert "This is a proof" not in page


def test_every_input_is_said_so(parts):
    X = parts[1]
    y = (X.iloc[:, 0] > X.iloc[:, 0].median()).astype(int)
    model = xgboost.XGBClassifier(n_estimators=6, max_depth=1, nthread=1).fit(X, y)
    result = prune_booster(model, X, parts[2], alpha=0)
    assert result.pruning_rate > 0
    page = render_report(result)
    assert "on every possible input" in page
    assert "Nowhere: the certificate covers every input" in page


@pytest.mark.parametrize("indifference", [0.0, 0.1])
def test_inputs_outside_differ_natively_and_lie_outside(parts, indifference):
    model, X_fit, X_cal, X_test = parts
    result = prune_booster(model, X_fit, X_cal, alpha=0.6, indifference=indifference, objective="l1")
    found = find_outside(result.original, result.pruned, result.region, result.points, X_test.to_numpy())
    assert found
    for entry in found:
        row = pandas.DataFrame({name: [float(value)] for name, value in entry.values})
        assert list(row.columns) == list(X_fit.columns)
        before, after = int(entry.before), int(entry.after)
        # six digits are shown; where they cross a threshold the page's row is another one
        if not np.array_equal(result.region.states(row), result.region.states(row.astype(np.float32))):
            continue
        assert before != after
        assert entry.score == result.region.score(row)[0]
        assert not result.region.contains(row, model=result.original.forest)[0]
        assert model.predict(row)[0] == before
        assert result.model.predict(row)[0] == after
        assert entry.reasons
    scores = [entry.score for entry in found]
    assert scores == sorted(scores)


def test_sizes_are_those_of_the_files(swept):
    result = swept[0.6]
    before, after = result.side_by_side.before, result.side_by_side.after
    assert after.trees == len(result.kept)
    assert before.leaves == result.certificate.leaves_before
    assert after.bytes == len(result.model_file()[1])
    assert before.bytes == len(file_contents(result.original))
    assert after.work < before.work


def test_measuring_changes_no_model(parts, swept):
    model, X_fit, _, _ = parts
    config = model.get_booster().save_config()
    side = swept[0.6].side_by_side
    for speeds in (side.speeds(), side.speeds(X_fit, seconds=60.0)):
        assert tuple(speed.n_rows for speed in speeds) == SIZES
        assert all(speed.before > 0 and speed.after > 0 for speed in speeds)
    assert side.speeds(sizes=(1, 1_000_000), seconds=0.0)[-1].n_rows == 1  # what would take longer is left out
    assert model.get_booster().save_config() == config


def test_the_plot_needs_two_alphas_and_rises(swept):
    rows = swept.table()
    assert draw_tradeoff(rows[:1], None, "round") == ""
    heights = re.findall(r'cy="([0-9.]+)"', draw_tradeoff(rows, None, "round"))
    assert float(heights[1]) <= float(heights[0])


def test_a_saved_folder_gives_the_report_again(parts, swept, tmp_path):
    model, X_fit, _, X_test = parts
    result = swept[0.6]
    folder = result.save(tmp_path / "out")
    bare = render_report(PruneResult.load(folder))
    assert headline_of(result.certificate) in bare
    assert "the original is not available" in bare
    full = render_report(PruneResult.load(folder, model), X_test)
    assert "Milliseconds for 100 000 rows" in full
    other = xgboost.XGBClassifier(n_estimators=3, max_depth=1, nthread=1)
    other.fit(X_fit, predict_classes(result.original, X_fit))
    with pytest.raises(CertificateMismatch, match="The original model given is not"):
        PruneResult.load(folder, other)
    (folder / "model.txt").write_text("tree\n")
    assert render_report(PruneResult.load(folder)) == bare  # the certificate names the model it is about
    (folder / "model.json").rename(folder / "model.ubj")
    with pytest.raises(InvalidInputError, match="one model file"):
        render_report(PruneResult.load(folder))
    with pytest.raises(InvalidInputError, match="does not exist"):
        render_report(PruneResult.load(tmp_path))


def test_other_libraries_are_measured_too(parts):
    _, X_fit, X_cal, X_test = parts
    y = (X_fit.iloc[:, 0] > X_fit.iloc[:, 0].median()).astype(int)
    import lightgbm

    models = (
        ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=1, random_state=0),
        lightgbm.LGBMClassifier(n_estimators=4, num_leaves=3, n_jobs=1, verbose=-1),
    )
    for model in models:
        X = X_fit.set_axis([f"x{j}" for j in range(6)], axis=1)
        result = prune_booster(model.fit(X, y), X, X_cal.set_axis(X.columns, axis=1), alpha=0.5, objective="l1")
        page = render_report(result, X_test.set_axis(X.columns, axis=1))
        assert ("Milliseconds for 1 row" in page) == (result.certificate.grid >= 0)


def test_a_page_of_what_was_counted(few_synthetic_rows):
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


def test_values_and_results_without_a_smaller_model(tmp_path, few_synthetic_rows):
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


def test_a_regressor_with_a_threshold_has_classes_and_no_probabilities(few_synthetic_rows):
    X, y = make_table(3, n_rows=900)
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1).fit(X[:500], y[:500])
    result = pine_boost.compress_booster(model, X[:500], X[500:], fidelity=0.9, threshold=1.0)
    assert not result.record.probability_shift
    assert "Per class" in render_compression(result, X[500:])
