"""The result of `compress_booster`: the smaller model and the record of its test.

Only the sentence that belongs to the status is ever printed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pine_boost.budget import Budget, Outcome
from pine_boost.certificate.certificate import library_versions
from pine_boost.certificate.claims import NON_INFERIOR, VALIDATED, attack_claim, lossless_in_words
from pine_boost.certificate.saved import REPORT, digests, model_path, read_named
from pine_boost.compression.distance import measure
from pine_boost.compression.goal import ERROR, SQUARED, Goal, Loss
from pine_boost.compression.path import Task
from pine_boost.compression.reading import Tables
from pine_boost.compression.record import (
    RECORD,
    WORK,
    CompressionRecord,
    TestedSize,
    headline,
    labels_digest,
    read_record,
    rows_digest,
)
from pine_boost.compression.validation import Validated
from pine_boost.errors import InvalidInputError
from pine_boost.files import MODEL_LIMIT, read_limited
from pine_boost.folders import write_folder
from pine_boost.model.digest import forest_digest
from pine_boost.model.digits import rounded_up
from pine_boost.model.forest import Model
from pine_boost.native.child_process import try_in_child
from pine_boost.native.figures import SIZES, SideBySide, side_by_side
from pine_boost.native.predict import model_file, original_bytes
from pine_boost.notebooks import displayed
from pine_boost.options import CompressOptions, counted

_NO_ORIGINAL = (
    "This result was loaded from its folder, without the original; use CompressResult.load(folder, original=...)."
)


@displayed
@dataclass(frozen=True, eq=False, repr=False)
class CompressResult:
    """A smaller model and the record of its test.

    Attributes
    ----------
    model : object or bytes
        Of the same kind as the model that was given; bytes of the same format for a file.
    record : CompressionRecord
    original : Model or None
        As parsed; None for a result that was loaded without it.
    compressed : Model
    changed : bool (n_val,) or None
        Validation rows on which the two native models differ; None for a loaded result.
    """

    model: Any
    record: CompressionRecord
    original: Model | None = field(repr=False)
    compressed: Model = field(repr=False)
    changed: Any = field(default=None, repr=False)

    @property
    def status(self) -> str:
        """``"VALIDATED"``, ``"NON_INFERIOR"``, ``"MEASURED"`` or ``"NOT_VALIDATED"``."""
        return self.record.status

    @property
    def claim(self) -> str:
        """The exact statement."""
        return self.record.claim

    @property
    def stopped(self) -> str:
        """Why the path ended."""
        return self.record.stopped

    @property
    def path(self) -> tuple[TestedSize, ...]:
        """The candidates that were tested, largest first."""
        return self.record.path

    @property
    def leaves_before(self) -> int:
        """Leaves of the original."""
        return self.record.leaves_before

    @property
    def leaves_after(self) -> int:
        """Leaves of the returned model."""
        return self.record.leaves_after

    @property
    def compression_rate(self) -> float:
        """Share of the leaves that are gone."""
        return 1.0 - self.leaves_after / self.leaves_before

    @cached_property
    def side_by_side(self) -> SideBySide | None:
        """Size and work of both models, and what measures their speed; None without the original."""
        if self.original is None:
            return None
        work = self.record.work_before, self.record.work_after
        return side_by_side(self.original, self.compressed, work, "X_fit").unless_interrupted(self.stopped)

    def speedup(self, X: Any = None, sizes: Sequence[int] = SIZES) -> dict[int, float]:
        """How many times as fast the smaller model is natively, by rows of a call; measured now, on ``X`` if given."""
        if self.side_by_side is None:
            raise InvalidInputError(_NO_ORIGINAL)
        return self.side_by_side.speedup(X, sizes)

    def summary(self) -> str:
        """What is gone, what is promised, what it rests on."""
        r = self.record
        lines = [self.headline(), self.promise(), *r.statement.evidence(), *r.statement.losses()]
        if r.probability_shift:
            lines.append(
                f"Probabilities moved by {r.probability_shift['mean']:.4f} on average and by "
                f"{rounded_up(r.probability_shift['maximum'], 3)} at most on the validation rows."
            )
        if r.attack_starts:
            lines.append(attack_claim(r.attack_distance, r.attack_starts))
        if r.proved_rows:  # else it is in the record and the report only
            lines.append(r.proved_claim())
        lines.append(lossless_in_words(r.leaves_before, r.leaves_lossless))
        if self.side_by_side is not None and self.compressed is not self.original:
            lines += self.side_by_side.summary()
        ended = f", the path ended early ({r.stopped})" if r.stopped != "effort" else ""
        lines.append(f"Tested {counted(len(r.path), 'size')} in {r.seconds:.1f} s{ended}.")
        return "\n".join(lines)

    def headline(self) -> str:
        """One line: the status and what is gone."""
        return headline(self.record.status, self.record.minimize, vars(self.record))

    def promise(self) -> str:
        """The claim in short sentences with one number each."""
        return self.record.promise()

    def path_table(self) -> list[dict[str, Any]]:
        """The tested sizes as rows for a DataFrame or a CSV file."""
        return [asdict(tested) for tested in self.path]

    def evaluate(self, X: Any) -> float:
        """Share of rows of your own that keep their native answer.

        A measurement: use rows that were not part of X_val.
        """
        if self.original is None:
            raise InvalidInputError(_NO_ORIGINAL)
        try_in_child(self.original, self.compressed)  # a folder may come from an untrusted source
        goal = Goal(self.original.forest, self.record.tolerance)
        before, after = goal.native_answers(self.original, X), goal.native_answers(self.compressed, X)
        return float((~goal.differ(before, after)).mean())

    def plot(self, ax: Any = None) -> Any:
        """Draw the tested sizes, their bounds and the target; needs matplotlib."""
        from pine_boost.plots import plot_path

        return plot_path(self.record, ax)

    def files(self, X_val: Any = None, others: Mapping[str, bytes] = MappingProxyType({})) -> dict[str, bytes]:
        """The files of the result by name: native model, compression.json.

        With the validation rows, report.html too. ``others`` are files to save with them; the record names them too.
        """
        name, contents = model_file(self.model, self.compressed.forest.library)
        files = {name: contents}
        if X_val is not None:
            from pine_boost.report.compression_report import render_compression

            files[REPORT] = render_compression(self, X_val).encode()
        files |= others
        record = replace(self.record, files=digests(files))
        return {**files, RECORD: record.to_json().encode()}

    def save(self, folder: str | os.PathLike[str], X_val: Any = None, *, overwrite: bool = False) -> Path:
        """Write the model and compression.json, each under a temporary name first.

        With ``X_val``, the validation rows, report.html too.

        Raises
        ------
        InvalidInputError
            The folder holds files of these names that are no earlier result.
        OutputError
            The system refused to write.
        """
        return write_folder(folder, self.files(X_val), overwrite=overwrite)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], original: Any = None, *, trust_pickle: bool = False
    ) -> CompressResult:
        """Read a saved result; the model comes back as a file, a pickle as a live object.

        Parameters
        ----------
        folder : path
        original : model, path or bytes, optional
            What was compressed; needed by `evaluate`, `speedup` and the sizes in `summary`.
        trust_pickle : bool
            Load pickled models; only for files you made.

        Raises
        ------
        CertificateMismatch
            A model is not the one that the record names.
        """
        record = read_record(folder)
        path = model_path(Path(folder) if Path(folder).is_dir() else Path(folder).parent)
        read = partial(read_named, stated=record, what="record", decision="value", trust_pickle=trust_pickle)
        compressed = read(path, role="compressed")
        before = None if original is None else read(original, role="original")
        native = compressed.native
        native = read_limited(path, MODEL_LIMIT, "model file") if native is None else native
        return cls(native, record, before, compressed)


def build_compress_result(
    task: Task,
    tested: Outcome[Validated],
    attacked: Mapping[str, Any],
    tables: Tables,
    options: CompressOptions,
    loss: Loss | None,
    budget: Budget,
) -> CompressResult:
    """Put the record together; the original is returned where nothing smaller passed."""
    parsed, validated = task.parsed, tested.best
    written = validated.written
    compressed = parsed if written is None else written.model
    native = parsed.native if written is None else written.native
    if native is None:
        native = original_bytes(parsed)
    goal, work = task.goal, replace(task.cost, minimize=WORK)
    promise = VALIDATED if options.max_loss is None else NON_INFERIOR
    record = CompressionRecord(
        status=tables.status(has_passed=written is not None, promise=promise),
        claim="",
        original_digest=forest_digest(parsed.forest),
        compressed_digest=forest_digest(compressed.forest),
        validation_digest=rows_digest(tables.val, parsed.forest.n_features),
        fidelity=None if options.fidelity is None else float(options.fidelity),
        confidence=float(options.confidence),
        tolerance=None if goal.tolerance is None else float(goal.tolerance),
        max_loss=None if options.max_loss is None else float(options.max_loss),
        loss=ERROR if loss is None else loss.kind,
        loss_range=None if loss is None or loss.kind != SQUARED else loss.scale,
        loss_costs=() if loss is None or loss.costs is None else tuple(map(tuple, loss.costs.tolist())),
        labels_digest=labels_digest(loss.labels) if loss is not None and validated.losses else None,
        keeps_class=goal.keeps_class,
        thresholds=parsed.forest.decision.thresholds,
        minimize=options.minimize,
        work_before=work.of(task.original),
        work_after=work.of(task.original if written is None else written.shape),
        n_fit=tables.fit.n_rows,
        n_val=tables.val.n_rows,
        overlap=tables.overlap.share,
        leaves_lossless=goal.forest.n_leaves,
        path=validated.tested,
        segments=tables.segments(validated.changed, options.confidence),
        **attacked,
        **measure(
            *(parsed, compressed, tables.X_val, validated.changed, validated.losses, options.confidence),
            () if written is None else written.source_trees,
            budget.check,
        ),
        seed=int(options.random_state),
        seconds=budget.elapsed,
        stopped=str(tested.why),
        versions=library_versions(parsed.forest.library),
        date=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    record = replace(record, claim=record.statement.claim())
    return CompressResult(native, record, parsed, compressed, validated.changed)
