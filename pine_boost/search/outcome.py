"""What a search is given and what it leaves: effort, steps, memory, result.

In come nothing but other stages' values; out go the frozen records that `run` and `loop` pass on.
Nothing here searches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import PrunedForest
from pine_boost.proof.problem import Game
from pine_boost.search.fit_rows import FitRows
from pine_boost.search.grid import Reference
from pine_boost.search.oracle import Proof
from pine_boost.search.pruner import Pruner, Support
from pine_boost.search.rows import RowPool


@dataclass(frozen=True)
class Effort:
    """How hard to try, in counts and not in seconds, so that runs repeat exactly.

    Attributes
    ----------
    n_walks : int
        Walks to the boundary before the first proposal, from fit rows and from all over.
    n_eliminations : int
        Orders of backward elimination that are tried.
    exact_rounds, exact_programs : int
        Rounds and linear programs of the exact search.
    passed_over : int
        Sets of columns without weights on the grid that the exact search leaves aside.
    master_effort, proof_effort : float
        Deterministic time of CP-SAT per hitting set and per proof.
    box_limit : int
        Boxes per proof before the second opinion is asked of CP-SAT instead; 0: at once.
    """

    n_walks: int = 400
    n_eliminations: int = 3
    exact_rounds: int = 400
    exact_programs: int = 8000
    passed_over: int = 40
    master_effort: float = 2.0
    proof_effort: float = 100.0
    box_limit: int = 3000


class Judge(Protocol):
    """Who is shown every candidate with the points against it; raises where they are none."""

    def __call__(self, pruned: PrunedForest, states: npt.NDArray[Any]) -> None:
        """Replay the points."""

    def of(self, game: Game) -> Judge:
        """The same for another region of the model."""


@dataclass(frozen=True)
class Step:
    """What a callback is told."""

    step: int
    phase: str
    trees: int
    lower_bound: int
    rows: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Memory:
    """What a finished search leaves to that of a larger region of the same model.

    Rows, cuts and bound stay true there; ``support`` is where to begin.
    """

    pool: RowPool
    pruner: Pruner
    fit_rows: FitRows
    lower_bound: int = 1
    support: Support | None = None


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The best certified model.

    Attributes
    ----------
    pruned : PrunedForest or None
        None: the original itself is the answer.
    proofs : tuple of Proof
        Two for every question.
    n_kept : int
        Columns (rounds or trees) kept.
    lower_bound : int
        No model of this form that keeps all rows found has fewer columns.
    rounds : int
        Times the Oracle was asked.
    stopped : str
        Why the search ended: ``"optimal"``, ``"effort"``, ``"time"``, ``"memory"`` or
        ``"interrupted"``.
    undecided : bool or None
        Whether the region holds an input that the original itself does not decide for certain;
        None: not known.
    points : int32 (n_points, n_features) or None
        The points that spoke in the search.
    """

    pruned: PrunedForest | None
    proofs: tuple[Proof, ...]
    n_kept: int
    lower_bound: int
    rounds: int
    rows: int
    stopped: str
    undecided: bool | None = None
    seconds: float = 0.0
    reference: Reference | None = field(default=None, repr=False)
    points: npt.NDArray[np.int32] | None = field(default=None, repr=False)


class OutOfTime(Exception):
    """Raised inside the search only; the best certified model is kept."""


class OutOfEffort(Exception):
    """A proof took more than its deterministic share; raised inside the search only."""
