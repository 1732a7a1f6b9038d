"""The arrays that the kernel walks: a binned forest, the library's own sum, and an exit plan."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]
WordArray = npt.NDArray[np.uint64]

REFUSED = -2  # the class of a row that the library itself would refuse
# A node is one 64-bit word, see trees.c.
COLUMN_SHIFT, CATEGORY_BIT, CHILD_SHIFT = 16, 39, 40
LARGEST_RANK, LARGEST_COLUMN, LARGEST_STEP = 2**16 - 1, 2**23 - 1, 2**24 - 1
TOP_BIN = 2**16 - 1  # above every rank of a numeric split


class CodeRule(IntEnum):
    """How a number becomes a category code; the values of `trees.c`."""

    EXACT = 0
    TRUNCATED = 1
    KNOWN = 2


class Link(IntEnum):
    """What the library makes of its margins before it decides; the values of `trees.c`."""

    IDENTITY = 0
    SIGMOID_FLOAT32 = 1
    SOFTMAX_FLOAT32 = 2
    EXP_FLOAT32 = 3
    SIGMOID = 4
    SOFTMAX = 5
    EXP = 6


@dataclass(frozen=True, eq=False)
class FlatForest:
    """A forest whose splits compare bins, in the layout of the kernel.

    A *source* is a feature that some split uses; a *column* holds the bins of a source for one way
    of treating NaN and zero. Column 0 is always 0. Trees are in file order.

    Attributes
    ----------
    n_features, n_outputs, n_columns : int
    is_float32 : bool
        Values are rounded to float32 before they are compared.
    is_closed : bool
        A value that equals a threshold goes right.
    zero : float
        Values of at most this size count as 0; negative where none do.
    missing_value : float
        Counts as missing besides NaN.
    refuses_missing, refuses_infinite : bool
        What the library's ``predict`` raises on.
    code_rule : CodeRule
    source_feature : int32 (n_sources,)
    source_edge : int32 (n_sources + 1,)
        Source ``i`` has the thresholds ``edge[source_edge[i]:source_edge[i + 1]]``, ascending.
    source_column : int32 (n_sources + 1,)
        Source ``i`` owns the columns ``source_column[i]:source_column[i + 1]``.
    source_code : int32 (n_sources + 1,)
        Of a category source: its codes, ascending, and the state of each.
    source_other, source_missing : int32 (n_sources,)
        State of every other category, and of a missing one.
    source_known : int32 (n_sources,)
        -1 at a numeric source, else the number of known categories.
    edge : float64
    code, code_state : int32
    column_base : int32 (n_columns,)
        Subtracted from the number of thresholds passed, for features with more than 65535.
    column_nan, column_zero : int32 (n_columns,)
        Bin of NaN and of 0; ``column_zero`` is -1 where 0 is compared like any number.
    node : uint64 (n_nodes,)
    root, depth : int32 (n_trees,)
    tree_set : int32 (n_trees,)
        Number of the first category set of the tree, -1 in trees without.
    set_word : int32
        First word of each category set.
    word : uint64
        Bit ``s`` of a set: state ``s`` goes left.
    leaf_of_node : int32 (n_nodes,)
        Number of the leaf, left to right over all trees, -1 at inner nodes.
    leaf_offset : int32 (n_trees + 1,)
        Tree ``t`` owns the leaves ``leaf_offset[t]:leaf_offset[t + 1]``.
    tree_output : int32 (n_trees,)
        The output that a tree adds to, -1 for vector leaves.
    """

    n_features: int
    n_outputs: int
    n_columns: int
    is_float32: bool
    is_closed: bool
    zero: float
    missing_value: float
    refuses_missing: bool
    refuses_infinite: bool
    code_rule: CodeRule
    source_feature: Int32Array
    source_edge: Int32Array
    source_column: Int32Array
    source_code: Int32Array
    source_other: Int32Array
    source_missing: Int32Array
    source_known: Int32Array
    edge: FloatArray
    code: Int32Array
    code_state: Int32Array
    column_base: Int32Array
    column_nan: Int32Array
    column_zero: Int32Array
    node: WordArray
    root: Int32Array
    depth: Int32Array
    tree_set: Int32Array
    set_word: Int32Array
    word: WordArray
    leaf_of_node: Int32Array
    leaf_offset: Int32Array
    tree_output: Int32Array

    def __post_init__(self) -> None:
        freeze(self)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.root)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return int(self.leaf_offset[-1])

    @property
    def n_sources(self) -> int:
        """Number of features that some split uses."""
        return len(self.source_feature)

    @property
    def column_source(self) -> Int32Array:
        """The source of each column; -1 at column 0."""
        sources = np.arange(self.n_sources, dtype=np.int32)
        return np.append(np.int32(-1), np.repeat(sources, np.diff(self.source_column)))

    @property
    def most_states(self) -> npt.NDArray[np.int64]:
        """The largest state of each category source."""
        states = np.maximum(self.source_other, self.source_missing).astype(np.int64)
        for one in np.flatnonzero(np.diff(self.source_code)):
            states[one] = max(states[one], self.code_state[self.source_code[one] : self.source_code[one + 1]].max())
        return states

    @property
    def node_tree(self) -> Int32Array:
        """The tree of each node."""
        return np.repeat(np.arange(self.n_trees, dtype=np.int32), np.diff(np.append(self.root, len(self.node))))

    @property
    def rank(self) -> Int32Array:
        """The rank of each node, or the number of its category set in the tree."""
        return (self.node & np.uint64(LARGEST_RANK)).astype(np.int32)

    @property
    def column(self) -> Int32Array:
        """The column that each node reads."""
        return (self.node >> np.uint64(COLUMN_SHIFT) & np.uint64(LARGEST_COLUMN)).astype(np.int32)

    @property
    def step(self) -> Int32Array:
        """The distance of each node to its left child; 0 at leaves."""
        return (self.node >> np.uint64(CHILD_SHIFT)).astype(np.int32)


@dataclass(frozen=True, eq=False)
class NativeSum:
    """How the library itself adds the leaves, in file order, and what it decides from the sums.

    The class is the number of ``cuts`` that the linked score exceeds, or without cuts the largest
    score, the lowest index on a tie.

    Attributes
    ----------
    value : float32 or float64 (n_leaves, width)
        What a leaf adds, in the library's own type; width 1 or ``n_outputs``.
    intercept : float32 or float64 (n_outputs,)
        What the sums start from, or end with.
    link : Link
    divisor, slope : float
        Sums are divided by the one before the link; sigmoids multiply them by the other.
    cuts : float64
    wins_ties : bool
        Whether a score that equals a cut exceeds it.
    intercept_last : bool
        Whether the sums start from 0 and the intercept is added after the last tree; float64 only.
    """

    value: npt.NDArray[Any]
    intercept: npt.NDArray[Any]
    link: Link
    divisor: float
    slope: float
    cuts: FloatArray
    wins_ties: bool
    intercept_last: bool = False

    def __post_init__(self) -> None:
        freeze(self)


@dataclass(frozen=True, eq=False)
class ExitPlan:
    """In which order the trees are visited, and when an input has seen enough of them.

    Every leaf holds one value per *value set*; the sums of all sets run along. At stage ``s`` the
    first ``stage[s]`` trees of the order have been seen, and the sums of set ``stage_set[s]`` are
    compared with the exits of the stage. What exits nowhere is summed as the library does.

    Attributes
    ----------
    order : int32 (n_trees,)
    stage : int32 (n_stages,)
        Numbers of trees seen, ascending; the last is the number of trees.
    stage_set : int32 (n_stages,)
        Ascending: a set is no longer summed after its last stage.
    value : float64 (n_leaves, n_sets, width)
        Width 1, or the number of outputs for vector leaves.
    intercept : float64 (n_sets, n_outputs)
    low, high : float64 (n_stages, n_cuts)
        One output: a sum below ``low`` is below the cut for certain, one above ``high`` above it.
        An input exits when this is known for every cut.
    gap : float64 (n_stages, n_outputs, n_outputs)
        Several outputs: the leader ``a`` exits when its sum exceeds that of every rival ``b`` by
        more than ``gap[s, a, b]``. No entries for one output.
    """

    order: Int32Array
    stage: Int32Array
    stage_set: Int32Array
    value: FloatArray
    intercept: FloatArray
    low: FloatArray
    high: FloatArray
    gap: FloatArray

    def __post_init__(self) -> None:
        freeze(self)

    @property
    def n_stages(self) -> int:
        """Number of stages."""
        return len(self.stage)

    @property
    def n_sets(self) -> int:
        """Number of value sets."""
        return int(self.value.shape[1])


@dataclass(frozen=True, eq=False)
class TableSums:
    """A region: in every group of terms the sum of the costs is at most the limit of the group.

    A term looks up the bins of two columns. Group 0, the score, also adds the cost of the leaf in
    every tree.

    Attributes
    ----------
    first, second, width : int32 (n_terms,)
        The entry of a term is ``offset + width * bin of column first + bin of column second``.
    offset : int64 (n_terms,)
    cost : int64
    group_end : int32 (n_groups,)
        One past the last term of each group.
    limit : int64 (n_groups,)
    leaf_cost : int64 (n_leaves,)
    """

    first: Int32Array
    second: Int32Array
    width: Int32Array
    offset: npt.NDArray[np.int64]
    cost: npt.NDArray[np.int64]
    group_end: Int32Array
    limit: npt.NDArray[np.int64]
    leaf_cost: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        freeze(self)


def arrays_of(record: Any) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a dataclass by name."""
    return {name: value for name, value in vars(record).items() if isinstance(value, np.ndarray)}


def freeze(record: Any) -> None:
    """Make the arrays of a frozen dataclass read-only."""
    for array in arrays_of(record).values():
        array.setflags(write=False)
