"""The fuzz targets: files of every library, live scikit-learn trees, regions and certificates.

``python -m tests.fuzz.targets NAME --seconds N [--seed S]`` runs one by the clock.
"""

import argparse
import copy
import faulthandler
import json
import re
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from random import Random, randrange
from typing import Any

import numpy as np

from pine_boost import Certificate, Domain, Region, prune_booster
from pine_boost.json_fields import canonical, digest_of
from pine_boost.model.reference import native_margins
from pine_boost.parsers import read_model
from pine_boost.parsers.catboost.read import native_json
from pine_boost.parsers.xgboost.ubjson import read_ubjson, write_ubjson
from pine_boost.region.fitting import fit_region
from tests.fuzz.driver import Tally, Target, run
from tests.fuzz.mutations import damage_bytes, damage_json, damage_lines
from tests.fuzz.native_check import check_model


def check_file(contents: bytes) -> None:
    """Refused, or the model that the library itself sees."""
    check_model(contents, read_model(contents))


def check_values(contents: bytes) -> None:
    """The same for files whose model may decide no class."""
    check_model(contents, read_model(contents, decision="value"))


def mostly_json(of_bytes: int) -> Callable[[Random, bytes], bytes]:
    """Mostly valid JSON with wrong contents; one in so many damaged as bytes, which seldom get past the tokens."""

    def damage(random: Random, contents: bytes) -> bytes:
        if random.randint(0, of_bytes - 1) == 0:
            return damage_bytes(random, contents)
        return json.dumps(damage_json(random, json.loads(contents))).encode()

    return damage


@cache
def xgboost_files(suffix: str) -> list[bytes]:
    """Categories, dart, several classes and pandas categories; of .ubj the model with categories."""
    from tests.support.malformed_xgboost import healthy_files

    return [contents for name, contents in healthy_files().items() if name.endswith(suffix)]


def damage_ubjson(random: Random, contents: bytes) -> bytes:
    """Bytes anywhere, or a number, the length or the element type of one array of a tree."""
    if random.random() < 0.5:
        return damage_bytes(random, contents)
    document = read_ubjson(contents)
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    for _ in range(random.randint(1, 3)):
        tree = trees[random.randint(0, len(trees) - 1)]
        arrays = sorted(key for key, value in tree.items() if isinstance(value, np.ndarray))
        key = random.choice(arrays)
        array = tree[key].copy()
        how = random.randint(0, 7)
        if how == 0:
            tree[key] = array[: random.randint(0, len(array))]
        elif how == 1:
            with np.errstate(all="ignore"):
                tree[key] = array.astype(random.choice(("i1", "u1", "i2", "i4", "i8", "f4", "f8")))
        elif how == 2:
            tree[key] = array.tolist() if array.dtype.kind in "iu" else []
        elif len(array):
            place = random.randint(0, len(array) - 1)
            odd = (-1, 0, 1, 2, 5, 100) if array.dtype.kind in "iu" else (0.0, -0.0, 1e-45, 3e38, np.nan, np.inf, 0.5)
            array[place] = np.array(random.choice(odd)).astype(array.dtype)
            tree[key] = array
    return write_ubjson(document)


@cache
def lightgbm_texts() -> list[bytes]:
    """Two classes with categories and missing values, three classes, a random forest, and a text written by hand."""
    import lightgbm

    from tests.support.malformed_lightgbm import sound

    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    X[:, 2] = random.integers(0, 6, 300)
    X[::7, 3] = np.nan
    base = {"verbose": -1, "num_threads": 1, "num_leaves": 5, "min_data_in_leaf": 5}
    settings: list[tuple[dict[str, Any], Any, Any]] = [
        ({"objective": "binary"}, (X[:, 0] > 0) ^ (X[:, 2] == 3), [2]),
        ({"objective": "multiclass", "num_class": 3}, np.digitize(X[:, 0], [-0.5, 0.5]), []),
        ({"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}, X[:, 1] > 0, []),
    ]
    trained = [
        lightgbm.train({**base, **extra}, lightgbm.Dataset(X, y, categorical_feature=names), 3)
        for extra, y, names in settings
    ]
    return [*(booster.model_to_string().encode() for booster in trained), sound()]


CATEGORIES = ("x", "y", "z", "1", 0, 1, 2, 1.0, 2.5, True, 2**53 + 1, 2.0**53, 2**64 + 1, None)


def damage_text(random: Random, contents: bytes) -> bytes:
    """Lines, with tree_sizes mostly made to agree again so that the trees are looked at; or bytes, or categories."""
    kind = random.randint(0, 4)
    if kind == 0:
        return damage_bytes(random, contents)
    if kind == 1:
        lists = [random.choices(CATEGORIES, k=random.randint(0, 4)) for _ in range(random.randint(0, 3))]
        drawn = json.dumps(random.choice((None, lists, lists, lists)))
        return re.sub(rb"pandas_categorical:.*", b"pandas_categorical:" + drawn.encode(), contents)
    text = "\n".join(damage_lines(random, contents.decode().split("\n")))
    if random.randint(0, 4):
        blocks = re.split(r"(?=^Tree=)", text.partition("end of trees")[0], flags=re.MULTILINE)[1:]
        sizes = " ".join(str(len(block.encode())) for block in blocks)
        text = re.sub(r"^tree_sizes=.*$", f"tree_sizes={sizes}", text, flags=re.MULTILINE)
    return text.encode()


@cache
def catboost_files() -> list[bytes]:
    """Symmetric and other trees, several classes, one-hot categories, and a Poisson model, which has a bias."""
    from tests.support.catboost_models import small_models

    return [native_json(model) for model in small_models()]


def damage_catboost(random: Random, contents: bytes) -> bytes:
    """As `mostly_json`; of the training parameters only the loss, which predictions read."""
    if random.randint(0, 4) == 0:
        return damage_bytes(random, contents)
    document = json.loads(contents)
    info = document["model_info"]
    params, info["params"] = info["params"], {"loss_function": info["params"]["loss_function"]}
    document = damage_json(random, document)
    match document:
        case {"model_info": {"params": dict(kept)}}:
            document["model_info"]["params"] = {**{k: v for k, v in params.items() if k != "loss_function"}, **kept}
    return json.dumps(document).encode()


# There are no files of scikit-learn to read (a pickle is only loaded when trusted), so what is damaged are the arrays
# of a fitted model, as another tool or bad memory might leave them.
_ODD = (-3, -2, -1, 0, 1, 2, 5, 1000, 2**31 - 1, 0.5, -1e308, 1e39, 1e-320)
_ARRAYS = ("children_left", "children_right", "feature", "threshold", "value")


@cache
def sklearn_models() -> list[Any]:
    """A forest, gradient boosting and histogram boosting."""
    from sklearn import ensemble

    X = np.random.default_rng(0).normal(size=(200, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    return [
        ensemble.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y),
        ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0).fit(X, y),
        ensemble.HistGradientBoostingClassifier(max_iter=3, max_depth=2, random_state=0).fit(X, y),
    ]


def damage_trees(random: Random, model: Any) -> Any:
    """One to three numbers of the trees."""
    model = copy.deepcopy(model)
    for _ in range(random.randint(1, 3)):
        odd = random.choice((*_ODD, float("nan"), float("inf")))
        if hasattr(model, "_predictors"):
            nodes = model._predictors[random.randint(0, 2)][0].nodes
            column = nodes[random.choice(sorted(nodes.dtype.names))]
        else:
            tree = np.ravel(model.estimators_)[random.randint(0, 2)].tree_
            column = getattr(tree, random.choice(_ARRAYS))
        if column.flags.writeable:
            place = np.unravel_index(random.randint(0, column.size - 1), column.shape)
            if column.dtype.kind in "iub":
                odd = 0 if np.isnan(odd) or np.isinf(odd) else int(odd)
                limits = None if column.dtype.kind == "b" else np.iinfo(column.dtype)
                odd = odd if limits is None else max(min(odd, limits.max), limits.min)
            with np.errstate(over="ignore"):
                column[place] = odd
    return model


def check_trees(model: Any) -> None:
    """Refused, or a Forest whose walk ends (the native predict is not asked: it would crash)."""
    forest = read_model(model).forest
    X = np.random.default_rng(1).normal(size=(5, forest.n_features))
    with np.errstate(over="ignore", invalid="ignore"):
        native_margins(forest, X)


@cache
def regions() -> list[bytes]:
    """All three scores, categories, a domain and an indifference."""
    model = read_model(lightgbm_texts()[0])
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 4))
    X[:, 2] = random.integers(0, 6, 200)
    domain = Domain(lower={0: -9}, upper={0: 9}, one_hot=[[0, 1]])
    fitted = [
        fit_region(model, alpha=0.0, domain=domain),
        fit_region(model, X[:120], X[120:], alpha=0.2, indifference=0.05),
        fit_region(model, X[:120], X[120:], alpha=0.2, score="leaf-support"),
        fit_region(model, X[:120], X[120:], alpha=0.2, score="isolation-forest"),
    ]
    return [canonical(region.to_json()).encode() for region in fitted]


def check_region(contents: bytes) -> None:
    """Refused, or a region that answers and is written the same again."""
    region = Region.from_json(contents)
    text = canonical(region.to_json())
    assert canonical(Region.from_json(text).to_json()) == text
    if region.schema.n_features > 50:
        return
    X = np.random.default_rng(2).normal(size=(6, region.schema.n_features))
    X[:, -1] = np.arange(6) - 1
    margins = np.zeros((6, region.n_outputs)) if region.delta is not None else None
    assert region.contains(X, margins=margins).shape == (6,)
    if region.score_tables is not None:
        assert region.score(X).dtype == np.int64


@cache
def certificates() -> list[bytes]:
    """One of a pruned model with claim and proofs, one of an original that was kept."""
    from sklearn.ensemble import GradientBoostingClassifier

    X = np.random.default_rng(0).normal(size=(300, 3))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    model = GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0).fit(X, y)
    results = [
        prune_booster(model, X[:200], X[200:], alpha=0.3),
        prune_booster(model, X[:200], X[200:], alpha=0.3, time_limit=1e-6),
    ]
    return [result.certificate.to_json().encode() for result in results]


def damage_certificate(random: Random, contents: bytes) -> bytes:
    """As `mostly_json`; the digest must not be all that keeps damage out."""
    if random.randint(0, 4) == 0:
        return damage_bytes(random, contents)
    document = damage_json(random, json.loads(contents))
    if random.randint(0, 3):
        with suppress(ValueError):  # NaN and infinities have no digest
            document["digest"] = digest_of(document)
    return json.dumps(document).encode()


def check_certificate(contents: bytes) -> None:
    """Refused, or a certificate that is written and read the same again."""
    certificate = Certificate.from_json(contents)
    text = certificate.to_json()
    assert Certificate.from_json(text) == certificate
    assert Certificate.from_json(text).to_json() == text


# what passed the parser of one of these is loaded by its library too
NATIVE = {
    "xgboost_json": Target("XGBoost JSON", lambda: xgboost_files(".json"), mostly_json(4), check_file),
    "xgboost_ubj": Target("XGBoost UBJSON", lambda: xgboost_files(".ubj"), damage_ubjson, check_file),
    "lightgbm_text": Target("LightGBM text", lightgbm_texts, damage_text, check_file),
    "catboost_json": Target("CatBoost JSON", catboost_files, damage_catboost, check_values),
}
TARGETS = {
    **NATIVE,
    "sklearn_trees": Target("scikit-learn trees", sklearn_models, damage_trees, check_trees),
    "region_json": Target("region.json", regions, mostly_json(5), check_region),
    "certificate_json": Target("certificate.json", certificates, damage_certificate, check_certificate),
}


def main() -> None:
    """Fuzz one target by the clock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=TARGETS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=randrange(2**31))
    options = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("error")
    started, tally, batch = time.monotonic(), Tally(), 0
    while time.monotonic() - started < options.seconds:
        run(TARGETS[options.name], 200, options.seed + batch, tally)
        batch += 1
    from tests.fuzz.native_worker import WORKER

    print(
        f"{options.name}: {tally.refused + tally.accepted} documents in {time.monotonic() - started:.0f} s "
        f"(seed {options.seed}): {tally.refused} refused with {len(tally.messages)} kinds of "
        f"message, {tally.accepted} read and right, {WORKER.loaded} loaded natively in a child, "
        "0 findings"
    )


if __name__ == "__main__":
    main()
