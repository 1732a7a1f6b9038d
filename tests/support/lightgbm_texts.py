"""LightGBM texts written by hand, so that a test decides every number in them."""

from __future__ import annotations

from collections.abc import Sequence

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


def text_of(blocks: Sequence[str], objective: str, k: int = 1, average: bool = False) -> str:
    """A text of blocks without "Tree=i", one feature."""
    numbered = [f"Tree={i}\n{block}is_linear=0\nshrinkage=1\n\n\n" for i, block in enumerate(blocks)]
    own = {"num_class": f"{k}", "num_tree_per_iteration": f"{k}", "max_feature_idx": "0"}
    own |= {"objective": f"{objective}\naverage_output" if average else objective}
    return build(numbered, **own, feature_names="a", feature_infos="[0:1]").decode()


def leaf(value: float) -> str:
    empty = "split_feature=\nsplit_gain=\nthreshold=\ndecision_type=\nleft_child=\nright_child=\n"
    return (
        f"num_leaves=1\nnum_cat=0\n{empty}leaf_value={value!r}\nleaf_weight=\nleaf_count=1\n"
        "internal_value=\ninternal_weight=\ninternal_count=\n"
    )


def split(threshold: str, decision_type: int, categories: str = "") -> str:
    n_sets = 1 if categories else 0
    sets = f"cat_boundaries=0 {len(categories.split())}\ncat_threshold={categories}\n"
    return (
        f"num_leaves=2\nnum_cat={n_sets}\nsplit_feature=0\nsplit_gain=1\nthreshold={threshold}\n"
        f"decision_type={decision_type}\nleft_child=-1\nright_child=-2\nleaf_value=1 2\n"
        "leaf_weight=1 1\nleaf_count=1 1\ninternal_value=0\ninternal_weight=2\n"
        f"internal_count=2\n{sets if categories else ''}"
    )
