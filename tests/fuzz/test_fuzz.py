"""Every fuzz target for a few examples with a fixed seed; by hand they run by the clock."""

import pytest

from pine_boost.parsers import read_model
from tests.fuzz.driver import Tally, run
from tests.fuzz.native_check import probe_rows
from tests.fuzz.native_worker import WORKER
from tests.fuzz.targets import NATIVE, TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_documents_are_refused_or_read_right(name):
    loaded = WORKER.loaded
    tally = run(TARGETS[name], 300, first_seed=20_261_116)
    # both must happen, or the target looks at nothing
    assert tally.refused > 30
    assert tally.accepted > 2
    assert len(tally.messages) > 5
    if name in NATIVE:  # what passed the parser reached the library, and the child lived on
        assert WORKER.loaded - loaded > 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NATIVE)
def test_every_accepted_file_is_loaded_natively_with_equal_margins(name):
    target, tally = NATIVE[name], Tally()
    for batch in range(40):
        run(target, 500, first_seed=1000 + batch, tally=tally)
    print(f"{target.name}: {tally.refused} refused, {tally.accepted} accepted, {WORKER.loaded} loaded")
    assert tally.refused + tally.accepted >= 20_000
    assert tally.accepted > 800


def test_a_child_that_dies_is_a_finding():
    worker = WORKER  # the one of the other tests: to start another takes seconds
    healthy = TARGETS["xgboost_json"].healthy()[0]
    model = read_model(healthy)
    rows = probe_rows(model)
    assert len(worker.margins(healthy, "xgboost", rows)) == len(rows)
    worker.child.kill()
    with pytest.raises(AssertionError, match="ended the child: status -9"):
        worker.margins(healthy, "xgboost", rows)
    assert len(worker.margins(healthy, "xgboost", rows)) == len(rows)  # by the next child
