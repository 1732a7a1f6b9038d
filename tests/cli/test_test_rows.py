"""The rows of --test: what is wrong with them is said before the search, or costs no result."""

import pandas
import pytest

from pine_boost import PruneResult
from tests.support.command_line import expect, words

COMMANDS = (("prune", "--alpha", "0.5"), ("sweep", "--alphas", "0.5,0.6"))


def _call(files, out, test, command):
    name, *rest = command
    return words(
        f"{name} {files}/model.json --fit {files}/fit.csv --cal {files}/cal.csv --test {test} "
        f"--label target --no-report -o {out}",
        *rest,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_labels_of_another_kind_are_refused_before_the_search(files, tmp_path, capsys, command):
    table = pandas.read_csv(files / "cal.csv")
    table["target"] = table["target"].map({0: "malignant", 1: "benign"})
    table.to_csv(tmp_path / "test.csv", index=False)
    out, err = expect(capsys, 1, *_call(files, tmp_path / "out", tmp_path / "test.csv", command))
    assert out == ""
    assert "test.csv, column 'target': y holds" in err
    assert "a label the model does not have; its predict returns 0, 1" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_an_evaluation_that_fails_costs_neither_result_nor_summary(files, tmp_path, capsys, monkeypatch, command):
    def fail(*_):
        raise MemoryError("no room for these rows")

    monkeypatch.setattr(PruneResult, "evaluate", fail)
    folder = tmp_path / "out"
    out, err = expect(capsys, 1, *_call(files, folder, files / "test.csv.gz", command))
    assert "CERTIFIED" in out
    assert f"Written to {folder}" in out
    assert "Only the evaluation on --test failed (MemoryError: no room for these rows)" in err
    assert f"the result in {folder} is valid without it" in err
    assert list(folder.rglob("certificate.json"))
