"""The exceptions of pine_boost.

Every message says what was found, what is accepted and what to do.
"""


class PineBoostError(Exception):
    """Base class of every error that pine_boost raises on purpose."""


class UnsupportedModelError(PineBoostError, ValueError):
    """The model is valid, but of a kind that cannot be proved exactly here."""


class MalformedModelError(PineBoostError, ValueError):
    """The model file is damaged or inconsistent; no native loader has seen it."""


class InvalidInputError(PineBoostError, ValueError):
    """Data or an option do not fit the model or one another."""


class RegionError(PineBoostError, ValueError):
    """The in-distribution region cannot be calibrated as asked."""


class CertificateMismatch(PineBoostError, ValueError):
    """A certificate, region or model file does not belong to the others."""


class MissingDependencyError(PineBoostError, ImportError):
    """An optional library is needed for this call and is not installed."""


class OutputError(PineBoostError, OSError):
    """A file could not be written: no space, no permission, no such place."""


class HoldoutWarning(UserWarning):
    """Rows that must be unseen were evidently, or may have been, used before."""
