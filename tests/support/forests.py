"""Shared test helpers: random small forests in the manner of each library, and rows for them.

In come a numpy Generator and sizes; out goes a checked Forest or a float64 matrix.
Refuses nothing: the forests are valid by construction, `Forest` itself checks them.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import LIGHTGBM_BINARY_CUT, LIGHTGBM_ZERO, XGBOOST_LOGISTIC_CUT
from pine_boost.model.forest import Decision, FloatArray, Forest
from pine_boost.model.rules import CategoryRule, Comparison, MissingRule, SplitKind, Tie


@dataclass(frozen=True)
class Manner:
    """What else a library does that compares in a certain way."""

    library: str
    comparison: Comparison
    category_rule: CategoryRule
    arithmetic: type[np.float32] | type[np.float64]
    cut: float
    tie: Tie


XGBOOST = Manner("xgboost", Comparison.FLOAT32_LESS, CategoryRule.EXACT, np.float32, XGBOOST_LOGISTIC_CUT, Tie.LOWEST)
LIGHTGBM = Manner(
    "lightgbm", Comparison.FLOAT64_LESS_EQUAL, CategoryRule.TRUNCATE, np.float64, LIGHTGBM_BINARY_CUT, Tie.LOWEST
)
SKLEARN = Manner(  # GradientBoosting
    "sklearn", Comparison.FLOAT32_VALUE_LESS_EQUAL, CategoryRule.KNOWN, np.float64, 0.0, Tie.HIGHEST
)
HISTOGRAM = Manner(  # HistGradientBoosting
    "sklearn", Comparison.FLOAT64_LESS_EQUAL, CategoryRule.KNOWN, np.float64, 0.0, Tie.LOWEST
)
# every category is a set of its own, and where NaN goes is a matter of the feature
CATBOOST = Manner("catboost", Comparison.FLOAT32_LESS, CategoryRule.KNOWN, np.float64, 0.0, Tie.LOWEST)
MANNERS = (XGBOOST, LIGHTGBM, SKLEARN, HISTOGRAM)
MANNER_NAMES = ("xgboost", "lightgbm", "sklearn", "histogram")
NODE_FIELDS = ("feature", "threshold", "left", "right", "default_left", "kind", "missing", "set_left")
NODE_TYPES = (np.int32, np.float64, np.int64, np.int64, bool, np.uint8, np.uint8, bool)
Node = tuple[int, float, int, int, bool, SplitKind, int, bool]


@dataclass(frozen=True, eq=False)
class _Growth:
    """Nodes of the trees drawn so far, a list per array of a Forest."""

    rng: np.random.Generator
    manner: Manner
    pools: list[npt.NDArray[np.float64]]
    rules: npt.NDArray[np.int64]
    categorical: frozenset[int]
    n_categories: int
    sets: list[npt.NDArray[np.int32]] = field(default_factory=list)
    tree_offset: list[int] = field(default_factory=lambda: [0])
    columns: dict[str, list[int | float | bool]] = field(default_factory=lambda: {name: [] for name in NODE_FIELDS})

    def add_tree(self, depth: int, leaf_probability: float) -> None:
        frontier = [0]  # depth of the nodes of this tree, in the order of their numbers
        node = 0
        while node < len(frontier):
            start, level = self.tree_offset[-1], frontier[node]
            early = level > 0 and self.rng.random() < leaf_probability
            if level == depth or early:
                row: Node = (-1, 0.0, -1, -1, False, SplitKind.LEAF, 0, False)
                self.sets.append(np.zeros(0, dtype=np.int32))
            else:
                row = self._split(start + len(frontier))
                frontier += [level + 1, level + 1]
            for name, entry in zip(self.columns, row, strict=True):
                self.columns[name].append(entry)
            node += 1
        self.tree_offset.append(self.tree_offset[-1] + len(frontier))

    def _split(self, left: int) -> Node:
        """A node whose children are ``left`` and the one after it."""
        rng, in_set_left = self.rng, self.manner not in (XGBOOST, CATBOOST)
        feature = int(rng.integers(len(self.pools)))
        default_left = bool(rng.integers(2))
        if self.manner is CATBOOST:
            default_left = feature in self.categorical or bool(self.pools[feature][0] > 0)
        if feature not in self.categorical:
            self.sets.append(np.zeros(0, dtype=np.int32))
            threshold, rule = float(rng.choice(self.pools[feature])), int(self.rules[feature])
            numeric = SplitKind.NUMERIC
            return (feature, threshold, left, left + 1, default_left, numeric, rule, False)
        size = 1 if self.manner is CATBOOST else int(rng.integers(1, self.n_categories))
        codes = np.sort(rng.permutation(self.n_categories)[:size]).astype(np.int32)
        self.sets.append(codes)
        if self.manner is LIGHTGBM:
            default_left = False  # NaN is in no set, and goes right
        kind = SplitKind.CATEGORICAL
        return (feature, 0.0, left, left + 1, default_left, kind, 0, in_set_left)

    def arrays(self) -> dict[str, Any]:
        """The arrays of a Forest that say how its trees split."""
        n_categories = [len(codes) for codes in self.sets]
        return {
            "tree_offset": np.array(self.tree_offset, dtype=np.int64),
            **{
                name: np.array(self.columns[name], dtype=dtype)
                for name, dtype in zip(NODE_FIELDS, NODE_TYPES, strict=True)
            },
            "category_offset": np.concatenate([[0], np.cumsum(n_categories)]).astype(np.int64),
            "category": np.concatenate(self.sets).astype(np.int32),
        }


def random_forest(
    rng: np.random.Generator,
    n_trees: int = 5,
    depth: int = 3,
    n_features: int = 4,
    n_outputs: int = 1,
    *,
    categorical: Collection[int] = (),
    comparison: Comparison = Comparison.FLOAT32_LESS,
    manner: Manner | None = None,
    missing_rules: Collection[MissingRule] | None = None,
    accepts_missing: bool = True,
    n_categories: int = 6,
    n_thresholds: int = 6,
    leaf_grid: int | None = None,
    vector_leaves: bool = False,
    leaf_probability: float = 0.15,
) -> Forest:
    """Draw a forest; trees share thresholds and are complete up to early leaves.

    Parameters
    ----------
    categorical : collection of int
        Features that are split by category sets.
    comparison : Comparison
        Chooses the library whose manner is followed: the first of `MANNERS` that compares so.
    manner : Manner, optional
        The library itself; overrides ``comparison``.
    missing_rules : collection of MissingRule, optional
        What numeric features draw from, one rule per feature; all three for the LightGBM manner,
        otherwise only DEFAULT.
    leaf_grid : int, optional
        Leaves are multiples of ``2**-leaf_grid``; None draws arbitrary floats.
    vector_leaves : bool
        Leaves of width ``n_outputs`` (scikit-learn forests) instead of one tree per output.
    """
    if manner is None:
        manner = next(m for m in MANNERS if m.comparison is comparison)
    if missing_rules is None:
        missing_rules = tuple(MissingRule) if manner is LIGHTGBM else (MissingRule.DEFAULT,)
    pools = [_thresholds(rng, manner, n_thresholds) for _ in range(n_features)]
    rules = rng.choice(np.array([int(rule) for rule in missing_rules]), n_features)
    growth = _Growth(rng, manner, pools, rules, frozenset(categorical), n_categories)
    for _ in range(n_trees):
        growth.add_tree(depth, leaf_probability)
    kind = np.array(growth.columns["kind"], dtype=np.uint8)
    width = n_outputs if vector_leaves else 1
    value = _leaf_values(rng, (len(kind), width), leaf_grid, manner.arithmetic)
    value[kind != SplitKind.LEAF] = 0.0
    known = tuple(range(n_categories)) if manner.category_rule is CategoryRule.KNOWN else None
    return Forest(
        **growth.arrays(),
        value=value,
        tree_output=np.where(vector_leaves and n_outputs > 1, -1, np.arange(n_trees) % n_outputs).astype(np.int32),
        tree_round=(np.arange(n_trees) // (1 if vector_leaves else n_outputs)).astype(np.int32),
        tree_bias=np.zeros(n_trees),
        intercept=_leaf_values(rng, (n_outputs,), leaf_grid, manner.arithmetic),
        free_intercept=True,
        arithmetic=manner.arithmetic,
        comparison=manner.comparison,
        category_rule=manner.category_rule,
        decision=Decision(cuts=(manner.cut,) if n_outputs == 1 else (), tie=manner.tie),
        n_outputs=n_outputs,
        classes=tuple(range(max(2, n_outputs))),
        n_features=n_features,
        library=manner.library,
        objective="binary" if n_outputs == 1 else "multiclass",
        feature_categories=tuple(known if j in categorical else None for j in range(n_features)),
        accepts_missing=accepts_missing,
        snaps_to_zero=manner.library == "lightgbm",
    )


def random_rows(rng: np.random.Generator, forest: Forest, n_rows: int, missing: float = 0.1) -> FloatArray:
    """Rows around the thresholds of a forest: a third exactly on one, codes for categories."""
    X = rng.normal(size=(n_rows, forest.n_features)) * 2
    for feature in range(forest.n_features):
        nodes = np.flatnonzero(forest.feature == feature)
        if np.any(forest.kind[nodes] == SplitKind.CATEGORICAL):
            X[:, feature] = rng.integers(0, 8, size=n_rows)
        elif len(nodes):
            on_edge = rng.random(n_rows) < 1 / 3
            X[on_edge, feature] = rng.choice(forest.threshold[nodes], int(on_edge.sum()))
    if forest.accepts_missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X


def _thresholds(rng: np.random.Generator, manner: Manner, count: int) -> FloatArray:
    pool = rng.normal(size=max(count - 1, 1)) * 2
    if manner in (XGBOOST, CATBOOST):
        pool = pool.astype(np.float32).astype(np.float64)
    special = [0.0, -0.0, 1.0, float(np.float32(0.1))]
    if manner is LIGHTGBM:
        special += [LIGHTGBM_ZERO, -LIGHTGBM_ZERO]
    return np.append(pool, rng.choice(special))


def _leaf_values(
    rng: np.random.Generator, shape: tuple[int, ...], grid: int | None, arithmetic: type[np.float32] | type[np.float64]
) -> FloatArray:
    if grid is not None:
        return rng.integers(-(2**grid), 2**grid + 1, size=shape) / 2.0**grid
    return rng.normal(size=shape).astype(arithmetic).astype(np.float64)
