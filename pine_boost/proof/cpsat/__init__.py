"""Proofs by OR-Tools CP-SAT."""
