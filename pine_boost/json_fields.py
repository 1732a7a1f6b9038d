"""Typed reading of JSON of unknown origin: a table or a dataclass declares the type and range of every field.

Booleans are not numbers; NaN, infinities, integers beyond 64 bits and missing, unknown or repeated fields are errors.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import reprlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, MalformedModelError, PineBoostError
from pine_boost.model.forest import FloatArray, IntArray

FORMAT_VERSION = 1  # of every kind of file that pine_boost writes
UNDIGESTED = ("timings", "seconds", "date")
INT64 = (-(2**63), 2**63 - 1)
_LONGEST = 300  # characters of a message: a value in a file may be megabytes long
_INTEGER_TEXT = re.compile(r"-?[0-9]{1,18}\Z")
_INFINITIES = {"inf": math.inf, "-inf": -math.inf}

# takes a parsed value and its name, returns the checked value or raises FieldError
Reader = Callable[[Any, str], Any]


class FieldError(Exception):
    """What is wrong with a document; `reading` turns it into an error of the package."""


@contextmanager
def reading(what: str, remedy: str, error_class: type[PineBoostError] = MalformedModelError) -> Iterator[None]:
    """Turn a FieldError into ``error_class``, naming the kind of file and what to do.

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
        raise error_class(f"Invalid {what}: {error}. {remedy}.") from error


def require(condition: bool, message: str) -> None:
    """Raise FieldError unless the condition holds."""
    if not condition:
        raise FieldError(message if len(message) <= _LONGEST else f"{message[: _LONGEST - 3]}...")


def _expect(condition: bool, where: str, value: Any, expected: str) -> None:
    """Raise FieldError unless the condition holds; only then the value is shown: a model has millions of fields."""
    if not condition:
        require(False, f"{where!r} is {_shown(value)}, expected {expected}")


def _expect_length(value: Any, length: int | None, where: str) -> None:
    if length is not None and len(value) != length:
        require(False, f"{where!r} has {len(value)} entries, expected {length}")


def parse(document: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    """JSON text, or data that was parsed already, as an object."""
    parsed: Any = parse_text(document) if isinstance(document, (str, bytes, bytearray)) else document
    require(isinstance(parsed, Mapping), f"expected an object, got {type(parsed).__name__}")
    return dict(parsed)


def parse_text(text: str | bytes, **options: Any) -> Any:
    """JSON text as Python values; stricter than `json.loads`, which takes the options."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=unique_keys, **options)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested too deeply
        raise FieldError(f"it is not JSON ({str(error)[:200]})") from error


def _refuse_constant(token: str) -> float:
    raise FieldError(f"the token {token} is not JSON")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Which of two values under one key counts differs between readers of JSON."""
    section = dict(pairs)
    if len(section) != len(pairs):
        names = [name for name, _ in pairs]
        require(False, f"the key {next(name for name in names if names.count(name) > 1)!r} appears twice")
    return section


def open_document(document: str | bytes | Mapping[str, Any], name: str) -> dict[str, Any]:
    """The fields of a file that pine_boost wrote, without ``format`` and ``format_version``."""
    data = parse(document)
    found = data.pop("format", None)
    require(found == name, f"'format' is {_shown(found)}, expected {name!r}")
    version = data.pop("format_version", None)
    is_known = type(version) is int and version == FORMAT_VERSION
    require(is_known, f"'format_version' is {_shown(version)}, this release reads only {FORMAT_VERSION}")
    return data


def write_document(fields: Mapping[str, Any], name: str, *, sealed: bool = False) -> dict[str, Any]:
    """The fields with ``format`` and ``format_version``, and with a digest if ``sealed``."""
    document = {"format": name, "format_version": FORMAT_VERSION, **fields}
    return {**document, "digest": digest_of(document)} if sealed else document


def digest_of(document: Mapping[str, Any]) -> str:
    """SHA-256 of all fields but the digest itself and those in which no two runs agree (`UNDIGESTED`).

    A checksum against damage and careless edits, not a signature.
    """
    left = {name: value for name, value in document.items() if name not in ("digest", *UNDIGESTED)}
    return hashlib.sha256(canonical(left).encode()).hexdigest()


def read_sealed(document: str | bytes | Mapping[str, Any], name: str, table: Mapping[str, Reader]) -> dict[str, Any]:
    """Open a document that `write_document` sealed with a digest: its fields, checked, then the digest."""
    data = open_document(document, name)
    stated = data.pop("digest", None)
    checked = read(data, table)
    expected = digest_of({"format": name, "format_version": FORMAT_VERSION, **data})
    require(stated == expected, "it was changed after it was written: its digest does not fit its fields")
    return checked


def canonical(document: Mapping[str, Any]) -> str:
    """The one text of a document: sorted keys, no spaces, shortest exact floats."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read(
    data: Any, table: Mapping[str, Reader], where: str = "", *, optional: Mapping[str, Reader] | None = None
) -> dict[str, Any]:
    """The checked fields of a JSON object; ``optional`` fields may be absent, others must not."""
    if not isinstance(data, Mapping):
        require(False, f"{where or 'the document'} is {_shown(data)}, expected an object")
    optional = optional or {}
    missing, unknown = table.keys() - data.keys(), data.keys() - table.keys() - optional.keys()
    if missing or unknown:
        what, names = ("missing", missing) if missing else ("unknown", unknown)
        require(False, f"keys{f' of {where!r}' if where else ''} are {what}: {sorted(map(str, names))}")
    prefix = f"{where}." if where else ""
    readers = {**table, **optional}
    return {name: readers[name](value, f"{prefix}{name}") for name, value in data.items()}


def record(
    table: Mapping[str, Reader], build: Callable[..., Any] = dict, *, optional: Mapping[str, Reader] | None = None
) -> Reader:
    """An object with exactly these fields and perhaps the optional ones, passed to ``build`` as keyword arguments."""
    return lambda value, where: build(**read(value, table, where, optional=optional))


def integer(low: int = INT64[0], high: int = INT64[1], *, as_text: bool = False) -> Reader:
    """An integer within bounds; with ``as_text`` the text of one, and not the integer itself."""
    expected = f"{'the text of an integer' if as_text else 'an integer'} from {low} to {high}"

    def check(value: Any, where: str) -> int:
        number = value
        if as_text:
            number = int(value) if isinstance(value, str) and _INTEGER_TEXT.match(value) else None
        _expect(type(number) is int and low <= number <= high, where, value, expected)
        return int(number)

    return check


def number(low: float = -1e308, high: float = 1e308, *, exclude: Collection[float] = ()) -> Reader:
    """A finite number within bounds, as a float; values in ``exclude`` are refused."""
    but = f" except {', '.join(f'{bound:g}' for bound in exclude)}" if exclude else ""
    expected = f"a number from {low:g} to {high:g}{but}"

    def check(value: Any, where: str) -> float:
        fits = type(value) in (int, float) and low <= value <= high and value not in exclude
        _expect(fits, where, value, expected)
        return float(value)

    return check


LEVEL = number(0, 1, exclude=(1,))  # alpha and the like
SHARE = number(0, 1, exclude=(0, 1))  # fidelity, confidence and the like

# types of dataclass fields that are read from JSON
Count = Annotated[int, integer(0, 2**53)]
Positive = Annotated[int, integer(1, 2**53)]
Index = Annotated[int, integer(0, 2**31 - 1)]
Seed = Annotated[int, integer(0, 2**32 - 1)]
Level = Annotated[float, LEVEL]
Share = Annotated[float, SHARE]
Part = Annotated[float, number(0, 1)]
Size = Annotated[float, number(0)]


def text(accepted: Collection[str] | None = None) -> Reader:
    """A text that can be written as UTF-8, one of ``accepted`` if given."""
    expected = f"one of {list(accepted or ())}"

    def check(value: Any, where: str) -> str:
        _expect(isinstance(value, str), where, value, "a text")
        if any("\ud800" <= c <= "\udfff" for c in value):
            require(False, f"{where!r} is not a valid Unicode text")
        _expect(accepted is None or value in accepted, where, value, expected)
        return str(value)

    return check


def digest(value: Any, where: str) -> str:
    """A SHA-256 in hexadecimal."""
    fits = isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value)
    _expect(bool(fits), where, value, "a SHA-256 in hexadecimal")
    return str(value)


Digest = Annotated[str, digest]


def flag(value: Any, where: str) -> bool:
    """True or false."""
    _expect(isinstance(value, bool), where, value, "true or false")
    return bool(value)


_SCALARS: dict[type, Reader] = {bool: flag, str: text(), int: integer(), float: number()}


def scalar(value: Any, where: str) -> str | int | float | bool:
    """A text, number or boolean: a label or a category."""
    _expect(type(value) in _SCALARS, where, value, "a text, a number or a boolean")
    return _SCALARS[type(value)](value, where)  # type: ignore[no-any-return]


Scalar = Annotated[str | int | float | bool, scalar]


def member_of(kind: type[Enum]) -> Reader:
    """The name of a member of an enumeration, as the member."""
    name = text(kind.__members__)
    return lambda value, where: kind[name(value, where)]


def nan_as_null(value: Any, where: str) -> float:
    """A finite number, or null for NaN."""
    return math.nan if value is None else float(_SCALARS[float](value, where))


def optional(reader: Reader) -> Reader:
    """Null, read as None, or what ``reader`` accepts."""
    return lambda value, where: None if value is None else reader(value, where)


def sequence(reader: Reader, length: int | None = None) -> Reader:
    """A list, as a tuple."""

    def check(value: Any, where: str) -> tuple[Any, ...]:
        _expect(isinstance(value, list), where, value, "a list")
        _expect_length(value, length, where)
        return tuple(reader(entry, f"{where}[{index}]") for index, entry in enumerate(value))

    return check


def mapping(reader: Reader) -> Reader:
    """An object with any keys."""

    def check(value: Any, where: str) -> dict[str, Any]:
        _expect(isinstance(value, Mapping), where, value, "an object")
        return {
            _SCALARS[str](name, f"a key of {where}"): reader(entry, f"{where}.{name}") for name, entry in value.items()
        }

    return check


def anything(value: Any, where: str) -> Any:
    """A value that is checked later, where what it must fit is known."""
    return value


def table_of(kind: type) -> Mapping[str, Reader]:
    """The reader of every field of a dataclass but arrays, from its type; ``Annotated[type, reader]`` names one."""
    hints = get_type_hints(kind, include_extras=True).items()
    return {name: _reader_of(hint) for name, hint in hints if get_origin(hint) is not np.ndarray}


def record_of(kind: type) -> Reader:
    """An object with exactly the fields of a dataclass, as one."""
    return record(table_of(kind), kind)


def _reader_of(hint: Any) -> Reader:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return inner[1]  # type: ignore[no-any-return]
    if NoneType in inner:
        (known,) = (one for one in inner if one is not NoneType)
        return optional(_reader_of(known))
    if origin is tuple:  # of any length, or of entries of one type
        return sequence(_reader_of(inner[0]), None if inner[1] is ... else len(inner))
    if origin is Mapping:
        return mapping(_reader_of(inner[1]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return member_of(hint)
    return _SCALARS[hint] if hint in _SCALARS else record_of(hint)


def integers(low: int = INT64[0], high: int = INT64[1], length: int | None = None) -> Reader:
    """A list of integers within bounds, as an int64 array."""

    def check(value: Any, where: str) -> IntArray:
        # bool is an int to Python: compare the types themselves
        fits = isinstance(value, list) and set(map(type, value)) <= {int}
        _expect(fits, where, value, "a list of integers")
        within = len(value) == 0 or (low <= min(value) and max(value) <= high)
        require(bool(within), f"{where!r} has an entry outside {low} to {high}")
        _expect_length(value, length, where)
        return np.array(value, dtype=np.int64)

    return check


def array(dtype: Any, length: int | None = None, *, typed: bool) -> Reader:
    """An array of numbers of one type, NaN and infinities included, as UBJSON or JSON holds it.

    Parameters
    ----------
    dtype : numpy type
        Element type; in JSON all numbers must fit it, and integers are not floats.
    length : int, optional
        Expected number of entries.
    typed : bool
        Whether the array must be a numpy array of this type (from UBJSON) or a list (from JSON).
    """
    expected = np.dtype(dtype)

    def check(value: Any, where: str) -> npt.NDArray[Any]:
        if typed:
            found = value.dtype.name if isinstance(value, np.ndarray) else _shown(value)
            require(found == expected.name, f"{where!r} is {found}, expected an array of {expected.name}")
            numbers: npt.NDArray[Any] = value
        elif expected.kind == "f":
            fits = isinstance(value, list) and set(map(type, value)) <= {float}
            _expect(fits, where, value, "a list of numbers with a decimal point")
            with np.errstate(over="ignore"):
                numbers = np.array(value, dtype=np.float64).astype(expected)
        else:
            limits = np.iinfo(expected)
            numbers = integers(int(limits.min), int(limits.max))(value, where).astype(expected)
        _expect_length(numbers, length, where)
        return numbers

    return check


def floats(*, finite: bool = True, length: int | None = None) -> Reader:
    """A list of numbers, as a float64 array; infinities, unless ``finite``, are written as text."""

    def check(value: Any, where: str) -> FloatArray:
        _expect(isinstance(value, list), where, value, "a list of numbers")
        values: list[Any] = value if finite else [_INFINITIES.get(v, v) if isinstance(v, str) else v for v in value]
        fits = set(map(type, values)) <= {int, float} and all(
            abs(v) <= 1e308 or (not finite and v in _INFINITIES.values()) for v in values
        )
        require(fits, f"{where!r} holds something other than a finite number")
        _expect_length(value, length, where)
        return np.array(values, dtype=np.float64)

    return check


def flags(length: int) -> Reader:
    """A text of zeros and ones, as a bool array."""

    def check(value: Any, where: str) -> npt.NDArray[np.bool_]:
        fits = isinstance(value, str) and len(value) == length and set(value) <= {"0", "1"}
        _expect(fits, where, value, f"a text of {length} zeros and ones")
        return np.array([character == "1" for character in value], dtype=bool)

    return check


def plain(value: Any) -> Any:
    """A value as JSON keeps it: dataclasses as objects, members by name, NaN as null; bools and infinities as text."""
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == bool:
        return write_flags(value) if value.ndim == 1 else [write_flags(row) for row in value]
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (tuple, list)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if value != value else ("inf" if value > 0 else "-inf")
    return value


def write_scalars(record: Any) -> dict[str, Any]:
    """The fields of a dataclass that are no arrays."""
    found = {entry.name: getattr(record, entry.name) for entry in fields(record)}
    return {name: plain(value) for name, value in found.items() if not isinstance(value, np.ndarray)}


def write_flags(array: npt.NDArray[np.bool_]) -> str:
    """Bools as a text of zeros and ones."""
    return "".join("1" if entry else "0" for entry in array.tolist())


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


_BRIEF = reprlib.Repr()  # a field may have millions of numbers
_BRIEF.maxlevel, _BRIEF.maxstring = 2, 40


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    shown = _BRIEF.repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
