"""compression.json of earlier formats is read as what it said then."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

import pine_boost
from pine_boost import CertificateMismatch
from pine_boost.compression.record import read_record
from tests.support.native_models import make_table

xgboost = pytest.importorskip("xgboost")

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

SINCE_2, SINCE_3 = (("leaves_lossless",), ("proved_distance", "proved_largest", "proved_rows", "proved_trees"))


@pytest.fixture(scope="module")
def compressed() -> Any:
    X, y = make_table(2, n_rows=900)
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(X[:500], y[:500])
    return model, X[500:], pine_boost.compress_booster(model, X[:500], X[500:], fidelity=0.9)


def _as_written_then(record: Any, version: int) -> bytes:
    """The record as the code of that format wrote it, with a digest of its own."""
    document = json.loads(record.to_json())
    del document["digest"]
    document["format_version"] = version
    for name in SINCE_3 + (SINCE_2 if version == 1 else ()):
        del document[name]
    if version == 1:
        for entry in document["path"]:
            del entry["chain"]
    covered = {name: value for name, value in document.items() if name not in ("date", "seconds")}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    return json.dumps({**document, "digest": hashlib.sha256(text.encode()).hexdigest()}).encode()


@pytest.mark.parametrize("version", [1, 2])
def test_an_earlier_format_is_read_and_verified(compressed: Any, version: int) -> None:
    model, X_val, result = compressed
    read = read_record(_as_written_then(result.record, version))
    assert (read.claim, read.n_changed) == (result.record.claim, result.record.n_changed)
    assert len(read.path) == len(result.path)
    assert read.proved_distance is None
    assert read.proved_claim() == ""
    if version == 1:
        assert {size.chain for size in read.path} == {"path"}
        assert read.leaves_lossless == read.leaves_before
    assert pine_boost.verify_compression(model, result.model, read, X_val).agrees


def test_an_edited_earlier_record_and_an_unknown_format_are_refused(compressed: Any) -> None:
    *_, result = compressed
    written = _as_written_then(result.record, 1)
    changed = json.loads(written)
    changed["n_changed"] += 1
    with pytest.raises(CertificateMismatch, match="digest"):
        read_record(json.dumps(changed).encode())
    with pytest.raises(CertificateMismatch, match="format version 4"):
        read_record(written.replace(b'"format_version": 1', b'"format_version": 4'))
