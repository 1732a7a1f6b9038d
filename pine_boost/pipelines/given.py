"""A model as a command is given it: a file, perhaps a pickle with layers around the ensemble, and tables for it."""

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
from pine_boost.pipelines.result import REMEDY
from pine_boost.pipelines.unwrapping import Wrapper, unwrap
from pine_boost.tables.files import TableFile, read_table
from pine_boost.tables.raw_files import read_raw_table
from pine_boost.tables.schema import InputSchema, schema_of


@dataclass(frozen=True, eq=False)
class GivenModel:
    """A model that was read.

    Attributes
    ----------
    source : object or path
        What to hand to `prune_booster` and the like: the live model of a pickle, else what was
        given.
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
        """Columns of the ensemble."""
        return schema_of(self.parsed.forest)

    @property
    def remark(self) -> str:
        """What a proof about the ensemble says of the whole; empty without layers."""
        kinds = [layer.kind for layer in self.wrapper.layers]
        decides = any(layer.decides for layer in self.wrapper.layers)
        return layers_remark(kinds, type(self.wrapper.inner).__name__, decides) if kinds else ""

    def require_writable(self) -> None:
        """Refuse layers that could not be written back, before anything is searched for them."""
        if self.is_wrapped:
            pickled(self.source, REMEDY)

    def read_table(self, path: str | Path, label: str | None = None) -> TableFile:
        """A table file as the whole model takes it: raw columns where a Pipeline prepares them."""
        if self.wrapper.prepare is None:
            return read_table(path, self.schema, label)
        return read_raw_rows(self.wrapper.prepare, path, label)

    def read_rows(self, path: str | Path) -> Any:
        """The rows of a table file; of a folder of Parquet files its path, read in chunks later.

        A folder is refused where a Pipeline would have to prepare it.
        """
        if Path(path).is_dir() and self.wrapper.prepare is None:
            return path
        return self.read_table(path).X


def read_given(
    model: Any, *, threshold: float | Sequence[float] | None = None, trust_pickle: bool = False, decision: str = "class"
) -> GivenModel:
    """Read a model, with layers or without; parameters as of `read_model`."""
    source = open_pickle(model, trust_pickle)
    wrapper = unwrap(source, threshold)
    parsed = read_model(wrapper.inner, threshold=wrapper.threshold, decision=decision)
    return GivenModel(source, wrapper, parsed)


def read_named_model(
    model: Any, thresholds: Sequence[float], *, trust_pickle: bool = False, decision: str = "class"
) -> GivenModel:
    """Read a model that a certificate names together with these thresholds.

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
    parsed = read_model(wrapper.inner, threshold=wrapper.threshold, decision=decision)
    return GivenModel(source, wrapper, parsed)


def read_raw_rows(prepare: Callable[[Any], Any], path: str | Path, label: str | None = None) -> TableFile:
    """A table file for the first steps of a Pipeline, ``prepare``: their columns, as they are."""
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
