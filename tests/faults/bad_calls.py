"""The table of bad calls: what is called, the error it must give, and the words in its message.

Each call takes a `World` (models, tables and a finished result) and must raise. The words are what
a user needs to see: what was found, and what is accepted or what to do.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import pine_boost as pb
from pine_boost.native.predict import predict_probabilities
from pine_boost.parsers.xgboost import ubjson, write
from pine_boost.region.domain import Condition
from pine_boost.verifying import verify

Call = Callable[["World"], Any]
Row = tuple[str, Call, type[Exception], str]


@dataclass(frozen=True)
class World:
    """What bad calls are made with: everything in it is sound by itself."""

    model: Any  # GradientBoostingClassifier on three features
    named: Any  # XGBClassifier on the columns a, b, c
    categorical: Any  # XGBClassifier with the pandas categorical c
    regressor: Any
    frame: Any
    category_frame: Any
    X: Any
    y: Any
    result: Any
    undecided: Any  # a region with indifference
    saved: Path  # the result as files
    xgboost_file: bytes
    lightgbm_file: bytes
    catboost_file: bytes
    catboost_with_statistics: Any  # categories that are not one-hot

    def prune(self, **options: Any) -> Any:
        """A good call with something changed."""
        return pb.prune_booster(self.model, self.X[:120], self.X[120:], **options)

    def prune_with(self, model: Any, **options: Any) -> Any:
        """A good call with another model."""
        return pb.prune_booster(model, self.X[:120], self.X[120:], **options)

    def fit_on(self, X_fit: Any, X_cal: Any = "same") -> Any:
        """A good call with other tables."""
        X_cal = self.X[120:] if isinstance(X_cal, str) else X_cal
        return pb.prune_booster(self.model, X_fit, X_cal)

    def fit_named(self, frame: Any) -> Any:
        """A good call with another frame."""
        return pb.prune_booster(self.named, frame[:120], self.frame[120:])

    def with_cell(self, value: float) -> Any:
        """The table with one odd number."""
        X = self.X[:120].copy()
        X[4, 1] = value
        return X

    def with_lock(self) -> Any:
        """The result with something in its model that no file can hold."""
        model = copy.copy(self.result.model)
        model.lock = threading.Lock()
        return replace(self.result, model=model, pruned=replace(self.result.pruned, native=model))

    def margins(self, value: Any) -> Any:
        """Ask the region with indifference about rows with these margins."""
        return self.undecided.contains(self.X[:3], margins=value)

    def verify(self, **changes: Any) -> Any:
        """A good verification with something changed."""
        given = {
            "original": self.model,
            "pruned": self.result.model,
            "region": self.result.region,
            "certificate": self.result.certificate,
        }
        return verify(**{**given, **changes})


_INPUT, _MODEL = pb.InvalidInputError, pb.UnsupportedModelError
_DAMAGED, _MISMATCH = pb.MalformedModelError, pb.CertificateMismatch
_LEVEL = r"must be a number in \[0, 1\), got"

OPTIONS: list[Row] = [
    ("alpha of one", lambda w: w.prune(alpha=1), _INPUT, rf"alpha {_LEVEL} 1"),
    ("alpha below zero", lambda w: w.prune(alpha=-0.1), _INPUT, rf"alpha {_LEVEL} -0.1"),
    ("alpha NaN", lambda w: w.prune(alpha=float("nan")), _INPUT, rf"alpha {_LEVEL} nan"),
    ("alpha as text", lambda w: w.prune(alpha="0.1"), _INPUT, rf"alpha {_LEVEL} '0.1'"),
    ("alpha True", lambda w: w.prune(alpha=True), _INPUT, rf"alpha {_LEVEL} True"),
    ("alpha a list", lambda w: w.prune(alpha=[0.1]), _INPUT, _LEVEL),
    ("unknown objective", lambda w: w.prune(objective="l2"), _INPUT, "objective must be 'l0' or 'l1', got 'l2'"),
    ("unknown unit", lambda w: w.prune(unit="forest"), _INPUT, "must be 'round', 'tree' or 'leaf', got 'forest'"),
    (
        "no time",
        lambda w: w.prune(time_limit=0),
        _INPUT,
        "time_limit must be a positive number of seconds or None, got 0",
    ),
    ("time as text", lambda w: w.prune(time_limit="9"), _INPUT, "positive number of seconds or None, got '9'"),
    ("time NaN", lambda w: w.prune(time_limit=float("nan")), _INPUT, "positive number of seconds"),
    ("time beyond floats", lambda w: w.prune(time_limit=10**400), _INPUT, "positive number of seconds"),
    ("time of a sweep", lambda w: pb.sweep(w.model, w.X, time_limit=10**400), _INPUT, "time_limit must be"),
    ("text for a sweep's time", lambda w: pb.sweep(w.model, w.X, time_limit="9"), _INPUT, "time_limit must be"),
    ("no jobs", lambda w: w.prune(n_jobs=0), _INPUT, "n_jobs must be a positive integer or -1, got 0"),
    ("too few jobs", lambda w: w.prune(n_jobs=-2), _INPUT, "n_jobs must be a positive integer or -1, got -2"),
    ("half a job", lambda w: w.prune(n_jobs=1.5), _INPUT, "n_jobs must be a positive integer or -1, got 1.5"),
    (
        "seed None",
        lambda w: w.prune(random_state=None),
        _INPUT,
        "random_state must be an integer from 0 to .*, got None",
    ),
    ("seed negative", lambda w: w.prune(random_state=-1), _INPUT, "integer from 0 to 2.*, got -1"),
    ("seed as text", lambda w: w.prune(random_state="x"), _INPUT, "random_state must be .*, got 'x'"),
    ("callback a number", lambda w: w.prune(callback=5), _INPUT, "callback must be callable or None, got 5"),
    ("no bins", lambda w: w.prune(n_bins=0), _INPUT, "n_bins must be an integer from 1 to 1000, got 0"),
    ("too many bins", lambda w: w.prune(n_bins=10**9), _INPUT, "from 1 to 1000, got 1000000000"),
    ("bins a float", lambda w: w.prune(n_bins=2.5), _INPUT, "n_bins must be .*, got 2.5"),
    (
        "indifference of one",
        lambda w: w.prune(indifference=1),
        _INPUT,
        r"indifference must be a number in \[0, 1\) or 'auto', got 1",
    ),
    (
        "indifference too large",
        lambda w: w.prune(indifference=0.9),
        pb.RegionError,
        "no guarantee. The largest indifference that fits is",
    ),
    (
        "indifference with alpha 0",
        lambda w: w.prune(alpha=0, indifference=0.1),
        pb.PineBoostError,
        "alpha=0|No indifference",
    ),
    ("unknown score", lambda w: w.prune(score="kde"), _INPUT, "'kde'; accepted are chow-liu"),
    ("score an object", lambda w: w.prune(score=object()), _INPUT, "accepted are chow-liu"),
    ("threshold above one", lambda w: w.prune(threshold=2.0), _INPUT, "=2.0 must lie strictly"),
    ("threshold NaN", lambda w: w.prune(threshold=float("nan")), _INPUT, "finite number"),
    ("threshold beyond floats", lambda w: w.prune(threshold=10**400), _INPUT, "one finite number"),
    ("threshold as text", lambda w: w.prune(threshold="x"), _INPUT, "='x' must be one finite"),
    ("thresholds none", lambda w: w.prune(threshold=[]), _INPUT, "one finite number or a list"),
    ("thresholds twice", lambda w: w.prune(threshold=[0.5, 0.5]), _INPUT, "strictly ascending"),
]

DOMAINS: list[Row] = [
    (
        "domain a dict",
        lambda w: w.prune(domain={"lower": {0: 1}}),
        _INPUT,
        "domain must be a Domain, got dict; for example Domain",
    ),
    (
        "bounds crossed",
        lambda w: w.prune(domain=pb.Domain(lower={0: 5}, upper={0: 1})),
        _INPUT,
        "lower bound must not exceed the upper",
    ),
    ("bound as text", lambda w: w.prune(domain=pb.Domain(lower={0: "x"})), _INPUT, "must be a number, got 'x'"),
    ("bounds a number", lambda w: w.prune(domain=pb.Domain(lower=5)), _INPUT, "lower must map featu"),
    (
        "feature out of range",
        lambda w: w.prune(domain=pb.Domain(lower={9: 1})),
        _INPUT,
        "Feature 9 is out of range; the model has 3 features",
    ),
    (
        "feature without names",
        lambda w: w.prune(domain=pb.Domain(upper={"age": 1})),
        _INPUT,
        "the model has no feature names; give positions 0 to 2",
    ),
    (
        "unknown feature",
        lambda w: pb.prune_booster(w.named, w.frame[:120], w.frame[120:], domain=pb.Domain(upper={"age": 1})),
        _INPUT,
        "no feature 'age'; it has 'a', 'b', 'c'",
    ),
    (
        "integer a text",
        lambda w: w.prune(domain=pb.Domain(integer="age")),
        _INPUT,
        "Domain.integer must be a list, got 'age'",
    ),
    (
        "one_hot without groups",
        lambda w: w.prune(domain=pb.Domain(one_hot=[0, 1])),
        _INPUT,
        "one_hot must be a list of groups",
    ),
    ("one_hot of one", lambda w: w.prune(domain=pb.Domain(one_hot=[[0]])), _INPUT, "at least two different"),
    (
        "half a pair",
        lambda w: w.prune(domain=pb.Domain(forbidden=[(Condition(0),)])),
        _INPUT,
        "forbidden pair must be two Conditions",
    ),
    (
        "domain against the data",
        lambda w: w.prune(domain=pb.Domain(lower={0: 1e9})),
        pb.RegionError,
        "rows lie outside the region",
    ),
]

TABLES: list[Row] = [
    ("no table", lambda w: w.fit_on(None), _INPUT, "X_fit is missing"),
    ("no calibration, few rows", lambda w: w.fit_on(w.X[:5], None), _INPUT, "Pass X_cal"),
    ("a path for a table", lambda w: w.fit_on("rows.csv"), _INPUT, "X_fit is the path 'rows.csv'.*Parquet"),
    ("a generator", lambda w: w.fit_on(row for row in w.X), _INPUT, "a generator, not a table"),
    ("one row", lambda w: w.fit_on(w.X[:1]), _INPUT, r"X_fit has 1 row\(s\)"),
    ("empty calibration", lambda w: w.fit_on(w.X[:120], w.X[:0]), _INPUT, r"X_cal has 0 row\(s\)"),
    ("missing column", lambda w: w.fit_on(w.X[:120, :2]), _INPUT, "2 columns, the model has 3"),
    ("extra columns", lambda w: w.fit_on(np.hstack([w.X, w.X])), _INPUT, "6 columns, the model"),
    (
        "labels for calibration",
        lambda w: w.fit_on(w.X[:120], w.y[120:]),
        _INPUT,
        r"X_cal has 1 dimension\(s\), a table has 2",
    ),
    ("three dimensions", lambda w: w.fit_on(w.X[None]), _INPUT, r"3 dimension\(s\)"),
    ("text", lambda w: w.fit_on(w.X[:120].astype(str)), _INPUT, "numbers are accepted. Encode it"),
    ("complex", lambda w: w.fit_on(w.X[:120] + 1j), _INPUT, "must hold numbers .*got dtype complex128"),
    ("dates", lambda w: w.fit_on(w.X[:120].astype("datetime64[s]")), _INPUT, "dtype datetime64"),
    ("ragged", lambda w: w.fit_on([[1, 2], [3]]), _INPUT, "not a table of equally long rows"),
    ("masked", lambda w: w.fit_on(np.ma.masked_array(w.X[:120])), _INPUT, "fill it with NaN"),
    ("infinity", lambda w: w.fit_on(w.with_cell(np.inf)), _INPUT, "inf .row 4, 'f1'.*Clip it"),
    ("beyond float32", lambda w: w.fit_on(w.with_cell(1e39)), _INPUT, "beyond float32"),
    ("NaN where refused", lambda w: w.fit_on(w.with_cell(np.nan)), _INPUT, "row 4, 'f1'.*Impute"),
    ("a Series", lambda w: w.fit_on(w.frame["a"]), _INPUT, "pass a DataFrame"),
    (
        "columns reordered",
        lambda w: w.fit_named(w.frame[["b", "a", "c"]]),
        _INPUT,
        "same in another order .column 0 is 'b', the model has 'a'",
    ),
    (
        "column renamed",
        lambda w: w.fit_named(w.frame.rename(columns={"a": "q"})),
        _INPUT,
        "lacks the model's column.s. 'a'. Not in the model: 'q'",
    ),
    (
        "columns reordered, one too many",
        lambda w: w.fit_named(w.frame.assign(z=1)[list("zbac")]),
        _INPUT,
        "same in another order .column 0 is 'b', the model has 'a'",
    ),
    ("column of text", lambda w: w.fit_named(w.frame.assign(a="x")), _INPUT, "column 'a'.*'x'"),
    (
        "categories of another kind",
        lambda w: pb.prune_booster(w.categorical, w.frame[:120], w.category_frame[120:]),
        _INPUT,
        "use .astype.'category'",
    ),
    (
        "unseen category",
        lambda w: pb.prune_booster(
            w.categorical, w.category_frame[:120].assign(c=_category(["w"] * 120)), w.category_frame[120:]
        ),
        _INPUT,
        "'w', a category the model was not trained on",
    ),
]

MODELS: list[Row] = [
    ("no model", lambda w: w.prune_with(None), _MODEL, "NoneType is not a model.*accepted: xgb"),
    ("a class", lambda w: w.prune_with(type(w.model)), _MODEL, "not a model|not fitted"),
    ("not fitted", lambda w: w.prune_with(type(w.model)()), _INPUT, "not fitted.*call fit"),
    (
        "a pipeline that was not fitted",
        lambda w: w.prune_with(_pipeline(w)),
        _INPUT,
        "first steps of the Pipeline cannot prepare.*not fitted yet",
    ),
    ("no trees", lambda w: w.prune_with(_linear(w)), _MODEL, "LogisticRegression is not supp"),
    ("no classes", lambda w: w.prune_with(w.regressor), _MODEL, "pass threshold="),
    (
        "other features",
        lambda w: pb.prune_booster(_narrow(w), w.X[:120], w.X[120:]),
        _INPUT,
        "X_fit has 3 columns, the model has 2",
    ),
    ("no such file", lambda w: w.prune_with("/nowhere/model.json"), _INPUT, "cannot be read.*No s"),
    ("a folder", lambda w: w.prune_with(str(w.saved)), _INPUT, "cannot be read .*directory"),
    ("an endless device", lambda w: w.prune_with("/dev/zero"), _INPUT, "pipe or device"),
    ("a pickle", lambda w: w.prune_with(w.saved / "model.pkl"), _MODEL, "would run code from"),
    ("empty bytes", lambda w: w.prune_with(b""), _MODEL, "no model that can be read"),
    ("an image", lambda w: w.prune_with(b"\x89PNG\r\n"), _MODEL, "no model that can be read"),
    ("half an XGBoost file", lambda w: w.prune_with(w.xgboost_file[:-200]), _DAMAGED, "truncated"),
    ("half a LightGBM file", lambda w: w.prune_with(w.lightgbm_file[:900]), _DAMAGED, "damaged"),
    ("half a CatBoost file", lambda w: w.prune_with(w.catboost_file[:-40]), _DAMAGED, "is not JSON.*save_model"),
    ("CatBoost's own format", lambda w: w.prune_with(b"CBM1" + w.catboost_file), _MODEL, "format='json'"),
    ("CatBoost with CTR", lambda w: w.prune_with(w.catboost_with_statistics), _MODEL, "one_hot_max_size"),
    ("another JSON", lambda w: w.prune_with(b'{"a": 1}'), _DAMAGED, "keys are missing.*learner.*version"),
]

FILES: list[Row] = [
    ("region of nowhere", lambda w: pb.Region.load(w.saved / "no"), _INPUT, "cannot be read"),
    ("region a number", lambda w: pb.Region.load(5), _INPUT, "5 cannot be read"),
    ("region of nothing", lambda w: pb.Region.from_json("{}"), _DAMAGED, "'format' is null"),
    ("region of bytes", lambda w: pb.Region.from_json(b"\xff"), _DAMAGED, "is not JSON"),
    (
        "certificate for region",
        lambda w: pb.Region.load(w.saved / "certificate.json"),
        _DAMAGED,
        "'format' is 'pine_boost certificate'",
    ),
    ("certificate of nowhere", lambda w: pb.Certificate.load(w.saved / "no"), _INPUT, "cannot be"),
    (
        "region for certificate",
        lambda w: pb.Certificate.load(w.saved / "region.json"),
        _MISMATCH,
        "'format' is 'pine_boost region'",
    ),
    ("certificate a number", lambda w: pb.Certificate.from_json(5), _MISMATCH, "text or bytes, got int"),
    ("saved to nothing", lambda w: w.result.save(""), _INPUT, "'' is not the path of a folder; pass"),
    ("saved to None", lambda w: w.result.save(None), _INPUT, "None is not the path of a folder"),
    ("saved to a file", lambda w: w.result.save(w.saved / "model.pkl"), _INPUT, "is a file; name"),
    ("saved below /proc", lambda w: w.result.save("/proc/x/y"), pb.OutputError, "cannot be writ"),
    ("region to None", lambda w: w.result.region.save(None), _INPUT, "None is not the path of a file"),
    ("certificate to None", lambda w: w.result.certificate.save(None), _INPUT, "not the path of a file; pass"),
    ("region to /proc", lambda w: w.result.region.save("/proc/x/y"), pb.OutputError, "cannot be"),
    (
        "saved with other rows",
        lambda w: w.result.save(w.saved / "new", w.X[:, :2]),
        _INPUT,
        "2 columns, the model has 3",
    ),
    (
        "saved with a lock",
        lambda w: w.with_lock().save(w.saved / "new"),
        pb.OutputError,
        "GradientBoostingClassifier cannot be pickled .TypeError.*Take out of it what no file can",
    ),
    (
        "guarded with a lock",
        lambda w: pb.GuardedModel(w.with_lock()).save(w.saved / "new"),
        pb.OutputError,
        "cannot be pickled .TypeError.*Take out of it what no file can hold",
    ),
    ("loaded from None", lambda w: pb.PruneResult.load(None), _INPUT, "None is not the path of a folder; pass"),
    ("loaded from a number", lambda w: pb.PruneResult.load(5), _INPUT, "5 is not the path of a folder; pass"),
    ("compression of None", lambda w: pb.CompressResult.load(None), _INPUT, "None is not the path of a fold"),
    ("guarded of None", lambda w: pb.load_scorer(None), _INPUT, "None is not the path of a folder; pass"),
    (
        "a float as UBJSON",
        lambda w: ubjson.write_ubjson({"a": 0.5}),
        _INPUT,
        "float is not written as UBJSON; dicts, lists",
    ),
    (
        "a set as JSON",
        lambda w: write.write_document(_odd_document(w), "json"),
        _INPUT,
        "set is not written as JSON; dicts, lists",
    ),
]

QUESTIONS: list[Row] = [
    ("rows of another model", lambda w: w.result.region.contains(w.X[:, :2]), _INPUT, "2 columns"),
    ("nothing contained", lambda w: w.result.region.contains(None), _INPUT, "X is missing"),
    ("coverage of no rows", lambda w: w.result.region.coverage(w.X[:0]), _INPUT, "has no rows"),
    (
        "confidence of two",
        lambda w: w.result.region.coverage(w.X, confidence=2),
        _INPUT,
        "confidence must be a number strictly between 0 and 1, got 2",
    ),
    ("two rows explained", lambda w: w.result.region.explain(w.X[:2]), _INPUT, "one row, got 2"),
    ("recalibrated beyond one", lambda w: w.result.region.with_alpha(1.5), _INPUT, _LEVEL),
    ("labels too short", lambda w: w.result.evaluate(w.X, w.y[:3]), _INPUT, "200 rows and y 3"),
    (
        "labels of another kind",
        lambda w: w.result.evaluate(w.X, ["yes"] * 200),
        _INPUT,
        "y holds 'yes', a label the model does not have; its predict returns 0, 1",
    ),
    ("labels counted from one", lambda w: w.result.evaluate(w.X, w.y + 1), _INPUT, "y holds 2, a"),
    ("labels that are dicts", lambda w: w.result.evaluate(w.X, [{}] * 200), _INPUT, "y holds {}"),
    (
        "labels of other lengths",
        lambda w: w.result.evaluate(w.X, [[1], [1, 2]]),
        _INPUT,
        "y is not a list of labels .*pass one label for each row",
    ),
    ("margins of text", lambda w: w.margins("abc"), _INPUT, "must be an array of numbers .*raw scores"),
    ("margins of text in a list", lambda w: w.margins(["a", "b", "c"]), _INPUT, "must be an array of num"),
    ("margins ragged", lambda w: w.margins([[1.0], [1.0, 2.0], [3.0]]), _INPUT, "must be an array of num"),
    ("margins NaN", lambda w: w.margins([1.0, np.nan, 1.0]), _INPUT, "a NaN in row 1; every row needs a margin"),
    ("margins None", lambda w: w.margins([1.0, 1.0, None]), _INPUT, "a NaN in row 2; every row needs a margin"),
    ("alpha of fresh rows", lambda w: pb.recalibrate(w.result.region, w.X, alpha="x"), _INPUT, rf"alpha {_LEVEL} 'x'"),
    (
        "a path recalibrated",
        lambda w: pb.recalibrate("region.json", w.X),
        _INPUT,
        "recalibrate needs a region, got a str; pass result.region",
    ),
    (
        "a path monitored",
        lambda w: pb.RegionMonitor("region.json"),
        _INPUT,
        "RegionMonitor needs a region, got a str; pass result.region, or Region.load",
    ),
    (
        "probabilities of gaps",
        lambda w: predict_probabilities(w.result.original, w.with_cell(np.nan)),
        _INPUT,
        "own predict refuses this table",
    ),
    ("evaluated on no rows", lambda w: w.result.evaluate(w.X[:0]), _INPUT, "X has no rows"),
    ("evaluated on other rows", lambda w: w.result.evaluate(w.X[:, :2]), _INPUT, "2 columns"),
    ("verified in no time", lambda w: w.verify(time_limit=0), _INPUT, "positive number of seconds"),
    ("verified in text", lambda w: w.verify(time_limit="9"), _INPUT, "time_limit must be .*, got '9'"),
    ("verified by nobody", lambda w: w.verify(n_jobs=0), _INPUT, "positive integer or -1, got 0"),
    ("another original", lambda w: w.verify(original=w.named), _MISMATCH, "original model is not"),
    ("another pruned model", lambda w: w.verify(pruned=w.model), _MISMATCH, "pruned model is not"),
    ("another region", lambda w: w.verify(region=w.result.region.with_alpha(0.5)), _MISMATCH, "region is not the one"),
    ("an empty sweep", lambda w: pb.sweep(w.model, w.X, alphas=[]), _INPUT, "alphas is empty"),
    ("a sweep of one number", lambda w: pb.sweep(w.model, w.X, alphas=5), _INPUT, "list of num"),
    ("a sweep beyond one", lambda w: pb.sweep(w.model, w.X, alphas=[2]), _INPUT, _LEVEL),
    (
        "fidelity above one",
        lambda w: pb.select_alpha(w.model, w.X, w.X, w.X, 1.5),
        _INPUT,
        "target_fidelity must be a number strictly between 0 and 1, got 1.5",
    ),
    (
        "unknown rule",
        lambda w: pb.select_alpha(w.model, w.X, w.X, w.X, 0.9, rule="x"),
        _INPUT,
        "rule must be 'confidence' or 'empirical', got 'x'",
    ),
    (
        "everything held out",
        lambda w: pb.PineClassifier(calibration_size=2).fit(w.X, w.y),
        _INPUT,
        "calibration_size must be a number strictly between 0 and 1, got 2",
    ),
    ("one class", lambda w: pb.PineClassifier().fit(w.X, np.zeros(200)), _INPUT, "one class only"),
    ("no tree ensemble", lambda w: pb.PineClassifier(_linear(w)).fit(w.X, w.y), _MODEL, "is not s"),
]

BAD_CALLS = [*OPTIONS, *DOMAINS, *TABLES, *MODELS, *FILES, *QUESTIONS]


def _category(values: list[str]) -> Any:
    import pandas

    return pandas.Categorical(values)


def _pipeline(world: World) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), world.model)


def _linear(world: World) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(world.X, world.y)


def _narrow(world: World) -> Any:
    return type(world.model)(n_estimators=2, max_depth=1).fit(world.X[:, :2], world.y)


def _odd_document(world: World) -> Any:
    document = pb.parsers.read_model(world.named).document
    return replace(document, boost_from_average={"1"})
