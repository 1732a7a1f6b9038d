"""A production scorer: the pruned model in Treelite, compiled to C where tl2cgen is installed.

Measures rows per second before and after with gtil (Treelite's interpreter) and tl2cgen, and says
for every row whether the certificate covers it: that needs neither XGBoost nor a solver.
"""

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from treelite import gtil
from xgboost import XGBClassifier

from pine_boost import Region, prune_booster
from pine_boost.exporters.treelite import to_treelite


def rows_per_second(predict: Callable[[], object], n_rows: int) -> float:
    predict()  # the first call also warms caches
    seconds = []
    for _ in range(7):
        started = time.perf_counter()
        predict()
        seconds.append(time.perf_counter() - started)
    return n_rows / min(seconds)


def compiled(model: object, folder: Path, name: str) -> object:
    """A tl2cgen predictor, or None where tl2cgen or a C compiler is missing."""
    try:
        import tl2cgen
    except ImportError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tl2cgen remarks on checkpoints of a newer Treelite
        library = folder / f"{name}.so"
        try:
            tl2cgen.export_lib(model, toolchain="gcc", libpath=library)
        except Exception as error:  # no compiler: gtil still serves
            print(f"not compiled: {error}")
            return None
        return tl2cgen.Predictor(library, nthread=1)


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :10].astype(np.float32)
    X_train, X_cal, y_train, _ = train_test_split(X, y, test_size=0.4, random_state=0)
    model = XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.1, n_jobs=1)
    model.fit(X_train, y_train)
    result = prune_booster(model, X_train, X_cal, alpha=0.2, time_limit=8)
    print(result.summary())

    models = {"original": to_treelite(model), "pruned": result.to_treelite()}
    rows = np.tile(X_cal, (100, 1))
    speed: dict[str, list[float]] = {"gtil": [], "tl2cgen": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, treelite_model in models.items():
            speed["gtil"].append(rows_per_second(lambda m=treelite_model: gtil.predict(m, rows, nthread=1), len(rows)))
            predictor = compiled(treelite_model, folder, label)
            if predictor is not None:
                import tl2cgen

                data = tl2cgen.DMatrix(rows)
                speed["tl2cgen"].append(rows_per_second(lambda p=predictor, d=data: p.predict(d), len(rows)))
        result.region.save(folder / "region.json")
        region = Region.load(folder / "region.json")
    for engine, (*measured,) in speed.items():
        if len(measured) == 2:
            before, after = measured
            print(f"{engine}: {before:,.0f} -> {after:,.0f} rows/s ({after / before:.2f} times)")

    # the margins of the pruned model are exact sums: gtil gives the native ones bit for bit
    native = result.model.predict(X_cal, output_margin=True)
    served = gtil.predict(models["pruned"], X_cal, nthread=1, pred_margin=True).reshape(-1)
    assert (native == served).all()
    covered = region.contains(rows)
    print(f"{covered.mean():.1%} of the rows are covered by the certificate")


if __name__ == "__main__":
    main()
