"""The typed reader of JSON: what fits is taken, everything else is refused with the name of the field."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

from pine_boost import json_fields as f
from pine_boost.errors import MalformedModelError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' appears twice"),
        ('{"a": NaN}', "the token NaN"),
        ("[" * 100_000, "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        ("9" * 10_000, "is not JSON"),
    ],
)
def test_text_that_is_not_strict_json_is_refused(text, words):
    with pytest.raises(MalformedModelError, match=words) as caught, f.reading("domain file", "Write another"):
        f.parse_text(text)
    assert str(caught.value).startswith("Invalid domain file: ")
    assert str(caught.value).endswith(" Write another.")
    assert len(str(caught.value)) < 400


INNER = {"a": f.integer(), "b": f.optional(f.text())}
REFUSED = [
    *((value, f.integer(0, 9)) for value in (True, 1.0, 1.5, "1", None, [1], -1, 10, 2**63, 10**400)),
    *((value, f.integer(as_text=True)) for value in (1, True, "1.0", "1" * 30)),
    *((value, f.array(np.int32, typed=True)) for value in ([1], None, np.zeros(1, np.int64))),
    *((value, f.array(np.uint8, 1, typed=False)) for value in ([256], [-1], [True], [1.0], [1, 2], None)),
    *((value, f.array(np.float32, typed=False)) for value in ([1], [None], None, np.zeros(1, np.float32))),
    *((value, f.number(0, 1, exclude=(1,))) for value in (True, "0", None, 1, 1.0, -1e-9, 1e999, 10**400)),
    *((value, f.text(("a", "b"))) for value in ("c", 1, None, True, ["a"])),
    ("\ud800", f.text()),
    *((value, f.digest) for value in ("0" * 63, "g" * 64, 0, None)),
    *((value, f.flag) for value in (0, 1, "true", None)),
    *((value, f.scalar) for value in (None, [], {}, 2**63, 1e999)),
    *((value, f.sequence(f.integer(), 2)) for value in ([1], [1, 2, 3], [1, "2"], {"a": 1}, "12", None)),
    *((value, f.mapping(f.integer())) for value in ({"a": "b"}, [], None, {"\ud800": 1})),
    *((value, f.record(INNER)) for value in ({"a": 1}, {"a": 1, "b": "x", "c": 2}, {"a": "1", "b": "x"}, [], 1)),
    *((value, f.integers(0, 9)) for value in ([True], [1.0], [10], [-1], ["1"], 1, None, np.array([1.0]))),
    ([1, 2], f.integers(length=3)),
    *((value, f.floats()) for value in ([True], ["inf"], [1e999], [10**400], [None], 1.0)),
    *((value, f.floats(finite=False)) for value in (["nan"], [True], [None])),
    ([1.0], f.floats(length=2)),
    *((value, f.flags(2)) for value in ("0", "012", "0a", 1, None, [0, 1])),
]


@pytest.mark.parametrize(("value", "reader"), REFUSED, ids=range(len(REFUSED)))
def test_values_of_another_kind_are_refused_by_name(value, reader):
    with pytest.raises(f.FieldError, match="field"):
        f.read({"field": value}, {"field": reader})


def test_values_that_fit_are_taken(monkeypatch):
    monkeypatch.setattr(f, "_shown", None)  # no message is made of them
    table = {
        "a": f.optional(f.number()),
        "b": f.sequence(f.integer(as_text=True)),
        "c": f.mapping(f.number()),
        "d": f.record(INNER, lambda a, b: (a, b)),
        "e": f.floats(finite=False),
        "g": f.flags(3),
    }
    values = {"a": None, "b": ["1", "-2"], "c": {"x": 1}, "d": {"a": 3, "b": None}, "e": [1, "-inf"], "g": "011"}
    read = f.read(json.loads(json.dumps(values)), table, optional={"h": f.flag})
    assert (read["a"], read["b"], read["c"], read["d"]) == (None, (1, -2), {"x": 1.0}, (3, None))
    assert read["e"].tolist() == [1.0, -np.inf]
    assert read["g"].tolist() == [False, True, True]
    assert f.plain(read["g"]) == "011"
    assert f.plain(read["e"]) == [1.0, "-inf"]
    assert f.array(np.uint8, 1, typed=True)(np.array([3], dtype=np.uint8), "x").dtype == np.uint8
    assert f.array(np.float32, typed=False)([1.5, float("nan")], "x").dtype == np.float32


@pytest.mark.parametrize("version", [0, 2, True, 1.0, "1", None, [1]])
def test_only_one_version_is_read(version):
    document = f.write_document({"a": 1}, "some format", sealed=True)
    assert f.read_sealed(document, "some format", {"a": f.integer()}) == {"a": 1}
    for other in ({**document, "format_version": version}, {**document, "format": version}):
        with pytest.raises(f.FieldError, match="'format"):
            f.read_sealed(other, "some format", {"a": f.integer()})


def test_fields_are_checked_before_the_digest_and_then_the_digest():
    document = f.write_document({"a": 1, "date": 5}, "some format", sealed=True)
    table = {"a": f.integer(), "date": f.integer()}
    with pytest.raises(f.FieldError, match="'a' is inf"):
        f.read_sealed({**document, "a": 1e999}, "some format", table)
    with pytest.raises(f.FieldError, match="changed after it was written"):
        f.read_sealed({**document, "a": 2}, "some format", table)
    assert f.read_sealed({**document, "date": 9}, "some format", table)["date"] == 9


@dataclass(frozen=True)
class _Inner:
    name: str
    counts: tuple[f.Count, ...] = ()


@dataclass(frozen=True)
class _Outer:
    n: f.Positive
    tau: int | None
    level: f.Level
    pair: tuple[str, str]
    inner: tuple[_Inner, ...]
    sizes: Mapping[str, f.Size | None]
    unit: Annotated[str, f.text(["tree", "leaf"])] = "tree"


def test_a_dataclass_declares_its_fields_by_their_types():
    fields = {
        **{"n": 1, "tau": None, "level": 0.5, "pair": ["a", "b"], "sizes": {"x": 1, "y": None}, "unit": "leaf"},
        "inner": [{"name": "i", "counts": [0, 2]}],
    }
    expected = _Outer(1, None, 0.5, ("a", "b"), (_Inner("i", (0, 2)),), {"x": 1.0, "y": None}, "leaf")
    assert f.record_of(_Outer)(fields, "it") == expected
    for name, value, message in [
        *(("n", 0, "1 to"), ("n", True, "integer"), ("tau", 2**63, "integer"), ("level", 1, "except 1")),
        *(
            ("pair", ["a"], "expected 2"),
            ("pair", ["a", 1], "a text"),
            ("unit", "round", "one of"),
            ("sizes", {"x": -1}, "x"),
        ),
        *(("inner", [{"name": "i"}], "missing"), ("inner", [{"name": "i", "counts": [-1]}], r"inner\[0\].counts\[0\]")),
    ]:
        with pytest.raises(f.FieldError, match=message):
            f.record_of(_Outer)({**fields, name: value}, "it")
    with pytest.raises(f.FieldError, match="unknown"):
        f.record_of(_Outer)({**fields, "more": 1}, "it")
