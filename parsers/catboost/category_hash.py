"""The hash by which CatBoost knows a category: the low half of CityHash64, version 1.0, of its text.

A model stores only these hashes, so a table's categories are compared by them, as CatBoost does it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError

# Text that stands for a hash in tables made here: nobody knows a text of which it is the hash
CODED = "pine_boost category "

_WORD = 2**64 - 1
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_MIX = 0x9DDFEA08EB382D69


@lru_cache(maxsize=2**16)
def category_hash(text: str) -> int:
    """Return the signed 32-bit hash of a category's text."""
    low = _city_hash(text.encode("utf-8", "surrogatepass")) & (2**32 - 1)
    return low - 2**32 if low >= 2**31 else low


def category_key(value: Any) -> int:
    """Return the hash of a category of a table.

    Raises
    ------
    InvalidInputError
        CatBoost takes no such value for a category: a float, a missing value; or a boolean.
    """
    if isinstance(value, str):
        coded = value.removeprefix(CODED)
        is_hash = coded != value and coded.removeprefix("-").isdecimal()
        return int(coded) if is_hash else category_hash(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return category_hash(str(int(value)))
    raise InvalidInputError(
        f"CatBoost takes text and whole numbers as categories, not {value!r} ({type(value).__name__}). Convert the "
        "column to the text of training, for example X[column].astype(str)."
    )


def _city_hash(data: bytes) -> int:
    size = len(data)
    if size <= 16:
        return _up_to_16(data)
    if size <= 32:
        a, b = _fetch(data, 0) * _K1 & _WORD, _fetch(data, 8)
        c, d = _fetch(data, size - 8) * _K2 & _WORD, _fetch(data, size - 16) * _K0
        return _pair(_rotate(a - b, 43) + _rotate(c, 30) + d, a + _rotate(b ^ _K3, 20) - c + size)
    return _up_to_64(data) if size <= 64 else _longer(data)


def _fetch(data: bytes, start: int, width: int = 8) -> int:
    return int.from_bytes(data[start : start + width], "little")


def _rotate(value: int, shift: int) -> int:
    value &= _WORD
    return (value >> shift | value << (64 - shift)) & _WORD if shift else value


def _shift_mix(value: int) -> int:
    value &= _WORD
    return value ^ value >> 47


def _pair(low: int, high: int) -> int:
    low, high = low & _WORD, high & _WORD
    a = _shift_mix((low ^ high) * _MIX)
    return _shift_mix((high ^ a) * _MIX) * _MIX & _WORD


def _up_to_16(data: bytes) -> int:
    size = len(data)
    if size > 8:
        a, b = _fetch(data, 0), _fetch(data, size - 8)
        return _pair(a, _rotate(b + size, size)) ^ b
    if size >= 4:
        return _pair(size + (_fetch(data, 0, 4) << 3), _fetch(data, size - 4, 4))
    if size == 0:
        return _K2
    y, z = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
    return _shift_mix(y * _K2 & _WORD ^ z * _K3 & _WORD) * _K2 & _WORD


def _half_of_64(data: bytes, first: int, start: int, z: int) -> tuple[int, int]:
    """Return two words of half a text of 33 to 64 bytes: ``first`` and the words around ``start``."""
    a = first
    b, c = _rotate(a + z, 52), _rotate(a, 37)
    a += _fetch(data, start)
    c += _rotate(a, 7)
    a += _fetch(data, start + 8)
    return a + z, b + _rotate(a, 31) + c


def _up_to_64(data: bytes) -> int:
    size = len(data)
    first = _fetch(data, 0) + (size + _fetch(data, size - 16)) * _K0
    v = _half_of_64(data, first, 8, _fetch(data, 24))
    w = _half_of_64(data, _fetch(data, 16) + _fetch(data, size - 32), size - 24, _fetch(data, size - 8))
    mixed = _shift_mix((v[0] + w[1]) * _K2 + (w[0] + v[1]) * _K0)
    return _shift_mix(mixed * _K0 + v[1]) * _K2 & _WORD


def _weak(data: bytes, start: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_fetch(data, start + 8 * i) for i in range(4))
    a += w
    b = _rotate(b + a + z, 21)
    c = a
    a += x + y
    b += _rotate(a, 44)
    return a + z & _WORD, b + c & _WORD


def _longer(data: bytes) -> int:
    size = len(data)
    x, y, z = _fetch(data, 0), _fetch(data, size - 16) ^ _K1, _fetch(data, size - 56) ^ _K0
    v = _weak(data, size - 64, size, y)
    w = _weak(data, size - 32, size * _K1, _K0)
    z += _shift_mix(v[1]) * _K1
    x, y = _rotate(z + x, 39) * _K1, _rotate(y, 33) * _K1
    for start in range(0, (size - 1) // 64 * 64, 64):
        x = _rotate(x + y + v[0] + _fetch(data, start + 16), 37) * _K1 & _WORD
        y = _rotate(y + v[1] + _fetch(data, start + 48), 42) * _K1 & _WORD
        x ^= w[1]
        y ^= v[0]
        z = _rotate((z & _WORD) ^ w[0], 33)
        v = _weak(data, start, v[1] * _K1, x + w[0])
        w = _weak(data, start + 32, z + w[1], y)
        z, x = x, z
    return _pair(_pair(v[0], w[0]) + _shift_mix(y) * _K1 + z, _pair(v[1], w[1]) + x)
