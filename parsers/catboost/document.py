"""CatBoost's JSON as checked arrays: features with their borders, trees as stacked nodes, labels and parameters.

Everything the native loader would read is checked here; features other than numbers and one-hot categories are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost import json_fields as f
from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import FloatArray, IntArray
from pine_boost.parsers.catboost.decimals import as_loaded
from pine_boost.parsers.nodes import Nodes, one_tree, stack

REMEDY = "Save the model again with model.save_model(path, format='json')"
TREATMENTS = ("AsIs", "AsFalse", "AsTrue")
LOSSES = (
    *("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll", "Focal"),
    *("RMSE", "LogCosh", "Lq", "MAE", "Quantile", "Expectile", "LogLinQuantile", "MAPE", "Huber"),
    *("Poisson", "Tweedie", "Cox", "SurvivalAft", "PythonUserDefinedPerObject"),
    *("MultiRMSE", "MultiRMSEWithMissingValues", "MultiQuantile", "RMSEWithUncertainty", "MultiLogloss"),
    *("MultiCrossEntropy", "PythonUserDefinedMultiTarget", "PairLogit", "PairLogitPairwise", "YetiRank"),
    *("YetiRankPairwise", "QueryRMSE", "GroupQuantile", "QuerySoftMax", "QueryCrossEntropy"),
    *("StochasticFilter", "LambdaMart", "StochasticRank"),
)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DEEPEST = 16  # CatBoost's own limit
_LABELS: dict[str, tuple[type, ...]] = {"Integer": (int,), "Float": (int, float), "String": (str,), "Boolean": (bool,)}
_ERRORS = f.mapping(f.number())
_METRICS: dict[str, f.Reader] = {
    "learn_best_error": _ERRORS,
    "test_best_error": f.sequence(_ERRORS),
    "learn_metrics_history": f.sequence(_ERRORS),
    "test_metrics_history": f.sequence(f.sequence(_ERRORS)),
}
_CLASSES = f.record(
    {
        "class_label_type": f.text(_LABELS),
        "class_names": f.sequence(f.anything),
        "class_to_label": f.sequence(f.integer(0, 2**31 - 1)),
    },
    optional={"classes_count": f.integer(0, 2**31 - 1)},
)
_LOSS = f.record({"type": f.text(), "params": f.mapping(f.text())})


@dataclass(frozen=True, eq=False)
class Feature:
    """A feature in the order of the table: a number with its borders, or a category with its one-hot hashes."""

    name: str
    is_categorical: bool
    borders: npt.NDArray[np.float32]
    has_nans: bool
    treatment: str
    hashes: tuple[int, ...]

    @property
    def n_splits(self) -> int:
        """Number of binary features that CatBoost makes of it."""
        return len(self.hashes) if self.is_categorical else len(self.borders)


def record_type(n_outputs: int) -> np.dtype[Any]:
    """Return what is stored of a node.

    ``split`` is the number of its split as in `CatboostDocument.split_tables`, -1 at leaves; ``value`` a leaf's before
    ``scale``; ``weight`` its training weight, 0 at inner nodes.
    """
    return np.dtype([("split", np.int64), ("value", np.float64, (n_outputs,)), ("weight", np.float64)])


@dataclass(frozen=True, eq=False)
class CatboostDocument:
    """A checked CatBoost model.

    Attributes
    ----------
    features : tuple of Feature
    info : dict
        ``model_info``: the training parameters and texts.
    loss : str
    labels : tuple or None
        Class labels of a classifier, in the order of the outputs.
    cut : float or None
        The model's own probability threshold.
    symmetric : bool
        Whether the file held oblivious trees.
    trees : Nodes
        A split that is true goes right; the record is that of `record_type`.
    scale : float
        A power of two.
    bias : float64 (n_outputs,)
        Added after the sum of the trees.
    """

    features: tuple[Feature, ...]
    info: dict[str, Any]
    loss: str
    labels: tuple[Any, ...] | None
    cut: float | None
    symmetric: bool
    trees: Nodes
    scale: float
    bias: FloatArray

    def split_tables(self) -> tuple[IntArray, IntArray]:
        """Return the feature of every split, and its number among the splits of its feature.

        Splits are numbered as CatBoost does it: those of numbers, then those of categories.
        """
        order = sorted(range(len(self.features)), key=lambda j: self.features[j].is_categorical)
        counts = [self.features[j].n_splits for j in order]
        return np.repeat(order, counts), np.concatenate([np.arange(count) for count in counts])


def read_document(contents: bytes, *, live: bool = False) -> CatboostDocument:
    """Check the JSON of a CatBoost model.

    Parameters
    ----------
    contents : bytes
    live : bool
        Whether a live model wrote it just now: then its numbers are the exact texts of the model's. Those of a file
        are what CatBoost's parser reads.
    """
    with f.reading("CatBoost file", REMEDY):
        return _read(_parse(contents, live))


def _parse(contents: bytes, live: bool) -> dict[str, Any]:
    try:
        text = contents.decode("utf-8")  # CatBoost reads neither UTF-16 nor a byte order mark
        parsed = f.parse_text(text, parse_float=float if live else as_loaded, parse_int=_whole)
        if _SURROGATE.search(text):  # its parser stops at a lone one, and the model is what came before
            json.dumps(parsed, ensure_ascii=False).encode()
    except ValueError as error:  # not UTF-8
        raise f.FieldError(f"it is not JSON ({str(error)[:200]})") from error
    return f.mapping(f.anything)(parsed, "the document")  # type: ignore[no-any-return]


def _whole(text: str) -> int:
    # an integer beyond float64 anywhere leaves CatBoost with an empty model
    f.require(len(text) <= 20 and -(2**63) <= int(text) < 2**64, f"the integer {text[:40]} has more than 64 bits")
    return int(text)


def _numbers(length: int | None = None) -> f.Reader:
    """A list of numbers; CatBoost reads long integers without a point as 0."""

    def read(value: Any, where: str) -> FloatArray:
        found: FloatArray = f.floats(length=length)(value, where)
        f.require(all(type(v) is float or abs(v) <= 2**53 for v in value), f"{where} holds an integer beyond 2**53")
        return found

    return read


def _read(data: dict[str, Any]) -> CatboostDocument:
    if data.get("ctr_data"):
        raise _no_ctr(data.get("features_info"))
    table = {"features_info": f.anything, "model_info": f.mapping(f.anything), "scale_and_bias": f.anything}
    parts = f.read(data, table, optional=dict.fromkeys(("oblivious_trees", "trees", "ctr_data"), f.anything))
    symmetric = "oblivious_trees" in parts
    f.require(symmetric != ("trees" in parts), "one of 'oblivious_trees' and 'trees' is expected")
    features = _read_features(parts["features_info"])
    scale, bias = _read_scale(parts["scale_and_bias"])
    loss, labels, cut = _read_info(parts["model_info"], len(bias))
    n_splits = sum(feature.n_splits for feature in features)
    listed = f.sequence(f.anything)(parts["oblivious_trees" if symmetric else "trees"], "trees")
    f.require(len(listed) > 0, "the model has no trees")
    read_tree = _symmetric_tree if symmetric else _nested_tree
    return CatboostDocument(
        features=features,
        info=parts["model_info"],
        loss=loss,
        labels=labels,
        cut=cut,
        symmetric=symmetric,
        trees=stack([read_tree(tree, f"trees[{index}]", len(bias), n_splits) for index, tree in enumerate(listed)]),
        scale=scale,
        bias=bias,
    )


def _no_ctr(section: Any) -> UnsupportedModelError:
    names: list[Any] = []
    with suppress(LookupError, TypeError, AttributeError):  # for the message only
        used = {element.get("cat_feature_index") for ctr in section["ctrs"] for element in ctr["elements"]}
        features = [section["categorical_features"][index] for index in sorted(used - {None})]
        names = [feature["feature_id"] or feature["flat_feature_index"] for feature in features]
    return UnsupportedModelError(
        f"This CatBoost model has target statistics (CTR) of categorical features{_listed(names)}, which are not "
        "supported; retrain with one_hot_max_size at least as large as the number of categories of every feature, or "
        "encode them as numbers."
    )


def no_features_of(kind: str, names: Sequence[Any]) -> UnsupportedModelError:
    """Return the error for a model with text or embedding features, which have these names."""
    return UnsupportedModelError(
        f"This CatBoost model has {kind} features{_listed(names)}, which are not supported; retrain without them, on "
        "numbers and categories with one_hot_max_size at least as large as the number of categories of every feature."
    )


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(name)[:60] for name in names[:8])
    return f" ({shown}{', ...' if len(names) > 8 else ''})" if names else ""


def _read_features(section: Any) -> tuple[Feature, ...]:
    kinds = ("categorical_features", "ctrs", "text_features", "embedding_features")
    found = f.read(section, {}, "features_info", optional=dict.fromkeys(("float_features", *kinds), f.anything))
    if found.get("ctrs"):
        raise _no_ctr(section)
    for kind in ("text", "embedding"):
        if found.get(f"{kind}_features"):
            raise no_features_of(kind, ())
    features: dict[int, Feature] = {}
    whole = f.integer(0, 2**31 - 1)
    common = {"feature_id": f.text(), "feature_index": whole, "flat_feature_index": whole}
    numeric = {"borders": _numbers(), "has_nans": f.flag, "nan_value_treatment": f.text(TREATMENTS), **common}
    hashes = {"values": f.sequence(f.integer(-(2**31), 2**31 - 1))}
    readers = {"float_features": f.record(numeric), "categorical_features": f.record(common, optional=hashes)}
    for kind, reader in readers.items():
        is_categorical = kind.startswith("cat")
        for index, entry in enumerate(f.sequence(reader)(found.get(kind, []), kind)):
            where, flat = f"{kind}[{index}]", entry["flat_feature_index"]
            f.require(entry["feature_index"] == index, f"{where}.feature_index is {entry['feature_index']}")
            ascends = flat not in features and flat >= max(features, default=-1) * (not is_categorical)
            f.require(ascends, f"{where} is out of order")
            features[flat] = _feature(entry, is_categorical, where)
    f.require(sorted(features) == list(range(len(features))) and len(features) > 0, "features are missing")
    ordered = tuple(features[flat] for flat in sorted(features))
    names = [feature.name for feature in ordered]
    f.require(len(set(names)) == len(names) or not any(names), "a feature name appears twice")
    return ordered


def _feature(entry: dict[str, Any], is_categorical: bool, where: str) -> Feature:
    with np.errstate(over="ignore"):
        borders = np.asarray(entry.get("borders", ()), dtype=np.float32)
    f.require(bool(np.all(np.isfinite(borders))), f"{where}.borders holds a number beyond float32")
    f.require(bool(np.all(borders[1:] > borders[:-1])), f"{where}.borders do not ascend")
    hashes = entry.get("values", ())
    f.require(len(set(hashes)) == len(hashes), f"{where}.values holds a value twice")
    return Feature(
        entry["feature_id"],
        is_categorical,
        borders,
        entry.get("has_nans", False),
        entry.get("nan_value_treatment", "AsIs"),
        hashes,
    )


def _read_scale(section: Any) -> tuple[float, FloatArray]:
    pair = f.sequence(f.anything, 2)(section, "scale_and_bias")
    scale = float(_numbers(1)([pair[0]], "scale")[0])
    bias: FloatArray = _numbers()(pair[1], "bias")
    f.require(1 <= len(bias) <= 10_000, f"bias has {len(bias)} entries")
    if not 2.0**-1000 < scale < 2.0**1000 or np.frexp(scale)[0] != 0.5:
        raise UnsupportedModelError(
            f"This CatBoost model multiplies its sum by {scale!r}; only powers of two are supported, because others "
            "round. Set it back with model.set_scale_and_bias(1, bias)."
        )
    return scale, bias


def _read_info(info: dict[str, Any], n_outputs: int) -> tuple[str, tuple[Any, ...] | None, float | None]:
    # all other sections are texts
    texts = {key: f.text() for key in info if key != "params"}
    info = f.read(info, {"params": f.mapping(f.anything)}, "model_info", optional={**texts, "class_params": _CLASSES})
    if "output_options" in info:  # CatBoost parses this text when it predicts, the other when it loads
        f.parse(info["output_options"])
    training = f.parse(info["training"]) if "training" in info else None
    if isinstance(training, dict) and "metrics" in training:
        metrics = f.mapping(f.anything)(training["metrics"], "training.metrics")
        for key, kind in _METRICS.items():
            f.require(key in metrics, f"model_info.training.metrics lacks {key}")
            kind(metrics[key], f"training.metrics.{key}")
    for key, section in info["params"].items():
        if key.endswith(("_options", "_params")):  # CatBoost looks for the learning rate in one of them
            f.mapping(f.anything)(section, key)
    loss = _LOSS(info["params"].get("loss_function"), "loss_function")["type"]
    if loss not in LOSSES:
        raise UnsupportedModelError(f"The CatBoost loss {loss[:60]!r} is not known; accepted: {', '.join(LOSSES)}.")
    labels = None
    if "class_params" in info:
        section = info["class_params"]
        kind = section["class_label_type"]
        # the targets of CrossEntropy are probabilities, and it lists no names
        labels = section["class_names"] or ((0, 1) if n_outputs == 1 else ())
        fits = all(type(label) in _LABELS[kind] for label in labels) and len(set(labels)) == len(labels)
        fits = fits and all(not isinstance(label, int) or label < 2**63 for label in labels)  # CatBoost: "bad type"
        f.require(fits and len(labels) == max(n_outputs, 2), "class_names do not fit the model")
        f.require(section.get("classes_count", 0) <= len(labels), "classes_count is not the number of class_names")
        f.require(section["class_to_label"] == tuple(range(len(labels))), "class_to_label is not 0, 1, ...")
        labels = tuple(float(label) for label in labels) if kind == "Float" else labels
    cut = None
    if "binclass_probability_threshold" in info:
        cut = as_loaded(info["binclass_probability_threshold"])
        f.require(0 < cut < 1, "binclass_probability_threshold is not between 0 and 1")
    return loss, labels, cut


def _split_of(item: Any, where: str, n_splits: int) -> int:
    # CatBoost reads split_index alone; what else a split says must agree, so that no reader is misled
    section = f.mapping(f.anything)(item, where)
    kind = f.text(("FloatFeature", "OneHotFeature", "OnlineCtr"))(section.get("split_type"), f"{where}.split_type")
    if kind == "OnlineCtr":
        raise _no_ctr(None)
    number: int = f.integer(0, n_splits - 1)(section.get("split_index"), f"{where}.split_index")
    return number


def _symmetric_tree(item: Any, where: str, n_outputs: int, n_splits: int) -> Nodes:
    """Read an oblivious tree as a full binary tree, its first split at the root."""
    table = {"leaf_values": _numbers(), "splits": f.optional(f.sequence(f.anything))}
    tree = f.read(item, table, where, optional={"leaf_weights": _numbers()})
    splits = [_split_of(split, f"{where}.splits", n_splits) for split in tree["splits"] or ()]
    depth = len(splits)
    f.require(depth <= _DEEPEST, f"{where} has {depth} splits")
    f.require(len(tree["leaf_values"]) == n_outputs << depth, f"{where} has the wrong number of leaf values")
    weights = tree.get("leaf_weights", np.zeros(0))
    f.require(len(weights) in (0, 1 << depth), f"{where} has the wrong number of leaf weights")
    n_inner, leaf = (1 << depth) - 1, leaf_numbers(depth)
    record = np.zeros(n_inner + len(leaf), dtype=record_type(n_outputs))
    record["split"] = -1
    record["split"][:n_inner] = np.repeat(np.array(splits, dtype=np.int64), 1 << np.arange(depth))
    record["value"][n_inner:] = tree["leaf_values"].reshape(-1, n_outputs)[leaf]
    record["weight"][n_inner:] = weights[leaf] if len(weights) else 0.0
    node = np.arange(len(record))
    left = np.where(node < n_inner, 2 * node + 1, -1)
    return one_tree(left, np.where(left < 0, -1, left + 1), record)


def leaf_numbers(depth: int) -> IntArray:
    """Return the number in the file of every leaf of an oblivious tree, from left to right.

    A leaf's place has the first split as its highest bit, its number in the file as its lowest.
    """
    bit, place = np.arange(depth), np.arange(1 << depth)[:, None]
    return np.asarray((((place >> (depth - 1 - bit)) & 1) << bit).sum(axis=1))


def _nested_tree(item: Any, where: str, n_outputs: int, n_splits: int) -> Nodes:
    """Read a tree of nested objects, level by level."""
    left, found = [], []
    pending: list[Any] = [(item, 0)]
    vector, nothing = _numbers(n_outputs), np.zeros(n_outputs)
    for entry, depth in pending:
        f.require(depth <= _DEEPEST, f"{where} is deeper than {_DEEPEST}")
        if isinstance(entry, dict) and "split" in entry:
            sides = f.read(entry, dict.fromkeys(("left", "right", "split"), f.anything), where)
            left.append(len(pending))
            found.append((_split_of(sides["split"], f"{where}.split", n_splits), nothing, 0.0))
            pending += [(sides["left"], depth + 1), (sides["right"], depth + 1)]
            continue
        leaf = f.read(entry, {"value": f.anything}, where, optional={"weight": f.number()})
        value = [leaf["value"]] if n_outputs == 1 else leaf["value"]
        left.append(-1)
        found.append((-1, vector(value, f"{where}.value"), leaf.get("weight", 0.0)))
    return one_tree(
        left, [child if child < 0 else child + 1 for child in left], np.array(found, record_type(n_outputs))
    )
