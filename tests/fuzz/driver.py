"""Runs a fuzz target for some examples.

Anything but a PineBoostError or a correct model is a finding; it is raised with its seed and kept in LAST_INPUT.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pine_boost.errors import PineBoostError

LAST_INPUT = Path("/tmp/pine_boost_fuzz_last_input")  # what a dead process leaves behind


@dataclass(frozen=True)
class Target:
    """What is fuzzed.

    ``damage(random, healthy)`` gives a damaged document; ``check(document)`` returns normally for a
    document that was read and behaves, and raises PineBoostError for one that was refused.
    """

    name: str
    healthy: Callable[[], list[Any]]
    damage: Callable[[Any, Any], Any]
    check: Callable[[Any], None]


@dataclass
class Tally:
    """What became of the documents."""

    refused: int = 0
    accepted: int = 0
    messages: set[str] = field(default_factory=set)


def run(target: Target, n_examples: int, first_seed: int, tally: Tally | None = None) -> Tally:
    """Fuzz with a fixed seed: the same documents each time."""
    tally = tally or Tally()
    healthy = target.healthy()
    for document in healthy:
        target.check(document)
    for number in range(n_examples):
        random = Random(f"{first_seed} {number}")
        damaged = target.damage(random, random.choice(healthy))
        try:
            target.check(damaged)
        except PineBoostError as error:
            message = str(error)
            assert len(message) > 15, message
            assert len(message) < 2000, "a hostile document must not fill the screen"
            tally.refused += 1
            tally.messages.add(message[:40])
        except Exception as error:
            LAST_INPUT.write_bytes(damaged if isinstance(damaged, bytes) else repr(damaged).encode())
            raise AssertionError(f"{target.name}, seed {first_seed}, document {number}: {error!r}") from error
        else:
            tally.accepted += 1
    return tally


def remember(contents: bytes) -> None:
    """Keep a document where it is found should the native library take the process down."""
    LAST_INPUT.write_bytes(contents)
