"""What prune_booster says up front is what benchmarks/results says."""

from __future__ import annotations

from benchmarks.runner import RESULTS
from benchmarks.size_tables import at_default_size
from pine_boost.certificate.claims import AT_DEFAULT_SIZE, LARGE_TREES


def test_the_figures_for_large_models_are_those_of_the_results() -> None:
    """After a new run of benchmarks.large: copy the left side into claims.py."""
    assert at_default_size(RESULTS, LARGE_TREES) == AT_DEFAULT_SIZE
