"""Prove a certificate anew from the two models, the region and the certificate alone.

In come the files (or live objects); out goes a Verification: agrees, disagrees with an input to
replay, or says how much was covered. Uses nothing of the pruner: no rows, cuts or weights. Refuses
files that do not belong together.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pine_boost.budget import Budget, Effort
from pine_boost.certificate.certificate import Certificate, QuestionProof
from pine_boost.certificate.claim import rests_on
from pine_boost.certificate.consistency import (
    require_belonging,
    require_bound,
    require_consistent,
)
from pine_boost.certificate.interchange import as_region_reads, require_interchangeable
from pine_boost.certificate.recalibration import recalibrate
from pine_boost.certificate.tree_matching import correspond, require_decisive
from pine_boost.errors import CertificateMismatch
from pine_boost.model.forest import FloatArray, Model, PrunedForest
from pine_boost.options import require_seconds, worker_count
from pine_boost.parsers import read_model
from pine_boost.proof.boxes.jobs import prove_in_boxes
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.settings import Setting
from pine_boost.proof.enclosures import Enclosure, enclosures
from pine_boost.proof.problem import Problem, build_problem
from pine_boost.proof.undecided import find_undecided
from pine_boost.proof.verdict import Answer, Proof
from pine_boost.region.region import Region

# Neither the seeds nor the combination of settings of the search's two proofs.
THIRD = (
    Setting("cp-sat-verify", random_seed=104729, linearization_level=1),
    Setting("cp-sat-verify-no-lp", random_seed=104729),
)
_MAX_BOXES = 20_000_000
_WITH_BOUND = 3  # the format version since which the band is narrow and the bound written down
_TO_THE_END = Effort(master_effort=1e9, proof_effort=1e9)
_STAGE_SECONDS = 20.0  # for an attempt on a larger region
_UNSEALED = (
    "The certificate is of format version 1, without a digest of its own: lower_bound, "
    "probability_shift, objective, versions and reason could not be checked."
)
_EARLIER = (
    "The certificate is of an earlier format: the wording of its claim was not compared with what "
    "was proved anew."
)


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


@dataclass(frozen=True, eq=False)
class Verification:
    """What came of proving a certificate anew.

    Attributes
    ----------
    agrees : bool or None
        True: every question was proved by at least one complete method and none objected. False:
        ``counterexample`` breaks the claim. None: the budget ran out.
    proved_twice : bool
        Every question was proved by both methods, CP-SAT and boxes.
    counterexample : Counterexample or None
    proofs : tuple of Proof
        Every method's answer to every question.
    covered : float
        Smallest share of the region (by number of state rows) that boxes covered in any question;
        1.0 where every question was proved.
    remarks : tuple of str
        Whatever a reader should know beyond that.
    seconds : float
    """

    agrees: bool | None
    proved_twice: bool
    counterexample: Counterexample | None
    proofs: tuple[Proof, ...]
    covered: float
    remarks: tuple[str, ...]
    seconds: float

    def summary(self) -> str:
        """A few readable lines."""
        heads = {
            True: "AGREES: the certificate was proved anew",
            False: "DISAGREES: the certificate is wrong",
            None: f"NOT SETTLED: the budget ran out, {self.covered:.1%} of the region is covered",
        }
        head = heads[self.agrees]
        if self.agrees:
            head += ", twice, by two methods" if self.proved_twice else ", by one method"
        lines = [f"{head} ({self.seconds:.1f} s)."]
        for proof in self.proofs:
            share = "" if proof.covered in (None, 1.0) else f", {proof.covered:.1%} covered"
            lines.append(
                f"  {proof.question.name} by {proof.method}: {proof.answer.value} "
                f"({proof.seconds:.2f} s{share})"
            )
        if self.counterexample is not None:
            found = self.counterexample
            by = "natively" if found.native else "by exact sums"
            lines.append(
                f"  input {found.row.tolist()}: class {found.original_class} before, "
                f"{found.pruned_class} after ({by})"
            )
        return "\n".join([*lines, *(f"  {remark}" for remark in self.remarks)])

    def record(self, certificate: Certificate) -> Certificate:
        """The certificate with these proofs added, if every question was proved by both methods.

        Otherwise the certificate as it is: a budget that ran out says nothing new.
        """
        if not (self.agrees and self.proved_twice):
            return certificate
        new = [QuestionProof(p.question.name, p.method, p.answer.name) for p in self.proofs]
        added = tuple(proof for proof in new if proof not in certificate.proofs)
        return replace(certificate, proofs=certificate.proofs + added)

    def __str__(self) -> str:
        return self.summary()


def verify(
    original: Any,
    pruned: Any,
    region: Region | str | os.PathLike[str],
    certificate: Certificate | str | os.PathLike[str],
    *,
    time_limit: float | None = None,
    n_jobs: int = 1,
    trust_pickle: bool = False,
    X_fit: Any = None,
    X_cal: Any = None,
) -> Verification:
    """Prove anew that two models predict the same class on every input of a region.

    Parameters
    ----------
    original, pruned : model, path or bytes
        What was pruned and what was written.
    region : Region or path of region.json
    certificate : Certificate or path of certificate.json
    time_limit : float, optional
        Seconds; without it CP-SAT runs to the end and boxes up to 20 million boxes a question.
    n_jobs : int
        Threads for CP-SAT; with joblib installed, processes for parts of the boxes. -1: all cores.
    trust_pickle : bool
        Load pickled models; only for files you made.
    X_fit, X_cal : tables, optional
        Those that the region is said to be fitted and calibrated on: score, tau and coverage are
        computed anew. Without them they rest on the certificate's word (``certificate.rests_on``).

    Returns
    -------
    Verification

    Raises
    ------
    CertificateMismatch
        A file was changed or belongs to something else; or the certificate carries no claim.
    """
    started = time.monotonic()
    require_seconds(time_limit)
    n_workers = worker_count(n_jobs)
    budget = Budget.of(time_limit, _TO_THE_END)
    # what is proved is what the fingerprint covers, not what a live object may hold besides
    region = (
        Region.from_json(region.to_json()) if isinstance(region, Region) else Region.load(region)
    )
    if not isinstance(certificate, Certificate):
        certificate = Certificate.load(certificate)
    thresholds = certificate.thresholds or None
    before, after = (
        model
        if isinstance(model, Model)
        else read_model(model, threshold=thresholds, trust_pickle=trust_pickle)
        for model in (original, pruned)
    )
    before, after = (as_region_reads(model, region) for model in (before, after))
    require_belonging(before.forest, after.forest, region, certificate)
    require_interchangeable(before, after)
    parts = (before.forest, region.space, region.tables)
    problem = build_problem(*parts, delta=region.delta or 0.0)
    is_earlier = certificate.version < _WITH_BOUND
    if is_earlier and certificate.undecided > problem.undecided > 0:  # it left out more
        wider = certificate.undecided
        problem = build_problem(*parts, delta=region.delta or 0.0, undecided=wider)
    remarks: tuple[str, ...] = () if certificate.sealed else (_UNSEALED,)
    if certificate.version < 3:
        remarks += (_EARLIER,)
    refitted = False
    if X_fit is not None or X_cal is not None:
        anew = recalibrate(before.forest, region, certificate, X_fit, X_cal)
        refitted, remarks = anew.refitted, remarks + anew.remarks
    remarks += (f"Taken on trust: {'; '.join(rests_on(certificate, tables=refitted))}.",)
    remarks += require_bound(problem, certificate, budget.share(0.25), X_fit, region)
    if certificate.grid < 0:
        return _identical(problem, certificate, remarks, started)
    matched = correspond(before.forest, after.forest, certificate.kept, certificate.grid)
    require_decisive(problem, after.forest, matched)
    outer = enclosures(problem)
    remarks += _check_undecided(problem, outer, certificate, budget.share(0.1))
    proofs = _prove(problem, outer, matched.pruned, budget, n_workers)
    verdict = _conclude(problem, matched.pruned, before, after, proofs, remarks, started)
    if verdict.agrees is not False:  # an input that breaks the claim says more than a wrong count
        require_consistent(problem, matched, certificate)
    return verdict


def _identical(
    problem: Problem, certificate: Certificate, remarks: tuple[str, ...], started: float
) -> Verification:
    if certificate.original_digest != certificate.pruned_digest:
        raise CertificateMismatch(
            "The certificate says that the original was kept, but the two models differ."
        )
    if certificate.kept != tuple(range(certificate.trees_before)) or certificate.grid != -1:
        raise CertificateMismatch(
            "The certificate says that the original was kept, but not all of its trees."
        )
    require_consistent(problem, None, certificate)
    remarks += ("Both models are the same; there is nothing to prove.",)
    return Verification(True, True, None, (), 1.0, remarks, time.monotonic() - started)


def _check_undecided(
    problem: Problem, outer: list[Enclosure], certificate: Certificate, budget: Budget
) -> tuple[str, ...]:
    is_earlier = certificate.version < _WITH_BOUND and certificate.undecided > 0
    if certificate.undecided != problem.undecided and not is_earlier:
        raise CertificateMismatch(
            f"The certificate leaves out inputs within {certificate.undecided!r} of the decision; "
            f"for these models it must be {problem.undecided!r}."
        )
    if problem.undecided == 0:
        return ()
    nowhere = any(find_undecided(stage.problem, None, budget) is False for stage in outer)
    exists = False if nowhere else find_undecided(problem, None, budget)
    if certificate.undecided_exists is False and exists is True:
        raise CertificateMismatch(
            "The certificate says that no input of the region lies within the rounding band, but "
            "there is one."
        )
    if certificate.undecided_exists is False and exists is None:
        return ("Whether the rounding band of the original is empty could not be settled anew.",)
    if exists is False:
        return ("No input of the region lies within the original's rounding band.",)
    return (
        f"Inputs within {problem.undecided:.3g} of the decision are not part of the claim: there "
        "rounding decides the original's class.",
    )


def _prove(
    problem: Problem, outer: list[Enclosure], pruned: PrunedForest, budget: Budget, n_jobs: int
) -> list[Proof]:
    """On larger regions first, where they are easier; what holds there holds on this one."""
    for stage in outer:
        share = budget.share(0.25).within(_STAGE_SECONDS)
        proofs = _prove_on(stage.problem, pruned, share, n_jobs)
        if all(proof.answer is Answer.PROVED for proof in proofs):
            return [replace(proof, method=f"{proof.method} ({stage.name})") for proof in proofs]
    return _prove_on(problem, pruned, budget, n_jobs)


def _prove_on(problem: Problem, pruned: PrunedForest, budget: Budget, n_jobs: int) -> list[Proof]:
    """Every question by boxes in half of the time, and by CP-SAT in what is left."""
    proofs = prove_in_boxes(problem, pruned, _MAX_BOXES, budget.share(0.5), n_jobs)
    prover = Prover(problem, n_jobs)
    return proofs + prover.prove(pruned, list(problem.questions), THIRD, budget)


def _conclude(
    problem: Problem,
    pruned: PrunedForest,
    before: Model,
    after: Model,
    proofs: list[Proof],
    remarks: tuple[str, ...],
    started: float,
) -> Verification:
    answers: dict[int, list[Answer]] = {question.index: [] for question in problem.questions}
    counterexample = None
    for proof in proofs:
        answer = proof.answer
        if proof.states is not None:
            states = proof.states[None]
            if problem.lost(pruned, states)[0, proof.question.index]:
                found = _replay(problem, pruned, before, after, proof)
                if found.original_class == found.pruned_class:
                    remarks += (
                        f"{proof.question.name}: the pruned model is closer to its decision than "
                        "the proof needs, though the class is the same.",
                    )
                elif counterexample is None or (found.native and not counterexample.native):
                    counterexample = found
            else:  # never seen: a solver that names a point which the integers do not confirm
                answer = Answer.UNKNOWN
                remarks += (f"{proof.method} named a point that is no counterexample.",)
        answers[proof.question.index].append(answer)
    for question in problem.questions:
        own = answers[question.index]
        if Answer.PROVED in own and Answer.FOUND in own:
            remarks += (f"{question.name}: one method proved what the other refuted.",)
    refuted = any(Answer.FOUND in own for own in answers.values())
    proved = all(Answer.PROVED in own for own in answers.values()) and not refuted
    agrees = False if counterexample is not None else (True if proved else None)
    twice = proved and all(own.count(Answer.PROVED) > 1 for own in answers.values())
    covered = 1.0 if proved else min(p.covered for p in proofs if p.covered is not None)
    return Verification(
        agrees, twice, counterexample, tuple(proofs), covered, remarks, time.monotonic() - started
    )


def _replay(
    problem: Problem, pruned: PrunedForest, before: Model, after: Model, proof: Proof
) -> Counterexample:
    """Both classes at the found point: natively where the libraries are, else by exact sums.

    Files, which may come from anybody, are loaded natively in a child process only.
    """
    from pine_boost.native.child_process import predict_in_child

    assert proof.states is not None
    row = problem.space.representative(proof.states[None])
    try:
        classes: Sequence[int] = [int(predict_in_child(model, row)[0]) for model in (before, after)]
        native = True
    except ImportError:
        leaves = problem.trees.leaves(proof.states[None])
        sums = [
            np.ldexp(problem.original_margins_int(leaves).astype(np.float64), -problem.scale),
            np.ldexp(problem.pruned_margins_int(pruned, leaves).astype(np.float64), -pruned.grid),
        ]
        classes = [int(problem.forest.decision.classes(margins)[0]) for margins in sums]
        native = False
    return Counterexample(proof.question.name, row[0], classes[0], classes[1], native)
