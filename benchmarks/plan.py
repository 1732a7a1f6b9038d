"""What `python -m benchmarks.all` runs, most important first, with the estimated cost of each run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.defaults import LARGE

WORK = "{work}"  # stands for the folder of the running files
BEFORE = "02d61eb"  # the commit that the speed of the search is compared with


@dataclass(frozen=True)
class Run:
    """One command: ``python -m benchmarks.MODULE OPTIONS --out FILE``.

    Attributes
    ----------
    name : str
        By which the run is chosen and known to be finished.
    file : str
        Of benchmarks/results; several runs may add to one.
    core_minutes : float
        Estimated.
    is_serial : bool
        One process, one core: two such runs go side by side. The others get --jobs.
    measures_alone : bool
        Uses all cores by itself (or needs them idle) and takes no --jobs.
    """

    name: str
    module: str
    file: str
    options: tuple[str, ...]
    core_minutes: float
    is_serial: bool = False
    measures_alone: bool = False


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_LARGE = ",".join(LARGE)
_BOOSTERS = "--indifference 0,auto --time-limit 10 --models xgboost,lightgbm,histgb"
PLAN = (
    Run("paper", "paper", "paper_l0.csv", (), 7),
    Run("defaults", "defaults", "defaults.csv", _words(f"--models xgboost-0.1 --datasets {_LARGE}"), 8),
    Run("large", "large", "large.csv", _words(f"--fit training {_BOOSTERS}"), 14),
    Run("glance", "glance", "glance.csv", (), 6),
    Run("leaf", "paper", "paper_leaf.csv", _words("--reweight leaf --time-limit 30"), 14),
    Run("compare", "compare", "compare.csv", (BEFORE, "--seeds", "2"), 6, is_serial=True),
    Run("limits", "limits", "limits.csv", _words("--limits 5,20"), 6, is_serial=True),
    Run("growth", "growth", "growth.csv", _words("--time-limit 5"), 10, is_serial=True),
    Run("defaults-libraries", "defaults", "defaults.csv", _words("--models xgboost-0.3,lightgbm,histgb"), 45),
    Run("lossless", "lossless", "lossless.csv", (), 2),
    Run("guarded", "guarded", "guarded.csv", _words("--datasets HTRU2 --time-limit 20"), 2, measures_alone=True),
    Run("large-unseen", "large", "large.csv", _words(f"--fit unseen {_BOOSTERS}"), 14),
    Run("defaults-small", "defaults", "defaults.csv", _words("--models xgboost-0.1"), 4),
    Run(
        "leaves", "paper", "paper_leaves.csv", _words("--unit leaf --alphas 0.05,0.2,0.8 --seeds 1 --time-limit 20"), 12
    ),
    Run("defaults-forests", "defaults", "defaults.csv", _words("--models random-forest"), 45),
    Run(
        "large-forests",
        "large",
        "large.csv",
        _words("--fit training --indifference 0,auto --time-limit 15 --models random-forest"),
        6,
    ),
)
