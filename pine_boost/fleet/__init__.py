"""Hundreds of models with one policy, on one machine or many."""

from pine_boost.fleet.run import FleetResult, Job, read_jobs, run_fleet

__all__ = ["FleetResult", "Job", "read_jobs", "run_fleet"]
