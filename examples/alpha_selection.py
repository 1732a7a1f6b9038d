"""Choosing alpha: sweep a grid, look at the trade-off, pick by a target fidelity.

`select_alpha` needs a fourth table that nothing else has seen. The rule "confidence" holds for
future inputs with probability 1 - delta; the rule "empirical" only describes X_sel.
"""

from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

from pine_boost import select_alpha, sweep

ALPHAS = (0.5, 0.2, 0.1, 0.0)


def main() -> None:
    X, y = make_classification(4000, 6, n_informative=3, random_state=1)
    X = X.round(1)
    X_train, X_rest, y_train, _ = train_test_split(X, y, test_size=0.6, random_state=0)
    X_cal, X_sel = train_test_split(X_rest, test_size=0.5, random_state=0)
    model = XGBClassifier(n_estimators=15, max_depth=2, learning_rate=0.1, n_jobs=1)
    model.fit(X_train, y_train)

    # rows and cuts found for one alpha are reused for the next
    swept = sweep(model, X_train, X_cal, alphas=ALPHAS, time_limit=6)
    print(swept)

    for rule in ("empirical", "confidence"):
        chosen = select_alpha(
            model, X_train, X_cal, X_sel, target_fidelity=0.994, rule=rule, alphas=ALPHAS, time_limit=6
        )
        print(chosen)


if __name__ == "__main__":
    main()
