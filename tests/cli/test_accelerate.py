"""``pine-boost accelerate``, ``verify`` and ``score`` on the folder of a scorer."""

import csv
import json

import numpy as np
import pytest

import pine_boost
from pine_boost.cli import main
from tests.support.command_line import printed, refused
from tests.support.native_models import built


@pytest.fixture
def model(tmp_path):
    native, X = built("xgb binary")
    native.save_model(tmp_path / "model.json")
    np.savetxt(tmp_path / "rows.csv", X[:50], delimiter=",", header="f0,f1,f2,f3", comments="")
    return native, X


def test_accelerate_verify_and_score(model, tmp_path, capsys):
    native, X = model
    place = str(tmp_path / "scorer")
    assert "CERTIFIED" in printed(capsys, "accelerate", tmp_path / "model.json", "-o", place)
    assert "AGREES: the exits of " in printed(capsys, "verify", tmp_path / "model.json", place)
    assert main(["report", place]) == 0
    page = (tmp_path / "scorer" / "report.html").read_text(encoding="utf-8")
    assert "the scorer gives the class" in page
    assert "mean share of the trees visited" in page
    assert main(["verify", str(tmp_path / "model.json"), place]) == 0  # the page changes nothing
    capsys.readouterr()
    out = tmp_path / "classes.csv"
    assert main(["score", place, str(tmp_path / "rows.csv"), "-o", str(out), "--proba"]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [int(row["class"]) for row in rows] == native.predict(X[:50]).tolist()
    assert [float(row["p_1"]) for row in rows] == native.predict_proba(X[:50])[:, 1].tolist()
    capsys.readouterr()
    assert main(["score", place, str(tmp_path / "rows.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 50
    assert main(["score", place, str(tmp_path / "rows.csv")]) == 0
    assert "Nothing was written; pass -o FILE" in capsys.readouterr().out
    assert main(["accelerate", str(tmp_path / "model.json"), "-o", place, "--json"]) == 0  # its own folder again
    assert json.loads(capsys.readouterr().out)["status"] == "CERTIFIED"


def test_another_model_does_not_verify(model, tmp_path, capsys):
    place = str(tmp_path / "scorer")
    assert main(["accelerate", str(tmp_path / "model.json"), "-o", place]) == 0
    other = tmp_path / "other.txt"
    built("lgb binary")[0].save_model(other)
    capsys.readouterr()
    assert main(["verify", str(other), place]) == 1
    assert "DISAGREES: this is not the model that the manifest names (" in capsys.readouterr().out


def test_files_of_others_are_not_replaced(model, tmp_path, capsys):
    place = tmp_path / "scorer"
    place.mkdir()
    (place / "scorer.json").write_text("mine")
    assert main(["accelerate", str(tmp_path / "model.json"), "-o", str(place)]) == 1
    assert (place / "scorer.json").read_text() == "mine"


def test_the_version_names_the_kernel(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert "kernel: " in capsys.readouterr().out


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_statistic_from_files(tmp_path, capsys):
    import xgboost
    from sklearn.datasets import make_classification

    X, y = make_classification(2000, 4, n_informative=3, n_redundant=0, flip_y=0.05, random_state=0)
    X = X.astype(np.float32)
    model = xgboost.XGBClassifier(n_estimators=30, max_depth=3, n_jobs=1).fit(X[:1000], y[:1000])
    model.save_model(tmp_path / "model.json")
    for name, rows in (("fit", X[:1000]), ("val", X[1000:])):
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="f0,f1,f2,f3", comments="")
    files, place = [str(tmp_path / name) for name in ("model.json", "fit.csv", "val.csv")], str(tmp_path / "scorer")
    call = ["accelerate", files[0], "--fit", files[1], "--val", files[2], "--fidelity", "0.97", "-o", place]
    assert "This is a statistic, not a proof: an unlucky sample of rows can mislead it." in printed(capsys, *call)
    assert "pass them with --val." in refused(capsys, "verify", files[0], place)
    assert main(["verify", files[0], place, "--val", files[2]]) == 0
    assert "AGREES: the changed rows of 1000 validation rows" in capsys.readouterr().out
    capsys.readouterr()
    assert main(["verify", files[0], place, "--val", files[2], "--fit", files[1]]) == 0
    assert "the rows of X_fit and X_val gave the same scorer once more" in capsys.readouterr().out
    assert main(["verify", files[0], place, "--val", files[2], "--fit", files[2]]) == 1
    assert "Pass the rows that accelerate_booster was given." in capsys.readouterr().err
    assert main(["verify", files[0], place, "--val", files[2], "--cal", files[1]]) == 1
    assert "verify takes --val, --fit for a scorer; leave out --cal." in capsys.readouterr().err
    assert main(["verify", files[0], place, "--val", files[1]]) == 1


def test_the_size_of_the_file_is_that_of_the_file_given(model, tmp_path, capsys):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=8))
    size = path.stat().st_size
    assert f"File: {size / 1000:.0f} -> " in printed(capsys, "accelerate", path, "-o", tmp_path / "scorer")
    for given in (str(path), path, path.read_bytes()):
        assert pine_boost.accelerate_booster(given).side_by_side.before.bytes == size
        assert pine_boost.simplify(given).side_by_side.before.bytes == size
