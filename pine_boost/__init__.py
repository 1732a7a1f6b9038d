"""Smaller tree ensembles that provably predict the same class on in-distribution inputs."""

from pine_boost._version import __version__
from pine_boost.certificate import Certificate, Status
from pine_boost.errors import (
    CertificateMismatch,
    InvalidInputError,
    MalformedModelError,
    MissingDependencyError,
    PineBoostError,
    RegionError,
    SolverBudgetExceeded,
    UnsupportedModelError,
)
from pine_boost.prune import prune_booster
from pine_boost.region.domain import Domain
from pine_boost.region.region import Region
from pine_boost.result import Evaluation, PruneResult

__all__ = [
    "Certificate",
    "CertificateMismatch",
    "Domain",
    "Evaluation",
    "InvalidInputError",
    "MalformedModelError",
    "MissingDependencyError",
    "PineBoostError",
    "PruneResult",
    "Region",
    "RegionError",
    "SolverBudgetExceeded",
    "Status",
    "UnsupportedModelError",
    "__version__",
    "prune_booster",
]
