"""The referee: a counterexample counts only if the native models say what the integers say.

In come candidates of the search and the points that speak against them; nothing goes out. A point
on which a native library contradicts the integers raises: then no proof of them can be trusted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import InvalidInputError, PineBoostError, UnsupportedModelError
from pine_boost.exporters import export
from pine_boost.model.exact import summation_band
from pine_boost.model.forest import FloatArray, IntArray, Model, PrunedForest
from pine_boost.native.predict import load_native, predict_classes, predict_margins
from pine_boost.parsers import read_model
from pine_boost.proof.problem import Game, margins_int, pruned_leaves_int
from pine_boost.region.region import Region
from pine_boost.search.grid import needed_sides
from pine_boost.search.rows import pruned_sides
from pine_boost.tables.native import as_table


class Referee:
    """Replays counterexamples on integers and on both native models.

    Called with a candidate and state rows on which it is said to lose, it exports the candidate
    and compares margins and classes of both native models on real inputs of these states. Inside
    a rounding band either class is right and only the margins are compared. Without the native
    library, or where the exporter refuses the candidate, the integers alone are checked.

    Raises
    ------
    PineBoostError
        When called: a point is no counterexample, or a native model contradicts the integers.
    """

    def __init__(self, parsed: Model, region: Region, game: Game) -> None:
        self.parsed, self.region, self.game = parsed, region, game

    def of(self, game: Game) -> Referee:
        """The referee of another region of the same model."""
        return Referee(self.parsed, self.region, game)

    def __call__(self, pruned: PrunedForest, states: npt.NDArray[Any]) -> None:
        """Raise unless each point speaks against the candidate, on integers and natively."""
        game = self.game
        before, after = _integers(game, pruned, states)
        matrix = self.values[states, np.arange(game.space.n_features)]
        usable = ~np.isinf(matrix).any(axis=1)  # not every library takes it
        if not usable.any():
            return
        table = as_table(matrix[usable], self.region.schema)
        try:
            original, candidate = self.original, _load(self.parsed, pruned)
        except (ImportError, UnsupportedModelError, InvalidInputError):
            return  # no native library, or it cannot hold this candidate: it is never returned
        _compare(game, original, table, before[usable], game.least, game.scale, self.band)
        needed = needed_sides(game, pruned.grid)
        _compare(game, candidate, table, after[usable], needed, pruned.grid, None)

    def check(
        self, pruned: PrunedForest, model: Model, table: Any, leaves: npt.NDArray[Any]
    ) -> None:
        """Raise unless margins and classes of both native models are those of the integers.

        ``model`` is the exported ``pruned``, ``leaves`` are those of the rows of ``table``.
        """
        game = self.game
        before, after = _margins(game, pruned, leaves)
        try:
            model = replace(model, native=load_native(model))
            _compare(game, self.original, table, before, game.least, game.scale, self.band)
        except ImportError:  # no native library here: reading and proving need none
            return
        _compare(game, model, table, after, needed_sides(game, pruned.grid), pruned.grid, None)

    @cached_property
    def original(self) -> Model:
        """The original, loaded once, at the first counterexample."""
        return replace(self.parsed, native=load_native(self.parsed))

    @cached_property
    def band(self) -> float:
        """How far the original's native margin may lie from its integers."""
        return original_band(self.game)

    @cached_property
    def values(self) -> FloatArray:
        """One real value for every state of every feature, (most states, n_features)."""
        n_states = self.game.space.n_states
        every = np.arange(int(n_states.max()))[:, None]
        return self.game.space.representative(np.minimum(every, n_states - 1))


def _integers(
    game: Game, pruned: PrunedForest, states: npt.NDArray[Any]
) -> tuple[IntArray, IntArray]:
    """Integer margins of both models; raises where the candidate does not lose after all."""
    before, after = _margins(game, pruned, game.trees.leaves(states))
    short = pruned_sides(game, after) < needed_sides(game, pruned.grid)
    lost = (game.decided(before) & short).any(axis=1) & game.region.contains(states)
    if not lost.all():
        _object(f"point {states[int(np.argmin(lost))].tolist()} is no counterexample")
    return before, after


def _margins(
    game: Game, pruned: PrunedForest, leaves: npt.NDArray[Any]
) -> tuple[IntArray, IntArray]:
    after = margins_int(pruned_leaves_int(game, pruned), leaves) + pruned.intercept_int
    return game.original_margins_int(leaves), after


def _load(parsed: Model, pruned: PrunedForest) -> Model:
    """The candidate as a native model, without a file; the forest only names its decision."""
    native = export(parsed, pruned)
    if isinstance(native, bytes):
        return read_model(native, threshold=parsed.forest.decision.thresholds or None)
    return replace(parsed, native=native)


def _compare(
    game: Game,
    model: Model,
    table: Any,
    margins: IntArray,
    least: IntArray,
    scale: int,
    band: float | None,
) -> None:
    """Classes and margins of one native model; ``band`` is None for the candidate."""
    which = "pruned" if band is None else "original"
    lowest, highest = certain_classes(game, margins, least)
    classes = predict_classes(model, table)
    wrong = (classes < lowest) | (classes > highest)
    if wrong.any():
        row = int(np.argmax(wrong))
        _object(
            f"the native {which} model predicts class {classes[row]} where the integers say "
            f"{lowest[row]} to {highest[row]}"
        )
    predicted = predict_margins(model, table)
    if predicted is None:
        return
    native, blur = predicted
    distance = np.abs(native - np.ldexp(margins.astype(np.float64), -scale)).max()
    # on the grid every sum is exact; after a division it is one unit at most (exporters)
    proved = band + blur if band is not None else np.ldexp(float(blur > 0), -scale)
    if not distance <= proved:
        _object(f"the native {which} margin is {distance:g} off the integers, proved is {proved:g}")


def certain_classes(game: Game, margins: IntArray, least: IntArray) -> tuple[IntArray, IntArray]:
    """The lowest and highest class (or band) that integer margins leave open for each point.

    ``least`` is the side per question from which a class is certain.
    """
    holds = pruned_sides(game, margins) >= least
    if game.forest.n_outputs == 1:
        sign = np.array([question.sign for question in game.questions])
        lowest = holds[:, sign > 0].sum(axis=1)
        return lowest, len(game.forest.decision.cuts) - holds[:, sign < 0].sum(axis=1)
    lowest = np.zeros(len(margins), dtype=np.int64)
    highest = np.full(len(margins), game.forest.n_outputs - 1, dtype=np.int64)
    for plus in range(game.forest.n_outputs):
        own = [question.index for question in game.questions if question.plus == plus]
        wins = holds[:, own].all(axis=1)
        lowest[wins] = highest[wins] = plus
    return lowest, highest


def original_band(game: Game) -> float:
    """Bound on |native margin of the original - integer margin / 2**scale|, for every input."""
    if not game.strict.all():  # exact arithmetic, exact integers
        return 0.0
    # half a unit for each leaf and the intercept, besides what the native sum rounds
    return float(summation_band(game.forest) + np.ldexp(game.forest.n_trees + 1, -game.scale - 1))


def _object(what: str) -> None:
    raise PineBoostError(
        f"Internal error: {what} (points of the search were replayed). Nothing was certified; "
        "please report this."
    )
