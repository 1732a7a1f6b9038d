"""Fuzz target: CatBoost .json files, damaged as JSON data and as bytes."""

from __future__ import annotations

import json
from functools import cache
from random import Random

from pine_boost.parsers import read_model
from pine_boost.parsers.catboost.read import native_json
from tests.fuzz.driver import Target, main
from tests.fuzz.mutations import damage_bytes, damage_json
from tests.fuzz.native_check import check_model


@cache
def healthy() -> list[bytes]:
    """Symmetric and other trees, several classes, one-hot categories, and a Poisson model, which has a bias."""
    from tests.support.catboost_models import small_models

    return [native_json(model) for model in small_models()]


def damage(random: Random, contents: bytes) -> bytes:
    """Mostly valid JSON with wrong contents; of the training parameters only the loss, which predictions read."""
    if random.randint(0, 4) == 0:
        return damage_bytes(random, contents)
    document = json.loads(contents)
    info = document["model_info"]
    params, info["params"] = info["params"], {"loss_function": info["params"]["loss_function"]}
    document = damage_json(random, document)
    match document:
        case {"model_info": {"params": dict(kept)}}:
            document["model_info"]["params"] = {**{k: v for k, v in params.items() if k != "loss_function"}, **kept}
    return json.dumps(document).encode()


def check(contents: bytes) -> None:
    """Refused, or the model that CatBoost itself sees."""
    check_model(contents, read_model(contents, decision="value"))


TARGET = Target("CatBoost JSON", healthy, damage, check)

if __name__ == "__main__":
    main(TARGET)
