"""Read a live model, a file or bytes into the tree IR.

`read_model` chooses the reader by the module of an object or by the first bytes of a file.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, MissingDependencyError, OutputError, UnsupportedModelError, translated
from pine_boost.files import MODEL_LIMIT, read_limited, require_size
from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import Model
from pine_boost.parsers.traits import LIBRARIES, traits_of

__all__ = ["open_pickle", "read_model"]

ACCEPTED = (
    "xgboost.Booster, lightgbm.Booster, the classifiers of both (XGBClassifier, XGBRFClassifier, "
    "LGBMClassifier), their regressors and rankers (with a threshold, or to compress them), the models of CatBoost, a "
    "scikit-learn tree ensemble, or an XGBoost .json/.ubj, LightGBM .txt or CatBoost .json file as path or bytes"
)


def read_model(
    model: Any,
    *,
    threshold: float | Sequence[float] | None = None,
    trust_pickle: bool = False,
    decision: str = "class",
    digest: str | None = None,
    asks_library: bool = True,
) -> Model:
    """Read a tree ensemble exactly, whichever supported library it comes from.

    Parameters
    ----------
    model : object, path, bytes or Model
        A live model, the path of a model file, or its bytes. A `Model` that was read with the same
        threshold is returned as it is.
    threshold : float, sequence of float or None
        Decision threshold(s): probabilities for binary classifiers, raw margins (before any
        link: the logarithm of a Poisson rate) for models whose objective has no class decision.
        None is the library's own decision.
    trust_pickle : bool
        Load pickle and joblib files. Unpickling runs code from the file: only for files you made.
    decision : {"class", "value"}
        What the model must decide. ``"class"`` refuses regressors and rankers without a
        threshold; ``"value"`` reads them with an empty `Decision`, no classes and one output,
        their raw margin. A classifier is read the same way by both.
    digest : str, optional
        `forest_digest` of the model that a record names. A file that CatBoost saved of that model, and would not load
        as the same, is read as that model. Any other model is read as without it: the caller compares digests.
    asks_library : bool
        False: the training library is not imported for a file that is without it the model of ``digest``.

    Returns
    -------
    Model
        The exact `Forest` and what the exporter needs to write the same kind back.

    Raises
    ------
    UnsupportedModelError
        The object, file or model kind is not one that can be proved exactly.
    MalformedModelError
        The file is damaged.
    InvalidInputError
        The threshold does not fit the model, or the path cannot be read.
    """
    if decision not in ("class", "value"):
        raise InvalidInputError(f"decision={decision!r}: 'class' and 'value' are accepted.")
    model, library = _open(model, trust_pickle)
    if isinstance(model, Model):
        _require_same(model, threshold, decision)
        return model
    if library is None:
        library = _library_of(model)
        _refuse_pipeline(model)
    parsed = _read(model, library, threshold, decision, digest, asks_library)
    return replace(parsed, n_bytes=len(model)) if isinstance(model, bytes) else parsed


def _read(model: Any, library: str, threshold: Any, decision: str, digest: str | None, asks_library: bool) -> Model:
    traits = traits_of(library)
    ways = (None if asks_library else traits.read_alone, traits.read, traits.read_saved)
    for read in ways if digest is not None and isinstance(model, bytes) else ():
        if read is not None:
            parsed = read(model, threshold=threshold, decision=decision)
            if forest_digest(parsed.forest) == digest:
                return parsed
    return traits.read(model, threshold=threshold, decision=decision)


def _require_same(model: Model, threshold: Any, decision: str) -> None:
    own = model.forest.decision.thresholds
    if threshold is not None and tuple(np.ravel(threshold).tolist()) != own:
        raise InvalidInputError(
            f"threshold={threshold!r} was given with a Model that was read with the threshold {own or None}; pass the "
            "object, path or bytes instead.",
            option="threshold",
        )
    if decision == "class" and not model.forest.decides:
        raise UnsupportedModelError(
            f"This Model ({model.kind}) was read without a threshold and decides no class; read it with threshold=."
        )


def open_pickle(model: Any, trust_pickle: bool = False) -> Any:
    """Load a pickle or joblib file; return anything else (objects, other files) unchanged.

    Raises
    ------
    UnsupportedModelError
        A pickle that is not trusted, or that cannot be loaded.
    """
    opened, library = _open(model, trust_pickle)
    return opened if library is None else model


def _open(model: Any, trust_pickle: bool) -> tuple[Any, str | None]:
    """Return a live model, or the contents of a model file and its library."""
    path = None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        model = read_limited(path, MODEL_LIMIT, "model file")
    if not isinstance(model, (bytes, bytearray, memoryview)):
        return model, None
    contents = bytes(model)
    require_size(len(contents), MODEL_LIMIT, "This", "model file")
    library = _sniff(contents, path)
    return (unpickled(contents, path, trust_pickle), None) if library == "pickle" else (contents, library)


def _library_of(model: Any) -> str:
    # the MRO, so that a user's subclass of a wrapper still finds its reader
    modules = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    for library in LIBRARIES:
        if library in modules:
            return library
    name = f"{type(model).__module__}.{type(model).__qualname__}"
    raise UnsupportedModelError(f"{name} is not a model that can be read; accepted: {ACCEPTED}.")


def _refuse_pipeline(model: Any) -> None:
    steps = getattr(model, "steps", None)
    is_pipeline = any(base.__name__ == "Pipeline" for base in type(model).__mro__)
    if is_pipeline and isinstance(steps, list) and steps:
        name, last = steps[-1][0], type(steps[-1][1]).__name__
        raise UnsupportedModelError(
            f"A Pipeline is not accepted: pass its last step, pipeline.named_steps[{name!r}] "
            f"({last}), and data transformed by pipeline[:-1].transform."
        )


def _sniff(contents: bytes, path: Path | None) -> str:
    """Choose the reader of a file by its first bytes or, if these are not conclusive, by its suffix."""
    suffix = path.suffix.lower() if path is not None else ""
    for library in LIBRARIES:
        if traits_of(library).recognises(contents):
            return library
    if suffix in (".pkl", ".pickle", ".joblib") or (
        contents[:1] == b"\x80" and contents[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    ):
        return "pickle"
    for library in LIBRARIES:
        if suffix in traits_of(library).suffixes:
            return library
    raise UnsupportedModelError(
        f"{path or 'The file in these bytes'} is not a readable model: neither JSON or UBJSON of XGBoost or CatBoost "
        f"(starts with '{{') nor LightGBM text (starts with 'tree'); accepted: {ACCEPTED}. XGBoost's old binary "
        "format must be re-saved as .json or .ubj."
    )


def unpickled(contents: bytes, path: Path | None, trust_pickle: bool) -> Any:
    """Load a pickle; raise if it is not trusted or cannot be loaded."""
    where = str(path) if path is not None else "These bytes"
    if not trust_pickle:
        raise UnsupportedModelError(
            f"{where} is a pickle, and loading it would run code from the file. Pass "
            "trust_pickle=True if you made the file.",
            option="trust_pickle",
        )
    try:
        # joblib reads plain pickles too
        load = import_module("joblib").load if find_spec("joblib") is not None else pickle.load
        return load(io.BytesIO(contents))
    except ImportError as error:
        raise MissingDependencyError(
            f"{where} needs {error.name or error}, which is not installed, or is not part of the installed versions of "
            "its libraries. Install it, or the versions that the pickle was made with."
        ) from error
    except Exception as error:  # unpickling can raise any exception
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise UnsupportedModelError(
            f"{where} cannot be unpickled ({reason}): it is damaged or truncated, not a pickle, or from "
            "other versions of its libraries. Save the model again, best in its library's own "
            "format."
        ) from error


_REMEDY = "Take out of it what no file can hold (a lock, an open file, a lambda) and write it again"


def pickled(model: Any, remedy: str = _REMEDY) -> bytes:
    """Pickle an object.

    Raises
    ------
    OutputError
        It holds something that pickle cannot write, such as a lambda.
    """
    sentence = (
        f"The {type(model).__name__} cannot be pickled ({{reason}}), so it cannot be written as a whole. {remedy}."
    )
    with translated(OutputError, sentence):
        return pickle.dumps(model)
