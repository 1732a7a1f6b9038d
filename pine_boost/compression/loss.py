"""Whether a smaller model loses more than ``max_loss``: an exact paired test for accuracy, a bet for other losses.

For accuracy only rows count that one model has right and the other wrong. The test is a table: for every number of rows
that only the smaller model has right, the most rows that only the original may have right. Its level is the largest
probability of acceptance over all distributions that lose more than ``max_loss`` (an unconditional test), bounded on
intervals of the unknown rate. Other losses, between 0 and 1 for each row, are tested by an e-value (Waudby-Smith and
Ramdas, Estimating means of bounded random variables by betting, 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from scipy.special import betainc, betaincinv, gammaln, logsumexp, xlog1py, xlogy

from pine_boost.compression.fixed_sequence import allowances, allowed, expected_share, require_rows
from pine_boost.compression.goal import Answers
from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.options import CompressOptions
from pine_boost.result import classes_of

ERROR, BRIER, SQUARED, COSTS = LOSSES = ("error", "brier", "squared", "costs")
# Before the first failure of the sequence, and after it. Simulated by benchmarks/levels.py (Spambase, PoL, JM1, seed 0,
# max_loss 0.005): 29.7 % of the leaves gone, 30.4 with one test of the whole level, 26.7 with halves. Going on after a
# failure costs little here and gains nothing in the mean; draws differ slightly less.
SHARES_OF_LEVEL = (0.9, 0.1)
_BETS = np.geomspace(0.003, 1.0, 40)  # at most 1, so that no loss of one row ruins the bettor
_STEP, _LARGEST_STEP = 0.02, 0.2  # of a standard deviation: width of the intervals on which the level is bounded
_MANY_ROWS = 20_000  # beyond, wider intervals cost little power and save time
_ROUNDING = 1e-6  # relative, of the sums of probabilities; far above their error
_MOST_GAINED = 8  # one row in so many: with more gained rows than that nothing is accepted
_NORMAL = 1.645  # where a share of changed rows to aim at is guessed


class Counted(Protocol):
    """What was counted for one candidate; None where it was not asked for."""

    n_changed: int
    n_lost: int | None
    n_gained: int | None
    e_value: float | None


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss between 0 and 1 for every row, given the labels.

    Attributes
    ----------
    kind : str
        One of `LOSSES`.
    labels : int64 or float64 (n_rows,)
        Class indices, or values for ``"squared"``.
    scale : float
        The error that counts as 1, for ``"squared"``.
    costs : float64 (n_classes, n_classes) or None
        Of a row by its label and its predicted class.
    """

    kind: str
    labels: Any
    scale: float = 1.0
    costs: FloatArray | None = None

    def of(self, answers: Answers) -> FloatArray:
        """The loss of each row."""
        rows = np.arange(len(self.labels))
        if self.kind == SQUARED:
            assert answers.numbers is not None
            return np.asarray(np.minimum(((answers.numbers[:, 0] - self.labels) / self.scale) ** 2, 1.0))
        if self.kind == BRIER:
            assert answers.numbers is not None
            missed = answers.numbers.copy()
            missed[rows, self.labels] -= 1.0
            return np.asarray(np.minimum((missed**2).sum(axis=1) / 2, 1.0))
        assert answers.classes is not None
        if self.costs is None:
            return np.asarray(answers.classes != self.labels, dtype=np.float64)
        return np.asarray(self.costs[self.labels, answers.classes])

    def count(self, before: FloatArray, after: FloatArray, max_loss: float | None) -> dict[str, Any]:
        """What the test uses: lost and gained rows, or the e-value."""
        if self.kind == ERROR:
            return {"n_lost": int((after > before).sum()), "n_gained": int((after < before).sum()), "e_value": None}
        e_value = None if max_loss is None else bet(after - before, max_loss)
        return {"n_lost": None, "n_gained": None, "e_value": e_value}


def read_loss(parsed: Model, options: CompressOptions, y_val: Any, n_rows: int) -> Loss | None:
    """The loss that was asked for, with its labels checked; None without labels."""
    if y_val is None:
        if options.max_loss is None:
            return None
        raise InvalidInputError(
            "max_loss needs the labels of X_val: pass y_val.", option=("max_loss", "y_val", "X_val")
        )
    is_matrix = not isinstance(options.loss, str)
    kind = COSTS if is_matrix else options.loss
    if (kind == SQUARED) == parsed.forest.decides:
        fits = "'error', 'brier' or a matrix of costs" if parsed.forest.decides else "'squared'"
        raise InvalidInputError(
            f"loss={options.loss!r} does not fit this model ({parsed.kind}); pass {fits}.", option="loss"
        )
    labels = np.asarray(y_val).reshape(-1)
    if kind == SQUARED:
        return Loss(kind, _values(labels, n_rows), _scale(options))
    classes = classes_of(parsed, labels, n_rows)
    numbers = {label: index for index, label in enumerate(classes.tolist())}
    indices = np.array([numbers[label] for label in labels.tolist()], dtype=np.int64)
    return Loss(kind, indices, 1.0, read_costs(options.loss, len(classes)) if is_matrix else None)


def read_costs(given: Any, n_classes: int) -> FloatArray:
    """A matrix of costs between 0 and 1, rows by label, columns by predicted class."""
    try:
        costs = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        costs = np.zeros(0)
    if costs.shape != (n_classes, n_classes) or not np.all((costs >= 0) & (costs <= 1)):
        raise InvalidInputError(
            f"loss must be 'error', 'brier', 'squared' or a matrix of {n_classes} x {n_classes} costs from 0 to 1 "
            "(rows by label, columns by predicted class). Divide your costs by the largest.",
            option="loss",
        )
    return costs


def _values(labels: Any, n_rows: int) -> FloatArray:
    try:
        values = labels.astype(np.float64)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if len(values) != n_rows or not np.isfinite(values).all():
        raise InvalidInputError(
            f"y_val must hold one finite number for each of the {n_rows} rows of X_val.", option=("y_val", "X_val")
        )
    return np.asarray(values)


def _scale(options: CompressOptions) -> float:
    if options.loss_range is None:
        raise InvalidInputError(
            "loss='squared' needs loss_range, the error that counts as 1 (for example the range of the target): "
            "squared errors are divided by its square and cut off at 1.",
            option=("loss", "loss_range"),
        )
    return float(options.loss_range)


def default_tolerance(options: CompressOptions) -> float | None:
    """How far values may move on the path to a smaller model, where a loss of values was asked for and nothing else."""
    if options.tolerance is not None or options.max_loss is None or options.loss not in (BRIER, SQUARED):
        return options.tolerance
    return math.sqrt(options.max_loss) * (_scale(options) if options.loss == SQUARED else 1.0)


@dataclass(frozen=True)
class Target:
    """What a candidate must reach on so many rows: a share of kept answers, a largest loss, or both."""

    n_rows: int
    confidence: float
    fidelity: float | None
    max_loss: float | None = None
    is_error: bool = True

    def tests(self) -> list[Callable[[Any], bool]]:
        """The tests of `judge`, each stricter than the one before; their levels add up to ``1 - confidence``."""
        if self.max_loss is None:
            assert self.fidelity is not None
            return [_at_most(limit) for limit in allowances(self.n_rows, self.fidelity, self.confidence)]
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
        shares = [] if self.fidelity is None else [expected_share(self.n_rows, self.fidelity, self.confidence)]
        if self.max_loss is not None and self.is_error:
            shares.append(min(max(self.n_rows * (self.max_loss / _NORMAL) ** 2, self.max_loss / 2), 0.25))
        return min(shares, default=0.1)

    def require_rows(self) -> None:
        """Refuse a sample that is too small even if no row changes."""
        if self.fidelity is not None:
            require_rows(self.n_rows, self.fidelity, self.confidence)
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


def _at_most(limit: int) -> Callable[[Counted], bool]:
    return lambda counted: counted.n_changed <= limit


def bet(differences: FloatArray, max_loss: float) -> float:
    """E-value against "the mean of these differences, each between -1 and 1, is at least ``max_loss``".

    The mean over fixed bets of what a gambler ends with who stakes that part of the capital on
    every row in turn; on average at most 1 if the mean is that large. The order of rows is
    irrelevant.

    Examples
    --------
    >>> import numpy as np
    >>> from pine_boost.compression.loss import bet
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
        most = level * (1.0 - _ROUNDING)
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
