"""The result of `prune_booster`: the smaller model, its certificate, summaries, evaluations and files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pine_boost.budget import StopReason
from pine_boost.certificate import saved
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claims import headline_of, next_steps, serving_of, share_of, unused_alpha
from pine_boost.errors import InvalidInputError, OutputError, PineBoostError
from pine_boost.files import MODEL_LIMIT, path_of, read_limited
from pine_boost.folders import require_free, write_folder
from pine_boost.json_fields import canonical
from pine_boost.model.forest import FloatArray, IntArray, Model
from pine_boost.model.links import has_probabilities
from pine_boost.native.child_process import try_in_child
from pine_boost.native.figures import SIZES, SideBySide, side_by_side
from pine_boost.native.predict import model_file, predict_classes
from pine_boost.notebooks import aligned, displayed, table_html
from pine_boost.options import counted, plural
from pine_boost.region.conformal import Coverage
from pine_boost.region.region import Region
from pine_boost.search.search_result import SearchResult
from pine_boost.tables.matrix import to_matrix


class Absent:
    """A part that a folder does not contain; using it raises an error that says what to do."""

    def __init__(self, remedy: str) -> None:
        self._remedy = remedy

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InvalidInputError(self._remedy)


@displayed
@dataclass(frozen=True, eq=False, repr=False)
class PruneResult:
    """A pruned model and its certificate.

    Attributes
    ----------
    model : object or bytes
        Same kind as the model that was given; for a file, bytes in the same format.
    certificate : Certificate
    region : Region
        The inputs that the certificate covers.
    weights : float64 (n_trees,)
        Weight of every tree relative to the original, 0 for dropped trees.
    original, pruned : Model
        Both parsed models.
    search : SearchResult
    points : int32 (n_points, n_features)
        States of the rows that the search used: X_fit and points near the decision boundary.
    """

    model: Any
    certificate: Certificate
    region: Region
    weights: FloatArray
    original: Model
    pruned: Model
    search: SearchResult
    points: npt.NDArray[np.int32]

    @classmethod
    def load(cls, folder: str | os.PathLike[str], original: Any = None, *, trust_pickle: bool = False) -> PruneResult:
        """Read a folder that `save` wrote.

        Parameters
        ----------
        folder : path
        original : model, path or bytes, optional
            What was pruned; needed by `evaluate`, `speedup`, the sizes in `summary` and the report.
        trust_pickle : bool
            Load pickled models; only for files you made.

        Raises
        ------
        InvalidInputError
            The folder lacks a file.
        CertificateMismatch
            A model or the region is not the one that the certificate names.
        """
        parts = saved.read_saved(folder)
        certificate = parts.certificate
        read = partial(saved.read_named, stated=certificate, what="certificate", trust_pickle=trust_pickle)
        pruned, before = read(parts.model, role="pruned"), None if original is None else read(original, role="original")
        weights = np.zeros(certificate.trees_before)
        weights[list(certificate.kept)] = certificate.weights
        remedy = "A folder does not hold the original; use PruneResult.load(folder, original=...)."
        return cls(
            model=read_limited(parts.model, MODEL_LIMIT, "model file") if pruned.native is None else pruned.native,
            certificate=certificate,
            region=parts.region,
            weights=weights,
            original=cast(Model, Absent(remedy)) if before is None else before,
            pruned=pruned,
            search=cast(SearchResult, Absent("A folder does not hold the search.")),
            points=np.zeros((0, parts.region.space.n_features), np.int32),
        )

    @property
    def status(self) -> str:
        """``"CERTIFIED"`` or ``"NOT_CERTIFIED"``."""
        return self.certificate.status

    @property
    def claim(self) -> str:
        """The exact guarantee; empty unless CERTIFIED."""
        return self.certificate.claim

    @property
    def stopped(self) -> StopReason:
        """Why the search ended."""
        return self.search.stopped

    @property
    def kept(self) -> IntArray:
        """Indices of the trees that were kept."""
        return np.array(self.certificate.kept, dtype=np.int64)

    @property
    def serving_margin(self) -> float | None:
        """Distance from its own decision boundary at which the pruned model alone gives the original's class.

        Proved for plausible inputs (`certificate.serving`). None if no margin is needed, because
        the region does not leave out inputs near the decision boundary, or if none was proved.
        """
        serving = self.certificate.serving
        return None if serving is None else serving.distance

    @property
    def pruning_rate(self) -> float:
        """Share of the units (rounds, trees or leaves) that were removed."""
        return 1.0 - self.certificate.units_kept / self.certificate.units_before

    @cached_property
    def side_by_side(self) -> SideBySide:
        """Size and work of both models, and what measures their speed."""
        side = side_by_side(self.original, self.pruned)
        return side if isinstance(self.search, Absent) else side.unless_interrupted(self.stopped)

    def speedup(self, X: Any = None, sizes: Sequence[int] = SIZES) -> dict[int, float]:
        """How many times as fast the pruned model is natively, by rows of a call; measured now, on ``X`` if given."""
        return self.side_by_side.speedup(X, sizes)

    def plot_history(self, ax: Any = None) -> Any:
        """Plot the proved size over time, after the first and the second proof, with the bound.

        Returns the matplotlib Axes; needs ``pine-boost[plot]``.
        """
        from pine_boost.plots import plot_history

        c, search = self.certificate, self.search
        return plot_history(search.history, c.units_before, c.unit, search.seconds, ax)

    def headline(self) -> str:
        """One line: the status and what was removed."""
        c = self.certificate
        sizes = [f"{c.trees_before} -> {c.trees_after} trees", f"{c.leaves_before} -> {c.leaves_after} leaves"]
        units = plural(c.unit)
        # two problems: with new leaf values fewer units may do than with weights, for which the search looks first
        form = "new leaf values" if c.reweight == "leaf" else "one weight per tree"
        best = f"provably the fewest with {form}"
        if c.unit == "leaf":
            sizes, best = sizes[::-1], "how few would be enough is not proved"
        elif not c.optimal:
            verb = "is" if c.lower_bound == 1 else "are"
            best = f"at least {counted(c.lower_bound, c.unit)} {verb} needed"
            best += f" with {form}" if c.lower_bound > 1 else ""
        return f"{c.status}: {', '.join(sizes)} ({self.pruning_rate:.0%} of the {units} removed, {best})"

    def promise(self) -> str:
        """The claim in two short sentences; without a claim, the reason why there is none."""
        return headline_of(self.certificate) if self.claim else self.certificate.reason

    def summary(self) -> str:
        """Return a short readable text: what was removed, what is guaranteed, what to try next.

        ``claim`` has the exact guarantee, ``certificate.rests_on`` its assumptions.
        """
        c = self.certificate
        lines = [self.headline(), self.promise(), *unused_alpha(c)]
        if c.proofs:
            methods = sorted({proof.method for proof in c.proofs})
            n_questions = len({proof.question for proof in c.proofs})
            moved = f"; probabilities moved by {c.probability_shift['mean']:.3f} on average"
            lines.append(
                f"Proved {counted(n_questions, 'question')}, each by {' and by '.join(methods)}"
                f"{moved if has_probabilities(self.pruned.forest) else ''}."
            )
        if isinstance(self.original, Model) and c.leaves_after < c.leaves_before:
            lines += self.side_by_side.summary()
        if share_of(c):
            lines.append(share_of(c))
        if c.delta is not None and serving_of(c):
            lines.append(serving_of(c))
        if not isinstance(self.search, Absent):
            lines.append(f"Searched for {self.search.seconds:.1f} s.")
        first, *steps = next_steps(c) or ("",)
        lines += [first, *(f"- {step}" for step in steps)] if steps else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        c = self.certificate
        return f"<PruneResult {c.status}: {c.trees_before} -> {c.trees_after} trees, alpha={c.alpha:g}>"

    def evaluate(self, X: Any, y: Any = None) -> Evaluation:
        """Compare both native models on your own rows.

        Parameters
        ----------
        X : table
        y : labels, optional
            As the native ``predict`` returns them (class indices for boosters and files). Not
            with several thresholds: score bands are no labels.
        """
        return evaluate(self.original, self.pruned, self.region, X, y)

    def to_treelite(self, *, codes: bool = False) -> Any:
        """Return the pruned model as a Treelite model (see `pine_boost.exporters.treelite`).

        Parameters
        ----------
        codes : bool
            You will feed category codes where the native model takes category values of a table;
            needed for XGBoost and LightGBM models with category names.
        """
        from pine_boost.exporters.treelite import to_treelite

        return to_treelite(self.pruned, codes=codes)

    def save(
        self,
        folder: str | os.PathLike[str],
        X: Any = None,
        curve: Sequence[Mapping[str, Any]] = (),
        *,
        report: bool = True,
        overwrite: bool = False,
    ) -> Path:
        """Write the native model, certificate.json, region.json and report.html to a folder.

        A new folder appears complete or not at all. Files of an earlier result, which the
        certificate in the folder names by digest, are replaced; no other file is ever removed.
        If the folder holds files of your own, every file is replaced individually and the certificate
        is written last, so a folder with a certificate is complete.

        Parameters
        ----------
        folder : path
        X : table, optional
            Rows on which the report measures coverage and speed; without it the rows are made
            from the points of the search, and no coverage is shown.
        curve : sequence of mapping
            ``SweepResult.table()``, for the trade-off plot of the report.
        report : bool
            Whether to write report.html; measuring for it takes some seconds.
        overwrite : bool
            Replace files of these names that are not of an earlier result, too.

        Raises
        ------
        InvalidInputError
            The folder holds files of these names that no certificate in it names.
        OutputError
            The system refused to write, or the report could not be written; the message says where
            the other files are.
        """
        return save_with_report(self, self.files(), folder, X, curve, report=report, overwrite=overwrite)

    def files(self, others: Mapping[str, bytes] = MappingProxyType({})) -> dict[str, bytes]:
        """Return the files of the result by name: native model, region.json and certificate.json.

        ``others`` are files to save with them; the certificate names them too.
        """
        name, contents = self.model_file()
        files = {name: contents, saved.REGION: canonical(self.region.to_json()).encode(), **others}
        certificate = replace(self.certificate, files=saved.digests(files))
        return {**files, saved.CERTIFICATE: certificate.to_json().encode()}

    def model_file(self) -> tuple[str, bytes]:
        """Return the name and contents of the native model file."""
        return model_file(self.model, self.pruned.forest.library)


def save_with_report(
    result: PruneResult,
    files: dict[str, bytes],
    folder: str | os.PathLike[str],
    X: Any,
    curve: Sequence[Mapping[str, Any]],
    *,
    report: bool,
    overwrite: bool,
) -> Path:
    """Write the files of a result and report.html; see `PruneResult.save`."""
    folder, failure = path_of(folder), None
    if X is not None:
        to_matrix(X, result.region.schema)  # invalid rows raise before anything is written
    require_free(folder, [*([saved.REPORT] if report else []), *files], overwrite=overwrite)
    if report:
        from pine_boost.report.prune_report import render_report

        try:
            files = {saved.REPORT: render_report(result, X, curve).encode(), **files}
        except PineBoostError as error:
            failure = error
    path = write_folder(folder, files, overwrite=overwrite)
    if failure is not None:
        raise OutputError(
            f"The report could not be made ({failure}); model, region and certificate are in {path}."
        ) from failure
    return path


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
        return aligned(self._figures())

    def _repr_html_(self) -> str:
        """The table for notebooks."""
        return table_html((), self._figures())


def evaluate(original: Model, pruned: Model, region: Region, X: Any, y: Any = None) -> Evaluation:
    """Compare two native models on rows; see `PruneResult.evaluate`."""
    given = original.forest if region.delta is not None else None
    inside = region.contains(X, model=given)  # first: it says what is wrong with a table
    if len(inside) == 0:
        raise InvalidInputError("X has no rows; an evaluation needs at least one.")
    try_in_child(original, pruned)  # a folder may come from an untrusted source
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
        coverage=Coverage.of(len(before), int(inside.sum())),
        accuracy_before=accuracy[0],
        accuracy_after=accuracy[1],
    )


def _read_labels(y: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(y).reshape(-1)
    except ValueError as error:  # lists of different lengths
        raise InvalidInputError(f"y is not a list of labels ({error}); pass one label for each row of X.") from error


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
