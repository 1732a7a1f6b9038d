"""The switch of a calibrator: every float is asked that its rounding could turn around."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pine_boost.errors import UnsupportedModelError
from pine_boost.pipelines.switch_point import switch_point


def _calibrated(score: Any) -> Any:
    """Temperature scaling as scikit-learn computes it: in the type of the scores."""
    logits = score.dtype.type(0.8382467) * np.stack([np.log(1 - score), np.log(score)], axis=1)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds[:, 1] / odds.sum(axis=1)


def _floats_from(start: float, float_type: Any, count: int) -> Any:
    bits = np.int32 if float_type is np.float32 else np.int64
    first = np.array(start, dtype=float_type).view(bits)
    return (first + np.arange(count, dtype=bits)).view(float_type)


@pytest.mark.parametrize("float_type", [np.float32, np.float64])
def test_a_calibrator_that_rounding_turns_around_is_refused(float_type: Any) -> None:
    scores = _floats_from(0.26, float_type, 100_000)
    values = _calibrated(scores)
    turned = np.flatnonzero(np.diff(values) < 0)
    assert len(turned) > 3
    for threshold in values[turned[:3]]:
        with pytest.raises(UnsupportedModelError, match="more than once"):
            switch_point(lambda s, at=threshold: _calibrated(s) >= at, float_type, 0.01, 0.99, value=_calibrated)


@pytest.mark.parametrize("float_type", [np.float32, np.float64])
@pytest.mark.parametrize("threshold", [0.001, 0.3, 0.77])
def test_elsewhere_the_last_float_below_is_found(float_type: Any, threshold: float) -> None:
    found = switch_point(lambda s: s >= float_type(threshold), float_type, 1e-4, 0.9999, value=_calibrated)
    assert found == np.nextafter(float_type(threshold), float_type(0))
