"""Check that models, region and certificate belong together: what follows from something else is computed again.

A CertificateMismatch names the first thing that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from pine_boost.budget import Budget
from pine_boost.certificate.certificate import BoundRecord, Certificate, CutRecord, Status, require, require_fields
from pine_boost.certificate.claims import claim_of, kept_reason, rests_on, sureness_of
from pine_boost.certificate.tree_matching import MatchedTrees
from pine_boost.errors import CertificateMismatch
from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import Forest, Model, count_units, tree_units
from pine_boost.model.routing import StateTrees, route
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import StateSpace, build_space
from pine_boost.model.trimming import leaf_count, pass_down
from pine_boost.parsers.traits import describe
from pine_boost.proof.bound import Bound, Cut, check_bound
from pine_boost.proof.problem import Problem, required_int
from pine_boost.proof.standalone_margin import distance_of
from pine_boost.region.margins import ServingMargin
from pine_boost.region.region import Region
from pine_boost.tables.schema import schema_of

# what a wrapper adds to its booster and no model file holds, by the attribute that holds it
_OF_WRAPPERS = {"classes": "classes_", "missing": "missing"}
_MOST_NUMBERS = 200_000  # of the record of a bound: a few megabytes of JSON


def require_one_result(original: Forest, pruned: Forest, region: Region, certificate: Certificate) -> None:
    """Check that models, region and certificate belong to one another, down to the last bit."""
    is_claim = certificate.status == Status.CERTIFIED.value
    require(is_claim, f"The certificate's status is {certificate.status}: it makes no claim to verify.")
    found = {
        "original_digest": forest_digest(original),
        "pruned_digest": forest_digest(pruned),
        **region_fields(region),
        "thresholds": original.decision.thresholds,
        "trees_before": original.n_trees,
        "leaves_before": original.n_leaves,
        "trees_after": len(certificate.kept),
        "sureness": sureness_of(original, region.delta),
        "claim": claim_of(certificate),
        "reason": kept_reason(certificate),
        "rests_on": rests_on(certificate),
    }
    subject = {
        "original_digest": "The original model is not the one",
        "pruned_digest": "The pruned model is not the one",
        "region_fingerprint": "The region is not the one",
    }
    for name, value in found.items():
        start = subject.get(name, f"{name} is not the value")
        sentence = f"{start} that the certificate names (found {{found!r}}, certificate {{stated!r}}); "
        require_fields(certificate, {name: value}, sentence + "a file was changed or belongs to another run.")
    _require_region_of(original, region)


def require_band(problem: Problem, certificate: Certificate) -> None:
    """Check that a claim leaves out what rounding explains, and nothing more."""
    is_pruned = certificate.grid >= 0
    found = {
        "undecided": problem.undecided if is_pruned else 0.0,
        "native_band": problem.native_band if is_pruned else 0.0,
    }
    sentence = "The certificate leaves out inputs within {stated!r} of the decision ({name}); for these models it must "
    require_fields(certificate, found, sentence + "be {found!r}.")
    speaks_of_none = is_pruned or certificate.undecided_exists is None
    require(speaks_of_none, "The certificate speaks of a rounding band although the original was kept.")


def region_fields(region: Region) -> dict[str, Any]:
    """The fields of a certificate that its region gives."""
    return {
        "region_fingerprint": region.fingerprint(),
        "alpha": region.alpha,
        "tau": region.tau,
        "n_cal": region.n_cal,
        "n_fit": region.n_fit,
        "score": region.score_name,
        "indifference": region.indifference,
        "delta": region.delta,
        "boundary_share": 0.0 if region.nesting is None else region.nesting.share,
        "narrowed": region.is_narrowed(),
        "overlap": 0.0 if region.overlap is None else region.overlap.share,
        "overlap_evident": region.overlap is not None and region.overlap.is_evident,
    }


def _require_region_of(original: Forest, region: Region) -> None:
    """Rebuild what the region says of the original, and what follows from its calibration scores."""
    rebuilt = replace(
        region.with_alpha(region.alpha),
        space=_space_of(original, region),
        schema=schema_of(original),
        cuts=original.decision.cuts,
        n_outputs=original.n_outputs,
        thresholds=original.decision.thresholds,
        model_digest=forest_digest(original),
    )
    expected = rebuilt.to_json()
    for name, stated in region.to_json().items():
        found = "" if name in ("space", "schema") else f" ({stated!r}, found {expected[name]!r})"
        sentence = f"{name!r} of the region does not follow from the original model and the calibration scores{found}."
        require(stated == expected[name], sentence)
    trees = None if region.score_tables is None else region.score_tables.trees
    if trees is not None and trees.of_model:
        own = route(original, region.space)
        same = (np.array_equal(getattr(trees.trees, n), getattr(own, n)) for n in StateTrees.__dataclass_fields__)
        require(all(same), "The region's leaf costs refer to other trees than the original model's.")


def _space_of(original: Forest, region: Region) -> StateSpace:
    """The original's state space, with the further edges that the region's score brought in."""
    base = build_space(original)
    extra: list[Any] = []
    for own, stored in zip(base.axes, region.space.axes, strict=False):
        same = own.codes is not None or np.array_equal(own.edges, stored.edges)
        extra.append(None if same else stored.edges)
    return build_space(original, extra)


def require_consistent(
    problem: Problem, smaller: Forest, matched: MatchedTrees | None, certificate: Certificate
) -> None:
    """Recompute the counts, weights and proofs that a certificate states.

    What follows from the models is compared; the lower bound, which only a new search could find,
    must at least be possible. ``matched`` is None where ``smaller`` has the original's margins.
    """
    kept = np.array(certificate.kept, dtype=np.int64)
    forest, unit = problem.forest, certificate.unit
    leaves_after = smaller.n_leaves if matched is None else leaf_count(matched.pruned)
    found = {
        "units_before": count_units(forest, unit),
        "units_kept": leaves_after if unit == "leaf" else len(np.unique(tree_units(forest, unit)[kept])),
        "leaves_after": leaves_after,
    }
    require_fields(certificate, found, "{name} is {stated} in the certificate; the models say {found}.")
    is_met = certificate.lower_bound == certificate.units_kept
    require(
        0 <= certificate.lower_bound <= certificate.units_kept and (is_met or not certificate.optimal),
        f"The certificate's lower bound {certificate.lower_bound} (optimal: {certificate.optimal}) does not fit "
        f"{certificate.units_kept} kept units.",
    )
    n_weights = len(certificate.weights)
    require(n_weights == len(kept), f"The certificate has {n_weights} weights for {len(kept)} kept trees.")
    if matched is None:
        is_plain = set(certificate.weights) <= {1} and not certificate.proofs and certificate.reweight == "tree"
        require(is_plain, "The original was kept, but the certificate names other weights or proofs.")
        return
    _require_whole_trees(forest, matched, certificate)
    _require_weights(problem.forest, matched, certificate)
    stated = [(proof.question, proof.method) for proof in certificate.proofs]
    _require_two_methods(problem, stated, "The certificate")


def _require_whole_trees(forest: Forest, matched: MatchedTrees, certificate: Certificate) -> None:
    """Subtrees become leaves only where leaves are counted and have new values.

    Anywhere else all leaves of such a subtree that an input reaches must have had one value.
    """
    is_leaf = matched.pruned.is_leaf
    if is_leaf is None or (certificate.unit == "leaf" and certificate.reweight == "leaf"):
        return
    collapsed = np.flatnonzero(is_leaf & (forest.kind != SplitKind.LEAF))
    owner = np.full(forest.n_nodes, -1)
    owner[collapsed] = collapsed
    pass_down(forest, collapsed, owner)
    below = np.flatnonzero((owner >= 0) & (forest.kind == SplitKind.LEAF) & matched.alive)
    first = np.full(forest.n_nodes, -1)
    first[owner[below[::-1]]] = below[::-1]
    require(
        not np.any(forest.value[below] != forest.value[first[owner[below]]]),
        "The pruned model has leaves where the original has splits, but the certificate's unit is "
        f"{certificate.unit!r} and its reweight {certificate.reweight!r}.",
    )


def _require_weights(forest: Forest, matched: MatchedTrees, certificate: Certificate) -> None:
    """Differences of leaves must be the weight times the original's, up to two roundings.

    Trees with new leaf values have no weights: there all must be 1.
    """
    if certificate.reweight == "leaf":
        require(set(certificate.weights) <= {1}, "The certificate names weights of trees that have new leaf values.")
        return
    pruned = matched.pruned
    slack = 2.0 + float(2 * matched.deviation * 2**pruned.grid)
    for tree, weight in zip(certificate.kept, certificate.weights, strict=True):
        own = slice(int(forest.tree_offset[tree]), int(forest.tree_offset[tree + 1]))
        live = matched.alive[own] & (forest.kind[own] == SplitKind.LEAF)
        leaves = own.start + np.flatnonzero(live)
        with np.errstate(over="ignore"):  # a forged weight may be huge; infinity is no ratio of leaves
            before = np.ldexp(weight * (forest.value[leaves] - forest.value[leaves[:1]]), pruned.grid)
        after = pruned.value_int[leaves] - pruned.value_int[leaves[:1]]
        require(
            len(leaves) < 2 or bool(np.all(np.abs(after - before) <= slack)),
            f"The certificate's weight {weight!r} of tree {tree} is not the ratio of the two models' leaves.",
        )


def _require_two_methods(problem: Problem, stated: Iterable[tuple[str, str]], who: str) -> None:
    """Check that every question has two proofs, and that nothing else was proved."""
    methods: dict[str, set[str]] = {question.name: set() for question in problem.questions}
    for question, method in stated:
        require(question in methods, f"{who} proves {question[:80]!r}, which is not a question of this model.")
        methods[question].add(method)
    for name, used in methods.items():
        require(len(used) > 1, f"{who} records {len(used)} proofs of {name!r}; a claim needs two.")


def require_bound(
    problem: Problem, certificate: Certificate, budget: Budget, X_fit: Any, region: Region
) -> tuple[bool, tuple[str, ...]]:
    """Whether the lower bound was proved again from the rows and multipliers in the certificate, and a remark."""
    written, subject = certificate.bound, f"The certificate's lower bound {certificate.lower_bound}"
    is_trivial = written is None and certificate.lower_bound <= 1
    require(certificate.unit != "leaf" or is_trivial, f"{subject} is about leaves, for which there is no proof.")
    if written is None:
        require(is_trivial, f"{subject} comes without a proof.")
        return True, ()
    bound = read_bound(problem, certificate.lower_bound, written)
    units = tree_units(problem.forest, certificate.unit)
    by_leaf = certificate.reweight == "leaf"
    has_vectors = bool((problem.forest.tree_output < 0).any())
    require(not (by_leaf and has_vectors), "Leaves with a value per output cannot have new values.")
    verdict = False if bound is None else check_bound(problem, units, bound, budget, by_leaf=by_leaf)
    if bound is None or verdict is False:
        number = certificate.lower_bound
        raise CertificateMismatch(f"The rows and multipliers of the certificate do not prove its lower bound {number}.")
    if written.outside and X_fit is not None:
        known = {row.tobytes() for row in region.states(X_fit)}
        outside = bound.states[~problem.region.contains(bound.states)]
        unknown = "The lower bound rests on a point that is neither in the region nor in X_fit."
        require(all(row.tobytes() in known for row in outside), unknown, option="X_fit")
    if verdict is None:
        return False, ("The lower bound was not proved again: the time ran out.",)
    return True, (f"At least {bound.units} {certificate.unit}s are needed: proved again.",)


def write_bound(problem: Problem, bound: Bound | None) -> BoundRecord | None:
    """The record of a bound; None where there is none or it would be too large to be written."""
    if bound is None:
        return None
    numbers = bound.states.size + sum(len(cut.rows) * 2 + len(cut.units) for cut in bound.cuts)
    if numbers > _MOST_NUMBERS:
        return None
    outside = ~problem.region.contains(bound.states)
    cuts = (CutRecord(tuple(sorted(cut.units)), cut.rows, tuple(str(p) for p in cut.multipliers)) for cut in bound.cuts)
    return BoundRecord(
        states=tuple(tuple(int(state) for state in row) for row in bound.states),
        questions=tuple(int(question) for question in bound.questions),
        outside=int(outside.sum()),
        cuts=tuple(cuts),
    )


def read_bound(problem: Problem, units: int, written: BoundRecord) -> Bound | None:
    """The bound that a record describes; None where it does not fit the problem."""
    n_rows, n_features = len(written.states), problem.space.n_features
    if len(written.questions) != n_rows or any(len(row) != n_features for row in written.states):
        return None
    states = np.array(written.states, dtype=np.int64).reshape(n_rows, n_features)
    fits = bool(np.all((states >= 0) & (states < problem.space.n_states)))
    fits &= all(0 <= question < len(problem.questions) for question in written.questions)
    fits &= all(0 <= row < n_rows for cut in written.cuts for row in cut.rows)
    fits &= all(len(cut.rows) == len(cut.multipliers) for cut in written.cuts)
    if not fits or written.outside != int((~problem.region.contains(states)).sum()):
        return None
    cuts = tuple(
        Cut(frozenset(cut.units), cut.rows, tuple(int(text) for text in cut.multipliers)) for cut in written.cuts
    )
    questions = np.array(written.questions, dtype=np.int64)
    return Bound(units, states.astype(np.int32), questions, cuts)


def as_region_reads(model: Model, region: Region) -> Model:
    """A model from a file, with the missing value that the region was made for.

    No file holds the number of ``XGBClassifier(missing=-999)``; the region says how tables are
    read, and its fingerprint is in the certificate.
    """
    value = region.schema.missing_value
    if model.native is not None or np.isnan(value):
        return model
    return replace(model, forest=replace(model.forest, missing_value=value))


def require_interchangeable(original: Model, pruned: Model) -> None:
    """Check everything that decides how a table is read and what the answer is called."""
    before, after = describe(original), describe(pruned)
    for name in sorted(before.keys() | after.keys()):
        if original.kind != pruned.kind and _is_lacking(name, original, pruned):
            continue
        one, other = before.get(name), after.get(name)
        require(
            bool(one == other),
            f"Original and pruned model differ in {name}: {one!r:.120} and {other!r:.120}. "
            "A file was changed or belongs to another run.",
        )


def _is_lacking(name: str, *models: Model) -> bool:
    """Whether one of them, a file or booster of a wrapper say, cannot hold this."""
    attribute = _OF_WRAPPERS.get(name)
    return attribute is not None and not all(hasattr(m.native, attribute) for m in models)


def require_serving(
    problem: Problem, matched: MatchedTrees, certificate: Certificate, region: Region
) -> ServingMargin | None:
    """Check that the numbers of a serving margin follow from one another; None without one."""
    stated = certificate.serving
    if stated is None:
        return None
    pruned = matched.pruned
    require(certificate.delta is not None, "The certificate names a serving margin that nothing needs.")
    found = {
        "pruned_digest": certificate.pruned_digest,
        "region_digest": region.tables_digest,
        "tau": region.tau,
        "n_cal": region.n_cal,
        "distance": distance_of(stated.units, pruned.grid),
    }
    require_fields(stated, found, "{name} of the serving margin is {stated!r}; models and region say {found!r}.")
    is_beyond = stated.units >= required_int(problem.forest, pruned.grid)[1]
    require(is_beyond, "The serving margin is nearer than the model's own rounding.")
    # the one unit of `distance_of` must hold the rounding of the cut and that of the leaves
    off = matched.deviation * (1 if pruned.forest.n_outputs == 1 else 2) * 2**pruned.grid
    require(
        off + Fraction(1, 2) <= 1,
        "The serving margin leaves half a grid unit for the rounding of the pruned model, whose margin may be off by "
        f"{float(off):.3g}.",
    )
    _require_two_methods(problem, stated.proofs, "The serving margin")
    return stated
