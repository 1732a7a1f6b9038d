"""The checker of exits finds every planted wrong bound, order, stage and value."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pine_boost.budget import Budget
from pine_boost.model.flatten import flatten
from pine_boost.model.rules import SplitKind
from pine_boost.model.synthetic_rows import synthetic_rows
from pine_boost.parsers import read_model
from pine_boost.proof.exits import faults_of
from pine_boost.scoring.proved_exits import build_exits
from tests.support.forests import MANNERS, random_forest
from tests.support.native_models import MODELS, built


def plan_of(name):
    forest = read_model(built(name)[0]).forest
    return forest, build_exits(forest, flatten(forest), synthetic_rows(forest, 200))


@pytest.mark.parametrize("name", MODELS)
def test_built_exits_are_proved(name):
    forest, plan = plan_of(name)
    assert faults_of(forest, plan) == []


def test_an_order_that_time_did_not_allow_to_fit_is_proved_too():
    forest = read_model(built("xgb binary")[0]).forest
    flat, rows = flatten(forest), synthetic_rows(forest, 200)
    late = build_exits(forest, flat, rows, is_fitted=True, budget=Budget.of(0.0))
    assert faults_of(forest, late) == []
    assert np.array_equal(late.order, build_exits(forest, flat, rows).order)
    assert not np.array_equal(late.order, build_exits(forest, flat, rows, is_fitted=True).order)


@pytest.mark.parametrize(
    "name", ["xgb binary", "lgb 3 classes", "random forest 3 classes", "gradient boosting", "ada boost"]
)
def test_every_planted_fault_is_found(name):
    forest, plan = plan_of(name)
    middle = plan.n_stages // 2
    planted = {}
    if plan.low.size:
        for stage in range(plan.n_stages):
            low, high = plan.low.copy(), plan.high.copy()
            low[stage] += 1e-9 * (1 + abs(low[stage]))
            high[stage] -= 1e-9 * (1 + abs(high[stage]))
            planted[f"low {stage}"], planted[f"high {stage}"] = {"low": low}, {"high": high}
        low = plan.low.copy()
        low[middle] = np.nan
        planted["nan"] = {"low": low}
    else:
        for stage in range(plan.n_stages):
            gap = plan.gap.copy()
            gap[stage, 0, 1] -= 1e-9 * (1 + abs(gap[stage, 0, 1]))
            planted[f"gap {stage}"] = {"gap": gap}
        gap = plan.gap.copy()
        gap[middle, 1, 0] = np.nan
        planted["nan"] = {"gap": gap}
    value, intercept, stages = plan.value.copy(), plan.intercept.copy(), plan.stage.copy()
    value[0] = np.nextafter(value[0], 9)
    intercept[0, 0] = np.nextafter(intercept[0, 0], 9)
    earlier = int(np.argmax(np.diff(stages, prepend=0) > 1))  # a stage that can come a tree earlier
    stages[earlier] -= 1
    order = plan.order[::-1].copy()
    twice = plan.order.copy()
    twice[0] = twice[1]
    planted |= {"value": {"value": value}, "intercept": {"intercept": intercept}, "order": {"order": order}}
    planted |= {"twice": {"order": twice}, "stage": {"stage": stages}, "end": {"stage": plan.stage[:-1]}}
    for what, changed in planted.items():
        assert faults_of(forest, replace(plan, **changed)), what


def test_wider_exits_are_proved_as_well():
    forest, plan = plan_of("xgb binary")
    assert faults_of(forest, replace(plan, low=plan.low - 1, high=plan.high + 1)) == []
    never = np.full_like(plan.low, np.inf)
    assert faults_of(forest, replace(plan, low=-never, high=never)) == []


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_outputs=st.sampled_from([1, 3]), vector=st.booleans())
def test_a_completion_never_changes_the_class_of_an_exit(seed, n_outputs, vector):
    """Random forests: the partial sums of exits agree with the sums of all trees, on random rows."""
    from pine_boost.kernels import bind
    from pine_boost.model.reference import native_margins
    from pine_boost.scoring.proved_exits import rises
    from tests.support.forests import random_rows
    from tests.support.plain_sums import plain_sum

    rng = np.random.default_rng(seed)
    manner = MANNERS[seed % len(MANNERS)]
    forest = random_forest(
        rng, 3 * n_outputs + 2 * (n_outputs == 1), 3, 3, n_outputs, manner=manner, vector_leaves=vector
    )
    flat = flatten(forest)
    X = random_rows(rng, forest, 400)
    for is_fitted in (False, True):
        plan = build_exits(forest, flat, X[:100], is_fitted=is_fitted)
        assert faults_of(forest, plan) == []
        classes = bind(flat, plain_sum(forest), plan).classes(X)
        assert np.array_equal(classes, forest.decision.classes(native_margins(forest, X).astype(np.float64)))
    lowest, highest = rises(forest)
    assert np.all(lowest <= highest)


@pytest.mark.parametrize("vector", [False, True])
def test_additions_are_those_of_the_leaves_and_cost_no_memory_for_each_pair(vector):
    """Of many classes the leads of every leaf over every rival would fill the memory."""
    import tracemalloc

    from pine_boost.scoring.proved_exits import rises

    forest = random_forest(np.random.default_rng(0), 300, 4, 3, 30, vector_leaves=vector)
    tracemalloc.start()
    lowest, highest = rises(forest)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1.5 * (lowest.nbytes + highest.nbytes) + 100 * forest.value.nbytes
    for tree in range(0, forest.n_trees, 20):
        nodes = slice(*forest.tree_offset[tree : tree + 2])
        added = forest.leaf_vectors()[nodes][forest.kind[nodes] == SplitKind.LEAF]
        leads = added[:, None, :] - added[:, :, None]  # leader, rival
        assert np.all(lowest[tree] >= leads.min(axis=0))  # fewer leaves may be reached
        assert np.all(highest[tree] <= leads.max(axis=0))
        assert np.all(np.diagonal(lowest[tree]) == 0)
