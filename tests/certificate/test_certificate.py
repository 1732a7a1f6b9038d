"""Certificates: what they say is what happened, they repeat exactly, and damage is refused."""

import json
from dataclasses import asdict, fields, replace
from functools import cache

import numpy as np
import pytest
import xgboost

from pine_boost import kernels, prune_booster
from pine_boost.certificate.certificate import Certificate, Status, library_versions
from pine_boost.errors import CertificateMismatch
from pine_boost.model.digest import forest_digest
from pine_boost.model.rules import SplitKind
from pine_boost.parsers import read_model
from pine_boost.search.lp import UnsolvedProgramError, WeightProgram
from tests.support.forests import MANNERS, random_forest


def _data(n_classes=2):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 5))
    signal = X[:, 0] + X[:, 1] * (X[:, 2] > 0) + 0.2 * rng.normal(size=500)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.digitize(signal, [-0.5, 0.7][: n_classes - 1])


@cache
def _model(n_classes=2):
    X, y = _data(n_classes)
    n_trees = 15 if n_classes == 2 else 6
    model = xgboost.XGBClassifier(n_estimators=n_trees, max_depth=2, learning_rate=0.2, n_jobs=1)
    return model.fit(X[:250], y[:250])


def _prune(n_classes=2, **options):
    X, _ = _data(n_classes)
    options = {"alpha": 0.2, **options}
    return prune_booster(_model(n_classes), X[:250], X[250:], **options)


_result = cache(_prune)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_says_what_happened(n_classes):
    result = _result(n_classes)
    certificate = result.certificate
    pruned = result.search.pruned
    assert certificate.status == result.status == "CERTIFIED"
    assert certificate.reason == ""
    assert "alpha = 0.2" in certificate.claim
    assert "250 calibration rows" in certificate.claim
    assert "0.8" in certificate.claim
    assert certificate.original_digest == forest_digest(read_model(_model(n_classes)).forest)
    assert certificate.pruned_digest == forest_digest(read_model(result.model).forest)
    assert certificate.original_digest != certificate.pruned_digest
    assert certificate.region_fingerprint == result.region.fingerprint()
    assert certificate.kept == tuple(np.flatnonzero(result.weights).tolist())
    assert certificate.weights == tuple(result.weights[list(certificate.kept)].tolist())
    assert certificate.trees_before == result.original.forest.n_trees
    assert certificate.trees_after == len(certificate.kept) < certificate.trees_before
    assert certificate.leaves_before == result.original.forest.n_leaves
    sizes = np.diff(result.original.forest.tree_offset)
    assert certificate.leaves_after == sum((sizes[t] + 1) // 2 for t in certificate.kept)
    assert certificate.units_before == (15 if n_classes == 2 else 6)
    assert certificate.lower_bound <= certificate.units_kept <= certificate.units_before
    assert certificate.optimal == (certificate.lower_bound == certificate.units_kept)
    assert certificate.grid == pruned.grid
    assert (certificate.n_fit, certificate.n_cal, certificate.alpha) == (250, 250, 0.2)
    assert certificate.tau == result.region.tau
    asked = {}
    for proof in certificate.proofs:
        asked.setdefault(proof.question, set()).add(proof.method)
    assert len(asked) == n_classes * (n_classes - 1)
    assert all(len(methods) >= 2 for methods in asked.values())
    assert {"pine_boost", "ortools", "numpy"} <= set(certificate.versions)
    assert any(name.startswith("xgboost") for name in certificate.versions)  # or xgboost-cpu
    if certificate.undecided_exists is not False:
        assert "rounding decides" in certificate.claim


def test_alpha_zero_claims_every_input():
    certificate = _prune(alpha=0).certificate
    assert certificate.tau is None
    assert certificate.claim.startswith("On every possible input, the pruned model predicts")


def test_thresholds_are_in_the_claim():
    certificate = _prune(threshold=(0.3, 0.7)).certificate
    assert certificate.thresholds == (0.3, 0.7)
    assert "falls on the same side of each of the thresholds 0.3, 0.7 as the original" in certificate.claim


def test_programs_that_no_solver_ends_with_certify_nothing(monkeypatch):
    """Nothing was tried then: the original is returned, and not as CERTIFIED."""

    def unsolved(self, *question):
        raise UnsolvedProgramError

    monkeypatch.setattr(WeightProgram, "solve", unsolved)
    certificate = _prune().certificate
    assert certificate.status == Status.NOT_CERTIFIED.value
    assert certificate.claim == ""
    assert certificate.reason.startswith("No solver finished the linear program")


def _interrupt(step):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"time_limit": 1e-9}, "The time limit ran out before the search began"),
        ({"callback": _interrupt}, "before a smaller model was proved"),
    ],
)
def test_not_certified_carries_no_claim(options, reason):
    result = _prune(**options)
    certificate = result.certificate
    assert certificate.status == Status.NOT_CERTIFIED.value
    assert certificate.claim == ""
    assert reason in certificate.reason
    assert certificate.proofs == ()
    assert certificate.grid == -1
    assert certificate.trees_after == certificate.trees_before
    assert certificate.original_digest == certificate.pruned_digest
    assert result.model is _model(2)
    assert (result.weights == 1).all()


def _keeps_classes(result, n_classes=2):
    """In the region, and of the rows of X_fit in any case."""
    X, _ = _data(n_classes)
    inside = result.region.contains(X)
    inside[:250] = True
    return np.array_equal(_model(n_classes).predict(X[inside]), result.model.predict(X[inside]))


@pytest.mark.parametrize("time_limit", [1e-9, 1e-3, 0.02, 0.1, 0.2, 0.4, 0.8])
def test_any_time_limit_gives_one_of_two_states(time_limit):
    result = _prune(time_limit=time_limit)
    assert result.status in ("CERTIFIED", "NOT_CERTIFIED")
    if result.certificate.grid < 0:
        assert result.model is _model(2)
        assert result.certificate.trees_after == 15
    assert (result.certificate.claim == "") == (result.status == "NOT_CERTIFIED")
    assert _keeps_classes(result)


def test_three_classes_interrupted_anywhere():
    steps = []
    _prune(3, callback=lambda step: steps.append(step.step))
    for last in np.unique(np.linspace(1, len(steps), 8).astype(int)).tolist():

        def interrupt(step, last=last):
            if step.step == last:
                raise KeyboardInterrupt

        result = _prune(3, callback=interrupt)
        if result.search.pruned is None:
            assert result.model is _model(3)
        else:
            assert result.status == "CERTIFIED"
        assert _keeps_classes(result, 3)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("score", ["chow-liu", "leaf-support"])
def test_same_bytes_for_any_number_of_jobs(n_classes, score):
    files = []
    for n_jobs in (1, 2, 1):
        result = _prune(n_classes, score=score, n_jobs=n_jobs, random_state=5)
        certificate = json.loads(result.certificate.to_json())
        assert set(certificate.pop("timings")) >= {"search"}
        assert certificate.pop("date")
        region = json.dumps(result.region.to_json(), sort_keys=True)
        files.append((result.model_file(), region, json.dumps(certificate, sort_keys=True)))
    assert files[0] == files[1] == files[2]


def test_json_round_trip(tmp_path):
    certificate = _result(2).certificate
    text = certificate.to_json()
    assert Certificate.from_json(text) == certificate
    assert Certificate.from_json(text.encode()) == certificate
    path = tmp_path / "certificate.json"
    path.write_text(text)
    assert Certificate.load(path) == certificate
    assert Certificate.load(path).to_json() == text
    assert json.loads(text)["format_version"] == 1


@pytest.mark.parametrize("name", sorted(f.name for f in fields(Certificate)))
def test_every_damaged_field_is_refused(name):
    document = json.loads(_result(2).certificate.to_json())
    wrong = [{"a": 1} if not isinstance(document[name], dict) else 3, object]
    if isinstance(document[name], (int, float)):
        wrong.append("1")
        wrong.append([document[name]])
    if isinstance(document[name], str):
        wrong += [7, None]
    if isinstance(document[name], list):
        wrong += [document[name][0] if document[name] else "x", [None], "text"]
    for value in wrong:
        damaged = {**document, name: value}
        if value is object:
            del damaged[name]
        # the types tell before the digest does: whoever writes a new digest gets no further
        with pytest.raises(CertificateMismatch, match="Invalid certificate"):
            Certificate.from_json(json.dumps(damaged))


@pytest.mark.parametrize("digest", ["", "0" * 64, None, 7, []])
def test_another_digest_is_refused(digest):
    document = json.loads(_result(2).certificate.to_json())
    document["digest"] = digest
    with pytest.raises(CertificateMismatch, match="changed after it was written"):
        Certificate.from_json(json.dumps(document))


def test_the_digest_does_not_know_the_timings():
    certificate = _result(2).certificate
    other = replace(certificate, timings={"search": 1e6})
    both = [json.loads(each.to_json()) for each in (certificate, other)]
    assert both[0]["digest"] == both[1]["digest"]
    assert json.loads(replace(certificate, alpha=0.3).to_json())["digest"] != both[0]["digest"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "expected an object"),
        ("{}", "'format' is"),
        ('{"format": "pine_boost region"}', "'format' is"),
        ('{"format": "pine_boost certificate"}', r"'format_version' is null, this release reads only 1"),
        (
            '{"format": "pine_boost certificate", "format_version": 99}',
            r"'format_version' is 99, this release reads only 1",
        ),
        ('{"format": "pine_boost certificate", "format_version": 1}', "are missing"),
    ],
)
def test_other_files_are_refused(text, message):
    with pytest.raises(CertificateMismatch, match=message):
        Certificate.from_json(text)


def test_unknown_status_and_extra_fields_are_refused():
    document = json.loads(_result(2).certificate.to_json())
    with pytest.raises(CertificateMismatch, match="'status' is 'PERHAPS', expected one of"):
        Certificate.from_json(json.dumps({**document, "status": "PERHAPS"}))
    with pytest.raises(CertificateMismatch, match=r"unknown: .'extra'"):
        Certificate.from_json(json.dumps({**document, "extra": 1}))
    proofs = [{**document["proofs"][0], "seconds": 1}]
    with pytest.raises(CertificateMismatch, match=r"'proofs\[0\]' are unknown: .'seconds'"):
        Certificate.from_json(json.dumps({**document, "proofs": proofs}))


@pytest.mark.parametrize("manner", MANNERS, ids=lambda m: f"{m.library}-{m.comparison.name}")
def test_digest_sees_every_number(manner):
    forest = random_forest(np.random.default_rng(0), 4, 3, 4, manner=manner, categorical=(1,))
    digest = forest_digest(forest)
    assert digest == forest_digest(replace(forest))
    leaf = int(np.flatnonzero(forest.kind == SplitKind.LEAF)[-1])
    split = int(np.flatnonzero(forest.kind == SplitKind.NUMERIC)[0])
    category = int(np.flatnonzero(forest.kind == SplitKind.CATEGORICAL)[0])

    def changed(name, place, value):
        array = getattr(forest, name).copy()
        array[place] = value
        return replace(forest, **{name: array})

    others = [
        changed("value", leaf, np.nextafter(forest.value[leaf], np.inf)),
        changed("threshold", split, np.nextafter(forest.threshold[split], np.inf)),
        changed("default_left", split, not forest.default_left[split]),
        changed("set_left", category, not forest.set_left[category]),
        changed("feature", split, (forest.feature[split] + 2) % 4),
        changed("intercept", 0, np.nextafter(forest.intercept[0], np.inf)),
        changed("category", 0, 77),
        replace(forest, n_features=5, feature_categories=()),
        replace(forest, library="another"),
    ]
    digests = {forest_digest(other) for other in others}
    assert len(digests | {digest}) == len(others) + 1
    assert forest_digest(replace(forest, feature_names=("a", "b", "c", "d"))) == digest
    assert forest_digest(replace(forest, classes=("no", "yes"))) == digest


def test_versions_and_plain_data():
    assert "lightgbm" not in library_versions("xgboost")
    assert "scikit-learn" in library_versions("sklearn")
    assert library_versions("xgboost")["kernel"] == kernels.name()
    assert json.dumps(asdict(_result(2).certificate))  # nothing but plain numbers and text
