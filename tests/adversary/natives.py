"""Random forests as real models of the libraries, so that needles can be replayed natively.

In comes a Forest in the manner of a library; out goes the Model that was read back from a real
XGBoost document, CatBoost JSON, LightGBM text or scikit-learn estimator with these trees. Intercepts must be 0.
"""

import copy
from functools import cache
from typing import Any

import numpy as np

from pine_boost.model.forest import FloatArray, Forest, IntArray, Model
from pine_boost.model.rules import MissingRule, SplitKind
from pine_boost.parsers import read_model
from pine_boost.parsers.catboost.category_hash import category_hash
from pine_boost.parsers.catboost.document import CatboostDocument, Feature, record_type
from pine_boost.parsers.catboost.write import write_document as write_catboost
from pine_boost.parsers.nodes import Nodes
from pine_boost.parsers.xgboost.document import XGBoostDocument
from pine_boost.parsers.xgboost.trees import RECORD
from pine_boost.parsers.xgboost.write import write_document
from tests.adversary.needles import nan_goes_left
from tests.support.forests import CATBOOST, HISTOGRAM, LIGHTGBM, SKLEARN, XGBOOST, Manner
from tests.support.lightgbm_texts import block, build, tree_text

N_CATEGORIES = 3


def native_model(forest: Forest, manner: Manner, category: int | None) -> Model:
    """The forest as the library itself holds it; ``category`` is its categorical column."""
    assert not forest.intercept.any()
    writers = {CATBOOST: _catboost, XGBOOST: _xgboost, LIGHTGBM: _lightgbm, SKLEARN: _gradient, HISTOGRAM: _histogram}
    return read_model(writers[manner](forest, category))


def native_classes(model: Any, rows: FloatArray, n_classes: int) -> IntArray:
    """Classes by the library itself; ``model`` is an estimator or a booster."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict(rows), dtype=np.int64)
    if hasattr(model, "get_cat_feature_indices"):
        table = rows.astype(object)
        for column in model.get_cat_feature_indices():
            table[:, column] = ["none" if np.isnan(code) else str(int(code)) for code in rows[:, column]]
        return np.asarray(model.predict(table, prediction_type="Class", thread_count=1), dtype=np.int64).reshape(-1)
    if hasattr(model, "inplace_predict"):
        predicted = np.asarray(model.inplace_predict(rows, validate_features=False))
    else:
        predicted = np.asarray(model.predict(rows, num_threads=1))
    return np.argmax(predicted, axis=1) if n_classes > 2 else (predicted > 0.5).astype(np.int64)


def _xgboost(forest: Forest, category: int | None) -> bytes:
    is_leaf = forest.kind == SplitKind.LEAF
    numbers = np.where(is_leaf, forest.value[:, 0], forest.threshold).astype(np.float32)
    record = np.zeros(forest.n_nodes, dtype=RECORD)
    record["split_indices"], record["default_left"] = np.maximum(forest.feature, 0), forest.default_left
    record["split_type"], record["split_conditions"] = forest.kind == SplitKind.CATEGORICAL, numbers
    record["base_weights"] = numbers
    trees = Nodes(
        forest.tree_offset, forest.left, forest.right, record, forest.category_offset, forest.category.astype(np.int64)
    )
    n_classes = 0 if forest.n_outputs == 1 else forest.n_outputs
    objective: dict[str, Any] = {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "1"}}
    if n_classes:
        parameter = {"num_class": str(n_classes)}
        objective = {"name": "multi:softprob", "softmax_multiclass_param": parameter}
    types = tuple("c" if j == category else "float" for j in range(forest.n_features))
    document = XGBoostDocument(
        file_format="ubj",
        version=(3, 2, 0),
        objective=objective,
        base_score=(0.5,) if n_classes == 0 else (0.0,),
        n_classes=n_classes,
        n_features=forest.n_features,
        trees=trees,
        tree_output=forest.tree_output.astype(np.int64),
        round_offset=np.append(np.arange(0, forest.n_trees, forest.n_outputs), forest.n_trees),
        feature_names=tuple(f"column {j}" for j in range(forest.n_features)),
        feature_types=types,
    )
    return write_document(document, "ubj")


def _catboost(forest: Forest, category: int | None) -> bytes:
    features = []
    for j in range(forest.n_features):
        thresholds = forest.threshold[(forest.feature == j) & (forest.kind == SplitKind.NUMERIC)].astype(np.float32)
        borders = np.unique(np.nextafter(thresholds, np.float32(-np.inf)))  # x < t is not x > border
        codes = forest.feature_categories[j] if j == category else ()
        hashes = tuple(category_hash(str(code)) for code in codes or ())
        treatment = "AsFalse" if nan_goes_left(forest, j) else "AsTrue"
        features.append(Feature(f"column {j}", j == category, borders, j != category, treatment, hashes))
    order = sorted(range(forest.n_features), key=lambda j: j == category)  # splits of categories are numbered last
    start = dict(zip(order, np.cumsum([0, *(features[j].n_splits for j in order)]), strict=False))
    is_leaf = forest.kind == SplitKind.LEAF
    split = np.full(forest.n_nodes, -1)
    for node in np.flatnonzero(~is_leaf):
        j = forest.feature[node]
        place = (
            forest.categories_of(int(node))[0]
            if j == category
            else np.searchsorted(
                features[j].borders, np.nextafter(np.float32(forest.threshold[node]), np.float32(-np.inf))
            )
        )
        split[node] = start[j] + place
    k = forest.n_outputs
    value = np.zeros((forest.n_nodes, k))
    value[np.arange(forest.n_nodes), forest.tree_output[forest.node_tree]] = forest.value[:, 0]
    record = np.zeros(forest.n_nodes, dtype=record_type(k))
    record["split"], record["value"], record["weight"] = split, value, is_leaf
    left, right = (np.where(is_leaf, -1, child) for child in (forest.left, forest.right))
    no_sets = np.zeros(forest.n_nodes + 1, dtype=np.int64)
    trees = Nodes(forest.tree_offset, left, right, record, no_sets, np.zeros(0, dtype=np.int64))
    labels = list(range(max(2, k)))
    loss = "Logloss" if k == 1 else "MultiClass"
    classes = {"class_label_type": "Integer", "class_names": labels, "class_to_label": labels, "classes_count": 0}
    document = CatboostDocument(
        features=tuple(features),
        info={"params": {"loss_function": {"type": loss, "params": {}}}, "class_params": classes},
        loss=loss,
        labels=tuple(labels),
        cut=None,
        symmetric=False,
        trees=trees,
        scale=1.0,
        bias=np.zeros(k),
    )
    return write_catboost(document)


_MISSING_BITS = {MissingRule.NAN_IS_ZERO: 0, MissingRule.ZERO_IS_MISSING: 4, MissingRule.DEFAULT: 8}


def _lightgbm(forest: Forest, category: int | None) -> bytes:
    k = forest.n_outputs
    own = {"num_class": f"{k}", "num_tree_per_iteration": f"{k}", "max_feature_idx": f"{forest.n_features - 1}"}
    own["objective"] = "binary sigmoid:1" if k == 1 else f"multiclass num_class:{k}"
    own["feature_names"] = " ".join(f"column_{j}" for j in range(forest.n_features))
    own["feature_infos"] = " ".join("0:1:2" if j == category else "[-9:9]" for j in range(forest.n_features))
    return build([_lightgbm_tree(forest, tree) for tree in range(forest.n_trees)], **own)


def _lightgbm_tree(forest: Forest, tree: int) -> str:
    start, stop = forest.tree_offset[tree : tree + 2]
    kind = forest.kind[start:stop]
    inner, leaves = np.flatnonzero(kind != SplitKind.LEAF), np.flatnonzero(kind == SplitKind.LEAF)
    name = np.zeros(stop - start, dtype=np.int64)
    name[inner] = np.arange(len(inner))
    name[leaves] = ~np.arange(len(leaves))
    names = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
    columns: dict[str, list[Any]] = {key: [] for key in names}
    sets: list[list[int]] = []
    for node in inner + start:
        kind_bits = _MISSING_BITS[MissingRule(forest.missing[node])]
        threshold = repr(float(forest.threshold[node]))
        if forest.kind[node] == SplitKind.CATEGORICAL:
            kind_bits, threshold = 1, str(len(sets))
            sets.append([sum(1 << int(code) for code in forest.categories_of(int(node)))])
        elif forest.default_left[node]:
            kind_bits |= 2
        columns["split_feature"].append(int(forest.feature[node]))
        columns["threshold"].append(threshold)
        columns["decision_type"].append(kind_bits)
        columns["left_child"].append(int(name[forest.left[node] - start]))
        columns["right_child"].append(int(name[forest.right[node] - start]))
    values = [repr(float(x)) for x in forest.value[leaves + start, 0]]
    return block(tree, tree_text(values, **columns, sets=sets))


@cache
def _fitted(kind: str, n_features: int, n_outputs: int, category: int | None) -> Any:
    """An estimator to be filled with other trees; its categorical column knows three codes."""
    from sklearn import ensemble

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, n_features))
    if category is not None:
        X[:, category] = np.arange(60) % N_CATEGORIES
    y = np.arange(60) % max(2, n_outputs)
    if kind == "gradient":
        estimator = ensemble.GradientBoostingClassifier(n_estimators=1, max_depth=1, init="zero")
    else:
        columns = None if category is None else [category]
        estimator = ensemble.HistGradientBoostingClassifier(
            max_iter=1, max_depth=2, categorical_features=columns, early_stopping=False
        )
    return estimator.fit(X, y)


def _gradient(forest: Forest, category: int | None) -> Any:
    assert category is None
    estimator = copy.copy(_fitted("gradient", forest.n_features, forest.n_outputs, None))
    template = estimator.estimators_[0, 0]
    trees = np.empty(forest.n_trees, dtype=object)
    for tree in range(forest.n_trees):
        start, stop = forest.tree_offset[tree : tree + 2]
        own = slice(start, stop)
        is_leaf = forest.kind[own] == SplitKind.LEAF
        state = template.tree_.__getstate__()
        nodes = np.zeros(stop - start, dtype=state["nodes"].dtype)
        nodes["left_child"] = np.where(is_leaf, -1, forest.left[own] - start)
        nodes["right_child"] = np.where(is_leaf, -1, forest.right[own] - start)
        nodes["feature"] = np.where(is_leaf, -2, forest.feature[own])
        nodes["threshold"] = np.where(is_leaf, -2.0, forest.threshold[own])
        nodes["n_node_samples"] = nodes["weighted_n_node_samples"] = 1
        state |= {"node_count": len(nodes), "nodes": nodes, "max_depth": 8}
        state["values"] = forest.value[own].reshape(-1, 1, 1).copy()
        filled = type(template.tree_)(forest.n_features, np.array([1], dtype=np.intp), 1)
        filled.__setstate__(state)
        trees[tree] = copy.copy(template)
        trees[tree].tree_ = filled
    estimator.estimators_ = trees.reshape(-1, forest.n_outputs)
    estimator.n_estimators = estimator.n_estimators_ = len(estimator.estimators_)
    estimator.learning_rate = 1.0
    return estimator


def _histogram(forest: Forest, category: int | None) -> Any:
    estimator = copy.copy(_fitted("histogram", forest.n_features, forest.n_outputs, category))
    template = estimator._predictors[0][0]
    # categorical columns come first in the matrix that the trees see
    order = [j for j in range(forest.n_features) if j == category]
    order += [j for j in range(forest.n_features) if j != category]
    position = np.argsort(order)
    predictors = []
    for tree in range(forest.n_trees):
        start, stop = forest.tree_offset[tree : tree + 2]
        own = slice(start, stop)
        is_leaf = forest.kind[own] == SplitKind.LEAF
        is_category = forest.kind[own] == SplitKind.CATEGORICAL
        nodes = np.zeros(stop - start, dtype=template.nodes.dtype)
        nodes["value"] = forest.value[own, 0]
        nodes["count"] = 1
        nodes["is_leaf"] = is_leaf
        nodes["feature_idx"] = np.where(is_leaf, 0, position[np.maximum(forest.feature[own], 0)])
        nodes["num_threshold"] = forest.threshold[own]
        nodes["missing_go_to_left"] = forest.default_left[own]
        nodes["left"] = np.where(is_leaf, 0, forest.left[own] - start)
        nodes["right"] = np.where(is_leaf, 0, forest.right[own] - start)
        nodes["is_categorical"] = is_category
        nodes["bitset_idx"] = np.where(is_category, np.cumsum(is_category) - 1, 0)
        bits = np.zeros((int(is_category.sum()), 8), dtype=np.uint32)
        for row, node in enumerate(np.flatnonzero(is_category) + start):
            bits[row, 0] = sum(1 << int(code) for code in forest.categories_of(int(node)))
        predictors.append(type(template)(nodes, bits.copy(), bits))
    k = forest.n_outputs
    estimator._predictors = [predictors[i : i + k] for i in range(0, len(predictors), k)]
    estimator._baseline_prediction = np.zeros_like(estimator._baseline_prediction)
    estimator.max_iter = len(estimator._predictors)
    return estimator
