"""Fitting a region: the score on X_fit, tau on X_cal.

In come a Forest and two tables; out goes a Region, and the states of X_fit for the search. Tables
are converted once. Refuses a calibration without guarantee.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError
from pine_boost.model.digest import forest_digest
from pine_boost.model.forest import FloatArray, Forest, Model
from pine_boost.model.routing import route
from pine_boost.model.states import build_space
from pine_boost.region.conformal import indifference_delta, read_level, require_room
from pine_boost.region.distance import decision_distance, float_margins
from pine_boost.region.domain import Domain, compile_domain
from pine_boost.region.region import Region
from pine_boost.region.score_tables import RegionTables
from pine_boost.region.scores.fitting import fit_score
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.overlap import check_overlap, count_overlap, row_hashes
from pine_boost.tables.schema import InputSchema, schema_of

_N_DRAWN = 500  # inputs to begin with where there are no rows


@dataclass(frozen=True, eq=False)
class FittedRegion:
    """A region and what was read of X_fit on the way.

    Attributes
    ----------
    region : Region
    fit_states : int32 (n_rows, n_features)
        States of the rows of X_fit in ``region.space``; of drawn inputs where there was none.
    """

    region: Region
    fit_states: npt.NDArray[np.int32]


def fit_region(
    forest: Forest | Model,
    X_fit: Any = None,
    X_cal: Any = None,
    *,
    alpha: float,
    score: Any = "chow-liu",
    n_bins: int = 4,
    indifference: float = 0.0,
    domain: Domain | None = None,
    random_state: int = 0,
    allow_overlap: bool = False,
) -> Region:
    """Fit a plausibility score on X_fit and calibrate the region on X_cal.

    Parameters
    ----------
    forest : Forest or Model
        The original.
    X_fit, X_cal : tables
        With the model's columns. X_cal must be rows like the future ones that nothing else has
        seen: calibrating on training rows breaks the guarantee. Both may be None for ``alpha=0``.
    alpha : float
        In [0, 1): the share of future inputs that may fall outside. 0 is the whole space.
    score : {"chow-liu", "leaf-support", "isolation-forest"} or a user's own
        A `ScoreTables`, or an object with ``tables(space) -> ScoreTables``.
    n_bins : int
        Quantile bins of the Chow-Liu score.
    indifference : float
        Share of X_fit nearest to the decision whose distance sets ``delta``; 0 is the paper.
    domain : Domain, optional
        Calibration rows that it calls impossible count as outside.
    random_state : int
        Seed of the isolation forest.
    allow_overlap : bool
        Go on with a warning, and without the guarantee, where more than 1 % of the rows of X_cal
        were evidently seen in X_fit; ``region.overlap`` says how many.

    Returns
    -------
    Region

    Raises
    ------
    InvalidInputError
        The tables do not fit the model, or are empty or a single row, or X_cal repeats X_fit.
    RegionError
        The undecided or impossible rows alone take more than alpha of X_cal.
    """
    return fit_with_states(
        forest, X_fit, X_cal, alpha=alpha, score=score, n_bins=n_bins, indifference=indifference,
        domain=domain, random_state=random_state, allow_overlap=allow_overlap,
    ).region  # fmt: skip


def fit_with_states(
    forest: Forest | Model,
    X_fit: Any = None,
    X_cal: Any = None,
    *,
    alpha: float,
    score: Any = "chow-liu",
    n_bins: int = 4,
    indifference: float = 0.0,
    domain: Domain | None = None,
    random_state: int = 0,
    allow_overlap: bool = False,
) -> FittedRegion:
    """`fit_region`, and the states of X_fit that it computed on the way."""
    if isinstance(forest, Model):
        forest = forest.forest
    for level, name in ((alpha, "alpha"), (indifference, "indifference")):
        read_level(level, name)
    schema = schema_of(forest)
    if X_cal is None and alpha == 0 and indifference == 0:
        return _whole_space(forest, X_fit, domain, schema)
    fit, cal = (_read_rows(X, schema, name) for X, name in ((X_fit, "X_fit"), (X_cal, "X_cal")))
    overlap = count_overlap(row_hashes(fit), row_hashes(cal))
    check_overlap(overlap, "X_fit", "X_cal", allow_overlap, stacklevel=4)
    fitted = fit_score(score, forest, fit, n_bins=n_bins, random_state=random_state)
    space = fitted.space
    tables = compile_domain(domain, space, schema)
    cal_states = space.states(cal)
    possible = tables.permits(cal_states)
    if not possible.all():
        warnings.warn(
            f"The domain calls {int((~possible).sum())} of {len(cal)} rows of X_cal impossible "
            f"(first: row {int(np.argmin(possible))}); they count as outside the region.",
            stacklevel=3,
        )
    delta, decided = None, np.ones(len(cal), dtype=bool)
    if indifference != 0:
        trees = route(forest, space)
        distance_fit, distance_cal = (
            decision_distance(float_margins(forest, trees, states), forest.decision.cuts)
            for states in (fitted.states, cal_states)
        )
        delta = indifference_delta(distance_fit, indifference)
        if delta is not None:
            require_room(
                distance_fit, distance_cal, alpha=alpha, indifference=indifference, delta=delta
            )
            decided = distance_cal >= delta
    region = Region(
        space=space,
        schema=schema,
        tables=tables,
        score_tables=fitted.tables,
        score_name=fitted.name,
        alpha=0.0,
        n_fit=len(fit),
        n_cal=len(cal),
        calibration=np.sort(fitted.tables.score(cal_states[possible & decided])),
        indifference=float(indifference),
        delta=delta,
        cuts=forest.decision.cuts,
        n_outputs=forest.n_outputs,
        thresholds=forest.decision.thresholds,
        overlap=overlap,
        model_digest=forest_digest(forest),
    )
    return FittedRegion(region.with_alpha(alpha), fitted.states)


def _whole_space(
    forest: Forest, X_fit: Any, domain: Domain | None, schema: InputSchema
) -> FittedRegion:
    """Every possible input: nothing is fitted, nothing calibrated; X_fit only helps the search."""
    space = build_space(forest)
    tables = compile_domain(domain, space, schema)
    region = Region(
        space, schema, tables, None, "none", 0.0, 0, 0, np.zeros(0, dtype=np.int64), 0.0, None,
        forest.decision.cuts, forest.n_outputs, forest.decision.thresholds,
        model_digest=forest_digest(forest),
    )  # fmt: skip
    if X_fit is None:
        return FittedRegion(region, _some_states(tables))
    return FittedRegion(region, space.states(_read_rows(X_fit, schema, "X_fit")))


def _some_states(tables: RegionTables) -> npt.NDArray[np.int32]:
    """Possible inputs to begin the search with where there is no X_fit; always the same."""
    rng = np.random.default_rng(0)
    allowed = [np.flatnonzero(states) for states in tables.allowed]
    drawn = np.stack([rng.choice(states, _N_DRAWN) for states in allowed], axis=1)
    return drawn[tables.permits(drawn)].astype(np.int32)


def _read_rows(X: Any, schema: InputSchema, name: str) -> FloatArray:
    if X is None:
        raise InvalidInputError(
            f"{name} is missing; only alpha=0 with indifference=0 (every input) needs no data."
        )
    matrix = to_matrix(X, schema, name)
    if len(matrix) < 2:
        raise InvalidInputError(
            f"{name} has {len(matrix)} row(s); a distribution cannot be learned or calibrated from "
            "fewer than two."
        )
    return matrix
