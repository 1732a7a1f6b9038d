"""MLflow: log a result as a run, with the model in its native flavour and the proof beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pine_boost.errors import InvalidInputError, class_with_article, needing
from pine_boost.model.forest import Model
from pine_boost.native.predict import load_native

ARTIFACTS = "pine_boost"
_TAG_LIMIT = 5000


def log_result(
    result: Any, *, name: str = "model", report: bool = True, X: Any = None, **log_model_options: Any
) -> Any:
    """Log a result to the active MLflow run, or to a new one.

    The model is logged with the flavour of its library (``mlflow.xgboost``, ``mlflow.lightgbm``,
    ``mlflow.sklearn``), so loading it does not need pine_boost. Certificate, region and report are
    artifacts in ``pine_boost/``; status and claim are tags; sizes are metrics.

    Parameters
    ----------
    result : PruneResult, CompressResult, CommitteeResult or WrappedResult
    name : str
        Of the model within the run.
    report : bool
        Whether to log report.html too (takes some seconds; pruned models only).
    X : table, optional
        Rows on which the report measures coverage and speed.
    **log_model_options
        Passed to ``log_model`` of the flavour, for example ``registered_model_name`` or
        ``signature``. MLflow 3 writes scikit-learn models with skops and needs the types to trust
        on loading: pass ``skops_trusted_types=[...]``.

    Returns
    -------
    mlflow.models.model.ModelInfo

    Raises
    ------
    InvalidInputError
        Not a result of pine_boost, or one that was loaded without its original.
    MissingDependencyError
        MLflow is not installed.
    """
    if not (hasattr(result, "files") and hasattr(result, "model")):
        raise InvalidInputError(
            f"log_result needs a result of prune_booster or compress_booster, got {class_with_article(result)}."
        )
    with needing("log_result needs MLflow", "mlflow"):
        import mlflow
    metrics = _metrics(result)
    flavour, model = _flavoured(mlflow, result)
    files = _artifacts(result, report, X)
    is_own = mlflow.active_run() is None
    if is_own:
        mlflow.start_run()
    try:
        mlflow.set_tags(_tags(result))
        mlflow.log_metrics(metrics)
        with tempfile.TemporaryDirectory(prefix="pine-boost-") as folder:
            for file_name, contents in files.items():
                Path(folder, file_name).write_bytes(contents)
            mlflow.log_artifacts(folder, ARTIFACTS)
        info = flavour.log_model(model, name=name, **log_model_options)
    except BaseException:
        if is_own:
            mlflow.end_run("FAILED")
        raise
    if is_own:
        mlflow.end_run()
    return info


def _flavoured(mlflow: Any, result: Any) -> tuple[Any, Any]:
    """The flavour and the live model; a file is loaded."""
    # a Pipeline or an average of ensembles belongs to scikit-learn, whatever is inside
    is_plain = isinstance(result.original, Model) and not hasattr(result, "wrapper")
    library = result.original.forest.library if is_plain else "sklearn"
    model = result.model
    if isinstance(model, (bytes, bytearray)):
        model = load_native(result.pruned if hasattr(result, "pruned") else result.compressed)
    return getattr(mlflow, library), model


def _artifacts(result: Any, report: bool, X: Any) -> dict[str, bytes]:
    """Every file of the result except the model, which the flavour writes."""
    found = {n: contents for n, contents in result.files().items() if not n.startswith("model.")}
    plain = getattr(result, "inner", result)
    if report and hasattr(plain, "certificate"):
        from pine_boost.report.prune_report import render_report

        rows = result.wrapper.rows(X) if hasattr(result, "wrapper") else X
        found["report.html"] = render_report(plain, rows, ()).encode()
    return found


def _tags(result: Any) -> Mapping[str, str]:
    return {"pine_boost.status": result.status, "pine_boost.claim": (result.claim or result.summary())[:_TAG_LIMIT]}


def _metrics(result: Any) -> Mapping[str, float]:
    if result.side_by_side is None:
        raise InvalidInputError("log_result needs the original; use CompressResult.load(folder, original=...).")
    figures = result.side_by_side.by_name()
    sizes = {name: figures[name] for name in ("trees_before", "trees_after", "leaves_before", "leaves_after")}
    return {**sizes, "share_of_leaves_removed": 1 - sizes["leaves_after"] / sizes["leaves_before"]}
