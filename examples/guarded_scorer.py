"""A guarded scorer: the pruned model answers where it is proved, the original everywhere else.

Saves it to a folder, loads it again as a server would, compares every class with the original's,
and shows what happens when one file of the folder is exchanged.
"""

import shutil
import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

from pine_boost import CertificateMismatch, GuardedModel, load_scorer, prune_booster


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :10]
    X_train, X_rest, y_train, _ = train_test_split(X, y, test_size=0.6, random_state=0)
    X_cal, X_new = X_rest[::2], X_rest[1::2]
    model = XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.1, n_jobs=1)
    model.fit(X_train, y_train)
    result = prune_booster(model, X_train, X_cal, alpha=0.1, time_limit=20)
    print(result.summary())

    with tempfile.TemporaryDirectory() as name:
        folder = GuardedModel(result).save(Path(name) / "scorer")
        guarded = load_scorer(folder)
        print(guarded)
        print(guarded.claim)
        far_out = X_new.copy()
        far_out[:, 0] *= 20  # inputs that nobody has ever seen
        for rows, what in ((X_new, "new rows"), (far_out, "rows far out")):
            same = guarded.predict(rows) == model.predict(rows)
            counts = guarded.reset_counts()
            print(
                f"{what}: {same.sum()} of {len(rows)} classes are the original's, the pruned "
                f"model answered {counts.n_guarded}, the original {counts.n_fallbacks}"
            )
            assert same.all()

        shutil.copy(folder / "original.json", folder / "pruned.json")
        try:
            load_scorer(folder)
        except CertificateMismatch as error:
            print(f"refused: {error}")


if __name__ == "__main__":
    main()
