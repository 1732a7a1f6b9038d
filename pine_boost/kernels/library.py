"""Finds, compiles and loads the C kernel; None where there is neither a built file nor a compiler."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("trees.c")
# no contraction into fused operations: sums must be those that the numpy twin and the proofs have
FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-fPIC", "-shared")
_CHOICE = "PINE_BOOST_KERNEL"


def _typed(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


_NUMBER, _REAL, _POINTER = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class ScorerStruct(ctypes.Structure):
    """``scorer_t`` of trees.c; the order of the fields is that of the file."""

    _fields_ = (
        *_typed(_NUMBER, "n_features n_outputs n_trees n_sources n_columns"),
        *_typed(_NUMBER, "is_float32 is_closed snaps refuses_missing refuses_infinite has_missing_value"),
        *_typed(_NUMBER, "category_rule"),
        *_typed(_REAL, "zero missing_value"),
        *_typed(_POINTER, "source_feature source_edge source_column source_code"),
        *_typed(_POINTER, "source_other source_missing source_known"),
        *_typed(_POINTER, "edge code code_state column_base column_nan column_zero"),
        *_typed(
            _POINTER, "node root depth tree_set set_word word leaf_of_node leaf_offset tree_output quick quick_tree"
        ),
        *_typed(_NUMBER, "sums_float32 native_width link n_cuts wins_ties intercept_last"),
        *_typed(_REAL, "divisor slope"),
        *_typed(_POINTER, "native_value native_intercept cut"),
        *_typed(_NUMBER, "n_stages n_sets width n_exits"),
        *_typed(_POINTER, "order fresh_offset fresh_source stage stage_set value intercept low high gap"),
        *_typed(_NUMBER, "row_depth"),
        *_typed(_POINTER, "brief row_root row_leaf"),
    )


class RegionStruct(ctypes.Structure):
    """``region_t`` of trees.c."""

    _fields_ = (
        *_typed(_NUMBER, "n_terms n_groups has_trees"),
        *_typed(_POINTER, "first second width group_end offset cost limit leaf_cost"),
    )


class TableStruct(ctypes.Structure):
    """``table_t`` of trees.c; strides count elements."""

    _fields_ = (*_typed(_POINTER, "data"), *_typed(_NUMBER, "is_float32 row_stride column_stride is_raw n_rows"))


class SignedStruct(ctypes.Structure):
    """``signed_t`` of trees.c."""

    _fields_ = tuple(_typed(_POINTER, "start column sign"))


_SMALL = ctypes.c_int32
_KINDS = {"p": _POINTER, "n": _NUMBER, "s": _SMALL}  # pointer, number, small number
# Result and arguments of each function. pine_score_row has no types of arguments: without them a call takes 0.4 us
# instead of 0.7; it is called with bytes (the cheapest pointer that ctypes can make), bytes again and a bool.
_SIGNATURES: dict[str, tuple[Any, str]] = {
    "score_row": (_SMALL, ""),
    "score": (_SMALL, "ppnnpp"),
    "leaves": (_SMALL, "ppnnp"),
    "margins": (_SMALL, "ppnnsp"),
    "region": (_SMALL, "pppnnpp"),
    "walk_states": (_SMALL, "ppnnpnpnnp"),
    "sum_leaves": (None, "pnnppnp"),
    "products": (None, "ppnpp"),
    "transposed": (None, "ppnpsp"),
    "normal": (None, "ppnppp"),
    "renumber": (_NUMBER, "ppnppp"),
}


def file_name() -> str:
    """Name of the compiled file: it changes with the source and the flags."""
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    return f"trees-{digest}{'.dll' if sys.platform == 'win32' else '.so'}"


def find_compiler() -> str | None:
    """Path of a C compiler: ``CC``, cc, gcc or clang, whichever is there first."""
    candidates = (os.environ.get("CC", ""), "cc", "gcc", "clang")
    return next((path for name in candidates if name and (path := shutil.which(name))), None)


def compile_to(target: Path, flags: tuple[str, ...] = FLAGS) -> bool:
    """Compile the kernel; ``target`` appears complete or not at all. False where that fails."""
    import subprocess  # these two take as long to import as a scorer to load
    import tempfile

    compiler = find_compiler()
    if compiler is None:
        return False
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, ignore_cleanup_errors=True) as folder:
            made = os.path.join(folder, target.name)
            command = [compiler, *flags, "-o", made, str(SOURCE), "-lm"]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
            os.replace(made, target)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def cache_folder() -> Path:
    """Where a kernel that was compiled at first use is kept."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pine_boost"


@lru_cache(maxsize=1)
def load() -> Any | None:
    """The loaded kernel: built by pip, else from the user's cache, else compiled now; None without.

    ``PINE_BOOST_KERNEL`` in the environment overrides this: ``numpy``, or the path of a compiled file.
    """
    choice = os.environ.get(_CHOICE, "")
    if choice:
        return None if choice == "numpy" else _open(Path(choice))
    name = file_name()
    if library := _open(SOURCE.with_name(name)):
        return library
    with contextlib.suppress(OSError, RuntimeError):  # no home, a read-only one
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        cached = folder / name
        if library := _open(cached) or (_open(cached) if compile_to(cached) else None):
            return library
    import tempfile

    # Windows keeps the file of a loaded library, elsewhere it stays mapped after its file is gone
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        target = Path(place) / name
        if compile_to(target):
            return _open(target)
    return None


def _open(path: Path) -> Any | None:
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, kinds) in _SIGNATURES.items():
            function = getattr(library, f"pine_{name}")
            function.restype = result
            if kinds:
                function.argtypes = [_KINDS[kind] for kind in kinds]
    except (OSError, AttributeError):
        return None
    return library
