"""Fit a region: the score on X_fit, the threshold tau on X_cal.

Every table is converted once; the search gets the states of X_fit that were computed on the way.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pine_boost.budget import Budget
from pine_boost.errors import InvalidInputError
from pine_boost.model.digest import forest_digest
from pine_boost.model.exact import off_rounding
from pine_boost.model.forest import Forest, Int32Array, IntArray, Model
from pine_boost.model.states import States, StateSpace, build_space
from pine_boost.options import AUTO, Options, given
from pine_boost.region.conformal import indifference_delta, read_level, require_room
from pine_boost.region.domain import Domain, compile_domain
from pine_boost.region.region import Region
from pine_boost.region.region_ladder import FitEvidence, Measured, build_ladder, fit_evidence, measure
from pine_boost.region.score_tables import RegionTables
from pine_boost.region.scores.fit_score import fit_score
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
    fit, cal : FitEvidence, Measured or None
        With ``indifference="auto"``: what chooses the share of alpha for undecided inputs, and what
        calibrates it.
    cal_rows : KnownStates or None
        The rows of X_cal, kept for the serving margin if undecided inputs are or may be left out.
    """

    region: Region
    fit_states: Int32Array
    fit: FitEvidence | None = None
    cal: Measured | None = None
    cal_rows: KnownStates | None = None

    def with_indifference(self, share: float) -> Region:
        """The region that spends a share of its alpha on undecided inputs; for 0 the region itself.

        The guarantee holds for every share that was chosen without X_cal.
        """
        if share == 0 or self.fit is None or self.cal is None:
            return self.region
        nesting = build_ladder(self.fit, share)
        nested = replace(self.region, nesting=nesting, calibration=nesting.calibration(self.cal))
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
    options = given(Options, vars(Options()) | locals())
    read_level(indifference, "indifference")  # "auto" is chosen by a search, not here
    return fit_with_states(forest, X_fit, X_cal, options).region


def fit_with_states(
    forest: Forest | Model,
    X_fit: Any,
    X_cal: Any,
    options: Options,
    *,
    spent: Spent | None = None,
    budget: Budget | None = None,
) -> FittedRegion:
    """`fit_region`, with the states of X_fit and, for ``indifference="auto"``, the evidence for a region ladder.

    ``spent`` are the rows that a survey has looked at; they must not calibrate. Raises `OutOfTime` between
    two chunks, or two pairs of features, once the deadline has passed.
    """
    forest = forest.forest if isinstance(forest, Model) else forest
    budget, schema = budget or Budget(), schema_of(forest)
    if X_cal is None and options.asks_for_everything:
        return _whole_space(forest, X_fit, options.domain, schema, budget)
    fit, cal = (_open(X, schema, name, budget) for X, name in ((X_fit, "X_fit"), (X_cal, "X_cal")))
    held_out = hashes_of(cal)
    refuse_spent(spent, held_out, "X_cal")
    overlap = count_overlap(hashes_of(fit), held_out)
    check_overlap(overlap, "X_fit", "X_cal", options.allow_overlap, stacklevel=4)
    seed = options.random_state
    fitted = fit_score(options.score, forest, fit, n_bins=options.n_bins, random_state=seed, budget=budget)
    tables = compile_domain(options.domain, fitted.space, schema)
    is_chosen = options.indifference == AUTO
    indifference = 0.0 if is_chosen else float(options.indifference)
    original = forest if indifference or (is_chosen and options.alpha > 0) else None
    seen = None if original is None else measure(fit, fitted.space, tables, fitted.tables, original)
    held = measure(cal, fitted.space, tables, fitted.tables, original)
    if n_impossible := int(np.count_nonzero(~held.possible)):
        warnings.warn(
            f"The domain excludes {n_impossible} of {cal.n_rows} rows of X_cal; they count as outside the region.",
            stacklevel=3,
        )
    delta, calibration = calibrate_fixed(forest, seen, held, indifference, options.alpha)
    region = replace(
        every_input(forest, options.domain),
        space=fitted.space,
        tables=tables,
        score_tables=fitted.tables,
        score_name=fitted.name,
        n_fit=fit.n_rows,
        n_cal=cal.n_rows,
        calibration=calibration,
        indifference=indifference,
        delta=delta,
        overlap=overlap,
    )
    found = FittedRegion(region.with_alpha(options.alpha), _states_of(fit, fitted.space))
    if is_chosen and seen is not None:
        found = replace(found, fit=fit_evidence(forest, fitted.space, fit, seen, seed), cal=held)
    if found.fit is not None or delta is not None:
        found = replace(found, cal_rows=cal.kept(fitted.space))
    return found


def calibrate_fixed(
    forest: Forest, fit: Measured | None, cal: Measured, indifference: float, alpha: float | None = None
) -> tuple[float | None, IntArray]:
    """Delta for a share of X_fit, and the ascending scores of the rows of X_cal that can lie inside.

    With ``alpha``, raise RegionError if delta leaves no room for it.
    """
    delta, inside = None, cal.possible
    if fit is not None and indifference > 0:
        nearest = off_rounding(np.sort(fit.distances), forest)
        delta = indifference_delta(nearest, indifference)
        if delta is not None:
            inside = inside & (cal.distances >= delta)
            if alpha is not None:
                require_room(nearest, cal.distances, alpha=alpha, indifference=indifference, delta=delta)
    return delta, np.sort(cal.scores[inside])


def _states_of(rows: Rows, space: StateSpace) -> States:
    """The states of X_fit for the search: all rows of a table in memory, the distinct rows of one read in chunks."""
    if isinstance(rows, MemoryRows):
        return rows.states(space)
    return _distinct_states(
        rows.map_states(space, lambda states: _distinct(row_hashes(states.astype(np.float64)), states))
    )


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


def _random_states(tables: RegionTables) -> Int32Array:
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
