"""Every option, declared once: name, type, default, check and text.

The option dataclasses, the checks, the flags of the command line and the "Parameters" sections of
the docstrings come from `TABLE` and `_TEXTS`. Texts name tables in braces, so that the command line
can show them as flags; their first sentence is the help text of the flag.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

from pine_boost.errors import InvalidInputError

if TYPE_CHECKING:
    from pine_boost.region.domain import Domain

OBJECTIVES = ("l0", "l1")
SCORE_NAMES = ("chow-liu", "leaf-support", "isolation-forest")
UNITS = ("round", "tree", "leaf")
REWEIGHTS = ("tree", "leaf")
METHODS = ("prune", "compress", "accelerate")
AUTO = "auto"  # `indifference` is chosen from X_fit
MAX_BINS = 1000  # pair tables grow with the square of the number of bins
REQUIRED = object()
Kind = TypeVar("Kind")


def plural(unit: str) -> str:
    """The plural of a unit."""
    return "leaves" if unit == "leaf" else f"{unit}s"


def counted(number: int, unit: str) -> str:
    """A number with its unit: 1 leaf, 2 leaves."""
    return f"{number} {unit if number == 1 else plural(unit)}"


def is_real(value: Any) -> bool:
    """Whether a value is a real number of Python or numpy; bools are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether a value is an integer of Python or numpy; bools are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _refused(name: str, accepted: str, value: Any) -> InvalidInputError:
    return InvalidInputError(f"{name} must be {accepted}, got {value!r}.", option=name)


def require_level(value: Any, name: str) -> None:
    """Raise unless value is a number in [0, 1)."""
    if not is_real(value) or not 0 <= value < 1:
        raise _refused(name, "a number in [0, 1)", value)


def require_share(value: Any, name: str) -> None:
    """Raise unless value is a number strictly between 0 and 1."""
    if not is_real(value) or not 0 < value < 1:
        raise _refused(name, "a number strictly between 0 and 1", value)


def require_seconds(value: Any, name: str = "time_limit") -> None:
    """Raise unless value is None or a positive number that a float can hold."""
    if value is None:
        return
    try:
        is_positive = is_real(value) and float(value) > 0
    except OverflowError:
        is_positive = False
    if not is_positive:
        raise _refused(name, "a positive number of seconds or None", value)


def require_whole(value: Any, name: str, low: int, high: int | None = None) -> None:
    """Raise unless value is an integer within bounds."""
    if not is_whole(value) or value < low or (high is not None and value > high):
        bounds = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
        raise _refused(name, bounds, value)


def require_one_of(value: Any, name: str, accepted: Sequence[str]) -> None:
    """Raise unless value is one of the accepted strings."""
    if not isinstance(value, str) or value not in accepted:
        *most, last = map(repr, accepted)
        raise _refused(name, f"{', '.join(most)} or {last}", value)


def worker_count(n_jobs: Any, name: str = "n_jobs") -> int:
    """The number of threads that ``n_jobs`` stands for; -1 means every core this process may use."""
    if is_whole(n_jobs) and n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not is_whole(n_jobs) or n_jobs < 1:
        raise _refused(name, "a positive integer or -1", n_jobs)
    return int(n_jobs)


def _require_indifference(value: Any, name: str) -> None:
    if not (isinstance(value, str) and value == AUTO) and (not is_real(value) or not 0 <= value < 1):
        raise _refused(name, f"a number in [0, 1) or {AUTO!r}", value)


def _require_fidelity(value: Any, name: str) -> None:
    if not is_real(value) or not 0 < value <= 1:
        raise _refused(name, "a number above 0 and at most 1", value)


def _require_optional_share(value: Any, name: str) -> None:
    if value is not None:
        require_share(value, name)


def _require_tolerance(value: Any, name: str) -> None:
    if value is not None and not (is_real(value) and 0 < value < float("inf")):
        raise _refused(name, "a finite positive number or None", value)


def _require_seed(value: Any, name: str) -> None:
    if not is_whole(value) or not 0 <= value < 2**32:
        raise _refused(name, "an integer from 0 to 2**32 - 1", value)


def _require_callback(value: Any, name: str) -> None:
    if value is not None and not callable(value):
        raise _refused(name, "callable or None", value)


def _require_bool(value: Any, name: str) -> None:
    if value is not True and value is not False:
        raise _refused(name, "True or False", value)


def _require_bool_or_none(value: Any, name: str) -> None:
    if value is not None and value is not True and value is not False:
        raise _refused(name, "True, False or None", value)


def _anything(value: Any, name: str) -> None:
    """Accept every value; it is checked where it is used."""


def _parse_indifference(text: str) -> float | str:
    return text if text == AUTO else float(text)


@dataclass(frozen=True)
class Option:
    """One parameter of the public calls; its type and text are in `_TEXTS`.

    Attributes
    ----------
    key : str
        The name of the parameter, or ``call.name`` where one call differs from the others.
    default : object
        `REQUIRED` without one.
    parse : callable
        Makes a value from the text that follows the flag.
    check : callable, optional
        Called with a value and the name; raises `InvalidInputError`. By default one of ``choices``.
    flag : str, optional
        The name with dashes by default; empty where the command line has none.
    metavar : str
    choices : tuple of str
    otherwise : str
        What a default of None means, in the help text.
    """

    key: str
    default: Any = REQUIRED
    parse: Callable[[str], Any] = str
    check: Callable[[Any, str], Any] | None = None
    flag: str | None = None
    metavar: str = "FILE"
    choices: tuple[str, ...] = ()
    otherwise: str = ""

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return self.key.rpartition(".")[2]

    @property
    def has_default(self) -> bool:
        """Whether the parameter may be left out."""
        return self.default is not REQUIRED

    @property
    def flag_name(self) -> str:
        """The flag on the command line."""
        return f"--{self.name.replace('_', '-')}" if self.flag is None else self.flag

    def require(self, value: Any) -> None:
        """Raise unless the value is accepted."""
        if self.check is not None:
            self.check(value, self.name)
        elif self.choices and not (value is None and self.default is None):
            require_one_of(value, self.name, self.choices)

    def documentation(self, call: str = "", indent: str = "    ", width: int = 100) -> str:
        """The entry of the "Parameters" section of a docstring."""
        kind, text = _text_of(call, self.name)
        inner = f"{indent}    "
        lines = textwrap.wrap(
            text.format_map(_Names()), width, initial_indent=inner, subsequent_indent=inner, break_on_hyphens=False
        )
        return "\n".join([f"{indent}{self.name} : {kind}", *lines])

    @property
    def default_in_words(self) -> str:
        """The default as the help text shows it; empty for switches and required options."""
        if self.default is None:
            return self.otherwise
        if self.default is REQUIRED or self.default is False:
            return ""
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    def help(self, call: str = "", remark: str | None = None) -> str:
        """The help text of the flag: one sentence and the default, or another remark in its place."""
        text = _text_of(call, self.name)[1].format_map(_Flags()).split(". ")[0].rstrip(".")
        if remark is None:
            remark = f"default: {self.default_in_words}" if self.default_in_words else ""
        return f"{text} ({remark}).".replace("%", "%%") if remark else f"{text}.".replace("%", "%%")


class _Names(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name


class _Flags(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return flag_of(name) or name


def _read_texts(texts: str) -> dict[str, tuple[str, str]]:
    entries = {}
    for entry in re.split(r"\n(?=\S)", texts.strip()):
        head, *lines = entry.splitlines()
        key, _, kind = head.partition(" : ")
        entries[key] = kind, " ".join(line.strip() for line in lines)
    return entries


_TEXTS = _read_texts("""
model : object, path or bytes
    A trained XGBoost, LightGBM, CatBoost or scikit-learn tree ensemble, or a Pipeline, threshold wrapper or calibrated
    classifier around one. It is never modified.
X_fit : table, optional
    Rows on which the plausibility score is fitted; the training rows are fine. No labels are needed. With
    ``alpha=0`` the table may be left out.
X_cal : table, optional
    Unseen rows on which the region is calibrated; without them, 20 % of {X_fit} are split off (seeded). Then
    {X_fit} must not contain training rows.
X_val : table
    Rows that neither the model nor you have seen, for the test. They decide which size is returned and are used up
    by it: another call needs other rows for its promise.
X_look : table
    Held-out rows that you can do without later; no promise can be made on them afterwards.
alpha : float
    Share of future inputs that may fall outside the region; 0 covers every input (faithful pruning).
alphas : iterable of float, optional
    The values of alpha to prune for, by default 0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8. The default leaves out values for
    which ``indifference`` or a domain leave no room.
score : {"chow-liu", "leaf-support", "isolation-forest"} or object
    What makes an input plausible: pairs of values that occur together (chow-liu), leaves that rows reach
    (leaf-support), or few cuts needed to isolate it (isolation-forest). A score of your own is accepted too.
n_bins : int
    Number of bins per numeric feature of the Chow-Liu score.
indifference : float or "auto"
    Share of inputs nearest to the decision boundary that the region may leave out, or auto to choose it. ``"auto"``
    splits alpha between rare inputs and inputs near the decision boundary so that the model becomes small, using
    {X_fit} alone; it is 0 if splitting does not give a smaller model.
objective : {"l0", "l1"}
    Minimise the number of trees (l0) or the sum of their weights (l1, faster).
unit : {"round", "tree", "leaf"}
    What is counted and dropped: boosting rounds (one tree per class), single trees, or leaves. With leaves,
    subtrees may be collapsed into leaves and all leaf values are refitted.
reweight : {"tree", "leaf"}, optional
    What is refitted in the trees that are kept: one weight per tree, or every leaf value, which needs fewer trees.
    The default is "leaf", and "tree" where leaves are votes or class shares (forests) or with ``objective="l1"``.
threshold : float or sequence of float, optional
    Your own decision threshold on the probability of class 1 (for regressors and rankers, on the raw margin before
    any link function); several ascending values define score bands.
domain : Domain, optional
    What is known about every input that can occur.
fidelity : float
    Share of future inputs that must keep their answer.
confidence : float
    Confidence of the statement over the draw of {X_val}.
tolerance : float, optional
    How far a value may move: for classifiers no probability, for regressors and rankers (where it is required) no
    raw value moves by more. It is refused with a calibrator around the ensemble.
time_limit : float, optional
    Seconds after which the best model certified so far is returned, at worst the original; without a limit the
    search ends when everything has been tried, which may take many minutes. If the time is over before the region
    is fitted, the status is NOT_CERTIFIED.
n_jobs : int
    Number of threads for the proofs, -1 for all cores; the result does not depend on it.
random_state : int
    Seed of everything random; without a time limit the same call gives the same result.
callback : callable, optional
    Called with a `Step` after each step of the search.
verbose : bool, optional
    Whether to show progress on stderr. By default it is shown on a terminal and in a notebook, unless there is a
    callback. Log messages go to the logger ``pine_boost``.
allow_overlap : bool
    Continue although rows of {X_cal} also occur in {X_fit}; then no probability is promised.
segments : column, labels or mapping of them, optional
    Also count the changed rows per segment, for example per value of a column of {X_val}.
spent : Survey or path, optional
    Survey, or the file it was saved to, whose rows are refused here.
trust_pickle : bool
    Load models from pickle and joblib files, which runs code from the file; use it only for files you made.
fold_constants : bool
    Also fold trees that add the same number for every input into the leaves of another tree, which keeps margins
    only within the rounding band. The result states the band. XGBoost dart models that predict in place (wrappers,
    files) need this, because their native sum cannot be written with fewer trees bit for bit.
estimator : unfitted classifier, optional
    XGBClassifier, LGBMClassifier or a scikit-learn tree ensemble; by default gradient boosting with 30 trees of
    depth 2.
calibration_size : float
    Share of the rows, between 0 and 1, that is held out to calibrate the region.
region_score : {"chow-liu", "leaf-support", "isolation-forest"} or object
    ``score`` of `prune_booster` (scikit-learn estimators have a method of that name).
jobs : path or iterable of Job
    What `read_jobs` reads, or the jobs themselves.
folder : path
    Where the folders of the jobs, summary.csv and summary.html are written.
method : {"prune", "compress", "accelerate"}
    What is done to every model.
options : mapping, optional
    Options of the method for all jobs, plain values; a job's own options take precedence.
dask : str, optional
    Address of a Dask scheduler to run on; its workers must see the same files under the same paths. Without it
    joblib's current backend is used (``joblib.parallel_config("dask")`` works).
reports : bool
    Write a report.html for every job, which takes some seconds each.
sweep.X_fit : table
    Rows on which the plausibility score is fitted; the training rows are fine. No labels are needed.
sweep.indifference : float or "auto"
    Share of inputs nearest to the decision boundary that the region may leave out, or auto to choose it. ``"auto"``
    chooses one share of alpha for the whole grid, at its middle, using {X_fit} alone.
sweep.time_limit : float, optional
    Seconds for the whole sweep; every alpha gets an equal share of the time that is left.
sweep.callback : callable, optional
    Called with alpha and a `Step` after each step of a search.
compress_booster.model : object, path or bytes
    A trained XGBoost, LightGBM, CatBoost or scikit-learn tree ensemble, also a regressor or ranker, or a Pipeline,
    threshold wrapper or calibrated classifier around one; also a CalibratedClassifierCV or soft VotingClassifier that
    averages several. It is never modified.
compress_booster.X_fit : table
    Rows that shape the smaller model; the training rows are fine. No labels are needed. Of very many rows a seeded
    sample of up to 240 000 is used. Both tables may be larger than memory: Parquet files or folders, pyarrow
    Datasets, Dask DataFrames.
minimize : {"work", "leaves", "trees"}
    What is made small. Work, the trees and splits that a typical input meets: scoring time. Leaves: files,
    microcontrollers, SQL. Trees: whole trees are dropped, the others keep all their splits.
compress_booster.fidelity : float, optional
    Share of future inputs that must keep their answer; 0.99 unless ``max_loss`` is given. With both, both are
    promised.
compress_booster.tolerance : float, optional
    How far a value may move: for classifiers no probability, for regressors and rankers (where it is required) no
    raw value moves by more. It is refused with a calibrator around the ensemble. With the loss "brier" or "squared"
    it is derived from ``max_loss`` if it is left out.
y_val : labels, optional
    Labels of {X_val}, as the model predicts them; needed for ``max_loss``. Without it they only give the accuracy of
    both models on {X_val}.
label : str, optional
    Column of {X_val} with the labels, for the loss before and after.
max_loss : float, optional
    How much larger the expected loss may become: 0.005 allows an accuracy that is lower by 0.005. Then this is what is
    tested and promised (NON_INFERIOR), and not that answers are kept.
loss : {"error", "brier", "squared"} or matrix
    Loss of a row, between 0 and 1: wrong class, half the squared error of the probabilities, or squared error of a
    regressor's raw value. A matrix holds costs from 0 to 1, rows by label, columns by predicted class.
loss_range : float, optional
    With the loss "squared": the error that counts as 1. Squared errors are divided by its square and cut off at 1.
compress_booster.time_limit : float, optional
    Seconds for the whole call, shared by reading, path, test and attack; without a limit the path goes to its end.
    If time is short, fewer synthetic rows are drawn, the path takes larger steps and fewer sizes are tested, at
    least one; the promise is the same.
compress_booster.callback : callable, optional
    Called with a `Step` after each step of the path.
compress_booster.allow_overlap : bool
    Continue although rows of {X_val} also occur in {X_fit}; then the result is only MEASURED.
accelerate_booster.model : object, path or bytes
    A trained XGBoost, LightGBM, CatBoost or scikit-learn tree ensemble, also a regressor or ranker, or a Pipeline,
    threshold wrapper or calibrated classifier around one. A CalibratedClassifierCV or soft VotingClassifier that
    averages several needs ``fidelity`` below 1. It is never modified.
accelerate_booster.X_fit : table, optional
    Rows for which the order of the trees is chosen and on which the work is measured; the training rows are fine.
    No labels are needed. Without them the trees that can add most come first, and the work is measured on synthetic
    rows. They are required if ``fidelity`` is below 1, because leaf values of early exits are fitted to them.
accelerate_booster.X_val : table, optional
    Rows that neither the model nor you have seen, for the test where ``fidelity`` is below 1. They are used up by
    it.
accelerate_booster.fidelity : float
    Share of future inputs that must keep their answer; 1 proves every input and needs no data. Below 1 the scorer
    is tested on {X_val}.
accelerate_booster.tolerance : float, optional
    How far a value may move. With fidelity 1 only for regressors and rankers: no raw value moves by more, on any
    input. Below 1: for classifiers no probability, for regressors and rankers (where it is required) no raw value
    moves by more. It is refused with a calibrator around the ensemble.
accelerate_booster.time_limit : float, optional
    Seconds for the whole call. If there is no time to predict {X_val}, the scorer is the proved one (NOT_VALIDATED).
accelerate_booster.callback : callable, optional
    Called with a `Step` after each step.
accelerate_booster.allow_overlap : bool
    Continue although rows of {X_val} also occur in {X_fit}; then the result is only MEASURED.
simplify.model : object, path, bytes or Model
    What `pine_boost.parsers.read_model` accepts, regressors and rankers included; also a Pipeline, threshold
    wrapper or calibrated classifier around one, which is returned with the simplified model inside.
survey.X_fit : table
    Rows to fit on; the training rows are fine.
survey.time_limit : float
    Seconds, half of them for proofs.
survey.callback : callable, optional
    Called with a `Step` after each step of a search.
compare_models.fidelity : float
    Share of inputs that must keep their decision, up to 1; with 1 no row may change.
compare_models.confidence : float
    Confidence of the bound and of all intervals.
compare_models.tolerance : float, optional
    How far a probability or a value may move. Without it classes are compared alone, and values must be equal.
compare_models.segments : column, labels or mapping of them, optional
    Also count the changed rows per segment, for example per value of a column of X.
compare_models.threshold : float or sequence of float, optional
    Your own decision threshold on the probability of the second class, for both models; several ascending values
    define score bands.
PineClassifier.threshold : float, optional
    Your own decision threshold on the probability of the second class (two classes only).
PineClassifier.random_state : int, RandomState or None
    Seed of the split and of the search. The estimator has its own.
run_fleet.n_jobs : int
    Number of processes on this machine, -1 for one per core. It is not used on a cluster.
run_fleet.callback : callable, optional
    Called with a row, the number of jobs done and the number of all jobs.
""")
TABLE = {
    option.key: option
    for option in (
        Option("model", flag=""),
        Option("X_fit", None, flag="--fit"),
        Option("X_cal", None, flag="--cal"),
        Option("X_val", flag="--val"),
        Option("X_look", flag="--look"),
        Option("alpha", 0.1, float, require_level, metavar="SHARE"),
        Option("alphas", None, metavar="A,B,..."),
        Option("score", "chow-liu", check=_anything, choices=SCORE_NAMES),
        Option("n_bins", 4, int, partial(require_whole, low=1, high=MAX_BINS), "--bins", "N"),
        Option("indifference", 0.0, _parse_indifference, _require_indifference, metavar="SHARE"),
        Option("objective", "l0", choices=OBJECTIVES),
        Option("unit", "round", choices=UNITS),
        Option("reweight", None, choices=REWEIGHTS, otherwise="leaf where leaf values are free, else tree"),
        Option("threshold", None, float, metavar="P", otherwise="the model's own decision"),
        Option("domain", None, metavar="FILE.json", otherwise="nothing is known"),
        Option("fidelity", 0.99, float, require_share, metavar="SHARE"),
        Option("confidence", 0.95, float, require_share, metavar="SHARE"),
        Option("tolerance", None, float, _require_tolerance, metavar="T", otherwise="none"),
        Option("time_limit", None, float, require_seconds, metavar="SECONDS", otherwise="no limit"),
        Option("n_jobs", 1, int, worker_count, "--jobs", "N"),
        Option("random_state", 0, int, _require_seed, "--seed", "N"),
        Option("callback", None, check=_require_callback, flag=""),
        Option("verbose", None, check=_require_bool_or_none, flag=""),
        Option("allow_overlap", False, check=_require_bool),
        Option("segments", None, metavar="COLUMN", otherwise="none"),
        Option("spent", None, otherwise="none"),
        Option("trust_pickle", False, check=_require_bool),
        Option("fold_constants", False, check=_require_bool),
        Option("estimator", None, flag=""),
        Option("calibration_size", 0.25, check=require_share, flag=""),
        Option("region_score", "chow-liu", flag=""),
        Option("jobs", flag=""),
        Option("folder", flag=""),
        Option("method", "prune", choices=METHODS),
        Option("options", None, flag=""),
        Option("dask", None, metavar="ADDRESS", otherwise="this machine"),
        Option("reports", False, check=_require_bool),
        Option("sweep.X_fit", flag="--fit"),
        Option("compress_booster.X_fit", flag="--fit"),
        Option(
            "compress_booster.fidelity",
            None,
            float,
            _require_optional_share,
            metavar="SHARE",
            otherwise="0.99 without max_loss",
        ),
        Option("minimize", "work", choices=("work", "leaves", "trees")),
        Option("y_val", None, flag=""),
        Option("max_loss", None, float, _require_optional_share, metavar="LOSS", otherwise="none"),
        Option("label", None, metavar="COLUMN", otherwise="none"),
        Option("loss", "error", check=_anything, choices=("error", "brier", "squared")),
        Option("loss_range", None, float, _require_tolerance, metavar="ERROR"),
        Option("accelerate_booster.X_val", None, flag="--val"),
        Option("accelerate_booster.fidelity", 1.0, float, _require_fidelity, metavar="SHARE"),
        Option("compare_models.fidelity", 0.99, float, _require_fidelity, metavar="SHARE"),
        Option("survey.X_fit", flag="--fit"),
        Option("survey.time_limit", 60.0, float, require_seconds, metavar="SECONDS"),
        Option("PineClassifier.random_state", None, check=_anything, flag=""),
        Option("run_fleet.n_jobs", -1, int, worker_count, "--workers", "N"),
    )
}


def _text_of(call: str, name: str) -> tuple[str, str]:
    """Type and text of a parameter of a call."""
    return _TEXTS.get(f"{call}.{name}") or _TEXTS[name]


def option_of(call: str, name: str) -> Option:
    """A parameter as a public call has it."""
    return TABLE.get(f"{call}.{name}") or TABLE[name]


def flag_of(name: str) -> str:
    """The flag of a parameter on the command line; empty if it has none."""
    return TABLE[name].flag_name if name in TABLE else {"overwrite": "--force", "codes": "--codes"}.get(name, "")


def as_keyword(name: str, value: Any = None) -> str:
    """An option as a Python user writes it."""
    if value is None:
        return name
    return f"{name}={value:g}" if isinstance(value, float) else f"{name}={value!r}"


def as_flag(name: str, value: Any = None) -> str:
    """An option as a user of the command line writes it."""
    if value is None or value is True:
        return flag_of(name)
    values = value if isinstance(value, (tuple, list)) else (value,)
    return " ".join(f"{flag_of(name)} {v:g}" if isinstance(v, float) else f"{flag_of(name)} {v}" for v in values)


def as_call(function: str, tables: Sequence[str] = (), options: Mapping[str, Any] | None = None) -> str:
    """A call as a Python user writes it; ``spent`` is the name of a variable."""
    keywords = [f"{n}={v}" if n == "spent" else as_keyword(n, v) for n, v in (options or {}).items()]
    return f"pine_boost.{function}({', '.join(['model', *tables, *keywords])})"


def as_command(function: str, tables: Sequence[str] = (), options: Mapping[str, Any] | None = None) -> str:
    """The same call as a command, with MODEL, FIT, CAL, ... in place of files."""
    files = [f"{flag_of(table)} {table.removeprefix('X_').upper()}" for table in tables]
    flags = [as_flag(n, f"{v.upper()}.json" if n == "spent" else v) for n, v in (options or {}).items()]
    output = {"simplify": ["-o SMALLER"], "accelerate_booster": ["-o SCORER"]}.get(function, [])
    return " ".join(["pine-boost", function.removesuffix("_booster"), "MODEL", *files, *flags, *output])


def given(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """The options of a call, checked, from its local variables."""
    return kind(**{entry.name: values[entry.name] for entry in fields(kind)})  # type: ignore[arg-type]  # dataclasses


def _field(name: str, call: str = "") -> Any:
    option = option_of(call, name)
    return field(default=option.default, metadata={"option": option})


def _check(options: Any) -> None:
    for entry in fields(options):
        entry.metadata["option"].require(getattr(options, entry.name))


@dataclass(frozen=True)
class Options:
    """The options of `prune_booster`, `sweep` and `PineClassifier`, checked."""

    alpha: float = _field("alpha")
    score: Any = _field("score")
    n_bins: int = _field("n_bins")
    indifference: float | str = _field("indifference")
    objective: str = _field("objective")
    unit: str = _field("unit")
    reweight: str | None = _field("reweight")
    threshold: float | Sequence[float] | None = _field("threshold")
    domain: Domain | None = _field("domain")
    time_limit: float | None = _field("time_limit")
    n_jobs: int = _field("n_jobs")
    random_state: int = _field("random_state")
    callback: Callable[..., None] | None = _field("callback")
    verbose: bool | None = _field("verbose")
    allow_overlap: bool = _field("allow_overlap")

    def __post_init__(self) -> None:
        _check(self)
        if self.unit == "leaf" and self.reweight == "tree":
            raise InvalidInputError(
                "unit='leaf' needs reweight='leaf' (its default), because collapsing a subtree refits leaf values. "
                "Leave reweight out, or use unit='round' or unit='tree'.",
                option=("unit", "reweight"),
            )

    @property
    def asks_for_leaves(self) -> bool:
        """Whether the user asked for leaf values to be refitted."""
        return self.unit == "leaf" or self.reweight == "leaf"

    def reweight_of(self, has_free_leaves: bool) -> str:
        """What is refitted: as the user said, else leaf values where they may take any value.

        With ``objective="l1"`` the default is the weight of each tree.
        """
        if self.asks_for_leaves:
            return "leaf"
        return self.reweight or ("leaf" if has_free_leaves and self.objective == "l0" else "tree")

    @property
    def n_workers(self) -> int:
        """``n_jobs`` as a number of threads."""
        return worker_count(self.n_jobs)

    @property
    def asks_for_everything(self) -> bool:
        """Whether the region is every input, so that no tables are needed."""
        return self.alpha == 0 and self.indifference in (0, AUTO)

    def of_region(self) -> dict[str, Any]:
        """The options that `fit_with_states` takes."""
        names = ("alpha", "score", "n_bins", "indifference", "domain", "random_state", "allow_overlap")
        taken = {name: getattr(self, name) for name in names}
        if self.indifference == AUTO:
            taken |= {"indifference": 0.0, "with_evidence": self.alpha > 0}
        return taken


@dataclass(frozen=True)
class CompressOptions:
    """The options of `compress_booster`, checked."""

    fidelity: float | None = _field("fidelity", "compress_booster")
    confidence: float = _field("confidence")
    tolerance: float | None = _field("tolerance")
    minimize: str = _field("minimize")
    max_loss: float | None = _field("max_loss")
    loss: Any = _field("loss")
    loss_range: float | None = _field("loss_range")
    threshold: float | Sequence[float] | None = _field("threshold")
    time_limit: float | None = _field("time_limit")
    random_state: int = _field("random_state")
    callback: Callable[..., None] | None = _field("callback")
    verbose: bool | None = _field("verbose")
    allow_overlap: bool = _field("allow_overlap")
    segments: Any = _field("segments")

    def __post_init__(self) -> None:
        _check(self)
        if isinstance(self.loss, str):
            require_one_of(self.loss, "loss", option_of("", "loss").choices)
        if self.fidelity is None and self.max_loss is None:
            object.__setattr__(self, "fidelity", option_of("", "fidelity").default)


@dataclass(frozen=True)
class AccelerateOptions:
    """The options of `accelerate_booster`, checked."""

    fidelity: float = _field("fidelity", "accelerate_booster")
    confidence: float = _field("confidence")
    tolerance: float | None = _field("tolerance")
    threshold: float | Sequence[float] | None = _field("threshold")
    time_limit: float | None = _field("time_limit")
    random_state: int = _field("random_state")
    callback: Callable[..., None] | None = _field("callback")
    verbose: bool | None = _field("verbose")
    allow_overlap: bool = _field("allow_overlap")
    segments: Any = _field("segments")

    def __post_init__(self) -> None:
        _check(self)


_KINDS = {"prune": Options, "compress": CompressOptions, "accelerate": AccelerateOptions}


def fleet_options(method: str) -> tuple[str, ...]:
    """The options that a job of a fleet may have; it has one process, whose output nobody reads."""
    names = (entry.name for entry in fields(_KINDS[method]))
    labels = ["label"] if method == "compress" else []  # tables come from files, labels as one of their columns
    return (*(name for name in names if name not in ("callback", "verbose", "n_jobs")), *labels, "spent")
