"""Write a model that decides a class as one SELECT in standard SQL: a CASE per tree, sums of whole numbers.

Splits compare doubles with the exact last double that goes left. Whole numbers are added in any order without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.certificate.claims import sql_claim
from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.exporters.plain_splits import category_list, plain_comparisons, refuse_unsayable
from pine_boost.model.exact import original_scale, summation_band, to_units
from pine_boost.model.forest import FloatArray, Forest, spread
from pine_boost.model.rules import CategoryRule, Comparison, SplitKind
from pine_boost.model.trimming import by_level
from pine_boost.parsers import read_model

__all__ = ["to_sql"]

_LONGEST_SHIFT = 62  # 2**62 is a BIGINT


def to_sql(
    model: Any,
    *,
    table: str = "rows",
    keep: Sequence[str] = (),
    codes: bool = False,
    threshold: float | Sequence[float] | None = None,
    trust_pickle: bool = False,
) -> str:
    """Write a model as one SELECT that gives its classes.

    Every number in the query is exact: a split compares a double with the last double that the library
    sends left, and scores are whole numbers. So the query never gives another class than the native
    ``predict``. Where rounding inside the library could decide, it gives NULL; for a model on a grid
    (pruned or compressed by pine_boost, or votes) there is no such input.

    Parameters
    ----------
    model : object, path, bytes or Model
        A model that decides a class; regressors and rankers need ``threshold``.
    table : str
        Name of the table with the model's columns. NULL and NaN are missing values.
    keep : sequence of str
        Columns to return beside ``class``, for example a key; by default those of the model.
    codes : bool
        Take category codes instead of category values, where a model has named categories.
    threshold : float or sequence of float, optional
        Your own decision threshold; several define score bands.
    trust_pickle : bool
        Load pickle files, which runs code from the file; use it only for files you made.

    Returns
    -------
    str
        A query without a semicolon, for any engine with IEEE doubles and 64-bit integers.

    Raises
    ------
    UnsupportedModelError
        The model gives values, or has splits or columns that SQL cannot represent.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from pine_boost.exporters.sql import to_sql
    >>> X, y = load_iris(return_X_y=True)
    >>> query = to_sql(RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y), table="flowers")
    >>> 'FROM "flowers"' in query
    True
    """
    forest = read_model(model, threshold=threshold, trust_pickle=trust_pickle, decision="value").forest
    if not forest.decides:
        raise UnsupportedModelError(
            "This model gives values, whose last digits depend on the order in which an engine adds; pass threshold= "
            "to to_sql, in Python, to export the decision 'above it or not'."
        )
    refuse_unsayable(forest, codes, "SQL")
    names = [forest.name_of(feature) for feature in range(forest.n_features)]
    _refuse_names([*names, *keep])
    scale, is_exact = original_scale(forest)
    values = to_units(spread(forest, np.where((forest.kind == SplitKind.LEAF)[:, None], forest.value, 0.0)), scale)
    distance = undecided_distance(forest, scale, is_exact)
    used = np.unique(forest.feature[forest.kind != SplitKind.LEAF]).tolist()
    kept = ", ".join(_quoted(name) for name in (keep or names))
    inputs = [f"    NULLIF(CAST({_quoted(names[f])} AS DOUBLE PRECISION), 'NaN') AS x{f}" for f in used]
    scores = _scores(forest, values, to_units(forest.intercept, scale), codes)
    if not forest.accepts_missing and used:  # the library raises on a missing value: no class
        missing = " OR ".join(f"x{f} IS NULL" for f in used)
        scores = [f"CASE WHEN {missing} THEN NULL ELSE {score} END" for score in scores]
    comment = sql_claim(distance * 2.0**-scale)
    return "\n".join(
        [
            *(f"-- {line}" for line in comment.splitlines()),
            "WITH pine_inputs AS (",
            f"  SELECT {kept}{',' if inputs else ''}",
            ",\n".join(inputs),
            f"  FROM {_quoted(table)}",
            "), pine_scores AS (",
            f"  SELECT {kept},",
            ",\n".join(f"    {score} AS s{output}" for output, score in enumerate(scores)),
            "  FROM pine_inputs",
            ")",
            f"SELECT {kept},",
            "  CASE",
            *(f"    WHEN {rule} THEN {label}" for rule, label in _rules(forest, scale, distance)),
            "  END AS class",
            "FROM pine_scores",
            "",
        ]
    )


def undecided_distance(forest: Forest, scale: int, is_exact: bool) -> Fraction:
    """The distance to the decision, in units, up to which the query gives no class.

    The native sum lies within `summation_band` of the exact one, the rule behind it blurs by ``guard``, and our
    sum of rounded leaves differs from the exact one by at most half a unit per tree and intercept (by nothing if
    ``is_exact``). A gap between two outputs moves by twice as much.
    """
    rounding = Fraction(0) if is_exact else Fraction(forest.n_trees + 1, 2)
    band = Fraction(summation_band(forest)) * 2**scale
    n_sums = 1 if forest.n_outputs == 1 else 2
    return Fraction(n_sums * (band + rounding) + Fraction(forest.decision.guard) * 2**scale)


def _rules(forest: Forest, scale: int, distance: Fraction) -> list[tuple[str, str]]:
    """Conditions on whole scores with the label of each; rows that meet none have no class."""
    decision = forest.decision
    n_classes = len(decision.cuts) + 1 if decision.cuts else forest.n_outputs
    labels = [_label(label) for label in forest.classes] if len(forest.classes) == n_classes else []
    labels = labels or [str(band) for band in range(n_classes)]
    if not decision.cuts:
        rules = []
        for own in range(n_classes):
            parts = []
            for other in (k for k in range(n_classes) if k != own):
                wins = distance == 0 and decision.wins_tie(own, other)
                parts.append(f"s{own} - s{other} {'>=' if wins else '>'} {math.floor(distance)}")
            rules.append((" AND ".join(parts), labels[own]))
        return rules
    highest, lowest = [], []
    for cut in decision.cuts:
        at = Fraction(cut) * 2**scale
        if distance == 0:  # the score itself is compared, ties included
            highest.append(math.ceil(at) - 1 if decision.wins_tie(1, 0) else math.floor(at))
            lowest.append(highest[-1] + 1)
        else:
            highest.append(math.floor(at + distance))
            lowest.append(math.ceil(at - distance))
    rules = []
    for band in reversed(range(n_classes)):
        parts = [f"s0 > {highest[band - 1]}"] if band else []
        parts += [f"s0 < {lowest[band]}"] if band < len(lowest) else []
        rules.append((" AND ".join(parts), labels[band]))
    return rules


def _scores(forest: Forest, values: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], codes: bool) -> list[str]:
    """The score of each output: a balanced sum of one CASE per tree."""
    conditions = _conditions(forest, codes)
    # once for all: numpy asks the enum for attributes, which is slow and swallows Ctrl-C
    is_leaf = (forest.kind == SplitKind.LEAF).tolist()
    roots = forest.tree_offset[:-1, None]
    orders = [by_level(root, forest.left, forest.right)[0].tolist() for root in roots]
    scores = []
    for output in range(forest.n_outputs):
        parts = [str(int(starts[output]))]
        for tree in range(forest.n_trees):
            if forest.tree_output[tree] in (-1, output):
                parts.append(_tree(forest, orders[tree], values[:, output], conditions, is_leaf))
        # in CASTs, because DuckDB gives small literals a small type
        scores.append(_balanced([f"CAST({part} AS BIGINT)" for part in parts]))
    return scores


def _tree(
    forest: Forest, order: list[int], values: npt.NDArray[np.int64], conditions: dict[int, str], is_leaf: list[bool]
) -> str:
    written: dict[int, str] = {}
    for node in reversed(order):
        if is_leaf[node]:
            written[node] = str(int(values[node]))
            continue
        left, right = written.pop(int(forest.left[node])), written.pop(int(forest.right[node]))
        # a CASE after ELSE becomes further WHENs: engines limit the depth of nesting
        rest = right.removeprefix("CASE ") if right.startswith("CASE ") else f"ELSE {right} END"
        written[node] = left if left == right else f"CASE WHEN {conditions[node]} THEN {left} {rest}"
    return written[order[0]]


def _balanced(parts: list[str]) -> str:
    """A sum whose depth is the logarithm of its length: engines limit the depth of expressions."""
    while len(parts) > 1:
        pairs = [f"({a} + {b})" for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(parts) - len(parts) % 2 :]
    return parts[0]


def _conditions(forest: Forest, codes: bool) -> dict[int, str]:
    """For every split the condition that is true exactly if a row goes left."""
    thresholds, default_left = plain_comparisons(forest)
    last = last_left(forest.comparison, thresholds)
    is_numeric = (forest.kind == SplitKind.NUMERIC).tolist()
    found = {}
    for node in np.flatnonzero(forest.kind != SplitKind.LEAF).tolist():
        name = f"x{forest.feature[node]}"
        missing_left = bool(default_left[node])
        if is_numeric[node]:
            condition = _comparison(forest, name, float(last[node]))
        else:
            members, goes_right = category_list(forest, node, codes)
            if forest.category_rule is CategoryRule.KNOWN:
                listed = f"{name} IN ({', '.join(map(str, members))})" if members else "1 = 0"
                missing_left = goes_right  # missing values are on the side of those that are not listed
            else:
                listed = _ranges(forest, name, members)
            condition = f"NOT ({listed})" if goes_right else listed
        found[node] = f"({name} IS NULL OR {condition})" if missing_left else condition
    return found


def _comparison(forest: Forest, name: str, last: float) -> str:
    """Whether a number goes left; infinity cannot be written as a number."""
    if np.isfinite(last):
        return f"{name} <= {_number(last)}"
    if last > 0:
        return f"{name} IS NOT NULL"
    if forest.comparison is Comparison.FLOAT32_LESS:
        return "1 = 0"
    return f"{name} < {_number(-float(np.finfo(np.float64).max))}"


def _ranges(forest: Forest, name: str, members: list[int]) -> str:
    """Whether a number stands for one of these codes: neighbouring codes are one interval."""
    parts = []
    for code in members:
        if code - 1 not in members:
            end = code
            while end + 1 in members:
                end += 1
            low, high = (_before_code(forest, edge) for edge in (code, end + 1))
            parts.append(f"{name} > {_number(low)} AND {name} <= {_number(high)}")
    return " OR ".join(f"({part})" for part in parts) or "1 = 0"


def _before_code(forest: Forest, code: int) -> float:
    """The last double below those that stand for a code and all higher ones."""
    if forest.category_rule is CategoryRule.TRUNCATE:
        return -1.0 if code == 0 else float(np.nextafter(code, -np.inf))
    return float(last_left(Comparison.FLOAT32_LESS, np.array([float(code)]))[0])


def last_left(comparison: Comparison, thresholds: FloatArray) -> FloatArray:
    """The last double that goes left at each threshold; -inf where at most -inf does.

    A float32 comparison decides on the rounded value: between two neighbouring float32 numbers the boundary is
    their middle, which is rounded to the even one.
    """
    if comparison is Comparison.FLOAT64_LESS_EQUAL:
        return thresholds
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
        if comparison is Comparison.FLOAT32_LESS:
            left = np.nextafter(near, np.float32(-np.inf))
        else:
            left = np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float32)
        right = np.nextafter(left, np.float32(np.inf))
        low, high = (np.clip(f.astype(np.float64), -(2.0**128), 2.0**128) for f in (left, right))
        middle = low / 2 + high / 2
        rounds_left = middle.astype(np.float32) <= left
        found = np.where(rounds_left, middle, np.nextafter(middle, -np.inf))
    return np.where(thresholds == -np.inf, -np.inf, found)


def _number(value: float) -> str:
    """A double as an expression of whole numbers, because engines do not read all decimals correctly."""
    top, bottom = float(value).as_integer_ratio()
    if bottom == 1 and abs(top) < 2**53:
        return str(top)
    shift = 0 if bottom > 1 else (abs(top) & -abs(top)).bit_length() - 1
    words = f"{top >> shift} * 1e0"
    for sign, bits in (("/", bottom.bit_length() - 1), ("*", shift)):
        while bits > 0:
            step = min(bits, _LONGEST_SHIFT)
            words += f" {sign} {2**step}"
            bits -= step
    return words


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _label(label: Any) -> str:
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, float)):
        return _number(float(value)) if isinstance(value, float) else str(value)
    return "'" + str(value).replace("'", "''") + "'"


def _refuse_names(names: Iterable[str]) -> None:
    """Raise for columns that SQL engines, which ignore case, cannot tell apart or that cannot be written."""
    seen: dict[str, str] = {}
    for name in names:
        if "\0" in name or not name:
            raise InvalidInputError(f"{name!r} cannot be the name of a column in SQL.")
        if seen.setdefault(name.lower(), name) != name:
            raise UnsupportedModelError(
                f"The columns {seen[name.lower()]!r} and {name!r} differ in case only, which SQL engines ignore; "
                "rename one of them and train again."
            )
