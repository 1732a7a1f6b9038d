"""Select the model's columns from a table by name and drop the others.

No library selects columns by name, and all of them reject extra columns, so dropping those changes no prediction.
LightGBM always, and XGBoost for polars and pyarrow tables, read columns by position regardless of their names.
Columns in a different order therefore raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pine_boost.errors import InvalidInputError
from pine_boost.parsers.traits import Reader, traits_of
from pine_boost.tables.schema import InputSchema, difference, listing


def find_columns(columns: Sequence[Any], schema: InputSchema, name: str) -> list[int]:
    """Return the positions of the model's columns; raise if one is absent, duplicated or out of order."""
    expected = schema.feature_names
    assert expected is not None
    stored = traits_of(schema.library).column_name
    found = [stored(str(column)) for column in columns]
    missing = [column for column in expected if column not in set(found)]
    if missing:
        others = difference(found, [column for column in expected if column in set(found)])
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
