"""What holds for every result with leaf values of its own, and the ways to get one."""

from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.budget import Budget, StopReason
from pine_boost.build_result import build_prune_result, native_rows
from pine_boost.cli import main
from pine_boost.native.predict import predict_margins
from pine_boost.options import Options
from pine_boost.parsers import read_model
from pine_boost.proof.problem import build_problem
from pine_boost.region.fitting import fit_with_states
from pine_boost.result import PruneResult
from pine_boost.search.driver import search_leaves
from pine_boost.search.search_result import SearchResult
from pine_boost.search.search_state import SearchTask
from pine_boost.verifying import verify
from tests.adversary.attack import adversarial_rows, count_breaks
from tests.support.command_line import words, write_inputs
from tests.support.grids import edge_rows, integer_margins

KINDS = ("xgboost", "xgboost-3", "dart", "lightgbm", "lightgbm-3", "gradient", "gradient-3", "histogram")


def leaves_from_the_original(
    native: Any, X: np.ndarray, unit: str = "round", monotone: tuple[int, ...] | None = ()
) -> PruneResult:
    """Leaf values from the original on, so that every unit that goes is one that they let go."""
    n = len(X) // 2
    parsed = read_model(native)
    region_and_states = fit_with_states(parsed.forest, X[:n], X[n:], Options(alpha=0.2))
    region = region_and_states.region
    problem = build_problem(parsed.forest, region.space, region.tables)
    n_units = parsed.forest.n_trees if unit == "tree" else int(parsed.forest.tree_round.max()) + 1
    nothing = SearchResult(None, (), n_units, ended=frozenset({StopReason.EFFORT}))
    task = SearchTask(problem, region_and_states.fit_states, Options(unit=unit, reweight="leaf"), monotone)
    found = search_leaves(task, nothing, Budget.of())
    rows = native_rows(parsed, region_and_states, X[:n])
    return build_prune_result(parsed, region, problem, found, task.options, rows=lambda: rows)


def check_native(native: Any, X: np.ndarray, result: PruneResult) -> None:
    """Native margins are the integers; no attack finds a changed class; proved again."""
    pruned, forest = result.search.pruned, result.original.forest
    rows = np.vstack([X, edge_rows(forest, X, limit=100)])
    if not forest.accepts_missing:
        rows = rows[~np.isnan(rows).any(axis=1)]
    margins, rounded = predict_margins(result.pruned, rows)
    assert rounded == 0
    np.testing.assert_array_equal(margins, np.ldexp(integer_margins(pruned, rows), -pruned.grid))
    attack = adversarial_rows(np.random.default_rng(0), forest, X, 3000)
    tried, breaks = count_breaks(result, attack)
    assert tried > 100
    assert breaks == 0
    assert verify(native, result.model, result.region, result.certificate).agrees is True


def prune_and_verify_by_command(folder: Path, booster: Any, X: np.ndarray, *options: str) -> list[str]:
    """The command line on files of an XGBoost model; returns the arguments that pruned it."""
    n = len(X) // 2
    write_inputs(folder, booster, fit=X[:n], cal=X[n:])
    arguments = [
        *words(f"prune {folder}/model.json --fit {folder}/fit.npy --cal {folder}/cal.npy"),
        *options,
        *words(f"--alpha 0.5 --no-report -o {folder}/out"),
    ]
    assert main(arguments) == 0
    assert main(["verify", f"{folder}/model.json", f"{folder}/out"]) == 0
    return arguments
