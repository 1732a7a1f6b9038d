"""Models that average several ensembles: every member is compressed, the whole is tested with its own ``predict``."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost._version import __version__
from pine_boost.budget import SHARES, Budget, StopReason
from pine_boost.certificate.claims import NOT_VALIDATED, Statement
from pine_boost.certificate.saved import WHOLE_MODEL, digests
from pine_boost.compression.fixed_sequence import FixedSequence, Target, Tested, lower_bound
from pine_boost.compression.path import Candidate, Task, find_path, set_up
from pine_boost.compression.reading import Tables, read_for_compression, read_tables
from pine_boost.compression.record import headline
from pine_boost.compression.validation import undominated, write
from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.files import AVERAGE
from pine_boost.folders import write_folder
from pine_boost.json_fields import write_document
from pine_boost.model.forest import FloatArray
from pine_boost.model.synthetic_rows import WORK_ROWS
from pine_boost.native.figures import SIZES, Figures, SideBySide, figures_of
from pine_boost.notebooks import displayed
from pine_boost.options import AccelerateOptions, CompressOptions, counted
from pine_boost.parsers import pickled
from pine_boost.pipelines.layers import Layer, kind_of, peel
from pine_boost.pipelines.threshold import EchoProbability
from pine_boost.pipelines.unwrapping import REMEDY, GivenModel, Wrapper, read_given, unwrap
from pine_boost.progress import shown
from pine_boost.simplification import lossless_part
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.native import first_rows
from pine_boost.tables.rows import is_large, open_rows
from pine_boost.tables.schema import schema_of

RECORD, CLAIM = AVERAGE, "claim.txt"
FILES = (WHOLE_MODEL, CLAIM, RECORD)
FORMAT = "pine_boost average"
_CALIBRATED = "CalibratedClassifierCV"
# Share of rows that every member is expected to change, as multiples of the share that the whole may change; an average
# changes fewer rows than its members do.
_LEVELS = np.geomspace(0.1, 8.0, 14)
Whole = tuple[Any, Callable[[], Figures]]  # a model like the one given, and what measures it


@dataclass(frozen=True, eq=False)
class Committee:
    """A fitted model that averages the probabilities of several ensembles.

    Attributes
    ----------
    wrapper : Wrapper
        The layers around the average, which is its inner model.
    members : tuple
        Models that `compress_booster` takes: ensembles, with their calibrator if they have one.
    """

    wrapper: Wrapper
    members: tuple[Any, ...]

    @property
    def whole(self) -> Any:
        """The model that was given."""
        return self.wrapper.outer

    @property
    def average(self) -> Any:
        """The CalibratedClassifierCV or VotingClassifier."""
        return self.wrapper.inner

    @property
    def ensembles(self) -> tuple[Any, ...]:
        """The averaged models without their calibrators."""
        pairs = getattr(self.average, "calibrated_classifiers_", None)
        return self.members if pairs is None else tuple(pair.estimator for pair in pairs)

    @property
    def given(self) -> GivenModel:
        """The whole as one that reads its tables: the first member with all layers around it."""
        first = read_given(self.members[0], decision="value")
        wrapper = replace(first.wrapper, layers=(*self.wrapper.layers, *first.wrapper.layers))
        return replace(first, source=self.whole, wrapper=wrapper)

    def rebuild(self, members: Sequence[Any]) -> Any:
        """Return a copy of the whole with other members; nothing that was given is changed."""
        made = copy.copy(self.average)
        if hasattr(made, "calibrated_classifiers_"):
            made.calibrated_classifiers_ = [
                member.calibrated_classifiers_[0] if kind_of(member) == _CALIBRATED else _with(pair, estimator=member)
                for pair, member in zip(self.average.calibrated_classifiers_, members, strict=True)
            ]
        else:
            made.estimators_ = list(members)
            names = [name for name, estimator in made.estimators if estimator != "drop"]
            made.named_estimators_ = type(made.named_estimators_)(**dict(zip(names, members, strict=True)))
        return self.wrapper.rebuild(made)


def committee_of(model: Any) -> Committee | None:
    """Return the members of a model that averages several; None for any other model.

    Raises
    ------
    UnsupportedModelError
        A VotingClassifier that counts votes.
    """
    layers: list[Layer] = []
    inner = model
    while not (members := _members(inner)):
        if kind_of(inner) in (None, _CALIBRATED, "VotingClassifier"):
            return None
        layer = peel(inner)
        assert layer is not None
        layers.append(layer)
        inner = layer.inner
    return Committee(Wrapper(model, inner, tuple(layers), None), members)


def _members(model: Any) -> tuple[Any, ...]:
    """Return the averaged models; empty if there are fewer than two."""
    if kind_of(model) == _CALIBRATED:
        pairs = getattr(model, "calibrated_classifiers_", ())
        if len(pairs) < 2:
            return ()
        if len(model.classes_) > 2:  # a class depends on several calibrated scores: the ensembles themselves
            return tuple(pair.estimator for pair in pairs)
        return tuple(_with(model, calibrated_classifiers_=[pair]) for pair in pairs)
    if kind_of(model) != "VotingClassifier":
        return ()
    if not hasattr(model, "estimators_"):
        raise InvalidInputError("The VotingClassifier is not fitted; call fit first.")
    if model.voting != "soft":
        raise UnsupportedModelError(
            f"VotingClassifier with voting={model.voting!r} counts votes; accepted is voting='soft', which averages "
            "probabilities."
        )
    return tuple(model.estimators_)


def _with(model: Any, **attributes: Any) -> Any:
    made = copy.copy(model)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@displayed
@dataclass(frozen=True, eq=False, repr=False)
class CommitteeResult:
    """A smaller model that averages several ensembles, and the test of the whole.

    Attributes
    ----------
    model : object
        Same kind as the model that was given, with smaller ensembles inside.
    status : str
        ``"VALIDATED"``, ``"MEASURED"`` (overlapping rows) or ``"NOT_VALIDATED"`` (``model`` is the original).
    claim : str
    fidelity, confidence : float
    n_val, n_changed : int
        Validation rows, and those on which the two whole models differ.
    bound : float
        Exact lower bound on the share that is kept, at ``confidence``.
    overlap : float
        Share of the validation rows that X_fit holds too, beyond what is expected by chance.
    tested : tuple of Tested
        The wholes that were tested, the most careful first.
    minimize : str or None
        What was to be made small; None for scorers, which evaluate every tree.
    side_by_side : SideBySide
        Size and work over all members, and what measures the speed of the whole.
    seconds : float
    stopped : str or None
        ``"interrupted"`` after Ctrl-C.
    original : object
        The model that was given.
    """

    model: Any
    status: str
    claim: str
    fidelity: float
    confidence: float
    n_val: int
    n_changed: int
    bound: float
    overlap: float
    tested: tuple[Tested, ...] = field(repr=False)
    minimize: str | None
    side_by_side: SideBySide = field(repr=False)
    seconds: float
    stopped: str | None
    original: Any = field(repr=False)

    @property
    def statement(self) -> Statement:
        """The numbers of the test."""
        names = ("status", "fidelity", "confidence", "n_val", "n_changed", "bound", "overlap")
        numbers = {name: getattr(self, name) for name in names}
        return Statement(keeps_class=True, tolerance=None, thresholds=(), **numbers)

    @property
    def scorer(self) -> Any:
        """The same as ``model``, under the name that an `AccelerateResult` has."""
        return self.model

    @property
    def leaves_before(self) -> int:
        """Leaves of all members."""
        return self.side_by_side.before.leaves

    @property
    def leaves_after(self) -> int:
        """Leaves of all returned members."""
        return self.side_by_side.after.leaves

    def headline(self) -> str:
        """One line: the status and what is gone."""
        if self.minimize is None:
            return f"{self.status}: {counted(self.side_by_side.before.trees, 'tree')}, all of which an input visits"
        return headline(self.status, self.minimize, self.side_by_side.by_name())

    def summary(self) -> str:
        """What is gone, what is promised, what it rests on."""
        lines = self._stated(self.promise())
        if self.status != NOT_VALIDATED:
            lines += self.side_by_side.summary()
        ended = "" if self.stopped is None else f", the work ended early ({self.stopped})"
        lines.append(f"Tested {counted(len(self.tested), 'size')} in {self.seconds:.1f} s{ended}.")
        return "\n".join(lines)

    def promise(self) -> str:
        """The claim in two short sentences with one number."""
        return self.statement.promise(self.claim)

    def _stated(self, claim: str) -> list[str]:
        """What is promised, and what it rests on; nothing is measured."""
        return [self.headline(), claim, *self.statement.evidence()]

    def speedup(self, X: Any = None, sizes: Sequence[int] = SIZES) -> dict[int, float]:
        """How many times as fast the whole is, by rows of a call; measured now, on ``X`` if given."""
        return self.side_by_side.speedup(X, sizes)

    def evaluate(self, X: Any) -> float:
        """Share of rows of your own that keep their class; use rows that were not part of X_val."""
        return float(np.mean(self.model.predict(X) == self.original.predict(X)))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the models as plain JSON values."""
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        del plain["model"], plain["original"], plain["side_by_side"]
        return plain | self.side_by_side.by_name() | {"tested": [asdict(size) for size in self.tested]}

    def files(self, _: Any = None) -> dict[str, bytes]:
        """The whole model as a pickle, the claim as text, and a record with the figures and the digests of both."""
        files = {WHOLE_MODEL: pickled(self.model, REMEDY), CLAIM: ("\n".join(self._stated(self.claim)) + "\n").encode()}
        fields = {**self.to_dict(), "files": digests(files), "pine_boost": __version__}
        record = write_document(fields, FORMAT, sealed=True)
        return files | {RECORD: (json.dumps(record, indent=1) + "\n").encode()}

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write `files` to a folder; an earlier result there is replaced."""
        return write_folder(folder, self.files(), overwrite=overwrite)


@dataclass(frozen=True, eq=False)
class Member:
    """One averaged model and the smaller ones on its path, from the largest to the smallest."""

    wrapper: Wrapper
    task: Task
    found: list[Candidate]
    few: FloatArray  # rows on which the work is measured

    def at(self, share: float) -> Candidate | None:
        """Return the smallest size that is expected to change at most this share of rows; None: the original."""
        return next((candidate for candidate in reversed(self.found) if candidate.estimate <= share), None)

    def write(self, candidate: Candidate | None) -> Whole:
        """Return a native model with its layers, and what measures the ensemble inside."""
        if candidate is None:
            return self.wrapper.outer, partial(figures_of, self.task.parsed, self.few)
        written = write(self.task, candidate)
        return self.wrapper.rebuild(written.native), lambda: figures_of(written.model, self.few)


def compress_committee(
    committee: Committee, X_fit: Any, X_val: Any, options: CompressOptions, spent: Any
) -> CommitteeResult:
    """Compress every member at a few levels and test each whole on X_val, the most careful first.

    Levels and members are fixed by X_fit alone; see `FixedSequence` for what follows after a whole that fails.
    """
    budget = Budget.of(options.time_limit)
    tables, target = _read_rows(committee, X_fit, X_val, options, spent)
    rows, share, members = committee.wrapper.rows(X_fit), target.aim(), []
    with shown(options.verbose, options.time_limit, options.callback) as report_progress:
        for number, model in enumerate(committee.members):
            part = budget.until(SHARES["compression path"] * (number + 1) / len(committee.members))
            members.append(_find_sizes(model, rows, share, options, replace(part, callback=report_progress)))

    def whole_of(chosen: Sequence[Candidate | None]) -> Whole:
        natives, figures = zip(*(m.write(c) for m, c in zip(members, chosen, strict=True)), strict=True)
        return committee.rebuild(natives), lambda: _sum([measure() for measure in figures])

    originals: list[Candidate | None] = [None] * len(members)
    chosen = [originals, *([member.at(level * share) for member in members] for level in _LEVELS)]
    smaller = [after for before, after in pairwise(chosen) if after != before]  # each smaller than the one before
    wholes = [partial(whole_of, own) for own in smaller]
    return _result(committee, whole_of(originals)[1], wholes, tables, target, options, budget)


def _sum(members: Sequence[Figures]) -> Figures:
    return Figures(*map(sum, zip(*map(astuple, members), strict=True)))


class FastMember(EchoProbability):
    """A fast scorer in place of a member that has ``predict_proba`` only."""

    def __init__(self, scorer: Any) -> None:
        super().__init__(scorer.classes_)
        self.scorer = scorer

    def predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return the probabilities of all classes."""
        return np.asarray(self.scorer.predict_proba(X))


class FastMarginMember(FastMember):
    """A fast scorer in place of a member whose margins a calibrator reads."""

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Return the raw margins."""
        return np.asarray(self.scorer.decision_function(X))


def accelerate_committee(
    committee: Committee, X_fit: Any, X_val: Any, options: AccelerateOptions, spent: Any, accelerate: Callable[..., Any]
) -> CommitteeResult:
    """Replace every member by its `AccelerateResult.scorer`, which evaluates all trees, and test the whole on X_val."""
    if options.fidelity == 1 or X_fit is None or X_val is None:
        raise InvalidInputError(
            f"A {type(committee.average).__name__} that averages {len(committee.members)} models is tested and not "
            "proved: pass X_fit, X_val and fidelity below 1. Its class may depend on the last digit of an average of "
            "probabilities, and whether a scorer's exp rounds as the library's does is not proved.",
            option=("X_fit", "X_val", "fidelity"),
        )
    budget = Budget.of(options.time_limit)
    tables, target = _read_rows(committee, X_fit, X_val, options, spent)
    few = committee.wrapper.rows(first_rows(X_fit, WORK_ROWS))
    made, before = [], []
    for ensemble in committee.ensembles:
        fast = accelerate(ensemble, time_limit=budget.time_limit(), verbose=False)
        if fast.stopped:
            budget.interrupt()
        made.append((FastMarginMember if hasattr(ensemble, "decision_function") else FastMember)(fast.scorer))
        rows = to_matrix(unwrap(ensemble).rows(few), schema_of(fast.original.forest))
        before.append(figures_of(fast.original, rows))
    after = [replace(own, bytes=len(pickled(member))) for own, member in zip(before, made, strict=True)]
    whole = committee.rebuild(made), partial(_sum, after)
    return _result(committee, partial(_sum, before), [lambda: whole], tables, target, options, budget)


def _find_sizes(member: Any, rows: Any, share: float, options: CompressOptions, budget: Budget) -> Member:
    """Find the path of one member, with the threshold that its calibrator gives it."""
    wrapper = unwrap(member)
    parsed = read_for_compression(wrapper.inner, replace(options, threshold=wrapper.threshold))
    fit = open_rows(wrapper.rows(rows), schema_of(parsed.forest), "X_fit")
    few = fit.take(np.arange(min(WORK_ROWS, fit.n_rows)))
    lossless, seed = lossless_part(parsed), options.random_state
    task = budget.run(set_up, parsed, options.minimize, fit, seed, budget, lossless=lossless)
    return Member(wrapper, task, undominated(find_path(task, share, budget).best), few)


def _read_rows(
    committee: Committee, X_fit: Any, X_val: Any, options: CompressOptions | AccelerateOptions, spent: Any
) -> tuple[Tables, Target]:
    """Read both tables as the first member sees them, but X_val as given; raise if rows or options do not fit."""
    kind = type(committee.average).__name__
    for name in ("tolerance", "threshold", "segments", "max_loss"):
        if getattr(options, name, None) is not None:
            raise InvalidInputError(
                f"{name} was given for a {kind} that averages {len(committee.members)} models; leave it out, which "
                "keeps the class of the whole.",
                option=name,
            )
    if is_large(X_fit) or is_large(X_val):
        raise InvalidInputError(
            f"A {kind} that averages several models takes tables in memory; pass the rows themselves."
        )
    first = committee.given
    tables = read_tables(first.parsed, first.wrapper.rows(X_fit), first.wrapper.rows(X_val), options, spent)
    assert options.fidelity is not None  # without max_loss there is one
    target = Target(tables.val.n_rows, float(options.confidence), float(options.fidelity))
    target.require_rows()
    return replace(tables, X_val=X_val), target


def _calls(*wholes: Any) -> tuple[Any, Any]:
    before, after = (whole.predict for whole in wholes)
    return before, after


def _result(
    committee: Committee,
    before: Callable[[], Figures],
    wholes: Sequence[Callable[[], Whole]],
    tables: Tables,
    target: Target,
    options: CompressOptions | AccelerateOptions,
    budget: Budget,
) -> CommitteeResult:
    """Test wholes on X_val in their order; the last that passes is the result, else the original with its figures."""
    assert target.fidelity is not None  # no loss is tested
    nothing = Tested(0, lower_bound(0, target.n_rows, target.confidence), accepted=False)

    def test() -> tuple[list[Tested], Tested, Whole]:
        classes = np.asarray(committee.whole.predict(tables.X_val))
        sequence, best, chosen = FixedSequence(target.tests()), nothing, (committee.whole, before)
        tested: list[Tested] = []
        for make in wholes:
            if sequence.is_over or (tested and budget.is_over):
                break
            whole, figures = make()
            n_changed = int(np.sum(np.asarray(whole.predict(tables.X_val)) != classes))
            bound = lower_bound(n_changed, target.n_rows, target.confidence)
            tested.append(sequence.judge(Tested(n_changed, bound, accepted=False)))
            if tested[-1].accepted:
                best, chosen = tested[-1], (whole, figures)
        return tested, best, chosen

    tested, best, (model, after) = budget.run(test)
    calls = partial(_calls, committee.whole, model)
    side = SideBySide(before(), after(), "X_fit", calls, first_rows(tables.X_val, WORK_ROWS))
    stopped = str(StopReason.INTERRUPTED) if budget.is_interrupted else None
    result = CommitteeResult(
        model=model,
        status=tables.status(has_passed=best.accepted),
        claim="",
        fidelity=target.fidelity,
        confidence=target.confidence,
        n_val=target.n_rows,
        n_changed=best.n_changed,
        bound=best.bound,
        overlap=tables.overlap.share,
        tested=tuple(tested),
        minimize=getattr(options, "minimize", None),  # a scorer evaluates every tree
        side_by_side=side.unless_interrupted(stopped),
        seconds=budget.elapsed,
        stopped=stopped,
        original=committee.whole,
    )
    return replace(result, claim=result.statement.claim())
