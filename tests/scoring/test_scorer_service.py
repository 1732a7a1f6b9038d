"""The example scorer over real HTTP on this machine: answers, limits, refusals, metrics."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xgboost
from sklearn import datasets

from pine_boost import GuardedModel, prune_booster

for library in ("fastapi", "uvicorn"):
    pytest.importorskip(library)

SERVE = Path(__file__).resolve().parents[2] / "examples" / "scorer" / "serve.py"
X, Y = datasets.load_breast_cancer(return_X_y=True)
X = X[:, :6]


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def ask(port, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET" if body is None else "POST", path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def predict(port, document):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    status, answer = ask(port, "/predict", body)
    return status, json.loads(answer)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    model = xgboost.XGBClassifier(n_estimators=12, max_depth=2, n_jobs=1).fit(X[:280], Y[:280])
    result = prune_booster(model, X[:280], X[280:], alpha=0.3)
    folder = GuardedModel(result).save(tmp_path_factory.mktemp("scorer") / "folder")
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, SERVE, "--folder", folder, "--port", str(port)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert process.poll() is None, "the scorer ended"
            try:
                if ask(port, "/health")[0] == 200:
                    break
            except OSError:
                time.sleep(0.2)
        yield port, model, result
    finally:
        process.terminate()
        process.wait(20)


def metrics(port):
    status, answer = ask(port, "/metrics")
    assert status == 200
    lines = [line for line in answer.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_classes_are_those_of_the_original_and_the_counters_add_up(served):
    port, model, result = served
    before = metrics(port)
    shuffled = np.random.default_rng(0).permuted(X, axis=0)[:200]
    rows = np.concatenate([X[:300], shuffled])
    status, answer = predict(port, {"rows": rows.tolist()})
    assert status == 200
    assert answer["classes"] == model.predict(rows).tolist()
    after = metrics(port)
    outside = int((~result.region.contains(rows)).sum())
    assert after["scorer_rows_total"] - before.get("scorer_rows_total", 0) == 500
    assert after["scorer_fallbacks_total"] - before["scorer_fallbacks_total"] == outside > 0
    assert 0 < after["scorer_coverage"] < 1
    assert after['scorer_requests_total{status="200"}'] >= 1


def test_health_says_what_is_promised(served):
    port, _, _ = served
    status, answer = ask(port, "/health")
    assert status == 200
    assert json.loads(answer)["claim"].startswith("On every input, the guarded model")


def test_null_is_missing(served):
    port, model, _ = served
    row = X[0].tolist()
    row[2] = None
    status, answer = predict(port, {"rows": [row]})
    assert status == 200
    assert answer["classes"] == model.predict(np.array([row], dtype=float)).tolist()


@pytest.mark.parametrize(
    ("document", "status", "message"),
    [
        (b"not json", 400, "not JSON"),
        (b'{"rows": [[NaN, 1, 1, 1, 1, 1]]}', 400, "send null"),
        (b"[" * 50_000, 400, "not JSON"),
        ({"row": []}, 422, "at least one row"),
        ({"rows": []}, 422, "at least one row"),
        ({"rows": [[1, 2]]}, 422, "Row 0 is 2; a list of 6 numbers"),
        ({"rows": [[1, 2, 3, 4, 5, "6"]]}, 422, "column 5 is '6'"),
        ({"rows": [[1, 2, 3, 4, 5, True]]}, 422, "column 5 is True"),
        ({"rows": [7]}, 422, "Row 0 is int"),
        (b'{"rows": [[1, 2, 3, 4, 5, 1' + b"0" * 400 + b"]]}", 422, "too large"),
        ({"rows": [[0] * 6] * 1001}, 413, "1001 rows"),
        (b" " * 1_000_001, 413, "up to 1000000"),
    ],
)
def test_bad_rows_get_a_clear_refusal(served, document, status, message):
    port, _, _ = served
    found, answer = predict(port, document)
    assert found == status
    assert message in answer["detail"]
    assert metrics(port)[f'scorer_requests_total{{status="{status}"}}'] >= 1


def test_a_body_without_a_length_is_cut_off_at_the_limit(served):
    port, _, _ = served
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    pieces = (b" " * 100_000 for _ in range(20))
    try:
        connection.request("POST", "/predict", pieces, encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        status = connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        status = 413  # refused while we were still sending
    finally:
        connection.close()
    assert status == 413
    assert ask(port, "/health")[0] == 200


def test_other_paths_and_methods(served):
    port, _, _ = served
    assert ask(port, "/predict")[0] == 405
    assert ask(port, "/nothing")[0] == 404


def test_many_at_once(served):
    port, model, _ = served
    expected = model.predict(X).tolist()
    before = metrics(port)["scorer_rows_total"]

    def some(start):
        status, answer = predict(port, {"rows": X[start : start + 5].tolist()})
        return status == 200 and answer["classes"] == expected[start : start + 5]

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(some, range(0, 300, 5)))
    assert metrics(port)["scorer_rows_total"] - before == 300
