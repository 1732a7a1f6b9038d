"""Watch live inputs after pruning: quiet days, a drift, and what the certificate still covers.

Prunes a model, counts twenty quiet days and then drifted ones into a state file, names what
drifted, and recalibrates on fresh rows.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier

from pine_boost import prune_booster, recalibrate
from pine_boost.monitoring import watch


def inputs(seed: int, n_rows: int, drifted: bool = False) -> np.ndarray:
    """Two features that go together, until they do not, and two that do not matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[:, 1] = (0.2 if drifted else 1.0) * X[:, 0] + 0.3 * X[:, 1]
    return X


def main() -> None:
    X = inputs(0, 500)
    model = GradientBoostingClassifier(n_estimators=20, max_depth=2, random_state=0)
    model.fit(X, X.sum(axis=1) > 0)
    result = prune_booster(model, inputs(1, 1500), inputs(2, 1500), alpha=0.1, objective="l1")
    print(result.summary())

    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "monitor.json"
        for day in range(40):
            status = watch(result.region, inputs(100 + day, 150, day >= 20), state, name=f"day {day}")
            if status.alarm:
                print(f"Alarm on day {day}; the drift began on day 20.")
                print(status)
                break

    found = recalibrate(result.region, inputs(999, 1000, drifted=True))
    print(found)


if __name__ == "__main__":
    main()
