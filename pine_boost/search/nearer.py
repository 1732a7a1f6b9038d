"""Among certified models of one size, the one whose probabilities are nearest to the original's.

In come a game that has a certified model and a way to write others of its size near the original;
out goes nothing: what is nearer and proved takes the place of the smallest model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pine_boost.model.forest import PrunedForest
from pine_boost.search.algorithm import ask
from pine_boost.search.probabilities import probability_shift
from pine_boost.search.search_state import Game
from pine_boost.search.strategies import Proposal

_MOST_ASKED = 12  # models near the original that are asked about


def nearer(game: Game, write: Callable[[], PrunedForest | None]) -> Iterator[Proposal]:
    """Ask about models that keep all rows until one is proved; a strategy without proposals."""
    smallest = game.best.smallest.pruned
    assert smallest is not None
    reference = game.rows.fit.reference
    known = probability_shift(game.problem, smallest, reference)
    for _ in range(_MOST_ASKED):
        game.budget.check()
        if game.is_late():
            game.prove_twice()
        pruned = write()
        if pruned is None or game.rows.loses(pruned):
            return
        if probability_shift(game.problem, pruned, reference).brier >= known.brier:
            return
        if game.columns.size_of(pruned) > game.best.smallest.n_kept:
            return
        verdict = ask(game, pruned, Proposal(game.best.support))
        assert verdict is not None
        if verdict.is_proved:
            game.best.prefer(pruned, verdict.proofs)
            return
        if game.learn(pruned, verdict) == 0:
            return
    yield from ()
