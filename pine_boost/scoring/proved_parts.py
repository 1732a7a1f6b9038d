"""The parts of a proved scorer: flat trees, the library's own sum, and exits that were checked."""

from __future__ import annotations

from pine_boost.errors import PineBoostError
from pine_boost.kernels.flat_forest import ExitPlan, FlatForest
from pine_boost.model.flatten import flatten
from pine_boost.model.forest import FloatArray, Forest, Model
from pine_boost.proof.exits import faults_of
from pine_boost.scoring.fast_scorer import ScorerParts
from pine_boost.scoring.native_sum import native_sum, probability_rule
from pine_boost.scoring.proved_exits import build_exits
from pine_boost.scoring.synthetic_rows import synthetic_rows
from pine_boost.tables.schema import schema_of

SAMPLE_ROWS, _SAMPLE_CELLS = 2000, 1_000_000


def proved_plan(forest: Forest, flat: FlatForest, sample: FloatArray, *, is_fitted: bool = False) -> ExitPlan:
    """Exits for sample rows that are proved for every input.

    Raises
    ------
    PineBoostError
        The check found a fault in what was built.
    """
    few = max(100, min(SAMPLE_ROWS, _SAMPLE_CELLS // (forest.n_trees * forest.n_outputs)))
    plan = build_exits(forest, flat, sample[:few], is_fitted=is_fitted)
    faults = faults_of(forest, plan)
    if faults:  # the builder is not believed
        raise PineBoostError(f"Internal error: the exits could not be proved ({faults[0]}); please report this.")
    return plan


def proved_parts(model: Model) -> ScorerParts:
    """A scorer with the classes of the native ``predict`` on every input, from the model alone."""
    forest = model.forest
    flat = flatten(forest)
    return ScorerParts(
        flat=flat,
        native=native_sum(model),
        plan=proved_plan(forest, flat, synthetic_rows(forest, SAMPLE_ROWS)),
        schema=schema_of(forest),
        classes=forest.classes,
        probability=probability_rule(model),
    )
