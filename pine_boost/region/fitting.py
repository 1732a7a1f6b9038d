"""Fit a region: the score on X_fit, the threshold tau on X_cal.

Every table is converted once; the search gets the states of X_fit that were computed on the way.
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
from pine_boost.region.region_ladder import (
    CalEvidence,
    FitEvidence,
    build_ladder,
    cal_evidence,
    distance_of,
    fit_evidence,
)
from pine_boost.region.score_tables import RegionTables, ScoreTables
from pine_boost.region.scores.fit_score import FittedScore, fit_score
from pine_boost.tables.overlap import Hashes, Spent, check_overlap, count_overlap, hashes_of, refuse_spent, row_hashes
from pine_boost.tables.rows import KnownStates, MemoryRows, Rows, open_rows
from pine_boost.tables.schema import InputSchema, schema_of

MOST_DISTINCT = 200_000  # distinct rows of a table read in chunks that the search starts from
_N_DRAWN = 500  # inputs to start the search from if there are no rows
_LOGGER = logging.getLogger("pine_boost")


@dataclass(frozen=True, eq=False)
class FittedRegion:
    """A region, and what was read of the tables on the way.

    Attributes
    ----------
    region : Region
    fit_states : int32 (n_rows, n_features)
        States of the rows of X_fit in ``region.space``, or of random inputs without X_fit. Of a table that is
        read in chunks only the distinct rows, at most `MOST_DISTINCT`.
    fit, cal : FitEvidence, CalEvidence or None
        With ``indifference="auto"``: what chooses the share of alpha for undecided inputs, and what
        calibrates it.
    cal_rows : KnownStates or None
        The rows of X_cal, kept for the serving margin if undecided inputs are or may be left out.
    """

    region: Region
    fit_states: npt.NDArray[np.int32]
    fit: FitEvidence | None = None
    cal: CalEvidence | None = None
    cal_rows: KnownStates | None = None

    def with_toss_ups(self, share: float) -> Region:
        """The region that spends a share of its alpha on undecided inputs; for 0 the region itself.

        The guarantee holds for every share that was chosen without X_cal.
        """
        if share == 0 or self.fit is None or self.cal is None:
            return self.region
        nesting = build_ladder(self.fit, share)
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
        hold rows like the future ones that nothing else has used: calibrating on training rows
        breaks the guarantee. ``alpha=0`` needs neither table.
    alpha : float
        In [0, 1): the share of future inputs that may fall outside. 0 means every input.
    score : {"chow-liu", "leaf-support", "isolation-forest"} or a user's own
        A `ScoreTables`, or an object with ``tables(space) -> ScoreTables``.
    n_bins : int
        Quantile bins of the Chow-Liu score.
    indifference : float
        Share of X_fit nearest to the decision whose distance sets ``delta``; 0, as in the paper, leaves no
        input out as undecided.
    domain : Domain, optional
        Calibration rows that the domain excludes count as outside.
    random_state : int
        Seed of the isolation forest.
    allow_overlap : bool
        Warn instead of raising, and give up the guarantee, if more than 1 % of the rows of X_cal also occur
        in X_fit; ``region.overlap`` says how many.

    Returns
    -------
    Region

    Raises
    ------
    InvalidInputError
        A table does not fit the model or has fewer than two rows, or X_cal repeats X_fit.
    RegionError
        The undecided or excluded rows alone are more than alpha of X_cal.
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
    with_evidence: bool = False,
    spent: Spent | None = None,
    budget: Budget | None = None,
) -> FittedRegion:
    """`fit_region`, with the states of X_fit and, if asked for, the evidence for a region ladder.

    ``spent`` are the rows that a survey has looked at; they must not calibrate. Raises `OutOfTime` between
    two chunks, or two pairs of features, once the deadline has passed.
    """
    read_level(alpha, "alpha")
    read_level(indifference, "indifference")
    forest = forest.forest if isinstance(forest, Model) else forest
    budget, schema = budget or Budget(), schema_of(forest)
    if X_cal is None and alpha == 0 and indifference == 0:
        return _whole_space(forest, X_fit, domain, schema, budget)
    fit, cal = (_open(X, schema, name, budget) for X, name in ((X_fit, "X_fit"), (X_cal, "X_cal")))
    held_out = hashes_of(cal)
    refuse_spent(spent, held_out, "X_cal")
    overlap = count_overlap(hashes_of(fit), held_out)
    check_overlap(overlap, "X_fit", "X_cal", allow_overlap, stacklevel=4)
    fitted = fit_score(score, forest, fit, n_bins=n_bins, random_state=random_state, budget=budget)
    tables = compile_domain(domain, fitted.space, schema)
    delta, calibration = _calibrate(forest, fit, cal, fitted, tables, alpha, indifference)
    region = replace(
        every_input(forest, domain),
        space=fitted.space,
        tables=tables,
        score_tables=fitted.tables,
        score_name=fitted.name,
        n_fit=fit.n_rows,
        n_cal=cal.n_rows,
        calibration=calibration,
        indifference=float(indifference),
        delta=delta,
        overlap=overlap,
    )
    found = FittedRegion(region.with_alpha(alpha), _states_of(fit, fitted.space))
    if with_evidence:
        seen = fit_evidence(forest, fitted.space, fitted.tables, fit, random_state)
        found = replace(found, fit=seen, cal=cal_evidence(forest, fitted.space, fitted.tables, tables, cal))
    if with_evidence or delta is not None:
        found = replace(found, cal_rows=cal.kept(fitted.space))
    return found


def _calibrate(
    forest: Forest, fit: Rows, cal: Rows, fitted: FittedScore, tables: RegionTables, alpha: float, indifference: float
) -> tuple[float | None, IntArray]:
    """delta, and the ascending scores of the rows of X_cal that can lie inside."""
    space, delta, distance, nearest = fitted.space, None, None, np.zeros(0)
    if indifference != 0:
        distance = partial(distance_of, forest, route(forest, space))
        nearest = off_rounding(_nearest(fit.map_states(space, distance), indifference, fit.n_rows), forest)
        delta = indifference_delta(nearest, indifference, fit.n_rows)
    scored = list(cal.map_states(space, partial(_score_chunk, tables, fitted.tables, distance, delta)))
    n_impossible = sum(part.n_impossible for part in scored)
    if n_impossible:
        warnings.warn(
            f"The domain excludes {n_impossible} of {cal.n_rows} rows of X_cal; they count as outside the region.",
            stacklevel=4,
        )
    if delta is not None:
        distances = np.concatenate([part.distance for part in scored])
        require_room(nearest, distances, alpha=alpha, indifference=indifference, delta=delta, n_fit=fit.n_rows)
    return delta, np.sort(np.concatenate([part.scores for part in scored]))


@dataclass(frozen=True, eq=False)
class _ScoredChunk:
    """Scores of the rows of a chunk that can lie inside, the number excluded by the domain, all distances."""

    scores: IntArray
    n_impossible: int
    distance: FloatArray


def _score_chunk(
    tables: RegionTables,
    score: ScoreTables,
    distance: Callable[[States], FloatArray] | None,
    delta: float | None,
    states: States,
) -> _ScoredChunk:
    possible = tables.permits(states)
    distances = np.zeros(0) if distance is None else distance(states)
    inside = possible if delta is None else possible & (distances >= delta)
    return _ScoredChunk(score.score(states[inside]), int(np.count_nonzero(~possible)), distances)


def _nearest(chunks: Iterable[FloatArray], indifference: float, n_rows: int) -> FloatArray:
    """The smallest distances in ascending order, as many as determine delta."""
    n_kept = math.floor(read_level(indifference, "indifference") * n_rows) + 1
    kept = np.zeros(0)
    for chunk in chunks:
        kept = np.concatenate([kept, chunk])
        if len(kept) > n_kept:
            kept = np.partition(kept, n_kept - 1)[:n_kept]
    return np.sort(kept)


def _states_of(rows: Rows, space: StateSpace) -> States:
    """The states of X_fit for the search: all rows of a table in memory, the distinct rows of one read in chunks."""
    if isinstance(rows, MemoryRows):
        return rows.states(space)
    return _distinct_states(rows.map_states(space, _distinct_in_chunk))


def _distinct_in_chunk(states: States) -> tuple[Hashes, States]:
    return _distinct(row_hashes(states.astype(np.float64)), states)


def _distinct(hashes: Hashes, states: States) -> tuple[Hashes, States]:
    unique, first = np.unique(hashes, return_index=True)
    return unique, states[first]


def _distinct_states(chunks: Iterable[tuple[Hashes, States]]) -> States:
    """The distinct rows of all chunks.

    Of more than `MOST_DISTINCT` rows those with the smallest hashes are kept: a sample that does not depend on
    the order of the chunks. It only decides where the search starts, not what is proved.
    """
    chunks = iter(chunks)
    hashes, states = next(chunks)
    is_cut = len(hashes) > MOST_DISTINCT
    for more_hashes, more_states in chunks:
        hashes, states = _distinct(
            np.concatenate([hashes[:MOST_DISTINCT], more_hashes]), np.concatenate([states[:MOST_DISTINCT], more_states])
        )
        is_cut |= len(hashes) > MOST_DISTINCT
    if is_cut:
        _LOGGER.info("X_fit has more than %d distinct rows; the search starts from a sample", MOST_DISTINCT)
    return states[:MOST_DISTINCT]


def _whole_space(
    forest: Forest, X_fit: Any, domain: Domain | None, schema: InputSchema, budget: Budget
) -> FittedRegion:
    """Every possible input: nothing is fitted or calibrated; X_fit only helps the search."""
    region = every_input(forest, domain)
    if X_fit is None:
        return FittedRegion(region, _random_states(region.tables))
    return FittedRegion(region, _states_of(_open(X_fit, schema, "X_fit", budget), region.space))


def every_input(forest: Forest, domain: Domain | None, alpha: float = 0.0) -> Region:
    """The region of every input that the domain allows; nothing is fitted or calibrated.

    ``alpha`` is only recorded: it is what was asked for if a region could not be fitted in time.
    """
    space, schema = build_space(forest), schema_of(forest)
    return Region(
        space=space,
        schema=schema,
        tables=compile_domain(domain, space, schema),
        score_tables=None,
        score_name="none",
        alpha=float(alpha),
        n_fit=0,
        n_cal=0,
        calibration=np.zeros(0, dtype=np.int64),
        indifference=0.0,
        delta=None,
        cuts=forest.decision.cuts,
        n_outputs=forest.n_outputs,
        thresholds=forest.decision.thresholds,
        model_digest=forest_digest(forest),
    )


def _random_states(tables: RegionTables) -> npt.NDArray[np.int32]:
    """Possible inputs to start the search from if there is no X_fit; always the same ones."""
    rng = np.random.default_rng(0)
    allowed = [np.flatnonzero(states) for states in tables.allowed]
    drawn = np.stack([rng.choice(states, _N_DRAWN) for states in allowed], axis=1)
    return drawn[tables.permits(drawn)].astype(np.int32)


def _open(X: Any, schema: InputSchema, name: str, budget: Budget) -> Rows:
    if X is None:
        raise InvalidInputError(
            f"{name} is missing; only alpha=0 with indifference=0 (every input) needs no data.",
            option=(name, "alpha", "indifference"),
        )
    rows = open_rows(X, schema, name, budget)
    if rows.n_rows < 2:
        raise InvalidInputError(
            f"{name} has {rows.n_rows} row(s); a distribution cannot be learned or calibrated from fewer than two."
        )
    return rows
