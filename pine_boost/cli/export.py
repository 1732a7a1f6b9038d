"""``pine-boost export``: convert a model or scorer for another engine: Treelite, C code, ONNX or SQL.

An ONNX file is written only if onnxruntime agrees with the native model at every threshold.

Examples
--------
  pine-boost export model.json --to onnx -o model.onnx --data train.csv
  pine-boost export model.txt --to treelite -o model.tl
  pine-boost export model.json --to sql -o model.sql --table customers --keep id
  pine-boost export scorer --to c -o scorer.c          (a folder that accelerate wrote, or a model)
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pine_boost.cli import flags, output
from pine_boost.errors import InvalidInputError, UnsupportedModelError
from pine_boost.files import save_file
from pine_boost.scoring.scorer_folder import MANIFEST, read_parts
from pine_boost.tables.schema import schema_of
from pine_boost.tables.table_files import read_table

CATEGORIES = "categories.json"
_OF_ONE = {"table": "sql", "keep": "sql", "data": "onnx", "label": "onnx"}  # flags that say nothing about other targets
_NAMES = {"onnx": "ONNX", "treelite": "Treelite", "sql": "SQL"}
_ONLY_C = (
    "{folder} is a scorer folder, and {target} has no early exit, so the scorer would lose its speed. Export the model "
    "itself to {target}, or the scorer with --to c."
)


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    flags.add_arguments(
        parser,
        "export",
        "model target output force data label table keep codes",
        target={"required": True, "choices": ("treelite", "c", "onnx", "sql")},
        output={"required": True},
        keep={"action": "append"},
    )


def main(arguments: argparse.Namespace) -> int:
    """Convert and write."""
    from pine_boost.parsers import read_model

    for name, owner in _OF_ONE.items():
        if arguments.target != owner and getattr(arguments, name) is not None:
            raise InvalidInputError(f"--{name} belongs to --to {owner}, not to --to {arguments.target}.")
    target = Path(arguments.output)
    for path in (target, *([_beside(target)] if arguments.codes else [])):
        output.require_file(arguments, path)
    if arguments.target == "c":
        contents, known = _c_code(arguments)
    elif Path(arguments.model).joinpath(MANIFEST).is_file():
        raise UnsupportedModelError(_ONLY_C.format(folder=arguments.model, target=_NAMES[arguments.target]))
    else:
        model = read_model(arguments.model, trust_pickle=arguments.trust_pickle, decision="value")
        contents, known = _contents(arguments, model), model.forest
    save_file(target, contents)
    said = f"Written to {target} ({len(contents)} bytes)"
    if arguments.codes:
        save_file(_beside(target), _categories(known))
        said += f"\nA code is the position of the value in its list in {_beside(target)} (NaN for unknown values)"
    flags.answer(arguments, {"output": str(target), "to": arguments.target, "bytes": len(contents)}, said)
    return 0


def _beside(target: Path) -> Path:
    return target.with_name(f"{target.name}.{CATEGORIES}")


def _c_code(arguments: argparse.Namespace) -> tuple[bytes, Any]:
    """The file of a scorer, or of a model that is accelerated for it; and what knows the categories."""
    from pine_boost.accelerate import accelerate_booster
    from pine_boost.exporters.c_code import to_c

    if Path(arguments.model).joinpath(MANIFEST).is_file():
        parts, manifest = read_parts(arguments.model, trust_pickle=arguments.trust_pickle)
        claim = manifest["claim"]
    else:
        result = accelerate_booster(arguments.model, trust_pickle=arguments.trust_pickle)
        parts, claim = result.scorer.parts, result.claim
    if parts.prepare is not None:
        raise UnsupportedModelError("The steps of a Pipeline cannot be written in C; accelerate its last step alone.")
    if any(known is not None for known in parts.schema.feature_categories) and not arguments.codes:
        raise UnsupportedModelError(
            "This model takes category values, and C code takes their codes; pass --codes, which writes a list of the "
            "values in the order of the codes beside the file."
        )
    comment = f"Written by pine_boost. {claim}\nCompile: cc -std=c99 -O2 -ffp-contract=off scorer.c -lm"
    return to_c(parts.flat, parts.native, parts.plan, parts.classes, comment), parts.schema


def _categories(forest: Any) -> bytes:
    """The values of every column that takes codes, in the order of the codes."""
    known = {
        forest.name_of(column): [getattr(value, "item", lambda v=value: v)() for value in values]
        for column, values in enumerate(forest.feature_categories)
        if values is not None
    }
    return (json.dumps(known, indent=1, default=str) + "\n").encode()


def _contents(arguments: argparse.Namespace, model: Any) -> bytes:
    if arguments.target == "treelite":
        from pine_boost.exporters.treelite import to_treelite

        return bytes(to_treelite(model, codes=arguments.codes).serialize_bytes())
    if arguments.target == "sql":
        from pine_boost.exporters.sql import to_sql

        return to_sql(model, table=arguments.table or "rows", keep=arguments.keep or (), codes=arguments.codes).encode()
    from pine_boost.exporters.onnx import to_onnx

    X = None
    if arguments.data is not None:
        X = read_table(arguments.data, schema_of(model.forest), arguments.label).X
    return bytes(to_onnx(model, X_fit=X, codes=arguments.codes).SerializeToString())
