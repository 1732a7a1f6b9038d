"""The result for a model with layers: the whole smaller model, and a region that accepts rows as the Pipeline does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pine_boost.certificate.claims import BEFORE_CALIBRATION
from pine_boost.notebooks import displayed
from pine_boost.parsers import pickled
from pine_boost.region.conformal import Coverage
from pine_boost.region.explanation import Explanation
from pine_boost.region.region import Region

if TYPE_CHECKING:
    from pine_boost.pipelines.unwrapping import Wrapper

WHOLE_MODEL = "whole_model.pkl"
REMEDY = "Use functions of a module in it; in Python result.inner.save(folder) writes the ensemble with its certificate"


@dataclass(frozen=True, eq=False)
class PreparedRegion:
    """A region that accepts the rows of a Pipeline.

    Attributes
    ----------
    region : Region
        Over the columns of the ensemble; the certificate and the files refer to this one.
    prepare : callable or None
        The first steps of the Pipeline.
    """

    region: Region
    prepare: Any

    def __getattr__(self, name: str) -> Any:
        if name in ("region", "prepare"):  # during unpickling
            raise AttributeError(name)
        return getattr(self.region, name)

    def contains(self, X: Any, **options: Any) -> npt.NDArray[np.bool_]:
        """Return whether each row lies in the region; options as for `Region.contains`."""
        return self.region.contains(self.rows(X), **options)

    def coverage(self, X: Any, **options: Any) -> Coverage:
        """Return the share of rows inside; options as for `Region.coverage`."""
        return self.region.coverage(self.rows(X), **options)

    def states(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the states of the rows."""
        return self.region.states(self.rows(X))

    def score(self, X: Any) -> npt.NDArray[np.int64]:
        """Return the integer plausibility score of every row."""
        return self.region.score(self.rows(X))

    def explain(self, x: Any, **options: Any) -> Explanation:
        """Explain why one input (a table of one row) is plausible or not, in the columns of the ensemble."""
        return self.region.explain(self.rows(x), **options)

    def rows(self, X: Any) -> Any:
        """Return the rows as the ensemble expects them."""
        return X if self.prepare is None else self.prepare(X)


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
    def region(self) -> PreparedRegion:
        """The region, for rows as the whole model expects them."""
        return PreparedRegion(self.inner.region, self.wrapper.prepare)

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
