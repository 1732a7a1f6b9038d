"""Tables from files: every format the same numbers, columns by name, nothing guessed."""

import sys

import numpy as np
import pandas
import pyarrow
import pytest

from pine_boost.errors import InvalidInputError, MissingDependencyError
from pine_boost.model.rules import CategoryRule, Comparison
from pine_boost.tables.matrix import to_matrix
from pine_boost.tables.schema import InputSchema
from pine_boost.tables.table_files import read_table


def schema(names=("a", "b c", "d"), categories=(), library="xgboost"):
    n_features = 3 if names is None else len(names)
    return InputSchema(
        n_features, names, categories, library, Comparison.FLOAT32_LESS, CategoryRule.EXACT, float("nan"), True, True
    )


def awkward():
    """Numbers that careless parsers get wrong by an ulp, and missing ones."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((50, 3)) * 10.0 ** rng.integers(-30, 30, (50, 3))
    values[3, 1] = np.nan
    values[4] = [0.1 + 0.2, 5e-324, 1.7976931348623157e308]
    return pandas.DataFrame(values, columns=["a", "b c", "d"])


def write(frame, path):
    kind = path.suffixes[0]
    if kind == ".csv":
        frame.to_csv(path, index=False)
    elif kind == ".tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif kind == ".parquet":
        frame.to_parquet(path)
    elif kind == ".feather":
        frame.to_feather(path)
    else:
        table = pyarrow.Table.from_pandas(frame)
        with pyarrow.ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.parquet", "t.feather", "t.arrow"])
def test_every_format_gives_the_same_bits_in_the_order_of_the_model(name, tmp_path):
    frame = awkward()
    mixed = frame.assign(label=1, note="x")[["label", "a", "note", "b c", "d"]]
    read = read_table(write(mixed, tmp_path / name), schema(), "label")
    assert list(read.X.columns) == ["a", "b c", "d"]
    np.testing.assert_array_equal(to_matrix(read.X, schema()), frame.to_numpy())
    assert read.y.tolist() == [1] * 50
    assert read.left_out == ("note",)


def read_without_pandas(path, schema, label=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)
        return read_table(path, schema, label)


def test_without_pandas_the_same_numbers(tmp_path):
    frame = awkward().assign(label=2)
    path = write(frame[["a", "label", "b c", "d"]], tmp_path / "t.csv")
    read = read_without_pandas(path, schema(), "label")
    np.testing.assert_array_equal(read.X, frame[["a", "b c", "d"]].to_numpy())
    assert set(read.y) == {"2"}
    with pytest.raises(MissingDependencyError, match="categories"):
        read_without_pandas(path, schema(categories=(None, ("x",), None)))
    (tmp_path / "text.csv").write_text("a,b c,d\n1,2,three\n")
    with pytest.raises(InvalidInputError, match="'d' holds 'three' in row 0"):
        read_without_pandas(tmp_path / "text.csv", schema())
    (tmp_path / "digits.csv").write_text("a,b c,d\n1,2,1_0\n")
    for read in (
        lambda path: to_matrix(read_table(path, schema()).X, schema()),
        lambda path: read_without_pandas(path, schema()),
    ):
        with pytest.raises(InvalidInputError, match="holds '1_0'"):
            read(tmp_path / "digits.csv")
    (tmp_path / "ragged.csv").write_text("a,b c,d\n1,2\n")
    with pytest.raises(InvalidInputError, match="line 2 has 2 cells"):
        read_without_pandas(tmp_path / "ragged.csv", schema())


@pytest.mark.parametrize("names", [None, ("a", "b c", "d")])
def test_a_table_without_names_goes_by_position(names, tmp_path):
    values = np.array([[1.5, np.nan, 3.0], [0.0, -1.0, 2.0]])
    np.save(tmp_path / "t.npy", values)
    pandas.DataFrame(values).to_csv(tmp_path / "bare.csv", index=False, header=False)
    pandas.DataFrame(values).to_csv(tmp_path / "counted.csv", index=False)
    for name in ("t.npy", "bare.csv", "counted.csv"):
        read = read_table(tmp_path / name, schema(names))
        bare = read_without_pandas(tmp_path / name, schema(names))
        np.testing.assert_array_equal(bare.X, values)
        np.testing.assert_array_equal(to_matrix(read.X, schema(names)), values)


def test_categories_of_text_stay_text(tmp_path):
    known = schema(("size", "code", "x"), (None, ("01", "1", "2"), None))
    (tmp_path / "t.csv").write_text("size,code,x\n1.5,01,0\n2.5,1,0\n,2,1\n1,,1\n")
    read = read_table(tmp_path / "t.csv", known)
    np.testing.assert_array_equal(to_matrix(read.X, known)[:, 1], [0, 1, 2, np.nan])


def test_blanks_in_names_as_lightgbm_stores_them(tmp_path):
    path = write(awkward(), tmp_path / "t.csv")
    stored = schema(("a", "b_c", "d"), library="lightgbm")
    read = read_table(path, stored)
    assert to_matrix(read.X, stored).shape == (50, 3)


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("a,d\n1,2\n", None, "lacks the model's column.* 'b c'"),
        ("a;b c\n1;2\n", None, "seem to be separated by ';'; separate them by commas"),
        ("d,a,b c\n1,2,3\n", None, "same in another order.*column 0 is 'd'"),
        ("a,b c,d\n1,2,3\n", "y", "has no column 'y'"),
        ("1,2\n3,4\n", None, "no column names and the shape"),
        ("", None, "cannot be read as CSV"),
    ],
)
def test_refuses_what_does_not_fit(text, label, message, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        read_table(tmp_path / "t.csv", schema(), label)


def test_refuses_files_of_no_known_kind(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    (tmp_path / "t.parquet").write_bytes(b"PAR0")
    (tmp_path / "t.feather").write_bytes(b"nothing")
    (tmp_path / "t.npy").write_bytes(b"nothing")
    for name in ("t.xlsx", "t.parquet", "t.feather", "t.npy", "absent.csv"):
        with pytest.raises(InvalidInputError, match=name):
            read_table(tmp_path / name, schema())
    frame = awkward().set_axis(["a", "a", "d"], axis=1)
    frame.to_csv(tmp_path / "unnamed.csv", index=False)
    with pytest.raises(InvalidInputError, match="no feature names and 3 features"):
        read_table(write(awkward().assign(e=1), tmp_path / "wide.csv"), schema(None))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.zip", "t.csv.xz"])
@pytest.mark.parametrize(
    ("lines", "line", "cells"),
    [
        (["a,b c,d", "1,2,3", "4,5", "7,8,9"], 3, 2),
        (["a,b c,d", "1,2,3,4", "1,2,3,4"], 2, 4),  # pandas takes the first column as an index
        (["a,b c,d", "", '"1\n0",2', "1,2,3"], 4, 2),
    ],
)
def test_ragged_lines_are_errors_with_their_line(name, lines, line, cells, tmp_path):
    import bz2
    import gzip
    import lzma
    import zipfile

    text = "\n".join(lines).encode()
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("t.csv", text)
    else:
        packed = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
        path.write_bytes(packed.get(path.suffix, bytes)(text))
    with pytest.raises(InvalidInputError, match=f"line {line} has {cells} cells.* has 3"):
        read_table(path, schema())


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.csv.zip"])
def test_damaged_compressed_files_are_refused(name, tmp_path):
    (tmp_path / name).write_bytes(b"neither compressed nor a table")
    with pytest.raises(InvalidInputError, match="cannot be read as CSV"):
        read_table(tmp_path / name, schema())
    with pytest.raises(InvalidInputError, match="cannot be read as CSV"):
        read_without_pandas(tmp_path / name, schema())


@pytest.mark.parametrize("n_files", [0, 2])
def test_an_archive_holds_one_table(n_files, tmp_path):
    import zipfile

    path = tmp_path / "t.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(n_files):
            archive.writestr(f"{number}.csv", "a,b c,d\n1,2,3\n")
    with pytest.raises(InvalidInputError, match=f"holds {n_files} files"):
        read_table(path, schema())
    with pytest.raises(InvalidInputError, match=f"holds {n_files} files"):
        read_without_pandas(path, schema())
