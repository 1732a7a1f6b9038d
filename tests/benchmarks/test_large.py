"""Models of default size: proved, refused."""

from __future__ import annotations

from benchmarks import large, runner, tables, throughput


def test_large_models_run(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(throughput, "MEASURE_SECONDS", 0.01)
    out = tmp_path / "large.csv"
    arguments = ["--datasets", "Toy", "--data", folder, "--trees", "4", "--time-limit", "600"]
    once = ["--jobs", "0", "--indifference", "0", "--fit", "training", "--out", str(out)]
    large.main([*arguments, *once])
    rows = runner.read_rows(out)
    assert [row["model"] for row in rows] == list(large.MODELS)
    for row in rows:
        assert row["status"] == "CERTIFIED"
        assert float(row["fidelity_in_region"]) == 100
        assert int(row["bytes_before"]) > 0
        assert float(row["native_ratio"]) > 0
    text = tables.render(tmp_path)
    removed = float(runner.read_rows(out)[0]["leaf_pruning_rate"])
    assert "| data set | proved, region of training rows | seeds |" in text
    assert f"| Toy | {removed:.1f} | - |" in text
    assert f"| XGBoost | {removed:.1f} ({removed:.1f} to {removed:.1f}) | - |" in text


def test_a_large_cell_that_is_refused_says_so(folder, tmp_path):
    out = tmp_path / "large.csv"
    code = large.main(
        (
            f"--datasets Toy --data {folder} --trees 3 --models xgboost --jobs 0 --indifference 0.5 "
            f"--fit unseen --out {out}"
        ).split()
    )
    (row,) = runner.read_rows(out)
    assert code == 1
    assert row["status"].startswith("REFUSED RegionError: indifference=0.5")
    assert float(row["pruning_rate"]) == 0
