"""Finds, compiles and loads the C kernel; None where there is neither a built file nor a compiler."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import shutil
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("trees.c")
# no contraction into fused operations: sums must be those that the numpy twin and the proofs have
FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-fPIC", "-shared")
_CHOICE = "PINE_BOOST_KERNEL"
RUNTIME = "ucrtbase"  # Windows' C library, whose exp Python and the native libraries use


_C_TYPES = {"int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "double": ctypes.c_double, "void": None}
_DECLARED = re.sub(r"/\*.*?\*/|\bconst ", "", SOURCE.read_text(encoding="utf-8"), flags=re.DOTALL)
# result, name and arguments of each function
_FUNCTIONS = re.findall(r"^(\w+) (pine_\w+)\(([^)]*)\)", _DECLARED, re.MULTILINE)


def _type_of(declared: str) -> Any:
    """The type of a declaration in trees.c: its first word, unless it declares a pointer."""
    return ctypes.c_void_p if "*" in declared else _C_TYPES[declared.split()[0]]


def _struct(name: str) -> Any:
    """A struct of trees.c for ctypes, read from the source: the two cannot differ."""
    body = _DECLARED.partition(f"}} {name};")[0].rpartition("typedef struct {")[2]
    fields = []
    for kind, names in re.findall(r"(\w+) ([*\w, \n]+);", body):
        fields += [(own.strip(" *\n"), _type_of(f"{kind} {own}")) for own in names.split(",")]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


ScorerStruct, RegionStruct, TableStruct, SignedStruct = map(_struct, ("scorer_t", "region_t", "table_t", "signed_t"))


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
    """Where a kernel that was compiled at first use is kept; machines of several kinds may share a home."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "pine_boost"
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pine_boost" / os.uname().machine


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
        for result, name, arguments in _FUNCTIONS:
            function = getattr(library, name)
            function.restype = _type_of(result)
            # Without types a call takes 0.4 us instead of 0.7: single rows are passed as bytes, the cheapest pointer
            # that ctypes can make, and so is their scorer.
            if name != "pine_score_row":
                function.argtypes = [_type_of(argument) for argument in arguments.split(",")]
        if sys.platform == "win32":
            runtime = ctypes.CDLL(RUNTIME)
            library.pine_use_exponentials(*(ctypes.cast(own, ctypes.c_void_p) for own in (runtime.expf, runtime.exp)))
    except (OSError, AttributeError):
        return None
    return library
