"""What differs between the libraries, one field of `Traits` for each difference.

Another library needs a folder with a ``traits.py``, an exporter, and its name in `LIBRARIES`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, UnsupportedModelError, UntestedVersionWarning
from pine_boost.model.forest import FloatArray, IntArray, Model

# scikit-learn last: the wrappers of the others inherit from sklearn.base.BaseEstimator
# CatBoost before XGBoost: the files of both begin with a brace
LIBRARIES = ("catboost", "xgboost", "lightgbm", "sklearn")

# The first and last minor version of each library whose predict was compared with ours (tests/versions)
TESTED_VERSIONS = {
    "catboost": ((1, 2), (1, 2)),
    "xgboost": ((1, 7), (3, 4)),
    "lightgbm": ((4, 0), (4, 7)),
    "sklearn": ((1, 6), (1, 9)),
}
# the kind of a file that was read by `Traits.read_saved`
SAVED_KIND = "file, read as the live model that it was saved from"
_warned: set[tuple[str, str]] = set()


class Reader(Enum):
    """The library whose way of reading tables a model follows."""

    XGBOOST = "XGBoost"
    LIGHTGBM = "LightGBM"
    CATBOOST = "CatBoost"
    TREES = "scikit-learn"  # all kinds whose trees compare float32 values
    HISTOGRAM = "HistGradientBoosting"


def plain_key(value: Any) -> Any:
    """Return a dictionary key: 1, 1.0, np.int64(1) and True are one category, "1" is not."""
    return value.item() if isinstance(value, np.generic) else value


def arrow_by_pandas(X: Any) -> Any:
    """Convert a polars or Arrow table to pandas; return any other table unchanged."""
    is_arrow = type(X).__module__.partition(".")[0] in ("polars", "pyarrow")
    return X.to_pandas() if is_arrow else X


@dataclass(frozen=True)
class Traits:
    """The functions and facts of one library.

    Attributes
    ----------
    title : str
        Name of the library in messages.
    packages : tuple of str
        Distributions that provide it, to look up its version.
    read : callable
        ``read(model, threshold=, decision=) -> Model`` for a live object or the bytes of a file.
    recognises : callable
        ``recognises(contents) -> bool``: whether a file belongs to this library.
    suffixes : tuple of str
        File suffixes, used if the first bytes of a file are not conclusive.
    load : callable
        ``load(document) -> object``: the native model of a checked file.
    shared_library : callable
        ``shared_library() -> str``: the path of its C library, with which
        `first_load.py` loads a file in a child process; ImportError if not installed.
    write : callable
        ``write(document) -> bytes``: the contents of a checked file, in its own format.
    suffix_of : callable
        ``suffix_of(contents) -> str``: the file suffix for these contents.
    save : callable
        ``save(native) -> bytes``: a live model as the contents of a file.
    classes : callable
        ``classes(model, native, X)``: index of the class that the native ``predict`` returns.
    scores : callable
        ``scores(model, native, X)``: the values compared with the user's thresholds: probabilities
        of class 1 for classifiers, raw margins (means for averaged trees) for everything else.
    margins : callable
        ``margins(model, native, X)``: native margins (n_rows, n_outputs), and a bound on the
        rounding in recovering them (0 if the library returns margins directly).
    accepted : callable
        ``accepted(X)``: the table, converted if the native ``predict`` does not accept its type. By default polars
        and Arrow tables become pandas: LightGBM's own Arrow reader accepts numbers only, no dictionary columns, and
        HistGradientBoosting finds its categories by name in pandas tables.
    monotone : callable
        ``monotone(model) -> tuple of int or None``: 1 for features constrained to increase in
        training, -1 to decrease, 0 for the others; None if the model does not store constraints.
    facts : callable
        ``facts(model) -> dict``: what a file or wrapper stores beyond trees: see `describe`.
    reader : Reader
        How its models read tables; those of HistGradientBoosting, which compare float64, as `Reader.HISTOGRAM`.
    column_name : callable
        Converts a column's name to the form that the model stores.
    category_key : callable
        Converts a category of a table to what the model stores; raises if it takes no such value.
    probabilities : callable or None
        ``probabilities(model, native, X)``: native probabilities, one column per class. None if they are what
        ``predict_proba`` of the live object returns, or without it follow from the objective by its plain link.
    read_saved : callable or None
        As ``read`` for a file, but as the live model that it was saved from. None if a library loads exactly what it
        saved; otherwise `read_model` uses it where a record names that live model.
    read_alone : callable or None
        As ``read`` for a file, with nothing but the C library; None if ``read`` imports no training library. What it
        reads is used only if a record names it by its digest.
    takes_codes : bool
        Whether every model accepts a plain matrix of category codes.
    refuses_unknown_categories : bool
        Whether the native ``predict`` raises on a category it was not trained on.
    sums_from_zero : bool
        Whether native sums start from 0.0 and not from the intercept.
    keeps_whole_sets : bool
        Whether category sets have a fixed size, so that removing a code saves nothing.
    weighs_trees : bool
        Whether a boosted model with slack weighs its trees only in ``predict`` (dart).
    """

    title: str
    packages: tuple[str, ...]
    read: Callable[..., Model]
    recognises: Callable[[bytes], bool]
    suffixes: tuple[str, ...]
    load: Callable[[Any], Any]
    shared_library: Callable[[], str]
    write: Callable[[Any], bytes]
    suffix_of: Callable[[bytes], str]
    save: Callable[[Any], bytes]
    classes: Callable[[Model, Any, Any], IntArray]
    scores: Callable[[Model, Any, Any], npt.NDArray[Any]]
    margins: Callable[[Model, Any, Any], tuple[FloatArray, float]]
    monotone: Callable[[Model], tuple[int, ...] | None]
    facts: Callable[[Model], dict[str, Any]]
    reader: Reader
    accepted: Callable[[Any], Any] = arrow_by_pandas
    column_name: Callable[[str], str] = str
    category_key: Callable[[Any], Any] = plain_key
    probabilities: Callable[[Model, Any, Any], FloatArray] | None = None
    read_saved: Callable[..., Model] | None = None
    read_alone: Callable[..., Model] | None = None
    takes_codes: bool = False
    refuses_unknown_categories: bool = False
    sums_from_zero: bool = False
    keeps_whole_sets: bool = False
    weighs_trees: bool = False


def traits_of(library: str) -> Traits:
    """Return the traits of a library of `LIBRARIES`; raise for any other name."""
    if library not in LIBRARIES:
        raise UnsupportedModelError(
            f"Models of {library[:40]!r} are not supported; there are parsers for {', '.join(LIBRARIES)}."
        )
    traits: Traits = import_module(f"pine_boost.parsers.{library}.traits").TRAITS
    return traits


def find_class(model: Any, library: str, accepted: Collection[str]) -> str | None:
    """Return which of these classes of a library an object is of, also by inheritance; None if of none."""
    names = (base.__name__ for base in type(model).__mro__ if base.__module__.partition(".")[0] == library)
    return next((name for name in names if name in accepted), None)


def class_of(model: Any, library: str, accepted: Collection[str], hint: str = "") -> str:
    """Return what `find_class` finds.

    Raises
    ------
    UnsupportedModelError
        It finds none.
    """
    if (found := find_class(model, library, accepted)) is not None:
        return found
    raise UnsupportedModelError(
        f"{type(model).__name__} of {type(model).__module__} is not supported; accepted from {library}: "
        f"{', '.join(accepted)}.{hint}"
    )


def warn_if_untested(library: str, proved_with: Mapping[str, str]) -> None:
    """Warn, once per version, if a saved result meets a version of its library outside `TESTED_VERSIONS`.

    Parameters
    ----------
    library : str
        A name of `LIBRARIES`.
    proved_with : mapping
        Versions by distribution, as the record of the result names them.
    """
    found = untested_version(library)
    if found is None or (library, found[0]) in _warned:
        return
    installed, tested = found
    _warned.add((library, installed))
    used = next((proved_with[n] for n in traits_of(library).packages if n in proved_with), "no installed version")
    warnings.warn(
        f"{traits_of(library).title} {installed} is installed, but pine_boost was tested with {tested}, and this "
        f"result was made with {used}. What it says rests on how the library predicts; install a tested version, or "
        "compare the predictions of both models on rows of yours.",
        UntestedVersionWarning,
        stacklevel=3,
    )


def untested_version(library: str) -> tuple[str, str] | None:
    """The installed version of a library and the tested ones in words, if it is not among `TESTED_VERSIONS`."""
    names = (library, *traits_of(library).packages)
    installed = next((version for version in map(installed_version, names) if version is not None), "")
    number = re.match(r"(\d+)\.(\d+)", installed)
    first, last = TESTED_VERSIONS[library]
    if number is None or first <= (int(number[1]), int(number[2])) <= last:
        return None
    return installed, " to ".join(f"{major}.{minor}" for major, minor in (first, last))


def installed_version(name: str) -> str | None:
    """Return the version of the imported module of this name, else of the installed distribution."""
    version = getattr(sys.modules.get(name), "__version__", None)
    if version is not None:
        return str(version)
    from importlib import metadata  # takes as long to import as a scorer to load

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def describe(model: Model) -> dict[str, Any]:
    """Return everything besides the trees that determines how a table is read and how classes are labelled.

    Two models that are claimed to be interchangeable must agree in every entry: for example, a permuted
    ``feature_names`` sends tables whose columns are selected by name to other splits.

    Returns
    -------
    dict
        JSON values only, keys sorted: ``features`` (names in order, None without), ``types`` and
        ``categories`` per feature, ``objective`` with its parameters, ``missing``, ``outputs``,
        ``classes``, and ``wrapper`` with the attributes of a wrapper that change its ``predict``.
    """
    forest = model.forest
    found = {
        "features": None if forest.feature_names is None else list(forest.feature_names),
        "n_features": forest.n_features,
        "categories": [
            None if known is None else [_plain(value) for value in known] for known in forest.feature_categories
        ],
        "objective": forest.objective,
        "missing": repr(float(forest.missing_value)),
        "outputs": forest.n_outputs,
        "classes": [_plain(label) for label in forest.classes],
        **traits_of(forest.library).facts(model),
    }
    return dict(sorted(found.items()))


def _plain(value: Any) -> str:
    """Format a label or category as text that differs for 1, "1" and True."""
    value = value.item() if hasattr(value, "item") else value
    return f"{type(value).__name__}:{value}"


def index_of(labels: npt.NDArray[Any], classes: tuple[Any, ...]) -> IntArray:
    """Return the position of each label among the classes."""
    known = np.asarray(classes)
    order = np.argsort(known, kind="stable")
    position = np.searchsorted(known[order], labels)
    position = np.minimum(position, len(known) - 1)
    if not np.array_equal(known[order][position], labels):
        raise InvalidInputError("The native predict returned a label that the model does not list.")
    return order[position]


def band_of(scores: npt.NDArray[Any], thresholds: tuple[float, ...]) -> IntArray:
    """Return how many of the user's thresholds each score exceeds."""
    return np.asarray(np.sum([scores.reshape(-1) > cut for cut in thresholds], axis=0), np.int64)
