"""Checked reading of JSON of unknown origin: every reader says which key was wrong and how.

In come text or parsed values; out go ints, floats, texts, numpy arrays and records of the asked-for
kind. Refuses bools as numbers, NaN and Infinity tokens, and missing, unknown or repeated keys.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, MalformedModelError, PineBoostError
from pine_boost.model.forest import FloatArray, IntArray

EnumMember = TypeVar("EnumMember", bound=Enum)
_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


class FieldError(Exception):
    """What is wrong with a document; `reading` turns it into the reader's own error."""


@contextmanager
def reading(what: str, remedy: str, error_class: type[PineBoostError] = MalformedModelError) -> Iterator[None]:
    """Say of which kind of file the wrong field is, and what to do.

    Parameters
    ----------
    what : str
        For example ``"region file"``.
    remedy : str
        A sentence without its full stop.
    error_class : type of exception
    """
    try:
        yield
    except FieldError as error:
        raise error_class(f"This is no valid {what}: {error}. {remedy}.") from error


def require(condition: bool, found: str) -> None:
    """Refuse the document unless a condition holds."""
    if not condition:
        raise FieldError(_short(found))


def _short(found: str) -> str:
    """A stranger's value may be megabytes long."""
    return found if len(found) <= 300 else f"{found[:297]}..."


def parse(document: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON text or already parsed data, as a mapping."""
    if isinstance(document, (str, bytes, bytearray)):
        document = parse_text(document)
    return as_mapping(document)


def parse_text(text: str | bytes) -> Any:
    """JSON text as Python values; strict where Python's own reader is not."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except FieldError:
        raise
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, or nested too deep
        raise FieldError(_short(f"it is not even JSON ({error})")) from error


def _refuse_constant(token: str) -> float:
    raise FieldError(f"the token {token} is not JSON")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two values under one key other readers may take the other one."""
    section = dict(pairs)
    if len(section) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldError(_short(f"the key {twice!r} appears twice"))
    return section


def record(data: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    """The values of exactly these keys, each of the kind that a dataclass annotates.

    Parameters
    ----------
    data : mapping
    kinds : mapping
        Names to annotations as text: ``str``, ``int``, ``float``, ``bool``, ``None``, unions of
        these, ``tuple[X, ...]`` for lists, ``Mapping[str, X]`` for objects.
    """
    keys(data, " ".join(kinds))
    for name, kind in kinds.items():
        require(_fits(data[name], kind), f"the field {name!r} is not a {kind}")
    return {name: tuple(data[name]) if kind.startswith("tuple") else data[name] for name, kind in kinds.items()}


def _fits(value: Any, kind: str) -> bool:
    if kind.startswith("tuple["):
        inner = kind[len("tuple[") : -len(", ...]")]
        return isinstance(value, list) and all(_fits(entry, inner) for entry in value)
    if kind.startswith("Mapping[str, "):
        inner = kind[len("Mapping[str, ") : -1]
        return isinstance(value, dict) and all(_fits(entry, inner) for entry in value.values())
    plain = {
        "str": isinstance(value, str),
        "int": type(value) is int,
        "float": is_finite(value),
        "bool": isinstance(value, bool),
        "None": value is None,
    }
    # a record within a record is checked by its own reader
    return any(plain.get(part, isinstance(value, dict)) for part in kind.split(" | "))


def is_finite(value: Any) -> bool:
    """A JSON number that can be written again: no NaN, and nothing that overflows (1e999)."""
    return type(value) in (int, float) and abs(value) < 1e308


def as_mapping(value: Any) -> Mapping[str, Any]:
    """A JSON object."""
    require(isinstance(value, Mapping), f"expected an object, found {type(value).__name__}")
    return value  # type: ignore[no-any-return]


def keys(data: Mapping[str, Any], expected: str) -> None:
    """Exactly these keys, given as one text."""
    wanted = set(expected.split())
    absent, unknown = wanted - set(data), set(data) - wanted
    require(not absent, f"keys are missing: {sorted(absent)}")
    require(not unknown, f"keys are unknown: {sorted(map(str, unknown))}")


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
    require(is_finite(value), f"{key!r} is {value!r}, no finite number")
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
