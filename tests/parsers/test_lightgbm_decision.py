"""Where LightGBM's label changes: measured on models of constant leaves, compared with ours."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError, MalformedModelError, UnsupportedModelError
from pine_boost.model.exact import LIGHTGBM_ZERO
from pine_boost.model.reference import find_leaves, native_margins
from pine_boost.model.rules import MissingRule
from pine_boost.parsers.lightgbm.decision import class_gap, one_against_all_guard, read_objective
from pine_boost.parsers.lightgbm.read import read_lightgbm
from tests.support.lightgbm_texts import leaf, split, text_of

lgb = pytest.importorskip("lightgbm")

SIGMOIDS = ("1", "2", "0.5", "0.7", "3", "10", "0.1", "0.123457", "1e-05", "37.5")


def probability(text: str) -> Any:
    return lgb.Booster(model_str=text).predict(np.zeros((1, 1)), num_threads=1)[0]


def largest_without(is_one: Callable[[float], bool], highest: float = 1.0) -> float:
    """The largest double in [0, highest] for which ``is_one`` is still false, by bisection."""
    low, high = 0, struct.unpack("<q", struct.pack("<d", highest))[0]
    while high - low > 1:
        middle = (low + high) // 2
        if is_one(struct.unpack("<d", struct.pack("<q", middle))[0]):
            high = middle
        else:
            low = middle
    return float(struct.unpack("<d", struct.pack("<q", low))[0])


@pytest.mark.parametrize("sigmoid", SIGMOIDS)
@pytest.mark.parametrize("n_averaged", [0, 3, 7])
def test_binary_cut_is_the_native_boundary(sigmoid: str, n_averaged: int) -> None:
    objective = f"binary sigmoid:{sigmoid}"

    def text(value: float) -> str:
        blocks = [leaf(value)] + [leaf(0.0)] * (n_averaged - 1)
        return text_of(blocks, objective, average=n_averaged > 0)

    def is_one(value: float) -> bool:
        p = probability(text(value))
        return bool(np.argmax([1.0 - p, p]) == 1)  # as LGBMClassifier does

    boundary = largest_without(is_one)
    decision = read_lightgbm(text(1.0).encode()).forest.decision
    assert abs(decision.cuts[0] - boundary) <= decision.guard
    if sigmoid == "1" and n_averaged == 0:
        assert decision.cuts[0] == boundary
        assert decision.guard == 0


@pytest.mark.parametrize("threshold", [0.5, 0.1, 0.9, 0.3333, 0.999, 1e-6, 1 - 1e-9])
@pytest.mark.parametrize("sigmoid", ["1", "0.7", "3"])
@pytest.mark.parametrize("n_averaged", [0, 7])
def test_threshold_cut_covers_the_native_boundary(threshold: float, sigmoid: str, n_averaged: int) -> None:
    def text(value: float) -> str:
        blocks = [leaf(value)] + [leaf(0.0)] * (n_averaged - 1)
        return text_of(blocks, f"binary sigmoid:{sigmoid}", average=n_averaged > 0)

    decision = read_lightgbm(text(1.0).encode(), threshold=threshold).forest.decision
    assert decision.thresholds == (threshold,)
    sign = 1.0 if decision.cuts[0] >= 0 else -1.0
    for compare in (np.greater, np.greater_equal):
        boundary = sign * largest_without(
            lambda x: bool(compare(probability(text(sign * x)), threshold)) == (sign > 0),  # noqa: B023
            1e4,
        )
        assert abs(decision.cuts[0] - boundary) <= decision.guard
    assert decision.guard < 1e-4 * (1 + abs(decision.cuts[0]))


@pytest.mark.parametrize("gap", [0.0, 2.0**-55, 2.0**-53, 2.0**-52, 2.0**-51, 2.0**-47])
@pytest.mark.parametrize("average", [False, True])
def test_softmax_order_beyond_the_guard(gap: float, average: bool) -> None:
    random = np.random.default_rng(3)
    for base in (0.0, *random.normal(size=15) * 4):
        values = np.array([base, base + gap, base - 1.0])
        text = text_of([leaf(v) for v in values.tolist()], "multiclass num_class:3", 3, average)
        forest = read_lightgbm(text.encode()).forest
        native = int(np.argmax(probability(text)))
        if values[1] - values[0] > forest.decision.guard:
            assert native == 1
        assert native in (0, 1)


@pytest.mark.parametrize("sigmoid", ["1", "0.3", "4"])
@pytest.mark.parametrize("score", [-600.0, -30.0, -1.0, 0.0, 1.0, 8.0, 20.0, 25.0])
def test_one_against_all_order_beyond_the_guard(sigmoid: str, score: float) -> None:
    base = score / float(sigmoid)
    blocks = [leaf(base), leaf(base), leaf(base - 1)]
    text = text_of(blocks, f"multiclassova num_class:3 sigmoid:{sigmoid}", 3)
    scores = np.array([base, base, base - 1])
    line = f"multiclassova num_class:3 sigmoid:{sigmoid}"
    guard = class_gap(read_objective(line, 3), 1, scores, scores)  # without the headroom
    assert guard < read_lightgbm(text.encode()).forest.decision.guard
    for factor in (1.01, 2.0, 7.3):
        for winner in (0, 1):
            values = [base, base, base - 1]
            values[winner] += factor * guard
            blocks = [leaf(v) for v in values]
            text = text_of(blocks, f"multiclassova num_class:3 sigmoid:{sigmoid}", 3)
            assert int(np.argmax(probability(text))) == winner


def test_one_against_all_that_saturates_is_refused() -> None:
    text = text_of([leaf(40.0), leaf(50.0), leaf(0.0)], "multiclassova num_class:3 sigmoid:1", 3)
    assert int(np.argmax(probability(text))) == 0  # both are 1.0: the lower score wins natively
    with pytest.raises(UnsupportedModelError, match="multiclass"):
        read_lightgbm(text.encode())
    with pytest.raises(UnsupportedModelError):
        one_against_all_guard(1.0, np.array([-800.0, -900.0]), np.array([-800.0, -900.0]))


@pytest.mark.parametrize("decision_type", [0, 2, 4, 6, 8, 10])
@pytest.mark.parametrize(
    "threshold",
    [
        "0",
        "-0",
        "1",
        "-1",
        "1.0000000180025095e-35",
        "-1.0000000180025095e-35",
        "5e-324",
        "2e-35",
        "-2e-35",
        "inf",
        "-inf",
        "1e300",
        "0.1",
    ],
)
def test_every_missing_type_default_side_and_threshold(decision_type: int, threshold: str) -> None:
    edge = float(threshold)
    values = [
        edge,
        np.nextafter(edge, np.inf),
        np.nextafter(edge, -np.inf),
        np.nan,
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        LIGHTGBM_ZERO,
        -LIGHTGBM_ZERO,
        np.nextafter(LIGHTGBM_ZERO, 1),
        np.nextafter(-LIGHTGBM_ZERO, -1),
        1e-36,
        -1e-36,
        1.0,
        -1.0,
        3.0,
        np.inf,
        -np.inf,
        1e308,
    ]
    X = np.array(values)[:, None]
    text = text_of([split(threshold, decision_type)], "binary sigmoid:1")
    forest = read_lightgbm(text.encode()).forest
    assert MissingRule(forest.missing[0]).name == ("NAN_IS_ZERO", "ZERO_IS_MISSING", "DEFAULT")[decision_type >> 2]
    native = lgb.Booster(model_str=text).predict(X, raw_score=True, num_threads=1)
    np.testing.assert_array_equal(native_margins(forest, X)[:, 0], native)


@pytest.mark.parametrize("decision_type", [1, 3, 5, 7, 9, 11])
@pytest.mark.parametrize("words", ["5", "4294967295", "0 1", "2147483648 0 3"])
def test_every_kind_of_category(decision_type: int, words: str) -> None:
    special = [
        -0.5,
        -1.0,
        -0.0,
        1e-36,
        1.9,
        np.nan,
        np.inf,
        -np.inf,
        1e300,
        -1e300,
        2.0**31 - 1,
        2.0**31,
        2.0**31 + 2,
        2.0**32,
        2.0**32 + 2,
        2.0**53,
        -(2.0**31),
        -(2.0**32) + 1,
    ]
    X = np.array([*range(100), *special])[:, None]
    text = text_of([split("0", decision_type, words)], "binary sigmoid:1")
    forest = read_lightgbm(text.encode()).forest
    native = lgb.Booster(model_str=text).predict(X, pred_leaf=True, num_threads=1)
    np.testing.assert_array_equal(find_leaves(forest, X) - 1, native.reshape(-1, 1))


def test_thresholds_that_do_not_fit_are_refused() -> None:
    text = text_of([leaf(1.0)], "binary sigmoid:1").encode()
    for bad in (0.0, 1.0, -1, 2, np.nan, "high", [], [0.5, 0.5], [0.6, 0.4], True, [0.5, None]):
        with pytest.raises(InvalidInputError):
            read_lightgbm(text, threshold=bad)  # type: ignore[arg-type]
    several = text_of([leaf(1.0)] * 3, "multiclass num_class:3", 3).encode()
    with pytest.raises(InvalidInputError, match="per-class"):
        read_lightgbm(several, threshold=0.5)


def test_several_thresholds_make_bands() -> None:
    text = text_of([leaf(1.0)], "binary sigmoid:2").encode()
    forest = read_lightgbm(text, threshold=(0.25, 0.5, 0.75)).forest
    assert forest.classes == (0, 1, 2, 3)
    np.testing.assert_allclose(forest.decision.cuts, [-np.log(3) / 2, 0, np.log(3) / 2])


def test_objectives_without_classes_need_a_threshold() -> None:
    names = (
        "regression",
        "regression sqrt",
        "poisson",
        "lambdarank",
        "cross_entropy_lambda",
        "cross_entropy",
        "quantile",
        "something_new",
    )
    for name in names:
        text = text_of([leaf(1.5), leaf(0.25)], name).encode()
        with pytest.raises(UnsupportedModelError, match=name.split()[0]):
            read_lightgbm(text)
        if name != "cross_entropy":
            forest = read_lightgbm(text, threshold=1.5).forest
            assert forest.decision.cuts == (1.5,)
            assert forest.decision.guard == 0
            assert forest.classes == (0, 1)
    average = text_of([leaf(1.5), leaf(0.25)], "regression", average=True)
    forest = read_lightgbm(average.encode(), threshold=0.875).forest
    assert probability(average) == 0.875
    assert forest.decision.cuts == (1.75,)  # of the sum
    custom = text_of([leaf(1.0)] * 2, "regression", 2).encode()
    with pytest.raises(UnsupportedModelError, match="outputs"):
        read_lightgbm(custom, threshold=0.5)


@pytest.mark.parametrize(
    ("line", "num_class"),
    [
        ("binary", 1),
        ("binary sigmoid:0", 1),
        ("binary sigmoid:-1", 1),
        ("binary sigmoid:nan", 1),
        ("binary sigmoid:1", 2),
        ("multiclass num_class:3", 2),
        ("multiclass num_class:1", 1),
        ("multiclassova num_class:3", 3),
        ("binary sigmoid:1 x:2", 1),
        ("binary sigmoid:1e999", 1),
    ],
)
def test_damaged_objectives_are_refused(line: str, num_class: int) -> None:
    with pytest.raises(MalformedModelError, match="objective"):
        read_objective(line, num_class)


def test_margin_sums_run_in_file_order() -> None:
    for order in itertools.permutations([1e16, 1.0, -1e16, 3.0]):
        text = text_of([leaf(v) for v in order], "binary sigmoid:1")
        native = lgb.Booster(model_str=text).predict(np.zeros((1, 1)), raw_score=True)
        assert native_margins(read_lightgbm(text.encode()).forest, np.zeros((1, 1))) == native
