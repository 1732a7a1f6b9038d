"""Sums over trees for many state rows: each tree becomes a few byte operations on columns.

The sums equal those of walking the trees. Trees of more than 256 leaves are walked, which is faster for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import IntArray
from pine_boost.model.routing import StateTrees
from pine_boost.model.states import StateSpace
from pine_boost.region.fast.digitize import small_dtype

MAX_LEAVES = 256  # a code is one byte
_ONE = np.array(1, dtype=np.uint8)
AnyInts = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Question:
    """Whether a row goes one way at a node.

    ``column > rank`` for right, ``column <= rank`` for left, on the column in which the special
    states ``moved`` read 0, so that they go left; all others lie above every rank. For categories
    ``sides`` says yes or no per state.
    """

    feature: int
    right: bool
    rank: AnyInts
    moved: tuple[int, ...]
    sides: Bools | None


@dataclass(frozen=True, eq=False)
class Step:
    """One inner node of a program, after its inner children.

    ``n_inner`` of its children are inner nodes, whose codes lie in the registers ``register``
    (and the next one); the code of the node itself goes to ``register``. With two inner children
    the codes of the right one follow the ``n_left`` of the left one.
    """

    n_inner: int
    register: int
    question: Question
    n_left: Bytes


@dataclass(frozen=True, eq=False)
class Program:
    """Several small trees: their codes make one number, and a table gives the sum for it."""

    trees: tuple[tuple[Step, ...], ...]
    n_codes: tuple[int, ...]
    table: IntArray


@dataclass(frozen=True, eq=False)
class TreeSums:
    """Integer sums over trees, see `compile_sums`."""

    programs: tuple[Program, ...]
    constant: int
    dtype: type[np.signedinteger[Any]]
    n_registers: int
    walked: StateTrees | None
    value: IntArray

    def add_to(self, total: IntArray, columns: Sequence[AnyInts]) -> None:
        """Add the sum of every row to ``total``."""
        n_rows = len(total)
        memory = np.empty((self.n_registers + 2, n_rows), dtype=np.uint8)
        registers = [(row, row.view(np.bool_)) for row in memory]
        partial = np.full(n_rows, self.constant, dtype=self.dtype)
        found = np.empty(n_rows, dtype=self.dtype)
        moved: dict[tuple[int, tuple[int, ...]], AnyInts] = {}
        for program in self.programs:
            code = _run(program, columns, moved, registers)
            program.table.take(code, out=found, mode="clip")
            np.add(partial, found, out=partial)
        total += partial
        if self.walked is not None:
            leaves = self.walked.leaves(np.stack(columns, axis=1))
            total += self.value[leaves].sum(axis=1)


def compile_sums(trees: StateTrees, value: IntArray, space: StateSpace) -> TreeSums:
    """Programs for the sum over all trees of ``value`` of the leaf reached."""
    n_leaves = np.diff(trees.leaf_offset)
    small = n_leaves <= MAX_LEAVES
    parts: list[tuple[tuple[Step, ...], IntArray]] = []
    constant, largest = 0, 0
    for tree in np.flatnonzero(small):
        steps, values = _compile_tree(trees, int(trees.root[tree]), value, space)
        largest += int(np.abs(values).max())
        if steps:
            parts.append((steps, values))
        else:
            constant += int(values[0])
    dtype: type[np.signedinteger[Any]] = np.int32 if largest < 2**31 else np.int64
    walked = None if small.all() else replace(trees, root=trees.root[~small])
    n_registers = max((s.register + s.n_inner for steps, _ in parts for s in steps), default=0) + 1
    return TreeSums(_grouped(parts, dtype), constant, dtype, n_registers, walked, value)


def _grouped(parts: list[tuple[tuple[Step, ...], IntArray]], dtype: type[np.signedinteger[Any]]) -> tuple[Program, ...]:
    """Put trees together as long as the numbers of their codes fit into one byte."""
    programs: list[Program] = []
    open_parts: list[tuple[tuple[Step, ...], IntArray]] = []
    for part in [*sorted(parts, key=lambda part: len(part[1])), None]:
        size = int(np.prod([len(values) for _, values in open_parts]))
        if open_parts and (part is None or size * len(part[1]) > MAX_LEAVES):
            table = np.zeros(1, dtype=np.int64)
            for _, values in open_parts:
                table = (table[:, None] + values[None, :]).ravel()
            programs.append(
                Program(
                    tuple(steps for steps, _ in open_parts),
                    tuple(len(values) for _, values in open_parts),
                    table.astype(dtype),
                )
            )
            open_parts = []
        if part is not None:
            open_parts.append(part)
    return tuple(programs)


def _compile_tree(
    trees: StateTrees, root: int, value: IntArray, space: StateSpace
) -> tuple[tuple[Step, ...], IntArray]:
    """Steps of one tree in the order of their execution, and the value of each code.

    A split between leaves of equal value asks nothing and disappears.
    """
    steps: list[Step] = []
    # what is known of finished subtrees, in the order of their registers: values per code
    done: list[IntArray] = []
    open_nodes = [(root, False)]
    while open_nodes:
        node, children_done = open_nodes.pop()
        leaf = trees.leaf_of_node[node]
        if leaf >= 0:
            done.append(value[leaf : leaf + 1])
        elif not children_done:
            open_nodes += [(node, True)]
            open_nodes += [(int(trees.right[node]), False), (int(trees.left[node]), False)]
        else:
            right, left = done.pop(), done.pop()
            done.append(_join(trees, node, left, right, space, steps, done))
    return tuple(steps), done[0]


def _join(
    trees: StateTrees,
    node: int,
    left: IntArray,
    right: IntArray,
    space: StateSpace,
    steps: list[Step],
    before: list[IntArray],
) -> IntArray:
    """Append the step of a node with these children; returns the values of its codes."""
    if len(left) == 1 and len(right) == 1 and left[0] == right[0]:
        return left
    # a subtree of a single value needs no register
    register = sum(len(values) > 1 for values in before)
    n_inner = int(len(left) > 1) + int(len(right) > 1)
    if n_inner == 1 and len(right) == 1:
        # the code 0 belongs to the lone leaf: multiply by "goes to the inner child"
        question = _question(trees, node, space, right=False)
        values = np.concatenate([right, left])
    else:
        question = _question(trees, node, space, right=True)
        values = np.concatenate([left, right])
    steps.append(Step(n_inner, register, question, np.array(len(left) % 256, dtype=np.uint8)))
    return values


def _question(trees: StateTrees, node: int, space: StateSpace, right: bool) -> Question:
    feature, rank = int(trees.feature[node]), int(trees.rank[node])
    axis = space.axes[feature]
    dtype = small_dtype(axis.n_states)
    # a rank outside the intervals comes from a file that this library did not write
    if axis.codes is not None or not 0 <= rank < axis.n_intervals:
        goes_left = trees.goes_left(node, axis.n_states)
        sides = ~goes_left if right else goes_left
        return Question(feature, right, np.zeros((), dtype=dtype), (), sides)
    moved: tuple[int, ...] = ()
    if axis.n_states > axis.n_intervals:
        specials = range(axis.n_intervals, axis.n_states)
        start = int(trees.special_offset[node])
        sides_left = trees.special_left[start : start + len(specials)].tolist()
        moved = tuple(state for state, is_left in zip(specials, sides_left, strict=True) if is_left)
    return Question(feature, right, np.array(rank, dtype=dtype), moved, None)


def _run(
    program: Program,
    columns: Sequence[AnyInts],
    moved: dict[tuple[int, tuple[int, ...]], AnyInts],
    registers: Sequence[tuple[Bytes, Bools]],
) -> Bytes:
    """The code of every row: mixed radix over the trees of the program."""
    code = registers[-1][0]
    answer, answer_flags = registers[-2]
    for position, steps in enumerate(program.trees):
        for step in steps:
            target, target_flags = registers[step.register]
            if step.n_inner == 0:
                _answer(step.question, columns, moved, target_flags)
                continue
            _answer(step.question, columns, moved, answer_flags)
            if step.n_inner == 1:
                np.add(target, _ONE, out=target)
                np.multiply(target, answer, out=target)
            else:
                other = registers[step.register + 1][0]
                # left + (right + n_left - left) * goes_right, modulo 256 all the way
                np.add(other, step.n_left, out=other)
                np.subtract(other, target, out=other)
                np.multiply(other, answer, out=other)
                np.add(target, other, out=target)
        last = registers[0][0]
        if len(program.trees) == 1:
            return last
        if position == 0:
            code[:] = last
        else:
            np.multiply(code, np.uint8(program.n_codes[position]), out=code)
            np.add(code, last, out=code)
    return code


def _answer(
    question: Question, columns: Sequence[AnyInts], moved: dict[tuple[int, tuple[int, ...]], AnyInts], answer: Bools
) -> None:
    """Write whether the answer is yes."""
    column = columns[question.feature]
    if question.sides is not None:
        question.sides.take(column, out=answer, mode="clip")
        return
    if question.moved:
        key = (question.feature, question.moved)
        if key not in moved:
            moved[key] = _with_specials_left(column, question.moved)
        column = moved[key]
    compare = np.greater if question.right else np.less_equal
    compare(column, question.rank, out=answer)


def _with_specials_left(column: AnyInts, specials: tuple[int, ...]) -> AnyInts:
    """The column with these states read as 0; the column itself where none occurs."""
    for state in specials:
        is_special = column == state
        if is_special.any():
            column = np.where(is_special, column.dtype.type(0), column)
    return column
