"""Find the tree ensemble inside a Pipeline, threshold wrapper or calibrated classifier, and wrap a smaller one again.

A model without layers passes unchanged. What commands are given, models and tables, is read here too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.certificate.claims import BEFORE_CALIBRATION, layers_remark
from pine_boost.certificate.saved import WHOLE_MODEL
from pine_boost.errors import CertificateMismatch, InvalidInputError, PineBoostError
from pine_boost.model.forest import Model
from pine_boost.notebooks import displayed
from pine_boost.parsers import open_pickle, pickled, read_model
from pine_boost.pipelines.layers import Layer, Prepared, kind_of, peel_all, prepare_rows, rebuild
from pine_boost.pipelines.threshold import Calibration, calibration_of, threshold_of
from pine_boost.region.region import Region
from pine_boost.tables.native import take_rows
from pine_boost.tables.schema import InputSchema, schema_of
from pine_boost.tables.table_files import TableFile, label_if_any, read_raw_table, read_table

REMEDY = "Use functions of a module in it; in Python result.inner.save(folder) writes the ensemble with its certificate"
_COMPARED_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Wrapper:
    """A model and the layers around it.

    Attributes
    ----------
    outer : object
        The model that was given.
    inner : object
        The tree ensemble (``outer`` itself if there are no layers).
    layers : tuple of Layer
        From the outside in.
    threshold : number, sequence of numbers or None
        For the inner model: the user's own, or the one that follows from the layers.
    """

    outer: Any
    inner: Any
    layers: tuple[Layer, ...]
    threshold: Any

    @property
    def prepare(self) -> Callable[[Any], Any] | None:
        """Maps the user's rows to those of the inner model; None if they are the same."""
        steps = [layer.prepare for layer in self.layers if layer.prepare is not None]
        if len(steps) <= 1:
            return steps[0] if steps else None
        return Prepared(tuple(steps))

    def rows(self, X: Any) -> Any:
        """Return the rows of the inner model; None stays None."""
        prepare = self.prepare
        return X if X is None or prepare is None else prepare_rows(prepare, X)

    def raw_column(self, given: Any, X: Any) -> Any:
        """Return the cells of a named raw column, which the ensemble does not have under that name."""
        is_raw = self.prepare is not None and isinstance(given, str)
        if is_raw and given in list(getattr(X, "columns", ())):
            return np.asarray(X[given])
        return given

    def rebuild(self, inner: Any) -> Any:
        """Return the same layers around another model; nothing that was given is changed."""
        return rebuild(self.layers, inner)

    def rewrap(self, result: Any, rows: Any = None) -> Any:
        """Turn a result about the inner model into one about the whole model.

        The two whole models are compared on those of ``rows`` (prepared for the inner model) that lie in the region.
        """
        if not self.layers:
            return result
        if rows is not None and self.deciding:
            _compare(self, result, rows)
        return WrappedResult(result, self, self.rebuild(result.model))

    @property
    def deciding(self) -> tuple[Layer, ...]:
        """The layers that turn scores into classes."""
        return tuple(layer for layer in self.layers if layer.decides)

    @property
    def finish(self) -> Calibration | None:
        """Maps the inner model's probabilities to calibrated ones; None without calibration."""
        return calibration_of(self.deciding, self.inner) if self.calibrates else None

    @property
    def calibrates(self) -> bool:
        """Whether a calibrator changes the probabilities of the inner model."""
        return any(layer.calibrators for layer in self.layers)

    def require_own_probabilities(self, tolerance: float | None) -> None:
        """Raise if a tolerance is given but a calibrator changes the probabilities of the inner model."""
        if tolerance is None or not self.calibrates:
            return
        kind = next(layer.kind for layer in self.layers if layer.calibrators)
        raise InvalidInputError(
            f"tolerance={tolerance!r} for a model with a {kind} around it: the calibrator may move "
            "probabilities farther than the ensemble inside does, which alone is tested. Leave "
            f"tolerance out, which keeps the classes of the {kind}; or compress the ensemble "
            "inside with it, and calibrate the smaller one.",
            option="tolerance",
        )


def unwrap(model: Any, threshold: Any = None) -> Wrapper:
    """Find the tree ensemble inside Pipelines, threshold wrappers and calibration.

    Parameters
    ----------
    model : object
        Any model; one without layers is returned unchanged.
    threshold : number, sequence of numbers or None
        The user's own; raises if a layer already decides.

    Raises
    ------
    UnsupportedModelError
        The class of a layer does not follow from one threshold on the ensemble's score.
    InvalidInputError
        A layer is not fitted, or a threshold was given besides that of a layer.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3)).fit(X, y)
    >>> type(unwrap(pipeline).inner).__name__
    'RandomForestClassifier'
    """
    layers, inner = peel_all(model)
    deciding = [layer for layer in layers if layer.decides]
    if deciding:
        if threshold is not None:
            raise InvalidInputError(
                f"threshold={threshold!r} was given for a {deciding[0].kind}, which decides by a "
                "rule of its own; leave it out, or pass the model inside.",
                option="threshold",
            )
        threshold = threshold_of(deciding, inner)
    return Wrapper(model, inner, layers, threshold)


def _compare(wrapper: Wrapper, result: Any, rows: Any) -> None:
    """Compare both models with the deciding layers; a difference would mean a bug in the threshold."""
    certificate = getattr(result, "certificate", None)
    if certificate is None or not certificate.claim or result.region.delta is not None:
        return
    if certificate.undecided and certificate.undecided_exists is not False:
        return  # nothing is claimed where rounding decides
    if not hasattr(rows, "shape"):
        return
    some = take_rows(rows, np.arange(min(rows.shape[0], _COMPARED_ROWS)))
    inside = result.region.contains(some)
    # only the deciding layers: the rows are prepared
    before, after = (rebuild(wrapper.deciding, model).predict(some) for model in (wrapper.inner, result.model))
    if bool(np.any((before != after) & inside)):
        raise PineBoostError(
            "Internal error: the whole models differ on a row of X_fit although the proof says "
            "that the ensembles inside cannot. Nothing was certified; please report this."
        )


@displayed
@dataclass(frozen=True, eq=False)
class WrappedResult:
    """A result about a Pipeline, or about a model with thresholds or calibration around it.

    Every attribute that is not listed here (``certificate``, ``status``, ...) is that of
    ``inner``, the result about the ensemble.

    Attributes
    ----------
    inner : PruneResult
    wrapper : Wrapper
    model : object
        Same kind as the model that was given, with the smaller ensemble inside. It shares its layers
        with that model, which is not changed.
    """

    inner: Any
    wrapper: Wrapper
    model: Any

    def __getattr__(self, name: str) -> Any:
        if name in ("inner", "wrapper", "model"):  # during unpickling
            raise AttributeError(name)
        return getattr(self.inner, name)

    def summary(self) -> str:
        """Return the summary of the inner result, and which model's probabilities it refers to."""
        text = str(self.inner)
        found = getattr(self.inner, "certificate", None) or getattr(self.inner, "record", None)
        is_moved = self.wrapper.calibrates and bool(getattr(found, "probability_shift", None))
        return f"{text}\n{BEFORE_CALIBRATION}" if is_moved else text

    @property
    def region(self) -> Region:
        """The region, for rows as the whole model expects them."""
        inner: Region = self.inner.region
        return replace(inner, prepare=self.wrapper.prepare)

    def evaluate(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Compare both ensembles on rows of the whole model, with the thresholds around them."""
        labels = () if y is None else (y,)
        return self.inner.evaluate(self.wrapper.rows(X), *labels, **options)

    def speedup(self, X: Any = None, **options: Any) -> dict[int, float]:
        """How many times as fast the ensemble inside is, on rows of the whole model if given."""
        return dict(self.inner.speedup(self.wrapper.rows(X), **options))

    def save(
        self,
        folder: str | os.PathLike[str],
        X: Any = None,
        curve: Sequence[Mapping[str, Any]] = (),
        *,
        report: bool = True,
        overwrite: bool = False,
    ) -> Path:
        """Write the files of the inner result and, next to them, the whole model as a pickle.

        The certificate is about the ensemble inside and about rows that the layers have prepared;
        `verify` takes the ensemble's files as always. ``X`` are rows for the report; for a
        compressed model, the validation rows.
        """
        from pine_boost.folders import write_folder
        from pine_boost.result import save_with_report

        if not hasattr(self.inner, "certificate"):
            return write_folder(folder, self.files(X if report else None), overwrite=overwrite)
        rows = self.wrapper.rows(X)
        return save_with_report(self.inner, self.files(), folder, rows, curve, report=report, overwrite=overwrite)

    def files(self, X_val: Any = None) -> dict[str, bytes]:
        """Return the files of the inner result and the whole model; the record of the result names both.

        With the validation rows of a compressed model, report.html is included.
        """
        whole = {WHOLE_MODEL: pickled(self.model, REMEDY)}
        if hasattr(self.inner, "certificate"):
            return dict(self.inner.files(whole))
        return dict(self.inner.files(self.wrapper.rows(X_val), whole))


@dataclass(frozen=True, eq=False)
class GivenModel:
    """A model as it was given, and the ensemble inside it.

    Attributes
    ----------
    source : object or path
        What to pass to `prune_booster` and similar functions: the live model of a pickle, otherwise
        the argument itself.
    wrapper : Wrapper
        Its layers; none for a plain ensemble.
    parsed : Model
        The ensemble inside.
    """

    source: Any
    wrapper: Wrapper
    parsed: Model

    @property
    def is_wrapped(self) -> bool:
        """Whether there are layers around the ensemble."""
        return bool(self.wrapper.layers)

    @property
    def schema(self) -> InputSchema:
        """The columns of the ensemble."""
        return schema_of(self.parsed.forest)

    @property
    def remark(self) -> str:
        """What a proof about the ensemble implies for the whole model; empty without layers."""
        kinds = [layer.kind for layer in self.wrapper.layers]
        if not kinds:
            return ""
        return layers_remark(kinds, type(self.wrapper.inner).__name__, bool(self.wrapper.deciding))

    def require_writable(self) -> None:
        """Raise, before any search, if the layers could not be written back."""
        if self.is_wrapped:
            pickled(self.source, REMEDY)

    def read_table(self, path: str | Path, label: str | None = None) -> TableFile:
        """Read a table file for the whole model: raw columns if a Pipeline prepares them."""
        return read_given_table(path, self.wrapper.prepare, self.schema, label)

    def read_rows(self, path: str | Path, label: str | None = None) -> Any:
        """Read the rows of a table file without its labels.

        For a folder of Parquet files, return its path to read in chunks later. A folder raises if a Pipeline would have
        to prepare it.
        """
        if Path(path).is_dir() and self.wrapper.prepare is None:
            return path
        return self.read_table(path, label_if_any(label)).X


def read_given(
    model: Any, *, threshold: float | Sequence[float] | None = None, trust_pickle: bool = False, decision: str = "class"
) -> GivenModel:
    """Read a model, with or without layers; the parameters are those of `read_model`."""
    source = open_pickle(model, trust_pickle)
    wrapper = unwrap(source, threshold)
    parsed = read_model(wrapper.inner, threshold=wrapper.threshold, decision=decision)
    return GivenModel(source, wrapper, parsed)


def read_named_model(
    model: Any, thresholds: Sequence[float], digest: str, *, trust_pickle: bool = False, decision: str = "class"
) -> GivenModel:
    """Read a model that a certificate names, with the thresholds of the certificate.

    Another model is read all the same; the caller compares digests.

    Raises
    ------
    CertificateMismatch
        The layers around the model decide at another threshold.
    """
    source = open_pickle(model, trust_pickle)
    wrapper = unwrap(source)
    stored = tuple(thresholds)
    if wrapper.threshold is None:
        wrapper = replace(wrapper, threshold=stored or None)
    elif (wrapper.threshold,) != stored:
        raise CertificateMismatch(
            f"The {kind_of(source)} decides at the score {wrapper.threshold!r} of the model in it, "
            f"the certificate is about {stored!r}: it is another model, or its threshold or "
            "calibrator was changed."
        )
    parsed = read_model(wrapper.inner, threshold=wrapper.threshold, decision=decision, digest=digest)
    return GivenModel(source, wrapper, parsed)


def read_given_table(
    path: str | Path, prepare: Callable[[Any], Any] | None, schema: InputSchema, label: str | None = None
) -> TableFile:
    """Read a table file with the columns of an ensemble, or of the first steps of a Pipeline (``prepare``)."""
    if prepare is None:
        return read_table(path, schema, label)
    if Path(path).is_dir():
        raise InvalidInputError(
            f"{path} is a folder, which is read in chunks; the first steps of a Pipeline take a "
            "table as a whole. Pass one file, or the last step and tables prepared by the others."
        )
    first = prepare.steps[0] if isinstance(prepare, Prepared) else prepare
    pipeline = getattr(first, "__self__", None)
    names = getattr(pipeline, "feature_names_in_", None)
    n_features = getattr(pipeline, "n_features_in_", None)
    return read_raw_table(path, None if names is None else list(names), n_features, label)
