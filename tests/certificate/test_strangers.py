"""Every field of every file that pine_boost writes, edited in many ways, with a digest that fits.

No edit ends in anything but agreement, a mismatch or a message, and `verify` never agrees where a field was changed
that a user is shown and that is not listed as taken on trust.
"""

import contextlib
import json
import random
import re
import warnings
from collections import Counter
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
import xgboost

import pine_boost
from pine_boost import (
    Certificate,
    CertificateMismatch,
    GuardedModel,
    InvalidInputError,
    PineBoostError,
    Region,
    prune_booster,
    verify,
)
from pine_boost.certificate.claims import HOW_IT_WAS_MADE
from pine_boost.cli import main
from pine_boost.compression import record as compression_record
from pine_boost.fleet import Job, Policy, _read_done, run_job
from pine_boost.json_fields import digest_of
from pine_boost.model.digest import forest_digest
from pine_boost.model.states import build_space
from pine_boost.monitoring import RegionMonitor
from pine_boost.parsers import read_model
from pine_boost.region.domain import compile_domain, read_domain
from pine_boost.scoring.guards import verify_guarded
from pine_boost.scoring.scorer_folder import load_scorer, read_manifest
from pine_boost.scoring.scorer_verification import HOW_IT_WAS_MADE as HOW_A_SCORER_WAS_MADE
from pine_boost.scoring.scorer_verification import verify_scorer
from pine_boost.tables.schema import schema_of
from tests.support.verifying import reworded

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

GONE, TWICE = object(), object()


def edits_of(value):
    """What a stranger might write instead of a value."""
    edits = [0, 1, -1, 2**63, 10**400, 0.5, 1e308, None, True, "", "x", "1", [], {}, GONE, TWICE]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        edits += [value + 1, value - 1, -value, value * 2, float(value), value * (1 + 1e-3)]
    if isinstance(value, bool):
        edits.append(not value)
    if isinstance(value, str):
        edits += [f"{value}0", value[:-1], value.upper(), "0" * 64]
    if isinstance(value, list):
        edits += [value[:-1], [*value, *value[:1]], value[::-1], [None], [[]]]
    return edits


def places(document, most, path=()):
    """Paths of all values, lists and objects too; of long lists the ends and a few between."""
    if path:
        yield path
    keys = list(document) if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else []
    if isinstance(document, list) and len(document) > most:
        keys = sorted({0, len(document) - 1, *random.Random(0).sample(range(len(document)), most - 2)})
    for key in keys:
        yield from places(document[key], most, (*path, key))


def edited(document, path, edit):
    """A copy of the document with one value changed, deleted or doubled; None where nothing changed."""
    copy = json.loads(json.dumps(document))
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    before = parent[path[-1]]
    if edit is GONE:
        del parent[path[-1]]
    elif edit is TWICE:
        if isinstance(parent, dict):
            parent[f"{path[-1]} "] = before
        else:
            parent.insert(path[-1], before)
    elif type(edit) is type(before) and edit == before:
        return None
    else:
        parent[path[-1]] = edit
    return copy


def all_edits(document, most, per_place=None):
    """Every place with every edit, or a few of them."""
    draw = random.Random(1)
    for path in places(document, most):
        value = document
        for key in path:
            value = value[key]
        found = [edited(document, path, edit) for edit in edits_of(value)]
        found = [copy for copy in found if copy is not None]
        for copy in found if per_place is None else draw.sample(found, min(per_place, len(found))):
            yield path, copy


def _labels(X):
    noise = np.random.default_rng(1).normal(0, 0.5, len(X))
    return (X[:, 0] + X[:, 1] * X[:, 2] + noise > 0).astype(int)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model, its pruned, compressed and guarded versions, and the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4)).astype(np.float32)
    y = _labels(X)
    folder = tmp_path_factory.mktemp("strangers")
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=2, n_jobs=1).fit(X[:300], y[:300])
    model.save_model(folder / "original.json")
    original = folder / "original.json"
    # a region with a margin for serving, a bound and proofs: every optional part of a certificate
    pruned = prune_booster(original, X[:300], X[300:600], alpha=0.25, indifference="auto")
    certificate = pruned.certificate
    assert certificate.serving is not None
    assert certificate.bound is not None
    pruned.save(folder / "pruned", report=False)
    compressed = pine_boost.compress_booster(original, X[:300], X[300:], fidelity=0.9, segments=X[300:, 3] > 0)
    assert compressed.status == "VALIDATED"
    compressed.save(folder / "compressed")
    GuardedModel(pruned).save(folder / "guarded")
    GuardedModel(pruned, X[600:], fidelity=0.9).save(folder / "margin")
    errors = {"fidelity": None, "y_val": y[300:], "random_state": 1}
    by_labels = pine_boost.compress_booster(original, X[:300], X[300:], max_loss=0.1, **errors)
    assert by_labels.status == "NON_INFERIOR"
    by_labels.save(folder / "by labels")
    accelerated = {
        "proved": pine_boost.accelerate_booster(original),
        "validated": pine_boost.accelerate_booster(original, X[:300], X[300:], fidelity=0.9),
    }
    assert [made.status for made in accelerated.values()] == ["CERTIFIED", "VALIDATED"]
    for name, made in accelerated.items():
        made.save(folder / name)
    pine_boost.survey(original, X[:300], X[300:600], time_limit=5).save(folder / "survey.json")
    monitor = RegionMonitor(Region.load(folder / "pruned" / "region.json").with_alpha(0.3))
    for part in (X[600:750], X[750:]):
        monitor.update(part, model=read_model(original))
    (folder / "monitor.json").write_text(json.dumps(monitor.to_json()))
    return folder, X


@cache
def _parsed(folder):
    """Both models as live ones, which need no process of their own to predict, and the region."""
    before, after = (
        read_model(xgboost.Booster(model_file=path))
        for path in (folder / "original.json", folder / "pruned" / "model.json")
    )
    return before, after, Region.load(folder / "pruned" / "region.json")


def _verdict(folder, text, region=None):
    """AGREES, DISAGREES, NOT SETTLED or the name of an error of ours; anything else fails the test."""
    before, after, own = _parsed(folder)
    try:
        found = verify(before, after, region or own, Certificate.from_json(text), time_limit=60)
    except PineBoostError as error:
        return type(error).__name__
    assert found.summary().startswith({True: "AGREES", False: "DISAGREES", None: "NOT SETTLED"}[found.agrees])
    return found.summary().partition(":")[0]


def _is_trusted(path):
    """Whether a field of a certificate is one that `rests_on` lists as taken on trust."""
    if path[0] in (*HOW_IT_WAS_MADE, "digest") or path[:2] == ("serving", "n_inside"):
        return True
    # which methods proved a question, not which questions were proved
    names_a_method = path[0] == "proofs" and path[2:] != ("question",)
    return names_a_method or (path[:2] == ("serving", "proofs") and path[3:] != (0,))


# fields of a scorer's facts, and of its validation, that `verify_scorer` lists as taken on trust
SCORER_TRUST = {(name,) for name in HOW_A_SCORER_WAS_MADE}
VALIDATION_TRUST = {("n_fit",), ("segments",), ("path",), ("compressed_digest",), ("overlap",)}
# statements that are true as well where they were weakened, and hints that `verify` tries and nobody is shown
WEAKER = {"undecided_exists", "lower_bound", "optimal", "bound", "grid", "unit"}


def _resealed(document):
    return json.dumps({**document, "digest": digest_of(document)})


def _reworded(document):
    """The edited certificate with the sentences that belong to its numbers: a careful forger's."""
    try:
        return reworded(Certificate.from_json(_resealed(document))).to_json()
    except PineBoostError:
        return None


# a sample of the edits in every run, all of them in the slow ones
SOME_OR_ALL = pytest.mark.parametrize("per_place", [2, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])


@SOME_OR_ALL
def test_every_edit_of_a_certificate(files, per_place):
    folder, _ = files
    healthy = (folder / "pruned" / "certificate.json").read_text()
    document, own = json.loads(healthy), Certificate.from_json(healthy)
    assert _verdict(folder, healthy) == "AGREES"
    pruned = folder / "pruned"
    assert verify(folder / "original.json", pruned / "model.json", pruned / "region.json", own).agrees
    assert _reworded(document) == healthy
    assert set(document) == {field.name for field in fields(Certificate)} | {"format", "format_version", "digest"}
    verdicts, believed, known = Counter(), [], {}
    for path, copy in all_edits(document, 3, per_place):
        if path[0] not in ("timings", "date"):
            with pytest.raises(CertificateMismatch):  # without another digest
                Certificate.from_json(json.dumps(copy))
        texts = {_resealed(copy)}
        if path[0] not in ("claim", "reason", "rests_on"):
            texts |= {_reworded(copy) or healthy}
        for text in texts:
            if text not in known:  # many edits cannot be worded, and stay the healthy certificate
                known[text] = _verdict(folder, text)
            verdict = known[text]
            verdicts[verdict] += 1
            is_changed = verdict == "AGREES" and Certificate.from_json(text) != own  # 0 for 0.0 is no change
            if path == ("serving",) and is_changed:  # without a serving margin a certificate claims less
                is_changed = Certificate.from_json(text).serving is not None
            if is_changed and not _is_trusted(path) and path[0] not in WEAKER:
                believed.append((path, text))
    assert [path for path, _ in believed] == [], believed[:1]
    assert set(verdicts) <= {"AGREES", "DISAGREES", "CertificateMismatch", "InvalidInputError"}
    assert verdicts["CertificateMismatch"] > 200
    assert verdicts["AGREES"] > 20


@SOME_OR_ALL
def test_every_edit_of_a_region(files, per_place):
    """With the certificate as it is, and with one that names the edited region."""
    folder, X = files
    document = json.loads((folder / "pruned" / "region.json").read_text())
    certificate = Certificate.load(folder / "pruned" / "certificate.json")
    n_read = 0
    for path, copy in all_edits(document, 2, per_place):
        try:
            region = Region.from_json(json.dumps(copy))
        except PineBoostError:
            continue
        if region == _parsed(folder)[2]:
            continue  # 1.0 for 1
        n_read += 1
        with contextlib.suppress(InvalidInputError):  # other columns, or no longer about the original
            assert region.contains(X[:20], model=_parsed(folder)[0]).shape == region.score(X[:20]).shape == (20,)
        assert _verdict(folder, certificate.to_json(), region) == "CertificateMismatch", path
        forged = replace(
            certificate,
            region_fingerprint=region.fingerprint(),
            **{name: getattr(region, name) for name in ("alpha", "tau", "n_cal", "n_fit", "indifference", "delta")},
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verdict = _verdict(folder, _reworded(json.loads(forged.to_json())) or "{}", region)
        # that scores and calibration are those of X_fit and X_cal is taken on trust, and said so
        trusted = {"score", "calibration", "n_fit", "overlap", "nesting", "schema"}
        assert verdict != "AGREES" or path[0] in trusted, path
    assert n_read > 5


@SOME_OR_ALL
@pytest.mark.parametrize("name", ["compressed", "by labels"])
def test_every_edit_of_a_compression(files, name, per_place):
    folder, X = files
    document = json.loads((folder / name / "compression.json").read_text())
    before, after = (
        read_model(path, decision="value") for path in (folder / "original.json", folder / name / "model.json")
    )
    healthy, y = compression_record.read_record(folder / name), None if name == "compressed" else _labels(X)[300:]
    assert pine_boost.verify_compression(before, after, healthy, X[300:], y).agrees
    n_agreed = 0
    for path, copy in all_edits(document, 3, per_place):
        try:
            record = compression_record.read_record(json.dumps({**copy, "digest": digest_of(copy)}).encode())
        except CertificateMismatch:
            continue
        for forged in (record, replace(record, claim=record.statement.claim())):
            try:
                verdict = pine_boost.verify_compression(before, after, forged, X[300:], y)
            except PineBoostError:
                continue
            assert verdict.summary().startswith("AGREES" if verdict.agrees else "DISAGREES")
            if verdict.agrees and forged != healthy:
                n_agreed += 1
                returned = forged.returned()
                if path[0] in ("fidelity", "max_loss"):
                    # what was counted supports the edited target by the first test of the sequence
                    assert returned is not None
                    assert forged.target().tests()[0](returned), path
                if path[0] == "max_loss" and forged.max_loss < healthy.max_loss:
                    lost = (returned.n_lost - returned.n_gained) / healthy.n_val
                    assert forged.max_loss > lost, path
                # that another target was not asked for, and all else that nobody can find again, is listed
                assert path[0] in (*re.findall(r"\w+", verdict.remarks[-1]), "digest"), path
    assert n_agreed > 5


def _of_known_keys(found, own):
    """Without keys that nobody reads."""
    if not (isinstance(found, dict) and isinstance(own, dict)):
        return found
    return {key: _of_known_keys(value, own[key]) for key, value in found.items() if key in own}


@SOME_OR_ALL
@pytest.mark.parametrize("name", ["proved", "validated"])
def test_every_edit_of_a_scorer(files, name, per_place):
    folder, X = files
    original, path = xgboost.Booster(model_file=folder / "original.json"), folder / name / "scorer.json"
    X_val = None if name == "proved" else X[300:]
    healthy = path.read_bytes()
    document, own = json.loads(healthy), read_manifest(folder / name)
    expected = load_scorer(folder / name).predict(X)
    assert verify_scorer(original, folder / name, X_val).agrees
    verdicts = Counter()
    try:
        for place, copy in all_edits(document, 3, per_place):
            path.write_text(_resealed(copy))
            try:
                load_scorer(folder / name).predict(X)
                verdict = verify_scorer(original, folder / name, X_val)
            except PineBoostError as error:
                verdicts[type(error).__name__] += 1
                continue
            verdicts[verdict.agrees] += 1
            if verdict.agrees and _of_known_keys(read_manifest(folder / name), own) != own:
                # labels that a model file does not hold, and without its facts a proved scorer says nothing of them
                is_listed = place[0] in ("pine_boost", "classes") or (place, name) == (("facts",), "proved")
                is_listed |= place[1:2] in SCORER_TRUST or place[2:3] in VALIDATION_TRUST
                assert is_listed, place
                assert (load_scorer(folder / name).predict(X) == expected).all() or place[0] == "classes"
    finally:
        path.write_bytes(healthy)
    assert verdicts["CertificateMismatch"] > 20
    assert verdicts[True] > 5


@SOME_OR_ALL
@pytest.mark.parametrize("name", ["guarded", "margin"])
def test_every_edit_of_a_guarded_folder(files, name, per_place):
    folder, X = files
    path, own = folder / name / "scorer.json", read_manifest(folder / name)
    healthy = path.read_bytes()
    expected = load_scorer(folder / name).predict(X)
    try:
        for place, copy in all_edits(json.loads(healthy), 3, per_place):
            path.write_text(json.dumps({**copy, "digest": digest_of(copy)}))
            try:
                loaded = load_scorer(folder / name)
                verify_guarded(folder / name)
            except PineBoostError:
                continue
            if read_manifest(folder / name) == own:
                continue  # 1 for 1.0
            # without arrays the models themselves are read
            assert place in (("arrays",), ("pine_boost",), ("digest",)) or place[0] in ("guard", "classes"), place
            if place[0] not in ("guard", "classes"):
                assert (loaded.predict(X) == expected).all()
    finally:
        path.write_bytes(healthy)


def test_every_edit_of_a_survey_and_a_monitor(files):
    folder, X = files
    region = Region.load(folder / "pruned" / "region.json").with_alpha(0.3)
    original = read_model(folder / "original.json")
    for _, copy in all_edits(json.loads((folder / "monitor.json").read_text()), 2):
        with contextlib.suppress(PineBoostError):
            monitor = RegionMonitor.from_json(json.dumps(copy), region)
            str(monitor.update(X[:50], model=original))
    path = folder / "edited survey.json"
    for _, copy in all_edits(json.loads((folder / "survey.json").read_text()), 2):
        path.write_text(json.dumps(copy))
        with contextlib.suppress(PineBoostError):
            str(pine_boost.load_survey(path, original))


def test_a_wrong_model_under_a_wide_band_is_not_believed(files, tmp_path):
    """One tree scaled by 1/64 and a certificate that leaves out everything within 10: verify agreed, exit code 0."""
    folder, X = files
    result = prune_booster(folder / "original.json", X[:300], X[300:600], alpha=0.25)
    document = json.loads(result.model)
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    heaviest = max(trees, key=lambda tree: np.ptp(tree["base_weights"]))
    is_leaf = np.array(heaviest["left_children"]) < 0
    for name in ("split_conditions", "base_weights"):
        heaviest[name] = [v / 64 if leaf else v for v, leaf in zip(heaviest[name], is_leaf, strict=True)]
    wrong = json.dumps(document).encode()
    natives = [xgboost.Booster(model_file=bytearray(m)) for m in ((folder / "original.json").read_bytes(), wrong)]
    before, after = (read_model(model) for model in natives)
    inside = X[result.region.contains(X)]
    classes = [model.predict(xgboost.DMatrix(inside)) > 0.5 for model in natives]
    assert (classes[0] != classes[1]).mean() > 0.02  # it is wrong, in the region
    assert before.forest.n_trees > after.forest.n_trees
    plain = replace(result.certificate, pruned_digest=forest_digest(after.forest), undecided_exists=None)
    for band in ({"undecided": 10.0}, {"undecided": 10.0, "native_band": 10.0}, {"native_band": 10.0}):
        forged = reworded(plain, **band)
        with pytest.raises(CertificateMismatch, match="for these models it must be"):
            verify(before, after, result.region, forged)
    assert verify(before, after, result.region, reworded(plain), time_limit=20).agrees is False
    # the attack as it was: an older format, through the command line
    out = tmp_path / "out"
    result.save(out, report=False)
    (out / "model.json").write_bytes(wrong)
    written = {**json.loads(forged.to_json()), "format_version": 2}
    (out / "certificate.json").write_text(_resealed(written))
    assert main(["verify", str(folder / "original.json"), str(out)]) == 1
    (out / "certificate.json").write_text(forged.to_json())
    assert main(["verify", str(folder / "original.json"), str(out)]) == 1


def test_every_edit_of_the_record_of_a_job(files, tmp_path):
    """A job is done by an intact record of this job alone, or it is run again."""
    folder, _ = files
    job, policy = Job("a", str(folder / "original.json")), Policy("accelerate")
    row = run_job(job, str(tmp_path), policy)
    assert run_job(job, str(tmp_path), policy) == replace(row, done_before=True)
    path = tmp_path / "a" / "job.json"
    document = json.loads(path.read_text())
    asked = {key: document[key] for key in ("inputs", "method", "options", "reports")}
    n_done = 0
    for place, copy in all_edits(document, 3):
        path.write_text(_resealed(copy))
        done = _read_done(tmp_path / "a", asked)
        if done is not None and copy != document:
            n_done += 1
            assert place[0] in ("row", "digest", "files"), place
            assert done.name == "a"
            assert done.done_before
    assert n_done > 5
    path.write_text(json.dumps({**document, "row": {**document["row"], "status": "VALIDATED"}}))
    assert _read_done(tmp_path / "a", asked) is None  # its digest does not fit


def test_every_edit_of_a_domain(tmp_path):
    """A domain file is written by hand: every edit is a domain that compiles, or is refused with a message."""
    X = np.random.default_rng(0).normal(size=(300, 5))
    X[:, 4] = np.arange(300) % 4
    y = (X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] + (X[:, 4] == 2) > 0).astype(int)
    names = {"feature_names": list("abcde"), "feature_types": [*"qqqq", "c"]}
    table = xgboost.DMatrix(X, y, enable_categorical=True, **names)
    forest = read_model(xgboost.train({"max_depth": 3, "nthread": 1}, table, 10), decision="value").forest
    space, schema = build_space(forest), schema_of(forest)
    document = {
        "one_hot": [["a", "b"]],
        "ordinal": [["b", "c"]],
        "lower": {"d": -2.5},
        "upper": {"d": 2},
        "integer": ["c"],
        "never_missing": ["a", 3],
        "forbidden": [
            [{"feature": "a", "upper": 0.5}, {"feature": "d", "lower": 1, "upper": 2}],
            [{"feature": "e", "categories": [1, 2]}, {"feature": "c", "lower": 0}],
        ],
    }
    path = tmp_path / "domain.json"
    path.write_text(json.dumps(document))
    assert compile_domain(read_domain(str(path)), space, schema).forbidden
    outcomes = Counter()
    for _, copy in all_edits(document, 3):
        path.write_text(json.dumps(copy))
        try:
            compile_domain(read_domain(str(path)), space, schema)
        except InvalidInputError:
            outcomes["refused"] += 1
        else:
            outcomes["compiles"] += 1
    assert outcomes["compiles"] > 20
    assert outcomes["refused"] > 100
