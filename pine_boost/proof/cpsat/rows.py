"""Integer sums over leaves as rows of CP-SAT, each within its safe range.

In come values per leaf and a bound; out go linear rows over the leaf Booleans. A sum too fine for
one safe row is either rounded outward (admits a little more) or written exactly in several.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from pine_boost.errors import PineBoostError
from pine_boost.model import exact
from pine_boost.model.forest import IntArray
from pine_boost.proof.cpsat.encoding import Encoding


def add_at_least(model: cp_model.CpModel, encoding: Encoding, values: IntArray, least: int, *, exactly: bool) -> bool:
    """Demand ``sum(values[leaf]) >= least``; returns whether the row admits nothing more.

    Values beyond the solver's safe range are divided by a power of two. Not ``exactly``: rounded
    up, so that the row admits all that the sum does and a little more. Exactly: digit by digit.
    With ``value = high * 2**k + low`` and ``0 <= low < 2**k`` the sum reaches ``least`` iff some
    integer carry has ``sum(low) - carry * 2**k >= low part of least`` and ``sum(high) + carry >=
    high part``; and so on with the high parts, where they are still too large.
    """
    excess = _excess_bits(values)
    if excess and not exactly:
        model.add(leaf_sum(encoding, -((-values) >> excess)) >= -((-least) >> excess))
        return False
    bits = exact.integer_scale(len(values) + 1, exact.ROW_LIMIT // 8)
    n_trees = int(np.count_nonzero(np.diff(encoding.leaf_tree))) + 1
    carry: Any = 0
    while _excess_bits(values):
        high, high_least = values >> bits, least >> bits
        low, low_least = values - (high << bits), least - (high_least << bits)
        # the sum of n low parts and a carry lies between -2 and (n + 1) * 2**bits
        more = model.new_int_var(-2, n_trees + 1, "")
        model.add(leaf_sum(encoding, low) + carry - more * 2**bits >= low_least)
        values, least, carry = high, high_least, more
    model.add(leaf_sum(encoding, values) + carry >= least)
    return True


def add_at_most(model: cp_model.CpModel, encoding: Encoding, values: IntArray, most: int, *, exactly: bool) -> bool:
    """Demand ``sum(values[leaf]) <= most``, as `add_at_least` does."""
    return add_at_least(model, encoding, -values, -most, exactly=exactly)


def leaf_sum(encoding: Encoding, values: IntArray) -> Any:
    """The integer sum over the leaf Booleans, within the solver's safe range."""
    terms = [
        (leaf, int(value))
        for leaf, value in zip(encoding.leaves, values, strict=True)
        if leaf is not None and value != 0
    ]
    if sum(abs(value) for _, value in terms) > exact.ROW_LIMIT // 2:
        raise PineBoostError("Internal error: a margin row passes the solver's safe range; please report this.")
    leaves = [leaf for leaf, _ in terms]
    return cp_model.LinearExpr.weighted_sum(leaves, [value for _, value in terms])


def _excess_bits(values: IntArray) -> int:
    """How many bits the values have to lose so that their sum is a safe row."""
    total = sum(abs(int(value)) for value in values[values != 0])
    return max(0, total.bit_length() - (exact.ROW_LIMIT // 4).bit_length())
