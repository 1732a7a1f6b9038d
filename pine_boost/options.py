"""Every option, declared once: name, type, default, check and text.

The option dataclasses, the checks, the flags of the command line and the "Parameters" sections of
the docstrings come from `TABLE` and ``option_texts.txt``. Texts name tables in braces, so that the
command line can show them as flags; their first sentence is the help text of the flag.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from numbers import Integral, Real
from pathlib import Path
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
WORTH = 0.02  # of the units: undecided inputs are given up only for a saving of at least this
MAX_BINS = 1000  # pair tables grow with the square of the number of bins
REQUIRED = object()
Kind = TypeVar("Kind")
Check = Callable[[Any, str], None]


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


def _share(accepted: str, fits: Callable[[Any], bool]) -> Check:
    """A check of a share; a number that looks like a percentage is told the share it stands for."""

    def require(value: Any, name: str) -> None:
        if not fits(value):
            is_percentage = is_real(value) and 1 < value <= 100
            hint = f" ({value:g} % is {value / 100:g})" if is_percentage else ""
            raise InvalidInputError(f"{name} must be {accepted}, got {value!r}{hint}.", option=name)

    return require


def _accepting(accepted: str, fits: Callable[[Any], bool]) -> Check:
    """A check that raises InvalidInputError unless ``fits``; ``accepted`` says what does."""

    def require(value: Any, name: str) -> None:
        if not fits(value):
            raise _refused(name, accepted, value)

    return require


def _is_positive(value: Any) -> bool:
    """Whether a float can hold the value, and it is positive."""
    try:
        return is_real(value) and float(value) > 0
    except OverflowError:
        return False


require_level = _share("a number in [0, 1)", lambda value: is_real(value) and 0 <= value < 1)
require_share = _share("a number strictly between 0 and 1", lambda value: is_real(value) and 0 < value < 1)
require_seconds = _accepting("a positive number of seconds or None", lambda value: value is None or _is_positive(value))
_require_indifference = _accepting(
    f"a number in [0, 1) or {AUTO!r}",
    lambda value: (isinstance(value, str) and value == AUTO) or (is_real(value) and 0 <= value < 1),
)
_require_fidelity = _share("a number above 0 and at most 1", lambda value: is_real(value) and 0 < value <= 1)
_require_tolerance = _accepting(
    "a finite positive number or None", lambda value: value is None or (is_real(value) and 0 < value < float("inf"))
)
_require_seed = _accepting("an integer from 0 to 2**32 - 1", lambda value: is_whole(value) and 0 <= value < 2**32)
_require_callback = _accepting("callable or None", lambda value: value is None or callable(value))
_require_text_or_none = _accepting("a text or None", lambda value: value is None or isinstance(value, str))
_require_bool = _accepting("True or False", lambda value: isinstance(value, bool))
_require_bool_or_none = _accepting(
    "True, False or None", lambda value: value is None or value is True or value is False
)


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


def _require_optional_share(value: Any, name: str) -> None:
    if value is not None:
        require_share(value, name)


def _anything(value: Any, name: str) -> None:
    """Accept every value; it is checked where it is used."""


def _parse_indifference(text: str) -> float | str:
    return text if text == AUTO else float(text)


@dataclass(frozen=True)
class Option:
    """One parameter of the public calls; its type and text are in ``option_texts.txt``.

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
            _named(text), width, initial_indent=inner, subsequent_indent=inner, break_on_hyphens=False
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
        text = _named(_text_of(call, self.name)[1], flag_of).split(". ")[0].rstrip(".").replace("``", "")
        if remark is None:
            remark = f"default: {self.default_in_words}" if self.default_in_words else ""
        return f"{text} ({remark}).".replace("%", "%%") if remark else f"{text}.".replace("%", "%%")


def _named(text: str, name_of: Callable[[str], str] = str) -> str:
    """A text with the names of tables in place of the braces around them."""
    return re.sub(r"\{(\w+)\}", lambda name: name_of(name[1]) or name[1], text)


def read_texts(texts: str) -> dict[str, tuple[str, str]]:
    """The entries of a file of texts: what follows the colon, and the indented lines below."""
    entries = {}
    for entry in re.split(r"\n(?=\S)", texts.strip()):
        head, *lines = entry.splitlines()
        key, _, kind = head.partition(" : ")
        entries[key] = kind, " ".join(line.strip() for line in lines)
    return entries


_TEXTS = read_texts(Path(__file__).with_name("option_texts.txt").read_text(encoding="utf-8"))
TABLE = {
    option.key: option
    for option in (
        Option("model", flag=""),
        Option("X_fit", None, flag="--fit", otherwise="none"),
        Option("X_cal", None, flag="--cal", otherwise="none"),
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
        Option("dask", None, check=_require_text_or_none, metavar="ADDRESS", otherwise="this machine"),
        Option("reports", False, check=_require_bool),
        Option("sweep.X_fit", flag="--fit"),
        Option("compress_booster.X_fit", flag="--fit"),
        Option(
            "compress_booster.fidelity",
            None,
            float,
            _require_optional_share,
            metavar="SHARE",
            otherwise="0.99 unless --max-loss is given",
        ),
        Option("minimize", "work", choices=("work", "leaves", "trees")),
        Option("y_val", None, flag=""),
        Option("max_loss", None, float, _require_optional_share, metavar="LOSS", otherwise="none"),
        Option("label", None, metavar="COLUMN", otherwise="none"),
        Option("loss", "error", check=_anything, choices=("error", "brier", "squared")),
        Option("loss_range", None, float, _require_tolerance, metavar="ERROR", otherwise="none"),
        Option("accelerate_booster.X_val", None, flag="--val", otherwise="none"),
        Option("accelerate_booster.fidelity", 1.0, float, _require_fidelity, metavar="SHARE"),
        Option("compare_models.fidelity", 0.99, float, _require_fidelity, metavar="SHARE"),
        Option("survey.X_fit", flag="--fit"),
        Option("survey.time_limit", 60.0, float, require_seconds, metavar="SECONDS"),
        Option("PineClassifier.threshold", None, check=_require_optional_share, flag=""),
        Option("PineClassifier.random_state", None, check=_anything, flag=""),
        Option("run_fleet.n_jobs", -1, int, worker_count, "--workers", "N"),
    )
}


_FLAGS_OF_ONE_COMMAND = {"X": "DATA", "overwrite": "--force", "codes": "--codes", "backend": "--backend"}


def _text_of(call: str, name: str) -> tuple[str, str]:
    """Type and text of a parameter of a call."""
    return _TEXTS.get(f"{call}.{name}") or _TEXTS[name]


def option_of(call: str, name: str) -> Option:
    """A parameter as a public call has it."""
    return TABLE.get(f"{call}.{name}") or TABLE[name]


def flag_of(name: str) -> str:
    """The flag of a parameter on the command line; empty if it has none."""
    return TABLE[name].flag_name if name in TABLE else _FLAGS_OF_ONE_COMMAND.get(name, "")


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
