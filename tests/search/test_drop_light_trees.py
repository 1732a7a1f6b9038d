"""Models near the original: the row of the difference, its proofs, the search that begins there.

Enumeration is the judge: the row must admit every counterexample, a proof must leave none, and
what the search returns must keep every input.
"""

from dataclasses import replace

import numpy as np
import pytest

from pine_boost import prune_booster, verify
from pine_boost.budget import OutOfEffort
from pine_boost.model import exact
from pine_boost.proof import two_proofs
from pine_boost.proof.boxes import branch_and_bound
from pine_boost.proof.boxes.branch_and_bound import prove_boxes
from pine_boost.proof.cpsat import prover
from pine_boost.proof.cpsat.encoding import encode_region, encode_values
from pine_boost.proof.cpsat.prover import Prover, difference
from pine_boost.proof.cpsat.solver import FIRST_LP, SECOND_LP
from pine_boost.proof.problem import Answer
from pine_boost.search import algorithm, strategies
from tests.support.bruteforce import check_result, small_problem
from tests.support.forests import MANNERS
from tests.support.naive import broken_rows, random_case, random_pruned
from tests.support.solver_settings import FOREVER
from tests.support.verifying import look_for_no_serving_margin

KINDS = ("dropped", "same", "planted", "reweighted")


def _some_pruned(seed, case):
    rng = np.random.default_rng(seed)
    return random_pruned(rng, case.problem, str(rng.choice(KINDS)))


def _sums(case, value):
    leaf = case.problem.trees.leaf_of_node[case.nodes]
    return value[leaf].sum(axis=1)


@pytest.mark.parametrize("limit", [exact.ROW_LIMIT, 2**12])
def test_every_counterexample_satisfies_the_row(monkeypatch, limit):
    """Also where values are halved to fit: rounding goes outward."""
    monkeypatch.setattr(exact, "ROW_LIMIT", limit)
    n_broken = n_excluded = n_halved = n_still = 0
    for seed in range(100):
        with monkeypatch.context() as building:
            building.setattr(exact, "ROW_LIMIT", 2**31 - 1)
            case = random_case(seed)
            pruned = _some_pruned(seed, case)
            broken = broken_rows(case, pruned)
        for question in case.problem.questions:
            row = difference(case.problem, pruned, question)
            satisfied = _sums(case, row.value) >= row.least
            mine = broken[:, question.index]
            assert satisfied[mine].all()
            assert np.abs(row.value).sum() + abs(row.least) <= limit + 2 * len(row.value)
            n_broken += int(mine.sum())
            n_excluded += int((~satisfied & case.inside).sum())
            n_still += int((~row.moving).sum())
            n_halved += bool(np.abs(row.value).max(initial=0) < 2**12)
    assert n_broken > 300
    assert n_still > 100
    assert n_excluded > 1000
    assert limit > 2**12 or n_halved > 100


@pytest.mark.parametrize("limit", [exact.ROW_LIMIT, 2**16, 2**10])
def test_a_counterexample_by_a_single_unit_satisfies_the_row(monkeypatch, limit):
    """The original decides a row just so, the pruned model misses it by one unit of its grid."""
    n_tight = 0
    for seed in range(60):
        case = random_case(seed)
        problem, pruned = case.problem, _some_pruned(seed, case)
        rng = np.random.default_rng(seed)
        states = case.rows[rng.integers(len(case.rows), size=6)]
        leaves = problem.trees.leaves(states)
        for question in problem.questions:
            needed = int(problem.needed_sides(pruned.grid)[question.index])
            for row in leaves:
                before = question.side(problem.original_margins_int(row[None]))[0]
                margins = problem.pruned_leaves_int(pruned)[row].sum(axis=0) + pruned.intercept_int
                miss = int(question.side(margins[None])[0]) - (needed - 1)
                least = problem.least.copy()
                least[question.index] = before
                shift = np.zeros_like(pruned.intercept_int)
                shift[question.plus] = miss * (question.sign if len(shift) == 1 else 1)
                missed = replace(pruned, intercept_int=pruned.intercept_int - shift)
                with monkeypatch.context() as smaller:
                    smaller.setattr(exact, "ROW_LIMIT", limit)
                    found = difference(replace(problem, least=least), missed, question)
                total = int(found.value[row].sum())
                assert total >= found.least
                n_tight += total == found.least
    assert n_tight > 30


def test_units_too_far_apart_have_no_row():
    case = random_case(0)
    pruned = random_pruned(np.random.default_rng(0), case.problem, "dropped")
    far = replace(pruned, grid=case.problem.scale - 60)
    assert difference(case.problem, far, case.problem.questions[0]) is None


def test_trees_of_other_classes_do_not_make_a_question_easier():
    """Where the trees of both classes changed their weight, the difference says nothing more."""
    n_asked = n_easier = 0
    for seed in range(8, 160, 12):  # three classes
        case = random_case(seed)
        if case.problem.forest.value.shape[1] > 1:
            continue
        pruned = random_pruned(np.random.default_rng(seed), case.problem, "reweighted")
        oracle = Prover(case.problem)
        for question in case.problem.questions:
            row = difference(case.problem, pruned, question)
            of_classes = np.isin(case.problem.forest.tree_output, (question.plus, question.minus))
            assert row.n_asked <= of_classes.sum() < case.problem.trees.n_trees
            n_asked += row.n_asked == row.moving.sum()
            n_easier += bool(oracle.is_easier(row)) and row.n_asked == row.moving.sum()
    assert n_asked > 20
    assert n_easier == 0


def test_some_trees_of_a_region():
    """The model over some trees admits exactly the sums of their leaves over the region."""
    from ortools.sat.python import cp_model

    n_compared = 0
    for seed in range(0, 120, 5):
        case = random_case(seed)
        problem = case.problem
        score = problem.region.score
        if score is not None and score.trees is not None and score.trees.of_model:
            continue
        rng = np.random.default_rng(seed)
        wanted = rng.random(problem.trees.n_trees) < 0.5
        value = np.where(wanted[problem.trees.leaf_tree], rng.integers(-50, 50, problem.trees.n_leaves), 0)
        encoding = encode_region(problem.space, problem.region, problem.trees, wanted)
        inside = _sums(case, value)[case.inside]
        if not encoding.feasible:
            assert len(inside) == 0
            continue
        terms = [(x, int(v)) for x, v in zip(encoding.leaves, value, strict=True) if x is not None]
        row = cp_model.LinearExpr.weighted_sum([x for x, _ in terms], [v for _, v in terms])
        encoding.model.maximize(row)
        solver = cp_model.CpSolver()
        status = solver.solve(encoding.model)
        if len(inside) == 0:
            assert status == cp_model.INFEASIBLE
            continue
        assert status == cp_model.OPTIMAL
        assert round(solver.objective_value) == inside.max()
        n_compared += 1
    assert n_compared > 8


def test_proofs_of_the_difference_leave_no_counterexample():
    """What is proved holds by enumeration; what is broken is never proved, in either setting."""
    n_proved = n_broken = 0
    for seed in range(90):
        case = random_case(seed)
        pruned = _some_pruned(seed, case)
        questions = list(case.problem.questions)
        broken = broken_rows(case, pruned)
        oracle = Prover(case.problem)
        for setting in (FIRST_LP, SECOND_LP):
            proofs = oracle.prove_near(pruned, questions, (setting,), FOREVER, 10.0)
            for proof in proofs:
                assert proof.answer is Answer.PROVED
                assert proof.method == f"{setting.name} (difference)"
                assert not broken[:, proof.question.index].any()
            n_proved += len(proofs)
        n_broken += int(broken.any(axis=0).sum())
        whole = oracle.prove(pruned, questions, (SECOND_LP,), FOREVER)
        answers = {proof.question.index: proof.answer for proof in whole}
        for question in questions:
            is_broken = broken[:, question.index].any()
            assert answers[question.index] is (Answer.FOUND if is_broken else Answer.PROVED)
    assert n_proved > 50
    assert n_broken > 50


def test_boxes_weigh_the_difference(monkeypatch):
    """With the difference among its sums a near model is proved with fewer boxes; answers agree."""
    with_sum, without = 0, 0
    for seed in range(60):
        case = random_case(seed)
        pruned = random_pruned(np.random.default_rng(seed), case.problem, "dropped")
        broken = broken_rows(case, pruned)
        for question in case.problem.questions:
            proof = prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=FOREVER)
            is_broken = broken[:, question.index].any()
            assert proof.answer is (Answer.FOUND if is_broken else Answer.PROVED)
            rows = branch_and_bound.question_rows(case.problem, pruned, question, 0)
            here = len(branch_and_bound.weigh(rows).value)
            monkeypatch.setattr(branch_and_bound, "_CANCELLED", 0.0)
            other = len(branch_and_bound.weigh(rows).value)
            monkeypatch.undo()
            with_sum += here > other
            without += here == other
    assert with_sum > 20
    assert without > 20


def _no_answer(state):
    raise OutOfEffort


def _near(seed, delta, **options):
    n_outputs, n_trees, votes = [(1, 10, False), (3, 30, False), (3, 10, True)][seed % 3]
    return small_problem(
        seed,
        MANNERS[seed % 4],
        n_outputs=n_outputs,
        n_trees=n_trees,
        votes=votes,
        leaf_grid=None,
        delta=delta,
        **options,
    )


@pytest.mark.parametrize("score", ["chow-liu", "leaf-support", None])
def test_a_model_near_the_original_where_the_game_has_no_answer(monkeypatch, score):
    """Whatever the problem of all trees does, light trees can go; every input keeps its class."""

    monkeypatch.setattr(algorithm, "first_answers", _no_answer)
    n_pruned = 0
    for seed in range(12):
        for delta in (0.5, 2.0):
            small = _near(seed, delta, score=score)
            result = small.search()
            check_result(small, result)
            if result.pruned is not None:
                n_pruned += 1
                assert any("(difference)" in proof.method for proof in result.proofs)
                assert set(np.round(result.pruned.weights, 9)) == {0.0, 1.0}
    # costs of the model's own leaves want all trees, so nothing is asked there
    assert n_pruned == 0 if score == "leaf-support" else n_pruned > 8


def test_huge_tables_are_never_made(monkeypatch):
    """As where leaves times states are too many: values of trees alone, twice by CP-SAT."""
    monkeypatch.setattr(strategies, "_LARGEST", 0)
    monkeypatch.setattr(two_proofs, "_LARGEST_TABLE", 0)
    monkeypatch.setattr(prover, "_LARGEST_NEAR", 0)

    monkeypatch.setattr(algorithm, "first_answers", _no_answer)
    n_pruned = 0
    for seed in range(12):
        small = _near(seed, 2.0)
        result = small.search()
        check_result(small, result)
        if result.pruned is not None:
            n_pruned += 1
            methods = {proof.method for proof in result.proofs}
            assert methods == {f"{s.name} (difference)" for s in (FIRST_LP, SECOND_LP)}
    assert n_pruned > 2


def test_values_of_trees_alone():
    """Infeasible exactly where the largest values do not add up to the bound."""
    from ortools.sat.python import cp_model

    rng = np.random.default_rng(0)
    for _ in range(40):
        offset = np.concatenate([[0], np.cumsum(rng.integers(1, 6, size=4))])
        value = rng.integers(-9, 9, size=offset[-1])
        most = int(np.maximum.reduceat(value, offset[:-1]).sum())
        for least, status in ((most, cp_model.OPTIMAL), (most + 1, cp_model.INFEASIBLE)):
            assert cp_model.CpSolver().solve(encode_values(value, offset, least)) == status


def test_without_indifference_nothing_is_near(monkeypatch):
    asked = []
    monkeypatch.setattr(strategies, "lightest_units", asked.append)
    small = _near(0, 0.0)
    small.search()
    assert asked == []


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "histogram", "forest"])
def test_a_large_model_is_certified_natively_and_verified(monkeypatch, kind):
    """The game of all trees is stopped; rows on the thresholds, beside them, NaN keep classes."""
    from tests.support.grids import edge_rows

    rng = np.random.default_rng(4)
    X = rng.normal(size=(900, 5)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=900) > 0).astype(int)
    if kind != "forest":
        X[rng.random(X.shape) < 0.05] = np.nan
    if kind == "xgboost":
        import xgboost

        model = xgboost.XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1)
    elif kind == "lightgbm":
        import lightgbm

        model = lightgbm.LGBMClassifier(n_estimators=60, num_leaves=12, n_jobs=1, verbose=-1)
    else:
        from sklearn import ensemble

        model = ensemble.HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=12)
        if kind == "forest":
            model = ensemble.RandomForestClassifier(60, max_depth=5, random_state=0)
    model.fit(X[:500], y[:500])

    monkeypatch.setattr(algorithm, "first_answers", _no_answer)
    if kind != "xgboost":  # one large model with its margin is enough
        look_for_no_serving_margin(monkeypatch)
    result = prune_booster(model, X[500:700], X[700:], alpha=0.2, indifference=0.1)
    assert result.status == "CERTIFIED"
    assert result.search.n_kept < 60
    assert result.search.pruned is not None
    rows = np.vstack([edge_rows(result.original.forest, X), X])
    if kind == "forest":
        rows = rows[~np.isnan(rows).any(axis=1)]
    inside = result.region.contains(rows, model=model)
    before, after = model.predict(rows[inside]), result.model.predict(rows[inside])
    assert np.array_equal(before, after)
    assert inside.sum() > 300
    again = verify(model, result.model, result.region, result.certificate, time_limit=120)
    assert again.agrees is True
    assert again.proved_twice
