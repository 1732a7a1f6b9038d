"""Write a checked document as CatBoost's JSON, so that CatBoost reads every number exactly.

Borders that no split uses are left out, and the splits are numbered again. One-hot values all stay: they are all that
a model knows of its categories.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.parsers.catboost.decimals import text_of
from pine_boost.parsers.catboost.document import CatboostDocument, Feature, leaf_numbers
from pine_boost.parsers.nodes import Nodes

_SHIFTS = range(64)  # powers of two tried as scale: 1 for nearly every model, see `text_of`


def write_document(document: CatboostDocument) -> bytes:
    """Return a document as CatBoost's JSON.

    Raises
    ------
    UnsupportedModelError
        No power of two was found for which every leaf value has a text that CatBoost reads exactly.
    """
    owner, within, trees = *document.split_tables(), document.trees
    categorical = np.array([feature.is_categorical for feature in document.features])
    used = np.union1d(trees["split"][~trees.is_leaf], np.flatnonzero(categorical[owner]))
    kept = [within[used[owner[used] == j]] for j in range(len(document.features))]
    splits = {
        split: _split(document, int(owner[split]), int(within[split]), number)
        for number, split in enumerate(used.tolist())
    }
    scale, bias, values = _texts(document)
    symmetric = document.symmetric and all(_is_uniform(trees, tree) for tree in range(trees.n_trees))
    write = _symmetric_tree if symmetric else _nested_tree
    written = ",".join(write(trees, tree, splits, values) for tree in range(trees.n_trees))
    parts = {
        "features_info": json.dumps(_features(document.features, kept)),
        "model_info": json.dumps(document.info),
        "oblivious_trees" if symmetric else "trees": f"[{written}]",
        "scale_and_bias": f"[{scale},[{','.join(bias)}]]",
    }
    return ("{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}").encode()


def _texts(document: CatboostDocument) -> tuple[str, list[str], list[str]]:
    """Return the texts of the scale, the biases, and the values of every node."""
    value, leaf = document.trees["value"], document.trees.is_leaf
    n_nodes, width = value.shape
    bias = _all_texts(document.bias)
    for shift in _SHIFTS if bias is not None else ():
        scale = _all_texts(np.ldexp(np.array([document.scale]), -shift))
        texts = None if scale is None else _all_texts(np.ldexp(value[leaf], shift))
        if scale is not None and bias is not None and texts is not None:
            rows = np.full(n_nodes, "", dtype=object)
            rows[leaf] = [",".join(texts[i : i + width]) for i in range(0, len(texts), width)]
            return scale[0], bias, rows.tolist()
    raise UnsupportedModelError(
        "CatBoost's JSON cannot hold all leaf values of this model exactly: its parser rounds. Use fewer trees."
    )


def _all_texts(values: FloatArray) -> list[str] | None:
    texts = []
    for value in values.ravel().tolist():
        text = text_of(value)
        if text is None:
            return None
        texts.append(text)
    return texts


def _features(features: tuple[Feature, ...], kept: list[IntArray]) -> dict[str, Any]:
    numeric: list[dict[str, Any]] = []
    categorical: list[dict[str, Any]] = []
    for flat, feature in enumerate(features):
        to = categorical if feature.is_categorical else numeric
        entry: dict[str, Any] = {"feature_id": feature.name, "feature_index": len(to), "flat_feature_index": flat}
        if feature.is_categorical:
            values = [feature.hashes[i] for i in kept[flat]]
            to.append({**entry, "values": values} if values else entry)
        else:
            # a float32 as a double: a misread ulp of the double rounds to the same float32
            borders = [float(border) for border in feature.borders[kept[flat]]]
            to.append(
                {**entry, "borders": borders, "has_nans": feature.has_nans, "nan_value_treatment": feature.treatment}
            )
    return {"float_features": numeric, **({"categorical_features": categorical} if categorical else {})}


def _split(document: CatboostDocument, owner: int, within: int, number: int) -> str:
    feature = document.features[owner]
    same = [other for other in document.features[:owner] if other.is_categorical == feature.is_categorical]
    if feature.is_categorical:
        shown: dict[str, Any] = {"cat_feature_index": len(same), "value": feature.hashes[within]}
        kind = "OneHotFeature"
    else:
        shown = {"float_feature_index": len(same), "border": float(feature.borders[within])}
        kind = "FloatFeature"
    return json.dumps({**shown, "split_index": number, "split_type": kind})


def _levels(trees: Nodes, tree: int) -> Iterable[IntArray]:
    """Yield the nodes of a tree level by level, from left to right."""
    nodes = trees.offset[tree : tree + 1]
    while len(nodes):
        yield nodes
        inner = nodes[trees.left[nodes] >= 0]
        nodes = np.stack([trees.left[inner], trees.right[inner]], axis=1).ravel()


def _is_uniform(trees: Nodes, tree: int) -> bool:
    """Return whether a tree is oblivious: one split per level, all leaves on the last."""
    return all(len(np.unique(trees["split"][nodes])) == 1 for nodes in _levels(trees, tree))


def _symmetric_tree(trees: Nodes, tree: int, splits: dict[int, str], values: list[str]) -> str:
    *inner, leaves = _levels(trees, tree)
    ordered = np.empty_like(leaves)
    ordered[leaf_numbers(len(inner))] = leaves
    names = ",".join(splits[int(trees["split"][nodes[0]])] for nodes in inner)
    numbers = ",".join(values[leaf] for leaf in ordered)
    weights = json.dumps(trees["weight"][ordered].tolist())
    return f'{{"leaf_values":[{numbers}],"leaf_weights":{weights},"splits":[{names}]}}'


def _nested_tree(trees: Nodes, tree: int, splits: dict[int, str], values: list[str]) -> str:
    text: dict[int, str] = {}
    several = trees["value"].shape[1] > 1
    for nodes in reversed(list(_levels(trees, tree))):
        for node in map(int, nodes):
            left, right = int(trees.left[node]), int(trees.right[node])
            if left < 0:
                value = f"[{values[node]}]" if several else values[node]
                text[node] = f'{{"value":{value},"weight":{float(trees["weight"][node])!r}}}'
            else:
                split = splits[int(trees["split"][node])]
                text[node] = f'{{"left":{text.pop(left)},"right":{text.pop(right)},"split":{split}}}'
    return text[int(trees.offset[tree])]
