"""Folders of Parquet files on the command line give what one file gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pine_boost.fleet import Job
from pine_boost.fleet.run import Policy, run_job
from pine_boost.tables.table_files import read_any
from tests.support.command_line import run

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


def _folder(source: Path, target: Path) -> Path:
    frame = read_any(source, {})
    target.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(target / f"part-{number}.parquet", index=False)
    return target


def test_prune_and_fleet(files, tmp_path, capsys):
    fit, cal = (_folder(files / f"{name}.csv", tmp_path / name) for name in ("fit", "cal"))
    common = ["prune", files / "model.json", "--alpha", 0.5, "--no-report"]
    code, _, err = run(capsys, *common, "--fit", fit, "--cal", cal, "-o", tmp_path / "chunks")
    assert code == 0, err
    code, _, err = run(
        capsys, *common, "--fit", files / "fit.csv", "--cal", files / "cal.csv", "-o", tmp_path / "whole"
    )
    assert code == 0, err
    chunks, whole = ((tmp_path / n / "region.json").read_bytes() for n in ("chunks", "whole"))
    assert chunks == whole
    job = Job("a", str(files / "model.json"), str(fit), str(cal))
    row = run_job(job, str(tmp_path / "fleet"), Policy("prune", {"alpha": 0.5}))
    assert row.status == "CERTIFIED", row.error
    assert (tmp_path / "fleet" / "a" / "region.json").read_bytes() == whole
    code, out, err = run(capsys, "verify", files / "model.json", tmp_path / "chunks", "--fit", fit, "--cal", cal)
    assert code == 0, err
    assert "AGREES" in out


def test_compress_and_its_verification(files, tmp_path, capsys):
    val = _folder(files / "cal.csv", tmp_path / "val")
    common = ["compress", files / "model.json", "--fit", files / "fit.csv", "--fidelity", 0.9]
    found = []
    for number, given in enumerate((val, files / "cal.csv")):
        code, out, err = run(capsys, *common, "--val", given, "-o", tmp_path / f"{number}", "--json")
        assert code in (0, 2), err
        document = json.loads(out)
        found.append({k: v for k, v in document.items() if k not in ("seconds", "folder")})
    assert found[0] == found[1]
    code, out, err = run(capsys, "verify", files / "model.json", tmp_path / "0", "--val", val)
    assert code == 0, err
    (tmp_path / "empty").mkdir()
    code, _, err = run(capsys, *common, "--val", tmp_path / "empty", "-o", tmp_path / "none")
    assert code == 1
    assert "Traceback" not in err
