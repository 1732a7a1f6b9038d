"""The linear program of the weights against HiGHS on all rows, and its cuts against enumeration."""

from itertools import combinations

import numpy as np
import pytest

from pine_boost.budget import Budget, OutOfTime
from pine_boost.model.exact import SMALLEST_VALUE
from pine_boost.search.lp import Exclusion, WeightProgram, Weights
from pine_boost.search.lp_columns import Columns
from tests.support.bruteforce import CLEAR, NOTHING, game_value

FOREVER = Budget()


def _random_game(seed, n_rows=40, n_columns=6, n_free=1):
    """Rows around a hidden positive solution, so that about half of the supports win."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-4, 5, size=(n_rows, n_columns)) / 4.0
    free = np.zeros((n_rows, n_free))
    free[:, :1] = rng.choice([-1.0, 1.0], size=(n_rows, min(n_free, 1)))
    hidden = rng.random(n_columns) * (rng.random(n_columns) < 0.6)
    keep = rows @ hidden + free @ np.full(n_free, 0.1) > 0.05
    strict = rng.random(n_rows) < 0.8
    return rows[keep], free[keep], strict[keep]


def _empty(n_columns, n_free):
    """A program without rows for as many units."""
    units, nothing = np.arange(n_columns), np.zeros((0, 1))
    return WeightProgram(Columns("tree", units, units, nothing, np.ones(n_columns), np.zeros((1, n_free))))


def _program(rows, free, strict):
    program = _empty(rows.shape[1], free.shape[1])
    half = len(rows) // 2  # rows come in portions, as the Oracle finds them
    for part in (slice(None, half), slice(half, None)):
        for kind in (True, False):
            mine = strict[part] == kind
            program.add_rows(rows[part][mine], free[part][mine], kind)
    return program


def _supports(n_columns):
    chosen = []
    for size in range(n_columns + 1):
        for support in combinations(range(n_columns), size):
            flags = np.zeros(n_columns, dtype=bool)
            flags[list(support)] = True
            chosen.append(flags)
    return chosen


@pytest.mark.parametrize("method", ["solve", "solve_whole"])
@pytest.mark.parametrize("n_free", [0, 1, 2])
def test_weights_and_cuts_on_every_support(n_free, method):
    seen = {Weights: 0, Exclusion: 0}
    for seed in range(3):
        rows, free, strict = _random_game(seed, n_columns=5, n_free=n_free)
        program = _program(rows, free, strict)
        supports = _supports(5)
        values = [game_value(rows[:, s], free, strict) for s in supports]
        order = np.random.default_rng(seed).permutation(len(supports))  # no lucky warm starts
        for index in order:
            support, value = supports[index], values[index]
            assert not NOTHING < value < CLEAR
            result = getattr(program, method)(support, FOREVER)
            seen[type(result)] += 1
            if value > CLEAR:
                assert isinstance(result, Weights)
                assert not result.weights[~support].any()
                assert (result.weights >= 0).all()
                sides = rows @ result.weights + free @ result.free
                assert sides[strict].min(initial=1.0) >= result.value - 1e-8
                assert sides[~strict].min(initial=0.0) >= -1e-8
                assert result.value >= SMALLEST_VALUE
            else:
                assert isinstance(result, Exclusion)
                assert not support[result.units].any()
                for other, other_value in zip(supports, values, strict=True):
                    if other_value > CLEAR:
                        assert other[result.units].any(), "a cut excludes a winning support"
    assert min(seen.values()) > 5


def test_value_is_the_largest():
    """With the same budget (sum of weights at most 1) HiGHS finds no larger value."""
    for seed in range(5):
        program = _program(*_random_game(seed, n_rows=60))
        support = np.ones(6, dtype=bool)
        first, second = program.solve(support, FOREVER), program.solve_whole(support, FOREVER)
        assert isinstance(first, Weights)
        assert isinstance(second, Weights)
        assert first.value == pytest.approx(second.value, abs=1e-7)
        assert first.weights.sum() <= 1 + 1e-9


def test_rows_added_later_count():
    program = _empty(2, 0)
    program.add_rows(np.array([[1.0, 0.0]]), np.zeros((1, 0)), True)
    both = np.ones(2, dtype=bool)
    result = program.solve(both, FOREVER)
    assert isinstance(result, Weights)
    assert result.weights[0] == pytest.approx(1.0)
    program.add_rows(np.array([[-1.0, 1.0]]), np.zeros((1, 0)), True)
    result = program.solve(both, FOREVER)
    assert isinstance(result, Weights)
    assert result.weights == pytest.approx([1 / 3, 2 / 3])
    alone = program.solve(np.array([True, False]), FOREVER)
    assert isinstance(alone, Exclusion)
    assert alone.units.tolist() == [1]
    program.add_rows(np.array([[0.5, -1.0]]), np.zeros((1, 0)), True)
    hopeless = program.solve(both, FOREVER)
    assert isinstance(hopeless, Exclusion)
    assert len(hopeless.units) == 0


def test_many_rows_few_active():
    """Thousands of rows: the lazy program ends with all of them satisfied."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 12)) + 0.9
    rows /= np.abs(rows).max()
    keep = rows @ np.ones(12) > 0.02
    program = _program(rows[keep], np.zeros((keep.sum(), 0)), np.ones(keep.sum(), dtype=bool))
    for _ in range(3):
        result = program.solve(np.ones(12, dtype=bool), FOREVER)
        assert isinstance(result, Weights)
        assert (rows[keep] @ result.weights).min() >= result.value - 1e-8


def test_a_program_that_highs_does_not_end_with_is_given_up(monkeypatch):
    rows, free, strict = _random_game(3, n_rows=400, n_columns=12)
    program = _program(rows, free, strict)
    support = np.ones(12, dtype=bool)
    assert program.widest(support, FOREVER) is not None
    monkeypatch.setattr("pine_boost.search.lp._HIGHS_ITERATIONS", 1)
    assert program.widest(support, FOREVER) is None


def test_the_widest_weights_leave_ties_where_they_can():
    """A row that a tie would keep gets room as well, unless a tie is all there is."""
    both = np.array([True, True])
    strict = np.array([True, False])
    program = _program(np.array([[0.5, 1.0], [1.0, -1.0]]), np.zeros((2, 0)), strict)
    result = program.solve(both, FOREVER)
    assert isinstance(result, Weights)
    assert result.weights[0] - result.weights[1] == pytest.approx(0)
    wide = program.widest(both, FOREVER)
    assert wide.weights[0] - wide.weights[1] > 0.4
    program.add_rows(np.array([[-1.0, 1.0]]), np.zeros((1, 0)), False)
    tied = program.widest(both, FOREVER)
    assert tied.weights == pytest.approx([0.5, 0.5])


def test_a_program_that_glop_does_not_end_with_is_left_to_highs(monkeypatch):
    rows, free, strict = _random_game(3, n_rows=400, n_columns=12)
    supports = [np.arange(12) < size for size in (3, 6, 12)]
    expected = [_program(rows, free, strict).solve(support, FOREVER) for support in supports]
    monkeypatch.setattr("pine_boost.search.lp._GLOP_ITERATIONS", 1 - 10 * 12)
    asked = []
    whole_program = WeightProgram._whole_program

    def count(self, *arguments):
        asked.append(1)
        return whole_program(self, *arguments)

    monkeypatch.setattr(WeightProgram, "_whole_program", count)
    for support, known in zip(supports, expected, strict=True):
        result = _program(rows, free, strict).solve(support, FOREVER)
        assert type(result) is type(known)
        if isinstance(result, Weights) and isinstance(known, Weights):
            assert result.value == pytest.approx(known.value, abs=1e-7)
    assert len(asked) == len(supports)


def test_rows_join_all_or_none_where_memory_ends(monkeypatch):
    program = _empty(2, 0)
    program.add_rows(np.eye(2), np.zeros((2, 0)), True)

    def no_memory(*arrays):
        raise MemoryError

    monkeypatch.setattr(np, "vstack", no_memory)
    with pytest.raises(MemoryError):
        program.add_rows(-np.eye(2), np.zeros((2, 0)), True)
    monkeypatch.undo()
    assert {len(a) for a in (program.rows, program.strict, program.magnified)} == {2}
    assert isinstance(program.solve(np.ones(2, dtype=bool), Budget.of()), Weights)


class _SecondPass(Budget):
    """Time that is over when the second pass begins."""

    def check(self):
        self.asked.append(True)
        if len(self.asked) > 1:
            raise OutOfTime


def test_the_clock_is_read_between_passes():
    """Rows join a few at a time; passes of a large program went on for seconds after the end."""
    rows, free, strict = _random_game(0, n_rows=400, n_columns=12)
    program = _program(rows, free, strict)
    budget = _SecondPass()
    object.__setattr__(budget, "asked", [])
    with pytest.raises(OutOfTime):
        program.solve(np.ones(12, dtype=bool), budget)
    assert isinstance(program.solve(np.ones(12, dtype=bool), FOREVER), Weights)
