"""Fuzz target: LightGBM text files, damaged line by line (sizes made right again) and as bytes."""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import Any

import numpy as np

from pine_boost.parsers import read_model
from tests.fuzz.driver import Target, main
from tests.fuzz.mutations import damage_bytes, damage_lines
from tests.fuzz.native_check import check_model


@cache
def healthy() -> list[bytes]:
    """Two classes with categories and missing values, three classes, and a random forest."""
    import lightgbm

    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    X[:, 2] = random.integers(0, 6, 300)
    X[::7, 3] = np.nan
    base = {"verbose": -1, "num_threads": 1, "num_leaves": 5, "min_data_in_leaf": 5}
    settings: list[tuple[dict[str, Any], Any, Any]] = [
        ({"objective": "binary"}, (X[:, 0] > 0) ^ (X[:, 2] == 3), [2]),
        ({"objective": "multiclass", "num_class": 3}, np.digitize(X[:, 0], [-0.5, 0.5]), []),
        ({"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}, X[:, 1] > 0, []),
    ]
    return [
        lightgbm.train({**base, **extra}, lightgbm.Dataset(X, y, categorical_feature=names), 3)
        .model_to_string()
        .encode()
        for extra, y, names in settings
    ]


def damage(random: Random, contents: bytes) -> bytes:
    """Lines, with tree_sizes mostly made to agree again so that the trees are looked at."""
    if random.randint(0, 3) == 0:
        return damage_bytes(random, contents)
    text = "\n".join(damage_lines(random, contents.decode().split("\n")))
    if random.randint(0, 4):
        blocks = re.split(r"(?=^Tree=)", text.partition("end of trees")[0], flags=re.MULTILINE)[1:]
        sizes = " ".join(str(len(block.encode())) for block in blocks)
        text = re.sub(r"^tree_sizes=.*$", f"tree_sizes={sizes}", text, flags=re.MULTILINE)
    return text.encode()


def check(contents: bytes) -> None:
    """Refused, or the model that LightGBM itself sees."""
    check_model(contents, read_model(contents))


TARGET = Target("LightGBM text", healthy, damage, check)

if __name__ == "__main__":
    main(TARGET)
