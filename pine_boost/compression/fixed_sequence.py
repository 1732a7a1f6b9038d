"""Fixed-sequence testing: candidates in an order fixed beforehand, each by an exact test.

One failure does not end the sequence: what the first test leaves of the level pays for a stricter test of the
candidates after it.

Whether answers are kept is a matter of counts. Whether a smaller model loses more than ``max_loss`` is an exact paired
test for accuracy: only rows count that one model has right and the other wrong. That test is a table: for every number
of rows that only the smaller model has right, the most rows that only the original may have right. Its level is the
largest probability of acceptance over all distributions that lose more than ``max_loss`` (an unconditional test),
bounded on intervals of the unknown rate. Other losses, between 0 and 1 for each row, are tested by an e-value
(Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy.special import betainc, betaincinv, gammaln, logsumexp, xlog1py, xlogy

from pine_boost.errors import InvalidInputError
from pine_boost.model.exact import ACCEPTANCE_ERROR, BINOMIAL_ERROR
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.region.conformal import lowest_share

# Before the first failure of the sequence, and after it. Simulated (Spambase, PoL, JM1, seed 0,
# max_loss 0.005): 29.7 % of the leaves gone, 30.4 with one test of the whole level, 26.7 with halves. Going on after a
# failure costs little here and gains nothing in the mean; draws differ slightly less.
SHARES_OF_LEVEL = (0.9, 0.1)
_BETS = np.geomspace(0.003, 1.0, 40)  # at most 1, so that no loss of one row ruins the bettor
_STEP, _LARGEST_STEP = 0.02, 0.2  # of a standard deviation: width of the intervals on which the level is bounded
_MANY_ROWS = 20_000  # beyond, wider intervals cost little power and save time
_MOST_GAINED = 8  # one row in so many: with more gained rows than that nothing is accepted
_NORMAL = 1.645  # where a share of changed rows to aim at is guessed

AnyTested = TypeVar("AnyTested", bound=Any)  # a dataclass like `Tested`


class Counted(Protocol):
    """What was counted for one candidate; None where it was not asked for."""

    n_changed: int
    n_lost: int | None
    n_gained: int | None
    e_value: float | None


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
    return lowest_share(n_rows - n_changed, n_rows, 1.0 - confidence)


def fewest_rows(fidelity: float, confidence: float) -> int:
    """The smallest sample that can reach the target at all, with no row changed."""
    n_rows = max(1, math.floor(math.log1p(-confidence) / math.log(fidelity)) - 1)
    while lower_bound(0, n_rows, confidence) < fidelity:
        n_rows += 1
    return n_rows


def highest_fidelity(n_rows: int, confidence: float) -> float:
    """The highest target that a sample of this size can reach, rounded down to 4 decimals."""
    return math.floor(1e4 * lower_bound(0, n_rows, confidence)) / 1e4


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

    Simulated (Spambase, PoL, JM1, seed 0): 48.5 % of the leaves gone, 46.7
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


class FixedSequence:
    """Judges candidates by the first test until one fails, then by the next; it is over when the last test fails.

    Call a candidate bad if its promise does not hold. If the first bad candidate that is accepted
    is the k-th bad one, k - 1 failed before it, so that it passed the k-th test or a later one.
    With each test stricter than the one before, a false acceptance therefore needs the k-th bad
    candidate to pass the k-th test, for some k: its probability is at most the sum of the levels,
    however candidates depend on one another. Candidates and their order must not depend on the
    rows that are counted here.
    """

    def __init__(self, tests: Sequence[Callable[[Any], bool]]) -> None:
        self._tests = list(tests)

    @property
    def is_over(self) -> bool:
        """Whether no candidate can be accepted any more."""
        return not self._tests

    def judge(self, candidate: AnyTested) -> AnyTested:
        """The next candidate with the verdict."""
        accepted = bool(self._tests[0](candidate))
        if not accepted:
            del self._tests[0]
        return replace(candidate, accepted=accepted)


@dataclass(frozen=True)
class Target:
    """What a candidate must reach on so many rows: a share of kept answers, a largest loss, or both."""

    n_rows: int
    confidence: float
    fidelity: float | None
    max_loss: float | None = None
    is_error: bool = True

    def tests(self) -> list[Callable[[Any], bool]]:
        """The tests of a `FixedSequence`, each stricter than the one before; their levels add up to 1 - confidence."""
        if self.max_loss is None:
            assert self.fidelity is not None
            return [_changes_at_most(limit) for limit in allowances(self.n_rows, self.fidelity, self.confidence)]
        first, second = (self._test((1.0 - self.confidence) * share) for share in SHARES_OF_LEVEL)
        return [first, lambda counted: first(counted) and second(counted)]

    def _test(self, level: float) -> Callable[[Any], bool]:
        """Both parts at the same level: a candidate that fails its promise fails one of them."""
        most_changed = self.n_rows
        if self.fidelity is not None:
            most_changed = allowed(self.n_rows, self.fidelity, 1.0 - level)
        assert self.max_loss is not None
        table = most_lost(self.n_rows, self.max_loss, level) if self.is_error else None

        def accepts(counted: Counted) -> bool:
            if counted.n_changed > most_changed:
                return False
            if table is None:
                return counted.e_value is not None and counted.e_value * level >= 1.0
            if counted.n_lost is None or counted.n_gained is None or counted.n_gained >= len(table):
                return False
            return bool(counted.n_lost <= table[counted.n_gained])

        return accepts

    def aim(self) -> float:
        """The share of changed rows to aim at."""
        shares = []
        if self.fidelity is not None:  # what is allowed, or half a row where none is
            shares.append(max(allowed(self.n_rows, self.fidelity, self.confidence), 0.5) / self.n_rows)
        if self.max_loss is not None and self.is_error:
            shares.append(min(max(self.n_rows * (self.max_loss / _NORMAL) ** 2, self.max_loss / 2), 0.25))
        return min(shares, default=0.1)

    def require_rows(self) -> None:
        """Refuse a sample that is too small even if no row changes."""
        if self.fidelity is not None and lower_bound(0, self.n_rows, self.confidence) < self.fidelity:
            needed = fewest_rows(self.fidelity, self.confidence)
            best = highest_fidelity(self.n_rows, self.confidence)
            way_out = f" or ask for fidelity={best:g} at most" if best > 0 else ""
            raise InvalidInputError(
                f"X_val has {self.n_rows} rows; fidelity={self.fidelity:g} at confidence={self.confidence:g} needs at "
                f"least {needed}, even if none of them changes. Pass more rows{way_out}.",
                option=("X_val", "fidelity", "confidence"),
            )
        if self.max_loss is None or self._without_a_change(self.n_rows):
            return
        needed = self.n_rows
        if self.is_error:  # no row lost by chance, which is the least that it takes
            needed = max(
                needed, int(math.log(SHARES_OF_LEVEL[0] * (1.0 - self.confidence)) / math.log1p(-self.max_loss))
            )
        while not self._without_a_change(needed):
            needed = math.ceil(1.05 * needed) + 1
        raise InvalidInputError(
            f"X_val has {self.n_rows} rows; max_loss={self.max_loss:g} at confidence={self.confidence:g} needs about "
            f"{needed}, even if both models are right on the same rows. Pass more rows or a larger max_loss.",
            option=("X_val", "max_loss", "confidence"),
        )

    def _without_a_change(self, n_rows: int) -> bool:
        """Whether so many rows could pass the first test with both models equally good on each of them."""
        assert self.max_loss is not None
        level = SHARES_OF_LEVEL[0] * (1.0 - self.confidence)
        if self.is_error:
            return bool(most_lost(n_rows, self.max_loss, level)[0] >= 0)
        return bet(np.zeros(n_rows), self.max_loss) * level >= 1.0


def _changes_at_most(limit: int) -> Callable[[Counted], bool]:
    return lambda counted: counted.n_changed <= limit


def bet(differences: FloatArray, max_loss: float) -> float:
    """E-value against "the mean of these differences, each between -1 and 1, is at least ``max_loss``".

    The mean over fixed bets of what a gambler ends with who stakes that part of the capital on
    every row in turn; on average at most 1 if the mean is that large. The order of rows is
    irrelevant.

    Examples
    --------
    >>> import numpy as np
    >>> from pine_boost.compression.fixed_sequence import bet
    >>> bet(np.zeros(2000), 0.01) > 20
    True
    """
    capital = [float(np.log1p(stake * (max_loss - differences)).sum()) for stake in _BETS]
    return float(np.exp(min(logsumexp(capital) - math.log(len(_BETS)), 700.0)))


@lru_cache(maxsize=64)
def most_lost(n_rows: int, max_loss: float, level: float) -> IntArray:
    """The most rows that only the original may have right, by the rows that only the smaller model has right.

    -1 where nothing is accepted; with more gained rows than the table has entries nothing is.
    If the smaller model is right less often by ``max_loss`` or more, lost and gained rows
    lie in the table with probability at most ``level``, whatever the rate at which the two differ:

    - fewer lost rows at the same number of gained ones stay in the table, so that a loss of exactly
      ``max_loss`` is the worst case;
    - for a rate of gained rows between p and q, the probability is at most that of lost rows at the
      rate p + max_loss and gained ones at q, because the table rises;
    - beyond the last rate that is looked at, so few gained rows have probability ``level`` at most.
    """
    gained = np.arange(n_rows + 1)
    last = min(n_rows, max(100, n_rows // _MOST_GAINED))
    largest = (1.0 - max_loss) / 2
    if last < n_rows:
        largest = min(largest, float(betaincinv(last + 1, n_rows - last, 1.0 - level)))
    step = min(_STEP * max(1.0, math.sqrt(n_rows / _MANY_ROWS)), _LARGEST_STEP) / math.sqrt(n_rows)
    begin, end = math.sqrt(max_loss), math.sqrt(2 * largest + max_loss)
    edges = (np.linspace(begin, end, math.ceil((end - begin) / step) + 1) ** 2 - max_loss) / 2
    edges[0], edges[-1] = 0.0, largest
    intervals = list(pairwise(edges))

    def table(distance: float) -> IntArray:
        """Lost rows at so many standard deviations below what a loss of ``max_loss`` would bring."""
        expected = gained + n_rows * max_loss
        limits = np.floor(expected - distance * np.sqrt(gained + expected))
        return np.asarray(np.maximum(np.maximum.accumulate(limits), -1), dtype=np.int64)

    def holds(limits: IntArray, some: list[tuple[float, float]]) -> bool:
        most = level * (1.0 - ACCEPTANCE_ERROR)
        return all(_acceptance(limits, n_rows, p + max_loss, q) <= most for p, q in some)

    low, high = 0.0, 10.0
    coarse = intervals[:: max(1, len(intervals) // 40)]
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(table(middle), coarse) else (middle, high)
    while not holds(table(high), intervals):
        high += 0.005
    return table(high)[: last + 1]


def _acceptance(limits: IntArray, n_rows: int, lost: float, gained: float) -> float:
    """The probability of at most ``limits[number of gained rows]`` lost rows, at these two rates."""
    spread = 8 * math.sqrt(n_rows * gained * (1 - gained))
    low, high = max(0, int(n_rows * gained - spread - 30)), min(n_rows, int(n_rows * gained + spread + 30))
    k = np.arange(low, high + 1)
    weight = gammaln(n_rows + 1) - gammaln(k + 1) - gammaln(n_rows - k + 1)
    weight = np.exp(weight + xlogy(k, gained) + xlog1py(n_rows - k, -gained))
    most, rest = limits[k], n_rows - k
    inner = (most >= 0) & (most < rest)
    below = (most >= rest).astype(np.float64)
    kept = max(0.0, 1.0 - lost / (1.0 - gained))
    below[inner] = betainc((rest - most)[inner], (most + 1)[inner], kept)
    return float(weight @ below)
