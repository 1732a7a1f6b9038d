"""The two moons of the paper: 30 trees; original, faithful pruning, in-distribution pruning.

Writes a picture of the three decision regions. Where it is bright, the promise holds: everywhere
for the faithful model, in the calibrated region for the other, which may differ where it is grey.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import make_moons
from xgboost import XGBClassifier

from pine_boost import Domain, prune_booster

matplotlib.use("Agg")  # no screen needed
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap

COLOURS = ListedColormap(["#4c78a8", "#f58518"])


def main(path: Path) -> None:
    X_train, y_train = make_moons(800, noise=0.15, random_state=0)
    X_cal, _ = make_moons(400, noise=0.15, random_state=1)
    X_test, _ = make_moons(2000, noise=0.15, random_state=2)
    model = XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.1, n_jobs=1)
    model.fit(X_train, y_train)

    results = [
        prune_booster(model, X_train, X_cal, alpha=alpha, n_bins=16, time_limit=6, domain=Domain(never_missing=True))
        for alpha in (0.0, 0.1)
    ]
    models = [model, *(result.model for result in results)]
    trees = [30, *(result.certificate.trees_after for result in results)]
    titles = ["original", "faithful (alpha = 0)", "in distribution (alpha = 0.1)"]

    axis = np.linspace(-2.0, 3.0, 400)
    grid = np.column_stack([g.ravel() for g in np.meshgrid(axis, axis - 0.25)])
    figure, panels = plt.subplots(1, 3, figsize=(12, 4), sharex=True, sharey=True)
    for panel, predictor, title, n_trees in zip(panels, models, titles, trees, strict=True):
        classes = predictor.predict(grid).reshape(400, 400)
        panel.pcolormesh(axis, axis - 0.25, classes, cmap=COLOURS, alpha=0.35, rasterized=True)
        panel.scatter(*X_train.T, c=y_train, cmap=COLOURS, s=4)
        same = np.mean(predictor.predict(X_test) == model.predict(X_test))
        panel.set_title(f"{title}\n{n_trees} trees, fidelity {same:.1%}")
        panel.set_xticks([])
        panel.set_yticks([])
        print(f"{title}: {n_trees} trees, same class on {same:.1%} of {len(X_test)} unseen rows")
    inside = results[1].region.contains(grid).reshape(400, 400)
    outside = np.where(inside, np.nan, 0.0)
    panels[2].pcolormesh(axis, axis - 0.25, outside, cmap="gray", vmin=0, vmax=1, alpha=0.45, rasterized=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"wrote {path}")

    same = results[1].model.predict(grid) == model.predict(grid)
    assert same[inside.ravel()].all()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "two-moons.png"))
