"""The in-distribution region: domain, plausibility score and conformal calibration."""

from pine_boost.region.conformal import Coverage
from pine_boost.region.domain import Condition, Domain
from pine_boost.region.fitting import fit_region
from pine_boost.region.region import Region

__all__ = ["Condition", "Coverage", "Domain", "Region", "fit_region"]
