"""Start the scorer: ``python examples/scorer/serve.py``.

Serves the guarded model in a folder, compiled to C. Without a folder it trains a small model first
and writes one. Listens on this machine only.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from app import create_app

from pine_boost import GuardedModel, load_scorer, prune_booster
from pine_boost.serving.engines import make_engine
from pine_boost.serving.guarded import GuardCounts


class OriginalScorer:
    """The original model alone, behind the same door: what the guarded one is compared with."""

    def __init__(self, guarded: GuardedModel) -> None:
        self.classes_, self.n_features_in_ = guarded.classes_, guarded.n_features_in_
        self.claim = "This is the original model."
        self._engine = make_engine(guarded.parts.original, guarded.backend)
        self._lock, self.counts = threading.Lock(), GuardCounts()

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Labels of the original."""
        classes = self.classes_[self._engine.classes(X)]
        with self._lock:
            self.counts = GuardCounts(self.counts.n_batches + 1, self.counts.n_rows + len(X), 0)
        return classes

    def __repr__(self) -> str:
        return "OriginalScorer"


def train(folder: Path) -> None:
    """A model for the demonstration, pruned, guarded and saved."""
    from sklearn.datasets import make_classification
    from xgboost import XGBClassifier

    X, y = make_classification(6000, 10, n_informative=5, n_redundant=0, class_sep=1.5, random_state=0)
    X = np.round(X, 1).astype(np.float32)
    model = XGBClassifier(n_estimators=30, max_depth=2, learning_rate=0.1, n_jobs=1)
    model.fit(X[:2000], y[:2000])
    result = prune_booster(model, X[:2000], X[2000:], alpha=0.2, time_limit=30)
    print(result.summary(), flush=True)
    GuardedModel(result).save(folder)


def make_scorer(folder: Path, backend: str, original: bool) -> Any:
    guarded = load_scorer(folder, backend=backend)
    return OriginalScorer(guarded) if original else guarded


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("scorer-demo"))
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--backend", default="kernel", choices=("kernel", "native"))
    parser.add_argument("--original", action="store_true", help="serve the original, to compare")
    options = parser.parse_args()
    if not options.folder.exists():
        print(f"{options.folder} is not there: a model is trained and pruned for it", flush=True)
        train(options.folder)
    import uvicorn

    app = create_app(make_scorer(options.folder, options.backend, options.original))
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=options.port,
        log_level="warning",
        limit_concurrency=64,
        timeout_keep_alive=5,
        h11_max_incomplete_event_size=64_000,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
