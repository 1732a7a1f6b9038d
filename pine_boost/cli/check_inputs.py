"""``pine-boost check-inputs``: show which rows of a table a certificate covers, and why not the others.

Needs neither the solver nor the training library. A region with indifference needs the original.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.cli import flags
from pine_boost.model.digits import percent_down, percent_up, rest_of

EXAMPLES = """examples:
  pine-boost check-inputs pruned today.csv
  pine-boost check-inputs pruned/region.json today.parquet --model model.json --limit 3 --json"""


def format_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("region", metavar="REGION", help="region.json, or the folder that prune wrote.")
    parser.add_argument("data", metavar="DATA", help="CSV, Parquet, Feather/Arrow or .npy file.")
    parser.add_argument(
        "--model",
        help="The original model, needed with indifference and for a Pipeline, whose first steps prepare the table.",
    )
    parser.add_argument(
        "--limit", type=int, default=10, metavar="N", help="Number of rows outside to explain (default: 10)."
    )


def main(arguments: argparse.Namespace) -> int:
    """Print the coverage, then the rows outside with reasons."""
    from pine_boost.errors import InvalidInputError
    from pine_boost.pipelines.given import read_named_model
    from pine_boost.tables.native import take_rows

    path, region, remark = _read_region(arguments.region)
    flags.require_layers(path, arguments.model)
    model = None
    if arguments.model is None:
        X = flags.read_data(arguments.data, region.schema).X
    else:
        given = read_named_model(arguments.model, region.thresholds, trust_pickle=arguments.trust_pickle)
        model = given.parsed.forest
        _require_original(path, region, model)
        X = given.wrapper.rows(flags.read_data(arguments.data, given).X)
    if region.delta is not None and model is None:
        raise InvalidInputError(
            f"{arguments.region} leaves out inputs near the decision boundary of the original; name it with --model."
        )
    coverage = region.coverage(X, model=model)
    inside = region.contains(X, model=model)
    outside = np.flatnonzero(~inside)
    explained = [
        (int(row), region.explain(take_rows(X, np.array([row])), model=model))
        for row in outside[: max(arguments.limit, 0)]
    ]
    document = {
        **asdict(coverage),
        "share": coverage.share,
        "alpha": region.alpha,
        "rows_outside": [int(row) for row in outside],
        "explained": [
            {"row": row, "score": e.score, "tau": e.tau, "reasons": [r.text for r in e.reasons]} for row, e in explained
        ],
    }
    lines = [
        f"{coverage.n_inside} of {coverage.n_rows} rows ({coverage.share:.2%}) lie in the region "
        f"(true share {percent_down(coverage.low)} to {percent_up(coverage.high)}; at least "
        f"{percent_down(rest_of(region.alpha))} was calibrated).{remark}",
        *(f"row {row}: {explanation}" for row, explanation in explained),
    ]
    if len(outside) > len(explained):
        lines.append(f"... and {len(outside) - len(explained)} more rows outside (--limit)")
    flags.answer(arguments, document, "\n".join(lines))
    return 0


def _read_region(named: str) -> tuple[Path, Any, str]:
    """The path of the region, the region, and a remark if nothing was certified."""
    from pine_boost.certificate.saved import REGION, read_saved
    from pine_boost.errors import InvalidInputError
    from pine_boost.region.region import Region

    path, remark = Path(named), ""
    if path.is_dir():
        saved = read_saved(path)
        if saved.certificate.status != "CERTIFIED":
            remark = " No smaller model was certified for it; the folder holds the original."
        path = saved.folder / REGION
    region = Region.load(path)
    if region.n_cal == 0 and region.alpha > 0:
        raise InvalidInputError(
            f"{named} comes from a search that stopped before its region was calibrated, so it says nothing about "
            "inputs. Run the search again with more time."
        )
    return path, region, remark


def _require_original(path: Path, region: Any, forest: Any) -> None:
    """Raise if the model is not the original that the certificate beside the region names."""
    from pine_boost.certificate.certificate import Certificate
    from pine_boost.certificate.saved import CERTIFICATE
    from pine_boost.errors import CertificateMismatch
    from pine_boost.model.digest import forest_digest

    beside = path.parent / CERTIFICATE
    if not beside.is_file():
        return
    certificate = Certificate.load(beside)
    if certificate.region_fingerprint != region.fingerprint():
        return
    if forest_digest(forest) != certificate.original_digest:
        raise CertificateMismatch(f"--model is not the original that {beside} names; name the model that was pruned.")
