"""Classifiers of every library, trained in one thread without a word."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# module, class, what the number of trees is called, options
_KINDS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "xgboost": ("xgboost", "XGBClassifier", "n_estimators", {"n_jobs": 1, "verbosity": 0}),
    "lightgbm": ("lightgbm", "LGBMClassifier", "n_estimators", {"n_jobs": 1, "verbose": -1}),
    "histgb": ("sklearn.ensemble", "HistGradientBoostingClassifier", "max_iter", {}),
    "random-forest": ("sklearn.ensemble", "RandomForestClassifier", "n_estimators", {"n_jobs": 1}),
    "catboost": (
        "catboost",
        "CatBoostClassifier",
        "iterations",
        {"thread_count": 1, "verbose": 0, "allow_writing_files": False},
    ),
}


def fit(kind: str, trees: int, X: Any, y: Any, *, seed: int = 0, **options: Any) -> Any:
    """Train a model with so many trees; what is not named is the library's own default."""
    if kind not in _KINDS:
        raise SystemExit(f"no model {kind!r}; accepted are {', '.join(_KINDS)}.")
    module, name, count, quiet = _KINDS[kind]
    return getattr(import_module(module), name)(**{count: trees}, random_state=seed, **quiet, **options).fit(X, y)
