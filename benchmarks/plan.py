"""What `python -m benchmarks.all` runs, most important first, with the estimated cost of each run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.defaults import LARGE

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
    """

    name: str
    module: str
    file: str
    options: str
    core_minutes: float
    is_serial: bool = False


_LARGE = ",".join(LARGE)
_BOOSTERS = "--indifference 0,auto --time-limit 10 --models xgboost,lightgbm,histgb"
PLAN = (
    Run("paper", "paper", "paper_l0.csv", "", 7),
    Run("defaults", "defaults", "defaults.csv", f"--models xgboost-0.1 --datasets {_LARGE}", 8),
    Run("large", "large", "large.csv", f"--fit training {_BOOSTERS}", 14),
    Run("leaf", "paper", "paper_leaf.csv", "--reweight leaf --time-limit 30", 14),
    Run("compare", "compare", "compare.csv", f"{BEFORE} --seeds 2", 6, is_serial=True),
    Run("limits", "limits", "limits.csv", "--limits 5,20", 6, is_serial=True),
    Run("growth", "growth", "growth.csv", "--time-limit 5", 10, is_serial=True),
    Run("defaults-libraries", "defaults", "defaults.csv", "--models xgboost-0.3,lightgbm,histgb", 45),
    Run("large-unseen", "large", "large.csv", f"--fit unseen {_BOOSTERS}", 14),
    Run("defaults-small", "defaults", "defaults.csv", "--models xgboost-0.1", 4),
    Run("leaves", "paper", "paper_leaves.csv", "--unit leaf --alphas 0.05,0.2,0.8 --seeds 1 --time-limit 20", 12),
    Run("defaults-forests", "defaults", "defaults.csv", "--models random-forest", 45),
    Run(
        "large-forests",
        "large",
        "large.csv",
        "--fit training --indifference 0,auto --time-limit 15 --models random-forest",
        6,
    ),
)
