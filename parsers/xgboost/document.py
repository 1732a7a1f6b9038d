"""Parse and check an XGBoost .json or .ubj file field by field before any native loader sees it.

gblinear, vector leaves and several targets are not supported.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import MalformedModelError, UnsupportedModelError
from pine_boost.model.forest import IntArray
from pine_boost.parsers.xgboost import fields
from pine_boost.parsers.xgboost.fields import fault
from pine_boost.parsers.xgboost.trees import Float32Array, Trees, read_trees
from pine_boost.parsers.xgboost.ubjson import read_ubjson

# XGBoost hangs on a huge num_class; a file with more than these is damaged
MAX_CLASSES = 2**16
MAX_FEATURES = 2**24
_OLDEST, _NEWEST = (1, 7), (3, 2**31)
_FORBIDDEN_IN_NAMES = set("[]<")  # XGBoost neither trains nor predicts with such names
_FEATURE_TYPES = {"float", "int", "i", "q", "c"}
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")


@dataclass(frozen=True, eq=False)
class XGBoostDocument:
    """The checked contents of a model file.

    ``weight_drop`` is None for gbtree. ``round_offset`` are the trees where rounds begin (the
    file's iteration_indptr, or what its absence means in XGBoost 1.7). ``base_score`` has one
    entry, or one per class.
    """

    file_format: str
    version: tuple[int, int, int]
    objective: dict[str, Any]
    base_score: tuple[float, ...]
    n_classes: int
    n_features: int
    trees: Trees
    tree_output: IntArray
    round_offset: IntArray
    n_parallel: int
    weight_drop: Float32Array | None
    feature_names: tuple[str, ...]
    feature_types: tuple[str, ...]
    attributes: dict[str, str]
    cats: Cats | None
    boost_from_average: str
    leaf_vector_size: int

    @property
    def objective_name(self) -> str:
        """The objective, for example ``binary:logistic``."""
        return str(self.objective["name"])

    @property
    def n_outputs(self) -> int:
        """Number of margins of a row."""
        return max(self.n_classes, 1)


def read_document(contents: bytes) -> XGBoostDocument:
    """Parse and check a model file; its first two bytes distinguish JSON from UBJSON."""
    file_format = "ubj" if contents[1:2] in (b"i", b"U", b"I", b"l", b"L") else "json"
    try:
        root = read_ubjson(contents) if file_format == "ubj" else _read_json(contents)
        return _check_document(root, file_format)
    except (RecursionError, MemoryError, OverflowError) as error:
        raise MalformedModelError(
            f"The XGBoost file cannot be read ({type(error).__name__}); it is damaged."
        ) from error


def _read_json(contents: bytes) -> Any:
    if not contents.strip():
        raise MalformedModelError("The XGBoost file is empty; save the model again.")
    try:
        return json.loads(contents.decode("utf-8"), object_pairs_hook=_unique_pairs)
    except MalformedModelError:
        raise
    except ValueError as error:  # bad JSON, bad UTF-8, and integers of thousands of digits
        raise MalformedModelError(
            f"The XGBoost file is not valid JSON ({str(error)[:120]}); it is damaged. Save the model again."
        ) from error


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    section = dict(pairs)
    if len(section) != len(pairs):
        raise MalformedModelError("The XGBoost file has a key twice in one object.")
    return section


def _check_document(root: Any, file_format: str) -> XGBoostDocument:
    root = fields.as_section(root, "the file")
    fields.check_names(root, "the file", ("learner", "version"))
    version = _read_version(root["version"])
    learner = fields.as_section(root["learner"], "learner")
    fields.check_names(
        learner,
        "learner",
        ("attributes", "gradient_booster", "learner_model_param", "objective"),
        ("feature_names", "feature_types"),
    )
    booster = fields.as_section(learner["gradient_booster"], "gradient_booster")
    model, weights = _find_model(booster)
    param = fields.as_section(learner["learner_model_param"], "learner_model_param")
    fields.check_names(
        param, "learner_model_param", ("base_score", "num_class", "num_feature"), ("num_target", "boost_from_average")
    )
    n_classes = fields.as_parameter(param["num_class"], "num_class", 0, MAX_CLASSES)
    n_features = fields.as_parameter(param["num_feature"], "num_feature", 1, MAX_FEATURES)
    if fields.as_parameter(param.get("num_target", "1"), "num_target", 1, MAX_CLASSES) > 1:
        raise UnsupportedModelError("Models with several targets are not supported; train one model per target.")
    objective = _check_objective(learner["objective"], n_classes)
    grown = _read_grown(model, n_features, max(n_classes, 1), typed=file_format == "ubj")
    names, types = _read_features(learner, n_features)
    attributes = fields.as_section(learner["attributes"], "attributes")
    return XGBoostDocument(
        file_format=file_format,
        version=version,
        objective=objective,
        base_score=_read_base_score(param["base_score"], max(n_classes, 1)),
        n_classes=n_classes,
        n_features=n_features,
        weight_drop=_read_weights(weights, grown["trees"].n_trees),
        feature_names=names,
        feature_types=types,
        attributes={
            fields.as_text(key, "an attribute"): fields.as_text(value, f"attribute {key!r}")
            for key, value in attributes.items()
        },
        cats=read_cats(model["cats"], n_features, typed=file_format == "ubj") if "cats" in model else None,
        boost_from_average=str(fields.as_parameter(param.get("boost_from_average", "1"), "boost_from_average", 0, 1)),
        **grown,
    )


def _read_grown(model: dict[str, Any], n_features: int, n_outputs: int, *, typed: bool) -> dict[str, Any]:
    """The trees, and which output and which round each of them belongs to."""
    items, n_parallel, leaf_size = _read_tree_param(model)
    trees = read_trees(items, n_features, typed=typed)
    tree_output = fields.as_integers(model["tree_info"], "tree_info", len(items))
    if np.any((tree_output < 0) | (tree_output >= n_outputs)):
        raise fault("tree_info", f"names a class outside 0..{n_outputs - 1}")
    return {
        "trees": trees,
        "tree_output": tree_output,
        "round_offset": _read_rounds(model, len(items), n_outputs * n_parallel),
        "n_parallel": n_parallel,
        "leaf_vector_size": leaf_size,
    }


def _read_tree_param(model: dict[str, Any]) -> tuple[list[Any], int, int]:
    """The trees as they are in the file, the trees per class and round, the size of a leaf."""
    tree_param = fields.as_section(model["gbtree_model_param"], "gbtree_model_param")
    fields.check_names(tree_param, "gbtree_model_param", ("num_trees", "num_parallel_tree"), ("size_leaf_vector",))
    items = fields.as_list(model["trees"], "trees")
    n_trees = fields.as_parameter(tree_param["num_trees"], "num_trees", 0, fields.MAX_INTEGER)
    if n_trees != len(items):
        raise fault("num_trees", f"is {n_trees}, but there are {len(items)} trees")
    if n_trees == 0:
        raise UnsupportedModelError("The XGBoost model has no trees; there is nothing to read.")
    n_parallel = fields.as_parameter(tree_param["num_parallel_tree"], "num_parallel_tree", 1, fields.MAX_INTEGER)
    # 1.7 writes 0 for scalar leaves, 2.x and 3.x do not write it here
    leaf_size = fields.as_parameter(tree_param.get("size_leaf_vector", "1"), "size_leaf_vector", 0, 1)
    return items, n_parallel, leaf_size


def _read_version(value: Any) -> tuple[int, int, int]:
    major, minor, patch = (int(v) for v in fields.as_integers(value, "version", 3))
    if not _OLDEST <= (major, minor) <= _NEWEST or patch < 0 or minor < 0:
        raise UnsupportedModelError(
            f"The file was written by XGBoost {major}.{minor}.{patch}; 1.7 to 3.x are supported. "
            "Load it there and save it again."
        )
    return major, minor, patch


def _find_model(booster: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The section with the trees, and the weights of dart (None for gbtree)."""
    name = fields.as_text(booster.get("name"), "the name of the booster")
    if name == "gblinear":
        raise UnsupportedModelError("gblinear models have no trees; retrain with booster='gbtree' or 'dart'.")
    if name not in ("gbtree", "dart"):
        raise UnsupportedModelError(f"Booster {name[:60]!r} is unknown; accepted: gbtree, dart.")
    if name == "dart":
        fields.check_names(booster, "gradient_booster", ("name", "gbtree", "weight_drop"))
        inner = fields.as_section(booster["gbtree"], "gbtree")
        fields.check_names(inner, "gbtree", ("model", "name"))
        if inner["name"] != "gbtree":
            raise fault("the inner booster of dart", "is not gbtree")
        weights = booster["weight_drop"]
    else:
        fields.check_names(booster, "gradient_booster", ("name", "model"))
        inner, weights = booster, None
    model = fields.as_section(inner["model"], "model")
    fields.check_names(model, "model", ("gbtree_model_param", "tree_info", "trees"), ("iteration_indptr", "cats"))
    return model, weights


def _check_objective(value: Any, n_classes: int) -> dict[str, Any]:
    """The objective section: its name and texts, at most one level below."""
    section = fields.as_section(value, "objective")
    checked: dict[str, Any] = {"name": fields.as_text(section.get("name"), "objective name")}
    for key, item in section.items():
        where = f"objective {fields.as_text(key, 'an objective parameter')!r}"
        if isinstance(item, dict):
            checked[key] = {fields.as_text(k, where): fields.as_text(v, where) for k, v in item.items()}
        else:
            checked[key] = fields.as_text(item, where)
    softmax = checked.get("softmax_multiclass_param")
    if checked["name"].startswith("multi:") or softmax is not None:
        if not isinstance(softmax, dict) or softmax.get("num_class") != str(n_classes):
            raise fault("num_class", f"is {n_classes}, but the objective says otherwise")
    elif n_classes > 1:
        raise fault("num_class", f"is {n_classes} for the objective {checked['name']!r}")
    return checked


def _read_rounds(model: dict[str, Any], n_trees: int, trees_per_round: int) -> IntArray:
    if "iteration_indptr" not in model:  # 1.7: rounds all have the same number of trees
        # 1.7.6 silently ignores trees beyond the last whole round, 2.1.4 and 3.2 refuse the file
        if n_trees % trees_per_round:
            raise fault("trees", f"are {n_trees}, no whole rounds of {trees_per_round}, without iteration_indptr")
        return np.arange(0, n_trees + 1, trees_per_round)
    rounds = fields.as_integers(model["iteration_indptr"], "iteration_indptr")
    if len(rounds) < 2 or rounds[0] != 0 or rounds[-1] != n_trees or np.any(np.diff(rounds) < 0):
        raise fault("iteration_indptr", f"does not divide the {n_trees} trees into rounds")
    return rounds


def _read_weights(value: Any, n_trees: int) -> Float32Array | None:
    if value is None:
        return None
    weights = fields.as_floats(value, "weight_drop", n_trees)
    if not np.all(np.isfinite(weights)):
        raise fault("weight_drop", "holds a number that is not finite")
    return weights


def _read_features(learner: dict[str, Any], n_features: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = fields.as_texts(learner.get("feature_names", []), "feature_names")
    types = fields.as_texts(learner.get("feature_types", []), "feature_types")
    for where, texts in (("feature_names", names), ("feature_types", types)):
        if len(texts) not in (0, n_features):
            raise fault(where, f"has {len(texts)} entries, expected {n_features} or none")
    if len(set(names)) != len(names):
        raise fault("feature_names", "holds a name twice")
    if any(set(name) & _FORBIDDEN_IN_NAMES for name in names):
        raise fault("feature_names", "holds one of the characters [, ] and <")
    if not set(types) <= _FEATURE_TYPES:
        raise fault("feature_types", f"holds a type other than {sorted(_FEATURE_TYPES)}")
    return names, types


def _read_base_score(value: Any, n_outputs: int) -> tuple[float, ...]:
    """``5E-1`` (up to 3.0) or ``[5E-1]``, ``[a,b,c]`` (from 3.1 on)."""
    text = fields.as_text(value, "base_score")
    is_vector = text.startswith("[") and text.endswith("]")
    parts = text[1:-1].split(",") if is_vector else [text]
    if len(parts) not in (1, n_outputs) or not all(len(part) < 100 and _NUMBER.match(part) for part in parts):
        raise fault("base_score", f"is {text[:60]!r}, not 1 or {n_outputs} numbers")
    wide = [float(part) for part in parts]
    scores = fields.as_floats(wide, "base_score").tolist()
    if not all(math.isfinite(score) for score in scores):
        raise fault("base_score", f"is {text[:60]!r}, not finite")
    return tuple(scores)


# XGBoost's number for the type of category values; it cannot save the unsigned types that are missing here
_VALUE_TYPES = {9: np.int8, 10: np.uint8, 11: np.int16, 13: np.int32, 15: np.int64}


@dataclass(frozen=True, eq=False)
class Cats:
    """Per feature its category values (empty: none), and the section in a form to write again."""

    values: tuple[tuple[Any, ...], ...]
    section: dict[str, Any]


def read_cats(value: Any, n_features: int, *, typed: bool) -> Cats:
    """Check the section; an empty one means that the model was trained on bare codes."""
    section = fields.as_section(value, "cats")
    fields.check_names(section, "cats", ("enc", "feature_segments", "sorted_idx"))
    encodings = fields.as_list(section["enc"], "cats, enc")
    segments = fields.as_array(section["feature_segments"], "cats, feature_segments", np.int32, typed=typed).astype(
        np.int64
    )
    order = fields.as_array(section["sorted_idx"], "cats, sorted_idx", np.int32, typed=typed).astype(np.int64)
    if not encodings:
        if len(order) or np.any(segments != 0) or len(segments) not in (0, n_features + 1):
            raise fault("cats", "has segments without category values")
        values: tuple[tuple[Any, ...], ...] = ()
        written: list[dict[str, Any]] = []
    else:
        if len(encodings) != n_features:
            raise fault("cats", f"has {len(encodings)} features, expected {n_features}")
        pairs = [_read_encoding(item, i, typed) for i, item in enumerate(encodings)]
        values = tuple(pair[0] for pair in pairs)
        written = [pair[1] for pair in pairs]
        counts = np.array([len(v) for v in values])
        _check_order(counts, segments, order)
    return Cats(
        values, {"enc": written, "feature_segments": segments.astype(np.int32), "sorted_idx": order.astype(np.int32)}
    )


def _check_order(counts: npt.NDArray[np.int64], segments: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> None:
    expected = np.concatenate([[0], np.cumsum(counts)])
    if not np.array_equal(segments, expected) or len(order) != expected[-1]:
        raise fault("cats", "has segments that do not match its category values")
    feature = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(order)) - segments[feature]
    sorted_order = order[np.lexsort((order, feature))]
    if not np.array_equal(sorted_order, within):
        raise fault("cats", "has a sorted_idx that is not a permutation of its category values")


def _read_encoding(value: Any, feature: int, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    where = f"cats, enc of feature {feature}"
    section = fields.as_section(value, where)
    if "offsets" in section:
        return _read_names(section, where, typed)
    fields.check_names(section, where, ("type", "values"))
    kind = fields.as_integer(section["type"], f"{where}, type", 0, 255)
    if kind not in _VALUE_TYPES:
        raise fault(f"{where}, type", f"is {kind}, not one of {sorted(_VALUE_TYPES)}")
    numbers = fields.as_array(section["values"], f"{where}, values", _VALUE_TYPES[kind], typed=typed)
    if len(np.unique(numbers)) != len(numbers):
        raise fault(f"{where}, values", "holds a value twice")
    return tuple(numbers.tolist()), {"type": kind, "values": numbers}


def _read_names(section: dict[str, Any], where: str, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    fields.check_names(section, where, ("offsets", "values"))
    offsets = fields.as_array(section["offsets"], f"{where}, offsets", np.int32, typed=typed).astype(np.int64)
    letters = fields.as_array(section["values"], f"{where}, values", np.int8, typed=typed).astype(np.int64)
    written = {"offsets": offsets.astype(np.int32), "values": letters.astype(np.int8)}
    if len(offsets) == len(letters) == 0:
        return (), written
    if np.any((letters < -128) | (letters > 127)):
        raise fault(where, "holds a byte outside -128..127")
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(letters):
        raise fault(where, "has offsets that do not span its text")
    if np.any(np.diff(offsets) < 0):
        raise fault(where, "has offsets that go back")
    if np.any(letters < 0):
        # 3.2 counts characters where it should count bytes, so that 'é' is stored as half of it
        raise UnsupportedModelError(
            "XGBoost stores category names that are not ASCII incompletely, so the category of an "
            "input cannot be told; rename the categories to ASCII and retrain."
        )
    text = letters.astype(np.uint8).tobytes().decode("ascii")
    names = tuple(text[a:b] for a, b in pairwise(offsets))
    if len(set(names)) != len(names):
        raise fault(where, "holds a name twice")
    return names, written
