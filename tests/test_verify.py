"""verify: agrees with what was proved, finds what was planted, and notices every edit."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pine_boost.certificate import Certificate, forest_digest
from pine_boost.conclusion import conclude
from pine_boost.correspondence import correspond, require_decisive
from pine_boost.errors import CertificateMismatch, InvalidInputError, MalformedModelError
from pine_boost.exporters import export
from pine_boost.forest import SplitKind, find_leaves, spread
from pine_boost.native import predict_classes
from pine_boost.parsers import read_model
from pine_boost.prune import prune_booster
from pine_boost.region.region import Region, fit_region
from pine_boost.result import PruneResult
from pine_boost.search import box_jobs
from pine_boost.search.game import build_game
from pine_boost.search.oracle import Answer
from pine_boost.states import build_space
from pine_boost.verification import verify
from tests.grids import grid_forest, integer_margins

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
ensemble = pytest.importorskip("sklearn.ensemble")
datasets = pytest.importorskip("sklearn.datasets")


def _table(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    loader = datasets.load_breast_cancer if n_classes == 2 else datasets.load_iris
    X, y = loader(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order][:, :6], y[order]


MAKERS: dict[str, tuple[int, Any]] = {
    "xgboost": (2, lambda: xgboost.XGBClassifier(n_estimators=12, max_depth=2, n_jobs=1)),
    "xgboost-3": (3, lambda: xgboost.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1)),
    "dart": (
        2,
        lambda: xgboost.XGBClassifier(
            n_estimators=8, max_depth=2, booster="dart", rate_drop=0.3, n_jobs=1
        ),
    ),
    "lightgbm": (
        2, lambda: lightgbm.LGBMClassifier(n_estimators=12, max_depth=2, n_jobs=1, verbose=-1),
    ),
    "lightgbm-3": (
        3, lambda: lightgbm.LGBMClassifier(n_estimators=5, max_depth=2, n_jobs=1, verbose=-1),
    ),
    "lightgbm-rf": (
        2,
        lambda: lightgbm.LGBMClassifier(
            n_estimators=8, max_depth=3, boosting_type="rf", bagging_freq=1, bagging_fraction=0.6,
            n_jobs=1, verbose=-1,
        ),
    ),
    "gradient": (
        2, lambda: ensemble.GradientBoostingClassifier(n_estimators=12, max_depth=2, random_state=0)
    ),
    "gradient-3": (
        3, lambda: ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)
    ),
    "histogram": (
        2, lambda: ensemble.HistGradientBoostingClassifier(max_iter=8, max_depth=2, random_state=0)
    ),
    "forest": (2, lambda: ensemble.RandomForestClassifier(8, max_depth=3, random_state=0)),
    "forest-3": (3, lambda: ensemble.RandomForestClassifier(8, max_depth=3, random_state=0)),
    "extra-trees": (2, lambda: ensemble.ExtraTreesClassifier(8, max_depth=3, random_state=0)),
    "adaboost": (2, lambda: ensemble.AdaBoostClassifier(n_estimators=10, random_state=0)),
    "adaboost-3": (3, lambda: ensemble.AdaBoostClassifier(n_estimators=8, random_state=0)),
}  # fmt: skip


def _fitted(kind: str) -> tuple[Any, np.ndarray]:
    n_classes, make = MAKERS[kind]
    X, y = _table(n_classes)
    n = len(X) // 2
    return make().fit(X[:n], y[:n]), X


def _pruned(kind: str, **options: Any) -> tuple[Any, PruneResult]:
    model, X = _fitted(kind)
    n = len(X) // 2
    options = {"alpha": 0.2, "indifference": 0.05, **options}
    return model, prune_booster(model, X[:n], X[n:], **options)


@pytest.fixture(scope="module")
def booster() -> tuple[Any, PruneResult]:
    model, result = _pruned("xgboost")
    assert result.certificate.grid >= 0  # something was removed
    return model, result


@pytest.mark.parametrize("kind", MAKERS)
def test_the_file_gives_back_the_integers(kind: str) -> None:
    """Random weights, exported, read again: the same margins over the original's trees."""
    model, X = _fitted(kind)
    parsed = read_model(model)
    forest = parsed.forest
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 5, forest.n_trees) / 4.0
    weights[rng.permutation(forest.n_trees)[: forest.n_trees // 3]] = 0.0
    pruned = grid_forest(forest, weights, grid=16)
    smaller = read_model(export(parsed, pruned)).forest
    matched = correspond(forest, smaller, pruned.kept.tolist(), 16)
    rows = X + 0.0
    if forest.accepts_missing:
        rows[rng.random(X.shape) < 0.1] = np.nan
    assert np.array_equal(integer_margins(matched.pruned, rows), integer_margins(pruned, rows))
    space_free = find_leaves(smaller, rows)
    native = spread(smaller, smaller.value)[space_free].sum(axis=1) + smaller.intercept
    error = np.abs(np.ldexp(native, 16) - integer_margins(matched.pruned, rows)).max()
    assert Fraction(float(error)) <= matched.deviation * 2**16 + Fraction(1, 2**30)
    if kind.startswith(("xgboost", "dart", "gradient", "histogram", "forest")):
        assert matched.deviation == 0


@pytest.mark.parametrize("kind", [k for k in MAKERS if "forest" not in k and k != "extra-trees"])
def test_a_pruned_model_is_proved_twice(kind: str) -> None:
    model, result = _pruned(kind)
    found = verify(model, result.model, result.region, result.certificate)
    assert found.agrees is True
    assert found.proved_twice
    assert found.covered == 1.0
    assert found.counterexample is None
    assert "AGREES" in found.summary()
    methods = {proof.method for proof in found.proofs}
    assert result.certificate.grid < 0 or len(methods) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"score": "leaf-support"},
        {"threshold": 0.3},
        {"threshold": (0.2, 0.8)},
        {"indifference": 0.0},
        {"alpha": 0.0, "indifference": 0.0},
    ],
    ids=["leaf-support", "threshold", "bands", "decided", "faithful"],
)
def test_every_kind_of_region_is_verified(options: dict[str, Any]) -> None:
    model, result = _pruned("xgboost", **options)
    found = verify(model, result.model, result.region, result.certificate)
    assert found.agrees is True
    assert found.proved_twice


def test_a_faithful_model_is_verified_over_an_isolation_forest() -> None:
    """Its hundreds of extra edges are part of the region's space, not of the model's."""
    model, result = _pruned("xgboost", alpha=0.0, indifference=0.0)
    assert result.certificate.grid >= 0
    forest = result.original.forest
    X, _ = _table(2)
    n = len(X) // 2
    region = fit_region(forest, X[:20], X[n:], alpha=0.2, score="isolation-forest")
    assert region.space.n_states.sum() > 2 * build_space(forest).n_states.sum()
    game = build_game(forest, region.space, region.tables)
    moved = conclude(
        result.original, region, game, result.search, objective="l0", unit="round"
    ).certificate
    found = verify(model, result.model, region, moved)
    assert found.agrees is True
    assert found.proved_twice


def test_files_alone_are_enough(booster: tuple[Any, PruneResult], tmp_path: Path) -> None:
    model, result = booster
    model.get_booster().save_model(tmp_path / "original.json")
    result.model.get_booster().save_model(tmp_path / "pruned.ubj")
    result.region.save(tmp_path / "region.json")
    (tmp_path / "certificate.json").write_text(result.certificate.to_json())
    found = verify(
        tmp_path / "original.json",
        tmp_path / "pruned.ubj",
        tmp_path / "region.json",
        str(tmp_path / "certificate.json"),
    )
    assert found.agrees is True


def test_the_original_kept_is_nothing_to_prove(booster: tuple[Any, PruneResult]) -> None:
    model, result = booster
    digest = result.certificate.original_digest
    kept = tuple(range(result.certificate.trees_before))
    certificate = replace(
        result.certificate, pruned_digest=digest, grid=-1, kept=kept, trees_after=len(kept)
    )
    assert verify(model, model, result.region, certificate).agrees is True
    forged = replace(result.certificate, grid=-1)
    with pytest.raises(CertificateMismatch, match="original was kept, but the two models differ"):
        verify(model, result.model, result.region, forged)


def _planted(result: PruneResult, seed: int) -> tuple[Any, Certificate]:
    """One leaf of the pruned model moved by a lot, and a certificate forged to match."""
    rng = np.random.default_rng(seed)
    pruned = result.search.pruned
    assert pruned is not None
    forest = pruned.forest
    own = np.isin(forest.node_tree, pruned.kept) & (forest.kind == SplitKind.LEAF)
    value = pruned.value_int.copy()
    value[rng.choice(np.flatnonzero(own))] *= -3
    native = export(result.original, replace(pruned, value_int=value))
    digest = forest_digest(read_model(native).forest)
    return native, replace(result.certificate, pruned_digest=digest)


def test_a_forged_certificate_is_refuted_natively(booster: tuple[Any, PruneResult]) -> None:
    model, result = booster
    n_refuted = 0
    for seed in range(6):
        native, certificate = _planted(result, seed)
        found = verify(model, native, result.region, certificate)
        if found.agrees is not False:
            continue
        n_refuted += 1
        point = found.counterexample
        assert point is not None
        assert point.native
        row = point.row[None]
        assert result.region.contains(row, model=result.original)[0]
        assert int(model.predict(row)[0]) == point.original_class
        assert int(native.predict(row)[0]) == point.pruned_class != point.original_class
        assert "DISAGREES" in str(found)
    assert n_refuted >= 3


def test_both_methods_refute(booster: tuple[Any, PruneResult]) -> None:
    model, result = booster
    for seed in range(6):
        native, certificate = _planted(result, seed)
        found = verify(model, native, result.region, certificate)
        by_question: dict[str, set[Answer]] = {}
        for proof in found.proofs:
            by_question.setdefault(proof.question.name, set()).add(proof.answer)
        assert all(len(answers) == 1 for answers in by_question.values())


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
    "n_cal": lambda d: _bump(d, "n_cal"),
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
def test_an_edited_region_with_a_forged_certificate_is_noticed(
    booster: tuple[Any, PruneResult], name: str
) -> None:
    """What follows from the original or from the calibration scores cannot be chosen freely."""
    model, result = booster
    edit = REGION_EDITS[name]
    if name == "calibration":

        def edit(document: dict[str, Any]) -> None:
            document["calibration"] = [0] * len(document["calibration"])

    region = _edit_region(edit)(result.region)
    certificate = replace(
        result.certificate, region_fingerprint=region.fingerprint(), tau=region.tau
    )
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
def test_an_edited_split_with_a_forged_certificate_is_noticed(
    booster: tuple[Any, PruneResult], edit: Any
) -> None:
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
}


@pytest.mark.parametrize("name", CERTIFICATE_EDITS)
def test_an_edited_certificate_is_noticed(booster: tuple[Any, PruneResult], name: str) -> None:
    model, result = booster
    certificate = replace(result.certificate, **{name: CERTIFICATE_EDITS[name]})
    with pytest.raises(CertificateMismatch):
        verify(model, result.model, result.region, certificate)


@pytest.mark.parametrize("grid", [-7, 21, 60])
def test_an_impossible_grid_is_refused(booster: tuple[Any, PruneResult], grid: int) -> None:
    _, result = booster
    kept = list(result.certificate.kept)
    with pytest.raises(CertificateMismatch, match="grid"):
        correspond(result.original.forest, result.pruned.forest, kept, grid)


@pytest.mark.parametrize("kept", [[3, 2], [0, 0], [-1], [10**6]])
def test_impossible_trees_are_refused(booster: tuple[Any, PruneResult], kept: list[int]) -> None:
    _, result = booster
    with pytest.raises(CertificateMismatch, match="ascending"):
        correspond(result.original.forest, result.pruned.forest, kept, 16)


def test_another_kind_of_model_is_refused(booster: tuple[Any, PruneResult]) -> None:
    _, result = booster
    other = read_model(_fitted("lightgbm")[0]).forest
    with pytest.raises(CertificateMismatch, match="differ in library"):
        correspond(result.original.forest, other, list(result.certificate.kept), 16)


def test_leaves_off_the_grid_are_not_decisive(booster: tuple[Any, PruneResult]) -> None:
    """Thirds of a coarse unit: the integers say nothing about the native margin any more."""
    _, result = booster
    forest = result.original.forest
    smaller = replace(forest, value=forest.value / 3)
    game = build_game(forest, result.region.space, result.region.tables)
    matched = correspond(forest, smaller, range(forest.n_trees), 4)
    with pytest.raises(CertificateMismatch, match="smaller than what the native decision"):
        require_decisive(game, smaller, matched)


def test_a_budget_that_runs_out_settles_nothing(booster: tuple[Any, PruneResult]) -> None:
    model, result = booster
    found = verify(model, result.model, result.region, result.certificate, time_limit=1e-6)
    assert found.agrees is None
    assert not found.proved_twice
    assert found.counterexample is None
    assert found.covered == 0.0
    assert "NOT SETTLED" in found.summary()
    assert all(proof.answer is Answer.UNKNOWN for proof in found.proofs)


def test_more_jobs_give_the_same_answers(
    booster: tuple[Any, PruneResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, result = booster
    alone = verify(model, result.model, result.region, result.certificate)
    monkeypatch.setattr(box_jobs, "_ALONE", 1)
    both = verify(model, result.model, result.region, result.certificate, n_jobs=2)
    assert [p.answer for p in alone.proofs] == [p.answer for p in both.proofs]
    native, certificate = _planted(result, 0)
    alone = verify(model, native, result.region, certificate)
    both = verify(model, native, result.region, certificate, n_jobs=2)
    assert [p.answer for p in alone.proofs] == [p.answer for p in both.proofs]


@pytest.mark.parametrize("options", [{"time_limit": 0}, {"time_limit": -1.0}, {"n_jobs": 0}])
def test_options_that_mean_nothing_are_refused(
    booster: tuple[Any, PruneResult], options: dict[str, Any]
) -> None:
    model, result = booster
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        verify(model, result.model, result.region, result.certificate, **options)


def test_damaged_files_are_refused(booster: tuple[Any, PruneResult], tmp_path: Path) -> None:
    model, result = booster
    (tmp_path / "certificate.json").write_text("{}")
    (tmp_path / "region.json").write_text("[1, 2")
    with pytest.raises(CertificateMismatch, match="not a pine_boost certificate"):
        verify(model, result.model, result.region, tmp_path / "certificate.json")
    with pytest.raises(MalformedModelError):
        verify(model, result.model, tmp_path / "region.json", result.certificate)


def test_native_classes_agree_on_rows_of_the_region(booster: tuple[Any, PruneResult]) -> None:
    _, result = booster
    X, _ = _table(2)
    inside = result.region.contains(X, model=result.original)
    assert inside.mean() > 0.5
    before, after = (predict_classes(m, X[inside]) for m in (result.original, result.pruned))
    assert np.array_equal(before, after)
