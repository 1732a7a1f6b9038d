"""``pine-boost simplify``: write the same model with fewer nodes, in the same format.

Examples
--------
  pine-boost simplify model.json -o smaller.json
  pine-boost simplify model.txt -o smaller.txt --fold-constants --json
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from pine_boost.cli import flags, output
from pine_boost.errors import InvalidInputError
from pine_boost.files import save_file


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    flags.add_arguments(parser, "simplify", "model output force", output={"required": True})
    flags.add_options(parser, "simplify", ["fold_constants"])


def main(arguments: argparse.Namespace) -> int:
    """Simplify and write."""
    from pine_boost.parsers import open_pickle, pickled
    from pine_boost.simplification import simplify

    source, target = Path(arguments.model), Path(arguments.output)
    output.require_file(arguments, target)
    _require_same_format(source, target)
    model = open_pickle(arguments.model, arguments.trust_pickle)  # with its layers, if it has any
    result = simplify(model, fold_constants=arguments.fold_constants)
    contents = result.model if isinstance(result.model, bytes) else pickled(result.model)
    save_file(target, contents)
    size = source.stat().st_size
    names = {entry.name for entry in fields(result)} - {"model", "original", "simplified"}
    facts = {name: getattr(result, name) for name in sorted(names)}
    summary = result.summary().replace("fold_constants=True", "--fold-constants")
    flags.answer(
        arguments,
        facts | {"bytes_before": size, "bytes_after": len(contents), "output": str(target)},
        f"{summary}\nWritten to {target} ({size} -> {len(contents)} bytes)",
    )
    return 0


def _require_same_format(source: Path, target: Path) -> None:
    known = [path.suffix.lower() for path in (source, target) if path.suffix.lower() in (".json", ".ubj", ".txt")]
    if len(known) == 2 and known[0] != known[1]:
        raise InvalidInputError(
            f"The model keeps its format ({source.suffix}), and {target.suffix} would be read as another; use the "
            "suffix of the original."
        )
