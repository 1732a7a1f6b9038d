"""``pine-boost demo``: train, prune and report on data that scikit-learn ships, in a few seconds.

Examples
--------
  pine-boost demo
  pine-boost demo -o /tmp/demo --alpha 0.2
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.certificate.saved import CERTIFICATE, REGION, REPORT
from pine_boost.cli import flags, output
from pine_boost.errors import MissingDependencyError, install_with
from pine_boost.progress import Progress
from pine_boost.tables.native import take_rows

_FEATURES = 10  # the means; the other twenty columns are spreads and extremes of the same ten


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    flags.add_arguments(parser, "result", "output force no_report", output={"default": "pine-demo"})
    names = ["alpha", "indifference", "time_limit"]
    flags.add_options(parser, "prune_booster", names, indifference=0.05, time_limit=10.0)


def main(arguments: argparse.Namespace) -> int:
    """Train on half of the rows, calibrate on a third, test on the rest."""
    if find_spec("sklearn") is None:
        raise MissingDependencyError(f"The demo needs scikit-learn for its data; {install_with('sklearn')}")
    from sklearn.datasets import load_breast_cancer

    from pine_boost.cli.prune import describe, evaluated, exit_code, summary
    from pine_boost.native.predict import model_file
    from pine_boost.prune import prune_booster

    data = load_breast_cancer(as_frame=find_spec("pandas") is not None)
    columns = np.arange(_FEATURES)
    X = data.data.iloc[:, columns] if hasattr(data.data, "iloc") else data.data[:, columns]
    (X_fit, y_fit), (X_cal, _), (X_test, y_test) = _split(X, np.asarray(data.target))
    library, model = _train(X_fit, y_fit)
    if not arguments.json:
        print(f"Trained {type(model).__name__} ({library}) on {len(X_fit)} rows.")
    name, contents = model_file(model, library)
    original = f"original{Path(name).suffix}"
    output.require_place(arguments, [name, original, REGION, REPORT, CERTIFICATE])
    options = {name: getattr(arguments, name) for name in ("alpha", "indifference", "time_limit")}
    with Progress(time_limit=arguments.time_limit, option="--time-limit") as progress:
        result = prune_booster(model, X_fit, X_cal, callback=progress, **options)
    files = result.files({original: contents})
    folder = output.write_results(arguments, files)
    output.write_report(arguments, result, folder, X_test)
    evaluation = result.evaluate(X_test, y_test)
    lines = [summary(result), evaluated(evaluation), f"Open {folder / 'report.html'} in a browser."]
    flags.answer(arguments, describe(result, folder, evaluation), "\n".join(lines))
    return exit_code(result)


def _split(X: Any, y: Any) -> list[tuple[Any, Any]]:
    order = np.random.default_rng(0).permutation(len(X))
    bounds = np.cumsum([len(X) // 2, len(X) // 3])
    return [(take_rows(X, rows), y[rows]) for rows in np.split(order, bounds)]


def _train(X: Any, y: Any) -> tuple[str, Any]:
    if find_spec("xgboost") is not None:
        from xgboost import XGBClassifier

        model = XGBClassifier(n_estimators=30, max_depth=2, n_jobs=1, random_state=0)
        return "xgboost", model.fit(X, y)
    if find_spec("lightgbm") is not None:
        from lightgbm import LGBMClassifier

        model = LGBMClassifier(n_estimators=30, num_leaves=4, n_jobs=1, random_state=0, verbose=-1)
        return "lightgbm", model.fit(X, y)
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(n_estimators=30, max_depth=2, random_state=0)
    return "sklearn", model.fit(X, y)
