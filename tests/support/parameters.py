"""The "Parameters" sections of the public calls, as the option table has them.

``python -m tests.support.parameters`` writes them into the sources; tests/test_options.py compares.
"""

import importlib
import inspect
from pathlib import Path
from typing import Any

from pine_boost.options import option_of

CALLS = {
    "prune_booster": "pine_boost.prune",
    "sweep": "pine_boost.sweeping",
    "compress_booster": "pine_boost.compress",
    "accelerate_booster": "pine_boost.accelerate",
    "simplify": "pine_boost.simplification",
    "survey": "pine_boost.surveying",
    "PineClassifier": "pine_boost.classifier",
    "run_fleet": "pine_boost.fleet",
}


def public_call(name: str) -> Any:
    """The function or class."""
    return getattr(importlib.import_module(CALLS[name]), name)


def parameters_of(name: str) -> dict[str, Any]:
    """Names and defaults of a signature."""
    signature = inspect.signature(public_call(name))
    return {p.name: p.default for p in signature.parameters.values()}


def section_of(name: str) -> str:
    """The "Parameters" section that the table gives."""
    entries = (option_of(name, parameter).documentation(name) for parameter in parameters_of(name))
    return "\n".join(["    Parameters", "    ----------", *entries, "\n"])


def write_sections() -> None:
    """Replace the sections in the sources."""
    for name in CALLS:
        call = public_call(name)
        path = Path(inspect.getfile(call))
        text = path.read_text(encoding="utf-8")
        begin = text.index("    Parameters\n", text.index(f"{'class' if inspect.isclass(call) else 'def'} {name}("))
        ends = [text.find(f"\n    {title}\n", begin) for title in ("Returns", "Attributes")]
        end = min(end for end in ends if end > 0) + 1
        path.write_text(text[:begin] + section_of(name) + text[end:], encoding="utf-8")


if __name__ == "__main__":
    write_sections()
