"""LightGBM, three classes, pandas categories and missing values.

Generates orders of a shop (region and product are categories, some weights are missing), trains a
multiclass model and prunes single class trees of it (unit="tree").
"""

import lightgbm
import numpy as np
import pandas as pd

from pine_boost import prune_booster


def orders(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    random = np.random.default_rng(seed)
    region = random.choice(["north", "south", "west"], n_rows, p=[0.5, 0.3, 0.2])
    product = random.choice(["book", "chair", "lamp", "sofa"], n_rows)
    weight = random.lognormal(np.where(np.isin(product, ["chair", "sofa"]), 2.5, 0.5), 0.4)
    distance = random.gamma(2.0, 120.0, n_rows) + 150 * (region == "west")
    effort = 0.12 * weight + distance / 250 + 0.8 * (product == "sofa")
    effort += random.normal(0, 0.15, n_rows)
    weight[random.random(n_rows) < 0.1] = np.nan  # nobody weighed these
    table = pd.DataFrame(
        {"region": pd.Categorical(region), "product": pd.Categorical(product), "weight": weight, "distance": distance}
    )
    return table, np.digitize(effort, [1.5, 3.0])  # 0 parcel, 1 van, 2 freight


def main() -> None:
    X_train, y_train = orders(3000, seed=0)
    X_cal, _ = orders(1000, seed=1)
    X_test, y_test = orders(1000, seed=2)

    model = lightgbm.LGBMClassifier(n_estimators=15, num_leaves=5, learning_rate=0.2, n_jobs=1, verbose=-1)
    model.fit(X_train, y_train)

    # alpha 0.2 and an indifference of 0.1: half of alpha goes to orders on which the model itself
    # can hardly tell two classes apart, the other half to unusual orders
    result = prune_booster(model, X_train, X_cal, alpha=0.2, indifference=0.1, unit="tree", time_limit=12)
    print(result.summary())
    evaluation = result.evaluate(X_test, y_test)
    print(
        f"same class on {evaluation.fidelity:.1%} of {evaluation.n_rows} unseen rows, "
        f"{evaluation.fidelity_in_region:.0%} in the region"
    )

    gap = pd.DataFrame(
        {
            "region": pd.Categorical(["west"], categories=X_train["region"].cat.categories),
            "product": pd.Categorical(["book"], categories=X_train["product"].cat.categories),
            "weight": [np.nan],
            "distance": [120.0],
        }
    )
    print("a book without a weight, to the west:", *result.model.predict(gap))
    print(result.region.explain(gap, model=model))


if __name__ == "__main__":
    main()
