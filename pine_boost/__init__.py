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

if TYPE_CHECKING:
    from pine_boost.accelerate import AccelerateResult as AccelerateResult
    from pine_boost.accelerate import accelerate_booster as accelerate_booster
    from pine_boost.certificate.certificate import Certificate as Certificate
    from pine_boost.certificate.certificate import Status as Status
    from pine_boost.certificate.verification import Verification as Verification
    from pine_boost.classifier import PineClassifier as PineClassifier
    from pine_boost.committee import CommitteeResult as CommitteeResult
    from pine_boost.compress import compress_booster as compress_booster
    from pine_boost.compression.compress_result import CompressResult as CompressResult
    from pine_boost.compression.record import CompressionRecord as CompressionRecord
    from pine_boost.compression.recount import CompressionVerification as CompressionVerification
    from pine_boost.compression.recount import verify_compression as verify_compression
    from pine_boost.installation import Installation as Installation
    from pine_boost.installation import check_installation as check_installation
    from pine_boost.monitoring.recalibration import recalibrate as recalibrate
    from pine_boost.monitoring.region_monitor import RegionMonitor as RegionMonitor
    from pine_boost.parity import ModelComparison as ModelComparison
    from pine_boost.parity import compare_models as compare_models
    from pine_boost.prune import prune_booster as prune_booster
    from pine_boost.region.domain import Domain as Domain
    from pine_boost.region.region import Region as Region
    from pine_boost.result import Evaluation as Evaluation
    from pine_boost.result import PruneResult as PruneResult
    from pine_boost.scoring.fast_scorer import FastScorer as FastScorer
    from pine_boost.selection import AlphaSelection as AlphaSelection
    from pine_boost.selection import select_alpha as select_alpha
    from pine_boost.serving.folder import load_scorer as load_scorer
    from pine_boost.serving.guarded import GuardedModel as GuardedModel
    from pine_boost.simplification import SimplifyResult as SimplifyResult
    from pine_boost.simplification import simplify as simplify
    from pine_boost.surveying import Survey as Survey
    from pine_boost.surveying import load_survey as load_survey
    from pine_boost.surveying import survey as survey
    from pine_boost.sweeping import SweepResult as SweepResult
    from pine_boost.sweeping import sweep as sweep
    from pine_boost.verifying import verify as verify

# No module may bear the name of a function here: importing it would hide the function.
# A scorer is loaded in a few milliseconds: what it does not need is imported when it is first used.
_NAMES = {
    "accelerate": "AccelerateResult accelerate_booster",
    "certificate.certificate": "Certificate Status",
    "certificate.verification": "Verification",
    "classifier": "PineClassifier",
    "committee": "CommitteeResult",
    "compress": "compress_booster",
    "compression.compress_result": "CompressResult",
    "compression.record": "CompressionRecord",
    "compression.recount": "CompressionVerification verify_compression",
    "installation": "Installation check_installation",
    "monitoring.recalibration": "recalibrate",
    "monitoring.region_monitor": "RegionMonitor",
    "parity": "ModelComparison compare_models",
    "prune": "prune_booster",
    "region.domain": "Domain",
    "region.region": "Region",
    "result": "Evaluation PruneResult",
    "scoring.fast_scorer": "FastScorer",
    "selection": "AlphaSelection select_alpha",
    "serving.folder": "load_scorer",
    "serving.guarded": "GuardedModel",
    "simplification": "SimplifyResult simplify",
    "surveying": "Survey load_survey survey",
    "sweeping": "SweepResult sweep",
    "verifying": "verify",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [
    "CertificateMismatch",
    "HoldoutWarning",
    "InvalidInputError",
    "MalformedModelError",
    "MissingDependencyError",
    "OutputError",
    "PineBoostError",
    "RegionError",
    "UnsupportedModelError",
    "__version__",
]
__all__ += list(_MODULE_OF)


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'pine_boost' has no attribute {name!r}")
    return getattr(import_module(f"pine_boost.{_MODULE_OF[name]}"), name)
