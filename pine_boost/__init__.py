"""Faster and smaller tree ensembles of the same kind, with a promise that can be checked."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from pine_boost import errors as errors

# __init__.pyi lists the public names once, for type checkers and for this module. A scorer is loaded in a few
# milliseconds, so a module is imported when one of its names is first used.
_STUB = Path(__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
_MODULE_OF = {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", _STUB, re.MULTILINE)}
__all__ = list(_MODULE_OF)


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'pine_boost' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
