"""Fuzz target: certificate.json, damaged as JSON data and as bytes."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from random import Random

import numpy as np

from pine_boost import Certificate, prune_booster
from pine_boost.json_fields import digest_of
from tests.fuzz.driver import Target, main
from tests.fuzz.mutations import damage_bytes, damage_json


@cache
def healthy() -> list[bytes]:
    """One of a pruned model with claim and proofs, one of an original that was kept."""
    from sklearn.ensemble import GradientBoostingClassifier

    X = np.random.default_rng(0).normal(size=(300, 3))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    model = GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0).fit(X, y)
    results = [
        prune_booster(model, X[:200], X[200:], alpha=0.3),
        prune_booster(model, X[:200], X[200:], alpha=0.3, time_limit=1e-6),
    ]
    return [result.certificate.to_json().encode() for result in results]


def damage(random: Random, contents: bytes) -> bytes:
    """Mostly valid JSON with wrong contents."""
    if random.randint(0, 4) == 0:
        return damage_bytes(random, contents)
    document = damage_json(random, json.loads(contents))
    if random.randint(0, 3):  # the digest must not be all that keeps damage out
        with suppress(ValueError):  # NaN and infinities have no digest
            document["digest"] = digest_of(document)
    return json.dumps(document).encode()


def check(contents: bytes) -> None:
    """Refused, or a certificate that is written and read the same again."""
    certificate = Certificate.from_json(contents)
    text = certificate.to_json()
    assert Certificate.from_json(text) == certificate
    assert Certificate.from_json(text).to_json() == text


TARGET = Target("certificate.json", healthy, damage, check)

if __name__ == "__main__":
    main(TARGET)
