"""``pine-boost doctor``: check on this machine what proofs and scorers rely on. Exit code 1 if a check fails.

Examples
--------
  pine-boost doctor
  pine-boost doctor --json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pine_boost.cli import flags


def format_parser(_: argparse.ArgumentParser) -> None:
    """It has no arguments of its own."""


def main(arguments: argparse.Namespace) -> int:
    """Check and print versions, checks and the verdict."""
    from pine_boost.installation import check_installation

    found = check_installation()
    document = {"healthy": found.healthy, "verdict": found.verdict, **asdict(found)}
    flags.answer(arguments, document, found.summary())
    return 0 if found.healthy else 1
