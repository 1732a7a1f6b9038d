"""Boxes and enumeration against the naive enumerator and CP-SAT; larger regions for hard scores."""

from dataclasses import replace

import numpy as np
import pytest
import xgboost

from pine_boost import prune_booster
from pine_boost.budget import Budget, Effort, OutOfEffort
from pine_boost.parsers import read_model
from pine_boost.proof import enumeration
from pine_boost.proof.boxes import branch_and_bound as boxes
from pine_boost.proof.boxes.branch_and_bound import BoxSearch, prove_boxes
from pine_boost.proof.cpsat import prover as prover_module
from pine_boost.proof.cpsat.prover import Prover
from pine_boost.proof.cpsat.solver import FIRST
from pine_boost.proof.enumeration import list_region, prove_listed, prove_walked
from pine_boost.proof.problem import Answer, build_problem, enclosures
from pine_boost.proof.two_proofs import first_proof, second_proof
from pine_boost.region import isolation_forest as module
from pine_boost.region.fitting import every_input
from pine_boost.region.isolation_forest import cut_trees, enclosing
from pine_boost.region.score_tables import RegionTables
from pine_boost.search.algorithm import Known
from pine_boost.search.driver import search_regions
from tests.support.bruteforce import all_rows, check_result, minimum_columns, small_problem
from tests.support.forests import MANNERS, random_forest, random_rows
from tests.support.naive import broken_rows, in_region, random_case, random_pruned
from tests.support.scores import fit_isolation_forest
from tests.support.solver_settings import FOREVER
from tests.support.verifying import verify_folder

KINDS = ("same", "reweighted", "planted")


def _agrees(case, pruned):
    """Boxes say what the enumeration says, on every question; returns how many were broken."""
    broken = broken_rows(case, pruned)
    for question in case.problem.questions:
        proof = prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=FOREVER)
        column = broken[:, question.index]
        if not column.any():
            assert proof.answer is Answer.PROVED
            assert proof.covered == 1.0
            continue
        assert proof.answer is Answer.FOUND
        row = np.flatnonzero((case.rows == proof.states).all(axis=1))
        assert len(row) == 1
        assert column[row].all()
    return int(broken.any(axis=0).sum())


def test_boxes_and_solver_agree():
    for seed in range(0, 600, 17):
        case = random_case(seed)
        pruned = random_pruned(np.random.default_rng(seed), case.problem, KINDS[seed % 3])
        questions = list(case.problem.questions)
        solver = Prover(case.problem).prove(pruned, questions, (FIRST,), FOREVER)
        for question, other in zip(questions, solver, strict=True):
            own = prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=FOREVER)
            assert own.answer is other.answer


@pytest.mark.parametrize("block", range(8))
def test_boxes_agree_with_enumeration(block):
    n_broken = n_questions = 0
    for seed in range(block * 40, block * 40 + 40):
        case = random_case(seed)
        rng = np.random.default_rng(seed)
        pruned = random_pruned(rng, case.problem, KINDS[seed % 5 % 3])
        n_broken += _agrees(case, pruned)
        n_questions += len(case.problem.questions)
    assert 0.05 * n_questions < n_broken < 0.95 * n_questions  # both answers were put to the test


def _larger(seed=3):
    """A case whose proof needs more than one box."""
    while True:
        case = random_case(seed)
        pruned = random_pruned(np.random.default_rng(seed), case.problem, "reweighted")
        search = BoxSearch(case.problem, pruned, case.problem.questions[0])
        answer, _, _ = search.run(search.tables.whole(), 10**6, FOREVER)
        if answer is Answer.PROVED and search.n_boxes > 40:
            return case, pruned
        seed += 1


def test_out_of_boxes_is_unknown_and_says_how_far_it_came(monkeypatch):
    case, pruned = _larger()
    monkeypatch.setattr(boxes, "_BATCH", 4)
    question = case.problem.questions[0]
    shares = []
    for most in (1, 10, 20, 30):
        proof = prove_boxes(case.problem, pruned, question, max_boxes=most, budget=FOREVER)
        assert proof.answer is Answer.UNKNOWN
        assert proof.states is None
        assert proof.covered is not None
        shares.append(proof.covered)
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] < 1
    late = prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=Budget.of(-1.0))
    assert late.answer is Answer.UNKNOWN
    assert late.covered == 0.0


def test_parts_of_the_region_can_be_searched_apart(monkeypatch):
    case, pruned = _larger()
    monkeypatch.setattr(boxes, "_BATCH", 4)
    search = BoxSearch(case.problem, pruned, case.problem.questions[0])
    answer, _, left = search.run(search.tables.whole(), 12, FOREVER)
    assert answer is Answer.UNKNOWN
    for part in left:
        other = BoxSearch(case.problem, pruned, case.problem.questions[0])
        again = other.tables.boxes(part.low, part.high)
        assert np.array_equal(again.mask, part.mask)
        assert np.array_equal(again.bound, part.bound)
        assert other.run([again], 10**6, FOREVER)[0] is Answer.PROVED


def test_the_batch_size_does_not_change_the_answer(monkeypatch):
    for seed in range(1, 200, 13):
        case = random_case(seed)
        pruned = random_pruned(np.random.default_rng(seed), case.problem, "reweighted")
        for question in case.problem.questions[:2]:
            answers = []
            for batch in (1, 7, 512):
                monkeypatch.setattr(boxes, "_BATCH", batch)
                proof = prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=FOREVER)
                answers.append(proof.answer)
            assert len(set(answers)) == 1


def test_the_same_call_gives_the_same_states():
    for seed in range(60):
        case = random_case(seed)
        pruned = random_pruned(np.random.default_rng(seed), case.problem, "planted")
        question = case.problem.questions[0]
        twice = [prove_boxes(case.problem, pruned, question, max_boxes=10**6, budget=FOREVER).states for _ in range(2)]
        assert (twice[0] is None) == (twice[1] is None)
        assert twice[0] is None or np.array_equal(twice[0], twice[1])


@pytest.mark.parametrize("seed", range(25))
def test_no_bound_lies_below_a_point_of_its_box(seed):
    """Every sum over every box is at least the largest sum over its points."""
    case = random_case(seed * 7)
    rng = np.random.default_rng(seed)
    problem = case.problem
    pruned = random_pruned(rng, problem, "reweighted")
    search = BoxSearch(problem, pruned, problem.questions[0])
    if search.tables.shared.is_empty:
        return
    low = rng.integers(0, search.tables.lengths[:, None], (len(search.tables.lengths), 30)).astype(np.int32)
    high = rng.integers(low, search.tables.lengths[:, None]).astype(np.int32)
    bound = search.tables.boxes(low, high).bound
    cheapest = search.tables.region.cheapest(low, high)
    for k in range(30):
        inside = np.ones(len(case.rows), dtype=bool)
        for j, order in enumerate(search.tables.order):
            inside &= np.isin(case.rows[:, j], order[low[j, k] : high[j, k] + 1])
        points = case.rows[inside]
        position = np.stack(
            [np.argsort(o)[np.searchsorted(np.sort(o), points[:, j])] for j, o in enumerate(search.tables.order)]
        ).astype(np.int32)
        exact = search.tables.boxes(position, position)
        assert np.all(exact.bound.max(axis=1) <= bound[:, k])
        assert search.tables.region.cheapest(position, position).min() >= cheapest[k]


def test_large_numbers_are_rounded_up_and_stay_sound():
    """Leaves near the limit of the solver's rows; a sum is shifted, and must not lose a point."""
    for seed in range(40):
        case = random_case(seed)
        problem = case.problem
        pruned = random_pruned(np.random.default_rng(seed), problem, "reweighted", grid=24)
        broken = broken_rows(case, pruned)
        for question in problem.questions:
            proof = prove_boxes(problem, pruned, question, max_boxes=10**6, budget=FOREVER)
            found = proof.answer is Answer.FOUND
            assert found == broken[:, question.index].any()


def test_costs_too_large_for_32_bits_keep_every_point():
    """A user's own score may be huge; its sum is shifted, and the room must not shrink by that."""
    n_found = 0
    for seed in range(24, 600, 12):
        case = random_case(seed)
        score, tau = case.problem.region.score, case.problem.region.tau
        if score is None or score.trees is None or tau is None:
            continue
        trees = replace(score.trees, cost=score.trees.cost * 2**15 + 1)
        unary = tuple(cost + np.arange(len(cost)) * 2**20 for cost in score.unary)
        own = replace(score, trees=trees, unary=unary)
        tables = replace(case.problem.region, score=own, tau=tau * 2**15 + trees.trees.n_trees)
        case = replace(case, problem=replace(case.problem, region=tables))
        case = replace(case, inside=in_region(tables, case.rows))
        pruned = random_pruned(np.random.default_rng(seed), case.problem, "reweighted")
        n_found += _agrees(case, pruned)
    assert n_found > 10


def test_an_empty_region_is_proved_at_once():
    case = random_case(0)
    nothing = tuple(np.zeros_like(states) for states in case.problem.region.allowed)
    problem = replace(case.problem, region=replace(case.problem.region, allowed=nothing))
    pruned = random_pruned(np.random.default_rng(0), problem, "planted")
    for question in problem.questions:
        proof = prove_boxes(problem, pruned, question, max_boxes=1, budget=FOREVER)
        assert proof.answer is Answer.PROVED


def test_both_ways_agree_with_the_naive_enumerator(monkeypatch):
    monkeypatch.setattr(enumeration, "_CHUNK", 50)
    n_broken = n_questions = 0
    for seed in range(120):
        case = random_case(seed)
        problem = case.problem
        pruned = random_pruned(np.random.default_rng(seed), problem, KINDS[seed % 5 % 3])
        broken = broken_rows(case, pruned)
        listing = list_region(problem, FOREVER)
        assert listing is not None
        for proofs in (prove_listed(problem, pruned, listing), prove_walked(problem, pruned, FOREVER)):
            assert [proof.question for proof in proofs] == list(problem.questions)
            for proof in proofs:
                column = broken[:, proof.question.index]
                assert (proof.answer is Answer.FOUND) == column.any()
                if proof.states is not None:
                    row = np.flatnonzero((case.rows == proof.states).all(axis=1))
                    assert column[row].all()
                    assert len(row) == 1
        n_broken += int(broken.any(axis=0).sum())
        n_questions += len(problem.questions)
    assert 0.05 * n_questions < n_broken < 0.95 * n_questions  # both answers were put to the test


def test_few_leaves_many_inputs_and_late_budgets_have_no_listing(monkeypatch):
    problem = random_case(3).problem
    assert Prover(problem).listing(FOREVER) is None
    assert list_region(problem, FOREVER) is not None
    assert list_region(problem, Budget.of(-1.0)) is None
    late = prove_walked(problem, random_pruned(np.random.default_rng(0), problem, "same"), Budget.of(-1.0))
    assert {proof.answer for proof in late} == {Answer.UNKNOWN}
    for name in ("_MOST_ROWS", "_MOST_CELLS"):
        with monkeypatch.context() as patch:
            patch.setattr(enumeration, name, 1)
            assert list_region(problem, FOREVER) is None


def test_the_two_proofs_use_it_and_name_it(monkeypatch):
    monkeypatch.setattr(prover_module, "_FEWEST_LEAVES", 0)
    problem = random_case(3).problem
    pruned = random_pruned(np.random.default_rng(0), problem, "same")
    prover = Prover(problem)
    assert {p.method for p in first_proof(prover, pruned, FOREVER)} == {"enumeration"}
    assert {p.method for p in second_proof(prover, pruned, FOREVER)} == {"enumeration-by-walks"}


@pytest.mark.parametrize("indifference", [0.0, 0.05])
def test_a_large_model_over_few_states_is_proved_at_once(indifference, tmp_path):
    """100 trees of depth 6 over nine yes-or-no features, one of them with gaps."""
    random = np.random.default_rng(0)
    X = random.integers(0, 2, size=(1500, 9)).astype(float)
    y = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] * (1 - X[:, 4]) + random.normal(0, 0.8, 1500) > 1.2
    X[random.random(1500) < 0.1, 8] = np.nan
    model = xgboost.XGBClassifier(n_estimators=100, n_jobs=1).fit(X[:700], y[:700].astype(int))
    result = prune_booster(model, X[:700], X[700:], alpha=0.1, indifference=indifference, objective="l1", verbose=False)
    certificate = result.certificate
    assert certificate.trees_after < 80
    assert {p.method for p in certificate.proofs} == {"enumeration", "enumeration-by-walks"}
    everything = np.stack(np.meshgrid(*[[0.0, 1.0, np.nan]] * 9, indexing="ij"), axis=-1).reshape(-1, 9)
    same = model.predict(everything) == result.model.predict(everything)
    assert same[result.region.contains(everything, model=model)].all()
    assert not same.all()
    model.save_model(tmp_path / "original.json")
    folder = result.save(tmp_path / "pruned", report=False)
    verdict = verify_folder(tmp_path / "original.json", folder)
    assert (verdict.agrees, verdict.proved_twice) == (True, True)
    if indifference:
        assert verdict.serving_proved is (None if certificate.serving is None else True)


def test_columns_that_no_tree_splits_on_cost_nothing():
    """More columns than numpy has axes: 80, of which two are split on."""
    X = np.zeros((200, 80))
    X[:, [3, 71]] = np.random.default_rng(0).integers(0, 3, size=(200, 2))
    y = (X[:, 3] > X[:, 71]).astype(int)
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=3, n_jobs=1).fit(X, y)
    forest = read_model(model).forest
    region = every_input(forest, None, 0.0)
    problem = build_problem(forest, region.space, region.tables)
    listing = list_region(problem, FOREVER)
    used = region.space.n_states[[3, 71]]
    assert listing.states.shape == (used.prod(), 80)
    assert len(np.unique(listing.states[:, [3, 71]], axis=0)) == used.prod()
    pruned = random_pruned(np.random.default_rng(0), problem, "planted")
    listed = prove_listed(problem, pruned, listing)
    walked = prove_walked(problem, pruned, FOREVER)
    assert [proof.answer for proof in listed] == [proof.answer for proof in walked]


def test_many_classes_have_no_listing(monkeypatch):
    """Every row is held once for every question, so these count as trees do."""
    cases = (random_case(seed).problem for seed in range(8, 60))
    problem = next(p for p in cases if len(p.questions) > p.forest.n_trees)
    listing = list_region(problem, FOREVER)
    cells = len(listing.states) * len(problem.questions)
    monkeypatch.setattr(enumeration, "_MOST_CELLS", cells)
    assert list_region(problem, FOREVER) is not None
    monkeypatch.setattr(enumeration, "_MOST_CELLS", cells - 1)
    assert list_region(problem, FOREVER) is None


@pytest.fixture
def shallow_cuts(monkeypatch):
    """Small isolation trees are cut too."""
    monkeypatch.setattr(module, "DEPTHS", (1, 2))


def _problem(seed, **options):
    return small_problem(seed, MANNERS[seed % 4], score="isolation-forest", leaf_grid=None, **options)


@pytest.mark.usefixtures("shallow_cuts")
@pytest.mark.parametrize("seed", range(8))
def test_cut_trees_never_cost_more(seed):
    """Exactly the least of the leaves below: a cut may neither exclude nor forget a point."""
    small = _problem(seed)
    score = small.problem.region.score
    whole = score.trees.cost[score.trees.trees.leaves(small.everything)]
    for depth in range(score.trees.trees.depth + 2):
        short = cut_trees(score.trees, depth)
        cut = short.cost[short.trees.leaves(small.everything)]
        assert (cut <= whole).all()
        assert short.trees.depth == min(depth, score.trees.trees.depth)
        if depth >= score.trees.trees.depth:
            assert np.array_equal(cut, whole)
        for tree in range(short.trees.n_trees):
            leaves = short.trees.leaves(small.everything)[:, tree]
            for leaf in np.unique(leaves):  # the bound is met by some state that reaches the leaf
                assert whole[leaves == leaf, tree].min() == short.cost[leaf]


@pytest.mark.usefixtures("shallow_cuts")
@pytest.mark.parametrize("seed", range(8))
def test_enclosures_contain_the_region(seed):
    small = _problem(seed, with_domain=bool(seed % 2))
    problem, everything = small.problem, small.everything
    stages = enclosures(problem)
    assert len(stages) >= 2
    inside = small.inside.copy()
    for stage in reversed(stages):  # from the region outwards
        merged = stage.outward(everything)
        contains = stage.problem.region.contains(merged)
        assert (contains | ~inside).all()
        inside = contains
        leaves = problem.trees.leaves(everything)
        assert np.array_equal(stage.problem.trees.leaves(merged), leaves)
        distinct = np.unique(merged, axis=0)
        assert np.array_equal(stage.outward(stage.inward(distinct)), distinct)
        assert (stage.problem.space.n_states <= problem.space.n_states).all()
        # a state that stands for several is a real input of theirs
        back = stage.problem.space.states(problem.space.representative(everything))
        usable = ~np.isinf(problem.space.representative(everything)).any(axis=1)
        assert np.array_equal(back[usable], merged[usable])
    assert np.array_equal(inside, replace(problem.region, score=None, tau=None).contains(everything))


@pytest.mark.usefixtures("shallow_cuts")
@pytest.mark.parametrize("score", ["chow-liu", "leaf-support", None])
def test_easy_scores_have_no_enclosures(score):
    assert enclosures(small_problem(3, MANNERS[0], score=score, leaf_grid=None).problem) == []
    assert enclosing(RegionTables(())) == []


@pytest.mark.usefixtures("shallow_cuts")
@pytest.mark.parametrize("seed", range(6))
def test_stages_end_at_the_brute_force_minimum(seed):
    small = _problem(seed, n_outputs=3 if seed % 3 == 2 else 1, n_trees=6)
    result = search_regions(small.task(), Budget(), Known())
    check_result(small, result)
    smallest = minimum_columns(small, all_rows(small))
    if smallest is not None:
        assert result.n_kept == result.lower_bound == smallest


@pytest.mark.usefixtures("shallow_cuts")
def test_a_hard_region_falls_back_on_the_larger_one(monkeypatch):
    """Where the region's own proofs run out, the model of the whole domain stays, bound and all."""
    fell_back = 0
    prove = Prover.prove

    def give_up(self, *question):
        if self.problem.region.slows_cp_sat:
            raise OutOfEffort
        return prove(self, *question)

    monkeypatch.setattr(Prover, "prove", give_up)
    for seed in range(6):
        small = _problem(seed, n_trees=7)
        budget = Budget.of(None, Effort(box_limit=0))
        result = search_regions(small.task(), budget, Known())
        check_result(small, result)
        smallest = minimum_columns(small, all_rows(small))
        assert smallest is None or result.lower_bound <= smallest <= result.n_kept
        if result.pruned is not None:
            fell_back += 1
            assert all(proof.method.endswith("(whole domain)") for proof in result.proofs)
    assert fell_back > 2


@pytest.mark.usefixtures("shallow_cuts")
def test_random_forests_of_default_size_are_cut_soundly():
    """30 isolation trees of 256 rows, as users have them: sampled rows, not all of them."""

    rng = np.random.default_rng(5)
    forest = random_forest(rng, n_trees=8, manner=MANNERS[0], categorical=[3])
    X = random_rows(rng, forest, 600)
    score, space = fit_isolation_forest(X, forest)
    states = space.states(random_rows(rng, forest, 3000))
    assert score.trees is not None
    exact = score.score(states)
    for depth in (2, 4, 6):
        cut = replace(score, trees=cut_trees(score.trees, depth)).score(states)
        assert (cut <= exact).all()
        assert (cut < exact).any()
