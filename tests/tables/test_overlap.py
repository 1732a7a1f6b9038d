"""Rows that were seen: counted exactly, and told from rows that repeat by chance."""

import numpy as np
import pytest

from pine_boost.errors import HoldoutWarning, InvalidInputError
from pine_boost.tables.overlap import check_overlap, count_overlap, row_hashes


def _counted(seen, held_out):
    return count_overlap(row_hashes(seen), row_hashes(held_out))


def _rows(rng, n_rows, n_values, n_features):
    return rng.integers(0, n_values, (n_rows, n_features)).astype(float)


def test_counts_equal_those_of_sets_of_rows():
    rng = np.random.default_rng(0)
    seen, held_out = _rows(rng, 400, 4, 4), _rows(rng, 150, 4, 4)
    seen[::9, 1] = np.nan
    held_out[::9, 1] = np.nan
    held_out[3, 0], seen[5, 0] = -0.0, 0.0
    rows = [tuple(map(str, row + 0.0)) for row in seen]
    again = sum(rows.count(row) > 1 for row in rows)
    found = sum(tuple(map(str, row + 0.0)) in set(rows) for row in held_out)
    overlap = _counted(seen, held_out)
    assert (overlap.n_rows, overlap.n_seen) == (150, found)
    assert overlap.n_expected == pytest.approx(150 * again / 400)


def test_the_order_of_columns_and_rows_counts():
    rows = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, np.nan], [np.nan, 1.0], [0.0, 3.0], [3.0, 0.0]])
    assert len(np.unique(row_hashes(rows))) == 6
    assert np.array_equal(row_hashes(rows[::-1]), row_hashes(rows)[::-1])


@pytest.mark.parametrize(("n_values", "n_features"), [(5, 4), (2, 6), (2, 12), (3, 9)])
def test_few_discrete_features_are_no_leak(n_values, n_features):
    """As on Balance-Scale (625 cells) or COMPAS: most rows repeat, and that is how it should be."""
    evident = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        seen, held_out = (_rows(rng, n, n_values, n_features) for n in (500, 150))
        evident += _counted(seen, held_out).is_evident
    assert evident <= 2  # one in a thousand is granted to chance


@pytest.mark.parametrize("n_shared", [15, 75, 150])
def test_a_leak_is_refused_unless_allowed(n_shared):
    rng = np.random.default_rng(1)
    seen, held_out = rng.normal(size=(500, 5)), rng.normal(size=(150, 5))
    held_out[:n_shared] = seen[:n_shared]
    overlap = _counted(seen, held_out)
    assert overlap.n_seen == n_shared
    assert overlap.share == pytest.approx(n_shared / 150)
    with pytest.raises(InvalidInputError, match=f"{n_shared} of the 150 rows of X_cal"):
        check_overlap(overlap, "X_fit", "X_cal", allow_overlap=False)
    with pytest.warns(HoldoutWarning, match="breaks the guarantee"):
        check_overlap(overlap, "X_fit", "X_cal", allow_overlap=True)


def test_a_leak_among_natural_repetitions_is_found():
    rng = np.random.default_rng(2)
    seen, held_out = (_rows(rng, n, 2, 12) for n in (2000, 600))
    assert not _counted(seen, held_out).is_evident
    held_out[:200] = seen[:200]
    assert _counted(seen, held_out).is_evident


def test_one_percent_of_many_rows_is_let_pass():
    rng = np.random.default_rng(3)
    seen, held_out = rng.normal(size=(20_000, 3)), rng.normal(size=(10_000, 3))
    held_out[:90] = seen[:90]
    check_overlap(_counted(seen, held_out), "X_fit", "X_cal", allow_overlap=False)
    held_out[:110] = seen[:110]
    with pytest.raises(InvalidInputError):
        check_overlap(_counted(seen, held_out), "X_fit", "X_cal", allow_overlap=False)
