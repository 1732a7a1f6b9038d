"""A corpus of damaged XGBoost files: truncations, flipped bits, and every fault of the facts.

In come three healthy files written by XGBoost; out go (name, bytes) pairs that no reader may
accept. Run as a script it writes the corpus to a folder for other tools.
"""

import copy
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.xgboost_models import move_weights

Case = tuple[str, bytes]
Edit = Callable[[dict[str, Any]], Any]


@cache
def healthy_files() -> dict[str, bytes]:
    """Small models that cover what a file may contain: categories, dart, several classes."""
    import pandas
    import xgboost

    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 3))
    rows[:, 2] = random.integers(0, 6, 200)
    names = ["a", "b", "c"]
    options: dict[str, Any] = {"max_depth": 3, "nthread": 1, "tree_method": "hist"}
    binary_data = xgboost.DMatrix(
        rows,
        (rows[:, 0] > 0) ^ np.isin(rows[:, 2], [1, 4]),
        feature_names=names,
        feature_types=["float", "float", "c"],
        enable_categorical=True,
    )
    binary = xgboost.train({**options, "objective": "binary:logistic"}, binary_data, 3)
    multi = xgboost.train(
        {**options, "objective": "multi:softprob", "num_class": 3, "booster": "dart", "rate_drop": 0.5},
        xgboost.DMatrix(rows, np.digitize(rows[:, 0], [-0.5, 0.5]), feature_names=names),
        2,
    )
    dart = json.loads(multi.save_raw("json"))
    move_weights(dart, (1, 7))
    table = pandas.DataFrame(
        {"x": rows[:, 0], "k": pandas.Categorical(rows[:, 2].astype(int)), "n": pandas.Categorical(list("uvwx") * 50)}
    )
    labels = ((rows[:, 0] > 0) ^ (rows[:, 2] == 2)).astype(int)
    wrapper = xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1, enable_categorical=True)
    pandas_booster = wrapper.fit(table, labels).get_booster()
    return {
        "binary.json": bytes(binary.save_raw("json")),
        "binary.ubj": bytes(binary.save_raw("ubj")),
        "multi.json": json.dumps(dart).encode(),
        "pandas.json": bytes(pandas_booster.save_raw("json")),
    }


def malformed_files() -> list[Case]:
    """Every damaged file, by name; names are unique."""
    healthy = healthy_files()
    cases = [
        *_surroundings(healthy),
        *_flips(healthy),
        *_edited("binary", healthy["binary.json"], _BINARY_EDITS),
        *_edited("multi", healthy["multi.json"], _MULTI_EDITS),
        *_edited("pandas", healthy["pandas.json"], _PANDAS_EDITS),
    ]
    assert len({name for name, _ in cases}) == len(cases)
    return cases


def _surroundings(healthy: dict[str, bytes]) -> Iterator[Case]:
    text, binary = healthy["binary.json"], healthy["binary.ubj"]
    yield "empty", b""
    yield "spaces", b"  \n"
    yield "json with trailing garbage", text + b"x"
    yield "json twice", text + text
    yield "ubj with trailing garbage", binary + b"\x00"
    yield "ubj twice", binary + binary
    yield "deep json", b'{"learner":' + b"[" * 200_000
    yield "deep ubj", b"{L" + (1).to_bytes(8, "big") + b"a" + b"[" * 100_000
    yield "json list", b"[1,2]"
    yield "json number of 9000 digits", b'{"version":' + b"9" * 9000 + b"}"
    yield "json is latin-1", text.replace(b'"a"', b'"\xe9"')
    yield "json in utf-16", text.decode().encode("utf-16")
    yield "json with a byte order mark", b"\xef\xbb\xbf" + text
    yield "json with a lone surrogate", text.replace(b'"a"', b'"\\ud800"')
    yield "json with learner twice", text[:-1] + b',"learner":{}}'
    yield "json with a tree id twice", text.replace(b'"id":1', b'"id":1,"id":1')
    yield "ubj key twice", b"{" + 2 * (b"L" + (1).to_bytes(8, "big") + b"aT") + b"}"
    yield "ubj unknown marker", b"{L" + (1).to_bytes(8, "big") + b"aX}"
    huge = b"[$d#L" + (2**62).to_bytes(8, "big")
    yield "ubj huge typed array", b"{L" + (1).to_bytes(8, "big") + b"a" + huge + b"}"
    yield "ubj negative count", b"{L" + (1).to_bytes(8, "big") + b"a[#i\xff}"
    yield "ubj huge key", b"{L\x7f" + b"\xff" * 7


def _flips(healthy: dict[str, bytes]) -> Iterator[Case]:
    """One bit flipped where the structure of the file sits, never in a free number or a name."""
    binary = healthy["binary.ubj"]
    keys = "learner gradient_booster trees split_conditions tree_param version objective"
    for key in f"{keys} base_score left_children num_trees".encode().split():
        start = binary.index(key)
        for what, position in (("key", start), ("length", start - 1), ("type", start - 9)):
            flipped = bytearray(binary)
            flipped[position] ^= 4
            yield f"binary.ubj {key.decode()} {what} flipped", bytes(flipped)
    text = healthy["binary.json"]
    for position in [i for i, c in enumerate(text) if c in b"{}[]:"][::40]:
        flipped = bytearray(text)
        flipped[position] ^= 1
        yield f"binary.json structure flipped at {position}", bytes(flipped)


def _edited(name: str, contents: bytes, edits: dict[str, Edit]) -> Iterator[Case]:
    root = json.loads(contents)
    for what, edit in edits.items():
        damaged = copy.deepcopy(root)
        edit(damaged)
        yield f"{name}: {what}", json.dumps(damaged).encode()


def _learner(root: dict[str, Any]) -> dict[str, Any]:
    return root["learner"]  # type: ignore[no-any-return]


def _param(root: dict[str, Any]) -> dict[str, Any]:
    return _learner(root)["learner_model_param"]  # type: ignore[no-any-return]


def _model(root: dict[str, Any]) -> dict[str, Any]:
    booster = _learner(root)["gradient_booster"]
    return booster.get("gbtree", booster)["model"]  # type: ignore[no-any-return]


def _tree(root: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return _model(root)["trees"][index]  # type: ignore[no-any-return]


def _put(where: Callable[[dict[str, Any]], Any], key: Any, value: Any) -> Edit:
    def edit(root: dict[str, Any]) -> None:
        where(root)[key] = value

    return edit


def _drop(where: Callable[[dict[str, Any]], Any], key: Any) -> Edit:
    return lambda root: where(root).pop(key)


def _entry(field: str, index: int, value: Any, where: Callable[..., Any] = _tree) -> Edit:
    def edit(root: dict[str, Any]) -> None:
        where(root)[field][index] = value

    return edit


def _first_leaf(root: dict[str, Any]) -> int:
    return _tree(root)["left_children"].index(-1)  # type: ignore[no-any-return]


def _leaf_value(value: Any) -> Edit:
    return lambda root: _tree(root)["split_conditions"].__setitem__(_first_leaf(root), value)


def _unreachable(root: dict[str, Any]) -> None:
    leaf = _first_leaf(root)
    parent = _tree(root)["parents"][leaf]
    _tree(root)["left_children"][parent] = _tree(root)["right_children"][parent] = -1


def _reverse_siblings(root: dict[str, Any]) -> None:
    tree = _tree(root)
    tree["left_children"][0], tree["right_children"][0] = 2, 1


def _self_cycle(root: dict[str, Any]) -> None:
    leaf = _first_leaf(root)
    _tree(root)["left_children"][leaf], _tree(root)["right_children"][leaf] = 1, 2


def _detached_cycle(root: dict[str, Any]) -> None:
    """Node 1 and its child become each other's children: no root reaches them."""
    tree = _tree(root)
    left = tree["left_children"][1]
    tree["left_children"][0] = tree["right_children"][0] = -1
    tree["left_children"][left], tree["right_children"][left] = 1, 2
    tree["parents"][1] = tree["parents"][2] = left


_BINARY_EDITS: dict[str, Edit] = {
    "duplicate tree id": _put(lambda r: _tree(r, 1), "id", 0),
    "negative tree id": _put(_tree, "id", -1),
    "tree id as text": _put(_tree, "id", "zero"),
    "child out of range": _entry("left_children", 0, 9999),
    "right child out of range": _entry("right_children", 0, 9999),
    "negative child": _entry("left_children", 0, -2),
    "child is the root": _self_cycle,
    "cycle apart from the root": _detached_cycle,
    "left valid, right -1": _entry("right_children", 0, -1),
    "right valid, left -1": _entry("left_children", 0, -1),
    "right child is not left + 1": _reverse_siblings,
    "unreachable nodes": _unreachable,
    "parent of another node": _entry("parents", 1, 3),
    "root with a parent": _entry("parents", 0, 0),
    "num_deleted without deleted nodes": _put(lambda r: _tree(r)["tree_param"], "num_deleted", "2"),
    "split index huge": _entry("split_indices", 0, 2**31 - 1),
    "split index negative": _entry("split_indices", 0, -1),
    "split index one too large": _entry("split_indices", 0, 3),
    "split index beyond 64 bits": _entry("split_indices", 0, 2**70),
    "threshold NaN": _entry("split_conditions", 0, float("nan")),
    "threshold infinite": _entry("split_conditions", 0, float("inf")),
    "threshold an integer": _entry("split_conditions", 0, 1),
    "threshold text": _entry("split_conditions", 0, "0.5"),
    "threshold null": _entry("split_conditions", 0, None),
    "threshold between two floats": _entry("split_conditions", 0, 1.0 + 2.0**-24),
    "leaf NaN": _leaf_value(float("nan")),
    "leaf infinite": _leaf_value(float("-inf")),
    "leaf beyond float32": _leaf_value(1e39),
    "leaf beyond float64": _leaf_value(float("1e999")),
    "base weight NaN": _entry("base_weights", 0, float("nan")),
    "hessian infinite": _entry("sum_hessian", 0, float("inf")),
    "default_left 2": _entry("default_left", 0, 2),
    "default_left true": _entry("default_left", 0, True),
    "split_type 2": _entry("split_type", 0, 2),
    "split_type 1 without categories": lambda r: _tree(r).update(split_type=[1 - v for v in _tree(r)["split_type"]]),
    "children of wrong length": lambda r: _tree(r)["left_children"].pop(),
    "conditions of wrong length": lambda r: _tree(r)["split_conditions"].append(0.5),
    "float child": _entry("left_children", 0, 1.0),
    "children are an object": _put(_tree, "left_children", {}),
    "num_nodes wrong": _put(lambda r: _tree(r)["tree_param"], "num_nodes", "3000"),
    "num_nodes zero": _put(lambda r: _tree(r)["tree_param"], "num_nodes", "0"),
    "num_nodes not a number": _put(lambda r: _tree(r)["tree_param"], "num_nodes", "seven"),
    "tree num_feature wrong": _put(lambda r: _tree(r)["tree_param"], "num_feature", "4"),
    "size_leaf_vector 3": _put(lambda r: _tree(r)["tree_param"], "size_leaf_vector", "3"),
    "size_leaf_vector negative": _put(lambda r: _tree(r)["tree_param"], "size_leaf_vector", "-1"),
    "leaf weights of a scalar tree": _put(_tree, "leaf_weights", [0.5]),
    "unknown tree field": _put(_tree, "leaf_boost", [0.5]),
    "tree is a list": _put(lambda r: _model(r)["trees"], 0, []),
    "no trees": lambda r: _model(r).update(
        trees=[], tree_info=[], iteration_indptr=[0], gbtree_model_param={"num_trees": "0", "num_parallel_tree": "1"}
    ),
    "category segment out of range": _entry("categories_segments", -1, 999),
    "category segment negative": _entry("categories_segments", 0, -1),
    "category size huge": _entry("categories_sizes", 0, 2**40),
    "category size zero": _entry("categories_sizes", 0, 0),
    "category node out of range": _entry("categories_nodes", 0, 999),
    "category negative": _entry("categories", 0, -1),
    "category huge": _entry("categories", 0, 2**24),
    "categories gone": lambda r: _tree(r).update(
        categories=[], categories_nodes=[], categories_segments=[], categories_sizes=[]
    ),
    "tree_info out of range": _entry("tree_info", 0, 1, _model),
    "tree_info negative": _entry("tree_info", 0, -1, _model),
    "tree_info short": lambda r: _model(r)["tree_info"].pop(),
    "indptr negative": _entry("iteration_indptr", 1, -1, _model),
    "indptr not monotone": _put(_model, "iteration_indptr", [0, 2, 1, 3]),
    "indptr stale": _put(_model, "iteration_indptr", [0, 1, 2]),
    "indptr does not start at 0": _put(_model, "iteration_indptr", [1, 2, 3]),
    "indptr empty": _put(_model, "iteration_indptr", []),
    "num_trees wrong": _put(lambda r: _model(r)["gbtree_model_param"], "num_trees", "2"),
    "num_trees huge": _put(lambda r: _model(r)["gbtree_model_param"], "num_trees", "9" * 30),
    "num_parallel_tree 0": _put(lambda r: _model(r)["gbtree_model_param"], "num_parallel_tree", "0"),
    "unknown booster": _put(lambda r: _learner(r)["gradient_booster"], "name", "gbforest"),
    "booster is gblinear": _put(lambda r: _learner(r)["gradient_booster"], "name", "gblinear"),
    "weight missing in the model": _put(_model, "weight_drop", [1.0, 1.0]),
    "weight missing beside the model": _put(lambda r: _booster(r), "weight_drop", [1.0, 1.0]),
    "dart without weights": _put(lambda r: _learner(r)["gradient_booster"], "name", "dart"),
    "unknown objective": _put(lambda r: _learner(r)["objective"], "name", "binary:magic"),
    "objective without a name": _drop(lambda r: _learner(r)["objective"], "name"),
    "objective parameter is a number": _put(
        lambda r: _learner(r)["objective"], "reg_loss_param", {"scale_pos_weight": 1.5}
    ),
    "no learner": _drop(lambda r: r, "learner"),
    "no version": _drop(lambda r: r, "version"),
    "no objective": _drop(_learner, "objective"),
    "no booster": _drop(_learner, "gradient_booster"),
    "no parameters": _drop(_learner, "learner_model_param"),
    "no tree list": _drop(_model, "trees"),
    "no tree_info": _drop(_model, "tree_info"),
    "no children": _drop(_tree, "left_children"),
    "no base_score": _drop(_param, "base_score"),
    "future version": _put(lambda r: r, "version", [4, 0, 0]),
    "old version": _put(lambda r: r, "version", [0, 90, 0]),
    "version of two": _put(lambda r: r, "version", [3, 2]),
    "num_class does not match": _put(_param, "num_class", "3"),
    "num_class huge": _put(_param, "num_class", "2147483647"),
    "num_class negative": _put(_param, "num_class", "-1"),
    "num_feature huge": _put(_param, "num_feature", "4294967295"),
    "num_feature zero": _put(_param, "num_feature", "0"),
    "num_feature too small": _put(_param, "num_feature", "2"),
    "num_target 2": _put(_param, "num_target", "2"),
    "base_score not a number": _put(_param, "base_score", "half"),
    "base_score nan": _put(_param, "base_score", "nan"),
    "base_score beyond float32": _put(_param, "base_score", "1e99"),
    "base_score no probability": _put(_param, "base_score", "[1.5E0]"),
    "base_score of two": _put(_param, "base_score", "[5E-1,5E-1]"),
    "base_score empty": _put(_param, "base_score", "[]"),
    "base_score a number": _put(_param, "base_score", 0.5),
    "feature name missing": lambda r: _learner(r)["feature_names"].pop(),
    "feature name twice": _put(_learner, "feature_names", ["a", "a", "c"]),
    "feature name a number": _put(_learner, "feature_names", ["a", 2, "c"]),
    "feature type unknown": _put(_learner, "feature_types", ["float", "colour", "c"]),
    "attribute a number": _put(_learner, "attributes", {"best_iteration": 3}),
    "wrapper file with best_iteration too large": _put(
        _learner, "attributes", {"scikit_learn": "{}", "best_iteration": "3"}
    ),
    "wrapper file with best_iteration no number": _put(
        _learner, "attributes", {"scikit_learn": "{}", "best_iteration": "last"}
    ),
    "unknown section": _put(_learner, "plugin", {}),
}


def _booster(root: dict[str, Any]) -> dict[str, Any]:
    return _learner(root)["gradient_booster"]  # type: ignore[no-any-return]


_MULTI_EDITS: dict[str, Edit] = {
    "weight missing": lambda r: _booster(r)["weight_drop"].pop(),
    "weight too many": lambda r: _booster(r)["weight_drop"].append(1.0),
    "weight NaN": _entry("weight_drop", 0, float("nan"), _booster),
    "weight an integer": _entry("weight_drop", 0, 1, _booster),
    "weight that overflows the leaves": _entry(
        "weight_drop", 0, 3e38, lambda r: (_leaf_value(3e38)(r), _booster(r))[1]
    ),
    "weights in the inner booster, too": lambda r: _booster(r)["gbtree"].update(weight_drop=[1.0] * 6),
    "weights in the model, too": lambda r: _model(r).update(weight_drop=[1.0] * 6),
    "inner booster is dart": _put(lambda r: _booster(r)["gbtree"], "name", "dart"),
    "tree_info beyond num_class": _entry("tree_info", 0, 3, _model),
    "num_class of the objective differs": _put(
        lambda r: _learner(r)["objective"]["softmax_multiclass_param"], "num_class", "4"
    ),
    "num_class of the learner differs": _put(_param, "num_class", "4"),
    "part of a round without indptr": lambda r: (
        _model(r).pop("iteration_indptr"),
        _model(r)["trees"].pop(),
        _model(r)["tree_info"].pop(),
        _booster(r)["weight_drop"].pop(),
        _model(r)["gbtree_model_param"].update(num_trees="5"),
    ),
    "base_score of two for three": _put(_param, "base_score", "[1E0,2E0]"),
    "no softmax parameters": _drop(lambda r: _learner(r)["objective"], "softmax_multiclass_param"),
}


def _cats(root: dict[str, Any]) -> dict[str, Any]:
    return _model(root)["cats"]  # type: ignore[no-any-return]


_PANDAS_EDITS: dict[str, Edit] = {
    "category table of one feature gone": lambda r: _cats(r)["enc"].pop(),
    "category table all gone": _put(_cats, "enc", []),
    "category offsets go back": _put(lambda r: _cats(r)["enc"][2], "offsets", [0, 2, 1, 3, 4]),
    "category offsets too long": _put(lambda r: _cats(r)["enc"][2], "offsets", [0, 1, 2, 3, 99]),
    "category name twice": _put(lambda r: _cats(r)["enc"][2], "values", [117, 117, 119, 120]),
    "category letter no byte": _put(lambda r: _cats(r)["enc"][2], "values", [999, 1, 2, 3]),
    "category value twice": _put(lambda r: _cats(r)["enc"][1], "values", [0, 0, 2, 3, 4, 5]),
    "category value a float": _put(lambda r: _cats(r)["enc"][1], "values", [0.5, 1, 2, 3, 4, 5]),
    "category segments wrong": _entry("feature_segments", 1, 3, _cats),
    "category order no permutation": _entry("sorted_idx", 0, 1, _cats),
    "unknown field in cats": _put(_cats, "hash", "x"),
}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for i, (_, damaged) in enumerate(malformed_files()):
        (folder / f"{i:03}.bin").write_bytes(damaged)
