"""Whether limits are kept by large models (python -m benchmarks.limits).

The models are too large to finish. Measures seconds from reading the file to the written result, memory, and seconds
after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import record_run
from benchmarks.measuring import measured, run_child, say, say_started
from benchmarks.models import fit
from benchmarks.paper import listed
from benchmarks.runner import RESULTS, Job, run_jobs

LIMITS = ("5", "20")
CALLS = ("prune", "compress", "survey", "accelerate", "verify", "interrupt")
N_ROWS, N_FEATURES = 10_000, 20
MANY_ROWS = 150_000  # of each table of the largest model
LARGEST = "LightGBM 1000 x 255 leaves"
INTERRUPT_AFTER = 4.0
VERIFY_INDIFFERENCE = 0.01  # more leaves too many unseen rows undecided: no region
VERIFIED = "agrees: True"  # what a row of verify must say
UNSETTLED = "agrees: None"  # what it may say of the largest model
VERIFY_AFTER = 30.0  # seconds for the model that is verified
FIDELITY = 0.99  # of accelerate
SHARE, GRACE, CTRL_C = 0.1, 2.0, 2.0  # issue 14: 10 % + 2 s, and 2 s after Ctrl-C
KEY_COLUMNS = ("model", "call", "limit")
COLUMNS = (*KEY_COLUMNS, "trees", "leaves", "seconds", "cpu_s", "ratio", "is_kept", "peak_mb", "answer")


def _model(kind: str, trees: int, n_classes: int = 2, n_rows: int | None = None, **options: Any) -> Any:
    return fit(kind, trees, *generate(n_classes, n_rows=n_rows), **options)


MODELS: dict[str, Callable[[], Any]] = {
    "60 classes x 10": partial(_model, "xgboost", 10, n_classes=60),
    "100 classes x 10": partial(_model, "xgboost", 10, n_classes=100),
    "LightGBM 500": partial(_model, "lightgbm", 500),
    LARGEST: partial(_model, "lightgbm", 1000, n_rows=MANY_ROWS, num_leaves=255),
    "XGBoost 500 x depth 10": partial(_model, "xgboost", 500, max_depth=10),
    "RandomForest 300": partial(_model, "random-forest", 300),
}


@dataclass(frozen=True)
class Question:
    """A model, what is called and its limit in seconds ("" for none)."""

    model: str
    call: str
    limit: str
    folder: str

    @property
    def key(self) -> tuple[str, ...]:
        """Text of the key columns."""
        return (self.model, self.call, self.limit)


def generate(n_classes: int, seed: int = 0, n_rows: int | None = None) -> tuple[Any, Any]:
    """Rows around one centre per class, a fifth with another label, so that trees stay large."""
    n_rows = n_rows or N_ROWS
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(n_classes, N_FEATURES))
    y = np.resize(np.arange(n_classes), n_rows)
    X = centres[y] + 1.5 * random.normal(size=(n_rows, N_FEATURES))
    return X.astype(np.float32), np.where(random.random(n_rows) < 0.2, random.permutation(y), y)


def trained(question: Question) -> Any:
    """The model, from the folder where an earlier child put it."""
    path = Path(question.folder) / f"{question.model.replace(' ', '_')}.pickle"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(MODELS[question.model]()))
        part.rename(path)
    return pickle.loads(path.read_bytes())  # written by a child of this run


def model_file(model: Any, folder: str) -> Any:
    """A file as a user has it; scikit-learn models are handed over as they are."""
    if hasattr(model, "get_booster"):
        path = Path(folder) / "model.ubj"
        model.get_booster().save_model(path)
        return path
    if hasattr(model, "booster_"):
        path = Path(folder) / "model.txt"
        model.booster_.save_model(str(path))
        return path
    return model


def answer_of(question: Question) -> dict[str, Any]:
    """Body of the child: one call, from reading to the written result."""
    import pine_boost

    model = trained(question)
    n_classes, n_rows = len(model.classes_), MANY_ROWS if question.model == LARGEST else N_ROWS
    (X_fit, _), (X_cal, _) = (generate(n_classes, seed, n_rows) for seed in (0, 2))
    limit = float(question.limit) if question.limit else None
    with tempfile.TemporaryDirectory() as folder:
        source = model_file(model, folder)

        def prune() -> str:
            result = pine_boost.prune_booster(source, X_fit, X_cal, alpha=0.1, time_limit=limit)
            result.save(Path(folder) / "result")
            certificate = result.certificate
            return f"{result.status}, {certificate.units_before} to {certificate.units_kept}"

        def verify() -> str:
            verdict = pine_boost.verify(source, result.model, result.region, result.certificate, time_limit=limit)
            return f"agrees: {verdict.agrees}"

        def compress() -> str:
            result = pine_boost.compress_booster(source, X_fit, X_cal, time_limit=limit)
            result.save(Path(folder) / "result")
            return f"{result.status}, {result.leaves_before} to {result.leaves_after} leaves"

        def survey() -> str:
            offers = pine_boost.survey(source, X_fit, X_cal, time_limit=limit or 60.0).offers
            return f"{offers[0].leaves} to {min(offer.leaves for offer in offers)} leaves"

        def accelerate() -> str:
            result = pine_boost.accelerate_booster(source, X_fit, X_cal, fidelity=FIDELITY, time_limit=limit)
            result.save(Path(folder) / "result")
            return f"{result.status}, {result.work:.2f} of the trees visited"

        calls = {"verify": verify, "compress": compress, "survey": survey, "accelerate": accelerate}
        call = calls.get(question.call, prune)
        if question.call == "verify":
            result = _certified(source, X_fit, X_cal)
            call = verify if result else prune  # which says why there is nothing to verify
        say_started()
        run = measured(lambda: _told(call))
    return {**_size_of(model), **asdict(run)}


def _certified(source: Any, X_fit: Any, X_cal: Any) -> Any:
    """A certified result: without light trees, else where only the first feature varies, else None."""
    from pine_boost import Domain, PineBoostError, prune_booster

    fixed = dict.fromkeys(range(1, N_FEATURES), 0.0)
    one_feature = Domain(lower=fixed, upper=fixed, never_missing=True)
    for options in ({"indifference": VERIFY_INDIFFERENCE}, {"domain": one_feature, "alpha": 0.0}):
        try:
            result = prune_booster(source, X_fit, X_cal, time_limit=VERIFY_AFTER, **options)
        except PineBoostError:
            continue
        if result.status == "CERTIFIED":
            return result
    return None


def _told(call: Callable[[], str]) -> str:
    """What a user would be told: the answer, the refusal or the interruption."""
    from pine_boost import PineBoostError

    try:
        return call()
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    except PineBoostError as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:160]


def _size_of(model: Any) -> dict[str, int]:
    from pine_boost.parsers import read_model

    forest = read_model(model).forest
    return {"trees": forest.n_trees, "leaves": int((forest.left < 0).sum())}


def ask(question: Question) -> list[dict[str, Any]]:
    """One question in a process of its own, judged."""
    is_interrupt = question.call == "interrupt"
    said, after_interrupt = run_child(
        "benchmarks.limits",
        asdict(question),
        hard_limit=900.0,
        interrupt_after=INTERRUPT_AFTER if is_interrupt else None,
    )
    seconds = after_interrupt if is_interrupt else float(said["seconds"])
    allowed = CTRL_C if is_interrupt else (1 + SHARE) * float(question.limit) + GRACE
    ratio = "" if is_interrupt else f"{seconds / float(question.limit):.2f}"
    return [
        {
            **dict(zip(KEY_COLUMNS, question.key, strict=True)),
            "trees": said["trees"],
            "leaves": said["leaves"],
            "seconds": f"{seconds:.2f}",
            "cpu_s": f"{said['cpu_s']:.2f}",  # well below seconds: a busy machine
            "ratio": ratio,
            "is_kept": "yes" if seconds <= allowed and _is_answer(question, said["answer"]) else "no",
            "peak_mb": f"{said['peak_mb']:.0f}",
            "answer": said["answer"],
        }
    ]


def _is_answer(question: Question, answer: str) -> bool:
    """Whether verify settled the question, had the largest model or nothing certified."""
    if question.call != "verify" or not answer.startswith("agrees"):
        return True
    return answer == VERIFIED or (answer == UNSETTLED and question.model == LARGEST)


def questions_of(options: argparse.Namespace, folder: str) -> list[Question]:
    """Every limit for pruning and for the largest model, else one, none for Ctrl-C."""
    questions = []
    for model, call in product(options.models, options.calls):
        every = options.limits if call == "prune" or model == LARGEST else options.limits[:1]
        limits = [""] if call == "interrupt" else every
        questions += [Question(model, call, limit, folder) for limit in limits]
    return questions


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--models", type=listed, default=list(MODELS), metavar="A,B")
    parser.add_argument("--calls", type=listed, default=list(CALLS), metavar="A,B")
    parser.add_argument("--limits", type=listed, default=list(LIMITS), metavar="S,S")
    parser.add_argument("--out", type=Path, default=RESULTS / "limits.csv")
    parser.add_argument("--folder", type=Path, help="folder that keeps the trained models for another run")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.cell:
        say(answer_of(Question(**json.loads(options.cell))))
        return 0
    for given, known in ((options.models, MODELS), (options.calls, CALLS)):
        if not set(given) <= set(known):
            parser.error(f"{', '.join(given)}: accepted are {', '.join(known)}")
    if arguments is None:
        record_run(options.out)
    with tempfile.TemporaryDirectory(prefix="pine_boost_limits_") as folder:
        jobs = [Job(question.key, question) for question in questions_of(options, str(options.folder or folder))]
        failures = run_jobs(ask, jobs, options.out, COLUMNS, KEY_COLUMNS, n_workers=0)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
