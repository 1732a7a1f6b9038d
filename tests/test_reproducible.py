"""Same inputs, seed and versions: the same bytes out, whatever the process and n_jobs."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")
pytest.importorskip("sklearn")

_PROGRAM = textwrap.dedent(
    """
    import hashlib, json, sys, warnings
    import numpy as np
    from sklearn.ensemble import RandomForestClassifier
    import xgboost, lightgbm
    import pine_boost
    from pine_boost.json_fields import canonical
    n_jobs = int(sys.argv[1])
    random = np.random.default_rng(7)
    X = random.normal(size=(400, 5)).round(2)
    X[::11, 3] = np.nan
    two = (np.nan_to_num(X[:, 0] * X[:, 1]) + X[:, 2] > 0).astype(int)
    three = np.digitize(X[:, 0] + X[:, 1], [-0.6, 0.6])
    small = {"n_estimators": 12, "max_depth": 2, "n_jobs": 1, "random_state": 0}
    cases = {
        "xgboost": (xgboost.XGBClassifier(**small).fit(X, two), {}),
        "file": (bytes(xgboost.XGBClassifier(**small).fit(X, two).get_booster().save_raw("ubj")),
                 {"score": "isolation-forest"}),
        "lightgbm": (lightgbm.LGBMClassifier(**small, verbose=-1).fit(X, three), {"unit": "tree"}),
        "forest": (RandomForestClassifier(**small).fit(X, two), {"indifference": 0.2}),
    }
    digests = {}
    for name, (model, options) in cases.items():
        result = pine_boost.prune_booster(
            model, X[:100], X[250:], alpha=0.6, n_jobs=n_jobs, random_state=3, **options
        )
        certificate = json.loads(result.certificate.to_json())
        del certificate["timings"], certificate["date"]
        parts = {
            "model": result.model_file()[1],
            "region": canonical(result.region.to_json()).encode(),
            "certificate": json.dumps(certificate, sort_keys=True).encode(),
            "trees": str(result.certificate.trees_after).encode(),
        }
        for part, contents in parts.items():
            digests[f"{name} {part}"] = hashlib.sha256(contents).hexdigest()
        assert result.certificate.trees_after < result.certificate.trees_before, name
    print(json.dumps(digests))
    """
)


def _digests(n_jobs, hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _PROGRAM, str(n_jobs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_the_same_bytes_in_every_process_and_with_every_n_jobs():
    first = _digests(n_jobs=1, hash_seed=0)
    second = _digests(n_jobs=2, hash_seed=12345)
    assert {name for name in first if first[name] != second[name]} == set()
    assert len(first) == 16


def test_a_sweep_gives_the_same_bytes_twice_in_one_process():
    from pine_boost import sweep
    from tests.support.verifying import boosted_products

    model, X = boosted_products(8, random_state=0)
    swept = [sweep(model, X[:200], X[200:], alphas=[0.1, 0.3]) for _ in range(2)]
    files = [[result.model_file() for result in each] for each in swept]
    assert files[0] == files[1]


def test_a_time_limit_that_is_not_reached_changes_nothing():
    from pine_boost import prune_booster
    from tests.support.verifying import boosted_products

    model, X = boosted_products(6, random_state=0)
    free, limited = (prune_booster(model, X[:200], X[200:], alpha=0.3, time_limit=limit) for limit in (None, 3600.0))
    assert free.model_file() == limited.model_file()
    assert free.certificate.kept == limited.certificate.kept
