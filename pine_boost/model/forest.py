"""The tree ensemble that parsers produce and every later stage reads: the exact numbers of the file, validated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, MalformedModelError
from pine_boost.model.rules import CategoryRule, Comparison, SplitKind, Tie

IntArray = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Decision:
    """Maps margins to the class that the native ``predict`` returns.

    One output (binary): class 1 iff ``margin > cut`` (``>=`` with ``Tie.HIGHEST``); several cuts
    make ordered score bands. Several outputs: the largest margin wins.

    Attributes
    ----------
    cuts : tuple of float
        True boundaries in margin space, ascending; empty for several outputs.
    tie : Tie
        Which class wins on exact equality.
    guard : float
        Distance from a cut (or between two classes) within which rounding after the margin
        (sigmoid, softmax, division) may change the order. 0 if the decision reads the margin.
    thresholds : tuple of float
        The user's own (probabilities, or margins for regression), empty for the default.
    """

    cuts: tuple[float, ...]
    tie: Tie = Tie.LOWEST
    guard: float = 0.0
    thresholds: tuple[float, ...] = ()

    def classes(self, margins: npt.NDArray[Any]) -> IntArray:
        """Return the class index (or score band) of real margins, ties included; the last axis is outputs."""
        if self.cuts:
            side: Literal["left", "right"] = "left" if self.tie is Tie.LOWEST else "right"
            return np.asarray(np.searchsorted(np.array(self.cuts), margins[..., 0], side=side))
        if self.tie is Tie.LOWEST:
            return np.asarray(np.argmax(margins, axis=-1))
        return np.asarray(margins.shape[-1] - 1 - np.argmax(margins[..., ::-1], axis=-1))

    def distance(self, margins: npt.NDArray[Any]) -> FloatArray:
        """Return the distance of real margins from the nearest cut, or the gap between the two best classes."""
        margins = np.asarray(margins, dtype=np.float64)
        if self.cuts:
            return np.asarray(np.min([np.abs(margins[..., 0] - cut) for cut in self.cuts], axis=0))
        best = np.partition(margins, -2, axis=-1)
        return np.asarray(best[..., -1] - best[..., -2])

    def wins_tie(self, above: int, below: int) -> bool:
        """Return whether class (or side) ``above`` wins a tie with ``below``."""
        return above < below if self.tie is Tie.LOWEST else above > below


@dataclass(frozen=True, eq=False)
class Forest:
    """A tree ensemble as stacked numpy arrays.

    Tree ``t`` owns the nodes ``tree_offset[t]:tree_offset[t + 1]``, its root first. ``left`` and
    ``right`` are positions in the stacked arrays (-1 at leaves).

    Attributes
    ----------
    tree_offset : int64 (n_trees + 1,)
    feature : int32 (n_nodes,)
        -1 at leaves.
    threshold : float64 (n_nodes,)
        Exact; float32-valued where ``comparison`` is FLOAT32_LESS. 0 at leaves and categoricals.
    left, right : int64 (n_nodes,)
    default_left : bool (n_nodes,)
        Side of a missing value.
    kind : uint8 (n_nodes,)
        A `SplitKind`.
    missing : uint8 (n_nodes,)
        A `MissingRule`; only read at numeric nodes.
    set_left : bool (n_nodes,)
        At a categorical node: the side of the categories in its set; every other category,
        unseen ones included, goes to the opposite side.
    category_offset : int64 (n_nodes + 1,)
    category : int32
        The sorted codes of node ``i`` are ``category[category_offset[i]:category_offset[i + 1]]``.
    value : float64 (n_nodes, width)
        Leaf values as the native sum adds them (learning rate, dart weight folded in); 0 at inner
        nodes. Width 1, or the number of outputs (vector leaves of scikit-learn forests).
    tree_output : int32 (n_trees,)
        The output a width-1 tree adds to; -1 for vector leaves.
    tree_round : int32 (n_trees,)
        Boosting round, ascending from 0.
    tree_bias : float64 (n_trees,)
        Part of every leaf of the tree that belongs to the intercept (LightGBM folds the prior into
        tree 0). Reweighting multiplies ``value - tree_bias``.
    intercept : float64 (n_outputs,)
        The native sum starts with it, or ends with it (see ``intercept_last``).
    intercept_last : bool
        Whether the native sum starts from 0 and adds the intercept after the last tree (CatBoost).
    free_intercept : bool
        Whether the exported model may have any constant per output.
    arithmetic : type of the native sum, ``np.float32`` or ``np.float64``
    slack : float
        Proven bound on |native margin - float sum of these leaves in this order| for kinds with a
        different native formula (dart through inplace_predict, averaging); 0 otherwise.
    comparison : Comparison
    category_rule : CategoryRule
    decision : Decision
    n_outputs : int
        1 for a binary margin, else the number of classes.
    classes : tuple
        Labels in the order of class indices, as the native ``predict`` returns them.
    n_features : int
    feature_names : tuple of str or None
    feature_categories : tuple
        Per feature None, or the tuple of raw category values whose position is the code.
    missing_value : float
        The value that counts as missing besides NaN (XGBoost's ``missing=``), NaN if none.
    sparse_zero_is_missing : bool
        Whether an absent entry of a sparse matrix is missing (XGBoost) or zero (the others).
    accepts_missing : bool
        False if the native ``predict`` raises on NaN (scikit-learn's GradientBoosting).
    snaps_to_zero : bool
        Whether tiny values count as 0 before any comparison (LightGBM, |x| <= 1e-35).
    library, objective : str
    slope : float
        Native probabilities are those of ``slope * margin`` (sigmoid or softmax). They decide no class;
        they only measure how close a pruned model's probabilities are. A value (see `decides`) is
        ``slope * margin`` before any link: the mean of a forest whose margin is a sum.
    """

    tree_offset: IntArray
    feature: Int32Array
    threshold: FloatArray
    left: IntArray
    right: IntArray
    default_left: BoolArray
    kind: npt.NDArray[np.uint8]
    missing: npt.NDArray[np.uint8]
    set_left: BoolArray
    category_offset: IntArray
    category: Int32Array
    value: FloatArray
    tree_output: Int32Array
    tree_round: Int32Array
    tree_bias: FloatArray
    intercept: FloatArray
    free_intercept: bool
    arithmetic: type[np.float32] | type[np.float64]
    comparison: Comparison
    category_rule: CategoryRule
    decision: Decision
    n_outputs: int
    classes: tuple[Any, ...]
    n_features: int
    library: str
    objective: str
    intercept_last: bool = False
    slack: float = 0.0
    slope: float = 1.0
    feature_names: tuple[str, ...] | None = None
    feature_categories: tuple[tuple[Any, ...] | None, ...] = ()
    missing_value: float = float("nan")
    sparse_zero_is_missing: bool = False
    accepts_missing: bool = True
    snaps_to_zero: bool = False

    def __post_init__(self) -> None:
        _check_trees(self)
        for name in self.__dataclass_fields__:
            array = getattr(self, name)
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_offset) - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees, leaves included."""
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return int(np.count_nonzero(self.kind == SplitKind.LEAF))

    @property
    def decides(self) -> bool:
        """Whether the model decides a class; False for a value (read with ``decision="value"``)."""
        return self.n_outputs > 1 or bool(self.decision.cuts)

    @property
    def node_tree(self) -> IntArray:
        """The tree of each node."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.tree_offset))

    def categories_of(self, node: int) -> Int32Array:
        """Return the category codes in the set of a categorical node."""
        return self.category[self.category_offset[node] : self.category_offset[node + 1]]

    def in_sets(self, nodes: IntArray, codes: IntArray) -> BoolArray:
        """Return which of the ascending codes are in the set of each categorical node, (n_nodes, n_codes)."""
        begins = self.category_offset[nodes]
        lengths = self.category_offset[nodes + 1] - begins
        row = np.repeat(np.arange(len(nodes)), lengths)
        entries = self.category[np.arange(len(row)) + np.repeat(begins - np.cumsum(lengths) + lengths, lengths)]
        place = np.searchsorted(codes, entries)
        is_found = np.append(codes, np.iinfo(np.int64).min)[place] == entries  # entries are int32
        member = np.zeros((len(nodes), len(codes)), dtype=bool)
        member[row[is_found], place[is_found]] = True
        return member

    def name_of(self, feature: int) -> str:
        """Return a feature's name for display: the model's own, or ``f<index>``."""
        return self.feature_names[feature] if self.feature_names else f"f{feature}"

    def leaf_vectors(self) -> FloatArray:
        """Return leaf values spread over the outputs, (n_nodes, n_outputs)."""
        return spread(self, self.value)


@dataclass(frozen=True, eq=False)
class PrunedForest:
    """The pruned model on its dyadic grid, as exporters write it.

    Every leaf of a kept tree is ``value_int / 2**grid`` exactly, the intercept is folded into the
    leaves (the native intercept becomes 0), and every partial sum is exact in the native float
    type, so the native margin *is* the integer sum / 2**grid in any order of summation.

    Attributes
    ----------
    forest : Forest
        The original.
    kept : int64 (n_kept,)
        Ascending indices of the trees with a non-zero weight.
    value_int : int64 (n_nodes, width)
        Leaf values in grid units over the nodes of ``forest``; 0 in dropped trees.
    grid : int
        The exponent q.
    intercept_int : int64 (n_outputs,)
        Non-zero only for outputs without a kept tree (the exporter writes a constant tree);
        otherwise ``value_int`` already includes the intercept.
    weights : float64 (n_trees,)
        The weight of each tree relative to the original (informative; ``value_int`` decides).
    is_leaf : bool (n_nodes,) or None
        The nodes of ``forest`` that are leaves of the smaller model; None means the original's leaves.
        ``value_int`` at such a node is its leaf value, and every original leaf below it has
        the same value, so a sum over the original's leaves is right. The exported model
        has no node below it.
    instead : int64 (n_nodes,) or None
        The node that replaces each node after splits with an unreachable side were removed.
    """

    forest: Forest
    kept: IntArray
    value_int: IntArray
    grid: int
    intercept_int: IntArray
    weights: FloatArray
    is_leaf: BoolArray | None = None
    instead: IntArray | None = None


@dataclass(frozen=True, eq=False)
class Model:
    """A parsed model: the exact Forest and what a writer needs to produce the same kind.

    Attributes
    ----------
    forest : Forest
        Only the trees that the native ``predict`` of this kind uses (best_iteration honoured).
    kind : str
        For example ``"xgboost.Booster"``, ``"xgboost.XGBClassifier"``, ``"xgboost file"``,
        ``"lightgbm.LGBMClassifier"``, ``"sklearn.RandomForestClassifier"``.
    native : object or None
        The live object that was given (never modified), None for files and bytes.
    document : object
        Library-specific: the validated file contents the writer starts from.
    n_bytes : int or None
        Size of the file or bytes that were read, None for a live object.
    """

    forest: Forest
    kind: str
    native: Any
    document: Any = field(default=None, repr=False)
    n_bytes: int | None = None


def tree_units(forest: Forest, unit: str) -> IntArray:
    """Return the unit of each tree, counted from 0: its boosting round, or the tree itself."""
    if unit not in ("round", "tree"):
        raise InvalidInputError(f"unit={unit!r}: 'round' and 'tree' are accepted.", option="unit")
    units = forest.tree_round if unit == "round" else np.arange(forest.n_trees)
    return np.unique(units, return_inverse=True)[1].astype(np.int64)


def count_units(forest: Forest, unit: str) -> int:
    """Return the number of rounds, trees or leaves of a forest."""
    return forest.n_leaves if unit == "leaf" else int(tree_units(forest, unit).max()) + 1


def spread(forest: Forest, value: npt.NDArray[Any], tree: IntArray | None = None) -> npt.NDArray[Any]:
    """Spread width-1 leaf values over the outputs of their trees, (n_values, n_outputs).

    ``tree`` is the tree of each value; by default there is one value per node.
    """
    if value.shape[1] == forest.n_outputs:
        return value
    spread_value = np.zeros((len(value), forest.n_outputs), dtype=value.dtype)
    output = forest.tree_output[forest.node_tree if tree is None else tree]
    spread_value[np.arange(len(value)), output] = value[:, 0]
    return spread_value


def _check_trees(forest: Forest) -> None:
    """Raise unless the arrays form trees; parsers have already checked their files in more detail."""
    n_nodes, n_trees = len(forest.feature), len(forest.tree_offset) - 1
    of_nodes = ("threshold", "left", "right", "default_left", "kind", "missing", "set_left", "value")
    of_trees = ("tree_output", "tree_round", "tree_bias")
    lengths = {**dict.fromkeys(of_nodes, n_nodes), **dict.fromkeys(of_trees, n_trees)}
    lengths |= {"category_offset": n_nodes + 1, "intercept": forest.n_outputs}
    for name, length in lengths.items():
        if len(getattr(forest, name)) != length:
            found = len(getattr(forest, name))
            raise MalformedModelError(f"Forest.{name} has {found} entries, expected {length}.")
    if n_trees < 1 or np.any(np.diff(forest.tree_offset) < 1):
        raise MalformedModelError("A Forest needs at least one tree, and every tree a node.")
    if forest.value.ndim != 2 or forest.value.shape[1] not in (1, forest.n_outputs):
        raise MalformedModelError(f"Forest.value has shape {forest.value.shape}.")
    is_leaf = forest.kind == SplitKind.LEAF
    require_trees(forest.tree_offset[:-1], is_leaf, forest.left, forest.right)
    split_feature = forest.feature[~is_leaf]
    if np.any((split_feature < 0) | (split_feature >= forest.n_features)):
        raise MalformedModelError("A split names a feature that the model does not have.")
    if not (np.all(np.isfinite(forest.value)) and np.all(np.isfinite(forest.intercept))):
        raise MalformedModelError("A leaf value or intercept is not finite.")
    if np.any(np.isnan(forest.threshold)):
        raise MalformedModelError("A threshold is NaN.")


def require_trees(root: IntArray, is_leaf: BoolArray, left: IntArray, right: IntArray) -> None:
    """Raise unless stacked nodes form trees, whose roots ascend from 0; children are only read at inner nodes."""
    n_nodes, inner = len(is_leaf), np.flatnonzero(~is_leaf)
    tree = np.searchsorted(root, np.arange(n_nodes), side="right")
    children = np.concatenate([left[inner], right[inner]])
    if np.any((children < 0) | (children >= n_nodes)) or np.any(tree[children] != np.tile(tree[inner], 2)):
        raise MalformedModelError("A child lies outside its tree.")
    # every node except the roots has exactly one parent, and all are seen from the roots: no cycle
    parents, level, n_seen = np.bincount(children, minlength=n_nodes), root, 0
    while len(level) and n_seen <= n_nodes:
        n_seen += len(level)
        level = level[~is_leaf[level]]
        level = np.concatenate([left[level], right[level]])
    if np.any(parents != ~np.isin(np.arange(n_nodes), root)) or n_seen != n_nodes:
        raise MalformedModelError("The nodes of a tree do not form a tree (cycle or orphan).")
