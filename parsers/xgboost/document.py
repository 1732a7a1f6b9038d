"""Parse and check an XGBoost .json or .ubj file field by field before any native loader sees it.

gblinear, vector leaves and several targets are not supported.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost.errors import MalformedModelError, UnsupportedModelError
from pine_boost.model.forest import IntArray
from pine_boost.parsers.nodes import Nodes
from pine_boost.parsers.xgboost.trees import MAX_INTEGER, REMEDY, Float32Array, read_trees
from pine_boost.parsers.xgboost.ubjson import read_ubjson

# XGBoost hangs on a huge num_class; a file with more classes than this is damaged
MAX_CLASSES = 2**16
MAX_FEATURES = 2**24
_OLDEST, _NEWEST = (1, 7), (3, 2**31)
_FORBIDDEN_IN_NAMES = set("[]<")  # XGBoost neither trains nor predicts with such names
_FEATURE_TYPES = {"float", "int", "i", "q", "c"}
_SPACED_LIST = re.compile(r"\[\s+\]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")


@dataclass(frozen=True, eq=False)
class XGBoostDocument:
    """The checked contents of a model file.

    ``weight_drop`` are the weights of dropout (DART), None without; ``weights_since`` is the first version that reads
    them from where they lie in the file. ``round_offset`` are the trees at which rounds begin (the
    file's iteration_indptr, or what its absence means in XGBoost 1.7). ``base_score`` has one
    entry, or one per class.
    """

    file_format: str
    version: tuple[int, ...]
    objective: dict[str, Any]
    base_score: tuple[float, ...]
    n_classes: int
    n_features: int
    trees: Nodes
    tree_output: IntArray
    round_offset: IntArray
    n_parallel: int = 1
    weight_drop: Float32Array | None = None
    weights_since: tuple[int, int] = _OLDEST
    feature_names: tuple[str, ...] = ()
    feature_types: tuple[str, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    cats: Cats | None = None
    boost_from_average: str = "1"
    leaf_vector_size: int = 1

    @property
    def objective_name(self) -> str:
        """The objective, for example ``binary:logistic``."""
        return str(self.objective["name"])

    @property
    def n_outputs(self) -> int:
        """Number of margins per row."""
        return max(self.n_classes, 1)


def read_document(contents: bytes) -> XGBoostDocument:
    """Parse and check a model file; its first two bytes distinguish JSON from UBJSON."""
    file_format = "ubj" if contents[1:2] in (b"i", b"U", b"I", b"l", b"L") else "json"
    try:
        with f.reading("XGBoost file", REMEDY):
            root = read_ubjson(contents) if file_format == "ubj" else _read_json(contents)
            return _check_document(root, file_format)
    except (RecursionError, MemoryError, OverflowError) as error:
        raise MalformedModelError(
            f"The XGBoost file cannot be read ({type(error).__name__}); it is damaged."
        ) from error


def _read_json(contents: bytes) -> Any:
    try:
        text = contents.decode("utf-8")
        root = json.loads(text, object_pairs_hook=f.unique_keys)  # NaN is a number here
    except ValueError as error:  # bad JSON, bad UTF-8, and integers of thousands of digits
        raise f.FieldError(f"it is not JSON ({str(error)[:120]}), so it is truncated or damaged") from error
    if _SPACED_LIST.search(text):  # at which XGBoost's own parser stops, unless it stands in a text
        no_escapes = text.replace("\\\\", "").replace('\\"', "")
        found = _SPACED_LIST.search(re.sub('"[^"]*"', "0", no_escapes))
        f.require(found is None, "it holds an empty list with white space inside, which XGBoost itself cannot read")
    return root


def _whole(low: int, high: int) -> f.Reader:
    return f.integer(low, high, as_text=True)


_PARAMETERS = f.record(
    {"base_score": f.text(), "num_class": _whole(0, MAX_CLASSES), "num_feature": _whole(1, MAX_FEATURES)},
    optional={"num_target": _whole(1, MAX_CLASSES), "boost_from_average": _whole(0, 1)},
)
_LEARNER = f.record(
    {
        "attributes": f.mapping(f.text()),
        "gradient_booster": f.anything,
        "learner_model_param": _PARAMETERS,
        "objective": f.anything,
    },
    optional=dict.fromkeys(("feature_names", "feature_types"), f.sequence(f.text())),
)
# 1.7 writes size_leaf_vector 0 for scalar leaves, 2.x and 3.x do not write it here
_TREE_PARAMETERS = f.record(
    {"num_trees": _whole(0, MAX_INTEGER), "num_parallel_tree": _whole(1, MAX_INTEGER)},
    optional={"size_leaf_vector": _whole(0, 1)},
)
_MODEL = f.record(
    {"gbtree_model_param": _TREE_PARAMETERS, "tree_info": f.anything, "trees": f.sequence(f.anything)},
    optional={"iteration_indptr": f.anything, "cats": f.anything, "weight_drop": f.anything},
)
_GBTREE = f.record({"model": _MODEL, "name": f.text(["gbtree"])}, optional={"weight_drop": f.anything})
_DART = f.record({"name": f.text(), "gbtree": _GBTREE, "weight_drop": f.anything})


def _check_document(root: Any, file_format: str) -> XGBoostDocument:
    root = f.read(root, {"learner": f.anything, "version": f.integers(0, MAX_INTEGER, 3)})
    version = tuple(root["version"].tolist())
    if not _OLDEST <= version[:2] <= _NEWEST:
        raise UnsupportedModelError(
            f"The file was written by XGBoost {'.'.join(map(str, version))}; 1.7 to 3.x are supported. Load it there "
            "and save it again."
        )
    learner = _LEARNER(root["learner"], "learner")
    param = learner["learner_model_param"]
    n_classes, n_features = param["num_class"], param["num_feature"]
    if param.get("num_target", 1) > 1:
        raise UnsupportedModelError("Models with several targets are not supported; train one model per target.")
    model, weights, weights_since = _find_model(learner["gradient_booster"])
    objective = _check_objective(learner["objective"], n_classes)
    typed, n_outputs, items = file_format == "ubj", max(n_classes, 1), model["trees"]
    grown = model["gbtree_model_param"]
    f.require(grown["num_trees"] == len(items), f"num_trees is {grown['num_trees']}, but there are {len(items)} trees")
    if not items:
        raise UnsupportedModelError("The XGBoost model has no trees; there is nothing to read.")
    names, types = _check_features(learner, n_features)
    return XGBoostDocument(
        file_format=file_format,
        version=version,
        objective=objective,
        base_score=_read_base_score(param["base_score"], n_outputs),
        n_classes=n_classes,
        n_features=n_features,
        trees=read_trees(items, n_features, typed=typed),
        tree_output=f.integers(0, n_outputs - 1, len(items))(model["tree_info"], "tree_info"),
        round_offset=_read_rounds(model, len(items), n_outputs * grown["num_parallel_tree"]),
        n_parallel=grown["num_parallel_tree"],
        weight_drop=_read_weights(weights, len(items)),
        weights_since=weights_since,
        feature_names=names,
        feature_types=types,
        attributes=learner["attributes"],
        cats=read_cats(model["cats"], n_features, typed=typed) if "cats" in model else None,
        boost_from_average=str(param.get("boost_from_average", 1)),
        leaf_vector_size=grown.get("size_leaf_vector", 1),
    )


def _find_model(booster: Any) -> tuple[dict[str, Any], Any, tuple[int, int]]:
    """Return the section with the trees, the weights of dropout (None without), and the first version that reads them.

    Up to 3.2 the booster is dart and holds a gbtree. 3.3 put the weights beside the model, 3.4 into it; each version
    reads the older places and silently ignores weights in a newer one.
    """
    name = f.text()(f.mapping(f.anything)(booster, "gradient_booster").get("name"), "gradient_booster.name")
    if name == "gblinear":
        raise UnsupportedModelError("gblinear models have no trees; retrain with booster='gbtree' or 'dart'.")
    if name not in ("gbtree", "dart"):
        raise UnsupportedModelError(f"Booster {name[:60]!r} is unknown; accepted: gbtree, dart.")
    dart = _DART(booster, "gradient_booster") if name == "dart" else {}
    gbtree = dart.get("gbtree") or _GBTREE(booster, "gbtree")
    places = (((1, 7), dart), ((3, 3), gbtree), ((3, 4), gbtree["model"]))
    found = [(place["weight_drop"], since) for since, place in places if "weight_drop" in place]
    f.require(len(found) < 2, "weight_drop is given in two places")
    return gbtree["model"], *(found[0] if found else (None, _OLDEST))


def _check_objective(value: Any, n_classes: int) -> dict[str, Any]:
    """Check the objective section: its name and strings, at most one level deep."""
    section = f.mapping(f.anything)(value, "objective")
    checked: dict[str, Any] = {"name": f.text()(section.get("name"), "objective.name")}
    for key, item in section.items():
        reader = f.mapping(f.text()) if isinstance(item, dict) else f.text()
        checked[key] = reader(item, f"objective.{key}")
    softmax = checked.get("softmax_multiclass_param")
    if checked["name"].startswith("multi:") or softmax is not None:
        fits = isinstance(softmax, dict) and softmax.get("num_class") == str(n_classes)
    else:
        fits = n_classes <= 1
    f.require(fits, f"num_class is {n_classes}, but the objective {checked['name'][:60]!r} says otherwise")
    return checked


def _read_rounds(model: dict[str, Any], n_trees: int, trees_per_round: int) -> IntArray:
    if "iteration_indptr" not in model:  # 1.7: rounds all have the same number of trees
        # 1.7.6 silently ignores trees beyond the last whole round; 2.1.4 and 3.2 reject the file
        fits = n_trees % trees_per_round == 0
        f.require(fits, f"trees are {n_trees}, no whole rounds of {trees_per_round}, without iteration_indptr")
        return np.arange(0, n_trees + 1, trees_per_round)
    rounds: IntArray = f.integers(0, MAX_INTEGER)(model["iteration_indptr"], "iteration_indptr")
    fits = bool(len(rounds) >= 2 and rounds[0] == 0 and rounds[-1] == n_trees and np.all(np.diff(rounds) >= 0))
    f.require(fits, f"iteration_indptr does not divide the {n_trees} trees into rounds")
    return rounds


def _read_weights(value: Any, n_trees: int) -> Float32Array | None:
    if value is None:
        return None
    weights: Float32Array = f.array(np.float32, n_trees, typed=False)(value, "weight_drop")
    f.require(bool(np.all(np.isfinite(weights))), "weight_drop holds a number that is not finite")
    return weights


def _check_features(learner: dict[str, Any], n_features: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names, types = learner.get("feature_names", ()), learner.get("feature_types", ())
    for where, texts in (("feature_names", names), ("feature_types", types)):
        f.require(len(texts) in (0, n_features), f"{where} has {len(texts)} entries, expected {n_features} or none")
    f.require(len(set(names)) == len(names), "feature_names holds a name twice")
    fits = not any(set(name) & _FORBIDDEN_IN_NAMES for name in names)
    f.require(fits, "feature_names holds one of the characters [, ] and <")
    f.require(set(types) <= _FEATURE_TYPES, f"feature_types holds a type other than {sorted(_FEATURE_TYPES)}")
    return names, types


def _read_base_score(text: str, n_outputs: int) -> tuple[float, ...]:
    """Read ``5E-1`` (up to 3.0) or ``[5E-1]``, ``[a,b,c]`` (from 3.1 on)."""
    is_vector = text.startswith("[") and text.endswith("]")
    parts = text[1:-1].split(",") if is_vector else [text]
    fits = len(parts) in (1, n_outputs) and all(len(part) < 100 and _NUMBER.match(part) for part in parts)
    f.require(fits, f"base_score is {text[:60]!r}, not 1 or {n_outputs} numbers")
    scores = f.array(np.float32, typed=False)([float(part) for part in parts], "base_score").tolist()
    f.require(all(math.isfinite(score) for score in scores), f"base_score is {text[:60]!r}, not finite")
    return tuple(scores)


# XGBoost's number for the type of category values; it cannot save the unsigned types that are not listed here
_VALUE_TYPES = {9: np.int8, 10: np.uint8, 11: np.int16, 13: np.int32, 15: np.int64}


@dataclass(frozen=True, eq=False)
class Cats:
    """The category values of each feature (empty if none), and the section in a form that can be written again."""

    values: tuple[tuple[Any, ...], ...]
    section: dict[str, Any]


def read_cats(value: Any, n_features: int, *, typed: bool) -> Cats:
    """Check the section; an empty one means that the model was trained on bare codes."""
    positions = f.array(np.int32, typed=typed)
    tables = {"enc": f.sequence(f.anything), "feature_segments": positions, "sorted_idx": positions}
    section = f.read(value, tables, "cats")
    encodings = section["enc"]
    segments, order = (section[name].astype(np.int64) for name in ("feature_segments", "sorted_idx"))
    if not encodings:
        fits = not len(order) and not np.any(segments) and len(segments) in (0, n_features + 1)
        f.require(bool(fits), "cats has segments without category values")
        values: tuple[tuple[Any, ...], ...] = ()
        written: list[dict[str, Any]] = []
    else:
        f.require(len(encodings) == n_features, f"cats has {len(encodings)} features, expected {n_features}")
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
    fits = np.array_equal(segments, expected) and bool(len(order) == expected[-1])
    f.require(fits, "cats has segments that do not match its category values")
    fits = all(np.array_equal(np.sort(order[a:b]), np.arange(b - a)) for a, b in pairwise(expected))
    f.require(fits, "cats has a sorted_idx that is not a permutation of its category values")


def _read_encoding(value: Any, feature: int, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    where = f"cats.enc[{feature}]"
    if isinstance(value, dict) and "offsets" in value:
        return _read_names(value, where, typed)
    section = f.read(value, {"type": f.integer(0, 255), "values": f.anything}, where)
    kind = section["type"]
    f.require(kind in _VALUE_TYPES, f"{where}.type is {kind}, expected one of {sorted(_VALUE_TYPES)}")
    numbers = f.array(_VALUE_TYPES[kind], typed=typed)(section["values"], f"{where}.values")
    f.require(len(np.unique(numbers)) == len(numbers), f"{where}.values holds a value twice")
    return tuple(numbers.tolist()), {"type": kind, "values": numbers}


def _read_names(section: dict[str, Any], where: str, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    kinds = {"offsets": f.array(np.int32, typed=typed), "values": f.array(np.int8, typed=typed)}
    written = f.read(section, kinds, where)
    offsets, letters = written["offsets"].astype(np.int64), written["values"]
    if len(offsets) == len(letters) == 0:
        return (), written
    fits = bool(len(offsets) >= 2 and offsets[0] == 0 and offsets[-1] == len(letters))
    f.require(fits, f"{where} has offsets that do not span its text")
    f.require(not np.any(np.diff(offsets) < 0), f"{where} has offsets that go back")
    if np.any(letters < 0):
        # 3.2 counts characters instead of bytes, so only half of 'é' is stored
        raise UnsupportedModelError(
            "XGBoost stores category names that are not ASCII incompletely, so the category of an "
            "input cannot be told; rename the categories to ASCII and retrain."
        )
    text = letters.astype(np.uint8).tobytes().decode("ascii")
    names = tuple(text[a:b] for a, b in pairwise(offsets))
    f.require(len(set(names)) == len(names), f"{where} holds a name twice")
    return names, written
