"""Ways to damage bytes, JSON data or lines, with one to four faults each; what they mean plays no part."""

import copy
from random import Random
from typing import Any

_WHOLE = (-1, 0, 1, 2, 7, 255, 2**24, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63, -(2**31), -(2**63), 10**400)
_FLOATS = (0.0, -0.0, 0.5, 1.5, 1e-320, 1e-45, 3.4e38, 3.5e38, 1e308, -1e308, *map(float, ("nan", "inf", "-inf")))
_TEXTS = ("", " ", "0", "1", "-1", "x", "nan", "inf", "1e400", "\x00", "\ud800", "é" * 20, "a" * 5000)
_NESTED = ([], {}, [[]], [None], [0], [0.0], ["x"], [0] * 3000, {"": 0}, {"name": "x"})
ODD_VALUES: tuple[Any, ...] = (None, True, False, *_WHOLE, *_FLOATS, *_TEXTS, *_NESTED)
_LARGE = (*(str(n) for n in (2**31 - 1, 2**31, -(2**31))), "9" * 30, "9" * 5000)
_NUMERALS = ("0x10", "1_0", "٣", "+1", "-0", "1e5", "1e400", "1e-400", "1.5", "1,5", "nan", "inf", "-inf", "0 0")
_WORDS = ("", " ", "=", "a b", "\t", "\x00", "é", "none", "v4", "null", "true")
ODD_TOKENS = (*(str(n) for n in range(-2, 4)), *_LARGE, *_NUMERALS, *_WORDS)
_LENGTHS = (b"[$l#L\x00\x00\x00\x00\x7f\xff\xff\xff", b"L\x7f" + b"\xff" * 7, b"L" + b"\xff" * 8, b"U\xff", b"[#U\x05")
_MARKERS = (b"{", b"}", b"[", b"]", b"[$d#L", b"Z", b"T", b"SL\x00\x00\x00\x00\x00\x00\x00\x01x", b"[" * 40, b"{" * 40)
_LINES = (b"\r\n", b"\n\n", b"Tree=0\n", b"=", b" ", b"-", b"9" * 20, b"\xef\xbb\xbf", b"\xc3", b"NaN", b"1e999")
ODD_BYTES = (b"", b"\x00", b"\xff", *_LENGTHS, *_MARKERS, *_LINES)


def damage_bytes(random: Random, contents: bytes) -> bytes:
    """Flip, cut, repeat, insert or overwrite bytes."""
    data = bytearray(contents)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        position = random.randint(0, max(len(data) - 1, 0))
        length = random.randint(0, 64)
        action = random.choice(("flip", "set", "odd", "over", "cut", "drop", "repeat"))
        if action == "flip" and data:
            data[position] ^= 1 << random.randint(0, 7)
        elif action == "set" and data:
            data[position] = random.randint(0, 255)
        elif action == "odd":
            data[position:position] = random.choice(ODD_BYTES)
        elif action == "over":
            odd = random.choice(ODD_BYTES)
            data[position : position + len(odd)] = odd
        elif action == "cut":
            del data[position:]
        elif action == "drop":
            del data[position : position + length]
        else:
            data[position:position] = data[position : position + length]
    return bytes(data)


def damage_json(random: Random, document: Any) -> Any:
    """Replace, remove, add, copy or nudge values anywhere in JSON data."""
    document = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = _places(document)
        if not places:
            return document
        # first a key by name, so that one long array does not take all the attention
        names = sorted({place[2] for place in places})
        name = random.choice(names)
        own = [place for place in places if place[2] == name]
        parent, key, _ = own[random.randint(0, len(own) - 1)]
        _damage_place(random, parent, key, places)
    return document


def _places(document: Any) -> list[tuple[Any, Any, str]]:
    """Every (container, key, name) of a document; list entries bear the name of their list."""
    places, stack = [], [(document, "")]
    while stack:
        value, name = stack.pop()
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in entries:
            own = f"{key}" if isinstance(value, dict) else f"{name}[]"
            places.append((value, key, own))
            if isinstance(child, (dict, list)):
                stack.append((child, own))
    return places


def _damage_place(random: Random, parent: Any, key: Any, places: list[tuple[Any, Any, str]]) -> None:
    action = random.choice(("odd", "nudge", "nudge", "nudge", "remove", "copy", "add", "text"))
    value = parent[key]
    if action == "nudge" and type(value) in (int, float) and not abs(value) > 1e300:
        parent[key] = value + random.choice((1, -1, 2, 0.5, 1e-9, 2**31, -value, -2 * value))
    elif action == "remove":
        del parent[key]
    elif action == "copy":
        other, other_key, _ = places[random.randint(0, len(places) - 1)]
        if other_key in other if isinstance(other, dict) else other_key < len(other):
            parent[key] = copy.deepcopy(other[other_key])
    elif action == "add" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(random.choice(ODD_VALUES)))
    elif action == "add":
        parent[random.choice(("", "x", "name", "format"))] = copy.deepcopy(value)
    elif action == "text" and isinstance(value, str):
        parent[key] = random.choice(ODD_TOKENS) + value
    else:
        parent[key] = copy.deepcopy(random.choice(ODD_VALUES))


def damage_lines(random: Random, lines: list[str]) -> list[str]:
    """Replace a token, or remove, repeat or exchange lines of ``key=a b c`` text."""
    lines = list(lines)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        position = random.randint(0, len(lines) - 1)
        action = random.choice(("token", "token", "token", "drop", "repeat", "swap", "cut"))
        key, equals, value = lines[position].partition("=")
        if action == "token" and equals:
            tokens = value.split(" ")
            place = random.randint(0, len(tokens) - 1)
            how = random.choice(("odd", "drop", "repeat", "other"))
            if how == "odd":
                tokens[place] = random.choice(ODD_TOKENS)
            elif how == "drop":
                del tokens[place]
            elif how == "repeat":
                tokens.insert(place, tokens[place])
            else:
                tokens[place] = tokens[random.randint(0, len(tokens) - 1)]
            lines[position] = f"{key}={' '.join(tokens)}"
        elif action == "drop" and len(lines) > 1:
            del lines[position]
        elif action == "repeat":
            lines.insert(position, lines[position])
        elif action == "swap":
            other = random.randint(0, len(lines) - 1)
            lines[position], lines[other] = lines[other], lines[position]
        else:
            lines[position] = lines[position][: random.randint(0, 40)]
    return lines
