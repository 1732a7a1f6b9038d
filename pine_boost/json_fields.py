"""Checked reading of JSON values: every reader says which key was wrong and how.

In come parsed JSON values; out go ints, floats, texts and numpy arrays of the asked-for kind.
Refuses bools as numbers, NaN and Infinity tokens, missing and unknown keys.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, MalformedModelError
from pine_boost.model.forest import FloatArray, IntArray

EnumMember = TypeVar("EnumMember", bound=Enum)
_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


def require(condition: bool, found: str) -> None:
    """Refuse the document unless a condition holds."""
    if not condition:
        raise MalformedModelError(
            f"This is no valid region file: {_short(found)}. Write it again with Region.save."
        )


def _short(found: str) -> str:
    """A stranger's value may be megabytes long."""
    return found if len(found) <= 300 else f"{found[:297]}..."


def parse(document: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON text or already parsed data, as a mapping."""
    if isinstance(document, (str, bytes, bytearray)):
        try:
            document = json.loads(document, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise MalformedModelError(f"This is no region file, not even JSON: {error}.") from error
    return as_mapping(document)


def _refuse_constant(token: str) -> float:
    raise ValueError(f"the token {token} is not JSON")


def as_mapping(value: Any) -> Mapping[str, Any]:
    """A JSON object."""
    require(isinstance(value, Mapping), f"expected an object, found {type(value).__name__}")
    return value  # type: ignore[no-any-return]


def keys(data: Mapping[str, Any], expected: str) -> None:
    """Exactly these keys, given as one text."""
    wanted = set(expected.split())
    absent, unknown = wanted - set(data), set(data) - wanted
    require(not absent, f"the keys {sorted(absent)} are missing")
    require(not unknown, f"the keys {sorted(map(str, unknown))} are unknown")


def mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object under a key."""
    require(isinstance(data[key], Mapping), f"{key!r} is no object")
    return data[key]  # type: ignore[no-any-return]


def sequence(data: Mapping[str, Any], key: str, length: int | None = None) -> list[Any]:
    """The list under a key."""
    value = data[key]
    require(isinstance(value, list), f"{key!r} is no list")
    fits = length is None or len(value) == length
    require(fits, f"{key!r} has {len(value)} entries, expected {length}")
    return value  # type: ignore[no-any-return]


def unpack(value: Any, length: int | None) -> list[Any]:
    """A list of a certain length."""
    require(isinstance(value, list), "a list was expected")
    require(length is None or len(value) == length, f"a list of {length} was expected")
    return value  # type: ignore[no-any-return]


def text(data: Mapping[str, Any], key: str) -> str:
    """The text under a key."""
    require(isinstance(data[key], str), f"{key!r} is no text")
    return data[key]  # type: ignore[no-any-return]


def flag(data: Mapping[str, Any], key: str) -> bool:
    """The bool under a key."""
    require(isinstance(data[key], bool), f"{key!r} is neither true nor false")
    return data[key]  # type: ignore[no-any-return]


def integer(data: Mapping[str, Any], key: str, low: int = -(2**62), high: int = 2**62) -> int:
    """The integer under a key, within bounds."""
    value = data[key]
    require(type(value) is int and low <= value <= high, f"{key!r} is {value!r}")
    return value  # type: ignore[no-any-return]


def position(value: Any, length: int) -> int:
    """A position in a list of this length."""
    require(type(value) is int and 0 <= value < length, f"{value!r} is no feature")
    return value  # type: ignore[no-any-return]


def number(data: Mapping[str, Any], key: str) -> float:
    """The finite number under a key."""
    value = data[key]
    require(type(value) in (int, float), f"{key!r} is {value!r}, no number")
    require(abs(value) < 1e308, f"{key!r} is {value!r}, too large")
    return float(value)


def integers(data: Mapping[str, Any], key: str, low: int = -(2**62), high: int = 2**62) -> IntArray:
    """The list of integers under a key, each within bounds."""
    array = integer_list(sequence(data, key))
    within = len(array) == 0 or (int(array.min()) >= low and int(array.max()) <= high)
    require(within, f"{key!r} has an entry outside [{low}, {high}]")
    return array


def integer_list(value: Any) -> IntArray:
    """A list of integers that fit into 62 bits."""
    fits = isinstance(value, list) and all(type(v) is int and -(2**62) <= v <= 2**62 for v in value)
    require(fits, "a list of integers was expected")
    return np.array(value, dtype=np.int64)


def floats(data: Mapping[str, Any], key: str, finite: bool = True) -> FloatArray:
    """The list of floats under a key; infinities are written as text."""
    values = sequence(data, key)
    if not finite:
        values = [_INFINITIES.get(v, v) if isinstance(v, str) else v for v in values]
    require(all(type(v) in (int, float) for v in values), f"{key!r} holds something else")
    try:
        array = np.array(values, dtype=np.float64)
    except OverflowError:
        array = np.array([np.nan])
    usable = not np.isnan(array).any() and (not finite or np.isfinite(array).all())
    require(bool(usable), f"{key!r} holds a number that is not finite")
    return array


def write_float(value: float) -> float | str:
    """A float, infinities as text."""
    return float(value) if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def flags(value: Any, length: int) -> npt.NDArray[np.bool_]:
    """Bools from a text of zeros and ones."""
    fits = isinstance(value, str) and len(value) == length and set(value) <= {"0", "1"}
    require(fits, f"a text of {length} zeros and ones was expected")
    return np.array([character == "1" for character in value], dtype=bool)


def write_flags(array: npt.NDArray[np.bool_]) -> str:
    """Bools as a text of zeros and ones."""
    return "".join("1" if entry else "0" for entry in array.tolist())


def member(data: Mapping[str, Any], key: str, kind: type[EnumMember]) -> EnumMember:
    """The member of an enum by its name."""
    name = data[key]
    known = isinstance(name, str) and name in kind.__members__
    require(known, f"{key!r} is {name!r}; one of {list(kind.__members__)} is accepted")
    return kind[name]


def categories(value: Any) -> tuple[Any, ...] | None:
    """Raw category values of a feature."""
    if value is None:
        return None
    fits = isinstance(value, list) and all(isinstance(v, (str, int, float, bool)) for v in value)
    require(fits, "a category is neither text nor number")
    return tuple(value)


def write_category(value: Any) -> str | int | float | bool:
    """A raw category value as JSON keeps it."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (str, int, float, bool)) or value != value:
        raise InvalidInputError(
            f"The category {value!r} ({type(value).__name__}) cannot be written to JSON; text, "
            "numbers and bools can. Convert the column before training."
        )
    return value


def check_trees(root: IntArray, left: IntArray, right: IntArray) -> None:
    """Every tree is a tree: children within it, one parent each, no cycle."""
    n_nodes = len(left)
    require(n_nodes > 0 and len(root) > 0 and root[0] == 0, "the trees have no root")
    require(bool(np.all(np.diff(root) > 0)) and root[-1] < n_nodes, "the roots do not ascend")
    inner = np.flatnonzero(left >= 0)
    require(bool(np.all((right >= 0) == (left >= 0))), "a node has one child")
    children = np.concatenate([left[inner], right[inner]])
    require(bool(np.all(children < n_nodes)), "a child is no node")
    tree = np.searchsorted(root, np.arange(n_nodes), side="right")
    require(bool(np.all(tree[children] == np.tile(tree[inner], 2))), "a child is in another tree")
    parents = np.bincount(children, minlength=n_nodes)
    expected = np.ones(n_nodes, dtype=np.int64)
    expected[root] = 0
    require(bool(np.all(parents == expected)), "a node has not exactly one parent")
    # one parent each and as many nodes seen from the roots as there are: no cycle
    level, seen = root, 0
    while len(level) and seen <= n_nodes:
        seen += len(level)
        level = level[left[level] >= 0]
        level = np.concatenate([left[level], right[level]])
    require(seen == n_nodes, "the nodes form a cycle")
