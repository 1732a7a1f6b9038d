"""A survey: how small a model can become, with which kind of promise, and by which call.

All figures are estimates, because the rows were looked at to choose: `Survey.check` refuses them as calibration or
validation rows later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pine_boost.accelerate import AccelerateResult, accelerate_booster
from pine_boost.budget import SHARES, Budget, Step, StopReason, finishing
from pine_boost.certificate.claims import lossless_offer, proved_offer, scorer_offer, statistic_offer
from pine_boost.compression.fixed_sequence import Target, allowed, fewest_rows
from pine_boost.compression.path import find_path, set_up
from pine_boost.compression.reading import Tables, read_for_compression, read_tables, require_tolerance
from pine_boost.compression.record import WORK
from pine_boost.compression.validation import choose, validate
from pine_boost.errors import PineBoostError
from pine_boost.files import path_of, save_file
from pine_boost.json_fields import write_document
from pine_boost.model.forest import FloatArray, Model
from pine_boost.model.synthetic_rows import WORK_ROWS, work_of
from pine_boost.native.figures import SIZES, Figures, SideBySide, Speed, file_size, side_by_side, times_in_words
from pine_boost.native.predict import require_library
from pine_boost.notebooks import displayed, table_html
from pine_boost.options import AUTO, CompressOptions, as_call, as_command, require_seconds
from pine_boost.parsers import read_model
from pine_boost.pipelines.unwrapping import read_given
from pine_boost.progress import say, shown
from pine_boost.report.pages import render
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import as_table
from pine_boost.tables.overlap import SURVEY_FORMAT, hashes_of, read_survey, refuse_spent, row_hashes
from pine_boost.tables.schema import schema_of

ALPHAS = (0.0, 0.05, 0.1, 0.2)
FIDELITIES = (0.999, 0.995, 0.99, 0.98)
_FIDELITY_OF_SCORER = 0.99
_CONFIDENCE = 0.95
_ALPHA_OF_AUTO = 0.1
_NOTHING = "nothing smaller was found"
_NOTHING_YET = "nothing smaller was found in this time"
_NO_TIME = "not proved in this time"
_NOT_TESTED = "not tested in this time"
_NOT_TRIED = "not tried in this time"
_SPEED_SECONDS = 2.0  # for the speeds of one model
_HEADS = ("trees", "leaves", "kB", "work", "x1", "x100", "x100k")


class Asked(NamedTuple):
    """A call of the library: what `as_call` and `as_command` write."""

    function: str
    tables: tuple[str, ...] = ()
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Line:
    """One line of the table before it is measured: a promise, the call that gives it, and the model that was found.

    ``work`` is what is compared, as `compress_booster` minimises it. ``holds_everywhere`` says that the model keeps the
    class of every input, without any exception; ``source`` is the stricter promise that the model comes from, if any.
    ``side`` measures what is not a model of the same kind: a scorer.
    """

    promise: str
    call: Asked | None
    found: Model
    work: float
    note: str = ""
    holds_everywhere: bool = False
    source: str = ""
    side: SideBySide | None = None

    def with_model(self, found: Model, rows: FloatArray, **fields: Any) -> Line:
        """The line of a model that was found, if it saves work."""
        work = work_of(found.forest, rows)
        return replace(self, found=found, work=work, **fields) if work < self.work else replace(self, **fields)

    def inherit(self, stricter: Line) -> Line:
        """The model with less work: what holds for the stricter promise holds for this one."""
        if stricter.work >= self.work:
            return self
        source = stricter.source or stricter.promise
        note = "; ".join(filter(None, (self.note, f"the model of a stricter promise, {source}")))
        return replace(self, call=stricter.call, found=stricter.found, work=stricter.work, note=note, source=source)


@dataclass(frozen=True, eq=False)
class Surveyed:
    """What is surveyed.

    Attributes
    ----------
    original : Line
    rows : array
        On which the work of all models is measured.
    X_fit, X_look : table
        For the ensemble inside.
    tables : Tables
        The same as the trees see them.
    options : CompressOptions
    given : mapping
        Options of every printed call, as the user gave them.
    presses : sequence
        Every Ctrl-C so far, also those that a call inside ignored as it was making its result.
    """

    original: Line
    rows: FloatArray
    X_fit: Any
    X_look: Any
    tables: Tables
    options: CompressOptions
    given: Mapping[str, Any]
    presses: Sequence[int] = ()

    @property
    def model(self) -> Model:
        """The ensemble inside."""
        return self.original.found


def survey(
    model: Any,
    X_fit: Any,
    X_look: Any,
    *,
    tolerance: float | None = None,
    threshold: float | Sequence[float] | None = None,
    time_limit: float = 60.0,
    random_state: int = 0,
    callback: Callable[[Step], None] | None = None,
    verbose: bool | None = None,
    trust_pickle: bool = False,
) -> Survey:
    """Try everything for a while and say what could be had: accelerated, lossless, proved, compressed.

    Figures are estimates. X_look is spent by it: `Survey.check` refuses its rows for a promise.

    Parameters
    ----------
    model : object, path or bytes
        A trained XGBoost, LightGBM, CatBoost or scikit-learn tree ensemble, or a Pipeline,
        threshold wrapper or calibrated classifier around one. It is never modified.
    X_fit : table
        Rows to fit on; the training rows are fine.
    X_look : table
        Held-out rows that you can do without later; no promise can be made on them afterwards.
    tolerance : float, optional
        How far a value may move: for classifiers no probability, for regressors and rankers (where
        it is required) no raw value moves by more. It is refused with a calibrator around the
        ensemble.
    threshold : float or sequence of float, optional
        Your own decision threshold on the probability of class 1 (for regressors and rankers, on
        the raw margin before any link function); several ascending values define score bands.
    time_limit : float
        Seconds, half of them for proofs.
    random_state : int
        Seed of everything random; without a time limit the same call gives the same result.
    callback : callable, optional
        Called with a `Step` after each step of a search.
    verbose : bool, optional
        Whether to show progress on stderr. By default it is shown on a terminal and in a notebook,
        unless there is a callback. Log messages go to the logger ``pine_boost``.
    trust_pickle : bool
        Load models from pickle and joblib files, which runs code from the file; use it only for
        files you made.

    Returns
    -------
    Survey

    Raises
    ------
    UnsupportedModelError, InvalidInputError
        The model cannot be read, or the tables do not fit it or one another.

    Examples
    --------
    >>> import pine_boost
    >>> from sklearn import datasets, ensemble
    >>> X, y = datasets.load_breast_cancer(return_X_y=True)
    >>> forest = ensemble.RandomForestClassifier(5, max_depth=3, random_state=0)
    >>> forest = forest.fit(X[:250], y[:250])
    >>> found = pine_boost.survey(forest, X[:250], X[250:], time_limit=10)
    >>> found.offers[0].promise
    'the original'
    >>> found.offers[1].promise
    'accelerated: the same class on every input, proved'
    >>> found.offers[2].promise
    'accelerated, a statistic: 99.0% of future inputs keep their class (confidence 95%)'
    >>> found.offers[3].promise
    'lossless: the same margin on every input'
    """
    require_seconds(time_limit, "time_limit")
    budget = Budget.of(time_limit)
    with shown(verbose, time_limit, callback) as report_progress, finishing(ignored=0) as presses:
        say(report_progress, "reading the model and the rows")
        read = read_given(model, threshold=threshold, trust_pickle=trust_pickle, decision="value")
        outer, parsed = read.wrapper, read.parsed  # figures are those of the ensemble inside
        require_library(parsed)
        outer.require_own_probabilities(tolerance)
        require_tolerance(parsed, tolerance)
        X_fit, X_look = outer.rows(X_fit), outer.rows(X_look)
        options = CompressOptions(tolerance=tolerance, threshold=outer.threshold, random_state=random_state)
        tables = read_tables(parsed, X_fit, X_look, options, name="X_look")
        given = {} if threshold is None else {"threshold": threshold}  # as the user gave it, so that printed calls run
        rows = tables.fit.take(np.arange(min(WORK_ROWS, tables.fit.n_rows)))
        line = Line("the original", None, parsed, work_of(parsed.forest, rows))
        asked = Surveyed(line, rows, X_fit, X_look, tables, options, given, presses)
        fast = [budget.run(_accelerated, asked, budget)]  # first: it needs no data
        lossless = budget.run(_lossless, asked, budget)
        budget = replace(budget, callback=report_progress)
        proved = _proved(asked, budget) if parsed.forest.decides else []
        if parsed.forest.decides and tolerance is None:  # within a tolerance a scorer is one of a compressed model
            fast.append(budget.run(_accelerated_by_statistic, asked, budget, fast[0]))
        compressed = budget.run(_compressed, asked, budget)
        say(report_progress, "measuring speeds")
        lines = [line, *_monotone(lossless, proved, compressed, tolerance), *fast]  # scorers may take all time left
        original, *others = budget.run(_measured, parsed, lines, budget)
    offers = (original, *others[-len(fast) :], *others[: -len(fast)])
    looked_at = hashes_of(tables.val)
    return Survey(offers, tables.val.n_rows, budget.elapsed, looked_at, parsed, budget.is_interrupted)


def _monotone(lossless: Line, proved: list[Line], compressed: list[Line], tolerance: float | None) -> list[Line]:
    """All lines from the strictest to the loosest promise, none with a larger model than a stricter one.

    ``proved`` are those for all alphas, ascending, and last the one that leaves inputs near the boundary out.
    """

    def pass_on(stricter: Line, line: Line) -> Line:
        return line.inherit(stricter)

    strict = list(accumulate([lossless, *proved[:-1]], pass_on))
    near = [pass_on(strict[1 + ALPHAS.index(_ALPHA_OF_AUTO)], proved[-1])] if proved else []
    is_faithful = proved and strict[1].holds_everywhere and tolerance is None
    start = strict[1] if is_faithful else lossless
    return [*strict, *near, *list(accumulate([start, *compressed], pass_on))[1:]]


def _measured(parsed: Model, lines: Sequence[Line], budget: Budget) -> tuple[Offer, ...]:
    """The offers, with the size and the speed of every model, each measured once."""
    known: dict[int, tuple[Figures, tuple[Speed, ...]]] = {}
    offers = []
    for line in lines:
        found, forest, side = line.found, line.found.forest, line.side
        key = id(side or found)
        if key not in known:
            figures = Figures(forest.n_trees, forest.n_leaves, file_size(found), line.work)
            speeds: tuple[Speed, ...] = ()
            if (side or (found is not parsed and not budget.is_interrupted)) and not budget.is_over:
                share = SHARES["survey speed of the scorer" if side else "survey speeds"]
                seconds = min(_SPEED_SECONDS, share * budget.remaining)
                speeds = (side or side_by_side(parsed, found)).speeds(seconds=seconds)
            known[key] = side.after if side else figures, speeds
        figures, speeds = known[key]
        ratios = {speed.n_rows: speed.ratio for speed in speeds}
        at_1, at_100, at_100000 = (ratios.get(size) for size in SIZES)
        sizes = (figures.trees, figures.leaves, figures.bytes)
        note = line.note or (_NOTHING if found is parsed and line.call else "")
        texts = ("", "") if line.call is None else (as_call(*line.call), as_command(*line.call))
        offers.append(Offer(line.promise, *sizes, line.work, at_1, at_100, at_100000, note, *texts))
    return tuple(offers)


def _accelerated(asked: Surveyed, budget: Budget) -> Line:
    """The proved scorer and its work on the rows of all lines; its speed is relative to the native ``predict``."""
    forest = asked.model.forest
    moved: dict[str, Any] = {} if forest.decides else {"tolerance": asked.options.tolerance}
    call = Asked("accelerate_booster", (), {**moved, **asked.given})
    line = replace(asked.original, promise=scorer_offer(moved.get("tolerance")), call=call)
    seconds = budget.time_limit() if budget.is_interrupted else None
    how: dict[str, Any] = {**moved, "time_limit": seconds, "random_state": asked.options.random_state}
    try:
        fast = accelerate_booster(asked.model, **how, verbose=False)
    except PineBoostError as error:
        return _refused(line, error)
    line = _of_scorer(line, asked, fast, budget)
    return replace(line, note=f"needs no data; {line.note}")


def _accelerated_by_statistic(asked: Surveyed, budget: Budget, proved: Line) -> Line:
    """The scorer with earlier exits, tested on the rows that are looked at; the proved one if no exits pass."""
    extra = {"fidelity": _FIDELITY_OF_SCORER, **asked.given, "spent": "survey"}
    call = Asked("accelerate_booster", ("X_fit", "X_val"), extra)
    promise = f"accelerated, {statistic_offer(_FIDELITY_OF_SCORER, _CONFIDENCE, 'class')}"
    line, n_look = replace(asked.original, promise=promise, call=call), asked.tables.val.n_rows
    if allowed(n_look, _FIDELITY_OF_SCORER, _CONFIDENCE) < 0:
        return replace(line, note=f"needs {fewest_rows(_FIDELITY_OF_SCORER, _CONFIDENCE)} rows, X_look has {n_look}")
    if budget.is_over or budget.is_interrupted:
        return replace(line, note=_NOT_TESTED)
    seconds, seed = budget.part("survey scorer").remaining, asked.options.random_state
    how: dict[str, Any] = {"fidelity": _FIDELITY_OF_SCORER, "time_limit": seconds, "random_state": seed}
    try:
        fast = accelerate_booster(asked.model, asked.X_fit, asked.X_look, **how, verbose=False)
    except PineBoostError as error:
        return _refused(line, error)
    found = _of_scorer(line, asked, fast, budget)
    if fast.status == "VALIDATED":
        return found
    return replace(proved, promise=promise, call=call, note="no earlier exits passed the test on X_look")


def _of_scorer(line: Line, asked: Surveyed, fast: AccelerateResult, budget: Budget) -> Line:
    """The line of a scorer, with its work on the rows of all lines."""
    if fast.stopped or asked.presses:
        budget.interrupt()
    forest = asked.model.forest
    met = fast.scorer.trees_met(as_table(asked.rows, schema_of(forest)))
    kept = np.array(fast.facts.get("truncation", {}).get("trees", range(forest.n_trees)), np.int32)
    work = work_of(forest, asked.rows, kept[fast.scorer.parts.plan.order], met)
    note = f"a typical row of X_fit visits {met.mean():.3g} of {forest.n_trees} trees"
    return replace(line, work=work, note=note, side=fast.side_by_side)


def _refused(line: Line, error: PineBoostError) -> Line:
    return replace(line, note=f"refused: {error}"[:200])


def _lossless(asked: Surveyed, budget: Budget) -> Line:
    from pine_boost.simplification import simplify

    line = replace(asked.original, promise=lossless_offer(), call=Asked("simplify"))
    if budget.is_interrupted:
        return replace(line, note=_NOT_TRIED)
    try:
        return line.with_model(simplify(line.found).simplified, asked.rows)
    except PineBoostError as error:
        return _refused(line, error)


def _proved(asked: Surveyed, budget: Budget) -> list[Line]:
    """Proved at a few alphas, and last with inputs near the decision boundary left out; each gets its share of time.

    The loosest promise is tried first: it is proved soonest.
    """
    regions: list[dict[str, Any]] = [{"alpha": alpha} for alpha in ALPHAS]
    regions = [*reversed(regions), {"alpha": _ALPHA_OF_AUTO, "indifference": AUTO}]
    lines, proofs = [], budget.share(SHARES["survey proofs"])
    for position, region in enumerate(regions):
        seconds = proofs.share(1 / (len(regions) - position)).remaining
        lines.append(budget.run(_proved_at, asked, region, seconds, budget))
    return [*reversed(lines[:-1]), lines[-1]]


def _proved_at(asked: Surveyed, region: Mapping[str, Any], seconds: float, budget: Budget) -> Line:
    """Proved in one region."""
    from pine_boost.prune import prune_booster

    call = Asked("prune_booster", ("X_fit", "X_cal"), {**region, **asked.given, "spent": "survey"})
    promise = proved_offer(**{"indifference": 0.0, **region})
    line = replace(asked.original, promise=promise, call=call, note=_NO_TIME)
    if seconds == 0 or budget.is_interrupted:
        return line
    how = {**region, "time_limit": max(seconds, 0.1), "random_state": asked.options.random_state, "verbose": False}
    try:
        result = prune_booster(asked.model, asked.X_fit, asked.X_look, **how, callback=budget.callback)
    except PineBoostError as error:
        return _refused(line, error)
    if result.stopped is StopReason.INTERRUPTED or asked.presses:
        budget.interrupt()
    certificate = result.certificate
    everywhere = certificate.undecided_exists is False and not certificate.narrowed
    note = "" if result.status == "CERTIFIED" else _NO_TIME
    is_faithful = region["alpha"] == 0 and everywhere
    return line.with_model(result.pruned, asked.rows, note=note, holds_everywhere=is_faithful)


def _compressed(asked: Surveyed, budget: Budget) -> list[Line]:
    """One path, tested on the rows that are looked at for each target."""
    options, tables = asked.options, asked.tables
    moved = {} if options.tolerance is None else {"tolerance": options.tolerance}
    extra = {**moved, **asked.given, "spent": "survey"}
    kept = "class" if asked.model.forest.decides else "value"
    lines = [
        replace(
            asked.original,
            promise=statistic_offer(fidelity, _CONFIDENCE, kept),
            call=Asked("compress_booster", ("X_fit", "X_val"), {"fidelity": fidelity, **extra}),
        )
        for fidelity in FIDELITIES
    ]
    if budget.is_over or budget.is_interrupted:
        return [replace(line, note=_NOT_TESTED) for line in lines]
    try:
        parsed = read_for_compression(asked.model, options)
    except PineBoostError as error:
        return [_refused(line, error) for line in lines]
    seed, moves = options.random_state, options.tolerance
    task = budget.run(set_up, parsed, WORK, tables.fit, seed, budget, tolerance=moves)
    n_look = tables.val.n_rows
    path = find_path(task, 1 - min(FIDELITIES), budget.until(SHARES["compression path"]))

    def test() -> list[Line]:
        tested = []
        for n_before, (fidelity, line) in enumerate(zip(FIDELITIES, lines, strict=True)):
            if allowed(n_look, fidelity, _CONFIDENCE) < 0:
                needed = fewest_rows(fidelity, _CONFIDENCE)
                tested.append(replace(line, note=f"needs {needed} rows, X_look has {n_look}"))
                continue
            target = Target(n_look, _CONFIDENCE, fidelity)
            own = budget.until(1 / (len(FIDELITIES) - n_before))
            result = validate(task, choose(path.best, target.aim()), tables, target, None, 1.0, own)
            found, is_complete = result.best.written, path.why is result.why is StopReason.EFFORT
            if found is None:
                tested.append(line if is_complete else replace(line, note=_NOTHING_YET))
            else:
                tested.append(line.with_model(found.model, asked.rows))
        return tested

    return budget.run(test)


_LITTLE = 0.9  # of the original's work: a model with more than this left is not worth a statistic
_FASTER = 1.2  # times the native speed: less is not worth another file


@dataclass(frozen=True)
class Offer:
    """One line of a survey.

    Attributes
    ----------
    promise : str
        What kind of promise would come with it, in words.
    trees, leaves, bytes : int
        Of the model that was found here; the original's where nothing smaller was.
    work : float
        Of a typical row of X_fit: 2 per tree plus the splits passed. No looser promise has more.
    speed_1, speed_100, speed_100000 : float or None
        How many times as fast as the original's own ``predict`` on this machine, by rows of a call; None where there
        was no time to measure it.
    note : str
        Why there is nothing, or what is open.
    call : str
        What to call for it, with rows that were not looked at.
    command : str
        The same for the command line; MODEL, FIT, ... stand for files.
    """

    promise: str
    trees: int
    leaves: int
    bytes: int
    work: float
    speed_1: float | None
    speed_100: float | None
    speed_100000: float | None
    note: str
    call: str
    command: str

    def figures(self) -> tuple[str, ...]:
        """What stands under `_HEADS`."""
        speeds = (
            "" if at is None else f"{times_in_words(at)}x" for at in (self.speed_1, self.speed_100, self.speed_100000)
        )
        return str(self.trees), str(self.leaves), f"{self.bytes / 1000:.0f}", f"{self.work:.0f}", *speeds

    def text(self) -> str:
        """The promise and the note."""
        return f"{self.promise} ({self.note})" if self.note else self.promise


def _kind(offer: Offer) -> str:
    return offer.promise.partition(":")[0]


def _row(cells: Sequence[str], text: str) -> str:
    return "".join(f"{cell:>8}" for cell in cells) + f"  {text}"


@displayed
@dataclass(frozen=True, eq=False, repr=False)
class Survey:
    """What is achievable for one model; figures are estimates.

    Attributes
    ----------
    offers : tuple of Offer
        The original first, then accelerated, lossless, proved, compressed.
    n_look : int
        Rows that were looked at, and are spent by it.
    seconds : float
    hashes : uint64 (n_look,)
        By which `check` knows these rows again.
    model : Model
        The original, as parsed.
    is_interrupted : bool
        Whether Ctrl-C ended it: lines that were not tried by then say so.
    """

    offers: tuple[Offer, ...]
    n_look: int
    seconds: float
    hashes: Any = field(repr=False)
    model: Model = field(repr=False)
    is_interrupted: bool = False

    def table(self) -> list[dict[str, Any]]:
        """The offers as rows for a DataFrame or a CSV file."""
        return [asdict(offer) for offer in self.offers]

    def recommended(self) -> tuple[Offer, str]:
        """The offer to take unless you know better, and why.

        The accelerated scorer where it is faster, as it holds for every input and needs no data;
        else the strictest promise under which at least half of the work goes; else the least work, or
        the accelerated scorer if not even a tenth of the work goes.
        The scorer that rests on a statistic is for you to choose.
        """
        offers = [offer for offer in self.offers if _kind(offer) != "accelerated, a statistic"]
        original = offers[0]
        for offer in offers[1:]:
            speed = offer.speed_100000 or offer.speed_100
            if _kind(offer) == "accelerated" and speed is not None and speed >= _FASTER:
                return offer, f"proved for every input, needs no data, {times_in_words(speed)} times as fast"
        smaller = [offer for offer in offers[1:] if offer.work <= original.work / 2]
        if smaller:
            reason = f"the strictest promise under which at least half of the work goes{self._faster(smaller[0])}"
            return smaller[0], reason
        least = min(offers, key=lambda offer: offer.work)
        scorers = (offer for offer in offers if _kind(offer) == "accelerated" and not offer.note.startswith("refused"))
        proved = next(scorers, None)
        if proved is not None and _LITTLE * original.work < least.work < original.work:
            return proved, "no row saves a tenth of the work; this one is proved and needs no data"
        if least.work < original.work:
            return least, f"no row halves the work; this one saves most{self._faster(least)}"
        return original, "nothing smaller was found"

    def _faster(self, chosen: Offer) -> str:
        """Says that the scorer, which is proved, is faster for one row than the offer that saves work; else empty."""
        for offer in self.offers[1:]:
            speed = offer.speed_1 or 0.0
            if _kind(offer) == "accelerated" and speed >= _FASTER * (chosen.speed_1 or 1.0):
                return f"; the accelerated row is proved and {times_in_words(speed)} times as fast for 1 row"
        return ""

    def _recommendation(self) -> str:
        offer, reason = self.recommended()
        return f"Recommended: {offer.promise} ({reason}). {offer.call}".rstrip()

    def summary(self) -> str:
        """The table as text, what its figures are worth, and one recommended offer."""
        lines = [_row(_HEADS, "promise")]
        for offer in self.offers:
            lines.append(_row(offer.figures(), offer.text()))
            if offer.call:
                lines.append(_row([""] * len(_HEADS), offer.call))
        return "\n".join([*lines, self._worth(), self._recommendation()])

    def _worth(self) -> str:
        return (
            "Work is 2 per tree plus the splits that a row passes; x1, x100, x100k: speed-up for calls of 1, 100 and "
            "100 000 rows. These are estimates, because the table was made by looking at "
            f"{self.n_look} rows. A promise needs other rows; spent=survey (on the command line --spent with the saved "
            "survey) refuses these. "
            f"({self.seconds:.0f} s)"
        )

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """The table for notebooks."""
        rows = [(*offer.figures(), f"{offer.text()}\n{offer.call}".rstrip()) for offer in self.offers]
        return table_html((*_HEADS, "promise"), rows, f"{self._worth()} {self._recommendation()}")

    def page(self) -> str:
        """The table as an HTML page."""
        return render(
            "survey.html",
            "Survey",
            heads=(*_HEADS, "promise"),
            figures=[(*offer.figures(), offer.text()) for offer in self.offers],
            calls=[(offer.promise, offer.call, offer.command) for offer in self.offers if offer.call],
            worth=self._worth(),
            recommendation=self._recommendation(),
        )

    def check(self, X: Any) -> None:
        """Refuse rows for a promise if this survey has looked at them.

        Raises
        ------
        InvalidInputError
            More of the rows were looked at than would repeat by chance.
        """
        matrix = to_matrix(X, schema_of(self.model.forest), "X")
        refuse_spent(self, row_hashes(matrix), "X")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the table and the hashes of the rows as JSON."""
        fields = {"offers": self.table(), "seconds": self.seconds, "hashes": [int(value) for value in self.hashes]}
        document = write_document(fields, SURVEY_FORMAT)
        path = path_of(path, "file")
        save_file(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
        return path


def load_survey(
    path: str | os.PathLike[str], model: Any, *, threshold: Any = None, trust_pickle: bool = False
) -> Survey:
    """Read a saved survey together with its model, to `Survey.check` rows against it.

    Parameters
    ----------
    path : path
        What `Survey.save` wrote.
    model : object, path or bytes
        The model that was surveyed.
    threshold : float or sequence of float, optional
        As it was surveyed.
    trust_pickle : bool
        Load a model from a pickle: only for files you made.

    Returns
    -------
    Survey

    Raises
    ------
    InvalidInputError
        The file is no survey.
    """
    fields = read_survey(path)
    return _survey_of(fields, read_model(model, threshold=threshold, trust_pickle=trust_pickle, decision="value"))


def survey_page(path: str | os.PathLike[str]) -> str:
    """The HTML page of a saved survey, which needs no model."""
    return _survey_of(read_survey(path), None).page()


def _survey_of(fields: Mapping[str, Any], model: Any) -> Survey:
    hashes = np.array(fields["hashes"], dtype=np.uint64)
    offers = tuple(Offer(**offer) for offer in fields["offers"])
    return Survey(offers, len(hashes), fields["seconds"], hashes, model)
