"""Latency of the example service with the native model and with its scorers (python -m benchmarks.scorer).

Three servers on this machine, the model's own ``predict``, the accelerated model and a guarded one, answer the same
few connections in turns. Writes percentiles for several request sizes, the processor time of the server for a request,
whose ratio hardly depends on other work on the machine, and a figure.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare import RESULTS
from benchmarks.machine import record_run
from benchmarks.runner import append_rows

ROOT = Path(__file__).resolve().parent.parent
SERVE = ROOT / "examples" / "scorer" / "serve.py"
COLUMNS = ("model", "scorer", "rows", "requests", "p10_ms", "p50_ms", "p90_ms", "cpu_ms", "times_native")
SIZES = (1, 10, 100, 1000)
SCORERS = ("native", "accelerated", "guarded")


def make_folders(folder: Path) -> dict[str, tuple[Path, np.ndarray]]:
    """A certified model, and a compressed one of the size people run; rows to ask about."""
    from sklearn.datasets import make_classification
    from xgboost import XGBClassifier

    from pine_boost import GuardedModel, accelerate_booster, compress_booster, prune_booster

    X, y = make_classification(20_000, 10, n_informative=5, n_redundant=0, class_sep=1.5, random_state=0)
    X = X.round(2).astype(np.float32)
    small = XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.1, n_jobs=1)
    small.fit(X[:2000], y[:2000])
    large = XGBClassifier(n_estimators=500, max_depth=6, n_jobs=1).fit(X[:6000], y[:6000])
    pruned = prune_booster(small, X[:2000], X[2000:6000], alpha=0.2, time_limit=30)
    compressed = compress_booster(large, X[:6000], X[6000:10_000], fidelity=0.98, time_limit=90)
    guards = {"30 x 2": GuardedModel(pruned), "500 x 6": GuardedModel(compressed, X[10_000:15_000], fidelity=0.999)}
    for (name, guarded), model in zip(guards.items(), (small, large), strict=True):
        print(guarded, guarded.claim)
        guarded.save(folder / name / "guarded")
        accelerate_booster(model).save(folder / name / "accelerated")
        model.save_model(folder / name / "native.json")
    return {name: (folder / name, X[15_000:]) for name in guards}


@contextmanager
def server(folder: Path, scorer: str) -> Iterator[tuple[int, int]]:
    """A running service; the port it listens on, and its process."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
    what = ["--native", folder / "native.json"] if scorer == "native" else ["--folder", folder / scorer]
    process = subprocess.Popen(
        [sys.executable, SERVE, *what, "--port", str(port)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and process.poll() is None:
            try:
                ask(http.client.HTTPConnection("127.0.0.1", port, timeout=5), "GET", "/health")
                break
            except OSError:
                time.sleep(0.3)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(20)


def processor_seconds(process: int) -> float:
    """What a process has computed so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(connection: Any, method: str, path: str, body: bytes | None = None) -> bytes:
    """One request; the answer must be a good one."""
    connection.request(method, path, body)
    answer = connection.getresponse()
    contents: bytes = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path} answered {answer.status}: {contents[:200]!r}")
    return contents


def latencies(port: int, bodies: list[bytes], n_connections: int) -> list[float]:
    """Seconds of each request, over a few connections that stay open."""

    def work(share: list[bytes]) -> list[float]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        seconds = []
        for body in share:
            started = time.perf_counter()
            ask(connection, "POST", "/predict", body)
            seconds.append(time.perf_counter() - started)
        connection.close()
        return seconds

    with ThreadPoolExecutor(n_connections) as pool:
        shares = [bodies[number::n_connections] for number in range(n_connections)]
        return [seconds for part in pool.map(work, shares) for seconds in part]


def measure(name: str, folder: Path, X: np.ndarray, options: Any) -> list[dict[str, Any]]:
    """All scorers, asked in turns, for every size of a request."""
    rows = []
    rng = np.random.default_rng(0)
    with ExitStack() as stack:
        servers = {scorer: stack.enter_context(server(folder, scorer)) for scorer in SCORERS}
        for size in options.sizes:
            n_requests = max(options.requests // max(size // 20, 1), 40)
            bodies = [
                json.dumps({"rows": X[rng.integers(0, len(X), size)].tolist()}).encode() for _ in range(n_requests)
            ]
            seconds: dict[str, list[float]] = {scorer: [] for scorer in SCORERS}
            spent = dict.fromkeys(SCORERS, 0.0)
            for start in range(0, n_requests, 20):  # in turns: a busy machine slows all alike
                for scorer, (port, process) in servers.items():
                    before = processor_seconds(process)
                    seconds[scorer] += latencies(port, bodies[start : start + 20], options.connections)
                    spent[scorer] += processor_seconds(process) - before
            for scorer in SCORERS:
                p10, p50, p90 = np.percentile(seconds[scorer], [10, 50, 90]) * 1000
                rows.append(
                    {
                        "model": name,
                        "scorer": scorer,
                        "rows": size,
                        "requests": n_requests,
                        "p10_ms": f"{p10:.2f}",
                        "p50_ms": f"{p50:.2f}",
                        "p90_ms": f"{p90:.2f}",
                        "cpu_ms": f"{1000 * spent[scorer] / n_requests:.2f}",
                        "times_native": f"{spent['native'] / spent[scorer]:.2f}",
                    }
                )
                print("| " + " | ".join(str(value) for value in rows[-1].values()) + " |", flush=True)
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Median and 10th percentile over the rows of a request, one picture per model."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, axes = plt.subplots(1, len(models), figsize=(4.6 * len(models), 3.6), squeeze=False)
    for ax, model in zip(axes[0], models, strict=True):
        for scorer, colour in zip(SCORERS, ("#8a5a00", "#1f6f4a", "#35508f"), strict=True):
            mine = [row for row in rows if (row["model"], row["scorer"]) == (model, scorer)]
            sizes = [int(row["rows"]) for row in mine]
            for column, style in (("p50_ms", "-"), ("p10_ms", ":")):
                values = [float(row[column]) for row in mine]
                label = scorer if column == "p50_ms" else None
                ax.plot(sizes, values, style, color=colour, marker="o", ms=4, label=label)
        ax.set(xscale="log", yscale="log", title=model, xlabel="rows in a request")
    axes[0][0].set_ylabel("ms over HTTP: median, fastest tenth (dotted)")
    axes[0][0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scorer", description=__doc__)
    parser.add_argument("--requests", type=int, default=600, help="most requests of one size")
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--out", type=Path, default=RESULTS / "scorer.csv")
    parser.add_argument("--figure", type=Path, default=ROOT / "docs" / "scorer-latency.png")
    options = parser.parse_args(arguments)
    if arguments is None:
        record_run(options.out)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folders = make_folders(Path(name))
        print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
        for model, (folder, X) in folders.items():
            rows += measure(model, folder, X, options)
    options.out.unlink(missing_ok=True)
    append_rows(options.out, COLUMNS, rows)
    draw(rows, options.figure)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
