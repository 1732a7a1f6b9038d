"""The options of a search, checked once, and the checks of numbers that everything shares.

In come what a user wrote; out go a frozen Options, or numbers of the asked-for kind. Refuses values
that mean nothing, with the name of the option and what is accepted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from pine_boost.errors import InvalidInputError

if TYPE_CHECKING:
    from pine_boost.region.domain import Domain

OBJECTIVES = ("l0", "l1")
SCORE_NAMES = ("chow-liu", "leaf-support", "isolation-forest")
UNITS = ("round", "tree", "leaf")
REWEIGHTS = ("tree", "leaf")
AUTO = "auto"  # toss-ups get the share of alpha that is best by X_fit
MAX_BINS = 1000  # pair tables grow with the square; no X_fit fills more


@dataclass(frozen=True)
class Options:
    """What `prune_booster`, `sweep`, `PineClassifier` and the command line let a user choose.

    Attributes are the parameters of `prune_booster`; making one refuses what means nothing.
    """

    alpha: float = 0.1
    score: Any = "chow-liu"
    n_bins: int = 4
    indifference: float | str = 0.0
    objective: str = "l0"
    unit: str = "round"
    reweight: str | None = None
    threshold: float | Sequence[float] | None = None
    domain: Domain | None = None
    time_limit: float | None = None
    n_jobs: int = 1
    random_state: int = 0
    callback: Callable[..., None] | None = None
    verbose: bool | None = None
    allow_overlap: bool = False

    def __post_init__(self) -> None:
        require_level(self.alpha, "alpha")
        require_indifference(self.indifference)
        require_whole(self.n_bins, "n_bins", 1, MAX_BINS)
        require_one_of(self.objective, "objective", OBJECTIVES)
        require_one_of(self.unit, "unit", UNITS)
        if self.reweight is not None:
            require_one_of(self.reweight, "reweight", REWEIGHTS)
        if self.unit == "leaf" and self.reweight == "tree":
            raise InvalidInputError(
                "unit='leaf' needs reweight='leaf' (its default): when a subtree becomes a leaf, "
                "leaf values are chosen anew. Leave reweight out, or use unit='round' or 'tree'."
            )
        require_seconds(self.time_limit)
        worker_count(self.n_jobs)
        require_seed(self.random_state)
        require_callback(self.callback)
        require_flag(self.allow_overlap, "allow_overlap")
        require_flag(self.verbose, "verbose", or_none=True)

    @property
    def asks_for_leaves(self) -> bool:
        """Whether leaf values are to be chosen anew, by the user's own word."""
        return self.unit == "leaf" or self.reweight == "leaf"

    def reweight_of(self, has_free_leaves: bool) -> str:
        """What is chosen anew where the user did not say: leaf values that may take any value.

        The smallest sum of weights (``objective="l1"``) is about weights.
        """
        if self.asks_for_leaves:
            return "leaf"
        return self.reweight or ("leaf" if has_free_leaves and self.objective == "l0" else "tree")

    @property
    def n_workers(self) -> int:
        """``n_jobs`` as a number of threads."""
        return worker_count(self.n_jobs)

    @property
    def asks_for_everything(self) -> bool:
        """Whether the region is every input, so that no tables are needed."""
        return self.alpha == 0 and self.indifference in (0, AUTO)

    def of_region(self) -> dict[str, Any]:
        """The options that `fit_with_states` takes."""
        names = ("alpha", "score", "n_bins", "indifference", "domain", "random_state", "allow_overlap")
        taken = {name: getattr(self, name) for name in names}
        if self.indifference == AUTO:
            taken |= {"indifference": 0.0, "with_evidence": self.alpha > 0}
        return taken


def plural(unit: str) -> str:
    """Several of a unit, in words."""
    return "leaves" if unit == "leaf" else f"{unit}s"


def counted(number: int, unit: str) -> str:
    """So many of a unit, in words: 1 leaf, 2 leaves."""
    return f"{number} {unit if number == 1 else plural(unit)}"


def is_real(value: Any) -> bool:
    """A real number of Python or numpy; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """An integer of Python or numpy; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_float(value: Any) -> bool:
    try:
        float(value)
    except OverflowError:  # a whole number beyond every float
        return False
    return True


def require_level(value: Any, name: str) -> None:
    """Refuse what is no level: a number from 0, below 1."""
    if not is_real(value) or not 0 <= value < 1:
        raise InvalidInputError(f"{name}={value!r}: a number in [0, 1) is accepted.")


def require_indifference(value: Any) -> None:
    """Refuse what is neither a level nor the word for choosing one."""
    is_auto = isinstance(value, str) and value == AUTO
    if not is_auto and (not is_real(value) or not 0 <= value < 1):
        raise InvalidInputError(f"indifference={value!r}: a number in [0, 1) is accepted, or {AUTO!r}.")


def require_share(value: Any, name: str) -> None:
    """Refuse what is no share: a number strictly between 0 and 1."""
    if not is_real(value) or not 0 < value < 1:
        raise InvalidInputError(f"{name}={value!r}: a number strictly between 0 and 1 is accepted.")


def require_seconds(time_limit: Any) -> None:
    """Refuse a time limit that is neither None nor a positive number that a float holds."""
    if time_limit is None:
        return
    if not is_real(time_limit) or not time_limit > 0 or not _is_float(time_limit):
        raise InvalidInputError(f"time_limit={time_limit!r}: seconds above 0, or None.")


def require_whole(value: Any, name: str, low: int, high: int | None = None) -> None:
    """Refuse what is no whole number within bounds."""
    if not is_whole(value) or value < low or (high is not None and value > high):
        bounds = f"from {low}" if high is None else f"from {low} to {high}"
        raise InvalidInputError(f"{name}={value!r}: a whole number {bounds} is accepted.")


def require_seed(random_state: Any) -> None:
    """Refuse what numpy takes for no seed."""
    if not is_whole(random_state) or not 0 <= random_state < 2**32:
        raise InvalidInputError(
            f"random_state={random_state!r}: a whole number from 0 to 2**32 - 1 is accepted, so "
            "that the same call gives the same result."
        )


def require_callback(callback: Any) -> None:
    """Refuse what is neither None nor can be called."""
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback={callback!r}: something that can be called, or None.")


def require_flag(value: Any, name: str, *, or_none: bool = False) -> None:
    """Refuse what is neither True nor False, nor None where that is a word, too."""
    accepted = (True, False, None) if or_none else (True, False)
    if not any(value is word for word in accepted):
        words = ", ".join(str(word) for word in accepted)
        raise InvalidInputError(f"{name}={value!r}: one of {words} is accepted.")


def require_one_of(value: Any, name: str, accepted: Sequence[str]) -> None:
    """Refuse what is none of a few words."""
    if not isinstance(value, str) or value not in accepted:
        words = " and ".join(repr(word) for word in accepted)
        raise InvalidInputError(f"{name}={value!r}: {words} are accepted.")


def worker_count(n_jobs: Any) -> int:
    """Threads that ``n_jobs`` stands for; -1 is every core that this process may use."""
    if is_whole(n_jobs) and n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _all_cores()
    if not is_whole(n_jobs) or n_jobs < 1:
        raise InvalidInputError(f"n_jobs={n_jobs!r}: a whole number from 1 is accepted, or -1 for all cores.")
    return int(n_jobs)


def _all_cores() -> int:
    return os.cpu_count() or 1
