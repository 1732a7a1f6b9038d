"""Build ONNX models: one TreeEnsemble operator in double precision from the exact IR, and the decision.

A model is returned only if onnxruntime agrees with the native one. onnxmltools 1.16 and skl2onnx 1.20 were tried first:
they are wrong on categories, accept no float64 input for boosted trees, and hang on some random forests
(docs/export.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.errors import UnsupportedModelError, needing, translated
from pine_boost.exporters.plain_splits import category_list, plain_comparisons, refuse_unsayable
from pine_boost.exporters.treelite import LinkFunction, find_link
from pine_boost.model.exact import certain_distance, summation_band
from pine_boost.model.forest import BoolArray, FloatArray, Forest, IntArray, Model
from pine_boost.model.rules import CategoryRule, Comparison, SplitKind, Tie
from pine_boost.model.synthetic_rows import edge_rows
from pine_boost.native.predict import predict_classes, predict_margins
from pine_boost.parsers import read_model
from pine_boost.tables.matrix import raw_values, to_matrix
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of

__all__ = ["to_onnx"]


def to_onnx(model: Any, *, X_fit: Any = None, codes: bool = False) -> Any:
    """Build an ONNX model and accept it only if onnxruntime agrees with the native one.

    The input ``X`` is float32 for XGBoost and float64 for the others. The outputs are ``label``
    (as the native ``predict`` returns it) and ``probability`` for classifiers, ``value`` for
    regressors and rankers, and the ``margin`` in both cases. Sums are float64: for a model on a
    grid, as pine_boost exports them, the margin is exact; for any other model it is within the
    rounding of the native sum, so a class can differ if the margin is that close to the decision boundary.

    Parameters
    ----------
    model : native model, path, bytes or Model
        Whatever `pine_boost.parsers.read_model` accepts, or what it returned.
    X_fit : table, optional
        Further rows on which both must agree, besides a representative of every state of every
        feature, every threshold and its neighbours.
    codes : bool
        As for `to_treelite`: category codes will be fed instead of the values of a table.

    Returns
    -------
    onnx.ModelProto
        Needs onnxruntime 1.20 or newer (ai.onnx.ml opset 5).

    Raises
    ------
    UnsupportedModelError
        onnxruntime disagrees (the message names the first such input), or ONNX cannot express the
        model.
    InvalidInputError
        ``codes=True`` for a model without a table of categories.
    MissingDependencyError
        onnx or onnxruntime is not installed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> boosting = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> [output.name for output in to_onnx(boosting, X_fit=X).graph.output]
    ['label', 'probability', 'margin']
    """
    with needing("to_onnx needs onnx and onnxruntime", "onnx"):
        import onnx
        import onnxruntime
    model = read_model(model, decision="value")
    refuse_unsayable(model.forest, codes, "ONNX")
    graph = _Graph(onnx)
    _build(graph, model, codes)
    built = graph.finish(model.forest)
    with translated(UnsupportedModelError, "onnxruntime does not load the model: {reason}"):
        session = onnxruntime.InferenceSession(built.SerializeToString(), providers=["CPUExecutionProvider"])

    def run(matrix: FloatArray) -> tuple[npt.NDArray[Any] | None, FloatArray]:
        names = [output.name for output in built.graph.output]
        found = dict(zip(names, session.run(names, {"X": matrix.astype(_input_type(model.forest))}), strict=True))
        return found.get("label"), found["margin"]

    require_agreement(model, run, X_fit, codes=codes)
    return built


def _input_type(forest: Forest) -> Any:
    return np.float32 if forest.comparison is Comparison.FLOAT32_LESS else np.float64


class _Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []

    def constant(self, value: npt.NDArray[Any]) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(value, name))
        return name

    def add(self, operator: str, *inputs: str, name: str | None = None, **options: Any) -> str:
        result = name or f"{operator.lower()}_{len(self.nodes)}"
        node = self.onnx.helper.make_node(operator, list(inputs), [result], **options)
        self.nodes.append(node)
        return result

    def element(self, dtype: Any) -> Any:
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def cast(self, value: str, dtype: Any) -> str:
        return self.add("Cast", value, to=self.element(dtype))

    def output(self, name: str, dtype: Any, *shape: int) -> None:
        value = self.onnx.helper.make_tensor_value_info(name, self.element(dtype), [None, *shape])
        self.outputs.append(value)

    def finish(self, forest: Forest) -> Any:
        helper = self.onnx.helper
        entry = helper.make_tensor_value_info("X", self.element(_input_type(forest)), [None, forest.n_features])
        graph = helper.make_graph(self.nodes, "model", [entry], self.outputs, self.constants)
        operators = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 5)]
        built = helper.make_model(graph, opset_imports=operators, ir_version=10, producer_name="pine_boost")
        self.onnx.checker.check_model(built)
        return built


def _build(graph: _Graph, model: Model, codes: bool) -> None:
    forest = model.forest
    rows = _prepared_input(graph, forest)
    margin = graph.add(
        "TreeEnsemble", rows, domain="ai.onnx.ml", **tree_attributes(forest, codes, graph.onnx.numpy_helper.from_array)
    )
    intercept = graph.constant(forest.intercept.astype(np.float64)[None])
    margin = graph.add("Add", margin, intercept, name="margin")
    link = find_link(model)
    if forest.decides:
        _add_label(graph, forest, margin)
        if not forest.decision.thresholds:
            probability = _probability(graph, forest, link, margin)
            graph.add("Identity", probability, name="probability")
            graph.output("probability", np.float64, max(forest.n_outputs, 2))
    else:
        scaled = _scaled(graph, forest, link, margin)
        graph.add("Identity", _apply(graph, link.name, scaled), name="value")
        graph.output("value", np.float64, 1)
    graph.output("margin", np.float64, forest.n_outputs)


def _prepared_input(graph: _Graph, forest: Forest) -> str:
    """Add the input as the native comparison sees it, in double precision."""
    rows = "X"
    if forest.comparison is Comparison.FLOAT32_VALUE_LESS_EQUAL:
        rows = graph.cast(rows, np.float32)
    if forest.comparison is not Comparison.FLOAT64_LESS_EQUAL:
        rows = graph.cast(rows, np.float64)
    categorical = np.unique(forest.feature[forest.kind == SplitKind.CATEGORICAL])
    if len(categorical) == 0:
        return rows
    is_category = np.zeros((1, forest.n_features), dtype=bool)
    is_category[0, categorical] = True
    mask = graph.constant(is_category)
    whole = graph.add("Floor", rows)
    if forest.category_rule is CategoryRule.TRUNCATE:
        below = graph.add("Less", rows, graph.constant(np.zeros((1, 1))))
        whole = graph.add("Where", below, graph.add("Ceil", rows), whole)
    elif forest.category_rule is CategoryRule.KNOWN:
        same = graph.add("Equal", rows, whole)
        whole = graph.add("Where", same, rows, graph.constant(np.full((1, 1), np.nan)))
    return graph.add("Where", mask, whole, rows)


def _add_label(graph: _Graph, forest: Forest, margin: str) -> None:
    if forest.n_outputs > 1:
        index = graph.add("ArgMax", margin, axis=1, keepdims=0, select_last_index=0)
    else:
        cuts = graph.constant(np.array([forest.decision.cuts], dtype=np.float64))
        operator = "GreaterOrEqual" if forest.decision.tie is Tie.HIGHEST else "Greater"
        above = graph.cast(graph.add(operator, margin, cuts), np.int64)
        index = graph.add("ReduceSum", above, graph.constant(np.array([1])), keepdims=0)
    labels = np.array(forest.classes)
    if labels.dtype.kind in "bui":
        labels = labels.astype(np.int64)
    elif labels.dtype.kind != "f":
        labels = np.array([str(label) for label in forest.classes], dtype=object)
    graph.add("Gather", graph.constant(labels), index, name="label", axis=0)
    graph.output("label", labels.dtype)


def _probability(graph: _Graph, forest: Forest, link: LinkFunction, margin: str) -> str:
    """Add the probabilities of all classes in float64; the native ones are equal up to rounding."""
    scaled = _scaled(graph, forest, link, margin)
    if link.name == "softmax":
        return graph.add("Softmax", scaled, axis=1)
    one = _apply(graph, link.name, scaled)
    if link.name == "multiclass_ova":
        total = graph.add("ReduceSum", one, graph.constant(np.array([1])), keepdims=1)
        return graph.add("Div", one, total)
    if forest.n_outputs > 1:
        return one
    rest = graph.add("Sub", graph.constant(np.ones((1, 1))), one)
    return graph.add("Concat", rest, one, axis=1)


def _scaled(graph: _Graph, forest: Forest, link: LinkFunction, margin: str) -> str:
    """Add the margin times the slope of the link, divided by the number of trees if it is a mean."""
    factor = link.slope
    if link.average:
        factor /= int(forest.tree_round.max()) + 1
    return graph.add("Mul", margin, graph.constant(np.full((1, 1), factor)))


_OPERATORS = {
    **dict.fromkeys(("sigmoid", "multiclass_ova"), "Sigmoid"),
    "exponential": "Exp",
    "logarithm_one_plus_exp": "Softplus",
}


def _apply(graph: _Graph, name: str, margin: str) -> str:
    if name in _OPERATORS:
        return graph.add(_OPERATORS[name], margin)
    if name == "signed_square":
        return graph.add("Mul", margin, graph.add("Abs", margin))
    if name == "hinge":
        return graph.cast(graph.add("Greater", margin, graph.constant(np.zeros((1, 1)))), np.float64)
    return margin


Tensor = Callable[[npt.NDArray[Any], str], Any]

# modes of the operator: x <= t, x < t, x in set
_LESS_EQUAL, _LESS, _MEMBER = 0, 1, 6
_NO_CATEGORY = 0.5  # represents an empty set: no code is a fraction


def tree_attributes(forest: Forest, codes: bool, tensor: Tensor) -> dict[str, Any]:
    """Return the attributes of the operator; ``tensor`` makes an ONNX tensor from an array and a name."""
    is_leaf = forest.kind == SplitKind.LEAF
    inner, leaves = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    roots = forest.tree_offset[:-1]
    # the operator needs a split even in a tree of one leaf: both sides are the leaf
    alone = roots[is_leaf[roots]]
    splits = _splits(forest, inner, codes)
    true, false = (np.append(side, alone) for side in (splits["true"], splits["false"]))
    position = np.empty(forest.n_nodes, dtype=np.int64)
    position[inner], position[leaves] = np.arange(len(inner)), np.arange(len(leaves))
    root = position[roots]
    root[is_leaf[roots]] = len(inner) + np.arange(len(alone))
    n_copies, n_nodes = forest.value.shape[1], len(true)
    zeros = np.zeros(len(alone))
    one_copy = forest.tree_output[forest.node_tree[leaves]]
    targets = one_copy if n_copies == 1 else np.repeat(np.arange(n_copies), len(leaves))

    def copied(column: npt.NDArray[Any], step: Any = 0) -> npt.NDArray[Any]:
        return np.concatenate([column + k * step for k in range(n_copies)])

    def positions(side: IntArray) -> list[int]:
        step = np.where(is_leaf[side], len(leaves), n_nodes)
        return list(copied(position[side], step).tolist())

    attributes = {
        "nodes_featureids": copied(np.append(forest.feature[inner], zeros)),
        "nodes_trueleafs": copied(is_leaf[true].astype(np.int64)),
        "nodes_falseleafs": copied(is_leaf[false].astype(np.int64)),
        "nodes_missing_value_tracks_true": copied(np.append(splits["default"], zeros)),
        "tree_roots": copied(root, n_nodes),
        "leaf_targetids": targets,
    }
    found: dict[str, Any] = {
        **{name: column.astype(np.int64).tolist() for name, column in attributes.items()},
        "nodes_truenodeids": positions(true),
        "nodes_falsenodeids": positions(false),
        "nodes_modes": tensor(copied(np.append(splits["mode"], zeros)).astype(np.uint8), "nodes_modes"),
        "nodes_splits": tensor(copied(np.append(splits["threshold"], zeros)), "nodes_splits"),
        "leaf_weights": tensor(forest.value[leaves].T.ravel().astype(np.float64), "leaf_weights"),
        "n_targets": forest.n_outputs,
        "aggregate_function": 1,  # the sum
        "post_transform": 0,
    }
    if len(splits["members"]):
        found["membership_values"] = tensor(copied(splits["members"]), "membership_values")
    return found


def _splits(forest: Forest, inner: IntArray, codes: bool) -> dict[str, npt.NDArray[Any]]:
    """Return the true and false child, mode, threshold and missing side of every inner node, and the sets."""
    thresholds, default_left = plain_comparisons(forest)
    true, false = forest.left[inner].copy(), forest.right[inner].copy()
    default: BoolArray = default_left[inner].copy()
    threshold: FloatArray = thresholds[inner].copy()
    is_less = forest.comparison is Comparison.FLOAT32_LESS
    mode = np.full(len(inner), _LESS if is_less else _LESS_EQUAL)
    members: list[float] = []
    for i in np.flatnonzero(forest.kind[inner] == SplitKind.CATEGORICAL):
        listed, goes_right = category_list(forest, int(inner[i]), codes)
        mode[i], threshold[i] = _MEMBER, 0.0
        members += [float(code) for code in listed] or [_NO_CATEGORY]
        members.append(np.nan)  # ends a set
        if goes_right:  # the true side is the side of the set
            true[i], false[i] = false[i], true[i]
            default[i] = not default[i]
    return {
        "true": true,
        "false": false,
        "mode": mode,
        "threshold": threshold,
        "default": default.astype(np.int64),
        "members": np.array(members, dtype=np.float64),
    }


# labels (None for a value) and margins of a matrix
Engine = Callable[[FloatArray], tuple[npt.NDArray[Any] | None, FloatArray]]


def require_agreement(model: Model, run: Engine, X_fit: Any, *, codes: bool) -> None:
    """Compare onnxruntime with the native model at every threshold and category of the model.

    Parameters
    ----------
    model : Model
    run : callable
        Maps a float64 matrix in the form of the ONNX model to labels and margins.
    X_fit : table or None
        The caller's own rows.
    codes : bool
        Whether the ONNX model takes category codes instead of the integers of the native table.

    Raises
    ------
    UnsupportedModelError
        They disagree.
    """
    schema = schema_of(model.forest)
    matrices = [edge_rows(model.forest)]
    if X_fit is not None:
        matrices.append(to_matrix(X_fit, schema))
    for matrix in matrices:
        labels, margins = run(matrix if codes else raw_values(matrix, schema).astype(np.float64))
        _compare(model, matrix, as_table(matrix, schema), labels, margins)


def _compare(
    model: Model, matrix: FloatArray, table: Any, labels: npt.NDArray[Any] | None, margins: FloatArray
) -> None:
    forest = model.forest
    native, blur = predict_margins(model, table)
    allowed = 2 * (certain_distance(forest) + summation_band(forest)) + blur
    apart = np.abs(margins.reshape(native.shape) - native).max(axis=1)
    wrong = ~(apart <= allowed)
    if labels is not None:
        expected = np.array(forest.classes, dtype=object)[predict_classes(model, table)]
        given = np.asarray(labels, dtype=object).reshape(-1)
        if not isinstance(forest.classes[0], (bool, int, float, np.generic)):
            expected = np.array([str(label) for label in expected], dtype=object)
        wrong |= expected != given
    if wrong.any():
        row = int(np.argmax(wrong))
        said = f"margin {margins.reshape(native.shape)[row].tolist()}"
        want = f"margin {native[row].tolist()}"
        if labels is not None:
            said, want = f"{given[row]!r} ({said})", f"{expected[row]!r} ({want})"
        raise UnsupportedModelError(
            f"onnxruntime gives {said} where the native model gives {want}, on the input "
            f"{_words(forest, matrix[row])}. The converted model was not returned; it differs on "
            f"{int(wrong.sum())} of {len(wrong)} rows that were compared."
        )


def _words(forest: Forest, row: FloatArray) -> str:
    used = np.unique(forest.feature[forest.kind != SplitKind.LEAF])
    shown = [f"{forest.name_of(int(j))}={float(row[j])!r}" for j in used[:20]]
    return ", ".join(shown) + (", ..." if len(used) > 20 else "")
