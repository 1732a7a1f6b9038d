"""Fuzz target: region.json, damaged as JSON data and as bytes."""

from __future__ import annotations

import json
from functools import cache
from random import Random

import numpy as np

from pine_boost import Domain, Region
from pine_boost.json_fields import canonical
from pine_boost.parsers import read_model
from pine_boost.region.fitting import fit_region
from tests.fuzz.driver import Target, main
from tests.fuzz.mutations import damage_bytes, damage_json


@cache
def healthy() -> list[bytes]:
    """All three scores, categories, a domain and an indifference."""
    from tests.fuzz.lightgbm_text import healthy as models

    model = read_model(models()[0])
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 4))
    X[:, 2] = random.integers(0, 6, 200)
    domain = Domain(lower={0: -9}, upper={0: 9}, one_hot=[[0, 1]])
    regions = [
        fit_region(model, alpha=0.0, domain=domain),
        fit_region(model, X[:120], X[120:], alpha=0.2, indifference=0.05),
        fit_region(model, X[:120], X[120:], alpha=0.2, score="leaf-support"),
        fit_region(model, X[:120], X[120:], alpha=0.2, score="isolation-forest"),
    ]
    return [canonical(region.to_json()).encode() for region in regions]


def damage(random: Random, contents: bytes) -> bytes:
    """Mostly valid JSON with wrong contents."""
    if random.randint(0, 4) == 0:
        return damage_bytes(random, contents)
    return json.dumps(damage_json(random, json.loads(contents))).encode()


def check(contents: bytes) -> None:
    """Refused, or a region that answers and is written the same again."""
    region = Region.from_json(contents)
    text = canonical(region.to_json())
    assert canonical(Region.from_json(text).to_json()) == text
    if region.schema.n_features > 50:
        return
    X = np.random.default_rng(2).normal(size=(6, region.schema.n_features))
    X[:, -1] = np.arange(6) - 1
    margins = np.zeros((6, region.n_outputs)) if region.delta is not None else None
    assert region.contains(X, margins=margins).shape == (6,)
    if region.score_tables is not None:
        assert region.score(X).dtype == np.int64


TARGET = Target("region.json", healthy, damage, check)

if __name__ == "__main__":
    main(TARGET)
