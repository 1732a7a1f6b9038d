"""Whether rows that should be unseen were seen: evidence, and the warning about it.

In come two matrices as the trees see them; out goes a HoldoutWarning when one evidently repeats the
other. No model remembers its training rows, so silence is no proof that rows were held out.
"""

from __future__ import annotations

import logging
import warnings

import numpy as np

from pine_boost.errors import HoldoutWarning
from pine_boost.model.forest import FloatArray

_LOGGER = logging.getLogger("pine_boost")


def warn_of_overlap(
    seen: FloatArray,
    held_out: FloatArray,
    seen_name: str = "X_fit",
    name: str = "X_cal",
    stacklevel: int = 4,
) -> None:
    """Warn when held-out rows repeat seen rows more often than the seen rows repeat one another.

    For exchangeable rows both shares have the same expectation, however coarse the features are.
    Any repetition is logged.
    """
    both = np.ascontiguousarray(np.vstack([seen, held_out]) + 0.0)
    both[np.isnan(both)] = np.nan  # one bit pattern
    rows = both.view(np.dtype((np.void, both.dtype.itemsize * both.shape[1]))).ravel()
    _, label = np.unique(rows, return_inverse=True)
    count_seen = np.bincount(label[: len(seen)], minlength=int(label.max()) + 1)
    own = float(np.mean(count_seen[label[: len(seen)]] > 1))
    shared = float(np.mean(count_seen[label[len(seen) :]] > 0))
    if shared > 0:
        _LOGGER.info("%.1f %% of the rows of %s also occur in %s", 100 * shared, name, seen_name)
    excess = shared - own
    # four standard deviations of a count of chance repetitions: 17 rows where none else repeat
    by_count = 4 * np.sqrt((shared + own) / min(len(seen), len(held_out)))
    if excess > min(0.1 + 2 / np.sqrt(len(held_out)), by_count):
        warnings.warn(
            f"{shared:.0%} of the rows of {name} also occur in {seen_name} ({own:.0%} would be "
            "expected): calibrating or selecting on rows that the model or the score has seen "
            "breaks the guarantee. Use rows that were held out.",
            HoldoutWarning,
            stacklevel=stacklevel,
        )
