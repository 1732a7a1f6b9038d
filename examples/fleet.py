"""A fleet: one booster per country, all pruned with one policy, one summary page.

Writes the models as a team would have them on disk, runs the fleet, lets one model fail, repairs
it, and runs again: only the repaired one is done.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np
from xgboost import XGBClassifier

from pine_boost.fleet import run_fleet


def write_country(folder: Path, name: str, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1200, 5)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.2, 1200) > 0).astype(int)
    model = XGBClassifier(n_estimators=20, max_depth=2, learning_rate=0.2, n_jobs=1)
    model.fit(X[:600], y[:600]).save_model(folder / f"{name}.json")
    np.save(folder / f"{name}-fit.npy", X[:600])
    np.save(folder / f"{name}-cal.npy", X[600:])
    return [name, f"{name}.json", f"{name}-fit.npy", f"{name}-cal.npy"]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        countries = ("de", "fr", "jp", "pe")
        rows = [write_country(folder, country, seed) for seed, country in enumerate(countries)]
        with (folder / "jobs.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["name", "model", "fit", "cal"], *rows])
        good = (folder / "pe.json").read_bytes()
        (folder / "pe.json").write_bytes(good[: len(good) // 2])  # half a copy

        policy = {"alpha": 0.1, "time_limit": 20}
        found = run_fleet(folder / "jobs.csv", folder / "smaller", options=policy, n_jobs=2)
        print(found.summary())
        for row in found.rows:
            print(f"{row.name}: {row.status}, {row.trees_before} -> {row.trees_after} trees")
            if row.error:
                print(f"  {row.error[:100]}")

        (folder / "pe.json").write_bytes(good)
        again = run_fleet(folder / "jobs.csv", folder / "smaller", options=policy, n_jobs=2)
        print(again.summary())
        assert again.ok
        assert sum(row.done_before for row in again.rows) == 3
        written = sorted(path.name for path in (folder / "smaller").iterdir())
        print(f"written: {', '.join(written)}")


if __name__ == "__main__":
    main()
