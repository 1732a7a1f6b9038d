"""Start the scorer: ``python examples/scorer/serve.py``.

Serves the scorer in a folder, accelerated or guarded. Without a folder it trains a small model first and
accelerates it. Listens on this machine only.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from app import create_app

from pine_boost import accelerate_booster, load_scorer


def train(folder: Path) -> None:
    """A model for the demonstration, accelerated and saved."""
    from sklearn.datasets import make_classification
    from xgboost import XGBClassifier

    X, y = make_classification(6000, 10, n_informative=5, n_redundant=0, class_sep=1.5, random_state=0)
    result = accelerate_booster(XGBClassifier(n_estimators=100, n_jobs=1).fit(X[:2000], y[:2000]))
    print(result.summary(), flush=True)
    result.save(folder)


def native_model(path: Path) -> Any:
    """The library's own model, behind the same door: what a scorer is compared with."""
    from xgboost import XGBClassifier

    model = XGBClassifier()
    model.load_model(path)
    return model


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("scorer-demo"), help="of accelerate or guard")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--native", type=Path, metavar="FILE", help="serve this XGBoost model itself, to compare")
    options = parser.parse_args()
    import uvicorn

    if options.native is not None:
        app = create_app(native_model(options.native), "This is the model itself.")
    else:
        if not options.folder.exists():
            print(f"{options.folder} does not exist; training and accelerating a small model", flush=True)
            train(options.folder)
        claim = json.loads((options.folder / "scorer.json").read_text())["claim"]
        app = create_app(load_scorer(options.folder), claim)
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
