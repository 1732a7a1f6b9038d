"""Faster and smaller tree ensembles of the same kind, with a promise that can be checked."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pine_boost._version import __version__
from pine_boost.errors import (
    CertificateMismatch,
    HoldoutWarning,
    InvalidInputError,
    MalformedModelError,
    MissingDependencyError,
    OutputError,
    PineBoostError,
    RegionError,
    UnsupportedModelError,
)
from pine_boost.region.domain import Domain
from pine_boost.region.region import Region

if TYPE_CHECKING:
    from pine_boost.accelerate import accelerate_booster
    from pine_boost.certificate.certificate import Certificate, Status
    from pine_boost.certificate.verification import Verification
    from pine_boost.classifier import PineClassifier
    from pine_boost.committee import CommitteeResult
    from pine_boost.compress import compress_booster
    from pine_boost.compression.compress_result import CompressResult
    from pine_boost.compression.record import CompressionRecord
    from pine_boost.compression.recount import CompressionVerification, verify_compression
    from pine_boost.installation import Installation, check_installation
    from pine_boost.monitoring.recalibration import recalibrate
    from pine_boost.monitoring.region_monitor import RegionMonitor
    from pine_boost.parity import ModelComparison, compare_models
    from pine_boost.prune import prune_booster
    from pine_boost.result import Evaluation, PruneResult
    from pine_boost.scoring.accelerate_result import AccelerateResult
    from pine_boost.scoring.fast_scorer import FastScorer
    from pine_boost.selection import AlphaSelection, select_alpha
    from pine_boost.serving.folder import load_scorer
    from pine_boost.serving.guarded import GuardedModel
    from pine_boost.simplification import SimplifyResult, simplify
    from pine_boost.surveying import Survey, load_survey, survey
    from pine_boost.sweeping import SweepResult, sweep
    from pine_boost.verifying import verify

__all__ = [
    "AccelerateResult",
    "AlphaSelection",
    "Certificate",
    "CertificateMismatch",
    "CommitteeResult",
    "CompressResult",
    "CompressionRecord",
    "CompressionVerification",
    "Domain",
    "Evaluation",
    "FastScorer",
    "GuardedModel",
    "HoldoutWarning",
    "Installation",
    "InvalidInputError",
    "MalformedModelError",
    "MissingDependencyError",
    "ModelComparison",
    "OutputError",
    "PineBoostError",
    "PineClassifier",
    "PruneResult",
    "Region",
    "RegionError",
    "RegionMonitor",
    "SimplifyResult",
    "Status",
    "Survey",
    "SweepResult",
    "UnsupportedModelError",
    "Verification",
    "__version__",
    "accelerate_booster",
    "check_installation",
    "compare_models",
    "compress_booster",
    "load_scorer",
    "load_survey",
    "prune_booster",
    "recalibrate",
    "select_alpha",
    "simplify",
    "survey",
    "sweep",
    "verify",
    "verify_compression",
]

# No module may bear the name of a function here: importing it would hide the function.
# A scorer asks a Region and never prunes: what needs the solver is imported when it is first used.
_MODULE_OF = {
    "AccelerateResult": "scoring.accelerate_result",
    "FastScorer": "scoring.fast_scorer",
    "accelerate_booster": "accelerate",
    "AlphaSelection": "selection",
    "Certificate": "certificate.certificate",
    "CommitteeResult": "committee",
    "CompressResult": "compression.compress_result",
    "CompressionRecord": "compression.record",
    "CompressionVerification": "compression.recount",
    "Evaluation": "result",
    "GuardedModel": "serving.guarded",
    "Installation": "installation",
    "check_installation": "installation",
    "ModelComparison": "parity",
    "compare_models": "parity",
    "PineClassifier": "classifier",
    "PruneResult": "result",
    "RegionMonitor": "monitoring.region_monitor",
    "SimplifyResult": "simplification",
    "Status": "certificate.certificate",
    "Survey": "surveying",
    "SweepResult": "sweeping",
    "Verification": "certificate.verification",
    "load_scorer": "serving.folder",
    "compress_booster": "compress",
    "prune_booster": "prune",
    "recalibrate": "monitoring.recalibration",
    "select_alpha": "selection",
    "simplify": "simplification",
    "load_survey": "surveying",
    "survey": "surveying",
    "sweep": "sweeping",
    "verify": "verifying",
    "verify_compression": "compression.recount",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'pine_boost' has no attribute {name!r}")
    return getattr(import_module(f"pine_boost.{_MODULE_OF[name]}"), name)
