"""Your own threshold, and score bands: approve, review, decline.

Many models are not used at 0.5. With `threshold` the promise is about your cut; with several
thresholds it is about every band, so no customer moves from "review" to "decline".
"""

import numpy as np
from xgboost import XGBClassifier

from pine_boost import prune_booster

BANDS = np.array(["approve", "review", "decline"])


def applicants(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Years in the job, income in thousands, late payments, share of income owed."""
    random = np.random.default_rng(seed)
    years = random.geometric(0.15, n_rows) - 1
    income = random.normal(35 + 1.5 * np.minimum(years, 20), 10).clip(12, 150).round()
    late = random.poisson(0.8 * np.exp(-years / 15), n_rows)
    owed = random.beta(2, 4, n_rows).round(2)
    risk = -2.2 + 0.9 * late + 3.0 * owed - 0.03 * (income - 40) - 0.05 * years
    defaulted = random.random(n_rows) < 1 / (1 + np.exp(-risk))
    return np.column_stack([years, income, late, owed]), defaulted.astype(int)


def main() -> None:
    X_train, y_train = applicants(3000, seed=0)
    X_cal, _ = applicants(1000, seed=1)
    X_test, _ = applicants(1000, seed=2)
    model = XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.1, n_jobs=1)
    model.fit(X_train, y_train)

    for threshold in (0.2, (0.1, 0.4)):
        result = prune_booster(model, X_train, X_cal, alpha=0.2, indifference=0.05, threshold=threshold, time_limit=7)
        print(f"threshold={threshold}")
        print(result.summary())
        cuts = np.atleast_1d(threshold)
        bands = [np.digitize(m.predict_proba(X_test)[:, 1], cuts, right=True) for m in (model, result.model)]
        inside = result.region.contains(X_test, model=model)
        assert (bands[0] == bands[1])[inside].all()
        print(f"same side on {np.mean(bands[0] == bands[1]):.1%} of {len(X_test)} unseen rows")
        if len(cuts) > 1:
            names, counts = np.unique(BANDS[bands[1]], return_counts=True)
            print(dict(zip(names.tolist(), counts.tolist(), strict=True)))
        print()


if __name__ == "__main__":
    main()
