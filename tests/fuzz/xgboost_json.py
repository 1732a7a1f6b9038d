"""Fuzz target: XGBoost .json files, damaged as JSON data and as bytes."""

from __future__ import annotations

import json
from functools import cache
from random import Random

from pine_boost.parsers import read_model
from tests.fuzz.driver import Target, main
from tests.fuzz.mutations import damage_bytes, damage_json
from tests.fuzz.native_check import check_model


@cache
def healthy() -> list[bytes]:
    """Categories, dart, several classes and pandas categories."""
    from tests.support.malformed_xgboost import healthy_files

    return [contents for name, contents in healthy_files().items() if name.endswith(".json")]


def damage(random: Random, contents: bytes) -> bytes:
    """Mostly valid JSON with wrong contents, because bytes alone seldom get past the tokens."""
    if random.randint(0, 3) == 0:
        return damage_bytes(random, contents)
    return json.dumps(damage_json(random, json.loads(contents))).encode()


def check(contents: bytes) -> None:
    """Refused, or the model that XGBoost itself sees."""
    check_model(contents, read_model(contents))


TARGET = Target("XGBoost JSON", healthy, damage, check)

if __name__ == "__main__":
    main(TARGET)
