"""Parse and check a LightGBM text file (format v4) before any native loader sees it.

The objective is not interpreted here.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from pine_boost import json_fields as f
from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import FloatArray
from pine_boost.parsers.lightgbm.tree import NUMBER, read_integer, read_integers, read_pairs, read_tree
from pine_boost.parsers.nodes import Nodes, stack

MAX_BYTES = 2**31 - 1  # the native loader counts in int32
_HEADER_KEYS = (
    "version",
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "objective",
    "average_output",
    "feature_names",
    "monotone_constraints",
    "feature_infos",
    "tree_sizes",
)
_BOUND = rf"(?:{NUMBER}|-?inf|-?nan)"
_FEATURE_INFO = re.compile(rf"none|\[{_BOUND}:{_BOUND}\]|-?[0-9]+(?::-?[0-9]+)*")
_CATEGORY_LIST = re.compile(r"-?[0-9]+(?::-?[0-9]+)*")
# LightGBM crashes on any other line of this section, and its Python package turns the values into JSON without
# escaping them: numbers, lists of numbers, lists of lists, and strings for all other names
_PARAMETER = re.compile(r"\[([a-z][a-z0-9_]*): ([^\x00-\x1f\x7f]*)\]")
_NUMERIC = frozenset(
    """num_iterations learning_rate num_leaves num_threads seed deterministic force_col_wise force_row_wise
    histogram_pool_size max_depth min_data_in_leaf min_sum_hessian_in_leaf bagging_fraction pos_bagging_fraction
    neg_bagging_fraction bagging_freq bagging_seed bagging_by_query feature_fraction feature_fraction_bynode
    feature_fraction_seed extra_trees extra_seed early_stopping_round early_stopping_min_delta first_metric_only
    max_delta_step lambda_l1 lambda_l2 linear_lambda min_gain_to_split drop_rate max_drop skip_drop xgboost_dart_mode
    uniform_drop drop_seed top_rate other_rate min_data_per_group max_cat_threshold cat_l2 cat_smooth
    max_cat_to_onehot top_k monotone_penalty refit_decay_rate cegb_tradeoff cegb_penalty_split path_smooth verbosity
    saved_feature_importance_type use_quantized_grad num_grad_quant_bins quant_train_renew_leaf stochastic_rounding
    linear_tree max_bin min_data_in_bin bin_construct_sample_cnt data_random_seed is_enable_sparse enable_bundle
    use_missing zero_as_missing feature_pre_filter pre_partition two_round header precise_float_parser objective_seed
    num_class is_unbalance scale_pos_weight sigmoid boost_from_average reg_sqrt alpha fair_c poisson_max_delta_step
    tweedie_variance_power lambdarank_truncation_level lambdarank_norm lambdarank_position_bias_regularization
    multi_error_top_k num_machines local_listen_port time_out gpu_platform_id gpu_device_id gpu_use_dp
    num_gpu""".split()  # noqa: SIM905  (as a list it would be ninety lines)
)
_LISTS = {
    "auc_mu_weights",
    "categorical_feature",
    "cegb_penalty_feature_coupled",
    "cegb_penalty_feature_lazy",
    "eval_at",
    "feature_contri",
    "ignore_column",
    "interaction_constraints",
    "label_gain",
    "max_bin_by_feature",
    "monotone_constraints",
}
_NUMBER = re.compile(NUMBER)


@dataclass(frozen=True, eq=False)
class LightgbmDocument:
    """A validated LightGBM text file.

    Attributes
    ----------
    objective : str or None
        The objective line as written, None for a custom objective.
    average_output : bool
        Random forest: ``predict`` divides the sum by the number of rounds.
    num_class : int
        Number of trees per round.
    feature_infos, monotone_constraints : tuple
        As written, one entry per feature (constraints may be empty).
    trees : Nodes
        Of every tree the inner nodes, then the leaves.
    shrinkage : float64 (n_trees,)
    parameters : tuple of (str, str)
        The parameters section in file order.
    pandas_categorical : tuple of tuple, or None
        Categories of the pandas ``category`` columns of the training table, in column order.
    has_pandas_line : bool
        False for files of LightGBM's own command line.
    best_iteration : int
        Rounds used by ``predict`` of a live Booster; 0 means all. Files do not store it.
    """

    num_class: int
    label_index: int
    objective: str | None
    average_output: bool
    feature_names: tuple[str, ...]
    feature_infos: tuple[str, ...]
    monotone_constraints: tuple[int, ...]
    trees: Nodes
    shrinkage: FloatArray
    parameters: tuple[tuple[str, str], ...]
    pandas_categorical: tuple[tuple[Any, ...], ...] | None
    has_pandas_line: bool
    best_iteration: int = 0

    @property
    def n_rounds(self) -> int:
        """Number of rounds in the text."""
        return self.trees.n_trees // self.num_class

    @property
    def n_used_rounds(self) -> int:
        """Number of rounds that the native ``predict`` uses."""
        return min(self.best_iteration, self.n_rounds) if self.best_iteration > 0 else self.n_rounds

    def parameter(self, key: str) -> str | None:
        """Return the text of a parameter, None if the file does not have it."""
        return dict(self.parameters).get(key)

    def category_features(self) -> list[int]:
        """Return the ascending indices of the features trained as categorical."""
        listed = self.parameter("categorical_feature")
        if listed and re.fullmatch(r"[0-9]{1,9}(?:,[0-9]{1,9})*", listed):
            return sorted({int(i) for i in listed.split(",")})
        infos = enumerate(self.feature_infos)
        return [i for i, info in infos if _CATEGORY_LIST.fullmatch(info)]


def read_document(contents: bytes) -> LightgbmDocument:
    """Parse and validate LightGBM text.

    Parameters
    ----------
    contents : bytes
        UTF-8, lines ending in LF; LightGBM itself aborts on CRLF.

    Raises
    ------
    MalformedModelError
        The text is not what LightGBM writes.
    UnsupportedModelError
        A format version other than v4, or linear leaves.
    """
    with f.reading("LightGBM text", "Save the model again"):
        return _read(contents)


def _read(contents: bytes) -> LightgbmDocument:
    f.require(len(contents) <= MAX_BYTES, f"it has {len(contents)} bytes, at most {MAX_BYTES} are accepted")
    f.require(
        b"\r" not in contents, "it has CR line ends, on which LightGBM itself aborts; write it with LF (dos2unix)"
    )
    f.require(b"\x00" not in contents, "it contains a zero byte")
    head, blank, _ = contents.partition(b"\n\n")
    f.require(bool(blank), "the header does not end in an empty line (truncated?)")
    header = _read_header(_decode(head))
    n_features = read_integer(header, "max_feature_idx", "the header", 0, 2**31 - 2) + 1
    num_class = read_integer(header, "num_class", "the header", 1, 1_000_000)
    per_round = read_integer(header, "num_tree_per_iteration", "the header", 1, 1_000_000)
    f.require(per_round == num_class, f"num_tree_per_iteration={per_round} does not match num_class={num_class}")
    names = _split_per_feature(header, "feature_names", n_features)
    f.require(len(set(names)) == n_features, "a feature name appears twice")
    infos = _split_per_feature(header, "feature_infos", n_features)
    for info in infos:
        f.require(bool(_FEATURE_INFO.fullmatch(info)), f"feature_infos has the entry {info[:60]!r}")
    trees, shrinkage, tail = _read_trees(header, contents, len(head) + 2, n_features, num_class)
    return LightgbmDocument(
        num_class=num_class,
        label_index=read_integer(header, "label_index", "the header", 0, 2**31 - 2),
        objective=header.get("objective"),
        average_output="average_output" in header,
        feature_names=names,
        feature_infos=infos,
        monotone_constraints=_read_constraints(header, n_features),
        trees=trees,
        shrinkage=shrinkage,
        **_read_tail(_decode(tail)),
    )


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise f.FieldError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from error


def _read_header(text: str) -> dict[str, str]:
    first, _, rest = text.partition("\n")
    f.require(first == "tree", f"it starts with {first[:30]!r}, expected the line 'tree'")
    header = read_pairs(rest.split("\n"), "the header", bare=frozenset({"average_output"}))
    if header.get("version") != "v4":
        raise UnsupportedModelError(
            f"The LightGBM text has version {header.get('version', '(none)')[:30]!r}, only 'v4' "
            "(LightGBM 4.x) is supported; load and save it with LightGBM 4."
        )
    for key in header:
        f.require(key in _HEADER_KEYS, f"the header has the unknown key {key[:60]!r}")
    f.require(not header.get("average_output"), "average_output has a value")
    return header


def _split_per_feature(header: dict[str, str], key: str, n_features: int) -> tuple[str, ...]:
    entries = tuple(header.get(key, "").split(" "))
    fits = len(entries) == n_features and all(entries)
    f.require(fits, f"{key} has {len(entries)} entries for {n_features} features (max_feature_idx)")
    return entries


def _read_trees(
    header: dict[str, str], data: bytes, start: int, n_features: int, num_class: int
) -> tuple[Nodes, FloatArray, bytes]:
    f.require("tree_sizes" in header, "the line tree_sizes is missing")
    sizes = read_integers(header["tree_sizes"], "tree_sizes")
    f.require(len(sizes) > 0, "it has no trees")
    f.require(len(sizes) % num_class == 0, f"{len(sizes)} trees are not whole rounds of num_class={num_class}")
    fits = sizes.min() >= 1 and sizes.max() <= len(data) and sizes.sum() <= len(data) - start
    f.require(bool(fits), "tree_sizes do not fit the length of the text (truncated?)")
    trees = []
    for index, size in enumerate(sizes.tolist()):
        block = data[start : start + size]
        # the native loader cuts the text at these byte counts unchecked, so they must agree with it
        agrees = block.endswith(b"\n\n\n") and not block.startswith(b"\n") and b"\n\n" not in block[:-3]
        f.require(agrees, f"tree_sizes and the block of tree {index} do not agree")
        trees.append(read_tree(_decode(block[:-3]), index, n_features))
        start += size
    f.require(data.startswith(b"end of trees\n\n", start), "tree_sizes do not lead to the line 'end of trees'")
    parts, shrinkage = zip(*trees, strict=True)
    return stack(parts), np.array(shrinkage), data[start + len(b"end of trees\n\n") :]


def _read_constraints(header: dict[str, str], n_features: int) -> tuple[int, ...]:
    if "monotone_constraints" not in header:
        return ()
    array = read_integers(header["monotone_constraints"], "monotone_constraints")
    fits = len(array) == n_features and np.all(np.abs(array) <= 1)
    f.require(bool(fits), f"monotone_constraints are not {n_features} numbers of -1, 0 and 1")
    return tuple(int(i) for i in array)


def _read_tail(text: str) -> dict[str, Any]:
    """Read importances (recomputed on writing), parameters and pandas categories."""
    importances, marker, rest = text.partition("\nparameters:\n")
    f.require(bool(marker), "the section 'parameters:' is missing (truncated?)")
    lines = importances.split("\n")
    is_whole = lines[0] == "feature_importances:" and lines[-1] == ""
    f.require(is_whole, "the section 'feature_importances:' is missing")
    for line in lines[1:-1]:
        f.require(bool(re.fullmatch(r"[^ ]+=[0-9]+", line)), f"feature_importances has the line {line[:60]!r}")
    body, marker, rest = rest.partition("\nend of parameters\n")
    f.require(bool(marker) and body.endswith("\n"), "the line 'end of parameters' is missing (truncated?)")
    parameters = []
    for line in body[:-1].split("\n"):
        match = _PARAMETER.fullmatch(line)
        if not match:
            raise f.FieldError(f"parameters has the line {line[:60]!r}, expected '[key: value]'")
        fault = f"the parameter {match[1]} is {match[2][:60]!r}, which LightGBM cannot read back"
        f.require(_is_readable(match[1], match[2]), fault)
        parameters.append((match[1], match[2]))
    f.require(len(dict(parameters)) == len(parameters), "a parameter appears twice")
    found = {"parameters": tuple(parameters), "pandas_categorical": None, "has_pandas_line": False}
    if rest == "":
        return found
    is_line = re.fullmatch(r"\npandas_categorical:[^\n]*\n", rest)
    f.require(bool(is_line), f"after the parameters comes {rest[:40]!r} (truncated?)")
    try:
        listed = f.parse_text(rest[len("\npandas_categorical:") : -1])
    except f.FieldError as error:
        raise f.FieldError(f"pandas_categorical: {error}") from error
    categories = f.optional(f.sequence(_categories))(listed, "pandas_categorical")
    return {**found, "pandas_categorical": categories, "has_pandas_line": True}


def _is_readable(name: str, value: str) -> bool:
    """Return whether LightGBM's Python package can read the value of a parameter back."""
    if name in _NUMERIC:
        return _NUMBER.fullmatch(value) is not None
    try:
        f.parse_text(f"[{value}]" if name in _LISTS else f'"{value}"')
    except f.FieldError:
        return False
    return True


def _categories(value: Any, where: str) -> tuple[Any, ...]:
    column: tuple[Any, ...] = f.sequence(_category)(value, where)
    # pandas compares 64-bit integers as floats if there is a float among them
    are_floats = {type(one) for one in column} == {int, float}
    distinct = {float(one) if are_floats and abs(one) < 2**64 else one for one in column}
    f.require(len(distinct) == len(column), f"{where} has a category twice, which no table can have")
    return column


def _category(value: Any, where: str) -> Any:
    fits = isinstance(value, (str, int, float)) and value not in (math.inf, -math.inf)
    f.require(fits, f"{where} has a category that is not a text, a number or a bool")
    return value
