"""Membership of millions of rows: the same integers, compiled to columns."""
