"""``pine-boost inspect``: show what is in a model file, and whether it is supported.

Examples
--------
  pine-boost inspect model.json
  pine-boost inspect model.txt --threshold 0.3 --json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.cli import flags
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import build_space
from pine_boost.notebooks import aligned


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    flags.add_arguments(parser, "inspect", "model")
    flags.add_options(parser, "", ["threshold"])


def main(arguments: argparse.Namespace) -> int:
    """Read the model and describe it."""
    given = flags.read_given_model(arguments, decision="value")
    facts = describe(given.parsed, Path(arguments.model).stat().st_size)
    if given.is_wrapped:
        facts = {"layers": [layer.kind for layer in given.wrapper.layers], **facts}
    flags.answer(arguments, facts, aligned([(name.replace("_", " "), _words(value)) for name, value in facts.items()]))
    return 0


def describe(parsed: Any, size: int) -> dict[str, Any]:
    """Facts of a parsed model."""
    forest = parsed.forest
    used = np.unique(forest.feature[forest.kind != SplitKind.LEAF])
    space = build_space(forest)
    categorical = np.unique(forest.feature[forest.kind == SplitKind.CATEGORICAL])
    return {
        "kind": parsed.kind,
        "objective": forest.objective,
        "supported": True,
        "decides": "a class" if forest.decides else "a value: compress it, or give --threshold",
        "trees": forest.n_trees,
        "rounds": int(forest.tree_round.max()) + 1,
        "leaves": forest.n_leaves,
        "most_leaves_of_a_tree": int(np.bincount(forest.node_tree[forest.kind == SplitKind.LEAF]).max()),
        "features": forest.n_features,
        "features_used": len(used),
        "categorical_features": len(categorical),
        "feature_names": None if forest.feature_names is None else list(forest.feature_names),
        "classes": [label.item() if hasattr(label, "item") else label for label in forest.classes],
        "thresholds": list(forest.decision.thresholds),
        "accepts_missing": forest.accepts_missing,
        "distinct_inputs_log10": float(np.sum(np.log10(space.n_states))),
        "file_bytes": size,
    }


def _words(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list):
        shown = ", ".join(str(entry) for entry in value[:8])
        return (shown + (f", ... ({len(value)} in all)" if len(value) > 8 else "")) or "none"
    return str(value)
