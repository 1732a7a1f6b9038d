"""Estimators that split sets of categories, one per library, and a small table with words."""

from typing import Any

import numpy as np


def models_of_categories() -> dict[str, Any]:
    """One estimator per library, not fitted, that takes the categories of a frame and splits sets of them."""
    import lightgbm
    import xgboost
    from sklearn.ensemble import HistGradientBoostingClassifier

    return {
        "xgboost": xgboost.XGBClassifier(
            n_estimators=8, max_depth=3, n_jobs=1, enable_categorical=True, max_cat_to_onehot=1
        ),
        "lightgbm": lightgbm.LGBMClassifier(
            n_estimators=8, max_depth=3, n_jobs=1, verbose=-1, min_child_samples=5, min_data_per_group=5, cat_smooth=1
        ),
        "histogram": HistGradientBoostingClassifier(max_iter=8, max_depth=3, categorical_features="from_dtype"),
    }


def words_and_codes() -> tuple[Any, np.ndarray, np.ndarray]:
    """A frame with one number and one word, the same as a matrix of codes, and labels."""
    import pandas

    random = np.random.default_rng(0)
    codes = np.column_stack([random.normal(size=300).round(1), random.integers(0, 5, 300)])
    words = np.array(list("abcde"))
    frame = pandas.DataFrame({"x": codes[:, 0], "word": pandas.Categorical(words[codes[:, 1].astype(int)], words)})
    return frame, codes, (codes[:, 1] % 2 == 0) ^ (codes[:, 0] > 0)
