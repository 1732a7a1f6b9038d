"""When the answer was there: from a search's history to the table."""

from __future__ import annotations

from types import SimpleNamespace

from benchmarks import frames
from benchmarks.cells import answer_times
from pine_boost.search.search_result import Moment


def test_the_first_moment_of_the_final_size_counts() -> None:
    history = (Moment(0.1, 12, 1, 1), Moment(0.2, 9, 1, 1), Moment(0.3, 9, 1, 9), Moment(0.4, 9, 2, 9))
    search = SimpleNamespace(history=history, n_kept=9, pruned=object())
    assert answer_times(search) == {"once_s": "0.200", "twice_s": "0.400", "fewest_s": "0.300"}


def test_the_original_needs_no_proof_and_an_open_bound_has_no_time() -> None:
    history = (Moment(0.3, 30, 2, 29),)
    search = SimpleNamespace(history=history, n_kept=30, pruned=None)
    assert answer_times(search) == {"once_s": "0.000", "twice_s": "0.000", "fewest_s": ""}


def test_rows_of_before_these_columns_are_left_out() -> None:
    old = {"alpha": "0.1", "time_s": "2.0"}
    assert frames.answer_times([old]) == ""
    new = [
        {"alpha": "0.1", "once_s": once, "twice_s": "0.5", "fewest_s": "", "time_s": "1.0"}
        for once in ("0.1", "0.2", "0.3")
    ]
    lines = frames.answer_times([old, *new]).splitlines()
    assert lines[-1].split("|")[1:-1] == [" 0.1 ", " 3 ", " 0.20 ", " 0.50 ", " - ", " 1.00 "]
