"""The rules in which libraries differ: how a value is compared, what is missing, which class wins a tie."""

from __future__ import annotations

from enum import Enum, IntEnum


class Comparison(Enum):
    """How the native library compares an input value with a threshold (True goes left)."""

    FLOAT32_LESS = "float32 value < float32 threshold"
    FLOAT64_LESS_EQUAL = "float64 value <= float64 threshold"
    FLOAT32_VALUE_LESS_EQUAL = "float64(float32 value) <= float64 threshold"


class SplitKind(IntEnum):
    """The kind of a node."""

    LEAF = 0
    NUMERIC = 1
    CATEGORICAL = 2


class MissingRule(IntEnum):
    """How a numeric node treats NaN and zero."""

    DEFAULT = 0  # NaN follows default_left
    NAN_IS_ZERO = 1  # NaN is replaced by 0.0 and compared (LightGBM missing type None)
    ZERO_IS_MISSING = 2  # NaN, 0 and tiny values follow default_left (LightGBM missing type Zero)


class CategoryRule(Enum):
    """How a raw number becomes a category code; a number that is not a code is 'unseen'."""

    EXACT = "x < 0 or x >= 2**24 is unseen, else truncated"  # XGBoost
    TRUNCATE = "truncated towards zero, negative after that is unseen"  # LightGBM
    KNOWN = "only whole codes of known categories, everything else is missing"  # HistGradientBoosting


class Tie(Enum):
    """Which class wins when two scores are equal."""

    LOWEST = "lowest class index"
    HIGHEST = "highest class index"
