"""What differs from library to library: every such question is one field of `Traits`.

In comes the name of a library; out go its functions, imported only now. A further library is a
folder of its own with a ``traits.py``, an exporter, and its name in `LIBRARIES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.model.rules import Comparison

# scikit-learn last: the wrappers of the others inherit from sklearn.base.BaseEstimator
LIBRARIES = ("xgboost", "lightgbm", "sklearn")


class Reader(Enum):
    """Whose way of reading a table a model follows."""

    XGBOOST = "XGBoost"
    LIGHTGBM = "LightGBM"
    TREES = "scikit-learn"  # every kind whose trees compare float32 values
    HISTOGRAM = "HistGradientBoosting"


@dataclass(frozen=True)
class Traits:
    """The functions and facts of one library.

    Attributes
    ----------
    title : str
        What people call the library.
    packages : tuple of str
        Distributions that provide it, for versions.
    read : callable
        ``read(model, threshold=, decision=) -> Model`` of a live object, a path or bytes.
    recognises : callable
        ``recognises(contents) -> bool``: whether a file is this library's.
    suffixes : tuple of str
        Files that end so are this library's where their first bytes say nothing.
    load : callable
        ``load(document) -> object``: the native model of a checked file.
    shared_library : callable
        ``shared_library() -> str``: the path of its C library; ImportError without.
    first_load : str
        The path of a script that loads a file with that library alone, in a child process.
    write : callable
        ``write(document) -> bytes``: the contents of a checked file, in its own format.
    suffix_of : callable
        ``suffix_of(contents) -> str``: how a file of these contents is called.
    save : callable
        ``save(native) -> bytes``: a live model as the contents of a file.
    classes : callable
        ``classes(model, native, X)``: index of the class that the native ``predict`` returns.
    scores : callable
        ``scores(model, native, X)``: what the user's thresholds are compared with: probabilities
        of class 1 for classifiers, raw margins (means for averaged trees) for everything else.
    margins : callable
        ``margins(model, native, X)``: native margins (n_rows, n_outputs), and how far the way
        back to them may have rounded (0 where the library returns them as such).
    accepted : callable
        ``accepted(X)``: the table itself, or what the native ``predict`` takes in its place.
    prepared : callable
        ``prepared(model, native, matrix, table) -> callable``: one native prediction of these
        rows in one thread, with everything that is not prediction done before. The rows come as
        codes; ``table()`` makes a table with names and categories of them.
    monotone : callable
        ``monotone(model) -> tuple of int or None``: with which features it was trained to rise (1)
        or to fall (-1), 0 for the others; None where the model cannot say.
    facts : callable
        ``facts(model) -> dict``: what a file or wrapper says beyond trees: see `describe`.
    reader : callable
        ``reader(comparison) -> Reader``: how a model that compares so reads its tables.
    column_name : callable
        A column's name as the model stores it.
    takes_codes : bool
        Whether a plain matrix of category codes is an input of every model.
    refuses_unknown_categories : bool
        Whether the native ``predict`` raises on a category it was not trained on.
    sums_from_zero : bool
        Whether native sums start from 0.0 and not from the intercept.
    keeps_whole_sets : bool
        Whether sets of categories have a fixed size, so that leaving a code out gains nothing.
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
    first_load: str
    write: Callable[[Any], bytes]
    suffix_of: Callable[[bytes], str]
    save: Callable[[Any], bytes]
    classes: Callable[[Model, Any, Any], IntArray]
    scores: Callable[[Model, Any, Any], npt.NDArray[Any]]
    margins: Callable[[Model, Any, Any], tuple[FloatArray, float]]
    accepted: Callable[[Any], Any]
    prepared: Callable[[Model, Any, FloatArray, Callable[[], Any]], Callable[[], Any]]
    monotone: Callable[[Model], tuple[int, ...] | None]
    facts: Callable[[Model], dict[str, Any]]
    reader: Callable[[Comparison], Reader]
    column_name: Callable[[str], str] = str
    takes_codes: bool = False
    refuses_unknown_categories: bool = False
    sums_from_zero: bool = False
    keeps_whole_sets: bool = False
    weighs_trees: bool = False


def traits_of(library: str) -> Traits:
    """The traits of a library of `LIBRARIES`; any other name is refused."""
    if library not in LIBRARIES:
        raise UnsupportedModelError(
            f"Models of {library[:40]!r} are not supported; there are parsers for {', '.join(LIBRARIES)}."
        )
    traits: Traits = import_module(f"pine_boost.parsers.{library}.traits").TRAITS
    return traits


def arrow_by_pandas(X: Any) -> Any:
    """A polars or Arrow table as a pandas frame; any other table as it is."""
    is_arrow = type(X).__module__.partition(".")[0] in ("polars", "pyarrow")
    return X.to_pandas() if is_arrow else X


def describe(model: Model) -> dict[str, Any]:
    """What decides how a table is read and what the answer is called, beyond the trees.

    Two models that are said to be interchangeable must agree in every entry: a permuted
    ``feature_names`` routes every table whose columns are chosen by name to other splits.

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
    """A label or category as text that tells 1 from "1" and True."""
    value = value.item() if hasattr(value, "item") else value
    return f"{type(value).__name__}:{value}"
