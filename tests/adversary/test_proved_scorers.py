"""At least 20 million samples against every proved scorer of the zoo: no class may differ from the native one."""

import numpy as np
import pytest

import pine_boost
from pine_boost.native.predict import predict_classes
from pine_boost.tables.native import as_table
from pine_boost.tables.schema import schema_of
from tests.support.hard_rows import hard_rows
from tests.support.native_models import MODELS, built

N_SAMPLES = 20_000_000
ROUND = 100_000


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_no_sample_changes_its_class(name):
    """Thresholds, one ulp beside, NaN, infinities, denormals, unseen categories; batches and single rows."""
    result = pine_boost.accelerate_booster(built(name)[0])
    model, scorer = result.original, result.scorer
    forest = model.forest
    labels = np.asarray(forest.classes)
    for seed in range(-(-N_SAMPLES // len(MODELS) // ROUND)):
        X = hard_rows(forest, ROUND, seed, special=(0.0, 0.02, 0.2)[seed % 3])
        if not forest.accepts_missing:
            X = np.nan_to_num(X, nan=0.3)
        if scorer.parts.flat.refuses_infinite:
            X = np.clip(X, -1e30, 1e30)
        table = as_table(X, schema_of(forest))
        expected = labels[predict_classes(model, table)]
        assert np.array_equal(scorer.predict(table), expected), (name, seed)
        if isinstance(table, np.ndarray):
            few = np.random.default_rng(seed).integers(0, ROUND, 200)
            assert [scorer.predict(table[i : i + 1])[0] for i in few] == expected[few].tolist(), (name, seed)
