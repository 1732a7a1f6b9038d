"""Classifiers that return their only column as the score, so that scikit-learn's own thresholds and calibrators can be
evaluated at any score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class _Echo:
    """The interface that scikit-learn requires of a fitted classifier."""

    def __init__(self, classes: npt.ArrayLike) -> None:
        self.classes_ = np.asarray(classes)

    def fit(self, X: Any, y: Any) -> _Echo:
        """Do nothing; there is nothing to learn."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier", target_tags=TargetTags(required=True), classifier_tags=ClassifierTags()
        )


class EchoProbability(_Echo):
    """A classifier whose only column is the probability of class 1."""

    def predict_proba(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the probabilities of both classes."""
        return np.stack([1 - X[:, 0], X[:, 0]], axis=1)


class EchoMargin(_Echo):
    """A classifier whose only column is the margin."""

    def decision_function(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the margin of class 1."""
        return X[:, 0]
