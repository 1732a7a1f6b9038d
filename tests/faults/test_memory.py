"""Little memory: an error or a certified model, never a crash."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("xgboost")
pytest.importorskip("resource")

# the limit counts address space: what the libraries map before any work is added to it
_PROGRAM = textwrap.dedent(
    """
    import resource, sys
    import numpy as np, xgboost, pine_boost, pine_boost.prune
    trees, depth, features, megabytes, seconds = map(int, sys.argv[1:])
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, features)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + X[:, 2] + random.normal(size=3000) > 0).astype(int)
    options = {"n_estimators": trees, "max_depth": depth, "n_jobs": 1, "tree_method": "hist"}
    model = xgboost.XGBClassifier(**options).fit(X, y)
    if megabytes < 1000:  # beyond what is mapped already
        mapped = next(int(line.split()[1]) for line in open("/proc/self/status")
                      if line.startswith("VmSize"))
        limit = mapped * 1024 + megabytes * 2**20
    else:
        limit = megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        result = pine_boost.prune_booster(
            model, X[:2000], X[2000:], alpha=0.2, time_limit=seconds or None
        )
    except (pine_boost.PineBoostError, MemoryError) as error:
        print("error", type(error).__name__, str(error).replace(chr(10), " "))
    else:
        print("result", result.status, result.search.stopped, result.certificate.trees_after)
        print(result.certificate.reason)
    """
)


def _run(*arguments):
    command = [sys.executable, "-c", _PROGRAM, *map(str, arguments)]
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-1000:]}"
    return done.stdout


# ends with whole trees; with leaf values (38 MB of it are mapped, not used, by the CP-SAT that finds hitting sets)
@pytest.mark.parametrize("megabytes", [70, pytest.param(130, marks=pytest.mark.slow)])
def test_memory_that_ends_during_the_search_is_no_crash(megabytes):
    output = _run(60, 5, 20, megabytes, 0)
    if megabytes > 100:
        assert output.startswith("result CERTIFIED optimal 60")
        return
    assert "MemoryError" in output or "The memory ran out before a smaller model" in output, output


@pytest.mark.slow
# below some 50 MB OpenBLAS ends the process itself, in a line of its own and with status 1
@pytest.mark.parametrize("megabytes", [60, 80, 120, 200, 300])
def test_any_amount_of_memory(megabytes):
    assert _run(100, 6, 30, megabytes, 30).startswith(("error", "result"))


@pytest.mark.slow
def test_two_gigabytes_and_a_large_model():
    assert _run(1000, 8, 60, 2048, 60).startswith(("error", "result"))
