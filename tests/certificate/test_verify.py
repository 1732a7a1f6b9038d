"""verify agrees with what was proved, finds what was planted, and notices every edit of models and files."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pine_boost.build_result import build_prune_result
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.tree_matching import match_trees, require_decisive
from pine_boost.cli import main
from pine_boost.errors import CertificateMismatch
from pine_boost.exporters import export
from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import spread
from pine_boost.model.reference import find_leaves
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import build_space
from pine_boost.options import Options
from pine_boost.parsers import read_model
from pine_boost.proof.boxes import branch_and_bound
from pine_boost.proof.problem import Answer, build_problem
from pine_boost.region.fitting import fit_region
from pine_boost.region.region import Region
from pine_boost.verifying import verify
from tests.support.grids import grid_forest, integer_margins
from tests.support.verifying import MAKERS, breast_or_iris, fitted, pruned_model, reworded
from tests.support.xgboost_models import edit_trees


@pytest.fixture(scope="module")
def booster():
    model, result = pruned_model("xgboost")
    assert result.certificate.grid >= 0  # something was removed
    return model, result


@pytest.mark.parametrize("kind", [k for k in MAKERS if "forest" not in k and k != "extra-trees"])
def test_a_pruned_model_is_proved_twice(kind):
    model, result = pruned_model(kind)
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
def test_every_kind_of_region_is_verified(options):
    model, result = pruned_model("xgboost", **options)
    found = verify(model, result.model, result.region, result.certificate)
    assert found.agrees is True
    assert found.proved_twice


def test_a_faithful_model_is_verified_over_an_isolation_forest():
    """Its hundreds of extra edges are part of the region's space, not of the model's."""
    model, result = pruned_model("xgboost", alpha=0.0, indifference=0.0)
    assert result.certificate.grid >= 0
    forest = result.original.forest
    X, _ = breast_or_iris(2)
    n = len(X) // 2
    region = fit_region(forest, X[:20], X[n:], alpha=0.2, score="isolation-forest")
    assert region.space.n_states.sum() > 2 * build_space(forest).n_states.sum()
    problem = build_problem(forest, region.space, region.tables)
    # the points of the bound are those of another region, over other states
    search = replace(result.search, bound=None)
    moved = build_prune_result(result.original, region, problem, search, Options()).certificate
    found = verify(model, result.model, region, moved)
    assert found.agrees is True
    assert found.proved_twice


def test_files_alone_are_enough(booster, tmp_path):
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


def test_a_certificate_records_that_it_was_proved_twice(booster):
    model, result = booster
    parts = (model, result.model, result.region)
    found = verify(*parts, result.certificate)
    recorded = found.record(result.certificate)
    added = recorded.proofs[len(result.certificate.proofs) :]
    assert {proof.method for proof in added} >= {"cp-sat-verify"}
    for question in {proof.question for proof in recorded.proofs}:
        methods = {proof.method for proof in recorded.proofs if proof.question == question}
        assert {"boxes", "cp-sat-verify"} <= methods
    assert verify(*parts, Certificate.from_json(recorded.to_json())).agrees is True
    assert found.record(recorded) == recorded
    unsettled = verify(*parts, result.certificate, time_limit=1e-6)
    assert unsettled.record(result.certificate) == result.certificate


def test_the_command_line_records_into_the_file(booster, tmp_path):
    model, result = booster
    model.get_booster().save_model(tmp_path / "original.json")
    folder = result.save(tmp_path / "out")
    arguments = ["verify", str(tmp_path / "original.json"), str(folder)]
    before = (folder / "certificate.json").read_bytes()
    assert main(arguments) == 0
    assert (folder / "certificate.json").read_bytes() == before
    assert main([*arguments, "--record"]) == 0
    recorded = Certificate.load(folder / "certificate.json")
    assert "cp-sat-verify" in {proof.method for proof in recorded.proofs}
    assert main(arguments) == 0


NO_BAND = {"undecided": 0.0, "native_band": 0.0, "undecided_exists": None}


def test_the_original_kept_is_nothing_to_prove(booster):
    model, result = booster
    found = result.certificate
    kept = tuple(range(found.trees_before))
    certificate = replace(
        found,
        pruned_digest=found.original_digest,
        grid=-1,
        kept=kept,
        trees_after=len(kept),
        leaves_after=found.leaves_before,
        units_kept=found.units_before,
        proofs=(),
        weights=(1.0,) * len(kept),
        optimal=False,
        **NO_BAND,
    )
    assert found.serving is not None
    certificate = reworded(certificate)
    with pytest.raises(CertificateMismatch, match="serving margin that nothing needs"):
        verify(model, model, result.region, certificate)
    certificate = reworded(certificate, serving=None)
    assert verify(model, model, result.region, certificate).agrees is True
    for edit in (
        {"kept": kept[1:], "trees_after": len(kept) - 1},
        {"weights": (2.0,) * len(kept)},
        {"leaves_after": 1},
        {"units_kept": 1},
        {"grid": -2},
        {"undecided": 1e-6},
        {"undecided_exists": False},
        {"reason": "It could not be any smaller."},
    ):
        with pytest.raises(CertificateMismatch):
            verify(model, model, result.region, replace(certificate, **edit))
    forged = reworded(result.certificate, grid=-1, **NO_BAND)
    with pytest.raises(CertificateMismatch, match="original was kept, but the two models differ"):
        verify(model, result.model, result.region, forged)


def _planted(result, seed):
    """One tree of the pruned model turned around, and a certificate forged to match."""
    rng = np.random.default_rng(seed)
    pruned = result.search.pruned
    forest = pruned.forest
    number = int(rng.integers(len(pruned.kept)))
    own = (forest.node_tree == pruned.kept[number]) & (forest.kind == SplitKind.LEAF)
    factor = int(rng.choice([-3, -2, 4]))
    value = pruned.value_int.copy()
    value[own] *= factor
    native = export(result.original, replace(pruned, value_int=value))
    digest = forest_digest(read_model(native).forest)
    weights = list(result.certificate.weights)
    weights[number] *= factor
    forged = {"serving": None, "pruned_digest": digest, "weights": tuple(weights)}  # the margin is of the true model
    return native, reworded(result.certificate, **forged)


def test_a_forged_certificate_is_refuted_natively(booster):
    model, result = booster
    n_refuted = 0
    for seed in range(8):
        native, certificate = _planted(result, seed)
        found = verify(model, native, result.region, certificate)
        if found.agrees is not False:
            continue
        n_refuted += 1
        point = found.counterexample
        assert point.native
        row = point.row[None]
        assert result.region.contains(row, model=result.original)[0]
        assert int(model.predict(row)[0]) == point.original_class
        assert int(native.predict(row)[0]) == point.pruned_class != point.original_class
        assert "DISAGREES" in str(found)
    assert n_refuted >= 3


def test_both_methods_refute(booster):
    model, result = booster
    for seed in range(6):
        native, certificate = _planted(result, seed)
        found = verify(model, native, result.region, certificate)
        by_question = {}
        for proof in found.proofs:
            by_question.setdefault(proof.question.name, set()).add(proof.answer)
        assert all(len(answers) == 1 for answers in by_question.values())


def test_a_budget_that_runs_out_settles_nothing(booster):
    model, result = booster
    found = verify(model, result.model, result.region, result.certificate, time_limit=1e-6)
    assert found.agrees is None
    assert not found.proved_twice
    assert found.counterexample is None
    assert found.covered == 0.0
    assert "NOT SETTLED" in found.summary()
    assert all(proof.answer is Answer.UNKNOWN for proof in found.proofs)


def test_more_jobs_give_the_same_answers(booster, monkeypatch):
    model, result = booster
    alone = verify(model, result.model, result.region, result.certificate)
    monkeypatch.setattr(branch_and_bound, "_ALONE", 1)
    both = verify(model, result.model, result.region, result.certificate, n_jobs=2)
    assert [p.answer for p in alone.proofs] == [p.answer for p in both.proofs]
    native, certificate = _planted(result, 0)
    alone = verify(model, native, result.region, certificate)
    both = verify(model, native, result.region, certificate, n_jobs=2)
    assert [p.answer for p in alone.proofs] == [p.answer for p in both.proofs]


def _edit_region(edit):
    def changed(region):
        document = region.to_json()
        edit(document)
        return Region.from_json(json.dumps(document))

    return changed


def _bump(document, *path, by=1):
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] += by


REGION_EDITS = {
    "tau": lambda d: _bump(d, "tau"),
    "alpha": lambda d: d.update(alpha=0.3),
    "one cost": lambda d: _bump(d, "score", "pairs", 0, "cost", 0, 0),
    "root cost": lambda d: _bump(d, "score", "unary", d["score"]["pairs"][0]["first"], 0),
    "calibration": lambda d: _bump(d, "calibration", -1),
    "n_cal": lambda d: (_bump(d, "n_cal"), _bump(d, "overlap", "n_rows")),
    "delta": lambda d: d.update(delta=d["delta"] * 2),
    "cut": lambda d: d.update(cuts=[0.25]),
    "edge": lambda d: d["space"]["axes"][-1]["edges"].__setitem__(0, -123.0),
}


@pytest.mark.parametrize("edit", REGION_EDITS.values(), ids=REGION_EDITS.keys())
def test_an_edited_region_is_noticed(booster, edit):
    model, result = booster
    region = _edit_region(edit)(result.region)
    with pytest.raises(CertificateMismatch, match="region is not the one"):
        verify(model, result.model, region, result.certificate)


CONSISTENT_EDITS = {
    "tau": "'tau' of the region does not follow from",
    "calibration": "'tau' of the region does not follow from",
    "cut": "'cuts' of the region does not follow from",
    "edge": "'space' of the region does not follow from",
}


@pytest.mark.parametrize("name", CONSISTENT_EDITS)
def test_an_edited_region_with_a_forged_certificate_is_noticed(booster, name):
    """What follows from the original or from the calibration scores cannot be chosen freely."""
    model, result = booster
    edit = REGION_EDITS[name]
    if name == "calibration":

        def edit(document):
            document["calibration"] = [0] * len(document["calibration"])

    region = _edit_region(edit)(result.region)
    certificate = replace(result.certificate, region_fingerprint=region.fingerprint(), tau=region.tau)
    with pytest.raises(CertificateMismatch, match=CONSISTENT_EDITS[name]):
        verify(model, result.model, region, certificate)


def _with_document(native, edit):
    return edit_trees(native.get_booster(), lambda trees: edit(trees[0]))


def _one_ulp_up(numbers, place):
    numbers[place] = float(np.nextafter(np.float32(numbers[place]), np.float32(np.inf)))


MODEL_EDITS = [
    lambda tree: _one_ulp_up(tree["split_conditions"], tree["left_children"].index(-1)),  # a leaf
    lambda tree: _one_ulp_up(tree["split_conditions"], 0),
    lambda tree: tree["default_left"].__setitem__(0, 1 - tree["default_left"][0]),
    lambda tree: tree["split_indices"].__setitem__(0, (tree["split_indices"][0] + 1) % 6),
]


@pytest.mark.parametrize("edit", MODEL_EDITS, ids=["leaf", "threshold", "default", "feature"])
def test_an_edited_model_is_noticed(booster, edit):
    model, result = booster
    with pytest.raises(CertificateMismatch, match="pruned model is not the one"):
        verify(model, _with_document(result.model, edit), result.region, result.certificate)
    with pytest.raises(CertificateMismatch, match="original model is not the one"):
        verify(_with_document(model, edit), result.model, result.region, result.certificate)


@pytest.mark.parametrize("edit", MODEL_EDITS[1:])
def test_an_edited_split_with_a_forged_certificate_is_noticed(booster, edit):
    model, result = booster
    contents = _with_document(result.model, edit)
    digest = forest_digest(read_model(contents).forest)
    forged = replace(result.certificate, pruned_digest=digest)
    with pytest.raises(CertificateMismatch, match="is not tree"):
        verify(model, contents, result.region, forged)


CERTIFICATE_EDITS = {
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
def test_an_edited_certificate_is_noticed(booster, name):
    model, result = booster
    certificate = replace(result.certificate, **{name: CERTIFICATE_EDITS[name]})
    with pytest.raises(CertificateMismatch):
        verify(model, result.model, result.region, certificate)


def test_edited_counts_with_a_new_digest_are_noticed(booster):
    """Whoever can make digests still cannot state weights or proofs that are not so."""
    model, result = booster
    found = result.certificate
    one_proof = tuple(p for p in found.proofs if p.method == found.proofs[0].method)
    other = (replace(found.proofs[0], question="class 2 over 7"), *found.proofs)
    heavier = (found.weights[0] * 1.001, *found.weights[1:])
    for edit in ({"proofs": one_proof}, {"proofs": other}, {"weights": heavier}, {"lower_bound": -1}):
        with pytest.raises(CertificateMismatch):
            verify(model, result.model, result.region, replace(found, **edit))


@pytest.mark.parametrize("place", [0, 1], ids=["original", "pruned"])
def test_any_edited_leaf_of_a_model_is_noticed(booster, place):
    """Every leaf of every tree, moved by one unit in the last place."""
    model, result = booster
    parts = [model, result.model, result.region, result.certificate]
    document = json.loads(parts[place].get_booster().save_raw("json"))
    n_edited = 0
    for number, tree in enumerate(document["learner"]["gradient_booster"]["model"]["trees"]):
        for node in np.flatnonzero(np.array(tree["left_children"]) < 0).tolist():
            edited = json.loads(json.dumps(document))
            own = edited["learner"]["gradient_booster"]["model"]["trees"][number]
            value = np.float32(own["split_conditions"][node])
            own["split_conditions"][node] = float(np.nextafter(value, np.float32(9)))
            parts[place] = json.dumps(edited).encode()
            with pytest.raises(CertificateMismatch):
                verify(*parts)
            n_edited += 1
    assert n_edited >= 8


@pytest.mark.parametrize("kind", MAKERS)
def test_the_file_gives_back_the_integers(kind):
    """Random weights, exported, read again: the same margins over the original's trees."""
    model, X = fitted(kind)
    parsed = read_model(model)
    forest = parsed.forest
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 5, forest.n_trees) / 4.0
    weights[rng.permutation(forest.n_trees)[: forest.n_trees // 3]] = 0.0
    pruned = grid_forest(forest, weights, grid=16)
    smaller = read_model(export(parsed, pruned)).forest
    matched = match_trees(forest, smaller, pruned.kept.tolist(), 16)
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


@pytest.mark.parametrize("grid", [-7, 21, 60])
def test_an_impossible_grid_is_refused(booster, grid):
    _, result = booster
    kept = list(result.certificate.kept)
    with pytest.raises(CertificateMismatch, match="grid"):
        match_trees(result.original.forest, result.pruned.forest, kept, grid)


@pytest.mark.parametrize("kept", [[3, 2], [0, 0], [-1], [10**6]])
def test_impossible_trees_are_refused(booster, kept):
    _, result = booster
    with pytest.raises(CertificateMismatch, match="ascending"):
        match_trees(result.original.forest, result.pruned.forest, kept, 16)


def test_another_kind_of_model_is_refused(booster):
    _, result = booster
    other = read_model(fitted("lightgbm")[0]).forest
    with pytest.raises(CertificateMismatch, match="differ in library"):
        match_trees(result.original.forest, other, list(result.certificate.kept), 16)


def test_leaves_off_the_grid_are_not_decisive(booster):
    """Thirds of a coarse unit: the integers say nothing about the native margin any more."""
    _, result = booster
    forest = result.original.forest
    smaller = replace(forest, value=forest.value / 3)
    problem = build_problem(forest, result.region.space, result.region.tables)
    matched = match_trees(forest, smaller, range(forest.n_trees), 4)
    with pytest.raises(CertificateMismatch, match="smaller than what the native decision"):
        require_decisive(problem, smaller, matched)
