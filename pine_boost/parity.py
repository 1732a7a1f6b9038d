"""Compare the answers of two models on rows: retrained, migrated, converted or compressed models.

A measurement with exact binomial intervals, never a proof: it says nothing about single inputs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.certificate.claims import comparison_claim, comparison_promise
from pine_boost.certificate.saved import WHOLE_MODEL, model_path
from pine_boost.committee import committee_of
from pine_boost.compression.fixed_sequence import lower_bound
from pine_boost.compression.reading import by_name, count_segments
from pine_boost.compression.record import Segment
from pine_boost.errors import InvalidInputError, PineBoostError, UnsupportedModelError
from pine_boost.files import require_free_file, save_file
from pine_boost.kernels.numpy_twin import apply_link
from pine_boost.model.digits import percent_down, percent_up
from pine_boost.model.forest import BoolArray, FloatArray, Model
from pine_boost.native.child_process import try_in_child
from pine_boost.native.predict import asked_in_chunks, predict_classes, predict_margins
from pine_boost.notebooks import aligned, displayed, table_html
from pine_boost.options import counted, option_of
from pine_boost.parsers import open_pickle
from pine_boost.parsers.traits import band_of
from pine_boost.pipelines.unwrapping import read_given, read_given_table
from pine_boost.region.conformal import Coverage
from pine_boost.report.pages import render
from pine_boost.scoring.native_sum import native_sum, probability_rule
from pine_boost.scoring.scorer_folder import MANIFEST, load_scorer, read_manifest
from pine_boost.tables.native import row_count
from pine_boost.tables.table_files import TableFile, read_any

_WORST = 20
_MOST_DECISIONS = 50
Threshold = float | Sequence[float] | None


@dataclass(frozen=True)
class PairedAccuracy:
    """How often both models are right, on the same rows.

    Attributes
    ----------
    a, b : float
        Share of labels that each model predicts.
    only_a, only_b : int
        Rows on which only one of them is right.
    low, high : float
        Exact interval of the difference of the true accuracies, b minus a: two Clopper-Pearson intervals, of
        the shares of rows that only one gets right, with half of the error probability each.
    """

    a: float
    b: float
    only_a: int
    only_b: int
    low: float
    high: float


@dataclass(frozen=True)
class ComparedRow:
    """One row and both answers; ``difference`` is that of probabilities or values, None without."""

    row: int
    a: str
    b: str
    difference: float | None


@displayed
@dataclass(frozen=True)
class ModelComparison:
    """What `compare_models` measured.

    Attributes
    ----------
    names : tuple of str
    n_rows, n_changed : int
        Rows, and those whose decision differs.
    share, low, high : float
        Share of equal decisions, and the exact (Clopper-Pearson) interval of the share among all such inputs.
    bound : float
        One-sided lower bound of that share, which is compared with ``fidelity``.
    fidelity, confidence : float
    tolerance : float or None
    differences : dict
        Mean, median, 99 % quantile and maximum of the differences of probabilities (the largest of a row)
        or of values; empty if a model gives neither.
    segments, decisions : tuple of Segment
        Changed rows by segment, and by the decision of the first model; each bound and `interval` holds by itself.
    worst : tuple of ComparedRow
        Changed rows first, then the largest differences.
    accuracy : PairedAccuracy or None
        With labels only.
    thresholds : tuple of tuple of float
        Where each model decides at thresholds of its own, as a scorer that was made with ``threshold`` does.
    """

    names: tuple[str, str]
    n_rows: int
    n_changed: int
    share: float
    low: float
    high: float
    bound: float
    fidelity: float
    confidence: float
    tolerance: float | None
    differences: dict[str, float]
    segments: tuple[Segment, ...]
    decisions: tuple[Segment, ...]
    worst: tuple[ComparedRow, ...]
    accuracy: PairedAccuracy | None
    thresholds: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())

    @property
    def reached(self) -> bool:
        """Whether the target is reached; ``fidelity=1`` asks for no changed row among these."""
        return self.n_changed == 0 if self.fidelity == 1 else self.bound >= self.fidelity

    @property
    def claim(self) -> str:
        """What follows from the rows, and under which condition."""
        return comparison_claim(self.reached, self.n_changed, self.n_rows, self.bound, self.fidelity, self.confidence)

    def promise(self) -> str:
        """The claim with one number; the figures are in the summary."""
        return comparison_promise(self.reached, self.fidelity)

    def interval(self, segment: Segment) -> tuple[float, float]:
        """The exact two-sided interval of the share of equal decisions among all inputs of a segment."""
        same = Coverage.of(segment.n_rows, segment.n_rows - segment.n_changed, self.confidence)
        return same.low, same.high

    def _figures(self) -> list[tuple[str, str]]:
        interval = _in_words(self.low, self.high)
        figures = [
            ("rows", f"{self.n_rows:,}"),
            ("same decision", f"{percent_down(self.share, 3)} ({self.confidence:.0%} interval: {interval})"),
            ("changed rows", f"{self.n_changed:,}"),
        ]
        if self.fidelity < 1:
            confidence, target = percent_down(self.confidence), percent_down(self.fidelity, 3)
            figures.append(("lower bound", f"{percent_down(self.bound)} (confidence {confidence}; target {target})"))
        for which, own in zip("ab", self.thresholds, strict=True):
            if own and self.thresholds[0] != self.thresholds[1]:
                cuts = ", ".join(f"{at:g}" for at in own)
                figures.append(
                    (
                        f"{which} decides at",
                        f"{cuts}, its own threshold, unlike the other model; pass the threshold to ask both at it",
                    )
                )
        figures += [(f"difference, {name}", f"{value:.3g}") for name, value in self.differences.items()]
        if (accuracy := self.accuracy) is not None:
            change = f"{100 * accuracy.low:+.2f} to {100 * accuracy.high:+.2f}"
            figures += [
                (f"accuracy of a, {self.names[0]}", f"{accuracy.a:.2%} {_right_alone(accuracy.only_a)}"),
                (f"accuracy of b, {self.names[1]}", f"{accuracy.b:.2%} {_right_alone(accuracy.only_b)}"),
                ("accuracy, b minus a", f"{change} percentage points ({self.confidence:.0%} interval)"),
            ]
        return figures

    def summary(self) -> str:
        """A few readable lines."""
        lines = [aligned(self._figures())]
        lowest = sorted((s for s in self.segments if s.n_changed), key=lambda segment: segment.bound)[:5]
        lines += [
            f"Segment {s.name}: {s.n_changed} of {s.n_rows} rows changed; same decision {self.confidence:.0%} interval "
            f"{_in_words(*self.interval(s))}."
            for s in lowest
        ]
        return "\n".join([*lines, self.promise()])

    def _repr_html_(self) -> str:
        """The claim and the figures, for notebooks."""
        return table_html((), self._figures(), self.promise())

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        numbers = {
            name: [asdict(s) | dict(zip(("low", "high"), self.interval(s), strict=True)) for s in getattr(self, name)]
            for name in ("segments", "decisions")
        }
        return {"reached": self.reached, "claim": self.claim, **asdict(self), **numbers}

    def write_report(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write one self-contained HTML page."""
        target = Path(path)
        require_free_file(target, overwrite=overwrite)
        page = render(
            "comparison.html",
            "pine_boost: comparison of two models",
            c=self,
            figures=self._figures(),
            counted=[
                (title, [(s.name, s.n_rows, s.n_changed, _in_words(*self.interval(s))) for s in segments])
                for title, segments in (("By segment", self.segments), ("By decision of a", self.decisions))
                if segments
            ],
            worst=[(w.row, w.a, w.b, "" if w.difference is None else f"{w.difference:.4g}") for w in self.worst],
        )
        save_file(target, page.encode())
        return target


def _right_alone(n_rows: int) -> str:
    return f"({counted(n_rows, 'row')} that only this model gets right)"


def _in_words(low: float, high: float) -> str:
    return f"{percent_down(low)} to {percent_up(high)}"


def compare_models(
    a: Any,
    b: Any,
    X: Any,
    y: Any = None,
    *,
    fidelity: float = 0.99,
    confidence: float = 0.95,
    tolerance: float | None = None,
    segments: Any = None,
    threshold: Threshold = None,
    trust_pickle: bool = False,
) -> ModelComparison:
    """Compare the answers of two models on the same rows.

    Parameters
    ----------
    a, b : object, path, bytes or callable
        Models that predict: anything with ``predict``, a function of the table, a Booster, a model file, or a
        folder that `pine_boost` wrote. They may be of different kinds and libraries.
    X : table
        Rows for both models. The interval speaks about inputs like these if they are a random sample.
    y : labels, optional
        For the accuracy of both.
    fidelity : float
        Share of inputs that must keep their decision, up to 1; with 1 no row may change.
    confidence : float
        Confidence of the bound and of all intervals.
    tolerance : float, optional
        How far a probability or a value may move. Without it classes are compared alone, and values must be equal.
    segments : column, labels or mapping of them, optional
        Also count the changed rows per segment, for example per value of a column of X.
    threshold : float or sequence of float, optional
        Your own decision threshold on the probability of the second class, for both models; several ascending values
        define score bands.
    trust_pickle : bool
        Load models from pickle and joblib files, which runs code from the file; use it only for files you made.

    Returns
    -------
    ModelComparison

    Raises
    ------
    InvalidInputError
        The answers cannot be compared: classes with numbers, other labels, another number of rows.
    UnsupportedModelError
        A model neither predicts nor can be read.

    Examples
    --------
    >>> import pine_boost
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> a, b = (RandomForestClassifier(10, random_state=seed).fit(X, y) for seed in (0, 1))
    >>> pine_boost.compare_models(a, b, X, y).n_changed
    1
    """
    before, after = (open_predictor(model, threshold=threshold, trust_pickle=trust_pickle) for model in (a, b))
    options: dict[str, Any] = {"fidelity": fidelity, "confidence": confidence, "tolerance": tolerance}
    return compare_answers(before, after, X, X, y, segments=segments, **options)


@dataclass(frozen=True, eq=False)
class Said:
    """Labels or values of rows, probabilities or None, and whether the labels are classes (None: unknown)."""

    labels: npt.NDArray[Any]
    chances: FloatArray | None
    is_class: bool | None

    def shown(self, row: int) -> str:
        """The answer for one row in words."""
        if self.chances is None:
            return str(self.labels[row])
        return f"{self.labels[row]} ({', '.join(f'{value:.4f}' for value in self.chances[row][:6])})"


@dataclass(frozen=True, eq=False)
class Predictor:
    """A model that answers.

    ``ask`` maps a table to the answers; ``read`` reads a table file as the model takes it, None for a model that merely
    predicts. ``thresholds`` are those of a scorer's own, at which it decides where none are given.
    """

    name: str
    ask: Callable[[Any], Said]
    read: Callable[..., TableFile] | None = None
    thresholds: tuple[float, ...] = ()


def open_predictor(model: Any, *, threshold: Threshold = None, trust_pickle: bool = False) -> Predictor:
    """Make a predictor of anything that `compare_models` accepts."""
    is_file = isinstance(model, (str, os.PathLike))
    name = os.fspath(model) if is_file else type(model).__name__
    if is_file and Path(model).is_dir():
        folder = Path(model)
        if (folder / MANIFEST).is_file():
            scorer = load_scorer(folder, trust_pickle=trust_pickle)
            prepare, schema = scorer.parts.prepare, scorer.parts.schema
            read = partial(read_given_table, prepare=prepare, schema=schema)
            own = () if threshold is not None else tuple(read_manifest(folder)["thresholds"])
            return Predictor(name, partial(_ask_object, scorer, threshold), read, own)
        model, whole = model_path(folder), folder / WHOLE_MODEL
        if whole.is_file():  # the ensemble alone would get rows without the steps before it, and decide at its own cut
            model = whole
    source = open_pickle(model, trust_pickle)
    is_booster = type(source).__name__ == "Booster" and type(source).__module__.startswith(("xgboost.", "lightgbm."))
    if isinstance(source, (str, os.PathLike, bytes, bytearray)) or is_booster:
        given = read_given(source, threshold=threshold, decision="value")
        if not is_booster:
            try_in_child(given.parsed)
        return Predictor(name, partial(_ask_native, given.parsed), given.read_table)
    if not hasattr(source, "predict") and not callable(source):
        raise UnsupportedModelError(
            f"{name} neither has predict nor can it be called; pass a fitted model, a function of the table, a model "
            "file or a folder of pine_boost."
        )
    reading: Callable[..., TableFile] | None = None
    with suppress(UnsupportedModelError, InvalidInputError):  # it predicts all the same
        average = committee_of(source)
        reading = (read_given(source, decision="value") if average is None else average.given).read_table
    return Predictor(name, partial(_ask_object, source, threshold), reading)


def _ask_native(model: Model, X: Any) -> Said:
    forest, native = model.forest, native_sum(model)
    margins = asked_in_chunks(lambda model, X: predict_margins(model, X)[0], model, X)
    if not forest.decides:
        return Said(np.asarray(apply_link(native, native.link, margins))[:, 0], None, is_class=False)
    found = asked_in_chunks(predict_classes, model, X)
    rule, chances = probability_rule(model), None
    if rule.form != "none":  # as the library rounds them
        chances = apply_link(native, rule.link, margins).astype(native.value.dtype)
        if rule.form == "pair":
            chances = np.concatenate([1 - chances, chances], axis=1)
        chances = chances.astype(np.float64)
    labels = _named(np.asarray(forest.classes), found, len(forest.decision.thresholds))
    return Said(labels, chances, is_class=True)


def _named(classes: npt.NDArray[Any], found: npt.NDArray[Any], n_thresholds: int) -> npt.NDArray[Any]:
    """Labels of class indices; score bands keep their numbers."""
    return found if len(classes) <= n_thresholds else classes[found]


def _ask_object(model: Any, threshold: Threshold, X: Any) -> Said:
    try:
        return _predicted(model, threshold, X)
    except (PineBoostError, MemoryError):
        raise
    except Exception as error:  # a model of the user can raise anything
        raise InvalidInputError(
            f"{type(model).__name__} does not predict this table ({type(error).__name__}: {str(error)[:200]}). Pass it "
            "as the model takes it."
        ) from error


def _predicted(model: Any, threshold: Threshold, X: Any) -> Said:
    classes = np.asarray(getattr(model, "classes_", ()))
    chances = None
    if hasattr(model, "predict_proba"):
        chances = np.asarray(model.predict_proba(X), dtype=np.float64)
        chances = chances.reshape(len(chances), -1)
    if threshold is not None:
        if chances is None or chances.shape[1] != 2 or len(classes) != 2:
            raise InvalidInputError(
                f"threshold={threshold!r} needs predict_proba with two classes, which {type(model).__name__} does not "
                "have.",
                option="threshold",
            )
        cuts = np.atleast_1d(np.asarray(threshold, dtype=np.float64)).tolist()
        return Said(_named(classes, band_of(chances[:, 1], cuts), len(cuts)), chances, is_class=True)
    predict = model.predict if hasattr(model, "predict") else model
    labels = np.asarray(predict(X))
    if labels.ndim > 1 and labels.size == len(labels):
        labels = labels.reshape(-1)
    is_class = True if len(classes) or chances is not None or labels.dtype.kind not in "f" else None
    return Said(labels, chances, is_class)


def compare_answers(
    before: Predictor,
    after: Predictor,
    X_before: Any,
    X_after: Any,
    y: Any = None,
    *,
    fidelity: float,
    confidence: float,
    tolerance: float | None,
    segments: Any,
) -> ModelComparison:
    """Compare two predictors; the same rows may be given to each in its own form."""
    option_of("compare_models", "fidelity").require(fidelity)
    option_of("", "confidence").require(confidence)
    option_of("", "tolerance").require(tolerance)
    a, b = before.ask(X_before), after.ask(X_after)
    n_rows = row_count(a.labels)
    if n_rows == 0 or a.labels.shape != b.labels.shape or a.labels.ndim != 1:
        raise InvalidInputError(
            f"The models give answers of shape {a.labels.shape} and {b.labels.shape}; one answer per row is compared, "
            "of at least one row."
        )
    are_classes = bool(a.is_class or b.is_class)
    if are_classes:
        _require_same_kind(a, b)
        a, b = _with_common_chances(a, b, tolerance)
        moved = None if a.chances is None or b.chances is None else _moved(a.chances, b.chances)
        changed = a.labels != b.labels
    else:
        a, b = (Said(np.asarray(said.labels, dtype=np.float64), None, False) for said in (a, b))
        moved, changed = _moved(a.labels[:, None], b.labels[:, None]), np.zeros(n_rows, dtype=bool)
    if moved is not None and (tolerance is not None or not are_classes):
        changed = changed | ~(moved <= (tolerance or 0.0))
    has_few = are_classes and len(np.unique(a.labels)) <= _MOST_DECISIONS
    n_changed = int(changed.sum())
    same = Coverage.of(n_rows, n_rows - n_changed, confidence)
    labels = {name: _labels(given, X_before) for name, given in by_name(segments).items()}
    return ModelComparison(
        names=(before.name, after.name),
        n_rows=n_rows,
        n_changed=n_changed,
        share=same.share,
        low=same.low,
        high=same.high,
        bound=lower_bound(n_changed, n_rows, confidence),
        fidelity=fidelity,
        confidence=confidence,
        tolerance=tolerance,
        differences=_differences(moved),
        segments=count_segments(labels, changed, confidence),
        decisions=count_segments({"": a.labels}, changed, confidence) if has_few else (),
        worst=_worst(a, b, changed, moved),
        accuracy=None if y is None or not are_classes else _accuracy(a.labels, b.labels, y, confidence),
        thresholds=(before.thresholds, after.thresholds),
    )


def _require_same_kind(a: Said, b: Said) -> None:
    """Raise if labels can never be equal, so that a difference would say nothing."""
    pair = a.labels, b.labels
    texts = [said.dtype.kind in "OUS" and not all(isinstance(v, (int, float)) for v in said.tolist()) for said in pair]
    whole = all(is_text or np.array_equal(s, np.round(s.astype(float))) for s, is_text in zip(pair, texts, strict=True))
    if texts[0] != texts[1] or False in (a.is_class, b.is_class) or not whole:
        shown = [", ".join(map(repr, np.unique(said)[:4].tolist())) for said in pair]
        raise InvalidInputError(
            f"The models answer differently: the first with {shown[0]}, the second with {shown[1]}. Boosters and files "
            "give class indices; pass models that give the same labels, or both as numbers."
        )


def _with_common_chances(a: Said, b: Said, tolerance: float | None) -> tuple[Said, Said]:
    """Both with their probabilities if these can be compared, else without."""
    if a.chances is not None and b.chances is not None and a.chances.shape == b.chances.shape:
        return a, b
    if tolerance is not None:
        raise InvalidInputError(
            "tolerance compares probabilities, which not both models give; leave it out to compare classes.",
            option="tolerance",
        )
    return replace(a, chances=None), replace(b, chances=None)


def _moved(a: FloatArray, b: FloatArray) -> FloatArray:
    both = np.isnan(a) & np.isnan(b)
    return np.asarray(np.where(both | (a == b), 0.0, np.abs(a - b)).max(axis=1))


def _differences(moved: FloatArray | None) -> dict[str, float]:
    if moved is None or not np.all(np.isfinite(moved)):
        return {}
    middle, high = np.quantile(moved, [0.5, 0.99])
    figures = {"mean": moved.mean(), "median": middle, "99% quantile": high, "maximum": moved.max()}
    return {name: float(value) for name, value in figures.items()}


def _labels(segments: Any, X: Any) -> Any:
    """The labels of segments that are named by a column of a frame; anything else unchanged."""
    if not isinstance(segments, (str, int, np.integer)):
        return segments
    try:
        if isinstance(segments, str):
            return np.asarray(X[segments], dtype=object)
        return np.asarray(X.iloc[:, segments] if hasattr(X, "iloc") else np.asarray(X)[:, segments], dtype=object)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"segments={segments!r} is not a column of X; name one of its columns or pass one label per row.",
            option="segments",
        ) from error


def segment_column(path: str | os.PathLike[str], column: str) -> npt.NDArray[Any]:
    """A column of a table file that need not be one of a model's."""
    return np.asarray(_labels(column, read_any(Path(path), {})))


def _worst(a: Said, b: Said, changed: BoolArray, moved: FloatArray | None) -> tuple[ComparedRow, ...]:
    by = np.zeros(len(changed)) if moved is None else np.where(np.isnan(moved), np.inf, moved)
    order = np.lexsort((-by, ~changed))[:_WORST]
    chosen = [int(row) for row in order if changed[row] or by[row] > 0]
    differences = [None if moved is None or not np.isfinite(moved[row]) else float(moved[row]) for row in chosen]
    return tuple(
        ComparedRow(row, a.shown(row), b.shown(row), difference)
        for row, difference in zip(chosen, differences, strict=True)
    )


def _accuracy(a: npt.NDArray[Any], b: npt.NDArray[Any], y: Any, confidence: float) -> PairedAccuracy:
    labels = np.asarray(y).reshape(-1)
    if len(labels) != len(a):
        raise InvalidInputError(f"X has {len(a)} rows and y {len(labels)}.")
    if not np.isin(labels, np.concatenate([a, b])).any():
        raise InvalidInputError(
            f"y holds none of the labels that the models predict ({np.unique(a)[:4].tolist()!r}, y has "
            f"{np.unique(labels)[:4].tolist()!r}); pass y in these labels."
        )
    right_a, right_b = a == labels, b == labels
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    # the union bound: both intervals hold at once with the stated confidence
    each = 1 - (1 - confidence) / 2
    lost, won = (Coverage.of(len(labels), count, each) for count in (only_a, only_b))
    shares = float(right_a.mean()), float(right_b.mean())
    return PairedAccuracy(*shares, only_a, only_b, won.low - lost.high, won.high - lost.low)
