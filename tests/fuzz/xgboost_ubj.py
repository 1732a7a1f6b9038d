"""Fuzz target: XGBoost .ubj files, damaged as bytes and as data that is written again."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np

from pine_boost.parsers import read_model
from pine_boost.parsers.xgboost.ubjson import read_ubjson, write_ubjson
from tests.fuzz.driver import Target, main
from tests.fuzz.mutations import damage_bytes
from tests.fuzz.native_check import check_model


@cache
def healthy() -> list[bytes]:
    """The model with categories, as XGBoost writes it."""
    from tests.support.malformed_xgboost import healthy_files

    return [contents for name, contents in healthy_files().items() if name.endswith(".ubj")]


def damage(random: Random, contents: bytes) -> bytes:
    """Bytes anywhere, or a number, the length or the element type of one array of a tree."""
    if random.random() < 0.5:
        return damage_bytes(random, contents)
    document = read_ubjson(contents)
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    for _ in range(random.randint(1, 3)):
        tree = trees[random.randint(0, len(trees) - 1)]
        arrays = sorted(key for key, value in tree.items() if isinstance(value, np.ndarray))
        key = random.choice(arrays)
        array = tree[key].copy()
        how = random.randint(0, 7)
        if how == 0:
            tree[key] = array[: random.randint(0, len(array))]
        elif how == 1:
            with np.errstate(all="ignore"):
                tree[key] = array.astype(random.choice(("i1", "u1", "i2", "i4", "i8", "f4", "f8")))
        elif how == 2:
            tree[key] = array.tolist() if array.dtype.kind in "iu" else []
        elif len(array):
            place = random.randint(0, len(array) - 1)
            odd = (-1, 0, 1, 2, 5, 100) if array.dtype.kind in "iu" else (0.0, -0.0, 1e-45, 3e38, np.nan, np.inf, 0.5)
            array[place] = np.array(random.choice(odd)).astype(array.dtype)
            tree[key] = array
    return write_ubjson(document)


def check(contents: bytes) -> None:
    """Refused, or the model that XGBoost itself sees."""
    check_model(contents, read_model(contents))


TARGET = Target("XGBoost UBJSON", healthy, damage, check)

if __name__ == "__main__":
    main(TARGET)
