"""How a pruned model behaves on rows that it was not proved on, measured natively."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import Model
from pine_boost.native.predict import predict_classes
from pine_boost.notebooks import table_html
from pine_boost.region.conformal import Coverage
from pine_boost.region.region import Region


@dataclass(frozen=True)
class Evaluation:
    """How the pruned model behaves on rows it was not proved on.

    Attributes
    ----------
    n_rows : int
    fidelity : float
        Share of rows with the same native class before and after.
    fidelity_in_region : float
        The same among the rows in the region; 1.0 by the proof (NaN if none lies in it).
    coverage : Coverage
        Share of the rows in the region, with an exact interval.
    accuracy_before, accuracy_after : float or None
        With labels only.
    """

    n_rows: int
    fidelity: float
    fidelity_in_region: float
    coverage: Coverage
    accuracy_before: float | None
    accuracy_after: float | None

    def _figures(self) -> list[tuple[str, str]]:
        c = self.coverage
        covered = f"{c.share:.2%} ({c.confidence:.0%} interval: {c.low:.2%} to {c.high:.2%})"
        figures = [
            ("rows", str(self.n_rows)),
            ("same class", f"{self.fidelity:.2%}"),
            ("same class in the region", f"{self.fidelity_in_region:.2%}"),
            ("rows in the region", covered),
        ]
        if self.accuracy_before is not None and self.accuracy_after is not None:
            figures.append(("accuracy of the original", f"{self.accuracy_before:.2%}"))
            figures.append(("accuracy of the pruned model", f"{self.accuracy_after:.2%}"))
        return figures

    def __str__(self) -> str:
        figures = self._figures()
        width = max(len(name) for name, _ in figures)
        return "\n".join(f"{name:<{width}}  {figure}" for name, figure in figures)

    def _repr_html_(self) -> str:
        """The table for notebooks."""
        return table_html((), self._figures())


def evaluate(original: Model, pruned: Model, region: Region, X: Any, y: Any = None) -> Evaluation:
    """Compare two native models on rows; see `PruneResult.evaluate`."""
    given = original.forest if region.delta is not None else None
    inside = region.contains(X, model=given)  # first: it says what is wrong with a table
    if len(inside) == 0:
        raise InvalidInputError("X has no rows; an evaluation needs at least one.")
    before, after = predict_classes(original, X), predict_classes(pruned, X)
    same = before == after
    accuracy: list[float | None] = [None, None]
    if y is not None:
        labels = _read_labels(y)
        classes = classes_of(original, labels, len(before))
        accuracy = [float(np.mean(classes[c] == labels)) for c in (before, after)]
    return Evaluation(
        n_rows=len(before),
        fidelity=float(same.mean()),
        fidelity_in_region=float(same[inside].mean()) if inside.any() else float("nan"),
        coverage=region.coverage(X, model=given),
        accuracy_before=accuracy[0],
        accuracy_after=accuracy[1],
    )


def _read_labels(y: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(y).reshape(-1)
    except ValueError as error:  # lists of different lengths
        raise InvalidInputError(f"y is no list of labels ({error}); pass one label for each row of X.") from error


def classes_of(original: Model, labels: npt.NDArray[Any], n_rows: int) -> npt.NDArray[Any]:
    """The model's labels by class index, if these labels can be compared with them."""
    if len(labels) != n_rows:
        raise InvalidInputError(f"X has {n_rows} rows and y {len(labels)}.")
    thresholds = original.forest.decision.thresholds
    if len(thresholds) > 1:
        raise InvalidInputError(
            f"The model decides between {len(thresholds) + 1} score bands, and y holds labels: "
            "there is no accuracy. Leave y (--label) out, or prune with one threshold."
        )
    classes = np.asarray(original.forest.classes)
    _require_known(labels, classes)
    return classes


def _require_known(labels: npt.NDArray[Any], classes: npt.NDArray[Any]) -> None:
    """Labels of another kind (text for indices, 1 and 2 for 0 and 1) would all count as wrong."""
    known = {label.item() if isinstance(label, np.generic) else label for label in classes}
    unknown = [label for label in labels.tolist() if not _is_in(label, known)]
    if unknown:
        raise InvalidInputError(
            f"y holds {unknown[0]!r}, a label the model does not have; its predict returns "
            f"{', '.join(repr(label) for label in list(classes.tolist())[:8])}. Pass y in these "
            "labels (boosters and files know class indices only)."
        )


def _is_in(label: Any, known: set[Any]) -> bool:
    try:
        return label in known
    except TypeError:  # no label at all, such as a dict
        return False
