"""CatBoost files are named as such when they are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pine_boost import UnsupportedModelError
from pine_boost.parsers import open_pickle, read_model

SYMMETRIC = {"features_info": {}, "model_info": {}, "oblivious_trees": [], "scale_and_bias": [1, [0]]}
OTHER = {"trees": [], "features_info": {}, "model_info": {}, "scale_and_bias": [1, [0]]}
FILES = {
    "model.cbm": b"CBM1\x10\x00\x00\x00" + bytes(32),
    "model.json": json.dumps(SYMMETRIC, indent=1).encode(),
    "other.json": json.dumps(OTHER).encode(),
}


@pytest.mark.parametrize("name", FILES)
def test_a_catboost_file_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    for source in (path, FILES[name]):
        for read in (read_model, open_pickle):
            with pytest.raises(UnsupportedModelError, match="is a CatBoost model; CatBoost models are not supported"):
                read(source)


def test_an_xgboost_feature_may_have_a_name_from_catboost() -> None:
    import numpy as np
    import pandas as pd
    from xgboost import XGBClassifier

    X = pd.DataFrame({"oblivious_trees": np.arange(20.0)})
    model = XGBClassifier(n_estimators=2).fit(X, X["oblivious_trees"] > 9)
    contents = bytes(model.get_booster().save_raw("json"))
    assert read_model(contents).forest.feature_names == ("oblivious_trees",)
