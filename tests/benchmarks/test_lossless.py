"""What simplify leaves out: one line per model, and a table of all."""

from __future__ import annotations

from benchmarks import lossless, runner, tables


def test_lossless_prints_its_table(folder, tmp_path, capsys):
    models = ["AdaBoost 50x3", "XGBoost 100x6, gamma 1"]
    out = tmp_path / "lossless.csv"
    arguments = ["--datasets", "Flowers", "--data", folder, "--out", str(out), "--jobs", "0"]
    assert lossless.main([*arguments, "--models", *models]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("| dataset | model | trees_before |")
    votes, constants = runner.read_rows(out)
    assert int(votes["leaves_after"]) < int(votes["leaves_before"])
    assert int(constants["trees_folded"]) < int(constants["trees_before"])
    gone = 100 * (1 - int(votes["leaves_after"]) / int(votes["leaves_before"]))
    assert f"| AdaBoost 50x3 | 1 | {gone:.1f} |" in tables.render(tmp_path)
