"""Read and write Universal Binary JSON as XGBoost uses it: big-endian numbers, counted and typed arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, MalformedModelError

_CODES = {"i": "i1", "U": "u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_TYPES = {marker: np.dtype(code) for marker, code in _CODES.items()}
_MARKERS = {dtype.newbyteorder("="): marker for marker, dtype in _TYPES.items()}
_CONSTANTS: dict[str, Any] = {"T": True, "F": False, "Z": None}
# an XGBoost model is nested 8 levels deep; a hostile file must not reach Python's recursion limit
_MAX_DEPTH = 32


class _Reader:
    """A cursor over the bytes."""

    def __init__(self, contents: bytes) -> None:
        self.contents = contents
        self.position = 0

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self.contents):
            raise MalformedModelError(
                f"The UBJSON ends at byte {len(self.contents)} while {count} bytes were expected "
                f"at byte {self.position}: the file is truncated or damaged; save it again."
            )
        taken = self.contents[self.position : end]
        self.position = end
        return taken

    def marker(self) -> str:
        return chr(self.take(1)[0])

    def skip(self, marker: bytes) -> bool:
        """Step over a marker if it comes next."""
        is_next = self.contents[self.position : self.position + 1] == marker
        self.position += is_next
        return is_next

    def numbers(self, marker: str, count: int) -> Any:
        dtype = _TYPES[marker]
        return np.frombuffer(self.take(count * dtype.itemsize), dtype=dtype).astype(dtype.newbyteorder("="))

    def count(self) -> int:
        marker = self.marker()
        if marker not in "iUIlL":
            raise self.fault(f"{marker!r} where the type of a length was expected")
        count = int.from_bytes(self.take(_TYPES[marker].itemsize), "big", signed=marker != "U")
        # every element takes at least one byte, so a count larger than the file is never allocated
        if not 0 <= count <= len(self.contents) - self.position:
            raise self.fault(f"a length of {count}, more than the bytes that are left")
        return count

    def text(self) -> str:
        raw = self.take(self.count())
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fault(f"a text that is not UTF-8 ({error})") from error

    def fault(self, found: str) -> MalformedModelError:
        return MalformedModelError(f"The UBJSON is damaged before byte {self.position}: found {found}. Save it again.")


def read_ubjson(contents: bytes) -> Any:
    """Read one UBJSON value; typed arrays become numpy arrays of native byte order."""
    reader = _Reader(contents)
    value = _read_value(reader, reader.marker(), 0)
    if reader.position != len(contents):
        raise reader.fault(f"{len(contents) - reader.position} bytes after the end")
    return value


def _read_value(reader: _Reader, marker: str, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise reader.fault(f"more than {_MAX_DEPTH} nested levels")
    if marker in _TYPES:
        return reader.numbers(marker, 1)[0].item()
    if marker == "S":
        return reader.text()
    if marker == "{":
        return _read_object(reader, depth)
    if marker == "[":
        return _read_array(reader, depth)
    if marker in _CONSTANTS:
        return _CONSTANTS[marker]
    raise reader.fault(f"the unknown type {marker!r}")


def _read_object(reader: _Reader, depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    while not reader.skip(b"}"):
        key = reader.text()
        if key in result:
            raise reader.fault(f"the key {key!r} twice")
        result[key] = _read_value(reader, reader.marker(), depth + 1)
    return result


def _read_array(reader: _Reader, depth: int) -> Any:
    if reader.skip(b"$"):
        kind = reader.marker()
        if kind not in _TYPES or reader.marker() != "#":
            raise reader.fault(f"a typed array of {kind!r} without a count")
        return reader.numbers(kind, reader.count())
    if reader.skip(b"#"):
        return [_read_value(reader, reader.marker(), depth + 1) for _ in range(reader.count())]
    result = []
    while not reader.skip(b"]"):
        result.append(_read_value(reader, reader.marker(), depth + 1))
    return result


def write_ubjson(value: Any) -> bytes:
    """Write dicts, lists, strings, integers, float32 numbers and numpy arrays as UBJSON."""
    pieces: list[bytes] = []
    _write_value(value, pieces)
    return b"".join(pieces)


def _write_value(value: Any, pieces: list[bytes]) -> None:
    if isinstance(value, dict):
        pieces.append(b"{")
        for key, item in value.items():
            pieces.append(_text(key))
            _write_value(item, pieces)
        pieces.append(b"}")
    elif isinstance(value, str):
        pieces.append(b"S" + _text(value))
    elif isinstance(value, np.ndarray):
        marker = _MARKERS[value.dtype]
        pieces.append(f"[${marker}#".encode() + _integer(len(value)) + value.astype(_TYPES[marker]).tobytes())
    elif isinstance(value, list):
        pieces.append(b"[#" + _integer(len(value)))
        for item in value:
            _write_value(item, pieces)
    elif type(value) is int:
        pieces.append(_integer(value))
    else:
        raise InvalidInputError(
            f"A {type(value).__name__} is not written as UBJSON; dicts, lists, texts, integers and numpy arrays are."
        )


def _text(text: str) -> bytes:
    raw = text.encode("utf-8")
    return _integer(len(raw)) + raw


def _integer(number: int) -> bytes:
    return b"L" + number.to_bytes(8, "big", signed=True)
