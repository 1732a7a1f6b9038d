"""scikit-learn: a random forest and gradient boosting stay what they are, with fewer trees.

Domain knowledge is part of the promise: no measurement of this data is ever missing or negative,
so inputs of that kind need not be proved.
"""

import pickle

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

from pine_boost import Domain, prune_booster


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.filter(like="mean")
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.5, random_state=0)
    X_cal, X_test, _, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)
    measured = Domain(never_missing=True, lower=dict.fromkeys(X.columns, 0.0))

    for model in (
        RandomForestClassifier(n_estimators=15, max_depth=2, random_state=0),
        GradientBoostingClassifier(n_estimators=25, max_depth=2, random_state=0),
    ):
        model.fit(X_train, y_train)
        result = prune_booster(model, X_train, X_cal, alpha=0.2, indifference=0.05, domain=measured, time_limit=8)
        print(type(result.model).__name__)
        print(result.summary())
        again = pickle.loads(pickle.dumps(result.model))
        assert (again.predict(X_test) == result.model.predict(X_test)).all()
        evaluation = result.evaluate(X_test, y_test)
        print(f"accuracy {evaluation.accuracy_before:.1%} -> {evaluation.accuracy_after:.1%}\n")


if __name__ == "__main__":
    main()
