"""Damaged LightGBM texts, each with a name, generated from sound ones.

Gives (name, bytes) pairs that a reader must refuse: every fault of the format, and flipped bits that cannot leave a
sound text.
"""

import re
from collections.abc import Iterator

import numpy as np

from tests.support import lightgbm_texts

_BLOCKS = (
    """Tree=0
num_leaves=4
num_cat=1
split_feature=0 1 0
split_gain=3 2 1
threshold=0.5 0 -1.5
decision_type=2 1 8
left_child=1 -1 -2
right_child=2 -3 -4
leaf_value=0.25 -0.5 1.125 -2
leaf_weight=10 20 30 40
leaf_count=10 20 30 40
internal_value=0.1 0.2 0.3
internal_weight=100 40 60
internal_count=100 40 60
cat_boundaries=0 2
cat_threshold=5 1
is_linear=0
shrinkage=1


""",
    """Tree=1
num_leaves=3
num_cat=0
split_feature=1 0
split_gain=3 2
threshold=0.75 1e-35
decision_type=2 6
left_child=1 -1
right_child=-2 -3
leaf_value=0.5 -0.25 2.5e-1
leaf_weight=10 20 30
leaf_count=10 20 30
internal_value=0 0
internal_weight=60 40
internal_count=60 40
is_linear=0
shrinkage=0.1


""",
)
_TAIL = """end of trees

feature_importances:
a=3
b=2

parameters:
[boosting: gbdt]
[objective: binary]
[sigmoid: 1]
[data: ]

end of parameters

pandas_categorical:[["x", "y"]]
"""


def build(blocks: tuple[str, ...] = _BLOCKS, tail: str = _TAIL, **header: str | None) -> bytes:
    """The sound text with other blocks, another end or other header lines."""
    return lightgbm_texts.build(blocks, tail, **header)


def sound() -> bytes:
    """The text all others are made from; it must be accepted."""
    return build()


def in_tree(old: str, new: str, tree: int = 0) -> bytes:
    """Replace a line in a block and correct tree_sizes, so that only the tree is wrong."""
    blocks = list(_BLOCKS)
    assert old in blocks[tree], old
    blocks[tree] = blocks[tree].replace(old, new, 1)
    return build(tuple(blocks))


def generate(seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """All malformed texts."""
    yield from _flips(np.random.default_rng(seed))
    yield from _header_faults()
    yield from _tree_faults()
    yield from _shape_faults()
    yield from _tail_faults()
    yield from _byte_faults()


def _flips(random: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    text = sound()
    for place in random.choice(len(text), 40, replace=False).tolist():
        # the high bit alone never makes valid UTF-8 of ASCII
        yield f"bit 7 of byte {place}", _flip(text, place, 0x80)
    start, end = text.index(b"num_leaves"), text.index(b"end of trees")
    digits = [m.start() for m in re.finditer(rb"[0-9]", text) if start < m.start() < end]
    for place in random.choice(digits, 30, replace=False).tolist():
        yield f"bit 6 of digit {place}", _flip(text, place, 0x40)  # a letter, p to y
    keys = [m.start() for m in re.finditer(rb"[a-z_]+=", text) if start <= m.start() < end]
    for place in keys:
        yield f"bit 1 of key {place}", _flip(text, place, 0x02)
    equals = [m.start() for m in re.finditer(rb"=", text) if m.start() < end]
    for place in equals[::3]:
        yield f"bit 0 of = {place}", _flip(text, place, 0x01)  # '<'
    breaks = [m.start() for m in re.finditer(rb"\n", text) if m.start() < end]
    for place in breaks[::4]:
        yield f"bit 3 of line end {place}", _flip(text, place, 0x08)  # a control byte


def _flip(text: bytes, place: int, bits: int) -> bytes:
    return text[:place] + bytes([text[place] ^ bits]) + text[place + 1 :]


def _header_faults() -> Iterator[tuple[str, bytes]]:
    for key in (
        "version",
        "num_class",
        "num_tree_per_iteration",
        "label_index",
        "tree_sizes",
        "max_feature_idx",
        "feature_names",
        "feature_infos",
    ):
        yield f"no {key}", build(**{key: None})
        yield f"empty {key}", build(**{key: ""})
        yield f"text in {key}", build(**{key: "pine tree house"})
    sizes = [len(block) for block in _BLOCKS]
    faults = {
        "version": ["v3", "v5", "4"],
        "num_class": ["0", "-1", "2", "3", "1000000000000", "99999999999999999999", "1 1", "1.0"],
        "num_tree_per_iteration": ["0", "2", "-1", "99999999999"],
        "max_feature_idx": ["0", "2", "-1", "2147483647", "99999999999999999999"],
        "feature_names": ["a", "a b c", "a a", "a  b", " a b"],
        "feature_infos": ["[0:1]", "[0:1] [0:1] none", "[0:1] [1", "[0:1] 1;2"],
        "objective": [
            "binary",
            "binary sigmoid:0",
            "binary sigmoid:x",
            "multiclass num_class:2",
            "multiclass num_class:999999",
            "",
            "binary sigmoid:1\x0b",
        ],
        "tree_sizes": [
            f"{sizes[0]}",
            f"{sizes[0] - 1} {sizes[1]}",
            f"{sizes[0] + 1} {sizes[1]}",
            f"{sizes[0] + 1} {sizes[1] - 1}",
            f"{sizes[0]} {sizes[1]} 5",
            f"{sizes[0]} 99999999999",
            f"{sizes[0]} 999999999999999999",
            f"{sizes[0]} 999999999999999999 999999999999999999",
            f"{sum(sizes)}",
            "x y",
            f"-{sizes[0]} {sizes[1]}",
            f"{sizes[0]},{sizes[1]}",
            "0 0",
        ],
        "monotone_constraints": ["1", "1 2", "x 1"],
        "average_output": ["1"],
        "surprise": ["1"],
    }
    for key, values in faults.items():
        for value in values:
            yield f"{key}={value}", build(**{key: value})
    text = sound()
    yield "header line twice", text.replace(b"num_class=1\n", b"num_class=1\nnum_class=1\n", 1)
    yield "line without =", text.replace(b"label_index=0\n", b"label_index\n", 1)
    yield "no first line", text.removeprefix(b"tree\n")
    start = text.index(b"Tree=1")
    yield "hole of one tree", text[:start] + text[text.index(b"end of trees") :]
    yield "hole in the middle", text[: start - 40] + text[start + 40 :]
    yield "no blank line after the header", text.replace(b"\n\nTree=0", b"\nTree=0", 1)


def _tree_faults() -> Iterator[tuple[str, bytes]]:
    for line in _BLOCKS[0].strip().split("\n"):
        key, _, value = line.partition("=")
        if key not in ("is_linear", "shrinkage"):  # the only two that may be absent
            yield f"tree without {key}", in_tree(line + "\n", "")
        yield f"tree with {key} twice", in_tree(line + "\n", line + "\n" + line + "\n")
        yield f"tree with text in {key}", in_tree(line + "\n", f"{key}=pine\n")
        if " " in value:
            yield f"{key} one short", in_tree(line + "\n", line.rpartition(" ")[0] + "\n")
            yield f"{key} one long", in_tree(line + "\n", line + " 1\n")
            yield f"{key} with commas", in_tree(line + "\n", line.replace(" ", ",") + "\n")
            yield f"{key} with two spaces", in_tree(line + "\n", line.replace(" ", "  ", 1) + "\n")
    yield "leaf_weight empty", in_tree("leaf_weight=10 20 30 40", "leaf_weight=")  # LightGBM aborts
    for bad in ("nan", "inf", "-inf", "1e400", "1,5", "0x1p3", "1_0", "1e", ".", "--1", "٣"):
        yield f"leaf {bad}", in_tree("leaf_value=0.25", f"leaf_value={bad}")
    for bad in ("nan", "1e400", "infinity", "1,5"):
        yield f"threshold {bad}", in_tree("threshold=0.5", f"threshold={bad}")
    for bad in ("0", "1", "3", "5", "-4", "4.0", "131073", "2147483648", "99999999999999999999"):
        yield f"num_leaves={bad}", in_tree("num_leaves=4", f"num_leaves={bad}")
    for bad in ("0", "2", "-1", "999999999"):
        yield f"num_cat={bad}", in_tree("num_cat=1", f"num_cat={bad}")
    for bad in ("2", "-1", "99999", "2147483648"):
        yield f"split_feature {bad}", in_tree("split_feature=0", f"split_feature={bad}")
    for bad in ("12", "14", "-1", "256", "3"):
        yield f"decision_type {bad}", in_tree("decision_type=2", f"decision_type={bad}")
    yield "is_linear=1", in_tree("is_linear=0", "is_linear=1")
    yield "is_linear=2", in_tree("is_linear=0", "is_linear=2")
    yield "linear keys", in_tree("is_linear=0", "leaf_const=1 2 3 4\nis_linear=0")
    yield "unknown key", in_tree("is_linear=0", "house=1\nis_linear=0")
    yield "tree number", in_tree("Tree=0", "Tree=1")
    yield "tree number text", in_tree("Tree=1", "Tree=x", 1)
    yield "negative count", in_tree("leaf_count=10", "leaf_count=-10")
    yield "shrinkage of two", in_tree("shrinkage=1", "shrinkage=1 1")


def _shape_faults() -> Iterator[tuple[str, bytes]]:
    yield "cycle to the root", in_tree("left_child=1 -1 -2", "left_child=0 -1 -2")
    yield "cycle of a node", in_tree("left_child=1 -1 -2", "left_child=-1 1 -2")
    # nodes 1 and 2 feed one another, the root has two leaves: one parent each, yet not reachable
    yield (
        "island cycle",
        in_tree("left_child=1 -1 -2\nright_child=2 -3 -4", "left_child=-1 2 1\nright_child=-2 -3 -4"),
    )
    yield "child out of range", in_tree("right_child=2 -3", "right_child=3 -3")
    yield "huge child", in_tree("right_child=2 -3", "right_child=2147483647 -3")
    yield "leaf out of range", in_tree("right_child=2 -3 -4", "right_child=2 -3 -5")
    yield "leaf twice", in_tree("right_child=2 -3 -4", "right_child=2 -3 -3")
    yield "node twice", in_tree("right_child=2 -3 -4", "right_child=1 -3 -4")
    yield "set index", in_tree("threshold=0.5 0 -1.5", "threshold=0.5 1 -1.5")
    yield "set index fraction", in_tree("threshold=0.5 0 -1.5", "threshold=0.5 0.5 -1.5")
    yield "set index negative", in_tree("threshold=0.5 0 -1.5", "threshold=0.5 -1 -1.5")
    yield "set index infinite", in_tree("threshold=0.5 0 -1.5", "threshold=0.5 inf -1.5")
    for bad in ("0 3", "0 1", "1 2", "0 0", "0 -2", "2 0", "0 99999999999"):
        yield f"cat_boundaries={bad}", in_tree("cat_boundaries=0 2", f"cat_boundaries={bad}")
    for bad in ("5 -1", "5 4294967296", "5 1.5"):
        yield f"cat_threshold={bad}", in_tree("cat_threshold=5 1", f"cat_threshold={bad}")
    yield "sets without num_cat", in_tree("is_linear=0", "cat_boundaries=0 1\nis_linear=0", 1)


def _tail_faults() -> Iterator[tuple[str, bytes]]:
    def tail(old: str, new: str) -> bytes:
        assert old in _TAIL, old
        return build(tail=_TAIL.replace(old, new, 1))

    yield "no end of trees", tail("end of trees\n", "")
    yield "garbage before end of trees", tail("end of trees\n", "xx\nend of trees\n")
    yield "no importances", tail("feature_importances:\na=3\nb=2\n", "")
    yield "importance text", tail("a=3", "a=x")
    yield "importance without number", tail("a=3", "a")
    yield "no parameters", tail("parameters:\n", "")
    yield "parameter cut", tail("[sigmoid: 1]", "[sigmoid")
    yield "parameter cut before ]", tail("[sigmoid: 1]", "[sigmoid: 1")
    yield "parameter without :", tail("[sigmoid: 1]", "[sigmoid]")
    yield "parameter empty", tail("[sigmoid: 1]", "[]")
    yield "parameter without key", tail("[sigmoid: 1]", "[: 1]")
    yield "parameter twice", tail("[sigmoid: 1]", "[sigmoid: 1]\n[sigmoid: 1]")
    yield "parameter with a control byte", tail("[data: ]", "[data: \x07]")
    yield "no end of parameters", tail("end of parameters\n", "")
    yield "garbage after parameters", tail("end of parameters\n", "end of parameters\npine\n")
    for bad in (
        '[["x"',
        "{}",
        "[1]",
        "[[[1]]]",
        '[["x", null]]',
        "[[NaN]]",
        '[["x", "y", "x"]]',
        "[[1, 2, 1.0]]",
        "[[9007199254740993, 9007199254740992.0]]",
        '[[], [true, "y", 1]]',
        "[[1e999]]",
        "",
        "pine",
        "[" * 100_000,
        "[[" + "9" * 5000 + "]]",
    ):
        yield f"pandas {bad[:20]} of {len(bad)}", tail('[["x", "y"]]', bad)
    yield "trailing garbage", sound() + b"pine\n"
    yield "trailing blank line", sound() + b"\n"
    yield "two models", sound() + sound()


def _byte_faults() -> Iterator[tuple[str, bytes]]:
    text = sound()
    yield "CRLF everywhere", text.replace(b"\n", b"\r\n")
    yield "only the last line CRLF", text[:-1] + b"\r\n"
    yield "only the trees CRLF", text.replace(b"=0\n", b"=0\r\n")
    yield "CR only", text.replace(b"\n", b"\r")
    yield "CRLF counted in tree_sizes", _crlf_sizes()
    yield "CRLF and cut", text.replace(b"\n", b"\r\n")[:-40]
    yield "zero byte", text.replace(b"a b", b"a \x00", 1)
    yield "byte order mark", b"\xef\xbb\xbf" + text
    yield "UTF-16", text.decode().encode("utf-16")
    yield "latin-1 name", text.replace(b"=a b\n", b"=\xe4 b\n", 1)
    yield "blank text", b"\n" * 100
    yield "only zeros", b"\x00" * 100
    yield "random bytes", np.random.default_rng(1).bytes(1000)
    yield "leaves beyond float64", _overflow()


def _crlf_sizes() -> bytes:
    sizes = " ".join(str(len(block.replace("\n", "\r\n"))) for block in _BLOCKS)
    return build(tree_sizes=sizes).replace(b"\n", b"\r\n")


def _overflow() -> bytes:
    big = (
        _BLOCKS[0].replace("leaf_value=0.25", "leaf_value=1.7e308"),
        _BLOCKS[1].replace("leaf_value=0.5", "leaf_value=1.7e308"),
    )
    return build(big)
