"""Monitor live inputs: how many lie in the region, an alarm if too few do, and what drifted."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError
from pine_boost.model.digits import percent_down, percent_up, rest_of
from pine_boost.monitoring.drift import Drift, measure, ranked
from pine_boost.monitoring.evidence import drift_evidence, most_outside, threshold_of
from pine_boost.notebooks import text_html
from pine_boost.options import require_share
from pine_boost.pipelines.wrapped_result import PreparedRegion
from pine_boost.region.conformal import Coverage
from pine_boost.region.region import Region

KEPT_SHARE = 0.7  # weight of earlier costs per batch: half of what ``drifted`` shows is two batches old
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

    n_rows: int
    n_inside: int
    date: str
    name: str = ""
    digest: str = ""
    evidence: float = 1.0


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
        Features and pairs that cost more than fitted in the last few batches, largest first.
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
            lines.append("costs more than fitted:")
            lines += [f"  {drift}" for drift in self.drifted]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return text_html(str(self))


def require_region(region: Any, what: str) -> None:
    """Raise unless the argument is a region; a path is a common mistake."""
    if not isinstance(region, (Region, PreparedRegion)):
        raise InvalidInputError(
            f"{what} needs a region, got a {type(region).__name__}; pass result.region, or Region.load(path)."
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
        self.batches.append(Batch(len(inside), n_inside, now, name, digest))
        evidence = self._evidence()
        self.batches[-1] = Batch(len(inside), n_inside, now, name, digest, evidence)
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
        from pine_boost.monitoring.state import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, Any], region: Region) -> RegionMonitor:
        """Read the output of `to_json` for the same region."""
        from pine_boost.monitoring.state import from_json

        return from_json(document, region)

    def _evidence(self) -> float:
        return drift_evidence(
            [batch.n_rows for batch in self.batches],
            [batch.n_rows - batch.n_inside for batch in self.batches],
            self.limit,
            self.n_dropped,
        )
