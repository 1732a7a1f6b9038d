"""Old XGBoost versions in their own environments: they read our files, we read theirs."""

import json
import subprocess
import sys

import numpy as np
import pytest

from pine_boost.exporters import export
from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from tests.support.grids import edge_rows, grid_forest, integer_margins
from tests.support.trimmed import cut_forest
from tests.support.xgboost_models import BOOSTERS, categorical_booster, make_rows, some_weights, train

pytestmark = pytest.mark.slow

# numpy 1 for 1.7.6, which was built before numpy 2
REQUIREMENTS = {"1.7.6": ["xgboost==1.7.6", "numpy<2", "scipy"], "2.1.4": ["xgboost==2.1.4", "numpy", "scipy"]}

PREDICT = """
import json, sys, numpy, xgboost
folder, version = sys.argv[1:]
assert xgboost.__version__ == version, xgboost.__version__
for name, types in json.load(open(f"{folder}/jobs.json")).items():
    booster = xgboost.Booster({"nthread": 1}, model_file=f"{folder}/{name}")
    rows = numpy.load(f"{folder}/{name}.npy")
    options = {"feature_types": types, "enable_categorical": True} if types else {}
    data = xgboost.DMatrix(rows, nthread=1, feature_names=booster.feature_names, **options)
    batch = booster.predict(data, output_margin=True).reshape(len(rows), -1)
    inplace = booster.inplace_predict(rows, predict_type="margin").reshape(len(rows), -1)
    numpy.savez(f"{folder}/{name}.{version}.npz", batch=batch, inplace=inplace)
"""

TRAIN = """
import sys, warnings, numpy, xgboost
warnings.simplefilter("ignore")
folder, version = sys.argv[1:]
rows, labels = numpy.load(f"{folder}/rows.npy"), numpy.load(f"{folder}/labels.npy")
kinds = {
    "logistic": {"objective": "binary:logistic"},
    "logitraw": {"objective": "binary:logitraw", "base_score": 0.25},
    "softprob": {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2},
    "dart": {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.4},
    "hinge": {"objective": "binary:hinge"},
    "exact": {"objective": "binary:logistic", "tree_method": "exact", "gamma": 2.0},
    "categorical": {"objective": "binary:logistic", "tree_method": "hist", "max_cat_to_onehot": 1},
}
for name, parameters in kinds.items():
    types = ["float", "float", "c"] if name == "categorical" else None
    options = {"feature_types": types, "enable_categorical": True} if types else {}
    target = labels if name == "softprob" else labels > 0
    data = xgboost.DMatrix(rows, target, nthread=1, **options)
    booster = xgboost.train({**parameters, "max_depth": 4, "nthread": 1}, data, 8)
    for suffix in ("json", "ubj"):
        booster.save_model(f"{folder}/{name}-{version}.{suffix}")
    margins = booster.predict(data, output_margin=True)
    numpy.save(f"{folder}/{name}-{version}.npy", margins.reshape(len(rows), -1))
"""


@pytest.fixture(scope="module", params=REQUIREMENTS)
def old_python(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"xgboost-{request.param}")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-warn-script-location"]
    subprocess.run([*pip, *REQUIREMENTS[request.param]], check=True)
    return request.param, folder / "bin" / "python"


def exported_models():
    """Exports with dropped and scaled trees: ragged rounds, constants, categories."""
    for name, options in BOOSTERS.items():
        yield name, train(**options), make_rows()
    booster, rows = categorical_booster(1)
    yield "categorical", booster, rows


def test_old_versions_read_the_export_bit_for_bit(old_python, tmp_path):
    version, python = old_python
    jobs, expected = {}, {}
    for name, booster, rows in exported_models():
        for suffix in ("json", "ubj"):
            model = read_model(bytes(booster.save_raw(suffix)))
            weights = some_weights(model.forest)
            probe = np.vstack([rows, edge_rows(model.forest, rows, limit=60)])
            if name == "categorical":  # old versions read codes that are no codes in other ways
                probe = rows
            for kind, pruned in (
                ("whole", grid_forest(model.forest, weights)),
                ("cut", cut_forest(model.forest, weights)),
            ):
                file_name = f"{name}-{kind}.{suffix}"
                (tmp_path / file_name).write_bytes(export(model, pruned))
                np.save(tmp_path / f"{file_name}.npy", probe)
                jobs[file_name] = booster.feature_types
                margins = np.ldexp(integer_margins(pruned, probe).astype(float), -pruned.grid)
                expected[file_name] = margins.astype(np.float32)
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    subprocess.run([python, "-c", PREDICT, tmp_path, version], check=True)
    for file_name, margins in expected.items():
        with np.load(tmp_path / f"{file_name}.{version}.npz") as result:
            np.testing.assert_array_equal(result["batch"], margins, err_msg=file_name)
            np.testing.assert_array_equal(result["inplace"], margins, err_msg=file_name)


def test_files_of_old_versions_are_read_bit_for_bit(old_python, tmp_path):
    version, python = old_python
    rows = make_rows(500, 3)
    rows[:, 2] = np.random.default_rng(2).integers(0, 9, len(rows))
    labels = np.digitize(np.nan_to_num(rows[:, 0]) + np.isin(rows[:, 2], [1, 5, 6]), [-0.5, 0.8])
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "labels.npy", labels)
    subprocess.run([python, "-c", TRAIN, tmp_path, version], check=True)
    files = sorted([*tmp_path.glob("*.json"), *tmp_path.glob("*.ubj")])
    assert len(files) == 14
    for path in files:
        forest = read_model(path).forest
        margins = np.load(tmp_path / f"{path.stem}.npy")
        np.testing.assert_array_equal(native_margins(forest, rows), margins, err_msg=path.name)
