"""Small scikit-learn models of every kind that the tests share, and rows on their edges."""

from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from pine_boost.model.forest import Forest, Model, PrunedForest
from pine_boost.model.rules import Tie
from tests.support.grids import edge_rows, integer_margins

# OpenMP threads that spin on a shared machine turn seconds into minutes
threadpool_limits(1)


ESTIMATORS = {
    "forest": lambda: RandomForestClassifier(7, max_depth=4, random_state=0),
    "forest of pure leaves": lambda: RandomForestClassifier(6, random_state=1),
    "forest fitted with NaN": lambda: RandomForestClassifier(7, max_depth=5, random_state=2),
    "weighted forest": lambda: RandomForestClassifier(5, max_depth=3, class_weight="balanced", random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(7, max_depth=5, random_state=0),
    "tree": lambda: DecisionTreeClassifier(max_depth=5, random_state=0),
    "gradient": lambda: GradientBoostingClassifier(n_estimators=8, random_state=0),
    "gradient from zero": lambda: GradientBoostingClassifier(
        n_estimators=5, init="zero", subsample=0.7, random_state=0
    ),
    "gradient stopped early": lambda: GradientBoostingClassifier(
        n_estimators=50, learning_rate=0.5, n_iter_no_change=2, random_state=0
    ),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=8, random_state=0),
    "histogram fitted with NaN": lambda: HistGradientBoostingClassifier(max_iter=8),
    "histogram of categories": lambda: HistGradientBoostingClassifier(
        max_iter=8, categorical_features=[1, 4], min_samples_leaf=5
    ),
    "histogram stopped early": lambda: HistGradientBoostingClassifier(
        max_iter=30, early_stopping=True, n_iter_no_change=2, random_state=0
    ),
    "adaboost": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=8, random_state=0),
    "stumps": lambda: AdaBoostClassifier(n_estimators=12, random_state=0),
}

CASES = [(name, n_classes) for name in ESTIMATORS for n_classes in (2, 3, 4)]


def table(n_classes: int, name: str, n_rows: int = 260) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(n_rows, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=3)
    X[:, 2] = np.round(X[:, 2], 1)
    if "categories" in name:
        X[:, 1] = np.round(X[:, 1] * 2) * 3 - 4
        X[:, 4] = np.round(X[:, 4] * 1.5) + 30
    if "NaN" in name or "categories" in name:
        X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X, y


@cache
def fitted(name: str, n_classes: int) -> Any:
    labels = np.array(["ash", "birch", "cedar", "date"])
    X, y = table(n_classes, name)
    return ESTIMATORS[name]().fit(X, labels[y])


def random_case(kind: str, seed: int, n_classes: int, *, n_trees: int = 4, depth: int = 3, decimals: int = 1) -> Any:
    """An estimator that is not fitted, and a small table with every class in it."""
    random = np.random.default_rng(seed)
    X = np.round(random.normal(size=(60, 3)), decimals)
    y = np.concatenate([np.arange(n_classes), random.integers(n_classes, size=60 - n_classes)])
    stump = DecisionTreeClassifier(max_depth=depth)
    native = {
        "forest": RandomForestClassifier(n_trees, max_depth=depth, random_state=seed),
        "extra": ExtraTreesClassifier(n_trees, max_depth=depth, random_state=seed),
        "tree": DecisionTreeClassifier(max_depth=depth, random_state=seed),
        "gradient": GradientBoostingClassifier(n_estimators=n_trees, max_depth=depth),
        "histogram": HistGradientBoostingClassifier(max_iter=n_trees, max_depth=depth, min_samples_leaf=2),
        "adaboost": AdaBoostClassifier(stump, n_estimators=n_trees, random_state=seed),
    }[kind]
    return native, X, y


def to_codes(forest: Forest, raw: np.ndarray) -> np.ndarray:
    """Raw category values to codes, unknown ones to NaN, as the ordinal encoder does."""
    codes = raw.copy()
    for column, known in enumerate(forest.feature_categories):
        if known is not None:
            position = {value: code for code, value in enumerate(known)}
            codes[:, column] = [position.get(value, np.nan) for value in raw[:, column]]
    return codes


def to_raw(forest: Forest, codes: np.ndarray) -> np.ndarray:
    """Codes to raw category values; what is no code becomes a value never seen in training."""
    raw = codes.copy()
    for column, known in enumerate(forest.feature_categories):
        if known is not None:
            for row, code in enumerate(codes[:, column]):
                is_code = 0 <= code < len(known) and code == int(code)
                if not np.isnan(code):
                    unseen = 1e6 + code if np.isfinite(code) else 2e6
                    raw[row, column] = known[int(code)] if is_code else unseen
    return raw


def probe_rows(model: Model, name: str, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """(codes for the Forest, raw rows for scikit-learn) on and around every edge."""
    forest = model.forest
    base = to_codes(forest, table(n_classes, name)[0])
    codes = np.vstack([base, edge_rows(forest, base, infinite="histogram" in name, limit=120)])
    if ("Gradient" in model.kind and "Hist" not in model.kind) or "AdaBoost" in model.kind:
        codes = np.where(np.isnan(codes), 0.0, codes)  # these two refuse NaN
    return codes, to_raw(forest, codes)


def native_values(native: Any, kind: str, X: np.ndarray) -> np.ndarray:
    """What scikit-learn itself computes last before it compares."""
    if hasattr(native, "decision_function"):
        return native.decision_function(X).reshape(len(X), -1)
    return native.predict_proba(X) if "Classifier" in kind else native.predict(X)[:, None]


def expected_values(native: Any, forest: Forest, margins: np.ndarray) -> np.ndarray:
    """The same from the margins of a Forest, in the native order of operations."""
    if isinstance(native, AdaBoostClassifier):
        return 2 * (margins / native.estimator_weights_.sum())
    if hasattr(native, "decision_function") or hasattr(native, "tree_"):
        return margins
    return margins / len(getattr(native, "estimators_", [0]))


def decide(forest: Forest, margins: np.ndarray) -> np.ndarray:
    if forest.n_outputs > 1:
        return np.argmax(margins, axis=1)
    (cut,) = forest.decision.cuts
    above = margins[:, 0] >= cut if forest.decision.tie is Tie.HIGHEST else margins[:, 0] > cut
    return above.astype(int)


def check_exported(exported: Any, model: Model, pruned: PrunedForest, codes: np.ndarray, raw: np.ndarray) -> None:
    """The export's margins are the integers / 2**grid bit for bit, its classes follow."""
    assert type(exported) is type(model.native)
    margins_int = integer_margins(pruned, codes)
    margins = np.ldexp(margins_int.astype(float), -pruned.grid)
    clear = np.ones(len(raw), dtype=bool)
    if "AdaBoost" in model.kind and len(model.forest.classes) > 2:
        # the native votes of several classes round where two are equal
        ordered = np.sort(margins_int, axis=1)
        clear = ordered[:, -1] > ordered[:, -2]
    else:
        values = expected_values(exported, model.forest, margins)
        assert np.array_equal(values, native_values(exported, model.kind, raw))
    labels = np.array(model.forest.classes)[decide(model.forest, margins)]
    assert np.array_equal(labels[clear], exported.predict(raw)[clear])
