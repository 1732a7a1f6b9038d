"""The fifteen pruning rules of the paper's appendix, each from the paper it is named after.

In come an ensemble's members on labelled rows and a size; out go the members kept. None promises
anything: they are what pine_boost is measured against. `DEPARTURES` holds what PyPruning does
instead where it does something else.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.pruning_rules import library
from benchmarks.pruning_rules.clusters import cluster_accuracy, cluster_centroids, largest_mean_distance
from benchmarks.pruning_rules.greedy import complementariness, drep, margin_distance, reduced_error
from benchmarks.pruning_rules.members import IntArray, Members
from benchmarks.pruning_rules.pairs import combined, combined_error
from benchmarks.pruning_rules.ranking import (
    error_ambiguity,
    individual_contribution,
    individual_error,
    individual_kappa_statistic,
    individual_margin_diversity,
    reference_vector,
)

Rule = Callable[[Members, int], IntArray]

RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        individual_error,
        individual_contribution,
        individual_kappa_statistic,
        individual_margin_diversity,
        reduced_error,
        complementariness,
        drep,
        margin_distance,
        combined_error,
        combined,
        reference_vector,
        error_ambiguity,
        largest_mean_distance,
        cluster_accuracy,
        cluster_centroids,
    )
}
DEPARTURES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        library.individual_margin_diversity,
        library.individual_kappa_statistic,
        library.reference_vector,
        library.error_ambiguity,
        library.margin_distance,
        library.complementariness,
        library.drep,
        library.combined_error,
        library.combined,
        library.cluster_accuracy,
        library.largest_mean_distance,
    )
}

__all__ = ["DEPARTURES", "RULES", "Members", "Rule"]
