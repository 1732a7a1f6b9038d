"""Write a scorer as one self-contained C99 file: its tables, the kernel, ``predict`` and a main that reads CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.kernels.compiled import fresh_sources, quick_nodes
from pine_boost.kernels.flat_forest import ExitPlan, FlatForest, NativeSum
from pine_boost.kernels.library import SOURCE

__all__ = ["to_c"]

_TYPES = {"i4": "int32_t", "u8": "uint64_t", "f8": "double", "f4": "float"}
_MAIN = r"""
/* The class of one row: an index into pine_labels, REFUSED (-2) where the library would raise. */
int32_t predict(const double *row) { return pine_score_row(&pine_scorer, row, 0); }

/* Raw margins (link -1) or linked scores of one row, pine_scorer.n_outputs numbers. */
int32_t predict_scores(const double *row, int32_t link, double *scores)
{
    table_t table = {row, 0, pine_scorer.n_features, 1, 1, 1};
    return pine_margins(&pine_scorer, &table, 0, 1, link, scores);
}

#ifndef PINE_NO_MAIN
#include <stdio.h>

static int read_line(FILE *file, char **line, size_t *size)
{
    size_t used = 0;
    for (;;) {
        if (*size - used < 2) {
            char *longer = realloc(*line, *size = 2 * *size + 4096);
            if (!longer) return -1;
            *line = longer;
        }
        if (!fgets(*line + used, (int)(*size - used), file)) return used > 0;
        used += strlen(*line + used);
        if ((*line)[used - 1] == '\n') return 1;
    }
}

/* Numbers separated by commas; an empty field, NA and nan are missing. -1 for anything else. */
static int read_row(const char *text, double *row)
{
    int64_t n = pine_scorer.n_features;
    for (int64_t j = 0; j < n; j++) {
        char *end;
        while (*text == ' ') text++;
        row[j] = strtod(text, &end);
        if (end == text) {
            row[j] = NAN;
            if (end[0] == 'N' && end[1] == 'A') end += 2;
        }
        while (*end == ' ' || *end == '\r') end++;
        if (j + 1 < n ? *end != ',' : *end != '\n' && *end != '\0') return -1;
        text = end + 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "r") : stdin;
    double *row = malloc((size_t)pine_scorer.n_features * sizeof *row);
    double *scores = malloc((size_t)pine_scorer.n_outputs * sizeof *scores);
    char *line = 0;
    size_t size = 0;
    if (!file || !row || !scores) return fprintf(stderr, "cannot read %s\n", argc > 1 ? argv[1] : "stdin"), 1;
    for (int64_t number = 1; read_line(file, &line, &size) == 1; number++) {
        if (line[0] == '\n' || line[0] == '\0') continue;
        if (read_row(line, row)) {
            if (number == 1) continue; /* a header */
            return fprintf(stderr, "line %lld: %lld numbers were expected\n", (long long)number,
                           (long long)pine_scorer.n_features), 1;
        }
        if (PINE_CLASSES) {
            int32_t found = predict(row);
            if (found < 0) return fprintf(stderr, "line %lld: refused\n", (long long)number), 1;
            puts(pine_labels[found]);
        } else {
            if (predict_scores(row, (int32_t)pine_scorer.link, scores))
                return fprintf(stderr, "line %lld: refused\n", (long long)number), 1;
            printf("%.17g\n", scores[0]);
        }
    }
    return 0;
}
#endif
"""


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
    arrays: dict[str, npt.NDArray[Any]] = {}
    numbers: dict[str, Any] = {"divisor": native.divisor, "slope": native.slope, "zero": flat.zero}
    for source in (flat, plan):
        arrays |= {name: value for name, value in vars(source).items() if isinstance(value, np.ndarray)}
    del arrays["leaf_offset"]
    arrays["fresh_offset"], arrays["fresh_source"] = fresh_sources(flat, plan.order)
    arrays["quick_tree"] = quick_nodes(flat)[1]
    arrays |= {"native_value": native.value, "native_intercept": native.intercept, "cut": native.cuts}
    for name in ("n_features", "n_outputs", "n_trees", "n_sources", "n_columns", "is_float32", "is_closed"):
        numbers[name] = int(getattr(flat, name))
    has_missing = not np.isnan(flat.missing_value)
    numbers |= {
        "refuses_missing": int(flat.refuses_missing),
        "refuses_infinite": int(flat.refuses_infinite),
        "has_missing_value": int(has_missing),
        "missing_value": flat.missing_value if has_missing else 0.0,
        "snaps": int(flat.zero >= 0),
        "category_rule": int(flat.code_rule),
        "sums_float32": int(native.value.dtype == np.float32),
        "native_width": native.value.shape[1],
        "link": int(native.link),
        "n_cuts": len(native.cuts),
        "wins_ties": int(native.wins_ties),
        "intercept_last": int(native.intercept_last),
        "n_stages": plan.n_stages,
        "n_sets": plan.n_sets,
        "width": plan.value.shape[2],
        "n_exits": plan.low.shape[1],
    }
    head = "\n".join(f"// {line}" if line else "//" for line in comment.splitlines())
    labels = ", ".join(_text(label) for label in classes) or '""'
    fields = [f"    .{name} = {_number(value)}," for name, value in numbers.items()]
    fields += [f"    .{name} = {f'pine_{name}' if array.size else '0'}," for name, array in arrays.items()]
    parts = [
        head,
        SOURCE.read_text(encoding="utf-8"),
        *(_declare(f"pine_{name}", array) for name, array in arrays.items() if array.size),
        _quick(flat),
        f"static const char *const pine_labels[] = {{{labels}}};",
        f"#define PINE_CLASSES {len(classes)}",
        "static const scorer_t pine_scorer = {",
        *fields,
        "    .quick = pine_quick,",
        "};",
        _MAIN,
    ]
    return "\n".join(parts).encode()


def _declare(name: str, array: npt.NDArray[Any]) -> str:
    kind = array.dtype.str[1:]
    flat = np.ascontiguousarray(array).ravel()
    if kind == "u8":
        words = [f"{value:#x}ULL" for value in flat.tolist()]
    elif kind == "i4":
        words = [str(value) for value in flat.tolist()]
    else:
        words = [_number(value) for value in flat.astype(np.float64).tolist()]
    return f"static const {_TYPES[kind]} {name}[] = {{\n{_wrapped(words)}}};"


def _quick(flat: FlatForest) -> str:
    nodes = quick_nodes(flat)[0]
    shifts = (nodes & np.uint64(0xFFFF), nodes >> np.uint64(16) & np.uint64(0xFFFF), nodes >> np.uint64(32))
    words = [f"{{{rank}, {step}, {offset}}}" for rank, step, offset in zip(*(s.tolist() for s in shifts), strict=True)]
    return f"static const quick_t pine_quick[] = {{\n{_wrapped(words)}}};"


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
