"""verify notices every edit: of a model, of the region, of any field of the certificate."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pine_boost.certificate.certificate import Certificate
from pine_boost.errors import CertificateMismatch, MalformedModelError
from pine_boost.model.digest import forest_digest
from pine_boost.parsers import read_model
from pine_boost.region.region import Region
from pine_boost.result import PruneResult
from pine_boost.verifying import verify
from tests.support.verifying import pruned_model


@pytest.fixture(scope="module")
def booster() -> tuple[Any, PruneResult]:
    model, result = pruned_model("xgboost")
    assert result.certificate.grid >= 0  # something was removed
    return model, result


def _edit_region(edit: Any) -> Any:
    def changed(region: Region) -> Region:
        document = region.to_json()
        edit(document)
        return Region.from_json(json.dumps(document))

    return changed


def _bump(document: dict[str, Any], *path: Any, by: int = 1) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] += by


REGION_EDITS = {
    "tau": lambda d: _bump(d, "tau"),
    "alpha": lambda d: d.update(alpha=0.3),
    "one cost": lambda d: _bump(d, "score", "pairs", 0, 2, 0, 0),
    "root cost": lambda d: _bump(d, "score", "unary", d["score"]["pairs"][0][0], 0),
    "calibration": lambda d: _bump(d, "calibration", -1),
    "n_cal": lambda d: (_bump(d, "n_cal"), _bump(d, "overlap", "n_rows")),
    "delta": lambda d: d.update(delta=d["delta"] * 2),
    "cut": lambda d: d.update(cuts=[0.25]),
    "edge": lambda d: d["space"]["axes"][-1]["edges"].__setitem__(0, -123.0),
}


@pytest.mark.parametrize("edit", REGION_EDITS.values(), ids=REGION_EDITS.keys())
def test_an_edited_region_is_noticed(booster: tuple[Any, PruneResult], edit: Any) -> None:
    model, result = booster
    region = _edit_region(edit)(result.region)
    with pytest.raises(CertificateMismatch, match="region is not the one"):
        verify(model, result.model, region, result.certificate)


CONSISTENT_EDITS = {
    "tau": "does not follow from",
    "calibration": "does not follow from",
    "cut": "other decisions",
    "edge": "states of the region",
}


@pytest.mark.parametrize("name", CONSISTENT_EDITS)
def test_an_edited_region_with_a_forged_certificate_is_noticed(booster: tuple[Any, PruneResult], name: str) -> None:
    """What follows from the original or from the calibration scores cannot be chosen freely."""
    model, result = booster
    edit = REGION_EDITS[name]
    if name == "calibration":

        def edit(document: dict[str, Any]) -> None:
            document["calibration"] = [0] * len(document["calibration"])

    region = _edit_region(edit)(result.region)
    certificate = replace(result.certificate, region_fingerprint=region.fingerprint(), tau=region.tau)
    with pytest.raises(CertificateMismatch, match=CONSISTENT_EDITS[name]):
        verify(model, result.model, region, certificate)


def _with_document(native: Any, edit: Any) -> bytes:
    document = json.loads(native.get_booster().save_raw("json"))
    edit(document["learner"]["gradient_booster"]["model"]["trees"])
    return json.dumps(document).encode()


def _first_leaf(trees: list[dict[str, Any]]) -> int:
    return int(np.flatnonzero(np.array(trees[0]["left_children"]) < 0)[0])


def _change_leaf(trees: list[dict[str, Any]]) -> None:
    leaf = _first_leaf(trees)
    value = np.nextafter(np.float32(trees[0]["split_conditions"][leaf]), np.float32(9))
    trees[0]["split_conditions"][leaf] = float(value)


def _change_threshold(trees: list[dict[str, Any]]) -> None:
    value = np.nextafter(np.float32(trees[0]["split_conditions"][0]), np.float32(np.inf))
    trees[0]["split_conditions"][0] = float(value)


def _change_default(trees: list[dict[str, Any]]) -> None:
    trees[0]["default_left"][0] = 1 - trees[0]["default_left"][0]


def _change_feature(trees: list[dict[str, Any]]) -> None:
    trees[0]["split_indices"][0] = (trees[0]["split_indices"][0] + 1) % 6


MODEL_EDITS = [_change_leaf, _change_threshold, _change_default, _change_feature]


@pytest.mark.parametrize("edit", MODEL_EDITS)
def test_an_edited_model_is_noticed(booster: tuple[Any, PruneResult], edit: Any) -> None:
    model, result = booster
    with pytest.raises(CertificateMismatch, match="pruned model is not the one"):
        verify(model, _with_document(result.model, edit), result.region, result.certificate)
    with pytest.raises(CertificateMismatch, match="original model is not the one"):
        verify(_with_document(model, edit), result.model, result.region, result.certificate)


@pytest.mark.parametrize("edit", MODEL_EDITS[1:])
def test_an_edited_split_with_a_forged_certificate_is_noticed(booster: tuple[Any, PruneResult], edit: Any) -> None:
    model, result = booster
    contents = _with_document(result.model, edit)
    digest = forest_digest(read_model(contents).forest)
    forged = replace(result.certificate, pruned_digest=digest)
    with pytest.raises(CertificateMismatch, match="is not tree"):
        verify(model, contents, result.region, forged)


CERTIFICATE_EDITS: dict[str, Any] = {
    "original_digest": "0" * 64,
    "pruned_digest": "0" * 64,
    "region_fingerprint": "0" * 64,
    "alpha": 0.01,
    "tau": None,
    "n_cal": 10**6,
    "n_fit": 10**6,
    "score": "leaf-support",
    "indifference": 0.0,
    "delta": None,
    "undecided": 0.5,
    "grid": 3,
    "kept": (0,),
    "trees_before": 10**6,
    "trees_after": 1,
    "leaves_before": 1,
    "thresholds": (0.4,),
    "status": "NOT_CERTIFIED",
    "claim": "The two models agree everywhere.",
    "unit": "forest",
    "leaves_after": 3,
    "units_before": 13,
    "units_kept": 1,
    "lower_bound": 13,
    "weights": (0.5,),
    "proofs": (),
}


@pytest.mark.parametrize("name", CERTIFICATE_EDITS)
def test_an_edited_certificate_is_noticed(booster: tuple[Any, PruneResult], name: str) -> None:
    model, result = booster
    certificate = replace(result.certificate, **{name: CERTIFICATE_EDITS[name]})
    with pytest.raises(CertificateMismatch):
        verify(model, result.model, result.region, certificate)


def test_edited_counts_with_a_new_digest_are_noticed(booster: tuple[Any, PruneResult]) -> None:
    """Whoever can make digests still cannot state weights or proofs that are not so."""
    model, result = booster
    found = result.certificate
    one_proof = tuple(p for p in found.proofs if p.method == found.proofs[0].method)
    other = (replace(found.proofs[0], question="class 2 over 7"), *found.proofs)
    heavier = (found.weights[0] * 1.001, *found.weights[1:])
    for edit in ({"proofs": one_proof}, {"proofs": other}, {"weights": heavier}, {"lower_bound": -1}):
        with pytest.raises(CertificateMismatch):
            verify(model, result.model, result.region, replace(found, **edit))


@pytest.fixture(scope="module")
def folder(booster: tuple[Any, PruneResult], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The four files; everything below edits one of them."""
    model, result = booster
    folder = tmp_path_factory.mktemp("files")
    model.get_booster().save_model(folder / "original.json")
    result.model.get_booster().save_model(folder / "pruned.json")
    result.region.save(folder / "region.json")
    (folder / "certificate.json").write_text(result.certificate.to_json())
    return folder


FILES = ("original.json", "pruned.json", "region.json", "certificate.json")


def _verdict(folder: Path, name: str, document: Any) -> str:
    """What verify says when one file is exchanged: the type of its error, or what it concluded."""
    edited = folder / f"edited {name}"
    edited.write_text(json.dumps(document))
    paths = [edited if file == name else folder / file for file in FILES]
    try:
        return str(verify(*paths, time_limit=60).agrees)
    except (CertificateMismatch, MalformedModelError) as error:
        return type(error).__name__


def _changed(value: Any) -> Any:
    """Another value of the same type: what a careful forger would write."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 if value else 0.01
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    return 1 if value is None else value


def _edits(document: Any, most: int) -> list[tuple[Any, ...]]:
    """Paths of single values, at most some of each list: every field, and entries of tables."""
    rng = np.random.default_rng(0)
    paths, stack = [], [((), document)]
    while stack:
        path, value = stack.pop()
        if not isinstance(value, (dict, list)):
            paths.append(path)
            continue
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if isinstance(value, list) and len(keys) > most:
            keys = sorted(rng.choice(len(keys), most, replace=False).tolist())
        stack += [((*path, key), value[key]) for key in keys]
    return paths


def _edited(document: Any, path: tuple[Any, ...]) -> Any:
    document = json.loads(json.dumps(document))
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = _changed(parent[path[-1]])
    return document


def test_the_files_themselves_are_proved(folder: Path) -> None:
    for name in FILES:
        assert _verdict(folder, name, json.loads((folder / name).read_text())) == "True"


def test_any_edited_value_of_the_certificate_is_noticed(folder: Path) -> None:
    document = json.loads((folder / "certificate.json").read_text())
    assert set(document) == {field.name for field in fields(Certificate)} | {"format", "format_version", "digest"}
    edits = [path for path in _edits(document, 100) if path[0] not in ("timings", "date")]
    empty = {"thresholds", "files"}
    assert {path[0] for path in edits} | {"timings", "date"} | empty == set(document)
    for path in edits:
        verdict = _verdict(folder, "certificate.json", _edited(document, path))
        assert verdict == "CertificateMismatch", path


def test_any_field_removed_from_or_added_to_the_certificate_is_noticed(folder: Path) -> None:
    document = json.loads((folder / "certificate.json").read_text())
    for name in document:
        less = {key: value for key, value in document.items() if key != name}
        assert _verdict(folder, "certificate.json", less) == "CertificateMismatch", name
    more = {**document, "note": "trust me"}
    assert _verdict(folder, "certificate.json", more) == "CertificateMismatch"
    for name in ("thresholds", "kept", "weights", "proofs"):
        longer = {**document, name: [*document[name], *(document[name][:1] or [0.5])]}
        assert _verdict(folder, "certificate.json", longer) == "CertificateMismatch", name


def test_any_edited_value_of_the_region_is_noticed(folder: Path) -> None:
    document = json.loads((folder / "region.json").read_text())
    edits = _edits(document, 4)
    assert {path[0] for path in edits} >= {"tau", "alpha", "calibration", "score", "space"}
    assert len(edits) > 100
    for path in edits:
        verdict = _verdict(folder, "region.json", _edited(document, path))
        assert verdict in ("CertificateMismatch", "MalformedModelError"), path


@pytest.mark.parametrize("name", FILES[:2])
def test_any_edited_leaf_of_a_model_is_noticed(folder: Path, name: str) -> None:
    """Every leaf of every tree, moved by one unit in the last place."""
    document = json.loads((folder / name).read_text())
    n_edited = 0
    for number, tree in enumerate(document["learner"]["gradient_booster"]["model"]["trees"]):
        for node in np.flatnonzero(np.array(tree["left_children"]) < 0).tolist():
            edited = json.loads(json.dumps(document))
            own = edited["learner"]["gradient_booster"]["model"]["trees"][number]
            value = np.float32(own["split_conditions"][node])
            own["split_conditions"][node] = float(np.nextafter(value, np.float32(9)))
            assert _verdict(folder, name, edited) == "CertificateMismatch", (number, node)
            n_edited += 1
    assert n_edited >= 8
