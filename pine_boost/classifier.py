"""A scikit-learn classifier that trains, calibrates and prunes in one fit.

Part of the rows is held out for calibration and not used for training. This is the only module that imports
scikit-learn at import time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from pine_boost.budget import Step
from pine_boost.errors import InvalidInputError
from pine_boost.native.predict import predict_classes
from pine_boost.options import Options, option_of, require_share
from pine_boost.prune import prune_booster
from pine_boost.region.domain import Domain


class PineClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """Train a tree ensemble, prune it with a certificate, and predict with the pruned model.

    ``fit`` trains a clone of ``estimator`` on a part of the rows, calibrates the region on the
    rest and prunes. The certificate (``result_.certificate``) is about the trained clone:
    on every input in the region the pruned model predicts its class.

    Parameters
    ----------
    estimator : unfitted classifier, optional
        XGBClassifier, LGBMClassifier or a scikit-learn tree ensemble; by default gradient boosting
        with 30 trees of depth 2.
    alpha : float
        Share of future inputs that may fall outside the region; 0 covers every input (faithful
        pruning).
    calibration_size : float
        Share of the rows, between 0 and 1, that is held out to calibrate the region.
    region_score : {"chow-liu", "leaf-support", "isolation-forest"} or object
        ``score`` of `prune_booster` (scikit-learn estimators have a method of that name).
    n_bins : int
        Number of bins per numeric feature of the Chow-Liu score.
    domain : Domain, optional
        What is known about every input that can occur.
    indifference : float or "auto"
        Share of inputs nearest to the decision boundary that the region may leave out, or auto to
        choose it. ``"auto"`` splits alpha between rare inputs and inputs near the decision boundary
        so that the model becomes small, using X_fit alone; it is 0 if splitting does not give a
        smaller model.
    objective : {"l0", "l1"}
        Minimise the number of trees (l0) or the sum of their weights (l1, faster).
    unit : {"round", "tree", "leaf"}
        What is counted and dropped: boosting rounds (one tree per class), single trees, or leaves.
        With leaves, subtrees may be collapsed into leaves and all leaf values are refitted.
    reweight : {"tree", "leaf"}, optional
        What is refitted in the trees that are kept: one weight per tree, or every leaf value, which
        needs fewer trees. The default is "leaf", and "tree" where leaves are votes or class shares
        (forests) or with ``objective="l1"``.
    threshold : float, optional
        Your own decision threshold on the probability of the second class (two classes only).
    time_limit : float, optional
        Seconds after which the best model certified so far is returned, at worst the original;
        without a limit the search ends when everything has been tried, which may take many minutes.
        If the time is over before the region is fitted, the status is NOT_CERTIFIED.
    n_jobs : int
        Number of threads for the proofs, -1 for all cores; the result does not depend on it.
    random_state : int, RandomState or None
        Seed of the split and of the search. The estimator has its own.
    callback : callable, optional
        Called with a `Step` after each step of the search.
    verbose : bool, optional
        Whether to show progress on stderr. By default it is shown on a terminal and in a notebook,
        unless there is a callback. Log messages go to the logger ``pine_boost``.

    Attributes
    ----------
    classes_ : array
        Labels as in y.
    model_ : fitted classifier
        The pruned native model. XGBoost needs labels 0, 1, ..., so it predicts positions in
        ``classes_``.
    original_ : fitted classifier
        The trained model before pruning.
    result_ : PruneResult
    n_features_in_ : int
    feature_names_in_ : array
        Only if the column names of X are strings.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from pine_boost.classifier import PineClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> classifier = PineClassifier(alpha=0.4, random_state=0).fit(X[:, :10], y)
    >>> classifier.result_.status
    'CERTIFIED'
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        alpha: float = 0.1,
        calibration_size: float = 0.25,
        region_score: Any = "chow-liu",
        n_bins: int = 4,
        domain: Domain | None = None,
        indifference: float | str = 0.0,
        objective: str = "l0",
        unit: str = "round",
        reweight: str | None = None,
        threshold: float | None = None,
        time_limit: float | None = None,
        n_jobs: int = 1,
        random_state: Any = None,
        callback: Callable[[Step], None] | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.calibration_size = calibration_size
        self.region_score = region_score
        self.n_bins = n_bins
        self.domain = domain
        self.indifference = indifference
        self.objective = objective
        self.unit = unit
        self.reweight = reweight
        self.threshold = threshold
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PineClassifier:
        """Train on a part of the rows, calibrate on the rest, prune.

        Parameters
        ----------
        X : table
            As the estimator accepts it.
        y : labels
        sample_weight : array, optional
            Weights of the rows, for the estimator; calibration knows none.
        """
        option_of("PineClassifier", "threshold").require(self.threshold)  # score bands would be no labels
        X = _validated(self, X, reset=True)
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        self.classes_, index = np.unique(labels, return_inverse=True)
        check_consistent_length(X, labels)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        train, held_out = self._split(index, seed)
        estimator = _default_estimator() if self.estimator is None else clone(self.estimator)
        self._encodes = type(estimator).__module__.partition(".")[0] == "xgboost"
        target = index if self._encodes else labels
        weights = {}
        if sample_weight is not None:
            weights["sample_weight"] = _check_sample_weight(sample_weight, X)[train]
        self.original_ = estimator.fit(_safe_indexing(X, train), target[train], **weights)
        self.result_ = prune_booster(
            self.original_, _safe_indexing(X, train), _safe_indexing(X, held_out), **self._options(seed)
        )
        self.model_ = self.result_.model
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict labels with the pruned model (by your threshold if one was given)."""
        check_is_fitted(self)
        X = _validated(self, X, reset=False)
        if self.threshold is not None:
            return np.asarray(self.classes_[predict_classes(self.result_.pruned, X)])
        labels = np.asarray(self.model_.predict(X))
        return self.classes_[labels] if self._encodes else labels

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict probabilities with the pruned model; close to the original's, not equal."""
        check_is_fitted(self)
        X = _validated(self, X, reset=False)
        return np.asarray(self.model_.predict_proba(X))

    def covers(self, X: Any) -> npt.NDArray[np.bool_]:
        """Return whether the certificate covers each row."""
        check_is_fitted(self)
        return self.result_.region.contains(X, model=self.result_.original.forest)

    def _options(self, seed: int) -> dict[str, Any]:
        """Return the parameters that are options of `prune_booster`."""
        known = {field.name for field in fields(Options)}
        given = {name: value for name, value in self.get_params(deep=False).items() if name in known}
        return {**given, "score": self.region_score, "random_state": seed}

    def _split(self, index: npt.NDArray[np.int64], seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Split into rows to train on and rows to calibrate on; every class occurs in the first part."""
        size, n_rows = self.calibration_size, len(index)
        require_share(size, "calibration_size")
        if len(self.classes_) < 2:
            raise InvalidInputError("y holds one class only; a classifier needs at least two.")
        n_held_out = int(np.ceil(size * n_rows))
        if n_held_out < 2 or n_rows - n_held_out < 2:
            raise InvalidInputError(
                f"Found n_samples={n_rows}: too few to train on {n_rows - n_held_out} and "
                f"calibrate on {n_held_out}; both need at least 2 rows."
            )
        order = np.random.RandomState(seed).permutation(n_rows)
        # the first row of every class is used for training, so that a rare class is not lost
        first = np.zeros(n_rows, dtype=bool)
        first[order[np.unique(index[order], return_index=True)[1]]] = True
        order = np.concatenate([order[first[order]], order[~first[order]]])
        n_train = n_rows - n_held_out
        return np.sort(order[:n_train]), np.sort(order[n_train:])

    def __sklearn_tags__(self) -> Any:
        """Return the tags; NaN, sparse and categorical support are those of the estimator inside."""
        tags = super().__sklearn_tags__()
        inner = get_tags(_default_estimator() if self.estimator is None else self.estimator)
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.categorical = inner.input_tags.categorical
        return tags


def _validated(classifier: PineClassifier, X: Any, *, reset: bool) -> Any:
    """Check names and shape; frames stay frames, because their columns hold the categories."""
    if hasattr(X, "columns"):
        validate_data(classifier, X, reset=reset, skip_check_array=True)
        return X
    return validate_data(classifier, X, reset=reset, accept_sparse="csr", ensure_all_finite=False, dtype="numeric")


def _default_estimator() -> Any:
    return GradientBoostingClassifier(n_estimators=30, max_depth=2, random_state=0)
