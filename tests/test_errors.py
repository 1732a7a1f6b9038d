"""Messages: a class is named with the article that it is read with."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from xgboost import XGBClassifier

from pine_boost.errors import class_with_article


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (XGBClassifier(), "an XGBClassifier"),
        (LGBMClassifier(), "an LGBMClassifier"),
        (MLPClassifier(), "an MLPClassifier"),
        (ExtraTreesClassifier(), "an ExtraTreesClassifier"),
        (RandomForestClassifier(), "a RandomForestClassifier"),
        (np.zeros(1), "an ndarray"),
        ("text", "a str"),
        (1, "an int"),
    ],
)
def test_a_class_has_the_article_that_it_is_read_with(value, words):
    assert class_with_article(value) == words
