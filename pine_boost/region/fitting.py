"""Fitting a region: the score on X_fit, tau on X_cal.

In come a Forest and two tables; out goes a Region, and the states of X_fit for the search. Tables
are converted once. Refuses a calibration without guarantee.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.budget import Budget
from pine_boost.errors import InvalidInputError
from pine_boost.model.digest import forest_digest
from pine_boost.model.exact import off_rounding
from pine_boost.model.forest import FloatArray, Forest, IntArray, Model
from pine_boost.model.routing import route
from pine_boost.model.states import States, StateSpace, build_space
from pine_boost.region.conformal import indifference_delta, read_level, require_room
from pine_boost.region.domain import Domain, compile_domain
from pine_boost.region.region import Region
from pine_boost.region.region_ladder import CalEvidence, FitEvidence, cal_evidence, distance_of, fit_evidence, nest
from pine_boost.region.score_tables import RegionTables, ScoreTables
from pine_boost.region.scores.fit_score import FittedScore, fit_score
from pine_boost.tables.overlap import Hashes, check_overlap, count_overlap, hashes_of, row_hashes
from pine_boost.tables.reused_rows import Spent, refuse_spent
from pine_boost.tables.rows import KnownStates, MemoryRows, Rows, open_rows
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
        Of a table that is read in chunks the distinct rows, at most `distinct.MOST_DISTINCT`.
    fit, cal : FitEvidence, CalEvidence or None
        Where toss-ups are to be given a share of alpha (``indifference="auto"``): what chooses
        the share, and what calibrates it.
    cal_rows : KnownStates or None
        Where toss-ups are or may be given up: the rows of X_cal, for the margin of serving.
    """

    region: Region
    fit_states: npt.NDArray[np.int32]
    fit: FitEvidence | None = None
    cal: CalEvidence | None = None
    cal_rows: KnownStates | None = None

    def with_toss_ups(self, share: float) -> Region:
        """The region that gives toss-ups a share of its alpha; with 0 the region itself.

        Valid for every share that was chosen without X_cal.
        """
        if share == 0 or self.fit is None or self.cal is None:
            return self.region
        nesting = nest(self.fit, share)
        levels = np.sort(nesting.levels(self.cal.scores, self.cal.distances))
        nested = replace(self.region, nesting=nesting, calibration=levels)
        return nested.with_alpha(self.region.alpha)


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
        With the model's columns; in memory, or as the path of a Parquet file or folder, a pyarrow
        Dataset or a Dask DataFrame, which are read in chunks and give the same region. X_cal must
        be rows like the future ones that nothing else has seen: calibrating on training rows
        breaks the guarantee. ``alpha=0`` needs neither.
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
        forest,
        X_fit,
        X_cal,
        alpha=alpha,
        score=score,
        n_bins=n_bins,
        indifference=indifference,
        domain=domain,
        random_state=random_state,
        allow_overlap=allow_overlap,
    ).region


@dataclass(frozen=True, eq=False)
class RegionOptions:
    """What `fit_region` lets a user choose, and the survey whose rows are no calibration rows."""

    alpha: float
    score: Any = "chow-liu"
    n_bins: int = 4
    indifference: float = 0.0
    domain: Domain | None = None
    random_state: int = 0
    allow_overlap: bool = False
    with_evidence: bool = False
    spent: Spent | None = None

    def __post_init__(self) -> None:
        read_level(self.alpha, "alpha")
        read_level(self.indifference, "indifference")


def fit_with_states(
    forest: Forest | Model, X_fit: Any = None, X_cal: Any = None, *, budget: Budget | None = None, **options: Any
) -> FittedRegion:
    """`fit_region`, and the states of X_fit that it computed on the way.

    Raises `OutOfTime` between two chunks, or pairs of features, once the deadline has passed.
    """
    forest = forest.forest if isinstance(forest, Model) else forest
    chosen, budget = RegionOptions(**options), budget or Budget()
    schema = schema_of(forest)
    if X_cal is None and chosen.alpha == 0 and chosen.indifference == 0:
        return _whole_space(forest, X_fit, chosen.domain, schema, budget)
    fit, cal = (_open(X, schema, name, budget) for X, name in ((X_fit, "X_fit"), (X_cal, "X_cal")))
    held_out = hashes_of(cal)
    refuse_spent(chosen.spent, held_out, "X_cal")
    overlap = count_overlap(hashes_of(fit), held_out)
    check_overlap(overlap, "X_fit", "X_cal", chosen.allow_overlap, stacklevel=4)
    fitted = fit_score(chosen.score, forest, fit, n_bins=chosen.n_bins, random_state=chosen.random_state, budget=budget)
    tables = compile_domain(chosen.domain, fitted.space, schema)
    delta, calibration = _calibration(forest, fit, cal, fitted, tables, chosen)
    region = Region(
        space=fitted.space,
        schema=schema,
        tables=tables,
        score_tables=fitted.tables,
        score_name=fitted.name,
        alpha=0.0,
        n_fit=fit.n_rows,
        n_cal=cal.n_rows,
        calibration=calibration,
        indifference=float(chosen.indifference),
        delta=delta,
        cuts=forest.decision.cuts,
        n_outputs=forest.n_outputs,
        thresholds=forest.decision.thresholds,
        overlap=overlap,
        model_digest=forest_digest(forest),
    )
    found = FittedRegion(region.with_alpha(chosen.alpha), _states_of(fit, fitted.space))
    if chosen.with_evidence:
        parts = (forest, fitted.space, fitted.tables)
        seen = fit_evidence(*parts, fit, chosen.random_state)
        found = replace(found, fit=seen, cal=cal_evidence(*parts, tables, cal))
    if chosen.with_evidence or delta is not None:
        found = replace(found, cal_rows=cal.kept(fitted.space))
    return found


def _calibration(
    forest: Forest, fit: Rows, cal: Rows, fitted: FittedScore, tables: RegionTables, options: RegionOptions
) -> tuple[float | None, IntArray]:
    """delta, and the scores of the rows of X_cal that can lie inside, ascending."""
    space, delta, distance, nearest = fitted.space, None, None, np.zeros(0)
    if options.indifference != 0:
        distance = partial(distance_of, forest, route(forest, space))
        nearest = _nearest(fit.map_states(space, distance), options.indifference, fit.n_rows)
        nearest = off_rounding(nearest, forest)
        delta = indifference_delta(nearest, options.indifference, fit.n_rows)
    scored = list(cal.map_states(space, partial(_scored, tables, fitted.tables, distance, delta)))
    n_impossible = sum(part.n_impossible for part in scored)
    if n_impossible:
        warnings.warn(
            f"The domain calls {n_impossible} of {cal.n_rows} rows of X_cal impossible; they count "
            "as outside the region.",
            stacklevel=4,
        )
    if delta is not None:
        distance_cal = np.concatenate([part.distance for part in scored])
        require_room(
            nearest, distance_cal, alpha=options.alpha, indifference=options.indifference, delta=delta, n_fit=fit.n_rows
        )
    return delta, np.sort(np.concatenate([part.scores for part in scored]))


@dataclass(frozen=True, eq=False)
class _Scored:
    """A chunk of X_cal: scores of the rows that can lie inside, and what keeps the others out."""

    scores: IntArray
    n_impossible: int
    distance: FloatArray


def _scored(
    tables: RegionTables,
    score: ScoreTables,
    distance: Callable[[States], FloatArray] | None,
    delta: float | None,
    states: States,
) -> _Scored:
    possible = tables.permits(states)
    found = np.zeros(0) if distance is None else distance(states)
    inside = possible if delta is None else possible & (found >= delta)
    return _Scored(score.score(states[inside]), int(np.count_nonzero(~possible)), found)


def _nearest(chunks: Iterable[FloatArray], indifference: float, n_rows: int) -> FloatArray:
    """The smallest distances, ascending, as many as decide delta."""
    n_kept = math.floor(read_level(indifference, "indifference") * n_rows) + 1
    kept = np.zeros(0)
    for chunk in chunks:
        kept = np.concatenate([kept, chunk])
        if len(kept) > n_kept:
            kept = np.partition(kept, n_kept - 1)[:n_kept]
    return np.sort(kept)


def _states_of(rows: Rows, space: StateSpace) -> States:
    """The states of X_fit for the search: all of them in memory, else distinct ones."""
    if isinstance(rows, MemoryRows):
        return rows.states(space)
    return distinct_states(rows.map_states(space, distinct_of_chunk))


def _whole_space(
    forest: Forest, X_fit: Any, domain: Domain | None, schema: InputSchema, budget: Budget
) -> FittedRegion:
    """Every possible input: nothing is fitted, nothing calibrated; X_fit only helps the search."""
    region = every_input(forest, domain)
    if X_fit is None:
        return FittedRegion(region, _some_states(region.tables))
    return FittedRegion(region, _states_of(_open(X_fit, schema, "X_fit", budget), region.space))


def every_input(forest: Forest, domain: Domain | None, alpha: float = 0.0) -> Region:
    """Every input that the domain permits; nothing is fitted and nothing calibrated.

    ``alpha`` is what was asked for: of a region that was not fitted in time, it says no more.
    """
    space, schema = build_space(forest), schema_of(forest)
    return Region(
        space,
        schema,
        compile_domain(domain, space, schema),
        None,
        "none",
        float(alpha),
        0,
        0,
        np.zeros(0, dtype=np.int64),
        0.0,
        None,
        forest.decision.cuts,
        forest.n_outputs,
        forest.decision.thresholds,
        model_digest=forest_digest(forest),
    )


def _some_states(tables: RegionTables) -> npt.NDArray[np.int32]:
    """Possible inputs to begin the search with where there is no X_fit; always the same."""
    rng = np.random.default_rng(0)
    allowed = [np.flatnonzero(states) for states in tables.allowed]
    drawn = np.stack([rng.choice(states, _N_DRAWN) for states in allowed], axis=1)
    return drawn[tables.permits(drawn)].astype(np.int32)


def _open(X: Any, schema: InputSchema, name: str, budget: Budget) -> Rows:
    if X is None:
        raise InvalidInputError(f"{name} is missing; only alpha=0 with indifference=0 (every input) needs no data.")
    rows = open_rows(X, schema, name, budget)
    if rows.n_rows < 2:
        raise InvalidInputError(
            f"{name} has {rows.n_rows} row(s); a distribution cannot be learned or calibrated from fewer than two."
        )
    return rows


MOST_DISTINCT = 200_000
_LOGGER = logging.getLogger("pine_boost")


@dataclass(frozen=True, eq=False)
class DistinctStates:
    """Distinct state rows by ascending hash."""

    hashes: Hashes
    states: States


def distinct_of_chunk(states: States) -> DistinctStates:
    """The distinct rows of a chunk."""
    return _distinct(row_hashes(states.astype(np.float64)), states)


def distinct_states(chunks: Iterable[DistinctStates]) -> States:
    """The distinct rows of all chunks, at most `MOST_DISTINCT`."""
    total: DistinctStates | None = None
    is_cut = False
    for chunk in chunks:
        if total is not None:
            chunk = _distinct(
                np.concatenate([total.hashes, chunk.hashes]), np.concatenate([total.states, chunk.states])
            )
        is_cut |= len(chunk.hashes) > MOST_DISTINCT
        total = DistinctStates(chunk.hashes[:MOST_DISTINCT], chunk.states[:MOST_DISTINCT])
    assert total is not None
    if is_cut:
        _LOGGER.info("X_fit has more than %d distinct rows; a sample begins", MOST_DISTINCT)
    return total.states


def _distinct(hashes: Hashes, states: States) -> DistinctStates:
    distinct, first = np.unique(hashes, return_index=True)
    return DistinctStates(distinct, states[first])
