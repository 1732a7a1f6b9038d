"""Prove a certificate anew from the two models, the region and the certificate alone.

In come the files (or live objects); out goes a Verification: agrees, disagrees with an input to
replay, or says how much was covered. Uses nothing of the pruner: no rows, cuts or weights. Refuses
files that do not belong together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pine_boost.budget import Budget, Effort
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claim import exception_of, rests_on
from pine_boost.certificate.consistency import require_bound, require_consistent, require_one_result
from pine_boost.certificate.counterexample import Case, Replay
from pine_boost.certificate.lossless_claim import nothing_to_prove
from pine_boost.certificate.recalibration import recalibrate
from pine_boost.certificate.same_interface import as_region_reads, require_interchangeable
from pine_boost.certificate.serving import count_sure, prove_serving, require_serving
from pine_boost.certificate.tree_matching import match_trees, require_decisive, require_same_margins
from pine_boost.certificate.verdict import Verification
from pine_boost.errors import CertificateMismatch
from pine_boost.model.forest import Forest, Model, PrunedForest
from pine_boost.proof.boxes.branch_and_bound import prove_in_boxes
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.solver import SolverSetting
from pine_boost.proof.enclosures import Enclosure, enclosures
from pine_boost.proof.enumeration import prove_listed, prove_walked
from pine_boost.proof.problem import Problem, build_problem, restated
from pine_boost.proof.question import Answer, Proof
from pine_boost.proof.undecided import find_undecided
from pine_boost.region.margins import ServingMargin
from pine_boost.region.region import Region
from pine_boost.tables.rows import open_rows

# Neither the seeds nor the combination of settings of the search's two proofs.
THIRD = (
    SolverSetting("cp-sat-verify", random_seed=104729, linearization_level=1),
    SolverSetting("cp-sat-verify-no-lp", random_seed=104729),
)
_MAX_BOXES = 20_000_000
_WITH_BOUND = 3  # the format version since which the band is narrow and the bound written down
TO_THE_END = Effort(master_effort=1e9, proof_effort=1e9)
_STAGE_SECONDS = 20.0  # for an attempt on a larger region
_NO_DIGEST = (
    "The certificate is of format version 1, without a digest of its own: lower_bound, "
    "probability_shift, objective, versions and reason could not be checked."
)
_EARLIER = (
    "The certificate is of an earlier format: the wording of its claim was not compared with what "
    "was proved anew, and its lower bound rests on its word."
)


def prove_anew(
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
        X_fit and X_cal, to compute region and tau anew.
    replay : callable, optional
        Predicts a counterexample natively; without it its classes are those of the exact sums.
    """
    # what is proved is what the fingerprint covers, not what a live object may hold besides
    region = Region.from_json(region.to_json())
    before, after = (as_region_reads(model, region) for model in models)
    require_one_result(before.forest, after.forest, region, certificate)
    require_interchangeable(before, after)
    problem = _problem_of(before, region, certificate)
    remarks: tuple[str, ...] = () if certificate.has_digest else (_NO_DIGEST,)
    if certificate.version < _WITH_BOUND:
        remarks += (_EARLIER,)
    refitted = False
    if any(table is not None for table in tables):
        anew = recalibrate(before.forest, region, certificate, *tables)
        refitted, remarks = anew.refitted, remarks + anew.remarks
    remarks += (f"Taken on trust: {'; '.join(rests_on(certificate, tables=refitted))}.",)
    remarks += require_bound(problem, certificate, budget.share(0.25), tables[0], region)
    if certificate.grid < 0:
        return _identical(problem, after.forest, certificate, remarks, budget.elapsed)
    matched = match_trees(before.forest, after.forest, certificate.kept, certificate.grid)
    require_decisive(problem, after.forest, matched)
    outer = enclosures(problem)
    remarks += _check_undecided(problem, outer, certificate, budget.share(0.1))
    proofs = _prove(problem, outer, matched.pruned, budget, n_workers)
    case = Case(problem, matched.pruned, before, after, replay)
    serving, served = require_serving(problem, matched, certificate, region), None
    if serving is not None:
        served = _check_serving(problem, matched.pruned, serving, (region, after), tables, budget)
    verdict = replace(case.conclude(proofs, remarks, budget), serving_proved=served)
    if verdict.agrees is not False:  # an input that breaks the claim says more than a wrong count
        require_consistent(problem, after.forest, matched, certificate)
    return verdict


def _problem_of(original: Model, region: Region, certificate: Certificate) -> Problem:
    delta = region.delta or 0.0
    problem = build_problem(original.forest, region.space, region.tables, delta=delta)
    is_earlier = certificate.version < _WITH_BOUND
    if is_earlier and certificate.undecided > problem.undecided > 0:  # it left out more
        problem = restated(problem, region.tables, delta, certificate.undecided)
    return problem


def _identical(
    problem: Problem, smaller: Forest, certificate: Certificate, remarks: tuple[str, ...], seconds: float
) -> Verification:
    is_trimmed = certificate.original_digest != certificate.pruned_digest
    if is_trimmed:
        try:
            require_same_margins(problem.forest, smaller)
        except CertificateMismatch as error:
            raise CertificateMismatch(
                f"The certificate says that the original was kept, but the two models differ: {error}"
            ) from error
    if certificate.kept != tuple(range(certificate.trees_before)) or certificate.grid != -1:
        raise CertificateMismatch("The certificate says that the original was kept, but not all of its trees.")
    if certificate.serving is not None:
        raise CertificateMismatch("The certificate names a serving margin that nothing needs.")
    require_consistent(problem, smaller, None, certificate)
    same = nothing_to_prove(is_trimmed)
    return Verification(True, True, None, (), 1.0, (*remarks, same), seconds)


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
            "The certificate says that no input of the region lies within the rounding band, but there is one."
        )
    if certificate.undecided_exists is False and exists is None:
        return ("Whether the rounding band of the original is empty could not be settled anew.",)
    if exists is False:
        return ("No input of the region lies within the original's rounding band.",)
    return (f"Not part of the claim{exception_of(certificate)}.",)


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
        if found != (serving.n_cal, serving.n_inside):
            raise CertificateMismatch(
                f"{serving.n_inside} of {serving.n_cal} calibration rows are said to pass the "
                f"serving margin; of X_cal {found[1]} of {found[0]} do.",
                option="X_cal",
            )
    return prove_serving(problem, pruned, serving.units, THIRD, budget)


def _prove(problem: Problem, outer: list[Enclosure], pruned: PrunedForest, budget: Budget, n_jobs: int) -> list[Proof]:
    """On larger regions first, where they are easier; what holds there holds on this one."""
    for stage in outer:
        share = budget.share(0.25).within(_STAGE_SECONDS)
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
    proofs = prove_in_boxes(problem, pruned, _MAX_BOXES, budget.share(0.5), n_jobs)
    return proofs + prover.prove(pruned, list(problem.questions), THIRD, budget)
