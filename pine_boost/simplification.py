"""simplify: the same margins from fewer nodes.

Leaves out what no input can tell from the rest: branches that no input reaches, splits between equal leaves, trees
that add nothing. No bit of a margin changes unless the caller allows constants to be folded, which rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pine_boost.certificate.claims import margins_claim
from pine_boost.errors import PineBoostError
from pine_boost.exporters import export_trimmed
from pine_boost.model.exact import folding_band, largest_leaf
from pine_boost.model.forest import BoolArray, FloatArray, Forest, IntArray, Model
from pine_boost.model.reach import Reach, Shrunk, find_reach, shrink
from pine_boost.model.reference import native_margins
from pine_boost.model.rules import SplitKind
from pine_boost.model.synthetic_rows import edge_values
from pine_boost.model.trimming import Trimming, trim
from pine_boost.native.figures import SIZES, SideBySide, side_by_side
from pine_boost.native.predict import original_bytes
from pine_boost.notebooks import displayed
from pine_boost.parsers import read_model
from pine_boost.parsers.traits import traits_of
from pine_boost.pipelines.layers import peel_all, rebuild

# rows on which the written model is compared with the original before it is returned
_REPLAYED_ROWS = 64


@displayed
@dataclass(frozen=True, eq=False, repr=False)
class SimplifyResult:
    """A simplified model and what was left out of it.

    Attributes
    ----------
    model : object or bytes
        Of the same kind as the model that was given, bytes of the same format for a file. Where
        nothing could be left out it is the very object (or the contents) that was given.
    exact : bool
        True: the native margin of every input is bit for bit what it was. False: it may differ
        by rounding, by ``bound`` at most.
    bound : float
        0 where ``exact``.
    trees_before, trees_after, nodes_before, nodes_after, leaves_before, leaves_after : int
    dead_splits : int
        Splits with a side that no input reaches.
    twin_splits : int
        Splits between leaves of the same value.
    unused_codes : int
        Category codes that stood in a set where they cannot occur.
    note : str
        What was not done, and why; empty otherwise.
    original, simplified : Model
        Both models as parsed.
    """

    model: Any
    exact: bool
    bound: float
    trees_before: int
    trees_after: int
    nodes_before: int
    nodes_after: int
    leaves_before: int
    leaves_after: int
    dead_splits: int
    twin_splits: int
    unused_codes: int
    note: str
    original: Model = field(repr=False)
    simplified: Model = field(repr=False)

    def headline(self) -> str:
        """One line: what was left out."""
        if self.simplified is self.original:
            size = f"{self.trees_before} trees, {self.leaves_before} leaves"
            return f"Nothing could be removed ({size}). {self.note}".rstrip()
        return (
            f"{self.trees_before} -> {self.trees_after} trees, "
            f"{self.leaves_before} -> {self.leaves_after} leaves, "
            f"{self.nodes_before} -> {self.nodes_after} nodes "
            f"({self.dead_splits} splits with a dead side, {self.twin_splits} between equal "
            f"leaves, {self.unused_codes} unused category codes)."
        )

    def summary(self) -> str:
        """A short readable text: what went, whether a margin can have changed, and what that saves."""
        if self.simplified is self.original:
            return self.headline()
        return "\n".join([self.headline(), margins_claim(self.exact, self.bound), *self.side_by_side.summary()])

    @cached_property
    def side_by_side(self) -> SideBySide:
        """Size and work of both models, and what measures their speed."""
        return side_by_side(self.original, self.simplified)

    def speedup(self, X: Any = None, sizes: Sequence[int] = SIZES) -> dict[int, float]:
        """How many times as fast the new model is natively, by rows of a call; measured now, on ``X`` if given."""
        return self.side_by_side.speedup(X, sizes)


def simplify(model: Any, *, fold_constants: bool = False, trust_pickle: bool = False) -> SimplifyResult:
    """Leave out of a model what no input can tell from the rest.

    Gone are branches that no input reaches (their path asks for ``x < 1`` and ``x >= 2``, or for a
    category that an earlier split sent elsewhere; NaN and unseen categories are tried too), splits
    between leaves of the same value, trees that add zero, and category codes in sets where they
    cannot occur. Needs no data.

    Parameters
    ----------
    model : object, path, bytes or Model
        What `pine_boost.parsers.read_model` accepts, regressors and rankers included; also a
        Pipeline, threshold wrapper or calibrated classifier around one, which is returned with the
        simplified model inside.
    fold_constants : bool
        Also fold trees that add the same number for every input into the leaves of another tree,
        which keeps margins only within the rounding band. The result states the band. XGBoost dart
        models of versions before 3.3 that predict in place (wrappers, files) need this, because
        their native sum cannot be written with fewer trees bit for bit.
    trust_pickle : bool
        Load models from pickle and joblib files, which runs code from the file; use it only for
        files you made.

    Returns
    -------
    SimplifyResult
        ``exact`` says whether every native margin is bit for bit what it was. Means and votes
        (random forests, AdaBoost) keep the number of their trees. Importances and SHAP values
        may move: a split that decided nothing is gone.

    Raises
    ------
    UnsupportedModelError, MalformedModelError, InvalidInputError
        As `read_model`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import AdaBoostClassifier
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from pine_boost import simplify
    >>> X, y = load_iris(return_X_y=True)
    >>> trees = DecisionTreeClassifier(max_depth=3, random_state=0)
    >>> result = simplify(AdaBoostClassifier(trees, n_estimators=5, random_state=0).fit(X, y))
    >>> result.exact, result.leaves_after < result.leaves_before
    (True, True)
    """
    layers, inner = peel_all(model)
    result = _simplified(read_model(inner, trust_pickle=trust_pickle, decision="value"), fold_constants)
    if not layers:
        return result
    return replace(result, model=model if result.simplified is result.original else rebuild(layers, result.model))


def _simplified(model: Model, fold_constants: bool) -> SimplifyResult:
    forest = model.forest
    if _predicts_otherwise(model) and not fold_constants:
        note = (
            "This dart model predicts in place, where the sum of its trees depends on their "
            "weights in another way; it was left as it is. With fold_constants=True it becomes a "
            "gbtree model whose margins are the same within the rounding band."
        )
        return _unchanged(model, note)
    plan = make_plan(model, find_reach(forest), fold_constants=fold_constants)
    if not plan.changes(forest):
        return _unchanged(model, "")
    written = export_trimmed(model, plan.trimming, plan.shift)
    simplified = read_model(written, decision="value")
    exact = plan.exact and not _predicts_otherwise(model)
    bound = 0.0 if exact else _bound(forest, simplified.forest, plan)
    _replay(forest, simplified.forest, bound)
    return _result(model, written, simplified, plan, bound if not exact else None)


def lossless_part(model: Model) -> Trimming | None:
    """What is left of a model's forest without the parts that no input can tell from the rest; None if that is all."""
    if _predicts_otherwise(model):
        return None
    plan = make_plan(model, find_reach(model.forest), fold_constants=False)
    return plan.trimming if plan.exact and len(plan.trimming.node) < model.forest.n_nodes else None


def _predicts_otherwise(model: Model) -> bool:
    """Whether a boosted sum is not that of the leaves in order: only for dart of XGBoost that predicts in place."""
    return traits_of(model.forest.library).weighs_trees and model.forest.slack > 0


def _unchanged(model: Model, note: str) -> SimplifyResult:
    native = original_bytes(model) if model.native is None else model.native
    return _result(model, native, model, None, None, note)


def _result(
    model: Model, written: Any, simplified: Model, plan: Plan | None, bound: float | None, note: str = ""
) -> SimplifyResult:
    before, after = model.forest, simplified.forest
    return SimplifyResult(
        model=written,
        exact=bound is None,
        bound=bound or 0.0,
        trees_before=before.n_trees,
        trees_after=after.n_trees,
        nodes_before=before.n_nodes,
        nodes_after=after.n_nodes,
        leaves_before=before.n_leaves,
        leaves_after=after.n_leaves,
        dead_splits=plan.shrunk.n_dead if plan else 0,
        twin_splits=plan.shrunk.n_twins if plan else 0,
        unused_codes=plan.n_codes if plan else 0,
        note=note,
        original=model,
        simplified=simplified,
    )


def _bound(before: Forest, after: Forest, plan: Plan) -> float:
    """How far two native margins may be apart, for every input."""
    trimming = plan.trimming
    tree = np.repeat(trimming.kept, np.diff(trimming.offset))[trimming.is_leaf]
    wanted = before.value[trimming.value_node[trimming.is_leaf], 0] + plan.shift[tree]
    # every reader lists the leaves of a tree in the order in which they were written
    written = after.value[after.kind == SplitKind.LEAF, 0]
    moved = np.zeros(before.n_trees)
    np.maximum.at(moved, tree, np.abs(written - wanted))
    gone = np.delete(largest_leaf(before).max(axis=1), trimming.kept)
    return folding_band(before, after, float(moved.sum()), float(gone.sum()))


def _replay(before: Forest, after: Forest, bound: float) -> None:
    """Compare the model that was written with the original on rows at thresholds."""
    X = _edge_rows(before)
    old, new = native_margins(before, X), native_margins(after, X)
    same = np.array_equal(old.view(np.uint8), new.view(np.uint8))
    if not same and not (bound and float(np.abs(old - new).max()) <= bound):
        raise PineBoostError(
            "The simplified model was written but gives other margins than the original on rows "
            "at its thresholds; it was thrown away. Please report this model."
        )


def _edge_rows(forest: Forest) -> FloatArray:
    """Rows whose values lie on thresholds or one float beside, are missing, or unseen."""
    random = np.random.default_rng(0)
    X = np.zeros((_REPLAYED_ROWS, forest.n_features))
    for feature in range(forest.n_features):
        values: list[Any] = [edge_values(forest, feature), [0.0, -1.0]]
        if forest.accepts_missing:
            values.append([np.nan])
        X[:, feature] = random.choice(np.concatenate(values), _REPLAYED_ROWS)
    return X


@dataclass(frozen=True, eq=False)
class Plan:
    """The smaller model over the nodes of the original.

    Attributes
    ----------
    trimming : Trimming
    shrunk : Shrunk
        Splits with a side that nothing reaches, and splits between equal leaves, in the trees that remain and in
        those that go.
    shift : float64 (n_trees,)
        Constants of trees that go, for the leaves of a tree that stays; 0 unless asked for.
    exact : bool
        No bit of any margin changes.
    n_codes : int
        Category codes that cannot occur where they are named.
    """

    trimming: Trimming
    shrunk: Shrunk
    shift: FloatArray
    exact: bool
    n_codes: int

    def changes(self, forest: Forest) -> bool:
        """Whether anything is left out."""
        return len(self.trimming.node) < forest.n_nodes or self.n_codes > 0


def make_plan(model: Model, reach: Reach, *, fold_constants: bool) -> Plan:
    """Plan a simplification.

    Parameters
    ----------
    model : Model
    reach : Reach
        Of ``model.forest``.
    fold_constants : bool
        Trees that add a constant are folded into the leaves of another tree, which rounds. Trees
        that add zero go in any case, where the sign of a zero cannot depend on them.
    """
    forest = model.forest
    shrunk = shrink(forest, reach.alive)
    category_kept = _kept_codes(forest, reach)
    constant = _constants(forest, shrunk)
    kept, shift, exact = np.arange(forest.n_trees), np.zeros(forest.n_trees), True
    if _may_lose_trees(model):
        neutral = _is_neutral(forest, constant, reach.alive)
        goes = ~np.isnan(constant) if fold_constants else neutral
        kept = _kept_trees(forest, goes, neutral)
        shift = _shifts(forest, constant, kept)
        exact = len(np.setdiff1d(np.flatnonzero(~neutral), kept)) == 0
    trimming = trim(
        forest, kept, shrunk.is_leaf, instead=shrunk.instead, value_node=shrunk.value_node, category_kept=category_kept
    )
    return Plan(trimming, shrunk, shift, exact, int(np.count_nonzero(~category_kept)))


def _kept_codes(forest: Forest, reach: Reach) -> BoolArray:
    """Codes that stay in their sets; a set keeps one code at least, as XGBoost demands.

    Where a library stores sets of a fixed size, nothing is gained.
    """
    if traits_of(forest.library).keeps_whole_sets:
        return np.ones_like(reach.category_alive)
    kept, first = reach.category_alive.copy(), forest.category_offset[:-1][np.diff(forest.category_offset) > 0]
    if len(first):
        kept[first[~np.logical_or.reduceat(kept, first)]] = True
    return kept


def _constants(forest: Forest, shrunk: Shrunk) -> FloatArray:
    """The constant of every tree that is a single leaf, NaN for the others."""
    root = shrunk.instead[forest.tree_offset[:-1]]
    return np.where(shrunk.is_leaf[root], forest.value[shrunk.value_node[root], 0], np.nan)


def _may_lose_trees(model: Model) -> bool:
    """Only a plain sum may: a mean, or a vote, divides by its trees."""
    if model.forest.value.shape[1] > 1 or getattr(model.document, "average_output", False):
        return False
    return getattr(model.document, "family", "gradient") in ("gradient", "histogram")


def _kept_trees(forest: Forest, goes: BoolArray, neutral: BoolArray) -> IntArray:
    """Trees that stay: single trees go, where several outputs share a round whole rounds.

    Every output keeps a tree, rather one that adds something, and rounds that go hold as many
    trees as XGBoost 1.7 counts on.
    """
    goes, rounds = goes.copy(), forest.tree_round
    if forest.n_outputs > 1:
        whole = np.bincount(rounds) % forest.n_outputs == 0
        np.logical_and.at(whole, rounds, goes)
        goes = whole[rounds]
    for output in range(forest.n_outputs):
        mine = np.flatnonzero(forest.tree_output == output)
        if len(mine) and goes[mine].all():
            goes[rounds == rounds[mine[np.argmin(neutral[mine])]]] = False
    return np.flatnonzero(~goes)


def _is_neutral(forest: Forest, constant: FloatArray, alive: BoolArray) -> BoolArray:
    """Trees whose constant changes no bit of any sum.

    x + 0.0 is x but for x = -0.0, and x + -0.0 is x always. A sum is -0.0 only if every term of
    it is, the intercept included. So +0.0 may go where the intercept is no zero (of either sign:
    XGBoost's for a probability of 0.5 is -0.0, which no prediction shows), or where a tree that
    stays never gives -0.0.
    """
    is_minus_zero = (forest.value == 0) & np.signbit(forest.value)
    gives = np.logical_or.reduceat(
        is_minus_zero[:, 0] & (forest.kind == SplitKind.LEAF) & alive, forest.tree_offset[:-1]
    )
    starts = forest.intercept == 0
    if traits_of(forest.library).sums_from_zero:
        starts = np.zeros(forest.n_outputs, dtype=bool)
    zero = constant == 0
    neutral = np.zeros(forest.n_trees, dtype=bool)
    for output in range(forest.n_outputs):
        mine = forest.tree_output == output
        safe = not starts[output] or np.any(mine & ~zero & ~gives)
        neutral |= mine & zero & (np.signbit(constant) | safe)
    return neutral


def _shifts(forest: Forest, constant: FloatArray, kept: IntArray) -> FloatArray:
    """What each tree takes over: the constants of an output go to its first tree that stays."""
    shift, gone = np.zeros(forest.n_trees), ~np.isin(np.arange(forest.n_trees), kept)
    for output in range(forest.n_outputs):
        mine = kept[forest.tree_output[kept] == output]
        if len(mine) == 0:
            continue
        # a tree with splits first: a constant one would keep its node for the constant alone
        target = mine[np.argmax(np.isnan(constant[mine]))]
        shift[target] = constant[gone & (forest.tree_output == output)].sum()
    return shift
