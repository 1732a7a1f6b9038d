"""The lower bound in exact integers: what it says is true, and what is not proved is not said."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pine_boost import CertificateMismatch, prune_booster, verify
from pine_boost.budget import Budget, StopReason
from pine_boost.certificate.certificate import Certificate
from pine_boost.certificate.claims import rests_on
from pine_boost.json_fields import digest_of
from pine_boost.model.rules import SplitKind
from pine_boost.model.states import build_space
from pine_boost.options import Options
from pine_boost.proof.bound import Cut, check_bound, exact_rows, hitting_set
from pine_boost.proof.problem import build_problem
from pine_boost.region.domain import compile_domain
from pine_boost.search.algorithm import search
from pine_boost.search.search_state import SearchTask
from pine_boost.tables.schema import schema_of
from tests.support.bruteforce import all_rows, minimum_columns, small_problem, winning_supports
from tests.support.forests import HISTOGRAM, MANNERS, XGBOOST, random_forest
from tests.support.verifying import fitted, pruned_model


def _four_cells(*trees):
    """Complete trees over the four cells of two binary features."""
    rng = np.random.default_rng(0)
    base = random_forest(
        rng, len(trees), 2, 2, manner=HISTOGRAM, n_thresholds=1, leaf_probability=0.0, accepts_missing=False
    )
    feature, value = base.feature.copy(), np.zeros_like(base.value)
    for tree, cells in enumerate(trees):
        root = int(base.tree_offset[tree])
        feature[root] = 0
        for side, child in enumerate((base.left[root], base.right[root])):
            feature[child] = 1
            value[base.left[child]], value[base.right[child]] = cells[2 * side : 2 * side + 2]
    threshold = np.where(base.kind == SplitKind.NUMERIC, 0.5, 0.0)
    return replace(base, feature=feature, value=value, threshold=threshold, intercept=np.zeros(1))


def test_two_trees_suffice_and_three_are_not_called_the_fewest():
    """Equal weights of A and B keep every cell by a margin of 1e-7; floats call that nothing."""
    e = 1e-7
    forest = _four_cells([1, -(1 - e), -1, 1 - e], [-(1 - e), 1, 1 - e, -1], [e / 10, -e / 10, e / 10, -e / 10])
    space = build_space(forest)
    problem = build_problem(forest, space, compile_domain(None, space, schema_of(forest)))
    cells = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32)
    assert problem.settled(cells).all()
    found = search(SearchTask(problem, cells, Options()))
    assert found.lower_bound <= 2
    assert found.stopped is not StopReason.OPTIMAL or found.n_kept == 2


@pytest.mark.parametrize("seed", range(8))
def test_every_sum_of_rows_is_a_valid_cut(seed):
    """Whatever the multipliers: a set of units that keeps all rows meets the cut."""
    n_outputs = 3 if seed % 4 == 3 else 1
    small = small_problem(seed, MANNERS[seed % 4], n_outputs=n_outputs, n_trees=6 * n_outputs, leaf_grid=None)
    problem = small.problem
    states = all_rows(small)
    leaves = problem.trees.leaves(states)
    point, question = np.nonzero(problem.decided(problem.original_margins_int(leaves)))
    winning = list(winning_supports(small))
    rng = np.random.default_rng(seed)
    n_cuts = 0
    for _ in range(60):
        chosen = rng.permutation(len(point))[:12]
        rows = exact_rows(problem, small.tree_unit, leaves[point[chosen]], question[chosen])
        multipliers = rng.integers(0, 2**20, len(chosen)).tolist()
        if n_outputs == 1:  # balance the constant on the last row of the lighter side
            excess = int(rows.constants[:, 0] @ np.array(multipliers, dtype=object))
            lighter = np.flatnonzero(rows.constants[:, 0] == (-1 if excess > 0 else 1))
            if len(lighter) == 0:
                assert rows.units(multipliers) is None or excess == 0
                continue
            multipliers[lighter[-1]] += abs(excess)
        units = rows.units(multipliers)
        if units is None:
            continue
        n_cuts += 1
        assert all(units & support for support in winning)
    assert n_cuts > 10 or n_outputs > 1


def test_sums_that_say_nothing():
    small = small_problem(0, XGBOOST, leaf_grid=None, score=None)
    problem = small.problem
    leaves = problem.trees.leaves(small.everything)
    decided = problem.decided(problem.original_margins_int(leaves))
    above, below = (np.flatnonzero(decided[:, side])[0] for side in (0, 1))
    rows = exact_rows(problem, small.tree_unit, leaves[[above, below]], np.array([0, 1]))
    assert rows.units([1, 1]) is not None
    assert rows.units([1, 2]) is None  # a constant would take part
    assert rows.units([-1, -1]) is None
    assert rows.units([0, 0]) is None
    lenient = replace(problem, strict=np.zeros(2, dtype=bool))
    ties = exact_rows(lenient, small.tree_unit, leaves[[above, below]], np.array([0, 1]))
    assert ties.units([1, 1]) is None  # 0 >= 0 needs no unit at all


def _bounded():
    found = []
    for seed in range(12):
        small = small_problem(seed, MANNERS[seed % 4], n_trees=7, leaf_grid=None, n_fit=6)
        result = small.search()
        if result.bound is not None:
            assert result.bound.units == result.lower_bound
            smallest = minimum_columns(small, all_rows(small))
            assert smallest is None or result.lower_bound <= smallest
            found.append((small, result.bound))
    assert len(found) > 6
    return found


def test_a_bound_is_proved_anew_and_a_wrong_one_is_not():
    forever = Budget()
    for small, bound in _bounded():
        problem, unit = small.problem, small.tree_unit
        assert check_bound(problem, unit, bound, forever) is True
        assert check_bound(problem, unit, replace(bound, units=bound.units + 1), forever) is False
        # a cut that claims less than its rows say
        cut = max(bound.cuts, key=lambda cut: len(cut.units))
        smaller = replace(cut, units=frozenset(sorted(cut.units)[1:]))
        others = tuple(own for own in bound.cuts if own is not cut)
        edited = replace(bound, cuts=(*others, smaller))
        assert check_bound(problem, unit, edited, forever) is False
        # a row that the original decides otherwise
        flipped = replace(bound, questions=1 - bound.questions)
        assert check_bound(problem, unit, flipped, forever) is False
        # multipliers under which the constants do not cancel
        first = bound.cuts[0]
        odd = Cut(first.units, first.rows, (first.multipliers[0] + 1, *first.multipliers[1:]))
        unbalanced = replace(bound, cuts=(odd, *bound.cuts[1:]))
        assert problem.forest.free_intercept
        assert check_bound(problem, unit, unbalanced, forever) is False
        assert check_bound(problem, unit, bound, Budget.of(-1.0)) is None


@pytest.fixture(scope="module")
def certified():
    return pruned_model("xgboost", indifference=0.0)


def test_the_fewest_are_claimed_with_their_proof_only(certified):
    model, result = certified
    certificate = result.certificate
    assert certificate.optimal
    assert certificate.bound is not None
    assert Certificate.from_json(certificate.to_json()) == certificate
    verdict = verify(model, result.model, result.region, certificate)
    assert verdict.agrees
    assert any("proved again" in remark for remark in verdict.remarks)
    bare = replace(certificate, bound=None)
    bare = replace(bare, rests_on=rests_on(bare))
    with pytest.raises(CertificateMismatch, match="without a proof"):
        verify(model, result.model, result.region, bare)


def _rewritten(certificate, change):
    """The certificate with an edited bound and a new digest, as a forger would write it."""
    document = json.loads(certificate.to_json())
    change(document["bound"])
    del document["digest"]
    document["digest"] = digest_of(document)
    return Certificate.from_json(json.dumps(document))


def test_a_forged_bound_is_noticed(certified):
    model, result = certified

    def fewer_cuts(bound):
        bound["cuts"] = bound["cuts"][1:]

    def other_units(bound):
        bound["cuts"][0]["units"] = [11 - unit for unit in bound["cuts"][0]["units"]]

    def other_multiplier(bound):
        bound["cuts"][0]["multipliers"][0] += "0"

    def other_state(bound):
        bound["states"][0][0] += 10**6

    def other_question(bound):
        bound["questions"][0] = 7

    def other_row(bound):
        bound["cuts"][0]["rows"][0] = 10**6

    def all_inside(bound):
        bound["outside"] += 1

    for change in (fewer_cuts, other_units, other_multiplier, other_state, other_question, other_row, all_inside):
        forged = _rewritten(result.certificate, change)
        with pytest.raises(CertificateMismatch, match=r"do not prove its lower bound|rests_on"):
            verify(model, result.model, result.region, forged)
    for broken in ("-1", "x", "9" * 10_000):
        with pytest.raises(CertificateMismatch, match="not the text of a whole number"):
            _rewritten(
                result.certificate, lambda bound, text=broken: bound["cuts"][0]["multipliers"].__setitem__(0, text)
            )


def test_rows_outside_the_region_rest_on_x_fit():
    model, X = fitted("gradient")
    n = len(X) // 2
    result = prune_booster(model, X[:n], X[n:], alpha=0.6)
    bound = result.certificate.bound
    inside = result.region.tables.contains(np.array(bound.states))
    assert bound.outside == np.count_nonzero(~inside)
    told = any("lower bound rests on" in line for line in result.certificate.rests_on)
    assert told == (bound.outside > 0)
    verdict = verify(model, result.model, result.region, result.certificate, X_fit=X[:n], X_cal=X[n:])
    assert verdict.agrees


@pytest.mark.parametrize("seed", range(40))
def test_a_hitting_set_is_found_exactly_where_one_exists(seed):
    random = np.random.default_rng(seed)
    n_units = 7
    drawn = [np.flatnonzero(random.random(n_units) < 0.35) for _ in range(9)]
    cuts = [frozenset(int(unit) for unit in cut) for cut in drawn if len(cut)]
    sets = [frozenset(k for k in range(n_units) if (bits >> k) & 1) for bits in range(2**n_units)]
    fewest = min(len(own) for own in sets if all(own & cut for cut in cuts))
    for most in range(n_units):
        found = hitting_set(cuts, n_units, most, Budget())
        assert (found is None) == (max(fewest, 1) > most)
