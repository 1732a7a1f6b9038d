"""The command line as a program: domains, the demo, logs, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xgboost
from sklearn import datasets

from pine_boost.errors import InvalidInputError
from pine_boost.region.domain import Condition, Domain, read_domain
from pine_boost.region.region import Region
from tests.support.command_line import run, words


def test_a_domain_file_says_what_a_domain_says(tmp_path):
    path = tmp_path / "domain.json"
    path.write_text(
        json.dumps(
            {
                "lower": {"age": 18},
                "integer": ["age"],
                "never_missing": True,
                "forbidden": [[{"feature": "age", "upper": 20}, {"feature": "job", "categories": ["x"]}]],
            }
        )
    )
    expected = Domain(
        lower={"age": 18},
        integer=["age"],
        never_missing=True,
        forbidden=[(Condition("age", upper=20), Condition("job", categories=["x"]))],
    )
    assert read_domain(str(path)) == expected
    for wrong in ('{"lowest": {}}', "[]", "{", '{"forbidden": [[{"name": "age"}]]}'):
        path.write_text(wrong)
        with pytest.raises(InvalidInputError):
            read_domain(str(path))


def test_the_domain_reaches_the_region(files, tmp_path, capsys):
    # an upper bound forbids a state only if all of it lies above: take it below a threshold
    nodes = xgboost.Booster(model_file=files / "model.json").trees_to_dataframe()
    splits = nodes[nodes["Feature"] != "Leaf"].groupby("Feature")["Split"].max()
    name = "mean area"
    upper = float(splits[name]) * 0.999
    (tmp_path / "domain.json").write_text(json.dumps({"upper": {name: upper}}))
    code, _, err = run(
        capsys,
        *words(
            f"prune {files}/model.json --fit {files}/fit.csv --cal {files}/cal.csv --alpha 0.5 "
            f"--objective l1 --domain {tmp_path}/domain.json -o {tmp_path}/out"
        ),
    )
    assert code == 0
    assert "The domain excludes" in err
    X = datasets.load_breast_cancer(as_frame=True).data.iloc[:1, :6]
    X.loc[X.index[0], name] = float(splits[name]) * 1.001
    assert not Region.load(tmp_path / "out/region.json").contains(X)[0]


def test_demo_prunes_and_reports(tmp_path, capsys):
    code, out, _ = run(capsys, "demo", "-o", tmp_path / "demo", "--alpha", "0.4", "--time-limit", "8", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["trees_after"] < document["trees_before"] / 2
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"original.json", "model.json", "report.html", "certificate.json"} <= names


def test_as_a_program_with_plain_lines_in_a_log(files, tmp_path):
    done = subprocess.run(
        words(
            f"{sys.executable} -m pine_boost.cli prune model.json --fit fit.csv --cal cal.csv --alpha "
            f"0.5 -o {tmp_path}/out"
        ),
        cwd=files,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("CERTIFIED")
    assert "\r" not in done.stderr
    assert "10 rounds, nothing smaller proved yet" in done.stderr
    assert "(proved once)" in done.stderr
    assert (tmp_path / "out" / "certificate.json").is_file()


def test_ctrl_c_keeps_the_best_certified_model(tmp_path):
    X, y = datasets.load_breast_cancer(return_X_y=True)
    model = xgboost.XGBClassifier(n_estimators=60, max_depth=3, nthread=1).fit(X[:250], y[:250])
    model.save_model(tmp_path / "model.json")
    np.save(tmp_path / "fit.npy", X[:250])
    np.save(tmp_path / "cal.npy", X[250:])
    process = subprocess.Popen(
        words(f"{sys.executable} -m pine_boost.cli prune model.json --fit fit.npy --cal cal.npy --alpha 0.05 -o out"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    process.stderr.readline()  # the search has begun
    time.sleep(1.0)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    status = json.loads((tmp_path / "out/certificate.json").read_text())["status"]
    written = {"CERTIFIED": "best model certified so far", "NOT_CERTIFIED": "the original"}[status]
    assert f"interrupted; wrote the {written}".replace("the the", "the") in err
    assert "Ctrl-C: stopping; the best result so far is kept" in err
    assert out.startswith(status)
    assert (tmp_path / "out/model.json").is_file()
