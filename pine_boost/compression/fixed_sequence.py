"""Fixed-sequence testing: candidates in an order fixed beforehand, each by an exact binomial bound.

Every test is at the full level, because testing stops at the first candidate that fails. Counts are whole numbers, so
that some of the level is left over; a second chain of candidates is tested with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from scipy.special import betainc, betaincinv

from pine_boost.errors import InvalidInputError
from pine_boost.model.exact import BINOMIAL_ERROR


@dataclass(frozen=True)
class Tested:
    """One candidate of the sequence, which differs from the original on ``n_changed`` rows.

    With the stated confidence, a future input keeps its answer at least as often as ``bound``
    says; ``accepted`` if that reaches the target, for this candidate and all before it.
    """

    n_changed: int
    bound: float
    accepted: bool


@lru_cache(maxsize=4096)  # the same few counts come again and again
def lower_bound(n_changed: int, n_rows: int, confidence: float) -> float:
    """Exact (Clopper-Pearson) lower bound on the share that keeps its answer, one-sided.

    Examples
    --------
    >>> from pine_boost.compression.fixed_sequence import lower_bound
    >>> round(lower_bound(0, 299, 0.95), 4)
    0.99
    """
    if n_changed >= n_rows:
        return 0.0
    return float(betaincinv(n_rows - n_changed, n_changed + 1, 1.0 - confidence))


def fewest_rows(fidelity: float, confidence: float) -> int:
    """The smallest sample that can reach the target at all, with no row changed."""
    n_rows = max(1, math.floor(math.log1p(-confidence) / math.log(fidelity)) - 1)
    while lower_bound(0, n_rows, confidence) < fidelity:
        n_rows += 1
    return n_rows


def highest_fidelity(n_rows: int, confidence: float) -> float:
    """The highest target that a sample of this size can reach, rounded down to 4 decimals."""
    return math.floor(1e4 * lower_bound(0, n_rows, confidence)) / 1e4


def require_rows(n_rows: int, fidelity: float, confidence: float) -> None:
    """Refuse a sample that is too small for the target even if no row changes."""
    if n_rows > 0 and lower_bound(0, n_rows, confidence) >= fidelity:
        return
    needed = fewest_rows(fidelity, confidence)
    best = highest_fidelity(n_rows, confidence) if n_rows else 0.0
    way_out = f" or ask for fidelity={best:g} at most" if best > 0 else ""
    raise InvalidInputError(
        f"X_val has {n_rows} rows; fidelity={fidelity:g} at confidence={confidence:g} needs at "
        f"least {needed}, even if none of them changes. Pass more rows{way_out}.",
        option=("X_val", "fidelity", "confidence"),
    )


def allowed(n_rows: int, fidelity: float, confidence: float) -> int:
    """The most rows that may change so that the target is still reached; -1 if none."""
    n_changed = -1
    while lower_bound(n_changed + 1, n_rows, confidence) >= fidelity:
        n_changed += 1
    return n_changed


def allowed_by_the_rest(n_rows: int, fidelity: float, confidence: float) -> int:
    """The most rows that may change in a second chain of candidates; -1: it cannot be tested.

    At the true share ``fidelity`` the first chain accepts wrongly with the probability that at
    most `allowed` rows change, which is below ``1 - confidence``. What is missing to it is the
    level of the second chain, so that both together are wrong with probability at most
    ``1 - confidence``. A function of the number of rows and the target alone.
    """
    used = _at_most(allowed(n_rows, fidelity, confidence), n_rows, fidelity)
    rest = (1.0 - confidence) - used - BINOMIAL_ERROR
    n_changed = -1
    while _at_most(n_changed + 1, n_rows, fidelity) <= rest:
        n_changed += 1
    return n_changed


def _at_most(n_changed: int, n_rows: int, fidelity: float) -> float:
    """The probability that at most so many of the rows change, each with ``1 - fidelity``."""
    if n_changed < 0 or n_changed >= n_rows:
        return float(n_changed >= n_rows)
    return float(betainc(n_rows - n_changed, n_changed + 1, fidelity))


def expected_share(n_rows: int, fidelity: float, confidence: float) -> float:
    """The share of changed rows to aim at: what is allowed, or half a row where none is."""
    return max(allowed(n_rows, fidelity, confidence), 0.5) / n_rows


def in_order(counts: Iterable[int], n_rows: int, confidence: float, most: int) -> Iterator[Tested]:
    """Test counts as they come and stop after the first above ``most``.

    ``most`` is `allowed`, or `allowed_by_the_rest` for the second chain. If the first candidate
    that keeps less than ``fidelity`` is the k-th of its chain, a false acceptance needs that very
    one to pass, which it does with at most the level of its chain: the order and the candidates
    must not depend on the rows that are counted here.
    """
    for n_changed in counts:
        bound = lower_bound(n_changed, n_rows, confidence)
        accepted = n_changed <= most
        yield Tested(n_changed, bound, accepted)
        if not accepted:
            return
