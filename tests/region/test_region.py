"""The region as a whole: what it contains, covers, explains and refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn import ensemble

from pine_boost.errors import HoldoutWarning, InvalidInputError, RegionError
from pine_boost.model.forest import Forest
from pine_boost.model.reference import native_margins
from pine_boost.model.rules import SplitKind
from pine_boost.options import SCORE_NAMES, Options
from pine_boost.parsers import read_model
from pine_boost.region import Condition, Domain, Region, fit_region
from pine_boost.region.conformal import calibrate, require_room
from pine_boost.region.domain import compile_domain
from pine_boost.region.fitting import fit_with_states
from pine_boost.region.membership import compile_membership
from pine_boost.region.score_tables import coarsen
from tests.support.forests import MANNER_NAMES, MANNERS, XGBOOST, Manner, random_forest, random_rows


def forest_and_rows(
    manner: Manner = XGBOOST, seed: int = 0, n_rows: int = 1000, n_outputs: int = 1
) -> tuple[Forest, np.ndarray]:
    """A random forest with one category, and rows in which two features go together."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 12, 3, 4, n_outputs, manner=manner, categorical=(1,))
    X = random_rows(rng, forest, n_rows)
    X[:, 2] = np.where(rng.random(n_rows) < 0.6, X[:, 0], X[:, 2])
    return forest, X


def fitted_region(forest: Forest, X: np.ndarray, **options: Any) -> Region:
    """The first half of the rows fits the region, the second calibrates it."""
    options = {"alpha": 0.1, **options}
    return fit_region(forest, X[: len(X) // 2], X[len(X) // 2 :], **options)


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
def test_contains_is_score_below_tau(manner, score):
    forest, X = forest_and_rows(manner)
    region = fitted_region(forest, X, score=score)
    assert np.array_equal(region.contains(X), region.score(X) <= region.tau)
    # the calibration rows themselves: k of them are inside
    assert region.contains(X[500:]).sum() >= np.ceil(501 * 0.9)
    assert region.score_name == score
    assert (region.n_fit, region.n_cal, region.alpha) == (500, 500, 0.1)


@pytest.mark.parametrize("score", SCORE_NAMES)
def test_smaller_alpha_gives_a_larger_region(score):
    forest, X = forest_and_rows()
    region = fitted_region(forest, X, score=score)
    probe = random_rows(np.random.default_rng(9), forest, 2000, missing=0.3)
    inside = [region.with_alpha(alpha).contains(probe) for alpha in (0, 0.01, 0.05, 0.2, 0.8)]
    for larger, smaller in zip(inside, inside[1:]):  # noqa: B905, RUF007 - neighbours
        assert not np.any(smaller & ~larger)
    assert inside[0].all()
    assert not inside[-1].all()


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("indifference", [0.0, 0.05])
def test_coverage_over_redraws(score, indifference):
    """2000 times: draw 99 calibration rows and a new one, calibrate, look whether it is inside."""
    forest, X = forest_and_rows(n_rows=600)
    region = fitted_region(forest, X, score=score, indifference=indifference, alpha=0.1)
    rng = np.random.default_rng(1)
    n_draws, n_cal, alpha = 2000, 99, 0.1
    _, fresh = forest_and_rows(seed=0, n_rows=12_000)
    rows = rng.integers(len(fresh), size=(n_draws, n_cal + 1))  # with return: i.i.d. from a law
    scores = region.score(fresh).astype(np.float64)
    if region.delta is not None:
        distance = np.abs(native_margins(forest, fresh)[:, 0] - region.cuts[0])
        scores[distance < region.delta] = np.inf
        assert np.isinf(scores).any()
    covered = refused = 0
    for draw in scores[rows]:
        cal, new = draw[:-1], draw[-1]
        finite = cal[np.isfinite(cal)].astype(np.int64)
        try:
            tau = calibrate(finite, alpha, n_outside=n_cal - len(finite))
        except RegionError:  # tau would be infinite: no region, so no false claim
            refused += 1
            continue
        covered += new <= tau
    assert refused <= n_draws * 0.06
    # P[inside, or refused because tau is infinite] >= 0.9; four standard deviations of a binomial
    assert (covered + refused) / n_draws >= 0.9 - 4 * np.sqrt(0.09 / n_draws)
    # and it is not trivially everything
    assert covered / n_draws < 0.97


def test_indifference_leaves_out_what_the_original_is_undecided_about():
    forest, X = forest_and_rows()
    region = fitted_region(forest, X, indifference=0.05, alpha=0.2)
    margins = native_margins(forest, X)
    distance = np.abs(margins[:, 0].astype(np.float64) - region.cuts[0])
    inside = region.contains(X, margins=margins)
    expected = (region.score(X) <= region.tau) & (distance >= region.delta)
    assert np.array_equal(inside, expected)
    far = np.abs(distance - region.delta) > 1e-4  # the native sum rounds in float32
    assert np.array_equal(region.contains(X, model=forest)[far], inside[far])
    assert np.array_equal(region.contains(X, margins=margins[:, 0]), inside)
    with pytest.raises(InvalidInputError, match=r"indifference=0\.05.*pass model="):
        region.contains(X)
    with pytest.raises(InvalidInputError, match="margins has shape"):
        region.contains(X, margins=margins[:5])
    other, _ = forest_and_rows(n_outputs=3)
    with pytest.raises(InvalidInputError, match="pass the original"):
        region.contains(X, model=other)


def test_indifference_of_several_classes_is_the_gap_of_the_best_two():
    forest, X = forest_and_rows(n_outputs=3)
    region = fitted_region(forest, X, indifference=0.05, alpha=0.2)
    margins = np.sort(native_margins(forest, X).astype(np.float64), axis=1)
    gap = margins[:, 2] - margins[:, 1]
    inside = region.contains(X, margins=native_margins(forest, X))
    assert np.array_equal(inside, (region.score(X) <= region.tau) & (gap >= region.delta))


def test_indifference_past_alpha_is_refused_with_the_largest_that_fits():
    forest, X = forest_and_rows()
    with pytest.raises(RegionError, match=r"largest indifference that fits is 0\.\d+") as caught:
        fitted_region(forest, X, alpha=0.05, indifference=0.2)
    largest = float(str(caught.value).split("fits is ")[1].split(" ")[0].rstrip(".;"))
    assert 0 < largest < 0.2
    assert fitted_region(forest, X, alpha=0.05, indifference=largest).tau is not None
    with pytest.raises(RegionError):
        fitted_region(forest, X, alpha=0.05, indifference=largest + 0.01)
    with pytest.raises(RegionError, match="None above 0 fits: use indifference=0, a larger alpha"):
        fitted_region(forest, X, alpha=0, indifference=0.05)
    region = fitted_region(forest, X, alpha=0.3, indifference=0.2)
    with pytest.raises(RegionError):
        region.with_alpha(0.05)
    with pytest.raises(InvalidInputError, match="alpha=0"):
        region.with_alpha(0)


def test_alpha_zero_needs_no_data():
    forest, X = forest_and_rows()
    region = fit_region(forest, alpha=0)
    assert region.tau is None
    assert region.tables.score is None
    assert region.contains(X).all()
    with pytest.raises(InvalidInputError, match="no score"):
        region.score(X)
    with pytest.raises(InvalidInputError, match="without data"):
        region.with_alpha(0.1)
    with pytest.raises(InvalidInputError, match="X_fit is missing"):
        fit_region(forest, alpha=0.1)
    bounded = fit_region(forest, alpha=0, domain=Domain(never_missing=True))
    assert not bounded.contains(X)[np.isnan(X).any(axis=1)].any()


@pytest.mark.parametrize("n_rows", [0, 1])
def test_too_small_sets_are_refused(n_rows):
    forest, X = forest_and_rows()
    with pytest.raises(InvalidInputError, match=rf"X_fit has {n_rows} row"):
        fit_region(forest, X[:n_rows], X, alpha=0.1)
    with pytest.raises(InvalidInputError, match=rf"X_cal has {n_rows} row"):
        fit_region(forest, X, X[:n_rows], alpha=0.1)
    with pytest.raises(InvalidInputError, match="X_cal has 3 columns"):
        fit_region(forest, X, X[:, :3], alpha=0.1)


def test_calibration_on_the_fitted_rows_is_refused():
    forest, X = forest_and_rows()
    with pytest.raises(InvalidInputError, match="300 of the 300 rows of X_cal also occur in X_fit"):
        fit_region(forest, X, X[:300], alpha=0.1)
    with pytest.raises(InvalidInputError, match="held out"):
        fit_region(forest, X[:600], X[400:800], alpha=0.1)
    with pytest.warns(HoldoutWarning, match="allow_overlap=True"):
        region = fit_region(forest, X, X[:300], alpha=0.1, allow_overlap=True)
    assert (region.overlap.n_rows, region.overlap.n_seen) == (300, 300)
    assert Region.from_json(region.to_json()).overlap == region.overlap


def test_a_few_shared_rows_are_logged(caplog):
    forest, X = forest_and_rows()
    X[:, 0] = np.arange(len(X))  # no two rows are equal
    cal = np.concatenate([X[:3], X[500:597]])
    with caplog.at_level("INFO", logger="pine_boost"):
        fit_region(forest, X[:500], cal, alpha=0.1)
    assert "3.0 % of the rows of X_cal also occur in X_fit" in caplog.text


def test_constant_and_all_missing_columns():
    forest, X = forest_and_rows()
    X[:, 0], X[:, 3] = np.nan, 5.0
    for score in SCORE_NAMES:
        region = fitted_region(forest, X, score=score)
        assert region.contains(X).mean() > 0.8
        changed = X.copy()
        changed[:, 0] = 1.0  # never seen: present where it was always missing
        if score == "isolation-forest":  # it never splits a constant column
            assert np.array_equal(region.score(changed), region.score(X))
        else:
            assert region.score(changed).mean() > region.score(X).mean()


def test_rows_that_the_domain_calls_impossible_count_as_outside():
    forest, X = forest_and_rows()
    X[:, 3] = np.abs(X[:, 3])
    X[500:510, 3] = -5.0  # ten calibration rows contradict the bound
    domain = Domain(lower={3: 0.0})
    with pytest.warns(UserWarning, match="The domain excludes 10 of 500 rows of X_cal"):
        region = fitted_region(forest, X, domain=domain)
    assert len(region.calibration) == 490
    space_says = ~region.tables.permits(region.states(X))
    assert space_says[500:510].all()
    assert not region.contains(X)[500:510].any()
    with pytest.warns(UserWarning, match="domain excludes"), pytest.raises(RegionError, match="10 of"):
        fitted_region(forest, X, domain=domain, alpha=0.01)


def test_coverage_interval_is_exact():
    from scipy.stats import beta

    forest, X = forest_and_rows()
    region = fitted_region(forest, X)
    coverage = region.coverage(X[500:])
    k, n = coverage.n_inside, coverage.n_rows
    assert coverage.share == k / n
    assert abs(coverage.low - beta.ppf(0.025, k, n - k + 1)) < 1e-9
    assert abs(coverage.high - beta.ppf(0.975, k + 1, n - k)) < 1e-9


@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_the_fast_path_gives_the_same_verdict(manner, seed):
    forest, X = forest_and_rows(manner, seed, n_rows=3000)
    domain = Domain(
        lower={0: -3.0},
        one_hot=[(2, 3)] if seed else (),
        forbidden=[(Condition(0, lower=0.5), Condition(3, upper=-0.5))],
    )
    space = fitted_region(forest, X).space
    score = fitted_region(forest, X).tables
    domain_tables = compile_domain(domain, space, fitted_region(forest, X).schema)
    tables = replace(domain_tables, score=score.score, tau=score.tau)
    slow = tables.contains(space.states(X))
    compiled = compile_membership(space, tables, tables.score)
    assert np.array_equal(compiled.contains(X), slow)
    coarse_space, coarse_tables, _ = coarsen(space, tables)
    assert np.array_equal(coarse_tables.contains(coarse_space.states(X)), slow)
    assert coarse_space.n_states.sum() < space.n_states.sum()


def test_training_rows_as_x_fit_are_named_as_the_cause():
    distance_fit, distance_cal = np.linspace(1, 2, 200), np.linspace(0, 2, 200)
    with pytest.raises(RegionError, match=r"more certain about the rows.*unseen rows as X_fit"):
        require_room(distance_fit, distance_cal, alpha=0.1, indifference=0.05, delta=1.05)


def test_membership_needs_neither_solver_nor_training_library():
    import subprocess
    import sys

    code = (
        "import sys, numpy\n"
        "from pine_boost.region import Region\n"
        "heavy = {'ortools', 'xgboost', 'lightgbm', 'sklearn', 'pandas', 'treelite'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("manner", MANNERS)
def test_the_states_of_x_fit_come_with_the_region(manner, score):
    rng = np.random.default_rng(5)
    forest = random_forest(rng, 4, 3, 3, manner=manner, categorical=(1,))
    X_fit, X_cal = random_rows(rng, forest, 150), random_rows(rng, forest, 60)
    fitted = fit_with_states(forest, X_fit, X_cal, Options(alpha=0.2, score=score))
    assert np.array_equal(fitted.fit_states, fitted.region.states(X_fit))
    assert fitted.region == fit_region(forest, X_fit, X_cal, alpha=0.2, score=score)


def test_without_tables_there_are_possible_inputs_to_begin_with():
    forest = random_forest(np.random.default_rng(6), 4, 3, 3)
    domain = Domain(never_missing=True, lower={0: 0.0})
    fitted = fit_with_states(forest, None, None, Options(alpha=0, domain=domain))
    assert len(np.unique(fitted.fit_states, axis=0)) > 10
    assert fitted.region.tables.contains(fitted.fit_states).all()


def test_explanations_name_the_surprising_part():
    forest, X = forest_and_rows()
    X[:, 3] = np.abs(X[:, 3])
    region = fitted_region(forest, X, domain=Domain(lower={3: 0.0}))
    odd = X[int(np.argmax(region.score(X)))]
    told = region.explain(odd)
    assert not told.inside
    assert told.score == region.score([odd])[0]
    assert told.score > region.tau
    excess = [reason.excess for reason in told.reasons]
    assert excess == sorted(excess, reverse=True)
    assert excess[0] > 0
    assert all(name.startswith("f") for reason in told.reasons for name in reason.features)
    assert "outside the region" in str(told)
    likely = region.explain(X[int(np.argmin(region.score(X)))])
    assert likely.inside
    assert sum(r.excess for r in likely.reasons) < sum(excess)
    beyond = np.array([0.0, 1.0, 0.0, -1e6])
    impossible = region.explain(beyond)
    assert impossible.reasons[0].features == ("f3",)
    assert impossible.reasons[0].excess == np.inf


@pytest.mark.parametrize("score", ["leaf-support", "isolation-forest"])
def test_explanations_of_tree_scores_are_true_changes(score):
    forest, X = forest_and_rows()
    region = fitted_region(forest, X, score=score)
    odd = int(np.argmax(region.score(X)))
    told = region.explain(X[odd])
    assert told.reasons
    name = told.reasons[0].features[0]
    states = np.tile(region.states(X[odd : odd + 1]), (region.space.axes[int(name[1:])].n_states, 1))
    states[:, int(name[1:])] = np.arange(len(states))
    best = region.score_tables.score(states).min()
    assert told.reasons[0].excess == (told.score - best) / region.score_tables.scale


def test_an_undecided_original_is_a_reason():
    forest, X = forest_and_rows()
    region = fitted_region(forest, X, indifference=0.05, alpha=0.2)
    distance = np.abs(native_margins(forest, X)[:, 0] - region.cuts[0])
    told = region.explain(X[int(np.argmin(distance))], model=forest)
    assert not told.inside
    assert told.reasons[0].text.startswith("the original is undecided")


def test_a_region_with_indifference_explains_nothing_without_the_model():
    forest, X = forest_and_rows()
    region = fitted_region(forest, X, alpha=0.2, indifference=0.05)
    undecided = X[~region.contains(X, model=forest) & region.tables.contains(region.states(X))]
    assert len(undecided) > 0
    assert not region.explain(undecided[0], model=forest).inside
    with pytest.raises(InvalidInputError, match="pass model="):
        region.explain(undecided[0])


@pytest.mark.parametrize("indifference", [0.0, 0.05])
def test_only_the_original_is_taken_for_the_original(indifference):
    forest, X = forest_and_rows()
    region = fitted_region(forest, X, alpha=0.2, indifference=indifference)
    leaf = np.flatnonzero(forest.kind == SplitKind.LEAF)[0]
    value = forest.value.copy()
    value[leaf] = np.nextafter(value[leaf], 9)
    other = replace(forest, value=value)
    explain = lambda X, model: region.explain(X[0], model=model)  # noqa: E731 - one of three
    for ask in (region.contains, region.coverage, explain):
        ask(X[:3], model=forest)
        with pytest.raises(InvalidInputError, match="digest differs"):
            ask(X[:3], model=other)


def test_a_model_with_a_threshold_is_read_with_it():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(900, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=900) > 0).astype(int)
    model = ensemble.RandomForestClassifier(n_estimators=8, max_depth=4, random_state=0, n_jobs=1)
    model.fit(X[:300], y[:300])
    parsed = read_model(model, threshold=0.3)
    region = fit_region(parsed, X[300:600], X[600:], alpha=0.2, indifference=0.05)
    inside = region.contains(X, model=parsed)
    assert np.array_equal(region.contains(X, model=model), inside)
    again = Region.from_json(region.to_json())
    assert np.array_equal(again.contains(X, model=model), inside)
