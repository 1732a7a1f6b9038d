"""The exceptions of pine_boost.

Every message says what was found, what is accepted and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class PineBoostError(Exception):
    """Base class of every error that pine_boost raises on purpose.

    Attributes
    ----------
    option : tuple of str
        Parameters that the message is about; the command line shows them as flags.
    """

    def __init__(self, message: str = "", *, option: str | tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.option = (option,) if isinstance(option, str) else option


class UnsupportedModelError(PineBoostError, ValueError):
    """The model is valid, but of a kind that is not supported."""


class MalformedModelError(PineBoostError, ValueError):
    """The model file is damaged or inconsistent; it was not passed to a native loader."""


class InvalidInputError(PineBoostError, ValueError):
    """Data or options do not fit the model or one another."""


class RegionError(PineBoostError, ValueError):
    """The in-distribution region cannot be calibrated as requested."""


class CertificateMismatch(PineBoostError, ValueError):
    """A certificate, region or model file does not belong to the others."""


class MissingDependencyError(PineBoostError, ImportError):
    """An optional library is needed for this call and is not installed."""


def install_with(extra: str) -> str:
    """How to install what an extra brings; pip finds the extra of an installed clone as well as that of an index."""
    return f'install it with: pip install "pine-boost[{extra}]"'


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Say what needs a library that cannot be imported, and which extra installs it."""
    try:
        yield
    except MissingDependencyError:
        raise
    except ImportError as error:
        raise MissingDependencyError(f"{what}; {install_with(extra)}") from error


@contextmanager
def translated(kind: type[PineBoostError], sentence: str) -> Iterator[None]:
    """Turn an exception of a library into ours, whose sentence names it at ``{reason}``."""
    try:
        yield
    except (PineBoostError, ImportError, MemoryError):
        raise
    except Exception as error:  # LightGBM's own error is a plain Exception
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}".rstrip(": ")
        raise kind(sentence.replace("{reason}", reason)) from error


class OutputError(PineBoostError, OSError):
    """A file could not be written: no space, no permission, no such folder."""


class HoldoutWarning(UserWarning):
    """Rows that must be unseen were, or may have been, used before."""

    def __init__(self, message: str = "", *, option: str | tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.option = (option,) if isinstance(option, str) else option


class UntestedVersionWarning(UserWarning):
    """A saved result is used with a version of its library that pine_boost was not tested with."""


def class_with_article(value: object) -> str:
    """The name of a value's class with its article: an XGBClassifier, a Pipeline, an ndarray."""
    name = type(value).__name__
    is_spelled = name[:2].isupper() or name == "ndarray"  # XGB and LGBM are read letter by letter
    return f"{'an' if name[:1].upper() in ('AEFHILMNORSX' if is_spelled else 'AEIOU') else 'a'} {name}"
