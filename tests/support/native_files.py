"""Model files as their own library loads them; it is imported when it is asked for."""

import tempfile
from typing import Any


def load_native(library: str, contents: bytes) -> Any:
    """The booster of a file."""
    if library == "lightgbm":
        import lightgbm

        return lightgbm.Booster(model_str=contents.decode())
    if library == "catboost":
        import catboost

        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            file.write(contents)
            file.flush()
            return catboost.CatBoost().load_model(file.name, format="json")
    import xgboost

    return xgboost.Booster({"nthread": 1}, model_file=bytearray(contents))
