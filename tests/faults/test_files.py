"""Output under bad conditions: killed at any moment, no space, no permission."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lightgbm
import numpy as np
import pytest

from pine_boost import Certificate, InvalidInputError, OutputError, Region, prune_booster
from pine_boost.folders import write_folder
from pine_boost.model.digest import forest_digest
from pine_boost.parsers import read_model


@pytest.fixture(scope="module")
def results():
    """Two results of one model, whose files differ."""
    X = np.random.default_rng(0).normal(size=(300, 4))
    y = X[:, 0] + X[:, 1] ** 2 > 0.7
    options = {"n_estimators": 8, "num_leaves": 4, "n_jobs": 1, "verbose": -1}
    model = lightgbm.LGBMClassifier(**options).fit(X, y)
    return [prune_booster(model, X[:200], X[200:], alpha=alpha) for alpha in (0.1, 0.5)]


def _contents(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if not path.name.startswith(".")
    }


_WRITER = """
import sys, pathlib
from pine_boost.folders import write_folder
target, *sources = map(pathlib.Path, sys.argv[1:])
sets = [{p.name: p.read_bytes() for p in source.iterdir()} for source in sources]
for number in range(10**9):
    write_folder(target, sets[number % 2])
    if number == 0:
        print("ready", flush=True)  # a busy machine takes its time for the first
"""


def _kill_while_writing(tmp_path, results, n_kills, seed):
    """Kill a process that writes two outputs in turn; what is left must be one of them."""
    sources = [result.save(tmp_path / f"source{k}") for k, result in enumerate(results)]
    complete = [_contents(source) for source in sources]
    assert complete[0] != complete[1]
    target = tmp_path / "target"
    seen = set()
    for pause in np.random.default_rng(seed).uniform(0.0, 0.05, n_kills):
        command = [sys.executable, "-c", _WRITER, str(target), *map(str, sources)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout.readline() == "ready\n"
        time.sleep(pause)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        if target.exists():
            found = _contents(target)
            assert found in complete, sorted(found)
            _require_readable(target)
            seen.add("old" if found == complete[0] else "new")
    return seen


def _require_readable(folder):
    certificate = Certificate.load(folder / "certificate.json")
    assert Region.load(folder / "region.json").fingerprint() == certificate.region_fingerprint
    pruned = read_model(folder / "model.txt").forest
    assert forest_digest(pruned) == certificate.pruned_digest


@pytest.mark.posix
def test_killed_while_saving_leaves_the_old_or_the_new_output(tmp_path, results):
    assert _kill_while_writing(tmp_path, results, n_kills=6, seed=0)


@pytest.mark.posix
@pytest.mark.slow
def test_killed_two_hundred_times_while_saving(tmp_path, results):
    assert _kill_while_writing(tmp_path, results, n_kills=200, seed=1) == {"old", "new"}


def test_a_folder_with_other_files_has_a_certificate_only_when_it_is_complete(tmp_path, results):
    """Beside a user's own files the parts are replaced one by one: the certificate comes last."""
    folder = results[0].save(tmp_path / "out")
    (folder / "notes.txt").write_text("my own")
    states = []
    real = os.replace

    def replace(source, target):
        real(source, target)
        if Path(target).parent == folder:
            states.append(sorted(path.name for path in folder.iterdir()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replace)
        results[1].save(folder)
    assert len(states) == 4
    assert all("certificate.json" not in state for state in states[:-1])
    assert (folder / "notes.txt").read_text() == "my own"
    _require_readable(folder)
    assert json.loads((folder / "certificate.json").read_text())["alpha"] == 0.5
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.posix
def test_a_link_to_a_folder_stays_a_link(tmp_path, results):
    real = results[0].save(tmp_path / "real")
    link = tmp_path / "link"
    link.symlink_to(real)
    results[1].save(link)
    assert link.is_symlink()
    _require_readable(real)
    assert Certificate.load(link / "certificate.json").alpha == 0.5


_LIMITS = (0, 100, 3000)
_LIMITED = """
import os, resource, signal, sys, pathlib
from pine_boost.errors import PineBoostError
from pine_boost.folders import write_folder
source, target, *limits = sys.argv[1:]
files = {p.name: p.read_bytes() for p in pathlib.Path(source).iterdir()}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in limits:
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    try:
        write_folder(target, files)
    except PineBoostError as error:
        print(type(error).__name__, error, flush=True)
    os._exit(0)
"""


@pytest.mark.posix
@pytest.mark.parametrize("exists", [False, True])
def test_no_space_is_one_line_and_leaves_what_was_there(tmp_path, results, exists):
    source, target = results[1].save(tmp_path / "source"), tmp_path / "target"
    before = _contents(results[0].save(target)) if exists else None
    command = [sys.executable, "-c", _LIMITED, str(source), str(target), *map(str, _LIMITS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == len(_LIMITS)
    for line in lines:
        assert line.startswith("OutputError")
        assert "cannot be written (File too large); free some space or choose another" in line
    assert (_contents(target) if target.exists() else None) == before
    assert {path.name for path in tmp_path.iterdir()} <= {"source", "target"}


def test_a_full_disk_is_one_line(tmp_path, results):
    """A real file system of 64 KiB, where this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True).returncode == 0
    try:
        target = disk / "out" if mounted else Path("/dev/full/out")
        files = {"model.txt": bytes(200_000), "certificate.json": b"{}"}
        with pytest.raises(OutputError, match="cannot be written") as error:
            write_folder(target, files)
        assert "\n" not in str(error.value)
        if mounted:
            assert "No space left on device" in str(error.value)
            assert list(disk.iterdir()) == []
    finally:
        if mounted:
            subprocess.run(["umount", str(disk)], check=True)


def test_a_place_that_may_not_be_written_is_one_line(tmp_path, results):
    for place in ("/proc/pine", "/proc/x/y", "/sys/pine", "/dev/null/pine"):
        with pytest.raises((OutputError, InvalidInputError), match="cannot be written") as error:
            results[0].save(place)
        assert "\n" not in str(error.value)
        with pytest.raises(OutputError, match="cannot be written"):
            results[0].region.save(place)


@pytest.mark.posix
def test_a_read_only_folder_is_one_line(tmp_path, results):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    program = (
        "import os, sys\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: os.mkdir(sys.argv[1])\n"
        "except PermissionError as error: print('refused')\n"
    )
    for path in (tmp_path, *tmp_path.parents):  # the other user must be able to get there
        if path.stat().st_uid == os.getuid() and len(path.parts) > 2:
            path.chmod(path.stat().st_mode | 0o011)
    check = [sys.executable, "-c", program, str(folder / "out")]
    assert subprocess.run(check, capture_output=True, text=True).stdout == "refused\n"
    writer = (
        "import os, sys\n"
        "from pine_boost.folders import write_folder\n"
        "from pine_boost.errors import OutputError\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: write_folder(sys.argv[1], {'certificate.json': b'{}'})\n"
        "except OutputError as error: print(error)\n"
    )
    command = [sys.executable, "-c", writer, str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert "cannot be written (Permission denied)" in done.stdout, done.stderr
    assert done.stdout.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_files_that_are_too_large_are_not_read(tmp_path):
    for reader, mebibytes in ((read_model, 1025), (Region.load, 1025), (Certificate.load, 65)):
        path = tmp_path / "file.json"
        with path.open("wb") as file:
            file.truncate(mebibytes * 2**20)  # sparse: takes no space
        with pytest.raises(Exception, match=r"larger than any .* \([0-9]+ MiB at most\)") as error:
            reader(path)
        assert "PineBoostError" in {base.__name__ for base in type(error.value).__mro__}


@pytest.mark.posix
def test_a_pipe_nobody_writes_to_is_not_waited_for(tmp_path):
    pipe = tmp_path / "model.json"
    os.mkfifo(pipe)
    for reader in (read_model, Region.load, Certificate.load):
        with pytest.raises(InvalidInputError, match="pipe or device"):
            reader(pipe)
