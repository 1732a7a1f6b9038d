"""Proves a saved scorer again from the model and the folder alone, or counts its validation rows again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from pine_boost import json_fields as f
from pine_boost import kernels
from pine_boost.certificate.claims import (
    MEASURED,
    NOT_VALIDATED,
    SAVED_MODEL,
    VALIDATED,
    Statement,
    scorer_claim,
    tested_scorer_claim,
)
from pine_boost.compression.fixed_sequence import lower_bound
from pine_boost.compression.goal import Answers, Goal
from pine_boost.compression.record import differences, open_tested_rows
from pine_boost.errors import CertificateMismatch, InvalidInputError
from pine_boost.kernels.flat_forest import NativeSum
from pine_boost.model.digest import forest_digest
from pine_boost.model.flatten import flatten
from pine_boost.model.forest import Forest, Model
from pine_boost.notebooks import displayed, text_html
from pine_boost.options import counted
from pine_boost.parsers import open_pickle, read_model
from pine_boost.parsers.traits import SAVED_KIND, warn_if_untested
from pine_boost.pipelines.unwrapping import Wrapper, unwrap
from pine_boost.proof.exits import faults_of, truncation_faults
from pine_boost.scoring.fast_scorer import FastScorer, ScorerParts
from pine_boost.scoring.native_sum import is_unordered, native_sum, probability_rule, require_own_predict
from pine_boost.scoring.proved_exits import keep_trees, restrict
from pine_boost.scoring.scorer_folder import REMEDY, may_be_labels, read_parts, trusted_around_trees
from pine_boost.tables.native import as_table
from pine_boost.tables.rows import Rows
from pine_boost.tables.schema import schema_of

CERTIFIED = "CERTIFIED"
_VALIDATION: dict[str, f.Reader] = {
    **dict.fromkeys(("fidelity", "confidence"), f.SHARE),
    **dict.fromkeys(("bound", "overlap"), f.number(0.0, 1.0)),
    "tolerance": f.optional(f.number(0.0)),
    **dict.fromkeys(("n_val", "n_changed"), f.integer(0, 2**53)),
    "validation_digest": f.digest,
}
_PARTS = {"flat": "trees", "native": "leaf values", "plan": "stages (order, values or exits)"}
_MADE: dict[str, f.Reader] = {
    "fit_digest": f.digest,
    "random_state": f.integer(0, 2**63 - 1),
    "time_limit": f.optional(f.number(0)),
}
_TRUNCATION: dict[str, f.Reader] = {"tolerance": f.number(0.0), "trees": f.sequence(f.integer(0, 2**31 - 1))}

# fields of a manifest that nobody could find again, and that no claim rests on
HOW_IT_WAS_MADE = (
    *("pine_boost", "work", "work_rows", "work_per_row", "kernel", "versions", "stopped", "date"),
    *("made", "n_fit", "segments", "path and compressed_digest of a validation"),
)
_SHOWN_NAMES = 5
# how a table is read and what a margin means: the same for a model and a smaller one made of it
_OF_THE_TABLE = (
    *("n_features", "n_outputs", "is_float32", "is_closed", "zero", "missing_value"),
    *("refuses_missing", "refuses_infinite", "code_rule", "cuts", "link", "slope", "wins_ties", "intercept_last"),
)


@displayed
@dataclass(frozen=True)
class ScorerVerification:
    """Whether a scorer is what its manifest claims.

    Attributes
    ----------
    agrees : bool
        Trees, values and decision were derived from the model again, and the exits proved or the validation rows
        counted again.
    faults : tuple of str
        What is wrong, in the order in which it was found.
    claim : str
        What the manifest claims.
    n_stages : int
        Stages whose exits were checked.
    n_rows : int
        Validation rows that were counted again; 0 for a proved scorer.
    trusted : tuple of str
        What nobody could find again from the files given.
    seconds : float
    made_again : bool
        Whether the same scorer came out of the rows that it was fitted and tested on.
    """

    agrees: bool
    faults: tuple[str, ...]
    claim: str
    n_stages: int
    n_rows: int
    trusted: tuple[str, ...]
    seconds: float
    made_again: bool = False

    def summary(self) -> str:
        """The verdict in a few lines."""
        if not self.agrees:
            found = "; ".join(self.faults[:5]) + ("; ..." if len(self.faults) > 5 else "")
            return f"DISAGREES: {found} ({self.seconds:.1f} s)."
        if self.n_rows:
            head = f"the changed rows of {self.n_rows} validation rows and the bound were counted again"
        else:
            head = f"the exits of {counted(self.n_stages, 'stage')} were proved again"
        head += ", and the rows of X_fit and X_val gave the same scorer once more" if self.made_again else ""
        trusted = f"Taken on trust: {'; '.join(self.trusted)}."
        return f"AGREES: {head} ({self.seconds:.1f} s).\n{self.claim}\n{trusted}"

    def _repr_html_(self) -> str:
        return text_html(self.summary())  # without the claim, which may be false


def verify_scorer(
    model: Any,
    folder: str | os.PathLike[str],
    X_val: Any = None,
    *,
    X_fit: Any = None,
    build: Callable[..., Any] | None = None,
    trust_pickle: bool = False,
) -> ScorerVerification:
    """Prove the exits of a saved scorer again, or count its validation rows again.

    Neither uses the code that built the exits. With ``X_fit`` a tested scorer is also made again, by ``build``.

    Parameters
    ----------
    model : object, path or bytes
        The model that was accelerated.
    folder : path
        What `AccelerateResult.save` wrote.
    X_val : table, optional
        The validation rows in the same order; required for a scorer whose promise is a statistic.
    X_fit : table, optional
        The rows that a tested scorer was fitted to, in the same order: whatever was changed since it was made is
        noticed then, also what leaves the count alone.
    build : callable, optional
        `accelerate_booster`, which nothing here imports; with X_fit.
    trust_pickle : bool
        As for `prune_booster`.

    Returns
    -------
    ScorerVerification

    Raises
    ------
    CertificateMismatch
        The files of the folder do not belong together, or X_val is another table.
    MalformedModelError
        The arrays do not form trees with exits.
    """
    started = time.perf_counter()
    parts, manifest = read_parts(folder, trust_pickle=trust_pickle)
    is_statistic = manifest["status"] in (VALIDATED, MEASURED)
    if X_fit is not None and (manifest["status"] == CERTIFIED or X_val is None):
        raise InvalidInputError(
            f"The scorer in {folder} is {manifest['status']}: X_fit is for one that was tested, with its X_val. "
            "Pass both or neither; where exits are proved the model is enough.",
            option=("X_fit", "X_val"),
        )
    if is_statistic and X_val is None:
        raise InvalidInputError(
            f"The scorer in {folder} is {manifest['status']}: its promise is a statistic about its validation rows; "
            "pass them with X_val.",
            option="X_val",
        )
    outer = unwrap(open_pickle(model, trust_pickle))
    thresholds = tuple(manifest["thresholds"]) or None if outer.threshold is None else outer.threshold
    parsed = read_model(outer.inner, threshold=thresholds, decision="value", digest=manifest["model_digest"])
    require_own_predict(parsed)
    tested = _tested(manifest)
    statement = None if tested is None else Statement.of_scorer(manifest["status"], tested, parsed.forest)
    versions = manifest["facts"].get("versions")
    warn_if_untested(parsed.forest.library, versions if isinstance(versions, dict) else {})
    visited, native = parsed.forest, native_sum(parsed)
    X_val = None if X_val is None else outer.rows(X_val)
    faults: tuple[str, ...] = ()
    truncation = _truncation(manifest)
    if truncation is not None:
        kept = np.array(truncation["trees"], dtype=np.int64)
        native = restrict(visited, native, kept, parts.native.intercept.astype(native.intercept.dtype))
        faults = tuple(truncation_faults(visited, kept, native, truncation["tolerance"]))
        visited = visited if faults else keep_trees(visited, kept, native.intercept)
    has_own_trees = is_statistic and _is_smaller(manifest)
    faults = faults or tuple(_differences(parsed, outer, parts, manifest, visited, native, has_own_trees=has_own_trees))
    n_rows = 0
    if tested is not None and statement is not None and is_statistic and not faults:
        rows = open_tested_rows(
            X_val, parsed.forest, tested["validation_digest"], statement.n_val, "accelerate_booster"
        )
        n_rows = rows.n_rows
        faults = tuple(_miscounts(parsed, parts, statement, rows, X_val))
    elif not faults:
        faults = tuple(faults_of(visited, parts.plan))
    made_again = False
    if tested is not None and X_fit is not None and build is not None and not faults:
        made_again = True
        faults = tuple(_made_differently(parsed, parts, manifest, tested, (outer.rows(X_fit), X_val), build))
    tolerance = None if truncation is None else truncation["tolerance"]
    is_inside = bool(outer.deciding)
    claim = scorer_claim(parsed.forest, is_unordered=is_unordered(parsed), is_inside=is_inside, tolerance=tolerance)
    if statement is not None:
        claim = tested_scorer_claim(statement, claim, is_smaller=_is_smaller(manifest))
    if manifest["claim"] != claim:
        faults = (*faults, "its claim is not the sentence of its status and numbers")
    trusted = tuple(_trusted(parsed, manifest, made_again=made_again))
    seconds, n_stages = time.perf_counter() - started, parts.plan.n_stages
    return ScorerVerification(not faults, faults, manifest["claim"], n_stages, n_rows, trusted, seconds, made_again)


def _made_differently(
    parsed: Model,
    parts: ScorerParts,
    manifest: dict[str, Any],
    tested: dict[str, Any],
    tables: tuple[Any, Any],
    build: Callable[..., Any],
) -> Iterator[str]:
    """Where the scorer is not the one that its X_fit and X_val give."""
    facts, thresholds = manifest["facts"], parsed.forest.decision.thresholds or None
    with f.reading("scorer manifest", REMEDY, CertificateMismatch):
        made = f.record(_MADE)(facts.get("made"), "made")
    if made["time_limit"] is not None or "stopped" in facts:
        cause = "Ctrl-C" if "stopped" in facts else f"time_limit={made['time_limit']:g}"
        raise InvalidInputError(
            f"This scorer depends on when {cause} ended its search, so the same rows may give another one. Leave out "
            "X_fit.",
            option="X_fit",
        )
    n_fit = facts["validation"].get("n_fit")
    open_tested_rows(tables[0], parsed.forest, made["fit_digest"], n_fit, "accelerate_booster", "X_fit")
    how = {name: tested[name] for name in ("fidelity", "confidence", "tolerance")}
    how |= {"threshold": thresholds, "random_state": made["random_state"], "verbose": False}
    again = build(parsed, *tables, **how, allow_overlap=True)  # its status says whether rows had been seen
    if again.status != manifest["status"]:
        yield f"made again from X_fit and X_val it is {again.status}"
    expected = again.scorer.parts
    for name in differing(replace(parts, prepare=None, finish=None, classes=expected.classes), expected):
        yield (
            f"made again from X_fit and X_val it has other {_PARTS.get(name, name)}: it was changed since, or made by "
            f"other versions ({facts.get('versions')}) or on another processor"
        )


def _is_smaller(manifest: dict[str, Any]) -> bool:
    """Whether the record says that a smaller model was tested, not earlier exits of the model itself."""
    return "compressed_digest" in manifest["facts"].get("validation", {})


def _tested(manifest: dict[str, Any]) -> dict[str, Any] | None:
    """The numbers of the test, checked; None for a proved scorer, which has none."""
    status, validation = manifest["status"], manifest["facts"].get("validation")
    with f.reading("scorer manifest", REMEDY, CertificateMismatch):
        f.text((CERTIFIED, VALIDATED, MEASURED, NOT_VALIDATED))(status, "status")
        if status == CERTIFIED:
            f.require(validation is None, "'facts.validation' is about rows, but the status is that of a proof")
            return None
        f.require(isinstance(validation, dict), f"'facts.validation' is missing, which {status} is about")
        stated = {name: validation[name] for name in _VALIDATION if name in validation}
        return dict(f.read(stated, _VALIDATION, "validation"))


def _truncation(manifest: dict[str, Any]) -> dict[str, Any] | None:
    """The tolerance of a value scorer and the trees it evaluates, checked; None where it evaluates all."""
    if "truncation" not in manifest["facts"]:
        return None
    with f.reading("scorer manifest", REMEDY, CertificateMismatch):
        f.require(manifest["status"] == CERTIFIED, "'facts.truncation' is about a proof, but the status is not")
        return dict(f.record(_TRUNCATION)(manifest["facts"]["truncation"], "truncation"))


def _trusted(parsed: Model, manifest: dict[str, Any], *, made_again: bool) -> Iterator[str]:
    """What the claim rests on and the files cannot show."""
    status = manifest["status"]
    if status in (VALIDATED, MEASURED):
        overlap = manifest["facts"]["validation"]["overlap"]
        yield f"that X_val had not been seen before ({overlap:.2%} of its rows in X_fit)"
        tested = "trees, their order" if _is_smaller(manifest) else "order of the trees, values of the stages"
        if not made_again:
            yield (
                f"that what was tested ({tested}, exits, the levels and their order) was fixed before X_val was seen: "
                "changes since, with the digests recomputed, are noticed only if they change the count; pass X_fit to "
                "have the scorer made again and compared"
            )
        yield "that future inputs come from the same source"
    if status == NOT_VALIDATED:
        yield "that nothing smaller passed on the validation rows"
    yield from trusted_around_trees(manifest, parsed)
    if parsed.kind == SAVED_KIND:
        yield f"that the model in use is {SAVED_MODEL}"
    yield f"how the scorer was made: {', '.join(HOW_IT_WAS_MADE)}"


def _miscounts(parsed: Model, parts: ScorerParts, stated: Statement, rows: Rows, X_val: Any) -> Iterator[str]:
    """Numbers of the record that are not found again."""
    goal = Goal(parsed.forest, stated.tolerance)
    before = goal.native_answers(parsed, X_val)
    trees, scorer = kernels.bind(parts.flat, parts.native, parts.plan), FastScorer(replace(parts, prepare=None))
    classes, numbers = [], []
    for matrix in rows.chunks():
        if goal.keeps_class:
            classes.append(trees.classes(matrix))
        if goal.tolerance is not None and goal.keeps_class:
            numbers.append(scorer.predict_proba(as_table(matrix, parts.schema), exact=False))
        elif goal.tolerance is not None:
            numbers.append(trees.margins(matrix)[0] / parts.native.divisor)
    after = Answers(np.concatenate(classes) if classes else None, np.concatenate(numbers) if numbers else None)
    n_changed = int(goal.differ(before, after).sum())
    bound = lower_bound(n_changed, rows.n_rows, stated.confidence)
    yield from differences("it", stated, {"n_changed": n_changed, "bound": bound, "n_val": rows.n_rows})
    if stated.fidelity is not None and bound < stated.fidelity:
        yield "it claims more than its bound shows"


def _differences(
    parsed: Model,
    outer: Wrapper,
    parts: ScorerParts,
    manifest: dict[str, Any],
    visited: Forest,
    native: NativeSum,
    *,
    has_own_trees: bool,
) -> Iterator[str]:
    """Where the scorer is not that of the model; with ``has_own_trees`` all but the trees is compared.

    ``visited`` are the trees that it must evaluate, ``native`` how it must add them.
    """
    forest = parsed.forest
    if forest_digest(forest) != manifest["model_digest"]:
        yield "this is not the model that the manifest names"
        return  # of another model, everything differs
    if forest.decision.thresholds != tuple(manifest["thresholds"]):
        yield "the thresholds are not those of the manifest"
    names = [*differing(parts.flat, flatten(visited)), *differing(parts.native, native)]
    if has_own_trees:
        names = [name for name in names if name in _OF_THE_TABLE]
    if names := [*names, *differing(parts.schema, schema_of(forest))]:
        listed = ", ".join(names[:_SHOWN_NAMES]) + (", ..." if len(names) > _SHOWN_NAMES else "")
        yield f"the columns, trees or values of the scorer are not those of the model ({listed})"
    if parts.probability != replace(probability_rule(parsed), is_original=not has_own_trees):
        yield "the probabilities are not the model's"
    if not may_be_labels(parts.classes, parsed):
        yield "the classes are not the model's"
    for name in ("prepare", "finish"):
        if (getattr(parts, name) is None) != (getattr(outer, name) is None):
            yield f"the steps around the trees ({name}) are not the model's"


def differing(found: Any, expected: Any) -> list[str]:
    """Names of the fields in which two records of one kind differ."""
    names = [field.name for field in fields(expected)]
    return [name for name in names if not is_same(getattr(found, name), getattr(expected, name))]


def is_same(found: Any, expected: Any) -> bool:
    """Whether two values, arrays or records of them are equal bit for bit."""
    if isinstance(expected, np.ndarray):
        own, other = ((array.dtype, array.shape, array.tobytes()) for array in (found, expected))
        return own == other
    if is_dataclass(expected):
        return type(found) is type(expected) and not differing(found, expected)
    both_nan = isinstance(expected, float) and isinstance(found, float) and found != found and expected != expected
    return both_nan or bool(found == expected)
