"""Prove a certificate again from the two models, the region and the certificate alone.

The result agrees, disagrees with an input to replay, or says what was not settled in time. Nothing of the search is
used, and files that do not belong together are refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pine_boost.budget import SHARES, Budget, Effort
from pine_boost.certificate.certificate import Certificate, QuestionProof, require, require_fields
from pine_boost.certificate.claims import exception_of, nothing_to_prove, rests_on, speaks_of_everything
from pine_boost.certificate.consistency import (
    as_region_reads,
    require_band,
    require_bound,
    require_consistent,
    require_interchangeable,
    require_one_result,
    require_serving,
)
from pine_boost.certificate.tree_matching import match_trees, require_decisive, require_same_margins
from pine_boost.errors import CertificateMismatch, InvalidInputError
from pine_boost.model.forest import FloatArray, Forest, Model, PrunedForest
from pine_boost.notebooks import displayed
from pine_boost.options import SCORE_NAMES
from pine_boost.proof.boxes.branch_and_bound import prove_in_boxes
from pine_boost.proof.cpsat.prover import Prover, find_undecided
from pine_boost.proof.cpsat.solver import SolverSetting
from pine_boost.proof.enumeration import prove_listed, prove_walked
from pine_boost.proof.problem import Answer, Enclosure, Problem, Proof, build_problem, enclosures
from pine_boost.proof.standalone_margin import count_sure, prove_serving
from pine_boost.region.conformal import calibrate
from pine_boost.region.fitting import calibrate_fixed
from pine_boost.region.margins import ServingMargin
from pine_boost.region.region import Region
from pine_boost.region.region_ladder import build_ladder, fit_evidence, measure
from pine_boost.region.scores.fit_score import fit_score
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.overlap import Overlap, count_overlap, row_hashes
from pine_boost.tables.rows import MemoryRows, open_rows

# Neither the seeds nor the combination of settings of the search's two proofs.
THIRD = (
    SolverSetting("cp-sat-verify", random_seed=104729, linearization_level=1),
    SolverSetting("cp-sat-verify-no-lp", random_seed=104729),
)
_MAX_BOXES = 20_000_000
TO_THE_END = Effort(master_effort=1e9, proof_effort=1e9)
_STAGE_SECONDS = 20.0  # for an attempt on a larger region

# takes a model and rows, returns class indices by its native ``predict``; ImportError without the library
Replay = Callable[[Model, FloatArray], Any]


@dataclass(frozen=True, eq=False)
class Counterexample:
    """An input of the region on which the two models differ.

    Attributes
    ----------
    question : str
    row : float64 (n_features,)
        A real input, categories as codes and NaN for missing, as `Region.contains` accepts it.
    original_class, pruned_class : int
        Class indices (score bands with thresholds).
    native : bool
        Whether the native libraries predicted these; otherwise they were added up here.
    """

    question: str
    row: FloatArray
    original_class: int
    pruned_class: int
    native: bool


@displayed
@dataclass(frozen=True, eq=False, repr=False)
class Verification:
    """What came of proving a certificate again.

    Attributes
    ----------
    agrees : bool or None
        True: everything that the certificate says, except what it lists as taken on trust, was proved
        or computed again. False: ``counterexample`` breaks the claim. None: the time ran out before
        something was settled; the remarks say what.
    proved_twice : bool
        Every question was proved by both methods: CP-SAT and boxes or, in a region of few inputs,
        every input in two ways.
    counterexample : Counterexample or None
    proofs : tuple of Proof
        Every method's answer to every question.
    covered : float
        Smallest share of the region (by number of state rows) that boxes covered in any question;
        1.0 where every question was proved.
    remarks : tuple of str
        Whatever a reader should know beyond that.
    seconds : float
    serving_proved : bool or None
        Whether the certificate's serving margin was proved again; None: the certificate has none.
    """

    agrees: bool | None
    proved_twice: bool
    counterexample: Counterexample | None
    proofs: tuple[Proof, ...]
    covered: float
    remarks: tuple[str, ...]
    seconds: float
    serving_proved: bool | None = None

    def summary(self) -> str:
        """A few readable lines."""
        if self.agrees is None:
            head = f"NOT SETTLED: the time ran out, {self.covered:.1%} of the region is covered"
        elif not self.agrees:
            head = "DISAGREES: the certificate is wrong"
        elif not self.proofs:
            head = "AGREES"  # the remarks say what was compared
        else:
            how = "twice, by two methods" if self.proved_twice else "by one method"
            head = f"AGREES: the certificate was proved again, {how}"
        lines = [f"{head} ({self.seconds:.1f} s)."]
        for proof in self.proofs:
            share = "" if proof.covered in (None, 1.0) else f", {proof.covered:.1%} covered"
            lines.append(
                f"  {proof.question.name} by {proof.method}: {proof.answer.value} ({proof.seconds:.2f} s{share})"
            )
        if self.counterexample is not None:
            found = self.counterexample
            by = "natively" if found.native else "by exact sums"
            lines.append(
                f"  input {found.row.tolist()}: class {found.original_class} before, {found.pruned_class} after ({by})"
            )
        if self.serving_proved:
            lines.append("  The serving margin was proved again.")
        return "\n".join([*lines, *(f"  {remark}" for remark in self.remarks)])

    def record(self, certificate: Certificate) -> Certificate:
        """The certificate with these proofs added, if every question was proved by both methods.

        Otherwise the certificate as it is.
        """
        if not (self.agrees and self.proved_twice):
            return certificate
        new = [QuestionProof(p.question.name, p.method) for p in self.proofs]
        added = tuple(proof for proof in new if proof not in certificate.proofs)
        return replace(certificate, proofs=certificate.proofs + added)


def prove_again(
    models: tuple[Model, Model],
    region: Region,
    certificate: Certificate,
    budget: Budget,
    *,
    n_workers: int = 1,
    tables: tuple[Any, Any] = (None, None),
    replay: Replay | None = None,
) -> Verification:
    """Check that all belongs together, and prove every question again.

    Parameters
    ----------
    models : (Model, Model)
        The original and the pruned one, as parsed.
    region, certificate
    budget : Budget
        Its effort should be `TO_THE_END`.
    n_workers : int
    tables : (table, table)
        X_fit and X_cal, to compute region and tau again.
    replay : callable, optional
        Predicts a counterexample natively; without it its classes are those of the exact sums.
    """
    # what is proved is what files would hold, not what live objects may hold besides
    region, certificate = Region.from_json(region.to_json()), Certificate.from_json(certificate.to_json())
    before, after = (as_region_reads(model, region) for model in models)
    require_one_result(before.forest, after.forest, region, certificate)
    require_interchangeable(before, after)
    problem = build_problem(before.forest, region.space, region.tables, delta=region.delta or 0.0)
    require_band(problem, certificate)
    refitted, remarks = False, tuple[str, ...]()
    if any(table is not None for table in tables):
        refitted, remarks = recompute_region(before.forest, region, certificate, *tables)
    remarks += (f"Taken on trust: {'; '.join(rests_on(certificate, tables=refitted))}.",)
    bound_proved, remark = require_bound(problem, certificate, budget.share(SHARES["verify bound"]), tables[0], region)
    remarks += remark
    if certificate.grid < 0:
        same = _require_identical(problem, after.forest, certificate)
        agrees = True if bound_proved else None
        return Verification(agrees, agrees is True, None, (), 1.0, (*remarks, same), budget.elapsed)
    matched = match_trees(before.forest, after.forest, certificate.kept, certificate.grid)
    require_decisive(problem, after.forest, matched)
    outer = enclosures(problem)
    band_settled, remark = _check_undecided(problem, outer, certificate, budget.share(SHARES["verify undecided"]))
    remarks += remark
    proofs = _prove(problem, outer, matched.pruned, budget, n_workers)
    serving, served = require_serving(problem, matched, certificate, region), None
    if serving is not None:
        served = _check_serving(problem, matched.pruned, serving, (region, after), tables, budget)
        remarks += () if served else ("The serving margin was not proved again: the time ran out.",)
    verdict = Case(problem, matched.pruned, before, after, replay).conclude(proofs, remarks, budget)
    if verdict.agrees is not False:  # an input that breaks the claim says more than a wrong count
        require_consistent(problem, after.forest, matched, certificate)
    is_open = not (bound_proved and band_settled) or served is False
    agrees = None if verdict.agrees and is_open else verdict.agrees
    return replace(verdict, agrees=agrees, serving_proved=served)


def _require_identical(problem: Problem, smaller: Forest, certificate: Certificate) -> str:
    """Check that a certificate without a pruned model speaks of the original; returns what was compared."""
    is_trimmed = certificate.original_digest != certificate.pruned_digest
    if is_trimmed:
        try:
            require_same_margins(problem.forest, smaller)
        except CertificateMismatch as error:
            raise CertificateMismatch(
                f"The certificate says that the original was kept, but the two models differ: {error}"
            ) from error
    keeps_all = certificate.kept == tuple(range(certificate.trees_before))
    require(keeps_all, "The certificate says that the original was kept, but not all of its trees.")
    require(certificate.serving is None, "The certificate names a serving margin that nothing needs.")
    require_consistent(problem, smaller, None, certificate)
    return nothing_to_prove(is_trimmed)


def _check_undecided(
    problem: Problem, outer: list[Enclosure], certificate: Certificate, budget: Budget
) -> tuple[bool, tuple[str, ...]]:
    """Whether what the certificate says about inputs in the rounding band was settled, and a remark."""
    stated = certificate.undecided_exists
    if problem.undecided == 0:
        require(not stated, "The certificate says that inputs lie in a rounding band that is empty.")
        return True, ()
    nowhere = any(find_undecided(stage.problem, None, budget) is False for stage in outer)
    exists = False if nowhere else find_undecided(problem, None, budget)
    lies = "no input of the region lies" if exists else "an input of the region lies"
    agrees = None in (stated, exists) or stated == exists
    require(agrees, f"The certificate says that {lies} within the rounding band, which is not so.")
    if stated is not None and exists is None:
        return False, ("Whether an input lies in the original's rounding band was not settled in time.",)
    if exists is False:
        return True, ("No input of the region lies within the original's rounding band.",)
    return True, (f"Not part of the claim{exception_of(certificate)}.",)


def _check_serving(
    problem: Problem,
    pruned: PrunedForest,
    serving: ServingMargin,
    parts: tuple[Region, Model],
    tables: tuple[Any, Any],
    budget: Budget,
) -> bool:
    region, after = parts
    if tables[1] is not None:
        cal = open_rows(tables[1], region.schema, "X_cal")
        found = count_sure(serving, region, after.forest, cal)
        require(
            found == (serving.n_cal, serving.n_inside),
            f"{serving.n_inside} of {serving.n_cal} calibration rows are said to pass the serving margin; of X_cal "
            f"{found[1]} of {found[0]} do.",
            option="X_cal",
        )
    return prove_serving(problem, pruned, serving.units, THIRD, budget)


def _prove(problem: Problem, outer: list[Enclosure], pruned: PrunedForest, budget: Budget, n_jobs: int) -> list[Proof]:
    """On larger regions first, where they are easier; what holds there holds on this one."""
    for stage in outer:
        share = budget.share(SHARES["verify in a larger region"]).within(_STAGE_SECONDS)
        proofs = _prove_on(stage.problem, pruned, share, n_jobs)
        if all(proof.answer is Answer.PROVED for proof in proofs):
            return [replace(proof, method=f"{proof.method} ({stage.name})") for proof in proofs]
    return _prove_on(problem, pruned, budget, n_jobs)


def _prove_on(problem: Problem, pruned: PrunedForest, budget: Budget, n_jobs: int) -> list[Proof]:
    """Every question by boxes in half of the time, and by CP-SAT in what is left.

    Where the region holds few inputs, and the model many trees, every input instead, twice.
    """
    prover = Prover(problem, n_jobs)
    listing = prover.listing(budget)
    if listing is not None:
        listed = prove_listed(problem, pruned, listing)
        return listed + prove_walked(problem, pruned, budget)
    proofs = prove_in_boxes(problem, pruned, _MAX_BOXES, budget.share(SHARES["verify by boxes"]), n_jobs)
    return proofs + prover.prove(pruned, list(problem.questions), THIRD, budget)


@dataclass(frozen=True, eq=False)
class Case:
    """Two models whose agreement is in question, and how to predict natively (or not at all)."""

    problem: Problem
    pruned: PrunedForest
    before: Model
    after: Model
    replay: Replay | None

    def conclude(self, proofs: list[Proof], remarks: tuple[str, ...], budget: Budget) -> Verification:
        """What the proofs say together."""
        problem = self.problem
        answers: dict[int, list[Answer]] = {question.index: [] for question in problem.questions}
        counterexample = None
        for proof in proofs:
            found, answer, remark = self.look_at(proof)
            remarks += remark
            answers[proof.question.index].append(answer)
            if found is not None and (counterexample is None or (found.native and not counterexample.native)):
                counterexample = found
        for question in problem.questions:
            own = answers[question.index]
            if Answer.PROVED in own and Answer.FOUND in own:
                remarks += (f"{question.name}: one method proved what the other refuted.",)
        refuted = any(Answer.FOUND in own for own in answers.values())
        proved = all(Answer.PROVED in own for own in answers.values()) and not refuted
        agrees = False if counterexample is not None else (True if proved else None)
        twice = proved and all(own.count(Answer.PROVED) > 1 for own in answers.values())
        shares = [proof.covered for proof in proofs if proof.covered is not None]
        covered = 1.0 if proved else min(shares, default=0.0)
        return Verification(agrees, twice, counterexample, tuple(proofs), covered, remarks, budget.elapsed)

    def look_at(self, proof: Proof) -> tuple[Counterexample | None, Answer, tuple[str, ...]]:
        """The input that a proof names, if the models really differ on it, the answer that is left, and a remark."""
        if proof.states is None:
            return None, proof.answer, ()
        if not self.problem.lost(self.pruned, proof.states[None])[0, proof.question.index]:
            # never seen: a solver that names a point which the integers do not confirm
            return None, Answer.UNKNOWN, (f"{proof.method} named a point that is not a counterexample.",)
        row = self.problem.space.representative(proof.states[None])
        classes, native = self._classes(proof.states[None], row)
        if classes[0] == classes[1]:
            close = "is closer to its decision boundary than the proof needs, though the class is the same."
            return None, proof.answer, (f"{proof.question.name}: the pruned model {close}",)
        return Counterexample(proof.question.name, row[0], classes[0], classes[1], native), proof.answer, ()

    def _classes(self, states: Any, row: FloatArray) -> tuple[list[int], bool]:
        """Both classes: natively where the libraries are, else by exact sums."""
        if self.replay is not None:
            try:
                return [int(self.replay(m, row)[0]) for m in (self.before, self.after)], True
            except ImportError:
                pass
        problem = self.problem
        leaves = problem.trees.leaves(states)
        original = problem.original_margins_int(leaves).astype(np.float64)
        pruned = problem.pruned_margins_int(self.pruned, leaves).astype(np.float64)
        sums = (np.ldexp(original, -problem.scale), np.ldexp(pruned, -self.pruned.grid))
        return [int(problem.forest.decision.classes(margins)[0]) for margins in sums], False


# Compute region, tau and overlap again from X_fit and X_cal, and compare with the files. A user's own score is taken
# from the region as it is, and a remark says so.


def recompute_region(
    original: Forest, region: Region, certificate: Certificate, X_fit: Any, X_cal: Any
) -> tuple[bool, tuple[str, ...]]:
    """Check that region and certificate follow from these tables.

    Parameters
    ----------
    original : Forest
    region, certificate
        As read from the files that are to be checked.
    X_fit, X_cal : tables
        Those that the region is said to be fitted and calibrated on.

    Returns
    -------
    refitted : bool
        Whether the score was fitted again.
    remarks : tuple of str

    Raises
    ------
    CertificateMismatch
        Something of the region does not follow from the tables.
    """
    if X_fit is None or X_cal is None:
        raise InvalidInputError("Pass both X_fit and X_cal, or neither.", option=("X_fit", "X_cal"))
    if speaks_of_everything(certificate):
        return True, ("The claim is about every input: it needs no tables.",)
    assert region.score_tables is not None
    fit, cal = (MemoryRows(to_matrix(X, region.schema, n)) for X, n in ((X_fit, "X_fit"), (X_cal, "X_cal")))
    require_fields(region, {"n_fit": fit.n_rows, "n_cal": cal.n_rows}, _IN_REGION)
    remarks: tuple[str, ...] = ()
    refitted = region.score_name in SCORE_NAMES and bool(certificate.fitted_with)
    how = certificate.fitted_with
    if refitted:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = fit_score(
                region.score_name, original, fit, n_bins=how.get("n_bins", 4), random_state=how.get("random_state", 0)
            )
        _require_same(region, "X_fit", space=fitted.space, score_tables=fitted.tables)
    else:
        remarks += (
            f"The score {region.score_name!r} is taken from the region: how it was fitted is not "
            "recorded, and that X_cal was not used is taken on trust.",
        )
    has_distances = region.indifference > 0 or region.nesting is not None  # a tiny share of alpha is 0.0
    measured = partial(
        measure,
        space=region.space,
        score=region.score_tables,
        tables=region.tables,
        original=original if has_distances else None,
    )
    seen, held = map(measured, (fit, cal))
    if region.nesting is None:
        delta, calibration = calibrate_fixed(original, seen, held, region.indifference)
        require_fields(region, {"delta": delta}, _IN_REGION)
    else:
        evidence = fit_evidence(original, region.space, fit, seen, how.get("random_state", 0))
        ladder = build_ladder(evidence, region.nesting.share)
        _require_same(region, "X_fit", nesting=ladder)
        calibration = ladder.calibration(held)
    require(
        np.array_equal(calibration, region.calibration),
        f"The calibration scores of the region are not those of X_cal: tau={region.tau} (with delta={region.delta}) "
        f"for alpha={region.alpha:g} does not follow from these rows.",
        option="X_cal",
    )
    # how many calibration rows were seen: the claim promises less where they were
    overlap = count_overlap(row_hashes(fit.matrix), row_hashes(cal.matrix))
    counted = {name: getattr(overlap, name) for name in ("n_seen", "n_expected", "is_evident")}
    require_fields(region.overlap or Overlap(cal.n_rows, 0, 0.0, 1.0), counted, _IN_REGION)
    return refitted, (*remarks, _measured(region, cal.n_rows))


_IN_REGION = "{name} is {stated!r} in the region; the tables given say {found!r}."


def _require_same(region: Region, option: str, **found: Any) -> None:
    """Check that parts of a region are those that a table gives."""
    rebuilt, stated = replace(region, **found).to_json(), region.to_json()
    for name in stated:
        sentence = (
            f"{name!r} of the region is not what {option} gives: the region was fitted on other rows, or changed."
        )
        require(rebuilt[name] == stated[name], sentence, option=option)


def _measured(region: Region, n_rows: int) -> str:
    n_outside = region.n_cal - len(region.calibration)
    level = calibrate(region.calibration, region.alpha, n_outside=n_outside)
    inside = int(np.searchsorted(region.calibration, level or 0, side="right"))
    return (
        f"Region and tau were computed again from X_fit and X_cal: {inside} of {n_rows} calibration "
        f"rows ({inside / n_rows:.2%}) lie in the region."
    )
