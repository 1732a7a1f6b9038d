"""``pine-boost simplify``: the same margins from fewer nodes, written as the same kind of file.

In comes a model file; out goes a smaller one in the same format. Refuses to replace a file unless
it is told to, and the file that it reads always.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pine_boost.cli import options, output
from pine_boost.cli.words import in_flags
from pine_boost.errors import InvalidInputError

EXAMPLES = """examples:
  pine-boost simplify model.json -o smaller.json
  pine-boost simplify model.txt -o smaller.txt --fold-constants --json"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    options.add_model_options(parser)
    output.add_target(parser, "FILE", "where to write the model")
    options.add_flag(
        parser, "--fold-constants", "fold constant trees too: the same margins within the rounding band only"
    )
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Simplify and write."""
    from pine_boost.files import clear_errors, require_free_file, write_file
    from pine_boost.parsers import open_pickle
    from pine_boost.parsers.pickling import pickled
    from pine_boost.simplification import simplify

    source, target = Path(arguments.model), Path(arguments.output)
    require_free_file(target, inputs=[source], overwrite=arguments.force)
    _require_same_format(source, target)
    model = open_pickle(arguments.model, arguments.trust_pickle)  # with its layers, if it has any
    result = simplify(model, fold_constants=arguments.fold_constants)
    is_bytes = isinstance(result.model, bytes)
    contents = result.model if is_bytes else pickled(result.model)
    with clear_errors(target):
        write_file(target, contents)
    if arguments.json:
        options.print_json(_facts(result, source, target))
    else:
        print(in_flags(result.summary()))
        print(f"Written to {target} ({source.stat().st_size} -> {len(contents)} bytes)")
    return 0


def _require_same_format(source: Path, target: Path) -> None:
    formats = {".json": "json", ".ubj": "ubj", ".txt": "txt"}
    known = formats.get(source.suffix.lower()), formats.get(target.suffix.lower())
    if None not in known and known[0] != known[1]:
        raise InvalidInputError(
            f"The model is written in the format it has ({source.suffix}), and {target.suffix} "
            "would be read as another; choose the suffix of the original."
        )


def _facts(result: Any, source: Path, target: Path) -> dict[str, Any]:
    names = (
        "exact",
        "bound",
        "trees_before",
        "trees_after",
        "nodes_before",
        "nodes_after",
        "leaves_before",
        "leaves_after",
        "dead_splits",
        "twin_splits",
        "unused_codes",
        "note",
    )
    return {
        **{name: getattr(result, name) for name in names},
        "bytes_before": source.stat().st_size,
        "bytes_after": target.stat().st_size,
        "output": str(target),
    }
