"""C source code of a model, written by tl2cgen.

In comes a model; out go the files of a C project whose ``predict`` does what gtil does with
`to_treelite`, up to the order of additions. Compiles nothing.
"""

from __future__ import annotations

import tempfile
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from pine_boost.errors import MissingDependencyError, UnsupportedModelError
from pine_boost.exporters.treelite import to_treelite

__all__ = ["to_c"]


def to_c(model: Any, *, codes: bool = False) -> dict[str, bytes]:
    """Write a model as C source code.

    Parameters
    ----------
    model : native model, path, bytes or Model
        Whatever `to_treelite` accepts.
    codes : bool
        As for `to_treelite`: category codes will be fed instead of the values of a table.

    Returns
    -------
    dict
        File names and contents: ``main.c``, ``header.h``, ``recipe.json`` and what else tl2cgen
        writes. The code adds leaves as doubles: a model on a float64 grid is exact, one on a
        float32 sum close. tl2cgen takes a double whose low 32 bits are all ones for missing;
        values cast from float32 never are.

    Raises
    ------
    UnsupportedModelError
        As `to_treelite`, or tl2cgen refuses the model.
    MissingDependencyError
        Treelite or tl2cgen is not installed.
    """
    try:
        import tl2cgen
    except ImportError as error:
        raise MissingDependencyError("C code needs tl2cgen; install it with: pip install tl2cgen") from error
    converted = to_treelite(model, codes=codes)
    with tempfile.TemporaryDirectory(prefix="pine-boost-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tl2cgen remarks on checkpoints of a newer Treelite
        try:
            with redirect_stdout(StringIO()):  # and prints that it writes several files
                tl2cgen.generate_c_code(converted, dirpath=folder, params={"parallel_comp": 8})
        except Exception as error:  # tl2cgen has exceptions of its own
            reason = str(error).strip()[:200]
            raise UnsupportedModelError(f"tl2cgen refuses the model: {reason}") from error
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
