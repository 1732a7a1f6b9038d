"""Monitor live inputs: how many lie in the region, an alarm if too few do, and what drifted.

The state is one small JSON file that survives restarts and concurrent writers: it is read, changed and replaced under a
lock.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost.errors import InvalidInputError, class_with_article
from pine_boost.files import REGION_LIMIT, clear_errors, read_limited, save_file
from pine_boost.model.digits import percent_down, percent_up, rest_of
from pine_boost.model.forest import FloatArray
from pine_boost.model.states import States
from pine_boost.notebooks import displayed
from pine_boost.options import require_share
from pine_boost.region.conformal import Coverage, coverage_floor
from pine_boost.region.explanation import explain_row
from pine_boost.region.region import Region
from pine_boost.region.score_tables import ScoreTables

KEPT_SHARE = 0.7  # weight of earlier costs per batch: half of what ``drifted`` shows is two batches old
FORMAT = "pine_boost monitor"
MOST_BATCHES = 5000  # stored individually; older ones remain in the sums


@dataclass(frozen=True)
class Batch:
    """One batch of live inputs.

    Attributes
    ----------
    n_rows, n_inside : int
    date : str
        When it was counted (UTC).
    name : str
        The caller's name for it, for example a file.
    digest : str
        Digest of the file, so that it is not counted twice; empty for tables.
    evidence : float
        After this batch.
    """

    n_rows: f.Positive
    n_inside: f.Count
    date: str
    name: str = ""
    digest: str = ""
    evidence: f.Size = 1.0


@displayed
@dataclass(frozen=True)
class MonitorStatus:
    """The status after a batch.

    Attributes
    ----------
    coverage : Coverage
        Of all batches together, with the exact 95 % interval for one look at a fixed time.
    last : Coverage
        Of the last batch.
    alpha : float
        Share that may lie outside.
    evidence : float
        Evidence of drift now.
    largest_evidence : float
        The largest so far; the alarm is raised at ``threshold`` and stays.
    threshold : float
    drifted : tuple of Drift
        Features and pairs that were less plausible than in X_fit in the last few batches, largest first.
    """

    coverage: Coverage
    last: Coverage
    alpha: float
    evidence: float
    largest_evidence: float
    threshold: float
    drifted: tuple[Drift, ...]

    @property
    def alarm(self) -> bool:
        """Whether the inputs leave the region more often than chance explains."""
        return self.largest_evidence >= self.threshold

    def __str__(self) -> str:
        all_, last = self.coverage, self.last
        verdict = "ALARM: inputs leave the region more often than promised" if self.alarm else "ok"
        lines = [
            f"{verdict} (evidence {self.evidence:.3g}, largest {self.largest_evidence:.3g}, alarm "
            f"from {self.threshold:.3g})",
            f"all:  {all_.n_inside} of {all_.n_rows} inside ({all_.share:.2%}, true share "
            f"{percent_down(all_.low)} to {percent_up(all_.high)}; promised "
            f"{percent_down(rest_of(self.alpha))})",
            f"last: {last.n_inside} of {last.n_rows} inside ({last.share:.2%})",
        ]
        if self.drifted:
            lines.append("less plausible than in X_fit:")
            lines += [f"  {drift}" for drift in self.drifted]
        return "\n".join(lines)


def require_region(region: Any, what: str) -> None:
    """Raise unless the argument is a region; a path is a common mistake."""
    if not isinstance(region, Region):
        raise InvalidInputError(
            f"{what} needs a region, got {class_with_article(region)}; pass result.region, or Region.load(path)."
        )


class RegionMonitor:
    """Counts live inputs inside a region and raises an alarm if too many lie outside.

    If live inputs are independent draws like the calibration rows, the probability that the alarm
    is *ever* raised is at most ``level``, however often one looks. The monitor tests coverage: a
    drift that keeps inputs inside the region does not affect the guarantee and is not detected.

    Parameters
    ----------
    region : Region
    level : float
        Probability of a false alarm over the whole life of the monitor.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> from pine_boost.monitoring import RegionMonitor
    >>> from pine_boost.parsers import read_model
    >>> from pine_boost.region import fit_region
    >>> X = np.random.default_rng(0).normal(size=(3000, 2))
    >>> X[:, 1] = X[:, 0] + 0.3 * X[:, 1]
    >>> gb = GradientBoostingClassifier(n_estimators=9, random_state=0)
    >>> gb = gb.fit(X[:500], X[:500].sum(axis=1) > 0)
    >>> region = fit_region(read_model(gb), X[500:1500], X[1500:2500], alpha=0.1)
    >>> monitor = RegionMonitor(region)
    >>> monitor.update(X[2500:]).alarm
    False
    >>> monitor.update(X[2500:] * [1, -1]).alarm
    True
    """

    def __init__(self, region: Region, level: float = 0.05) -> None:
        require_share(level, "level")
        require_region(region, "RegionMonitor")
        if region.n_cal == 0 and region.alpha > 0:
            raise InvalidInputError(
                "This region was never calibrated, because its search stopped before, so there is no promise to "
                "monitor. Run the search again with more time."
            )
        if region.tau is None or region.n_cal == 0:
            raise InvalidInputError(
                "This region covers every input (alpha=0, or too few calibration rows), so there is nothing to monitor."
            )
        self.region = region
        self.level = float(level)
        self.batches: list[Batch] = []
        self.n_dropped = 0
        self.n_rows = 0
        self.n_inside = 0
        self.n_measured = 0.0
        self.costs: dict[str, float] = {}
        self.largest_evidence = 1.0

    @property
    def limit(self) -> float:
        """The share outside that chance in the calibration rows can explain."""
        return most_outside(self.region.n_cal, self.region.alpha, self.level)

    def update(
        self, X: Any, *, model: Any = None, margins: Any = None, name: str = "", digest: str = ""
    ) -> MonitorStatus:
        """Count one batch and return the status.

        Parameters
        ----------
        X : table
            As for `Region.contains`; at least one row.
        model, margins
            As in `Region.contains`, for a region with indifference.
        name : str
            What to call the batch.
        digest : str
            Digest of the file it came from. `watch` skips a batch with a known digest; this method
            counts it again.
        """
        states = self.region.states(X)  # accepts raw rows if the region belongs to a Pipeline
        if len(states) == 0:
            raise InvalidInputError("X has no rows; a batch needs at least one.")
        inside = self.region.contains(X, model=model, margins=margins)
        n_measured, costs = measure(self.region, states, states[~inside])
        # recent costs weigh more, so that quiet batches do not hide a drift
        self.n_measured = KEPT_SHARE * self.n_measured + n_measured
        self.costs = {key: KEPT_SHARE * self.costs.get(key, 0.0) + costs.get(key, 0.0) for key in {*self.costs, *costs}}
        n_inside = int(np.count_nonzero(inside))
        self.n_rows += len(inside)
        self.n_inside += n_inside
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        n_rows = [*(batch.n_rows for batch in self.batches), len(inside)]
        n_outside = [*(batch.n_rows - batch.n_inside for batch in self.batches), len(inside) - n_inside]
        evidence = drift_evidence(n_rows, n_outside, self.limit, self.n_dropped)
        self.batches.append(Batch(len(inside), n_inside, now, name, digest, evidence))
        self.largest_evidence = max(self.largest_evidence, evidence)
        if len(self.batches) > MOST_BATCHES:
            self.n_dropped += len(self.batches) - MOST_BATCHES
            del self.batches[:-MOST_BATCHES]
        return self.status()

    def status(self) -> MonitorStatus:
        """The status now; needs at least one batch."""
        if not self.batches:
            raise InvalidInputError("The monitor has not counted a batch yet; call update first.")
        last = self.batches[-1]
        return MonitorStatus(
            coverage=Coverage.of(self.n_rows, self.n_inside),
            last=Coverage.of(last.n_rows, last.n_inside),
            alpha=self.region.alpha,
            evidence=last.evidence,
            largest_evidence=self.largest_evidence,
            threshold=threshold_of(self.level),
            drifted=tuple(ranked(self.region, self.n_measured, self.costs)),
        )

    def has_counted(self, digest: str) -> bool:
        """Whether a batch with this digest was counted."""
        return bool(digest) and any(batch.digest == digest for batch in self.batches)

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain JSON data; it names its region by fingerprint."""
        state = {name: f.plain(getattr(self, name)) for name in _STATE if name != "region"}
        return f.write_document({"region": self.region.fingerprint(), **state}, FORMAT)

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, Any], region: Region) -> RegionMonitor:
        """Read the output of `to_json` for the same region."""
        with f.reading("monitor state", "Begin a new one"):
            data = f.read(f.open_document(document, FORMAT), _STATE)
            if data.pop("region") != region.fingerprint():
                raise InvalidInputError(
                    "This monitor state belongs to another region; use another state file, or its own region."
                )
            monitor = cls(region, data.pop("level"))
            for name, value in data.items():
                setattr(monitor, name, value)
            monitor.batches = list(monitor.batches)
            for batch in monitor.batches:
                f.require(batch.n_inside <= batch.n_rows, "a batch has more rows inside than rows")
            for name in ("n_rows", "n_inside"):
                kept, stated = sum(getattr(batch, name) for batch in monitor.batches), getattr(monitor, name)
                fits = kept == stated or (kept < stated and monitor.n_dropped > 0)
                f.require(fits, f"'batches' and {name!r} do not agree")
            f.require(monitor.n_inside <= monitor.n_rows, "'n_inside' is larger than 'n_rows'")
            highest = max((batch.evidence for batch in monitor.batches), default=1.0)
            f.require(monitor.largest_evidence >= max(highest, 1.0), "'largest_evidence' is below that of a batch")
        return monitor


_STATE: dict[str, f.Reader] = {
    "region": f.digest,
    "level": f.SHARE,
    **dict.fromkeys(("n_rows", "n_inside", "n_dropped"), f.integer(0, 2**53)),
    **dict.fromkeys(("n_measured", "largest_evidence"), f.number(0)),
    "costs": f.mapping(f.number()),
    "batches": f.sequence(f.record_of(Batch)),
}


def watch(
    region: Region,
    X: Any,
    state: str | os.PathLike[str],
    *,
    model: Any = None,
    margins: Any = None,
    name: str = "",
    digest: str = "",
    level: float = 0.05,
) -> MonitorStatus:
    """Count one batch in a state file, which is created if it does not exist.

    Reading, counting and replacing the file happen under a lock, so several processes may count
    into one file; a crash leaves the state as it was before. A batch whose digest was counted
    before is not counted again. ``level`` is used for a new state.
    """
    path = Path(state)
    if path.exists():
        load_state(path, region)  # a file that is not a state of this region is not locked at all
    with _locked(path):
        monitor = load_state(path, region) if path.exists() else RegionMonitor(region, level)
        if not monitor.has_counted(digest):
            monitor.update(X, model=model, margins=margins, name=name, digest=digest)
            save_file(path, f.canonical(monitor.to_json()).encode())
        return monitor.status()


def load_state(path: Path, region: Region) -> RegionMonitor:
    """Read the monitor from a state file."""
    return RegionMonitor.from_json(read_limited(path, REGION_LIMIT, "monitor state"), region)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a path: a separate file next to it, because the state file itself is replaced."""
    lock = path.with_name(path.name + ".lock")
    with clear_errors(lock):  # only around the lock, not around the work under it
        file = lock.open("a")
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]  # Windows only
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
    with file:
        yield


# Find the features and pairs of features that drifted: the parts of the score that cost more than when it was fitted.
# Tree scores have no parts; for them, single-feature changes of inputs outside the region are explained.
_EXPLAINED_ROWS = 100  # per batch, because every explanation needs a pass through the trees
SEPARATOR = "\u241f"  # between the names of a pair; no feature has this name


@dataclass(frozen=True)
class Drift:
    """A feature or pair whose values are less plausible than those that the score was fitted on.

    Attributes
    ----------
    features : tuple of str
    excess : float
        In nats per input (for tree scores, per explained input outside the region).
    """

    features: tuple[str, ...]
    excess: float

    def __str__(self) -> str:
        return f"{' given '.join(self.features)}: +{self.excess:.3f} nats per input"


def measure(region: Region, states: States, outside: States) -> tuple[int, dict[str, float]]:
    """Return the number of inputs measured and the summed cost of every part."""
    score = region.score_tables
    if score is None:
        return 0, {}
    if score.trees is None:
        return len(states), _costs(region, score, states)
    sums: dict[str, float] = defaultdict(float)
    some = outside[:_EXPLAINED_ROWS]
    for row in range(len(some)):
        for reason in explain_row(region, some[row : row + 1], None).reasons:
            if reason.features and np.isfinite(reason.excess):
                sums[SEPARATOR.join(reason.features)] += reason.excess
    return len(some), sums


def ranked(region: Region, n_measured: float, sums: Mapping[str, float], most: int = 8) -> list[Drift]:
    """Return the parts that cost more than expected, largest excess first."""
    score = region.score_tables
    if score is None or n_measured == 0:
        return []
    expected = {} if score.trees is not None else _expected(region, score)
    found = [
        Drift(tuple(key.split(SEPARATOR)), total / n_measured - expected.get(key, 0.0)) for key, total in sums.items()
    ]
    found = [drift for drift in found if drift.excess > 0]
    return sorted(found, key=lambda drift: -drift.excess)[:most]


def _costs(region: Region, score: ScoreTables, states: States) -> dict[str, float]:
    name = region.schema.name_of
    bins = [table[states[:, j]] for j, table in enumerate(score.bins)]
    sums = {name(j): float(cost[bins[j]].sum()) / score.scale for j, cost in enumerate(score.unary) if cost.any()}
    for pair in score.pairs:
        key = SEPARATOR.join((name(pair.second), name(pair.first)))
        total = float(pair.cost[bins[pair.first], bins[pair.second]].sum()) / score.scale
        sums[key] = sums.get(key, 0.0) + total
    return sums


def _expected(region: Region, score: ScoreTables) -> dict[str, float]:
    """Return the mean costs under the distribution that the tables describe.

    The Chow-Liu tree is a distribution: root first, every child given its parent. Other tables
    (a user's own score) have no expectation, and the whole cost counts as excess.
    """
    name, scale = region.schema.name_of, score.scale
    marginal: dict[int, FloatArray] = {}
    expected: dict[str, float] = {}
    children = {pair.second for pair in score.pairs}
    for j, cost in enumerate(score.unary):
        if j not in children:
            marginal[j] = _shares(cost / scale)
            expected[name(j)] = float(marginal[j] @ cost) / scale
    for pair in score.pairs:
        if pair.first not in marginal or pair.second in marginal:
            return {}
        given = np.stack([_shares(row / scale) for row in pair.cost])
        joint = marginal[pair.first][:, None] * given
        marginal[pair.second] = joint.sum(axis=0)
        key = SEPARATOR.join((name(pair.second), name(pair.first)))
        expected[key] = float((joint * pair.cost).sum()) / scale
    for j in children:
        expected[name(j)] = 0.0  # its own table only covers values that were never missing in X_fit
    return expected


def _shares(nats: FloatArray) -> FloatArray:
    shares = np.exp(-(nats - nats.min()))
    return np.asarray(shares / shares.sum())


# Measure the evidence that live inputs leave a region more often than they should, as an e-process. Without drift, the
# probability that the evidence ever exceeds ``1 / level`` is at most ``level``, however often it is checked.
# The part of the level that covers the uncertainty about the coverage of this region.
CALIBRATION_PART = 0.2


def most_outside(n_cal: int, alpha: float, level: float) -> float:
    """Return the share of inputs outside that chance in the calibration rows can explain.

    ``alpha`` is the mean over all calibrations; a single region may leave out more. With
    probability ``1 - CALIBRATION_PART * level`` it leaves out at most this share.
    """
    return 1.0 - coverage_floor(n_cal, alpha, 1 - CALIBRATION_PART * level)


def threshold_of(level: float) -> float:
    """Return the evidence at which the alarm is raised; the total error is at most ``level``."""
    return 1.0 / ((1 - CALIBRATION_PART) * level)


def log_evidence(n_rows: npt.ArrayLike, n_outside: npt.ArrayLike, limit: float) -> FloatArray:
    """Return the log of the mixture of likelihood ratios against "a share of at most ``limit`` is outside".

    For a share q > limit the ratio ``(q / limit)^s ((1 - q) / (1 - limit))^(t - s)`` of s rows
    outside among t is a supermartingale for every true share up to ``limit``; so is the
    uniform mixture over q in (limit, 1), which has a closed form. By Ville's inequality, the
    probability that it ever reaches ``1 / level`` is at most ``level``.
    """
    from scipy.special import betainc, betaln

    outside = np.asarray(n_outside, dtype=np.float64)
    inside = np.asarray(n_rows, dtype=np.float64) - outside
    # the integral of q^s (1 - q)^(t - s) over (limit, 1); 0 where it underflows
    with np.errstate(divide="ignore"):
        above = np.log(betainc(inside + 1, outside + 1, 1 - limit))
    integral = betaln(outside + 1, inside + 1) + above
    null = outside * np.log(limit) + inside * np.log1p(-limit)
    return np.asarray(integral - np.log1p(-limit) - null)


def drift_evidence(n_rows: Sequence[int], n_outside: Sequence[int], limit: float, first: int = 0) -> float:
    """Return the evidence over batches for a drift that may begin with any of them.

    ``sum over j of E_j / ((j + 1)(j + 2))``, E_j from batch j on and 1 before: the weights add up
    to 1, so this is a supermartingale too, and a drift after a long quiet time is detected almost
    as soon as one at the beginning. ``first`` is the number of batches that are no longer stored;
    leaving out their terms only lowers the evidence.
    """
    rows_left, outside_left = (
        np.cumsum(np.asarray(counts, dtype=np.int64)[::-1])[::-1] for counts in (n_rows, n_outside)
    )
    start = first + np.arange(len(rows_left))
    # capped, so that the number can be written as JSON
    evidence = np.exp(np.minimum(log_evidence(rows_left, outside_left, limit), 600.0))
    # future batches have evidence 1 each: the rest of the weights
    return float((evidence / ((start + 1.0) * (start + 2.0))).sum() + 1.0 / (first + len(start) + 1))
