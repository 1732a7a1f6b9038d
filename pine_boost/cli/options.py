"""Options that several commands share, and how they become arguments of the library.

In come parsed arguments; out go keyword arguments, models, tables and domains. Refuses JSON that
does not say what a domain can say.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from pine_boost.errors import InvalidInputError
from pine_boost.options import AUTO, SCORE_NAMES, require_seconds


def indifference(text: str) -> float | str:
    """A number, or the word for choosing one; what the number means is checked later."""
    return text if text == AUTO else float(text)


def add_flag(parser: Any, name: str, meaning: str) -> None:
    """Something that is off unless it is named."""
    parser.add_argument(name, action="store_true", help=meaning)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """The model file and how to read it."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="XGBoost .json/.ubj, LightGBM .txt, or a "
        "pickle (a scikit-learn ensemble, or a Pipeline, threshold or calibration "
        "around a model)",
    )
    add_reading_options(parser)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """How model files may be read."""
    add_flag(parser, "--trust-pickle", "load pickle and joblib files (this runs code from the file: only for your own)")


def add_threshold(parser: argparse.ArgumentParser) -> None:
    """The user's own decision threshold(s)."""
    parser.add_argument(
        "--threshold",
        type=float,
        action="append",
        metavar="P",
        help="decision threshold on the probability of class 1 (regressors and rankers: on the raw "
        "margin, before any link); repeat it, ascending, for score bands",
    )


def add_spent(parser: Any) -> None:
    """A survey whose rows are refused."""
    parser.add_argument("--spent", metavar="FILE", help="what pine-boost survey wrote: its rows are refused")


def data_group(parser: argparse.ArgumentParser) -> Any:
    """Where a command's tables are listed."""
    return parser.add_argument_group("data (CSV, Parquet, Feather/Arrow, .npy)")


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """The tables of `prune_booster` and `sweep`."""
    data = data_group(parser)
    data.add_argument("--fit", required=True, metavar="FILE", help="rows to fit the score on")
    data.add_argument("--cal", metavar="FILE", help="unseen rows to calibrate on (else: 20%% of --fit)")
    add_flag(
        data, "--allow-overlap", "go on although rows of --cal are among those of --fit; no probability is promised"
    )
    data.add_argument("--test", metavar="FILE", help="further rows for coverage and fidelity")
    data.add_argument("--label", metavar="COLUMN", help="column of the labels in --test, for accuracy")
    add_spent(data)


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """What `prune_booster` and `sweep` take."""
    search = parser.add_argument_group("search")
    search.add_argument(
        "--score",
        default="chow-liu",
        choices=SCORE_NAMES,
        help="what makes an input plausible: pairs of features that occur together "
        "(chow-liu), leaves that rows reach, or few cuts around it",
    )
    search.add_argument("--bins", type=int, default=4, metavar="N", help="bins per number (4)")
    search.add_argument(
        "--indifference",
        type=indifference,
        default=0.0,
        metavar="SHARE",
        help="share of inputs nearest to the decision to give up (0), or auto: "
        "the split of alpha that is best by the fit rows",
    )
    search.add_argument(
        "--objective", default="l0", choices=("l0", "l1"), help="fewest trees, or smallest weights (faster)"
    )
    search.add_argument(
        "--unit",
        default="round",
        choices=("round", "tree", "leaf"),
        help="what is counted, kept or dropped: with several classes a whole round "
        "with its tree per class, or single trees; or leaves, where subtrees "
        "become leaves too (round)",
    )
    search.add_argument(
        "--reweight",
        choices=("tree", "leaf"),
        help="what is chosen anew in kept trees: one weight each, or every leaf "
        "value, which needs fewer trees (leaf; tree for forests of votes and with "
        "--objective l1)",
    )
    search.add_argument("--domain", metavar="FILE.json", help="what is known of every input")
    search.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="stop then with the best model certified so far (no limit: until all "
        "was tried, which may take many minutes; so does Ctrl-C)",
    )
    add_jobs(search)
    search.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of everything random: same seed, same result (0)"
    )
    add_threshold(parser)


def add_jobs(parser: Any) -> None:
    """How many threads."""
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="threads for the proofs, -1 for all cores (1); the result does not depend on it",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Output for machines."""
    add_flag(parser, "--json", "print JSON on stdout")


def search_arguments(arguments: argparse.Namespace, kept: float) -> dict[str, Any]:
    """Keyword arguments of `prune_booster` and `sweep`.

    The time limit is that of the whole command: what importing and reading took is spent, and
    ``kept`` seconds are for the report.
    """
    limit = arguments.time_limit
    require_seconds(limit)
    if limit is not None:
        limit = max(limit - kept - (time.monotonic() - arguments.started), 0.001 * limit)
    return {
        "score": arguments.score,
        "n_bins": arguments.bins,
        "indifference": arguments.indifference,
        "objective": arguments.objective,
        "unit": arguments.unit,
        "reweight": arguments.reweight,
        "threshold": thresholds(arguments),
        "domain": None if arguments.domain is None else read_domain(arguments.domain),
        "time_limit": limit,
        "n_jobs": arguments.jobs,
        "random_state": arguments.seed,
        "allow_overlap": arguments.allow_overlap,
    }


def thresholds(arguments: argparse.Namespace) -> Any:
    """One threshold as a number, several as a tuple, none as None."""
    given = arguments.threshold
    if not given:
        return None
    return given[0] if len(given) == 1 else tuple(given)


def read_given_model(arguments: argparse.Namespace, decision: str = "class") -> Any:
    """The model that was named, with what lies around it."""
    from pine_boost.pipelines.given import read_given

    return read_given(
        arguments.model, threshold=thresholds(arguments), trust_pickle=arguments.trust_pickle, decision=decision
    )


def read_rows(path: str | None, given: Any) -> Any:
    """The rows of a table file, or None; a folder of Parquet files is read in chunks later on."""
    from pathlib import Path

    if path is not None and Path(path).is_dir():
        return given.read_rows(path)
    table = read_data(path, given)
    return None if table is None else table.X


def read_data(path: str | None, columns: Any, label: str | None = None) -> Any:
    """A table file, or None; says on stderr which columns the model does not have.

    ``columns`` is an InputSchema, or a GivenModel whose Pipeline takes raw columns.
    """
    from pine_boost.tables.files import read_table
    from pine_boost.tables.schema import InputSchema

    if path is None:
        if label is not None:
            raise InvalidInputError(f"--label {label} names a column of --test, and there is no --test.")
        return None
    table = read_table(path, columns, label) if isinstance(columns, InputSchema) else columns.read_table(path, label)
    if table.left_out:
        listed = ", ".join(table.left_out[:8]) + (", ..." if len(table.left_out) > 8 else "")
        print(f"pine-boost: note: {path}: columns left out: {listed}", file=sys.stderr)
    return table


def read_test(arguments: argparse.Namespace, given: Any) -> Any:
    """The table of --test, or None; labels that the model does not have are refused here."""
    from pine_boost.evaluation import classes_of

    test = read_data(arguments.test, given, arguments.label)
    if test is not None and test.y is not None:
        try:
            classes_of(given.parsed, test.y, len(test.y))
        except InvalidInputError as error:
            where = f"{arguments.test}, column {arguments.label!r}"
            raise InvalidInputError(f"{where}: {error}") from error
    return test


def require_layers(region: Any, model: str | None) -> None:
    """Refuse to take raw rows for those of the ensemble: its result is that of a whole model."""
    from pathlib import Path

    from pine_boost.pipelines.result import WHOLE_MODEL

    beside = Path(region).parent / WHOLE_MODEL
    if model is None and beside.is_file():
        raise InvalidInputError(
            f"{beside} says that a model with layers was pruned, a Pipeline perhaps, whose first "
            "steps prepare the rows; name that model with --model."
        )


def read_domain(path: str) -> Any:
    """A Domain from JSON with the same field names; conditions are objects.

    ``{"lower": {"age": 18}, "integer": ["age"], "never_missing": true,
    "forbidden": [[{"feature": "age", "upper": 20}, {"feature": "grandchildren", "lower": 1}]]}``
    """
    from pine_boost.files import DOMAIN_LIMIT, read_limited
    from pine_boost.json_fields import parse, reading, require
    from pine_boost.region.domain import Condition, Domain

    known = ", ".join(sorted(Domain.__dataclass_fields__))
    contents = read_limited(path, DOMAIN_LIMIT, "domain file", InvalidInputError)
    with reading("domain file", f"A domain is an object with {known}", InvalidInputError):
        document = dict(parse(contents))
        odd = sorted(set(document) - set(Domain.__dataclass_fields__))
        require(not odd, f"{path} says {odd!r}")
    try:
        document["forbidden"] = [
            tuple(Condition(**condition) for condition in pair) for pair in document.get("forbidden", ())
        ]
    except TypeError as error:
        raise InvalidInputError(
            f"{path}: forbidden is a list of pairs of objects with feature, lower, upper or categories ({error})."
        ) from error
    return Domain(**document)


def print_json(document: Any) -> None:
    """Strict JSON on stdout."""
    print(json.dumps(document, indent=1, allow_nan=False))
