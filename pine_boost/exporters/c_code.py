"""Write a scorer as one self-contained C99 file: its tables, the kernel, ``predict`` and a main that reads CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.kernels.compiled import scorer_fields
from pine_boost.kernels.flat_forest import ExitPlan, FlatForest, NativeSum
from pine_boost.kernels.library import SOURCE

__all__ = ["to_c"]

_TYPES = {"i4": "int32_t", "u8": "uint64_t", "f8": "double", "f4": "float", "quick": "quick_t", "brief": "brief_t"}
_MAIN = Path(__file__).with_name("main.c")  # the entry points of every file


def to_c(flat: FlatForest, native: NativeSum, plan: ExitPlan, classes: Sequence[Any], comment: str = "") -> bytes:
    """Write a scorer as one C99 file without dependencies.

    Parameters
    ----------
    flat, native, plan
        The parts of a `FastScorer`.
    classes : sequence
        Labels; empty for a model of values.
    comment : str
        The claim, written at the top of the file.

    Returns
    -------
    bytes
        ``predict(const double *row)`` returns the class index with the scorer's own exits, and
        ``main`` prints the labels of a CSV file (define PINE_NO_MAIN to leave it out). Compile with
        ``-std=c99 -O2 -ffp-contract=off -lm`` and without fast-math.
    """
    found = scorer_fields(flat, native, plan)
    arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    numbers = {name: value for name, value in found.items() if name not in arrays}
    head = "\n".join(f"// {line}" if line else "//" for line in comment.splitlines())
    labels = ", ".join(_text(label) for label in classes) or '""'
    fields = [f"    .{name} = {_number(value)}," for name, value in numbers.items()]
    fields += [f"    .{name} = {f'pine_{name}' if array.size else '0'}," for name, array in arrays.items()]
    parts = [
        head,
        SOURCE.read_text(encoding="utf-8"),
        *(_declare(f"pine_{name}", array) for name, array in arrays.items() if array.size),
        f"static const char *const pine_labels[] = {{{labels}}};",
        f"#define PINE_CLASSES {len(classes)}",
        "static const scorer_t pine_scorer = {",
        *fields,
        "};",
        _MAIN.read_text(encoding="utf-8"),
    ]
    return "\n".join(parts).encode()


def _declare(name: str, array: npt.NDArray[Any]) -> str:
    kind = name.removeprefix("pine_") if array.dtype.names else array.dtype.str[1:]
    flat = np.ascontiguousarray(array).ravel()
    if array.dtype.names:
        words = [f"{{{', '.join(map(str, node))}}}" for node in flat.tolist()]
    elif kind == "u8":
        words = [f"{value:#x}ULL" for value in flat.tolist()]
    elif kind == "i4":
        words = [str(value) for value in flat.tolist()]
    else:
        words = [_number(value) for value in flat.astype(np.float64).tolist()]
    return f"static const {_TYPES[kind]} {name}[] = {{\n{_wrapped(words)}}};"


def _wrapped(words: Sequence[str]) -> str:
    return "".join(f"{', '.join(words[i : i + 12])},\n" for i in range(0, len(words), 12))


def _number(value: float | int) -> str:
    """Format a number so that C reads it back exactly."""
    if isinstance(value, int):
        return str(value)
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return float(value).hex()


def _text(label: Any) -> str:
    """Format a label as a C string literal, with non-ASCII bytes in octal."""
    value = label.item() if isinstance(label, np.generic) else label
    written = value if isinstance(value, str) else json.dumps(value) if isinstance(value, bool) else str(value)
    plain = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in written.encode())
    return f'"{plain}"'
