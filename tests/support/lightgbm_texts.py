"""LightGBM texts written by hand, so that a test decides every number in them."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

TAIL = (
    "end of trees\n\nfeature_importances:\n\nparameters:\n[boosting: gbdt]\n\n"
    "end of parameters\n\npandas_categorical:null\n"
)


def build(blocks: Sequence[str], tail: str = TAIL, **header: str | None) -> bytes:
    """A text of whole tree blocks with right tree_sizes; header lines may be replaced or (None) removed."""
    lines: dict[str, str | None] = {
        "version": "v4",
        "num_class": "1",
        "num_tree_per_iteration": "1",
        "label_index": "0",
        "max_feature_idx": "1",
        "objective": "binary sigmoid:1",
        "feature_names": "a b",
        "feature_infos": "[0:1] 0:1:2",
        "tree_sizes": " ".join(str(len(block.encode())) for block in blocks),
        **header,
    }
    head = "".join(f"{key}={value}\n" for key, value in lines.items() if value is not None)
    return ("tree\n" + head + "\n" + "".join(blocks) + tail).encode()


def block(index: int, tree: str) -> str:
    """A tree of `tree_text` as `build` takes it."""
    return f"Tree={index}\n{tree}is_linear=0\nshrinkage=1\n\n\n"


def text_of(trees: Sequence[str], objective: str, k: int = 1, average: bool = False) -> str:
    """A text of trees over one feature."""
    own = {"num_class": f"{k}", "num_tree_per_iteration": f"{k}", "max_feature_idx": "0"}
    own |= {"objective": f"{objective}\naverage_output" if average else objective}
    blocks = [block(index, tree) for index, tree in enumerate(trees)]
    return build(blocks, **own, feature_names="a", feature_infos="[0:1]").decode()


def tree_text(
    leaf_value: Sequence[Any],
    split_feature: Sequence[int] = (),
    threshold: Sequence[Any] = (),
    decision_type: Sequence[int] = (),
    left_child: Sequence[int] = (),
    right_child: Sequence[int] = (),
    sets: Sequence[Sequence[int]] = (),
) -> str:
    """The lines of one tree; ``sets`` are the words of categories, gains, weights and counts mean nothing."""
    n, m = len(leaf_value), len(split_feature)
    lines = {"num_leaves": [n], "num_cat": [len(sets)], "split_feature": split_feature, "split_gain": [1] * m}
    lines |= {"threshold": threshold, "decision_type": decision_type}
    lines |= {"left_child": left_child, "right_child": right_child, "leaf_value": leaf_value}
    lines |= {"leaf_weight": [1] * n if m else [], "leaf_count": [1] * n}
    lines |= {"internal_value": [0] * m, "internal_weight": [1] * m, "internal_count": [2] * m}
    if sets:
        lines["cat_boundaries"] = [0, *accumulate(map(len, sets))]
        lines["cat_threshold"] = [word for words in sets for word in words]
    return "".join(f"{key}={' '.join(map(str, values))}\n" for key, values in lines.items())


def leaf(value: float) -> str:
    return tree_text([repr(value)])


def split(threshold: str, decision_type: int, categories: str = "") -> str:
    return tree_text([1, 2], [0], [threshold], [decision_type], [-1], [-2], [categories.split()] if categories else [])
