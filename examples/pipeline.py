"""A whole scikit-learn Pipeline: its trees are pruned, the rest stays, raw rows go in.

Text, gaps and numbers are prepared by the Pipeline's own steps; a threshold around it that was
tuned for recall is kept to the bit. The region takes raw rows, too.
"""

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from xgboost import XGBClassifier

from pine_boost import GuardedModel, prune_booster


def rows(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "amount": np.where(rng.random(n_rows) < 0.1, np.nan, rng.exponential(100, n_rows)),
            "country": rng.choice(["de", "fr", "jp"], n_rows, p=[0.6, 0.3, 0.1]),
            "age": rng.integers(18, 90, n_rows),
        }
    )
    risk = table["amount"].fillna(100) / 100 + (table["country"] == "jp") - table["age"] / 60
    return table, (risk + rng.normal(0, 0.3, n_rows) > 0).to_numpy().astype(int)


def main() -> None:
    X_train, y_train = rows(2000, 0)
    prepare = make_column_transformer(
        (SimpleImputer(strategy="median"), ["amount", "age"]), (OneHotEncoder(handle_unknown="ignore"), ["country"])
    )
    trees = XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.2, n_jobs=1)
    pipeline = make_pipeline(prepare, FixedThresholdClassifier(trees, threshold=0.3))
    pipeline.fit(X_train, y_train)

    X_cal, X_new = rows(1000, 1)[0], rows(5000, 2)[0]
    result = prune_booster(pipeline, X_train, X_cal, alpha=0.1, time_limit=20)
    print(result.summary())
    inside = result.region.contains(X_new)
    same = result.model.predict(X_new) == pipeline.predict(X_new)
    print(f"{type(result.model).__name__} in, {type(pipeline).__name__} out")
    print(f"{inside.mean():.1%} of new raw rows in the region, {same[inside].mean():.1%} the same")
    assert same[inside].all()

    guarded = GuardedModel(result)
    assert (guarded.predict(X_new) == pipeline.predict(X_new)).all()
    print(f"guarded: all {len(X_new)} classes as before, {guarded.fallbacks} asked of the original")


if __name__ == "__main__":
    main()
