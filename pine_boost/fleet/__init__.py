"""Hundreds of models with one policy, on one machine or many."""

from pine_boost.fleet.jobs import Job, read_jobs
from pine_boost.fleet.run import FleetResult, run_fleet

__all__ = ["FleetResult", "Job", "read_jobs", "run_fleet"]
