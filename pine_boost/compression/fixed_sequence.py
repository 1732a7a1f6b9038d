"""Fixed-sequence testing: candidates in an order fixed beforehand, each by an exact test.

One failure does not end the sequence: what the first test leaves of the level pays for a stricter test of the
candidates after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from scipy.special import betainc, betaincinv

from pine_boost.errors import InvalidInputError
from pine_boost.model.exact import BINOMIAL_ERROR

Outcome = TypeVar("Outcome")


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


def allowances(n_rows: int, fidelity: float, confidence: float) -> tuple[int, ...]:
    """The most rows that may change before the first failure of a sequence, and after it.

    At the true share ``fidelity`` the first test accepts wrongly with the probability that at most
    `allowed` rows change, which is below ``1 - confidence`` because counts are whole numbers. What
    is missing to it is the level of the second test; without room for one there is only the first.

    Simulated by benchmarks/levels.py (Spambase, PoL, JM1, seed 0): 48.5 % of the leaves gone, 46.7
    with the first test alone, 45.6 with 0.7 and 0.3 of the level, 47.6 with halves, 42.9 with four
    quarters; the smallest candidate that passes by itself, which promises nothing, would give 52.2.
    """
    first = allowed(n_rows, fidelity, confidence)
    rest = (1.0 - confidence) - _at_most(first, n_rows, fidelity) - BINOMIAL_ERROR
    second = -1
    while second < first and _at_most(second + 1, n_rows, fidelity) <= rest:
        second += 1
    return (first, second) if second >= 0 else (first,)


def _at_most(n_changed: int, n_rows: int, fidelity: float) -> float:
    """The probability that at most so many of the rows change, each with ``1 - fidelity``."""
    if n_changed < 0 or n_changed >= n_rows:
        return float(n_changed >= n_rows)
    return float(betainc(n_rows - n_changed, n_changed + 1, fidelity))


def expected_share(n_rows: int, fidelity: float, confidence: float) -> float:
    """The share of changed rows to aim at: what is allowed, or half a row where none is."""
    return max(allowed(n_rows, fidelity, confidence), 0.5) / n_rows


def in_order(counts: Iterable[int], n_rows: int, confidence: float, most: Sequence[int]) -> Iterator[Tested]:
    """Test counts as they come; ``most`` are `allowances`, or the first of them alone."""
    for n_changed, accepted in judge(counts, [limit.__ge__ for limit in most]):
        yield Tested(n_changed, lower_bound(n_changed, n_rows, confidence), accepted)


def judge(outcomes: Iterable[Outcome], tests: Sequence[Callable[[Outcome], bool]]) -> Iterator[tuple[Outcome, bool]]:
    """Judge outcomes by the first test until one fails, then by the next; stop when the last test fails.

    Call a candidate bad if its promise does not hold. If the first bad candidate that is accepted
    is the k-th bad one, k - 1 failed before it, so that it passed the k-th test or a later one.
    With each test stricter than the one before, a false acceptance therefore needs the k-th bad
    candidate to pass the k-th test, for some k: its probability is at most the sum of the levels,
    however candidates depend on one another. Candidates and their order must not depend on the
    rows that are counted here.
    """
    position = 0
    for outcome in outcomes:
        accepted = tests[position](outcome)
        yield outcome, accepted
        position += not accepted
        if position == len(tests):
            return
