"""Read the model and tables given to a command; the model may be a pickle with layers around the ensemble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pine_boost.certificate.claims import layers_remark
from pine_boost.errors import CertificateMismatch, InvalidInputError
from pine_boost.model.forest import Model
from pine_boost.parsers import open_pickle, pickled, read_model
from pine_boost.pipelines.layers import kind_of
from pine_boost.pipelines.preparation import Prepared
from pine_boost.pipelines.unwrapping import Wrapper, unwrap
from pine_boost.pipelines.wrapped_result import REMEDY
from pine_boost.tables.schema import InputSchema, schema_of
from pine_boost.tables.table_files import TableFile, read_raw_table, read_table


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
        decides = any(layer.decides for layer in self.wrapper.layers)
        return layers_remark(kinds, type(self.wrapper.inner).__name__, decides) if kinds else ""

    def require_writable(self) -> None:
        """Raise, before any search, if the layers could not be written back."""
        if self.is_wrapped:
            pickled(self.source, REMEDY)

    def read_table(self, path: str | Path, label: str | None = None) -> TableFile:
        """Read a table file for the whole model: raw columns if a Pipeline prepares them."""
        if self.wrapper.prepare is None:
            return read_table(path, self.schema, label)
        return read_raw_rows(self.wrapper.prepare, path, label)

    def read_rows(self, path: str | Path) -> Any:
        """Read the rows of a table file; for a folder of Parquet files, return its path to read in chunks later.

        A folder raises if a Pipeline would have to prepare it.
        """
        if Path(path).is_dir() and self.wrapper.prepare is None:
            return path
        return self.read_table(path).X


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


def read_raw_rows(prepare: Callable[[Any], Any], path: str | Path, label: str | None = None) -> TableFile:
    """Read a table file with the raw columns of ``prepare``, the first steps of a Pipeline."""
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
