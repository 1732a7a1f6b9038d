"""verify notices what trees do not show: names, types, labels, kinds of wrappers, and other tables."""

import copy
import json
from dataclasses import replace

import lightgbm
import numpy as np
import pandas
import pytest
import xgboost
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from pine_boost import Certificate, InvalidInputError, Region, prune_booster
from pine_boost.certificate.claims import rests_on
from pine_boost.certificate.consistency import require_interchangeable
from pine_boost.cli import main
from pine_boost.errors import CertificateMismatch
from pine_boost.parsers import read_model
from pine_boost.verifying import verify
from tests.support.command_line import printed, refused, words
from tests.support.native_models import make_table
from tests.support.verifying import breast_or_iris, reworded, verify_folder

NAMES = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture(scope="module")
def tables():
    X, y = breast_or_iris(2)
    X = pandas.DataFrame(X, columns=NAMES)
    return X[:250], X[250:450], y[:250]


@pytest.fixture(scope="module")
def saved(tables, tmp_path_factory):
    """original.json, and a folder `out` with the result of pruning it; tables beside."""
    X_fit, X_cal, y = tables
    folder = tmp_path_factory.mktemp("saved")
    model = xgboost.XGBClassifier(n_estimators=12, max_depth=2, n_jobs=1).fit(X_fit, y)
    model.save_model(folder / "original.json")
    result = prune_booster(folder / "original.json", X_fit, X_cal, alpha=0.2)
    assert result.certificate.grid >= 0
    result.save(folder / "out", report=False)
    X_fit.to_csv(folder / "fit.csv", index=False)
    X_cal.to_csv(folder / "cal.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def model(tables):
    X_fit, _, y = tables
    return xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1).fit(X_fit, y)


def _verify(saved, **given):
    return verify_folder(saved / "original.json", saved / "out", **given)


EDITS = {
    "names in another order": lambda d: d["learner"]["feature_names"].reverse(),
    "another name": lambda d: d["learner"]["feature_names"].__setitem__(0, "z"),
    "another type": lambda d: d["learner"]["feature_types"].__setitem__(0, "int"),
    "another objective": lambda d: d["learner"]["objective"].update(name="binary:logitraw"),
    "another weight": lambda d: d["learner"]["objective"]["reg_loss_param"].update(scale_pos_weight="3"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_what_is_not_in_the_trees_is_compared_too(saved, edit):
    document = json.loads((saved / "out" / "model.json").read_text())
    edit(document)
    with pytest.raises(CertificateMismatch, match=r"differ in|The pruned model is not"):
        _verify(saved, pruned=json.dumps(document).encode())


def test_names_of_a_lightgbm_text_are_compared(tables):
    X_fit, X_cal, y = tables
    model = lightgbm.LGBMClassifier(n_estimators=12, max_depth=2, n_jobs=1, verbose=-1)
    original = model.fit(X_fit, y).booster_.model_to_string().encode()
    result = prune_booster(original, X_fit, X_cal, alpha=0.2)
    given = (result.region, result.certificate)
    assert verify(original, result.model, *given).agrees
    swapped = result.model.replace(b"feature_names=a b ", b"feature_names=b a ")
    assert swapped != result.model
    with pytest.raises(CertificateMismatch, match="differ in features"):
        verify(original, swapped, *given)


def test_labels_of_wrappers_are_compared(tables):
    X_fit, X_cal, y = tables
    from sklearn.ensemble import GradientBoostingClassifier

    words = np.array(["no", "yes"])[y]
    model = GradientBoostingClassifier(n_estimators=12, max_depth=2, random_state=0)
    result = prune_booster(model.fit(X_fit, words), X_fit, X_cal, alpha=0.2)
    assert verify(model, result.model, result.region, result.certificate).agrees
    result.model.classes_ = np.array(["yes", "no"])
    with pytest.raises(CertificateMismatch, match="differ in classes"):
        verify(model, result.model, result.region, result.certificate)


def test_what_rests_on_trust_is_said_and_less_of_it_with_the_tables(saved, tables):
    certificate = Certificate.load(saved / "out" / "certificate.json")
    assert certificate.model_name == "original.json"
    assert certificate.rests_on == rests_on(certificate)
    bare = _verify(saved)
    assert any("calibration scores are those of X_cal" in remark for remark in bare.remarks)
    full = _verify(saved, X_fit=tables[0], X_cal=tables[1])
    assert full.agrees
    assert any("computed again from X_fit and X_cal: 1" in remark for remark in full.remarks)
    assert not any("calibration scores" in remark for remark in full.remarks)


def _forged(saved):
    """The region for alpha=0.8 sold as one for alpha=0.1, every digest rewritten."""
    region = Region.load(saved / "out" / "region.json")
    narrow = region.with_alpha(0.8)
    document = narrow.to_json()
    rank = len(document["calibration"])
    document["calibration"] = [document["tau"]] * rank  # any alpha has this tau now
    document["alpha"] = 0.1
    forged = Region.from_json(document)
    certificate = Certificate.load(saved / "out" / "certificate.json")
    fields = {"region_fingerprint": forged.fingerprint(), "alpha": 0.1, "tau": forged.tau}
    certificate = reworded(certificate, **fields, bound=None, lower_bound=1, optimal=False)
    return forged, Certificate.from_json(certificate.to_json())


def test_a_forged_calibration_passes_by_the_files_but_not_by_the_tables(saved, tables):
    region, certificate = _forged(saved)
    bare = _verify(saved, region=region, certificate=certificate)
    assert bare.agrees  # the classes are the same on it: that is proved, whatever alpha is
    assert any("calibration scores are those of X_cal" in remark for remark in bare.remarks)
    with pytest.raises(CertificateMismatch, match="calibration scores of the region are not"):
        _verify(saved, region=region, certificate=certificate, X_fit=tables[0], X_cal=tables[1])


@pytest.mark.parametrize("score", ["chow-liu", "leaf-support", "isolation-forest"])
def test_region_and_tau_follow_from_the_tables_for_every_score(tables, model, score):
    X_fit, X_cal, _ = tables
    result = prune_booster(
        model, X_fit, X_cal, alpha=0.5, score=score, n_bins=3, indifference=0.05, random_state=3, objective="l1"
    )
    parts = (model, result.model, result.region, result.certificate)
    assert verify(*parts, X_fit=X_fit, X_cal=X_cal, time_limit=60).agrees is not False
    moved = X_fit.copy()
    moved.iloc[:40] = X_cal.iloc[:40].to_numpy()
    with pytest.raises(CertificateMismatch, match=r"X_fit gives|do not follow|tables given say"):
        verify(*parts, X_fit=moved, X_cal=X_cal)
    with pytest.raises(CertificateMismatch, match=r"n_cal is 200 in the region; .* 199"):
        verify(*parts, X_fit=X_fit, X_cal=X_cal[1:])
    with pytest.raises(InvalidInputError, match="both X_fit and X_cal"):
        verify(*parts, X_cal=X_cal)


def test_the_command_line_takes_the_tables(saved, capsys):
    arguments = ["verify", str(saved / "original.json"), str(saved / "out")]
    tables = ["--fit", str(saved / "fit.csv"), "--cal", str(saved / "cal.csv")]
    assert "computed again from X_fit and X_cal" in printed(capsys, *arguments, *tables)
    assert "the tables given say" in refused(capsys, *arguments, "--fit", saved / "cal.csv", "--cal", saved / "fit.csv")


def test_calibration_rows_that_were_seen_promise_nothing_wherever_it_is_said(saved, tables, tmp_path, capsys):
    X_fit = tables[0]
    X_fit.iloc[:100].to_csv(tmp_path / "seen.csv", index=False)
    arguments = words(
        f"prune {saved}/original.json --fit {saved}/fit.csv --cal {tmp_path}/seen.csv --alpha 0.2 -o {tmp_path}/out"
    )
    assert "--allow-overlap" in refused(capsys, *arguments)
    assert main([*arguments, "--allow-overlap"]) in (0, 2)
    certificate = Certificate.load(tmp_path / "out" / "certificate.json")
    assert certificate.overlap > 0.9
    assert certificate.overlap_evident
    assert "is not promised" in certificate.claim
    assert "is not promised" in (tmp_path / "out" / "report.html").read_text()
    capsys.readouterr()
    assert main(["verify", str(saved / "original.json"), str(tmp_path / "out")]) == 0
    assert "of the calibration rows are among the fit rows" in capsys.readouterr().out


def test_rows_that_were_seen_cannot_be_hidden_from_the_tables(tables, model):
    X_fit = tables[0]
    seen = X_fit.iloc[:100]
    with pytest.warns(UserWarning, match="also occur in X_fit"):
        result = prune_booster(model, X_fit, seen, alpha=0.3, allow_overlap=True, objective="l1")
    forged = _with_overlap(result, n_seen=0, n_expected=0.0, p_value=1.0)
    assert verify(model, result.model, *forged).agrees is not False
    with pytest.raises(CertificateMismatch, match="n_seen is 0 in the region"):
        verify(model, result.model, *forged, X_fit=X_fit, X_cal=seen)


def test_few_rows_that_were_seen_cannot_be_passed_off_as_chance(tables, model):
    X_fit, X_cal, _ = tables
    X_cal = X_cal.copy()
    X_cal.iloc[:1] = X_fit.iloc[:1].to_numpy()
    result = prune_booster(model, X_fit, X_cal, alpha=0.3, objective="l1")
    assert 0 < result.certificate.overlap < 0.01
    assert verify(model, result.model, result.region, result.certificate, X_fit=X_fit, X_cal=X_cal).agrees
    forged = _with_overlap(result, n_expected=1.0)
    assert forged[1].overlap == 0
    with pytest.raises(CertificateMismatch, match=r"n_expected is 1.0 in the region"):
        verify(model, result.model, *forged, X_fit=X_fit, X_cal=X_cal)


def _with_overlap(result, **changed):
    """Region and certificate with another count of the calibration rows that were seen, and the claim of it."""
    document = result.region.to_json()
    document["overlap"].update(changed)
    region = Region.from_json(document)
    names = {"region_fingerprint": region.fingerprint(), "overlap": region.overlap.share, "overlap_evident": False}
    return region, reworded(result.certificate, **names)


@pytest.mark.parametrize("change", [{"thresholds": (0.3,)}, {"model_digest": "0" * 64}], ids=str)
def test_a_region_of_another_model_or_threshold_is_noticed(saved, change):
    region = replace(Region.load(saved / "out" / "region.json"), **change)
    certificate = Certificate.load(saved / "out" / "certificate.json")
    certificate = replace(certificate, region_fingerprint=region.fingerprint())
    with pytest.raises(CertificateMismatch, match="of the region does not follow from the original model"):
        _verify(saved, region=region, certificate=certificate)


def _require(original, pruned):
    require_interchangeable(read_model(original), read_model(pruned))


def test_labels_of_two_kinds_of_wrapper_are_compared():
    X, y = make_table(2, n_rows=200)
    model = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    other = ExtraTreesClassifier(3, max_depth=2)
    vars(other).update(copy.deepcopy(vars(model)))
    with pytest.raises(CertificateMismatch, match="wrapper"):
        _require(model, other)
    other.classes_ = model.classes_[::-1].copy()
    with pytest.raises(CertificateMismatch, match="classes"):
        _require(model, other)


def test_two_kinds_of_xgboost_wrapper():
    X, y = make_table(2, n_rows=200)
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(X, y)
    other = xgboost.XGBRFClassifier(n_jobs=1)
    other.load_model(model.get_booster().save_raw("json"))
    _require(model, other)
    other.set_params(missing=-999.0)
    with pytest.raises(CertificateMismatch, match="missing"):
        _require(model, other)
    # neither a file nor a Booster holds what counts as missing
    for bare in (other.get_booster(), bytes(other.get_booster().save_raw("json"))):
        _require(other, bare)
        _require(bare, other)


def test_labels_are_not_asked_of_what_has_none():
    X, y = make_table(2, n_rows=200)
    labels = np.array(["no", "yes"])[y]
    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(X, labels)
    text = model.booster_.model_to_string().encode()
    for bare in (model.booster_, text):
        _require(model, bare)
        _require(bare, model)
    _require(model.booster_, text)
