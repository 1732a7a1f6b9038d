"""``pine-boost score``: predict the classes of a table with a scorer or a guarded model."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import Any

from pine_boost.cli import flags
from pine_boost.errors import InvalidInputError

EXAMPLES = """examples:
  pine-boost score scorer today.csv -o classes.csv
  pine-boost score scorer today.parquet --backend kernel --json"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("folder", metavar="DIR", help="Folder that accelerate or guard wrote.")
    parser.add_argument("data", metavar="DATA", help="CSV, Parquet, Feather/Arrow or .npy file.")
    parser.add_argument("-o", "--output", metavar="FILE", help="CSV file to write.")
    flags.add_switch(parser, "--force", "Replace FILE, whatever it holds.")
    parser.add_argument(
        "--backend", default="native", choices=("native", "kernel"), help="Engine that predicts (default: native)."
    )
    flags.add_switch(parser, "--proba", "Write probabilities too (scorers only).")
    flags.add_reading(parser)
    flags.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Score, write and print the counts."""
    from pine_boost.files import clear_errors, require_free_file, write_file
    from pine_boost.pipelines.given import read_raw_rows
    from pine_boost.serving.folder import load_guarded
    from pine_boost.tables.schema import schema_of

    if arguments.output is not None:
        require_free_file(arguments.output, inputs=[arguments.data], beginning=b"class", overwrite=arguments.force)
    if Path(arguments.folder).joinpath("scorer.json").is_file():
        return _score_fast(arguments)
    if arguments.proba:
        raise InvalidInputError("--proba needs a folder that accelerate wrote; a guarded model promises classes only.")
    guarded = load_guarded(arguments.folder, backend=arguments.backend, trust_pickle=arguments.trust_pickle)
    prepare = guarded.parts.prepare
    if prepare is None:
        rows = flags.read_data(arguments.data, schema_of(guarded.parts.original.forest)).X
    else:
        rows = read_raw_rows(prepare, arguments.data).X
    inside, classes = guarded.guarded(rows), guarded.predict(rows)
    if arguments.output is not None:
        target = Path(arguments.output)
        with clear_errors(target):
            write_file(target, _table(classes.tolist(), inside.tolist()))
    counts = guarded.counts
    if arguments.json:
        flags.print_json(
            {
                "rows": counts.n_rows,
                "guarded": counts.n_guarded,
                "fallbacks": counts.n_fallbacks,
                "claim": guarded.claim,
                "classes": classes.tolist(),
            }
        )
        return 0
    print(f"{counts.n_rows} rows: the smaller model answered {counts.n_guarded}, the original {counts.n_fallbacks}.")
    print(guarded.claim)
    return 0


def _score_fast(arguments: argparse.Namespace) -> int:
    """Score with a folder that accelerate wrote."""
    from pine_boost.files import clear_errors, write_file
    from pine_boost.pipelines.given import read_raw_rows
    from pine_boost.scoring.fast_scorer import FastScorer
    from pine_boost.scoring.scorer_folder import read_parts

    parts, manifest = read_parts(arguments.folder, trust_pickle=arguments.trust_pickle)
    scorer = FastScorer(parts)
    if parts.prepare is None:
        rows = flags.read_data(arguments.data, parts.schema).X
    else:
        rows = read_raw_rows(parts.prepare, arguments.data).X
    answers = scorer.predict(rows).tolist()
    columns: dict[str, list[Any]] = {"class" if parts.classes else "value": answers}
    if arguments.proba:
        proba = scorer.predict_proba(rows)
        columns |= {f"p_{label}": proba[:, k].tolist() for k, label in enumerate(parts.classes)}
    if arguments.output is not None:
        target = Path(arguments.output)
        with clear_errors(target):
            write_file(target, _csv(list(columns), list(zip(*columns.values(), strict=True))))
    if arguments.json:
        flags.print_json({"rows": len(answers), "claim": manifest["claim"], **columns})
        return 0
    print(f"{len(answers)} rows scored.")
    print(manifest["claim"])
    return 0


def _table(classes: list[Any], inside: list[bool]) -> bytes:
    """The contents of the file; without rows, its first line."""
    who = ("original", "pruned")
    return _csv(["class", "answered_by"], [(c, who[i]) for c, i in zip(classes, inside, strict=True)])


def _csv(header: list[str], rows: list[Any]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()
