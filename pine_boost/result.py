"""What a user gets back: the smaller model, what was proved about it, and how it behaves.

In come the parts that the conductor made; out go summaries, evaluations on the user's own rows
and files, each written under a temporary name and renamed. Nothing here changes the model.
"""

from __future__ import annotations

import html
import os
import pickle
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.certificate import Certificate
from pine_boost.errors import InvalidInputError
from pine_boost.forest import FloatArray, IntArray, Model
from pine_boost.native import predict_classes
from pine_boost.region.region import Coverage, Region
from pine_boost.search.loop import SearchResult


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
    accuracy_before: float | None = None
    accuracy_after: float | None = None


@dataclass(frozen=True, eq=False)
class PruneResult:
    """A pruned model and its certificate.

    Attributes
    ----------
    model : object or bytes
        Of the same kind as the model that was given; bytes of the same format for a file.
    certificate : Certificate
    region : Region
        Says which inputs the certificate covers.
    weights : float64 (n_trees,)
        Weight of every tree relative to the original, 0 for dropped trees.
    original, pruned : Model
        Both models as parsed.
    search : SearchResult
    """

    model: Any
    certificate: Certificate
    region: Region
    weights: FloatArray
    original: Model = field(repr=False)
    pruned: Model = field(repr=False)
    search: SearchResult = field(repr=False)

    @property
    def status(self) -> str:
        """``"CERTIFIED"`` or ``"NOT_CERTIFIED"``."""
        return self.certificate.status

    @property
    def kept(self) -> IntArray:
        """Indices of the trees that were kept."""
        return np.array(self.certificate.kept, dtype=np.int64)

    @property
    def pruning_rate(self) -> float:
        """Share of the units (rounds or trees) that were removed."""
        return 1.0 - self.certificate.units_kept / self.certificate.units_before

    def summary(self) -> str:
        """A short readable text: what was removed, what is promised, what it rests on."""
        c = self.certificate
        trees = f"{c.trees_before} -> {c.trees_after} trees"
        leaves = f"{c.leaves_before} -> {c.leaves_after} leaves"
        best = "provably the fewest" if c.optimal else f"at least {c.lower_bound} are needed"
        lines = [
            f"{c.status}: {trees}, {leaves} ({self.pruning_rate:.0%} of the {c.unit}s removed, "
            f"{best})",
            c.claim or c.reason,
        ]
        if c.claim and c.reason:
            lines.append(c.reason)
        if c.proofs:
            methods = sorted({proof.method for proof in c.proofs})
            n_questions = len({proof.question for proof in c.proofs})
            lines.append(
                f"Proved {n_questions} questions, each by {' and by '.join(methods)}; "
                f"probabilities moved by {c.probability_shift['mean']:.3f} on average."
            )
        lines.append(f"{self.search.rounds} oracle rounds, {self.search.seconds:.1f} s.")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        c = self.certificate
        colour = "#1a7f37" if c.status == "CERTIFIED" else "#9a6700"
        rows = {
            "trees": f"{c.trees_before} → {c.trees_after}",
            "leaves": f"{c.leaves_before} → {c.leaves_after}",
            "alpha": f"{c.alpha:g}",
            "lower bound": f"{c.lower_bound} {c.unit}s",
        }
        cells = "".join(f"<tr><th>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
        return (
            f"<div><b style='color:{colour}'>{c.status}</b> "
            f"<p>{html.escape(c.claim or c.reason)}</p><table>{cells}</table></div>"
        )

    def evaluate(self, X: Any, y: Any = None) -> Evaluation:
        """Compare both native models on rows of your own.

        Parameters
        ----------
        X : table
        y : labels, optional
            As the native ``predict`` returns them (class indices for boosters and files).
        """
        before, after = predict_classes(self.original, X), predict_classes(self.pruned, X)
        needs_margin = self.region.delta is not None
        given = self.original.forest if needs_margin else None
        inside = self.region.contains(X, model=given)
        same = before == after
        accuracy: list[float | None] = [None, None]
        if y is not None:
            labels = np.asarray(y).reshape(-1)
            if len(labels) != len(before):
                raise InvalidInputError(f"X has {len(before)} rows and y {len(labels)}.")
            classes = np.asarray(self.original.forest.classes)
            accuracy = [float(np.mean(classes[c] == labels)) for c in (before, after)]
        return Evaluation(
            n_rows=len(before),
            fidelity=float(same.mean()),
            fidelity_in_region=float(same[inside].mean()) if inside.any() else float("nan"),
            coverage=self.region.coverage(X, model=given),
            accuracy_before=accuracy[0],
            accuracy_after=accuracy[1],
        )

    def to_treelite(self) -> Any:
        """The pruned model as a Treelite model (see `pine_boost.exporters.treelite`)."""
        from pine_boost.exporters.treelite import to_treelite

        return to_treelite(self.pruned)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the native model, certificate.json, region.json and report.html to a folder.

        Every file is written under a temporary name and renamed, the certificate last, so that a
        folder with a certificate is complete.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        name, contents = self.model_file()
        write_file(folder / name, contents)
        self.region.save(folder / "region.json")
        from pine_boost.report import render_report

        write_file(folder / "report.html", render_report(self).encode())
        write_file(folder / "certificate.json", self.certificate.to_json().encode())
        return folder

    def model_file(self) -> tuple[str, bytes]:
        """Name and contents of the native model file."""
        library = self.original.forest.library
        if isinstance(self.model, (bytes, bytearray)):
            text = self.model[:1] == b"{" and self.model[1:2] in b'"\n '
            suffix = "txt" if library == "lightgbm" else ("json" if text else "ubj")
            return f"model.{suffix}", bytes(self.model)
        if library == "xgboost":
            booster = self.model.get_booster() if hasattr(self.model, "get_booster") else self.model
            return "model.json", bytes(booster.save_raw(raw_format="json"))
        if library == "lightgbm":
            booster = getattr(self.model, "booster_", self.model)
            return "model.txt", booster.model_to_string(num_iteration=-1).encode()
        return "model.pkl", pickle.dumps(self.model)


def write_file(path: Path, contents: bytes) -> None:
    """Write under a temporary name in the same folder, then replace in one step."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
