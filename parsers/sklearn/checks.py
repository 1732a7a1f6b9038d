"""What a scikit-learn estimator is, and why it may be refused.

In come live estimators; out go the name of the supported class, labels and names.
Refuses pipelines, searches, unfitted and multi-output estimators, each with what to do instead.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError, UnsupportedModelError

OLDEST = (1, 6)


def supported_name(model: Any, accepted: Collection[str]) -> str:
    """The scikit-learn class of a fitted estimator, a user's subclass included."""
    _refuse_old_version()
    bases = _sklearn_bases(model)
    if "Pipeline" in bases and getattr(model, "steps", None):
        step = model.steps[-1][0]
        raise UnsupportedModelError(
            f"A Pipeline was given; pass its last step, pipeline.named_steps[{step!r}], and data "
            "transformed by the steps before it, pipeline[:-1].transform(X)."
        )
    for name in bases:
        if name in accepted:
            require_fitted(model, _fitted_attribute(name))
            return name
    hint = ""
    if hasattr(model, "best_estimator_"):
        hint = " This search holds the model in best_estimator_: pass that."
    if "IsolationForest" in bases:
        hint = " An IsolationForest is a plausibility score, read by read_isolation_forest."
    raise UnsupportedModelError(
        f"{type(model).__name__} is not supported; accepted from scikit-learn: {', '.join(sorted(accepted))}.{hint}"
    )


def refuse_other_than(model: Any, name: str, inside: str | None = None) -> None:
    """Accept only one scikit-learn class (or a subclass)."""
    if name not in _sklearn_bases(model):
        where = f" inside {inside}" if inside else ""
        raise UnsupportedModelError(f"{type(model).__name__} was found{where}; only {name} is accepted here.")


def require_fitted(model: Any, attribute: str) -> None:
    """Refuse an estimator without the attribute that ``fit`` sets."""
    if not hasattr(model, attribute) or np.size(getattr(model, attribute)) == 0:
        raise InvalidInputError(f"{type(model).__name__} is not fitted (no {attribute}); call fit first.")


def refuse_multi_output(model: Any, name: str) -> None:
    """Refuse trees that predict several targets at once."""
    if int(getattr(model, "n_outputs_", 1)) > 1:
        raise UnsupportedModelError(
            f"{name} with {model.n_outputs_} outputs is not supported; fit one model per output."
        )


def class_labels(model: Any, thresholds: tuple[float, ...] = ()) -> tuple[Any, ...]:
    """Labels in class order; the numbers of the score bands where thresholds make them.

    Empty for a regressor without thresholds, which decides no class.
    """
    if len(thresholds) > 1 or (thresholds and not hasattr(model, "classes_")):
        return tuple(range(len(thresholds) + 1))
    if not hasattr(model, "classes_"):
        return ()
    if int(getattr(model, "n_outputs_", 1)) > 1:
        refuse_multi_output(model, type(model).__name__)
    labels = tuple(np.asarray(model.classes_).tolist())
    if len(labels) < 2:
        raise UnsupportedModelError(
            f"{type(model).__name__} was fitted on the single class {labels[0]!r}; it always "
            "predicts that, there is nothing to prune."
        )
    return labels


def feature_names(model: Any) -> tuple[str, ...] | None:
    """Column names seen in ``fit``, if any."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


def _refuse_old_version() -> None:
    import sklearn

    # 1.3 keeps counts in tree_.value and normalises them when it predicts, so reweighted leaves
    # would be lost without a word; 1.6.0 and 1.9 were checked bit for bit
    version = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
    if version < OLDEST:
        raise UnsupportedModelError(
            f"scikit-learn {sklearn.__version__} is installed; its trees predict by another rule. "
            f"Use scikit-learn {OLDEST[0]}.{OLDEST[1]} or newer."
        )


def _sklearn_bases(model: Any) -> list[str]:
    return [base.__name__ for base in type(model).__mro__ if base.__module__.startswith("sklearn.")]


def _fitted_attribute(name: str) -> str:
    if name.startswith("Hist"):
        return "_predictors"
    single = name.startswith(("DecisionTree", "ExtraTreeC", "ExtraTreeR"))
    return "tree_" if single else "estimators_"
