"""XGBoost, two classes: fewer trees, the same decisions.

Trains on ten columns of the breast cancer data that scikit-learn ships, prunes, checks the result
against the original on unseen rows and writes model, region and certificate to a folder.
"""

import sys
import tempfile

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

from pine_boost import prune_booster


def main(folder: str) -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.filter(like="mean")
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.5, random_state=0)
    X_cal, X_test, _, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)

    model = XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.1, n_jobs=1)
    model.fit(X_train, y_train)

    # X_cal holds rows that the model has not seen: they calibrate the region of the promise
    result = prune_booster(model, X_train, X_cal, alpha=0.1)
    print(result.summary())

    # the result is an XGBClassifier like the one given
    before, after = model.predict(X_test), result.model.predict(X_test)
    inside = result.region.contains(X_test)
    print(f"{len(X_test)} unseen rows, {inside.sum()} of them in the region")
    print(f"same class: {np.mean(before == after):.1%} of all, {np.mean((before == after)[inside]):.0%} in the region")
    evaluation = result.evaluate(X_test, y_test)
    print(f"accuracy {evaluation.accuracy_before:.1%} -> {evaluation.accuracy_after:.1%}")

    # why is the least plausible row outside?
    odd = int(np.argmax(result.region.score(X_test)))
    print(result.region.explain(X_test.iloc[[odd]]))

    result.region.save(f"{folder}/region.json")
    result.model.save_model(f"{folder}/pruned.json")
    with open(f"{folder}/certificate.json", "w", encoding="utf-8") as file:
        file.write(result.certificate.to_json())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="pine-"))
