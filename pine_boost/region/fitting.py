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
from pine_boost.model.forest import FloatArray, Forest, Model
from pine_boost.model.routing import route
from pine_boost.model.states import build_space
from pine_boost.region.conformal import indifference_delta, read_level, require_room
from pine_boost.region.distance import decision_distance, float_margins
from pine_boost.region.domain import Domain, compile_domain
from pine_boost.region.region import Region
from pine_boost.region.scores.fitting import fit_score
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.overlap import warn_of_overlap
from pine_boost.tables.schema import InputSchema, schema_of


@dataclass(frozen=True, eq=False)
class FittedRegion:
    """A region and what was read of X_fit on the way.

    Attributes
    ----------
    region : Region
    fit_states : int32 (n_rows, n_features)
        States of the rows of X_fit in ``region.space``; no rows where there was no X_fit.
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

    Returns
    -------
    Region

    Raises
    ------
    InvalidInputError
        The tables do not fit the model, or are empty or a single row.
    RegionError
        The undecided or impossible rows alone take more than alpha of X_cal.
    """
    return fit_with_states(
        forest, X_fit, X_cal, alpha=alpha, score=score, n_bins=n_bins, indifference=indifference,
        domain=domain, random_state=random_state,
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
) -> FittedRegion:
    """`fit_region`, and the states of X_fit that it computed on the way."""
    if isinstance(forest, Model):
        forest = forest.forest
    for level, name in ((alpha, "alpha"), (indifference, "indifference")):
        read_level(level, name)
    schema = schema_of(forest)
    if X_fit is None and X_cal is None and alpha == 0 and indifference == 0:
        return _whole_space(forest, domain, schema)
    fit, cal = (_read_rows(X, schema, name) for X, name in ((X_fit, "X_fit"), (X_cal, "X_cal")))
    warn_of_overlap(fit, cal, stacklevel=5)
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
    )
    return FittedRegion(region.with_alpha(alpha), fitted.states)


def _whole_space(forest: Forest, domain: Domain | None, schema: InputSchema) -> FittedRegion:
    """Every possible input, without data."""
    space = build_space(forest)
    tables = compile_domain(domain, space, schema)
    region = Region(
        space, schema, tables, None, "none", 0.0, 0, 0, np.zeros(0, dtype=np.int64), 0.0, None,
        forest.decision.cuts, forest.n_outputs,
    )  # fmt: skip
    return FittedRegion(region, np.zeros((0, forest.n_features), dtype=np.int32))


def _read_rows(X: Any, schema: InputSchema, name: str) -> FloatArray:
    if X is None:
        raise InvalidInputError(f"{name} is missing; only alpha=0 (every input) needs no data.")
    matrix = to_matrix(X, schema, name)
    if len(matrix) < 2:
        raise InvalidInputError(
            f"{name} has {len(matrix)} row(s); a distribution cannot be learned or calibrated from "
            "fewer than two."
        )
    return matrix
