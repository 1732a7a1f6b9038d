"""accelerate_booster and its result: a scorer with the original's classes that exits early, proved or validated."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost import kernels
from pine_boost.budget import Budget, Step, StopReason, finishing
from pine_boost.certificate.certificate import library_versions
from pine_boost.certificate.claims import NOT_VALIDATED, Statement, scorer_claim, tested_scorer_claim
from pine_boost.committee import accelerate_committee, committee_of
from pine_boost.compress import compress_booster
from pine_boost.compression.record import Segment, rows_digest
from pine_boost.errors import InvalidInputError
from pine_boost.folders import write_folder
from pine_boost.model.digest import forest_digest
from pine_boost.model.flatten import flatten
from pine_boost.model.forest import FloatArray, Forest, Model
from pine_boost.model.synthetic_rows import WORK_ROWS, synthetic_rows, work_of
from pine_boost.native.child_process import try_in_child
from pine_boost.native.figures import SIZES, Figures, SideBySide, file_size, is_quick, native_predict
from pine_boost.native.predict import require_library
from pine_boost.notebooks import displayed
from pine_boost.options import AccelerateOptions, counted, given
from pine_boost.parsers import open_pickle, read_model
from pine_boost.pipelines.unwrapping import Wrapper, unwrap
from pine_boost.progress import say, shown
from pine_boost.scoring.fast_scorer import FastScorer, ScorerParts
from pine_boost.scoring.native_sum import is_unordered, native_sum, require_own_predict
from pine_boost.scoring.proved_exits import SAMPLE_ROWS, keep_trees, parts_of_model, proved_plan, truncate
from pine_boost.scoring.scorer_folder import scorer_files
from pine_boost.scoring.validated_exits import find_exits
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import as_table, first_rows
from pine_boost.tables.rows import open_rows
from pine_boost.tables.schema import schema_of

# what a record of a compression and the statement of a scorer have in common
_STATED = (
    *("fidelity", "confidence", "tolerance", "n_fit", "n_val", "n_changed", "bound", "overlap"),
    *("validation_digest", "segments", "path"),
)
_WORK_CELLS = 10_000_000  # rows x trees on which the work is measured
_ALL_TREES = "predict_proba and decision_function evaluate all trees: they are those of the model itself."


@displayed
@dataclass(frozen=True, eq=False, repr=False)
class AccelerateResult:
    """A fast scorer and the statement that holds for it.

    Attributes
    ----------
    scorer : FastScorer
    seconds : float
        What building and proving took.
    facts : mapping
        Status, claim, work, digests, versions: what the manifest records.
    native : callable
        The native ``predict`` of the model that was given.
    sample : array
        Rows for `speedup` where none are given.
    """

    scorer: FastScorer
    seconds: float
    facts: Mapping[str, Any] = field(repr=False)
    original: Model = field(repr=False)
    native: Callable[[Any], Any] = field(repr=False)
    sample: Any = field(repr=False)

    @property
    def status(self) -> str:
        """``"CERTIFIED"``, ``"VALIDATED"``, ``"MEASURED"`` or ``"NOT_VALIDATED"``.

        CERTIFIED: proved for every input. VALIDATED: a statistic about future inputs. MEASURED: only about the rows at
        hand, as X_val overlaps X_fit. NOT_VALIDATED: no earlier exits passed the test, so the scorer is the proved one.
        """
        return str(self.facts["status"])

    @property
    def claim(self) -> str:
        """The one sentence that may be said of the scorer."""
        return str(self.facts["claim"])

    @property
    def stopped(self) -> str | None:
        """``"interrupted"`` after Ctrl-C, else None."""
        return self.facts.get("stopped")

    @property
    def work(self) -> float:
        """Mean share of the trees that an input meets, on the rows that ``work_rows`` names."""
        return float(self.facts["work"])

    @property
    def work_rows(self) -> str:
        """``"X_fit"``, or ``"synthetic rows"`` drawn from the leaves where no data were given."""
        return str(self.facts["work_rows"])

    @cached_property
    def side_by_side(self) -> SideBySide:
        """Size and work of the model and of the scorer, and what measures their speed."""
        before, after = self.facts["work_per_row"]
        flat, model = self.scorer.parts.flat, self.original
        return SideBySide(
            Figures(model.forest.n_trees, model.forest.n_leaves, file_size(model), before),
            Figures(flat.n_trees, flat.n_leaves, sum(map(len, self.files().values())), after),
            self.work_rows,
            self._calls,
            self.sample,
            is_quick(model),
            self.scorer.parts.prepare is None or self._is_inside,
            "the ensemble inside" if self._is_inside else "the original",
        ).unless_interrupted(self.stopped)

    @property
    def _is_inside(self) -> bool:
        """Whether the sample was drawn from the leaves, behind the first steps of a Pipeline."""
        return self.scorer.parts.prepare is not None and self.work_rows != "X_fit"

    def _calls(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        try_in_child(self.original)
        if self._is_inside:
            inside = FastScorer(replace(self.scorer.parts, prepare=None, finish=None))
            return native_predict(self.original), inside.predict
        return self.native, self.scorer.predict

    def speedup(self, X: Any = None, sizes: Sequence[int] = SIZES) -> dict[int, float]:
        """How many times as fast as the native ``predict`` the scorer is, measured now.

        Parameters
        ----------
        X : table, optional
            Rows to score, repeated as often as needed; default: those that `work` was measured on. If those are
            synthetic rows for a Pipeline, the ensemble inside is timed without its first steps.
        sizes : sequence of int
            Numbers of rows per call.

        Returns
        -------
        dict
            Number of rows to ratio of times. Both are timed in turn, the best of several calls each.
        """
        side = self.side_by_side
        if X is not None and self._is_inside:
            side = replace(side, calls=lambda: (self.native, self.scorer.predict), takes_arrays=False)
        return side.speedup(X, sizes)

    def files(self) -> dict[str, bytes]:
        """The files of the scorer's folder by name."""
        return scorer_files(self.scorer.parts, self.facts)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the scorer's folder, which `load_scorer` reads and ``pine-boost verify`` proves again."""
        return write_folder(folder, self.files(), overwrite=overwrite)

    def headline(self) -> str:
        """One line: the status and what an input costs."""
        n_trees = self.original.forest.n_trees
        visited = self.work * n_trees
        trees = f"{self.status}: {counted(n_trees, 'tree')}"
        if round(visited) == n_trees:
            return f"{trees}; a typical input visits all of them ({self.work_rows})."
        if not self.scorer.parts.classes:
            return f"{trees}; every input visits the same {visited:.0f}."
        shown = f"{visited:.0f}" if visited >= 10 else f"{visited:.1f}"
        return f"{trees}; a typical input visits {shown} of them ({self.work_rows})."

    def summary(self) -> str:
        """What is claimed, what it costs, what runs."""
        flat = self.scorer.parts.flat
        return "\n".join(
            [
                self.headline(),
                self.promise(),
                *self._tested(),
                *self.side_by_side.summary(),
                f"{flat.n_leaves} leaves; kernel: {kernels.name()}; built and checked in {self.seconds:.2f} s.",
            ]
        )

    @property
    def statement(self) -> Statement | None:
        """The numbers of the test; None for a proved scorer."""
        tested = self.facts.get("validation")
        if tested is None:
            return None
        segments = [Segment(**segment) for segment in tested["segments"]]
        return replace(Statement.of_scorer(self.status, tested, self.original.forest), segments=segments)

    def promise(self) -> str:
        """The claim, for a tested scorer in two short sentences."""
        return self.claim if self.statement is None else self.statement.promise(self.claim)

    def _tested(self) -> list[str]:
        """What the validation rows showed; nothing for a proved scorer."""
        if self.statement is None or self.status == NOT_VALIDATED:
            return []
        is_smaller = "compressed_digest" in self.facts["validation"]
        return [*self.statement.evidence(), *(() if is_smaller else (_ALL_TREES,))]


def accelerate_booster(
    model: Any,
    X_fit: Any = None,
    X_val: Any = None,
    *,
    fidelity: float = 1.0,
    confidence: float = 0.95,
    tolerance: float | None = None,
    threshold: float | Sequence[float] | None = None,
    time_limit: float | None = None,
    random_state: int = 0,
    callback: Callable[[Step], None] | None = None,
    verbose: bool | None = None,
    allow_overlap: bool = False,
    segments: Any = None,
    spent: Any = None,
    trust_pickle: bool = False,
) -> AccelerateResult:
    """Return a scorer that gives the model's own classes in microseconds.

    With ``fidelity=1`` the scorer's ``predict`` is proved to equal the native ``predict`` on every
    input that the library accepts, and no data are needed. Trees are visited in an order of the
    scorer's own, and an input exits as soon as the remaining trees cannot change its class. For a
    regressor or ranker with a ``tolerance``, trees that cannot move the raw value by more are left out.

    Parameters
    ----------
    model : object, path or bytes
        A trained XGBoost, LightGBM, CatBoost or scikit-learn tree ensemble, also a regressor or
        ranker, or a Pipeline, threshold wrapper or calibrated classifier around one. A
        CalibratedClassifierCV or soft VotingClassifier that averages several needs ``fidelity``
        below 1. It is never modified.
    X_fit : table, optional
        Rows for which the order of the trees is chosen and on which the work is measured; the
        training rows are fine. No labels are needed. Without them the trees that can add most come
        first, and the work is measured on synthetic rows. They are required if ``fidelity`` is
        below 1, because leaf values of early exits are fitted to them.
    X_val : table, optional
        Rows that neither the model nor you have seen, for the test where fidelity is below 1. They
        are used up by it.
    fidelity : float
        Share of future inputs that must keep their answer; 1 proves every input and needs no data.
        Below 1 the scorer is tested on X_val.
    confidence : float
        Confidence of the statement over the draw of X_val.
    tolerance : float, optional
        How far a value may move. With fidelity 1 only for regressors and rankers: no raw value
        moves by more, on any input. Below 1: for classifiers no probability, for regressors and
        rankers (where it is required) no raw value moves by more. It is refused with a calibrator
        around the ensemble.
    threshold : float or sequence of float, optional
        Your own decision threshold on the probability of class 1 (for regressors and rankers, on
        the raw margin before any link function); several ascending values define score bands.
    time_limit : float, optional
        Seconds for the whole call. If there is no time to predict X_val, the scorer is the proved
        one (NOT_VALIDATED).
    random_state : int
        Seed of everything random; without a time limit the same call gives the same result.
    callback : callable, optional
        Called with a `Step` after each step.
    verbose : bool, optional
        Whether to show progress on stderr. By default it is shown on a terminal and in a notebook,
        unless there is a callback. Log messages go to the logger ``pine_boost``.
    allow_overlap : bool
        Continue although rows of X_val also occur in X_fit; then the result is only MEASURED.
    segments : column, labels or mapping of them, optional
        Also count the changed rows per segment, for example per value of a column of X_val.
    spent : Survey or path, optional
        Survey or survey file; its rows are refused here.
    trust_pickle : bool
        Load models from pickle and joblib files, which runs code from the file; use it only for
        files you made.

    Returns
    -------
    AccelerateResult
        ``scorer`` is a `FastScorer`; ``status`` is ``"CERTIFIED"`` or ``"VALIDATED"``. A `CommitteeResult`
        for a model that averages several ensembles.

    Raises
    ------
    UnsupportedModelError
        A model that cannot be read, or whose values are no function of its leaves.
    InvalidInputError
        Options or tables that do not fit.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> import pine_boost
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> gb = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(X, y)
    >>> result = pine_boost.accelerate_booster(gb)
    >>> result.status
    'CERTIFIED'
    >>> bool((result.scorer.predict(X) == gb.predict(X)).all())
    True
    """
    options = given(AccelerateOptions, locals())
    budget = Budget.of(time_limit)
    source = open_pickle(model, trust_pickle)
    committee = committee_of(source)
    if committee is not None:  # several calibrators, or a soft vote
        average: Any = accelerate_committee(committee, X_fit, X_val, options, spent, accelerate_booster)
        return average  # type: ignore[no-any-return]
    outer = unwrap(source, threshold)
    column = None if X_val is None else outer.raw_column(segments, X_val)
    asked, options = options, replace(options, threshold=outer.threshold, segments=column)
    _require_rows(fidelity, X_fit, X_val)
    parsed = read_model(outer.inner, threshold=outer.threshold, decision="value")
    require_own_predict(parsed)
    if fidelity < 1:
        require_library(parsed)
    forest = parsed.forest
    if fidelity < 1 and (tolerance is not None or not forest.decides):
        return _accelerate_compressed(model, X_fit, X_val, asked, spent, trust_pickle, parsed, outer)
    native, visited = native_sum(parsed), forest
    claim = scorer_claim(forest, is_unordered=is_unordered(parsed), is_inside=bool(outer.deciding))
    status, plan, facts = "CERTIFIED", None, dict[str, Any]()
    # trees that no value needs
    if tolerance is not None:
        kept, native = truncate(forest, native, tolerance)
        if len(kept) < forest.n_trees:
            visited = keep_trees(forest, kept, native.intercept)
            claim = scorer_claim(forest, is_unordered=False, tolerance=tolerance)
            facts["truncation"] = {"tolerance": float(tolerance), "trees": kept.tolist()}
    # exits, tested or proved
    flat = flatten(visited)
    if fidelity < 1:
        X = outer.rows(X_fit), outer.rows(X_val)
        status, statement, plan = find_exits(parsed, flat, native, *X, options, spent, budget)
        claim = tested_scorer_claim(Statement.of_scorer(status, statement, forest), claim, is_smaller=False)
        facts |= {"validation": statement, "made": _made(forest, X[0], options)}
    n_sampled = int(np.clip(_WORK_CELLS // forest.n_trees, SAMPLE_ROWS, 20 * SAMPLE_ROWS))
    rows = None if X_fit is None else to_matrix(first_rows(outer.rows(X_fit), n_sampled), schema_of(forest))
    sample = synthetic_rows(forest, SAMPLE_ROWS, random_state) if rows is None else rows
    if plan is None:
        with shown(verbose, time_limit, callback) as report_progress:
            say(report_progress, "proving the exits")
            plan = budget.run(proved_plan, visited, flat, sample, is_fitted=rows is not None, budget=budget)
    # the scorer and its facts
    if budget.is_interrupted:
        facts["stopped"] = str(StopReason.INTERRUPTED)
    with finishing():
        parts = parts_of_model(parsed, flat, native, plan, prepare=outer.prepare, finish=outer.finish)
        facts |= {
            "model_digest": forest_digest(forest),
            "status": status,
            "claim": claim,
            "thresholds": forest.decision.thresholds,
            **_work(forest, visited, parts, sample),
            "work_rows": "synthetic rows" if X_fit is None else "X_fit",
            "kernel": kernels.name(),
            "versions": library_versions(forest.library),
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return AccelerateResult(
            scorer=FastScorer(parts),
            seconds=budget.elapsed,
            facts=facts,
            original=parsed,
            native=native_predict(parsed, outer.outer),
            sample=as_table(sample, schema_of(forest)) if X_fit is None else first_rows(X_fit, n_sampled),
        )


def _work(forest: Forest, visited: Forest, parts: ScorerParts, sample: FloatArray) -> dict[str, Any]:
    """Share of the trees that the rows of a sample meet, and what a row costs before and after."""
    flat, met, few = parts.flat, np.zeros(len(sample), dtype=np.int32), slice(WORK_ROWS)
    kernels.bind(flat, parts.native, parts.plan).classes(sample, met=met)
    before = work_of(forest, sample[few], flat=flat if visited is forest else None)
    after = work_of(visited, sample[few], parts.plan.order, met[few], flat=flat)
    return {"work": float(met.mean()) / forest.n_trees, "work_per_row": [before, after]}


def _require_rows(fidelity: float, X_fit: Any, X_val: Any) -> None:
    """A statistic needs rows, a proof needs none."""
    if fidelity == 1 and X_val is not None:
        raise InvalidInputError(
            "X_val was given, but fidelity=1 is proved and needs no rows; leave it out.", option=("X_val", "fidelity")
        )
    missing = [name for name, table in (("X_fit", X_fit), ("X_val", X_val)) if table is None]
    if fidelity < 1 and missing:
        raise InvalidInputError(
            f"fidelity={fidelity!r} is a statistic that needs rows, but {' and '.join(missing)} was not given. Pass "
            "X_fit (the training rows will do) and X_val (rows that nothing has seen), or fidelity=1 for a proof.",
            option=("X_fit", "X_val", "fidelity"),
        )


def _made(forest: Forest, X_fit: Any, options: AccelerateOptions) -> dict[str, Any]:
    """What the same scorer can be made from again, beside the targets of the test."""
    fit_digest = rows_digest(open_rows(X_fit, schema_of(forest), "X_fit"), forest.n_features)
    return {"fit_digest": fit_digest, "random_state": options.random_state, "time_limit": options.time_limit}


def _accelerate_compressed(
    model: Any,
    X_fit: Any,
    X_val: Any,
    asked: AccelerateOptions,
    spent: Any,
    trust_pickle: bool,
    parsed: Model,
    outer: Wrapper,
) -> AccelerateResult:
    """Values within a tolerance: the scorer of a smaller model, all of whose trees are evaluated."""
    trusted: dict[str, Any] = {"trust_pickle": trust_pickle}
    budget = Budget.of(asked.time_limit)
    smaller = compress_booster(model, X_fit, X_val, **vars(asked), spent=spent, minimize="trees", **trusted)
    record = smaller.record
    if record.stopped == StopReason.INTERRUPTED:
        budget.interrupt()
    seed, limit = asked.random_state, budget.time_limit()
    result = accelerate_booster(
        smaller.model, X_fit, threshold=asked.threshold, random_state=seed, time_limit=limit, **trusted
    )
    plain = asdict(record)
    facts = {
        **result.facts,
        **({"stopped": record.stopped} if record.stopped == StopReason.INTERRUPTED else {}),
        "model_digest": record.original_digest,
        "status": record.status,
        "claim": tested_scorer_claim(record.statement, result.claim, is_smaller=True),
        "work": result.work * smaller.compressed.forest.n_trees / parsed.forest.n_trees,
        "work_per_row": [record.work_before, result.facts["work_per_row"][1]],
        "validation": {name: plain[name] for name in (*_STATED, "compressed_digest")},
        "made": _made(parsed.forest, outer.rows(X_fit), asked),
    }
    parts = result.scorer.parts
    return replace(
        result,
        scorer=FastScorer(replace(parts, probability=replace(parts.probability, is_original=False))),
        seconds=record.seconds + result.seconds,
        facts=facts,
        original=parsed,
        native=native_predict(parsed, outer.outer),
    )
