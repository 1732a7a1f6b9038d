"""What a model expects of its input table, and how its columns are found by name.

No library selects columns by name, and all of them reject extra columns, so dropping those changes no prediction.
LightGBM always, and XGBoost for polars and pyarrow tables, read columns by position regardless of their names.
Columns in a different order therefore raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pine_boost import json_fields as f
from pine_boost.errors import InvalidInputError
from pine_boost.model.forest import Forest
from pine_boost.model.rules import CategoryRule, Comparison
from pine_boost.options import is_whole
from pine_boost.parsers.traits import LIBRARIES, Reader, traits_of


@dataclass(frozen=True)
class InputSchema:
    """What a model expects of its input table.

    Attributes
    ----------
    n_features : int
    feature_names : tuple of str or None
        None if the model was trained without names (this includes LightGBM's own Column_0, ...).
    feature_categories : tuple
        Per feature None, or the raw category values whose position is the code; may be empty.
    library : str
    comparison : Comparison
    category_rule : CategoryRule
    missing_value : float
        Value that counts as missing besides NaN; NaN if there is none.
    sparse_zero_is_missing : bool
    accepts_missing : bool
    """

    n_features: f.Index
    feature_names: tuple[str, ...] | None
    feature_categories: tuple[tuple[f.Scalar, ...] | None, ...]
    library: Annotated[str, f.text(LIBRARIES)]
    comparison: Comparison
    category_rule: CategoryRule
    missing_value: Annotated[float, f.nan_as_null]
    sparse_zero_is_missing: bool
    accepts_missing: bool

    @property
    def reader(self) -> Reader:
        """The library whose way of reading tables this model follows."""
        own = traits_of(self.library).reader
        is_histogram = own is Reader.TREES and self.comparison is Comparison.FLOAT64_LESS_EQUAL
        return Reader.HISTOGRAM if is_histogram else own

    def name_of(self, feature: int) -> str:
        """Return a feature's name for display: the model's own, or ``f<index>``."""
        return self.feature_names[feature] if self.feature_names else f"f{feature}"

    def index_of(self, feature: str | int) -> int:
        """Return the position of a feature given by name or position; raise if unknown."""
        if isinstance(feature, str):
            if self.feature_names is None:
                raise InvalidInputError(
                    f"Feature {feature!r} was named, but the model has no feature names; "
                    f"give positions 0 to {self.n_features - 1}."
                )
            if feature not in self.feature_names:
                raise InvalidInputError(f"The model has no feature {feature!r}; it has {listing(self.feature_names)}.")
            return self.feature_names.index(feature)
        if not is_whole(feature):
            raise InvalidInputError(f"A feature is a name or a position, not {feature!r}.")
        if not 0 <= feature < self.n_features:
            raise InvalidInputError(f"Feature {feature} is out of range; the model has {self.n_features} features.")
        return int(feature)

    def categories_of(self, feature: int) -> tuple[Any, ...] | None:
        """Return the raw category values of a feature, None if the model stores none."""
        return self.feature_categories[feature] if self.feature_categories else None


def schema_to_json(schema: InputSchema) -> dict[str, Any]:
    """Plain JSON data of a schema."""
    known = schema.feature_categories
    return f.write_scalars(schema) | {
        "feature_names": None if schema.feature_names is None else list(schema.feature_names),
        "feature_categories": [None if own is None else [f.write_category(one) for one in own] for own in known],
    }


def schema_from_json(section: Any, where: str) -> InputSchema:
    """A schema from what `schema_to_json` made; a `json_fields.Reader`."""
    schema: InputSchema = f.record_of(InputSchema)(section, where)
    names, known = schema.feature_names, schema.feature_categories
    f.require(names is None or len(names) == schema.n_features, f"'{where}.feature_names' has another length")
    f.require(len(known) in (0, schema.n_features), f"'{where}.feature_categories' has another length")
    return schema


def schema_of(forest: Forest) -> InputSchema:
    """Return what the model of a Forest expects of its input."""
    names = forest.feature_names
    if names is not None and names == tuple(f"Column_{j}" for j in range(len(names))):
        names = None  # LightGBM's default names: it was trained on a bare array
    return InputSchema(
        n_features=forest.n_features,
        feature_names=names,
        feature_categories=forest.feature_categories,
        library=forest.library,
        comparison=forest.comparison,
        category_rule=forest.category_rule,
        missing_value=float(forest.missing_value),
        sparse_zero_is_missing=forest.sparse_zero_is_missing,
        accepts_missing=forest.accepts_missing,
    )


def check_shape(shape: tuple[int, ...], schema: InputSchema, name: str) -> None:
    """Raise unless the shape is two-dimensional with as many columns as the model has features."""
    if len(shape) != 2:
        raise InvalidInputError(f"{name} has {len(shape)} dimension(s), a table has 2; for one row pass [row].")
    if shape[1] != schema.n_features:
        raise InvalidInputError(
            f"{name} has {shape[1]} columns, the model has {schema.n_features} features. Pass exactly the model's "
            "columns, in its order."
        )


def listing(values: Sequence[Any], limit: int = 8) -> str:
    """Format the first few values, for a message."""
    shown = ", ".join(repr(value) for value in values[:limit])
    return shown + (f", ... ({len(values)} in all)" if len(values) > limit else "")


def find_columns(columns: Sequence[Any], schema: InputSchema, name: str) -> list[int]:
    """Return the positions of the model's columns; raise if one is absent, duplicated or out of order."""
    expected = schema.feature_names
    assert expected is not None
    stored = traits_of(schema.library).column_name
    found = [stored(str(column)) for column in columns]
    missing = [column for column in expected if column not in set(found)]
    if missing:
        extra = [column for column in found if column not in set(expected)]
        others = f"Not in the model: {listing(extra)}. " if extra else ""
        separators = [mark for mark in (";", "\t", "|") if len(found) == 1 and mark in found[0]]
        if separators:
            others += f"The columns seem to be separated by {separators[0]!r}; separate them by commas. "
        raise InvalidInputError(
            f"{name} has {len(found)} columns, the model has {len(expected)} features, and "
            f"{name} lacks the model's column(s) {listing(missing)}. {others}"
            "Pass the model's columns, in its order."
        )
    wanted = set(expected)
    order = [position for position, column in enumerate(found) if column in wanted]
    own = [found[position] for position in order]
    if len(own) > len(expected):
        twice = next(column for column in own if own.count(column) > 1)
        raise InvalidInputError(f"{name} has the column {twice!r} more than once.")
    if own != list(expected):
        first = next(j for j, column in enumerate(own) if column != expected[j])
        given = [str(columns[found.index(column)]) for column in expected]  # as the table spells them
        raise InvalidInputError(
            f"The columns of {name} are not the model's. The names are the same in another order "
            f"(column {first} is {own[first]!r}, the model has {expected[first]!r} there), and "
            f"libraries read columns by position. Put them in the model's order: {listing(given)} "
            "(in Python X[X_train.columns], where X_train is the table that the model was trained "
            "on)."
        )
    return order


def model_columns(X: Any, schema: InputSchema, name: str = "X") -> Any:
    """Return a frame with the model's columns only; a table without column names is returned unchanged."""
    columns = _names_of(X)
    if schema.feature_names is None or columns is None:
        return X
    # a frame made from a bare array numbers its columns 0, 1, ...; these are not names
    if all(column == j for j, column in enumerate(columns)):
        # a model trained on such a frame has the names '0', '1', ...
        if schema.reader is Reader.XGBOOST and [str(column) for column in columns] != list(schema.feature_names):
            raise InvalidInputError(
                f"{name} is a DataFrame without column names, which XGBoost refuses for a model trained on the columns "
                f"{listing(schema.feature_names)}. Name its columns, or pass X.to_numpy()."
            )
        return X
    order = find_columns(columns, schema, name)
    if len(order) == len(columns):
        return X
    if hasattr(X, "iloc"):
        return X.iloc[:, order]
    return X.select([columns[position] for position in order])


def _names_of(X: Any) -> list[Any] | None:
    """Return the column names of a pandas or polars DataFrame or a pyarrow Table; None for anything else."""
    module = type(X).__module__.partition(".")[0]
    if module in ("pandas", "polars") and getattr(X, "ndim", 2) == 2 and hasattr(X, "columns"):
        return list(X.columns)
    if module == "pyarrow" and hasattr(X, "num_columns"):
        return list(X.schema.names)
    return None
