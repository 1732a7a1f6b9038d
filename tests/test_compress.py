"""compress_booster from end to end: same kind out, native answers, honest words, files."""

import json
import time

import lightgbm
import matplotlib
import numpy as np
import pytest
import xgboost
from sklearn import ensemble

import pine_boost
from pine_boost import CertificateMismatch, InvalidInputError, UnsupportedModelError
from pine_boost.certificate.claims import segments_in_words
from pine_boost.compression.reading import count_segments
from pine_boost.compression.record import Segment
from tests.support.native_models import make_table

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

N_FIT = 600


def _data(n_classes, missing=True):
    X, y = make_table(n_classes, missing=missing, n_rows=1400)
    return X[:N_FIT], X[N_FIT:], y[:N_FIT]


@pytest.fixture(scope="module")
def binary():
    X_fit, X_val, y = _data(2)
    model = xgboost.XGBClassifier(n_estimators=20, max_depth=4, n_jobs=1).fit(X_fit, y)
    seen = []
    result = pine_boost.compress_booster(
        model, X_fit, X_val, fidelity=0.9, callback=seen.append, segments={"category": 1}
    )
    return model, X_fit, X_val, result, seen


def test_a_smaller_model_of_the_same_kind_with_counts_made_natively(binary):
    model, _, X_val, result, seen = binary
    assert result.status == "VALIDATED"
    assert type(result.model) is xgboost.XGBClassifier
    assert result.leaves_after < 0.6 * result.leaves_before
    n_nodes = len(result.model.get_booster().trees_to_dataframe())
    assert n_nodes == 2 * result.leaves_after - result.record.trees_after  # really gone
    changed = model.predict(X_val) != result.model.predict(X_val)
    assert np.array_equal(changed, result.changed)
    assert result.record.n_changed == changed.sum() == result.path[result_index(result)].n_changed
    assert {step.phase for step in seen} == {"slices", "path"}


def result_index(result):
    """Position of the returned size among the tested ones."""
    accepted = [i for i, size in enumerate(result.path) if size.accepted]
    return min(accepted, key=lambda i: result.path[i].leaves)


def test_words_are_those_of_a_statistic(binary):
    *_, result, _ = binary
    text = result.summary()
    assert f"Work per row: {result.record.work_before:.0f} -> {result.record.work_after:.0f} (" in text
    assert "CERTIFIED" not in text.replace("NOT_CERTIFIED", "CERTIFIED")
    assert "statistic, not a proof" in text
    assert "there may be others farther away" in text or "is not shown" in text
    assert len(repr(result)) < 120
    assert str(result).startswith("VALIDATED: 20 -> ")
    assert [row["leaves"] for row in result.path_table()] == [size.leaves for size in result.path]


def test_the_input_that_an_attack_found_changes_its_class_natively(binary):
    model, X_fit, _, result, _ = binary
    record = result.record
    assert record.attack_distance is not None
    row = np.array([record.attack_row], dtype=np.float64)  # None becomes NaN
    assert row.shape == (1, X_fit.shape[1])
    assert model.predict(row) != result.model.predict(row)
    margin = model.predict(row, output_margin=True)
    assert abs(margin[0]) == pytest.approx(record.attack_distance, rel=1e-4)


def test_segments_add_up(binary):
    *_, result, _ = binary
    segments = result.record.segments
    assert sum(segment.n_rows for segment in segments) == result.record.n_val
    assert sum(segment.n_changed for segment in segments) == result.record.n_changed
    assert all(segment.name.startswith("category: ") for segment in segments)
    lines = [line for line in result.summary().splitlines() if line.startswith("Segment category")]
    assert len(lines) == min(len(segments), 5)
    worst = min(segments, key=lambda segment: segment.bound)
    assert f"{worst.n_changed} of {worst.n_rows} rows changed, " in lines[0]
    stated = float(lines[0].split("at least ")[1].split("% kept")[0]) / 100
    assert worst.bound - 1e-4 < stated <= worst.bound


def test_segments_of_missing_values_have_a_name():
    changed = np.array([True, False, False, False])
    given = [np.nan, None, "a", "a"]
    segments = count_segments({"": given}, changed, 0.9)
    assert {segment.name for segment in segments} == {"missing", "a"}


def test_the_same_call_gives_the_same_bytes(binary):
    model, X_fit, X_val, result, _ = binary
    again = pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9, segments={"category": 1})
    assert again.record.compressed_digest == result.record.compressed_digest
    assert again.path == result.path


def test_save_load_verify(binary, tmp_path):
    model, _, X_val, result, _ = binary
    folder = result.save(tmp_path / "out")
    assert sorted(path.name for path in folder.iterdir()) == ["compression.json", "model.json"]
    assert result.save(folder) == folder  # its own files may be replaced
    loaded = pine_boost.CompressResult.load(folder)
    assert loaded.record.path == result.path
    verdict = pine_boost.verify_compression(model, folder / "model.json", folder, X_val)
    assert verdict.agrees
    assert verdict.n_changed == result.record.n_changed
    with pytest.raises(CertificateMismatch, match="another order"):
        pine_boost.verify_compression(model, folder / "model.json", folder, X_val[::-1])
    with pytest.raises(CertificateMismatch, match="compressed model"):
        pine_boost.verify_compression(model, model, folder, X_val)
    for question in (lambda: loaded.evaluate(X_val), loaded.speedup):
        with pytest.raises(InvalidInputError, match=r"use CompressResult\.load\(folder, original=\.\.\.\)"):
            question()
    whole = pine_boost.CompressResult.load(folder, original=model)
    assert whole.evaluate(X_val) == result.evaluate(X_val)
    assert set(whole.speedup(sizes=(1,))) == set(whole.speedup(X_val, sizes=[1])) == {1}
    with pytest.raises(CertificateMismatch, match=r"is not the original model that the record names"):
        pine_boost.CompressResult.load(folder, original=result.model)


def test_an_edited_record_is_refused_or_found_wrong(binary, tmp_path):
    model, _, X_val, result, _ = binary
    from dataclasses import replace

    document = json.loads(result.record.to_json())
    document["n_changed"] = 0
    (tmp_path / "compression.json").write_text(json.dumps(document))
    with pytest.raises(CertificateMismatch, match="digest"):
        pine_boost.verify_compression(model, result.model, tmp_path, X_val)
    for edit in (
        {"n_changed": result.record.n_changed + 1},
        {"bound": result.record.bound + 1e-6},
        {"fidelity": 0.999},
        {"leaves_after": 3},
        {"claim": "It is the same."},
        {"proved_distance": 0.9 * result.record.proved_distance},
        {"proved_largest": 0.9 * result.record.proved_largest},
        {"proved_rows": result.record.proved_rows + 1},
        {"proved_distance": None},
        {"proved_trees": result.record.proved_trees[1:]},
        {"path": (*result.path, replace(result.path[0], n_changed=700))},
    ):
        forged = replace(result.record, **edit)
        assert not pine_boost.verify_compression(model, result.model, forged, X_val).agrees, edit


def test_overlap_is_refused_or_only_measured(binary):
    model, X_fit, *_ = binary
    with pytest.raises(InvalidInputError, match="allow_overlap=True"):
        pine_boost.compress_booster(model, X_fit, X_fit, fidelity=0.9)
    result = pine_boost.compress_booster(model, X_fit, X_fit, fidelity=0.9, allow_overlap=True, time_limit=5)
    assert result.status == "MEASURED"
    assert "confidence" not in result.summary()  # of rows that were seen no share is promised
    assert "promises nothing about future inputs" in result.record.claim
    assert "With confidence" not in result.record.claim


@pytest.mark.parametrize(
    "options",
    [
        {"fidelity": 1.0},
        {"confidence": 0},
        {"minimize": "rounds"},
        {"tolerance": -1},
        {"tolerance": 1.5},
        {"time_limit": 0},
        {"random_state": -1},
        {"callback": 3},
        {"segments": [1, 2]},
        {"allow_overlap": 1},
    ],
)
def test_options_that_mean_nothing(binary, options):
    model, X_fit, X_val, *_ = binary
    with pytest.raises(InvalidInputError):
        pine_boost.compress_booster(model, X_fit, X_val, **{"fidelity": 0.9, **options})


def test_nothing_passes_and_the_original_comes_back():
    X_fit, X_val, y = _data(2)
    stump = xgboost.XGBClassifier(n_estimators=1, max_depth=1, n_jobs=1).fit(X_fit, y)
    result = pine_boost.compress_booster(stump, X_fit, X_val, fidelity=0.99)
    assert result.status == "NOT_VALIDATED"
    assert result.model is stump
    assert "nothing is promised" in result.record.claim


def test_a_file_gives_a_file(binary, tmp_path):
    model, X_fit, X_val, result, _ = binary
    path = tmp_path / "booster.ubj"
    model.get_booster().save_model(path)
    found = pine_boost.compress_booster(path, X_fit, X_val, fidelity=0.9)
    assert isinstance(found.model, bytes)
    booster = xgboost.Booster(model_file=bytearray(found.model))
    assert np.array_equal(booster.predict(xgboost.DMatrix(X_val)) > 0.5, result.model.predict(X_val) == 1)


def test_classes_by_lightgbm_keep_names_and_categories():
    import pandas

    X, y = make_table(3, n_rows=1400)
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["b"] = frame["b"].astype(int).map(dict(enumerate("uvwxyz"))).astype("category")
    model = lightgbm.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1)
    model.fit(frame[:N_FIT], y[:N_FIT])
    result = pine_boost.compress_booster(model, frame[:N_FIT], frame[N_FIT:], fidelity=0.9)
    assert result.status == "VALIDATED"
    assert list(result.model.feature_name_) == ["a", "b", "c", "d"]
    changed = model.predict(frame[N_FIT:]) != result.model.predict(frame[N_FIT:])
    assert changed.sum() == result.record.n_changed


def test_a_forest_keeps_probabilities_that_add_up():
    X_fit, X_val, y = _data(3, missing=False)
    model = ensemble.RandomForestClassifier(12, max_depth=6, random_state=0).fit(X_fit, y)
    result = pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9)
    assert result.status == "VALIDATED"
    np.testing.assert_allclose(result.model.predict_proba(X_val).sum(axis=1), 1.0, atol=0.02)
    assert result.record.probability_shift["mean"] < 0.25


def test_values_of_a_regressor_stay_within_the_tolerance():
    X_fit, X_val, y = _data(3)
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=4, n_jobs=1).fit(X_fit, y)
    with pytest.raises(InvalidInputError, match=r"pass tolerance \("):
        pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9)
    result = pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9, tolerance=0.2)
    assert result.status == "VALIDATED"
    assert "raw value within 0.2" in result.record.claim
    moved = np.abs(model.predict(X_val, output_margin=True) - result.model.predict(X_val, output_margin=True))
    assert (moved.astype(float) > 0.2).sum() == result.record.n_changed
    assert result.leaves_after < result.leaves_before


def test_probabilities_within_a_tolerance(binary):
    model, X_fit, X_val, plain, _ = binary
    result = pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9, tolerance=0.1)
    moved = np.abs(model.predict_proba(X_val) - result.model.predict_proba(X_val)).max(axis=1)
    changed = (moved > 0.1) | (model.predict(X_val) != result.model.predict(X_val))
    assert changed.sum() == result.record.n_changed
    assert result.leaves_after >= plain.leaves_after  # a stronger promise is not cheaper


def test_whole_trees_stay_whole(binary):
    model, X_fit, X_val, *_ = binary
    result = pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9, minimize="trees")
    sizes = np.diff(result.original.forest.tree_offset)
    assert set(np.diff(result.compressed.forest.tree_offset)) <= set(sizes)
    assert result.record.trees_after < result.record.trees_before


def test_ada_boost_is_refused():
    X_fit, X_val, y = _data(2, missing=False)
    model = ensemble.AdaBoostClassifier(n_estimators=3, random_state=0).fit(X_fit, y)
    with pytest.raises(UnsupportedModelError, match="prune_booster"):
        pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9)


def test_time_limit_ends_the_path(binary):
    model, X_fit, X_val, *_ = binary
    # a callback that takes its time ends a fast machine's path too
    slow = {"time_limit": 0.2, "callback": lambda _: time.sleep(0.02)}
    result = pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9, **slow)
    assert result.record.stopped == "time"
    assert result.status in ("VALIDATED", "NOT_VALIDATED")
    late = pine_boost.compress_booster(model, X_fit, X_val, fidelity=0.9, time_limit=1e-3)
    assert len(late.path) == 1  # one size is tested however little time there is
    assert late.record.attack_starts == 0


def test_plot_shows_the_tested_sizes(binary):
    matplotlib.use("Agg")
    *_, result, _ = binary
    axes = result.plot()
    assert list(axes.lines[0].get_xdata()) == [size.cost for size in result.path]


def test_segments_of_rows_seen_before_state_no_bound():
    segments = [Segment(f"s{j}", 100, j, 0.9 - j / 100) for j in range(7)]
    lines = segments_in_words(segments, None)
    assert lines[0] == "Segment s6: 6 of 100 rows changed."
    assert lines[-1] == "2 more with higher bounds are in the record (compression.json)."
    assert "at least 84.00% kept" in segments_in_words(segments, 0.95)[0]
    assert segments_in_words([], 0.95) == []


@pytest.mark.parametrize(("loss", "words"), [("error", "lower by 50 points; write 0.005"), ("brier", "larger by 0.5,")])
def test_a_loss_that_looks_like_a_percentage_is_warned_of(loss, words):
    X = np.zeros((30, 2))
    with pytest.warns(UserWarning, match=f"max_loss=0.5 allows .* {words}"), pytest.raises(UnsupportedModelError):
        pine_boost.compress_booster(b"no model", X, X, y_val=X[:, 0], max_loss=0.5, loss=loss)
