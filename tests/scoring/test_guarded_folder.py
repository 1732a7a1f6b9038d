"""A saved guarded model comes back as it was, and a wrong pair of files does not."""

import pickle
import shutil
import subprocess
import sys
import threading

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import datasets, ensemble

from pine_boost import CertificateMismatch, GuardedModel, InvalidInputError, OutputError, load_scorer, prune_booster
from pine_boost.errors import MalformedModelError
from pine_boost.model.digest import forest_digest
from pine_boost.parsers import read_model
from pine_boost.scoring.guards import verify_guarded
from pine_boost.scoring.scorer_folder import _sha256
from tests.support.scorer_folders import rewrite

X, Y = datasets.load_breast_cancer(return_X_y=True)
X = X[:, :6]
LABELS = np.array(["benign", "malign"])[Y]
SIZE = {"n_estimators": 10, "max_depth": 2}


def guarded_of(model, **options):
    return GuardedModel(prune_booster(model, X[:280], X[280:], alpha=0.3, **options))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folders = {}
    for seed in (0, 1):
        model = xgboost.XGBClassifier(**SIZE, learning_rate=0.2, n_jobs=1, subsample=0.8, random_state=seed).fit(
            X[:280], Y[:280]
        )
        folders[seed] = guarded_of(model).save(tmp_path_factory.mktemp("saved") / "guarded")
    return folders


def test_xgboost_with_and_without_wrapper(tmp_path):
    wrapper = xgboost.XGBClassifier(**SIZE, n_jobs=1).fit(X[:280], Y[:280])
    for model, backend in ((wrapper, "native"), (wrapper.get_booster(), "kernel")):
        guarded = guarded_of(model)
        guarded.save(tmp_path / "folder")
        again = load_scorer(tmp_path / "folder", backend=backend)
        assert again.claim == guarded.claim
        assert (again.predict(X) == wrapper.predict(X)).all()
        assert (again.guarded(X) == guarded.guarded(X)).all()
        assert (again.predict_proba(X, exact=True) == wrapper.predict_proba(X)).all()
    names = {path.name for path in (tmp_path / "folder").iterdir()}
    assert names == {"original.json", "pruned.json", "region.json", "certificate.json", "scorer.json", "scorer.npz"}


def test_what_a_native_file_cannot_hold_becomes_a_pickle(tmp_path):
    """XGBoost's ``missing=`` is a property of the wrapper: its file would read -1 as a number."""
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.1, -1.0, X)
    model = xgboost.XGBClassifier(**SIZE, n_jobs=1, missing=-1.0).fit(rows[:280], Y[:280])
    guarded = GuardedModel(prune_booster(model, rows[:280], rows[280:], alpha=0.3))
    guarded.save(tmp_path / "folder")
    with pytest.raises(InvalidInputError, match=r"original.pkl is a pickle.*trust_pickle=True"):
        load_scorer(tmp_path / "folder", backend="native")
    by_library = load_scorer(tmp_path / "folder", backend="native", trust_pickle=True)
    for again in (load_scorer(tmp_path / "folder"), by_library):  # the kernel needs no pickle
        assert (again.predict(rows) == model.predict(rows)).all()
    model.lock = threading.Lock()
    with pytest.raises(OutputError, match=r"XGBClassifier cannot be pickled.*no file can hold"):
        guarded.save(tmp_path / "locked")
    assert not (tmp_path / "locked").exists()


@pytest.mark.filterwarnings("ignore:.*eval_set.*")
def test_lightgbm_early_stopping_and_labels(tmp_path):
    model = lightgbm.LGBMClassifier(n_estimators=40, num_leaves=4, learning_rate=1.0, n_jobs=1, verbose=-1)
    model.fit(
        X[:280],
        LABELS[:280],
        eval_set=[(X[280:400], LABELS[280:400])],
        callbacks=[lightgbm.early_stopping(2, verbose=False)],
    )
    assert model.best_iteration_ < 40
    guarded = GuardedModel(prune_booster(model, X[:280], X[400:], alpha=0.4, time_limit=20))
    guarded.save(tmp_path / "folder")
    again = load_scorer(tmp_path / "folder")
    assert (again.predict(X) == model.predict(X)).all()
    assert again.predict(X).dtype.kind == "U"


def test_a_folder_is_replaced_as_a_whole_and_strangers_files_never(saved, tmp_path):
    model = ensemble.GradientBoostingClassifier(**SIZE, random_state=0).fit(X[:280], Y[:280])
    guarded = guarded_of(model)
    shutil.copytree(saved[0], tmp_path / "folder")
    guarded.save(tmp_path / "folder")
    assert {path.name for path in (tmp_path / "folder").iterdir()} == {
        "original.pkl",
        "pruned.pkl",
        "region.json",
        "certificate.json",
        "scorer.json",
        "scorer.npz",
    }
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "region.json").write_text("my own")
    with pytest.raises(InvalidInputError, match=r"already holds region\.json"):
        guarded.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "region.json").read_text() == "my own"


def test_sklearn_and_a_threshold(tmp_path):
    model = ensemble.GradientBoostingClassifier(**SIZE, random_state=0).fit(X[:280], Y[:280])
    guarded = guarded_of(model, threshold=0.7)
    guarded.save(tmp_path / "folder")
    again = load_scorer(tmp_path / "folder")
    assert (again.predict(X) == (model.predict_proba(X)[:, 1] > 0.7)).all()
    assert "the threshold 0.7" in again.claim


def test_margin_guards_are_saved_too(tmp_path):
    model = xgboost.XGBClassifier(**SIZE, n_jobs=1).fit(X[:280], Y[:280])
    result = prune_booster(model, X[:280], X[280:], alpha=0.3)
    guarded = GuardedModel(result, X[280:], fidelity=0.95)
    guarded.save(tmp_path / "folder")
    again = load_scorer(tmp_path / "folder")
    assert again.margin == guarded.margin
    assert again.claim == guarded.claim
    assert (again.predict(X) == guarded.predict(X)).all()


@pytest.mark.parametrize("name", ["original.json", "pruned.json", "region.json", "certificate.json"])
def test_a_file_of_another_pair_is_refused(saved, name, tmp_path):
    shutil.copytree(saved[0], tmp_path / "mixed")
    shutil.copy(saved[1] / name, tmp_path / "mixed" / name)
    with pytest.raises(CertificateMismatch, match="their digests differ"):
        load_scorer(tmp_path / "mixed")


@pytest.mark.parametrize("name", ["original.json", "pruned.json", "region.json"])
def test_a_mixed_folder_with_new_digests_is_refused(saved, name, tmp_path):
    """Whoever also writes a new manifest is caught by the certificate, and answers nothing else until then."""
    shutil.copytree(saved[0], tmp_path / "mixed")
    contents = (saved[1] / name).read_bytes()
    (tmp_path / "mixed" / name).write_bytes(contents)

    def name_it(manifest):
        manifest["files"][name] = _sha256(contents)
        if name != "region.json":
            digest = "model_digest" if name == "original.json" else "pruned_digest"
            manifest[digest] = forest_digest(read_model(contents).forest)

    rewrite(tmp_path / "mixed", change_manifest=name_it)
    X_any = np.random.default_rng(0).permuted(X, axis=0)
    assert (load_scorer(tmp_path / "mixed").predict(X_any) == load_scorer(saved[0]).predict(X_any)).all()
    for read in (verify_guarded, lambda folder: load_scorer(folder, backend="native")):
        with pytest.raises(CertificateMismatch, match="not the one that the certificate names"):
            read(tmp_path / "mixed")


CHANGES = {
    "original.forest.edge": lambda a: a.__setitem__(0, np.nextafter(a[0], -np.inf)),
    "original.native.value": lambda a: a.__setitem__((0, 0), a[0, 0] + 1),
    "original.exits.low": lambda a: a.__setitem__((0, 0), a[0, 0] + 1),
    "original.exits.order": lambda a: a.__setitem__(slice(None), a[::-1].copy()),
    "pruned.native.cuts": lambda a: a.__setitem__(0, 0.25),
    "pruned.exits.high": lambda a: a.__setitem__((-1, 0), a[-1, 0] - 1e-6),
    "pruned.exits.value": lambda a: a.__setitem__((1, 0, 0), np.nextafter(a[1, 0, 0], 9)),
    "region.sums.limit": lambda a: a.__setitem__(0, a[0] + 1),
    "region.sums.cost": lambda a: a.__setitem__(0, a[0] - 1),
    "region.forest.edge": lambda a: a.__setitem__(0, np.nextafter(a[0], np.inf)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_array_of_either_model_or_of_the_region_is_noticed(saved, name, tmp_path):
    shutil.copytree(saved[0], tmp_path / "edited")
    rewrite(tmp_path / "edited", lambda arrays: CHANGES[name](arrays[name]))
    load_scorer(tmp_path / "edited").predict(X)
    with pytest.raises(CertificateMismatch, match="What the folder loads does not follow from its models"):
        verify_guarded(tmp_path / "edited")


def test_a_changed_margin_is_noticed(tmp_path):
    model = xgboost.XGBClassifier(**SIZE, n_jobs=1).fit(X[:280], Y[:280])
    guarded = GuardedModel(prune_booster(model, X[:280], X[280:], alpha=0.3), X[280:], fidelity=0.95)
    guarded.save(tmp_path / "folder")
    assert verify_guarded(tmp_path / "folder").margin == guarded.margin
    rewrite(tmp_path / "folder", lambda arrays: CHANGES["original.native.value"](arrays["own.value"]))
    with pytest.raises(CertificateMismatch, match="from its models and its guard \\(own\\)"):
        verify_guarded(tmp_path / "folder")
    rewrite(tmp_path / "folder", None, lambda manifest: manifest["arrays"]["own"].update(distance=123.0))
    with pytest.raises(MalformedModelError, match="two margins"):
        load_scorer(tmp_path / "folder")


MALFORMED = {
    "original.forest.node": lambda a: a.__setitem__(0, a[0] | np.uint64(2**24 - 1) << np.uint64(40)),
    "pruned.exits.order": lambda a: a.__setitem__(0, 99),
    "region.forest.root": lambda a: a.__setitem__(0, 10**6),
    "region.sums.offset": lambda a: a.__setitem__(0, 10**9),
    "region.sums.first": lambda a: a.__setitem__(0, 10**6),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_arrays_are_refused_before_the_kernel_sees_them(saved, name, tmp_path):
    shutil.copytree(saved[0], tmp_path / "edited")
    rewrite(tmp_path / "edited", lambda arrays: MALFORMED[name](arrays[name]))
    with pytest.raises(MalformedModelError, match="Invalid scorer"):
        load_scorer(tmp_path / "edited")


@pytest.mark.parametrize("change", ["drop", "add", "wider region", "no arrays", "no archive"])
def test_arrays_that_do_not_fit_the_manifest_are_refused(saved, change, tmp_path):
    shutil.copytree(saved[0], tmp_path / "edited")

    def edit(arrays):
        if change == "drop":
            del arrays["pruned.exits.order"]
        elif change == "add":
            arrays["other.thing"] = np.zeros(1)

    def edit_manifest(manifest):
        if change == "wider region":
            manifest["arrays"]["region"]["n_features"] += 1
        elif change == "no arrays":
            manifest["arrays"]["region"] = None
        elif change == "no archive":
            del manifest["files"]["scorer.npz"]

    rewrite(tmp_path / "edited", edit, edit_manifest)
    with pytest.raises(MalformedModelError, match="Invalid scorer"):
        load_scorer(tmp_path / "edited")


def test_a_loaded_model_is_saved_as_it_was_and_pickled(saved, tmp_path):
    again = load_scorer(saved[0])
    assert again.parts.evidence is None
    again.save(tmp_path / "copy")
    for path in saved[0].iterdir():
        assert (tmp_path / "copy" / path.name).read_bytes() == path.read_bytes()
    sent = pickle.loads(pickle.dumps(again))
    assert (sent.predict(X) == again.predict(X)).all()
    assert verify_guarded(tmp_path / "copy").certificate is not None


def test_loading_reads_no_model(saved):
    code = (
        f"import sys, pine_boost; pine_boost.load_scorer({str(saved[0])!r});"
        "print([m for m in sys.modules if m.startswith(('pine_boost.region', 'pine_boost.certificate', "
        "'pine_boost.native', 'pine_boost.proof', 'pine_boost.parsers.xgboost'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_other_folders_are_refused(saved, tmp_path):
    with pytest.raises(InvalidInputError, match="not a scorer folder"):
        load_scorer(tmp_path / "nothing")
    with pytest.raises(InvalidInputError, match="not a scorer folder"):
        load_scorer(tmp_path)
    (tmp_path / "scorer.json").write_text("[]")
    with pytest.raises(CertificateMismatch, match="Invalid scorer manifest"):
        load_scorer(tmp_path)
    shutil.copytree(saved[0], tmp_path / "edited")
    text = (saved[0] / "scorer.json").read_text()
    (tmp_path / "edited" / "scorer.json").write_text(text.replace('"classes": [\n  0', '"classes": [\n  7'))
    with pytest.raises(CertificateMismatch, match="changed after it was written"):
        load_scorer(tmp_path / "edited")
    shutil.copytree(saved[0], tmp_path / "short")
    (tmp_path / "short" / "region.json").unlink()
    with pytest.raises(CertificateMismatch, match=r"lacks region\.json"):
        load_scorer(tmp_path / "short")
