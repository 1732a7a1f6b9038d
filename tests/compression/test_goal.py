"""What a smaller model has to keep: the classes of the model's own rule, ties included."""

import numpy as np
from sklearn import ensemble

from pine_boost.compression.goal import Goal
from pine_boost.parsers import read_model
from tests.support.native_models import make_table


def test_a_margin_on_the_cut_is_the_class_that_the_library_gives_it():
    """GradientBoosting predicts class 1 at a margin of 0: only the move below changes it."""
    X, y = make_table(3, missing=False)
    native = ensemble.GradientBoostingClassifier(n_estimators=2, random_state=0).fit(X, y > 0)
    goal = Goal(read_model(native).forest)
    before, after = goal.answers(np.zeros((2, 1))), goal.answers(np.array([[0.5], [-0.5]]))
    assert goal.differ(before, after).tolist() == [False, True]
    assert goal.differ(after, before).tolist() == [False, True]
    assert goal.distances(np.zeros((2, 1))).tolist() == [0.0, 0.0]
