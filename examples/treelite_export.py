"""The pruned model in Treelite, for servers that already run it.

Compares the margins of gtil (Treelite's interpreter) with the native ones, and says for every row whether
the certificate covers it: that needs neither XGBoost nor a solver.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from treelite import Model, gtil
from xgboost import XGBClassifier

from pine_boost import Region, prune_booster


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :10].astype(np.float32)
    X_train, X_cal, y_train, _ = train_test_split(X, y, test_size=0.4, random_state=0)
    model = XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.1, n_jobs=1)
    model.fit(X_train, y_train)
    result = prune_booster(model, X_train, X_cal, alpha=0.2, time_limit=8)
    print(result.summary())

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result.to_treelite().serialize(folder / "model.tl")
        result.region.save(folder / "region.json")
        served, region = Model.deserialize(folder / "model.tl"), Region.load(folder / "region.json")

    # the margins of the pruned model are exact sums: gtil gives the native ones bit for bit
    native = result.model.predict(X_cal, output_margin=True)
    assert (native == gtil.predict(served, X_cal, nthread=1, pred_margin=True).reshape(-1)).all()
    print(f"{region.contains(X_cal).mean():.1%} of the rows are covered by the certificate")


if __name__ == "__main__":
    main()
