"""Write a checked document as XGBoost JSON or UBJSON, always gbtree.

XGBoost 1.7 to 3.x and Treelite can read it; different base_scores per class need XGBoost 3.1 or later.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np

from pine_boost.errors import InvalidInputError
from pine_boost.parsers.nodes import Nodes
from pine_boost.parsers.xgboost.document import XGBoostDocument
from pine_boost.parsers.xgboost.trees import RECORD, ROOT_PARENT, rounds_clearly
from pine_boost.parsers.xgboost.ubjson import write_ubjson

# The value that 3.x writes at categorical nodes (2.x: NaN, which is not JSON); it is never read
_CATEGORICAL_CONDITION = np.float32(1e-45)


def write_document(document: XGBoostDocument, file_format: str | None = None) -> bytes:
    """Write a document as ``"json"`` or ``"ubj"``, by default the format it was read in."""
    root = _to_tree(document)
    if (file_format or document.file_format) == "ubj":
        return write_ubjson(root)
    return json.dumps(root, separators=(",", ":"), ensure_ascii=False, default=_to_list).encode()


def _to_list(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _shortest(value) if value.dtype == np.float32 else value.tolist()
    raise InvalidInputError(
        f"A {type(value).__name__} is not written as JSON; dicts, lists, texts, numbers and numpy arrays are."
    )


def _shortest(values: Any) -> list[float]:
    """Return numbers whose text has only the digits that float32 needs, as in XGBoost's own files.

    They read back exactly. The shortest text of a large integer may lie exactly between two
    float32 numbers, which XGBoost's parser does not round to even; such a number keeps all its digits.
    """
    short = np.array([float(text) for text in values.astype("U32").tolist()])  # numpy's own texts swallow Ctrl-C
    return np.where(rounds_clearly(short, values), short, values.astype(np.float64)).tolist()  # type: ignore[no-any-return]


def _score_text(scores: tuple[float, ...]) -> str:
    """Format one score as every version reads it, ``5E-1``; different ones as only 3.1 and later do: ``[1E0,2E0]``."""
    texts = []
    for score in scores:
        mantissa, exponent = np.format_float_scientific(np.float32(score), unique=True, trim="-").split("e")
        texts.append(f"{mantissa}E{int(exponent)}")
    return texts[0] if len(set(texts)) == 1 else f"[{','.join(texts)}]"


def _to_tree(document: XGBoostDocument) -> dict[str, Any]:
    if document.weight_drop is not None:
        raise InvalidInputError("Only documents with folded dart weights are written.")
    model: dict[str, Any] = {
        "gbtree_model_param": {"num_parallel_tree": str(document.n_parallel), "num_trees": str(document.trees.n_trees)},
        "iteration_indptr": document.round_offset.tolist(),
        "tree_info": document.tree_output.tolist(),
        "trees": _tree_sections(document.trees, document.n_features, document.leaf_vector_size),
    }
    if document.leaf_vector_size == 0:  # only 1.7 writes this
        model["gbtree_model_param"]["size_leaf_vector"] = "0"
    if document.cats is not None:
        model["cats"] = document.cats.section
    return {
        "learner": {
            "attributes": dict(document.attributes),
            "feature_names": list(document.feature_names),
            "feature_types": list(document.feature_types),
            "gradient_booster": {"model": model, "name": "gbtree"},
            "learner_model_param": {
                "base_score": _score_text(document.base_score),
                "boost_from_average": document.boost_from_average,
                "num_class": str(document.n_classes),
                "num_feature": str(document.n_features),
                "num_target": "1",
            },
            "objective": document.objective,
        },
        "version": list(document.version),
    }


def _tree_sections(trees: Nodes, n_features: int, leaf_vector_size: int) -> list[dict[str, Any]]:
    conditions = np.where(trees["split_type"] == 1, _CATEGORICAL_CONDITION, trees["split_conditions"])
    trees = trees.changed(split_conditions=conditions)
    parent = np.full(len(trees.left), ROOT_PARENT, dtype=np.int64)
    inner = np.flatnonzero(~trees.is_leaf)
    start_of = np.repeat(trees.offset[:-1], np.diff(trees.offset))
    parent[trees.left[inner]] = parent[trees.right[inner]] = inner - start_of[inner]
    sections = []
    for index, (start, end) in enumerate(pairwise(trees.offset.tolist())):
        nodes = slice(start, end)
        first, last = trees.category_offset[start], trees.category_offset[end]
        sizes = np.diff(trees.category_offset[start : end + 1])
        has_categories = np.flatnonzero(sizes)
        sizes = sizes[has_categories]
        sections.append(
            {
                **{name: np.ascontiguousarray(trees[name][nodes]) for name in RECORD.names or ()},
                "categories": trees.category[first:last].astype(np.int32),
                "categories_nodes": has_categories.astype(np.int32),
                "categories_segments": (np.cumsum(sizes) - sizes).astype(np.int64),
                "categories_sizes": sizes.astype(np.int64),
                "id": index,
                "left_children": _local(trees.left[nodes], start),
                "parents": parent[nodes].astype(np.int32),
                "right_children": _local(trees.right[nodes], start),
                "tree_param": {
                    "num_deleted": "0",
                    "num_feature": str(n_features),
                    "num_nodes": str(end - start),
                    "size_leaf_vector": str(leaf_vector_size),
                },
            }
        )
    return sections


def _local(position: Any, start: int) -> Any:
    return np.where(position < 0, -1, position - start).astype(np.int32)
