"""The table of bad calls: what is called, the error it must give, and the words in its message.

Each call takes a `World` (models, tables and a finished result) and must raise. The words are what
a user needs to see: what was found, and what is accepted or what to do.
"""

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

# its name, the call or what it changes in a good one of prune_booster, and words of its message
Row = tuple[str, Callable[["World"], Any] | dict[str, Any], str]


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


_LEVEL = r"must be a number in \[0, 1\), got"

BAD_CALLS: dict[type[Exception], list[Row]] = {
    pb.InvalidInputError: [
        ("alpha of one", {"alpha": 1}, rf"alpha {_LEVEL} 1"),
        ("alpha below zero", {"alpha": -0.1}, rf"alpha {_LEVEL} -0.1"),
        ("alpha NaN", {"alpha": float("nan")}, rf"alpha {_LEVEL} nan"),
        ("alpha as text", {"alpha": "0.1"}, rf"alpha {_LEVEL} '0.1'"),
        ("alpha True", {"alpha": True}, rf"alpha {_LEVEL} True"),
        ("alpha a list", {"alpha": [0.1]}, _LEVEL),
        ("unknown objective", {"objective": "l2"}, "objective must be 'l0' or 'l1', got 'l2'"),
        ("unknown unit", {"unit": "forest"}, "must be 'round', 'tree' or 'leaf', got 'forest'"),
        ("no time", {"time_limit": 0}, "time_limit must be a positive number of seconds or None, got 0"),
        ("time as text", {"time_limit": "9"}, "positive number of seconds or None, got '9'"),
        ("time NaN", {"time_limit": float("nan")}, "positive number of seconds"),
        ("time beyond floats", {"time_limit": 10**400}, "positive number of seconds"),
        ("time of a sweep", lambda w: pb.sweep(w.model, w.X, time_limit=10**400), "time_limit must be"),
        ("text for a sweep's time", lambda w: pb.sweep(w.model, w.X, time_limit="9"), "time_limit must be"),
        ("no jobs", {"n_jobs": 0}, "n_jobs must be a positive integer or -1, got 0"),
        ("too few jobs", {"n_jobs": -2}, "n_jobs must be a positive integer or -1, got -2"),
        ("half a job", {"n_jobs": 1.5}, "n_jobs must be a positive integer or -1, got 1.5"),
        ("seed None", {"random_state": None}, "random_state must be an integer from 0 to .*, got None"),
        ("seed negative", {"random_state": -1}, "integer from 0 to 2.*, got -1"),
        ("seed as text", {"random_state": "x"}, "random_state must be .*, got 'x'"),
        ("callback a number", {"callback": 5}, "callback must be callable or None, got 5"),
        ("no bins", {"n_bins": 0}, "n_bins must be an integer from 1 to 1000, got 0"),
        ("too many bins", {"n_bins": 10**9}, "from 1 to 1000, got 1000000000"),
        ("bins a float", {"n_bins": 2.5}, "n_bins must be .*, got 2.5"),
        ("indifference of one", {"indifference": 1}, r"indifference must be a number in \[0, 1\) or 'auto', got 1"),
        ("indifference below zero", {"indifference": -0.1}, "^indifference must be .*, got -0.1"),
        ("bins a whole float", {"n_bins": 2.0}, "^n_bins must be .*, got 2.0"),
        ("jobs a whole float", {"n_jobs": 1.0}, "^n_jobs must be .*, got 1.0"),
        ("objective None", {"objective": None}, "^objective must be .*, got None"),
        ("unit a list", {"unit": ["round"]}, r"^unit must be .*, got \['round'\]"),
        ("unknown reweight", {"reweight": "branch"}, "^reweight must be 'tree' or 'leaf', got 'branch'"),
        ("time True", {"time_limit": True}, "^time_limit must be .*, got True"),
        ("seed too large", {"random_state": 2**32}, "^random_state must be .*, got 4294967296"),
        ("callback as text", {"callback": "print"}, "^callback must be .*, got 'print'"),
        ("verbose a number", {"verbose": 1}, "^verbose must be .*, got 1"),
        ("verbose as text", {"verbose": "yes"}, "^verbose must be .*, got 'yes'"),
        ("overlap None", {"allow_overlap": None}, "^allow_overlap must be .*, got None"),
        ("unknown score", {"score": "kde"}, "'kde'; accepted are chow-liu"),
        ("score an object", {"score": object()}, "accepted are chow-liu"),
        ("threshold above one", {"threshold": 2.0}, "=2.0 must lie strictly"),
        ("threshold beyond floats", {"threshold": 10**400}, "one finite number"),
        ("domain a dict", {"domain": {"lower": {0: 1}}}, "domain must be a Domain, got dict; for example Domain"),
        ("bounds crossed", {"domain": pb.Domain(lower={0: 5}, upper={0: 1})}, "lower bound must not exceed the upper"),
        ("bound as text", {"domain": pb.Domain(lower={0: "x"})}, "must be a number, got 'x'"),
        ("bounds a number", {"domain": pb.Domain(lower=5)}, "lower must map featu"),
        (
            "feature out of range",
            {"domain": pb.Domain(lower={9: 1})},
            "Feature 9 is out of range; the model has 3 features",
        ),
        (
            "feature without names",
            {"domain": pb.Domain(upper={"age": 1})},
            "the model has no feature names; give positions 0 to 2",
        ),
        (
            "unknown feature",
            lambda w: pb.prune_booster(w.named, w.frame[:120], w.frame[120:], domain=pb.Domain(upper={"age": 1})),
            "no feature 'age'; it has 'a', 'b', 'c'",
        ),
        ("integer a text", {"domain": pb.Domain(integer="age")}, "Domain.integer must be a list, got 'age'"),
        ("one_hot without groups", {"domain": pb.Domain(one_hot=[0, 1])}, "one_hot must be a list of groups"),
        ("one_hot of one", {"domain": pb.Domain(one_hot=[[0]])}, "at least two different"),
        ("half a pair", {"domain": pb.Domain(forbidden=[(Condition(0),)])}, "forbidden pair must be two Conditions"),
        ("no table", lambda w: w.fit_on(None), "X_fit is missing"),
        ("no calibration, few rows", lambda w: w.fit_on(w.X[:5], None), "Pass X_cal"),
        ("a path for a table", lambda w: w.fit_on("rows.csv"), "X_fit is the path 'rows.csv'.*Parquet"),
        ("a generator", lambda w: w.fit_on(row for row in w.X), "a generator, not a table"),
        ("one row", lambda w: w.fit_on(w.X[:1]), r"X_fit has 1 row\(s\)"),
        ("empty calibration", lambda w: w.fit_on(w.X[:120], w.X[:0]), r"X_cal has 0 row\(s\)"),
        ("missing column", lambda w: w.fit_on(w.X[:120, :2]), "2 columns, the model has 3"),
        ("extra columns", lambda w: w.fit_on(np.hstack([w.X, w.X])), "6 columns, the model"),
        (
            "labels for calibration",
            lambda w: w.fit_on(w.X[:120], w.y[120:]),
            r"X_cal has 1 dimension\(s\), a table has 2",
        ),
        ("three dimensions", lambda w: w.fit_on(w.X[None]), r"3 dimension\(s\)"),
        ("text", lambda w: w.fit_on(w.X[:120].astype(str)), "numbers are accepted. Encode it"),
        ("complex", lambda w: w.fit_on(w.X[:120] + 1j), "must hold numbers .*got dtype complex128"),
        ("dates", lambda w: w.fit_on(w.X[:120].astype("datetime64[s]")), "dtype datetime64"),
        ("ragged", lambda w: w.fit_on([[1, 2], [3]]), "not a table of equally long rows"),
        ("masked", lambda w: w.fit_on(np.ma.masked_array(w.X[:120])), "fill it with NaN"),
        ("infinity", lambda w: w.fit_on(w.with_cell(np.inf)), "inf .row 4, 'f1'.*Clip it"),
        ("beyond float32", lambda w: w.fit_on(w.with_cell(1e39)), "beyond float32"),
        ("NaN where refused", lambda w: w.fit_on(w.with_cell(np.nan)), "row 4, 'f1'.*Impute"),
        ("a Series", lambda w: w.fit_on(w.frame["a"]), "pass a DataFrame"),
        (
            "columns reordered",
            lambda w: w.fit_named(w.frame[["b", "a", "c"]]),
            "same in another order .column 0 is 'b', the model has 'a'",
        ),
        (
            "column renamed",
            lambda w: w.fit_named(w.frame.rename(columns={"a": "q"})),
            "lacks the model's column.s. 'a'. Not in the model: 'q'",
        ),
        (
            "columns reordered, one too many",
            lambda w: w.fit_named(w.frame.assign(z=1)[list("zbac")]),
            "same in another order .column 0 is 'b', the model has 'a'",
        ),
        ("column of text", lambda w: w.fit_named(w.frame.assign(a="x")), "column 'a'.*'x'"),
        (
            "categories of another kind",
            lambda w: pb.prune_booster(w.categorical, w.frame[:120], w.category_frame[120:]),
            "use .astype.'category'",
        ),
        (
            "unseen category",
            lambda w: pb.prune_booster(
                w.categorical, w.category_frame[:120].assign(c=_category(["w"] * 120)), w.category_frame[120:]
            ),
            "'w', a category the model was not trained on",
        ),
        ("not fitted", lambda w: w.prune_with(type(w.model)()), "not fitted.*call fit"),
        (
            "a pipeline that was not fitted",
            lambda w: w.prune_with(_pipeline(w)),
            "first steps of the Pipeline cannot prepare.*not fitted yet",
        ),
        (
            "other features",
            lambda w: pb.prune_booster(_narrow(w), w.X[:120], w.X[120:]),
            "X_fit has 3 columns, the model has 2",
        ),
        ("no such file", lambda w: w.prune_with("/nowhere/model.json"), "cannot be read.*No s"),
        ("no such file, by Path", lambda w: w.prune_with(w.saved / "absent.txt"), "cannot be read.*No s"),
        ("a folder", lambda w: w.prune_with(str(w.saved)), "cannot be read .*directory"),
        ("a folder, by Path", lambda w: w.prune_with(w.saved), "cannot be read .*directory"),
        ("an endless device", lambda w: w.prune_with("/dev/zero"), "pipe or device"),
        ("region of nowhere", lambda w: pb.Region.load(w.saved / "no"), "cannot be read"),
        ("region a number", lambda w: pb.Region.load(5), "5 cannot be read"),
        ("certificate of nowhere", lambda w: pb.Certificate.load(w.saved / "no"), "cannot be"),
        ("saved to nothing", lambda w: w.result.save(""), "'' is not the path of a folder; pass"),
        ("saved to None", lambda w: w.result.save(None), "None is not the path of a folder"),
        ("saved to a file", lambda w: w.result.save(w.saved / "model.pkl"), "is a file; choose"),
        ("region to None", lambda w: w.result.region.save(None), "None is not the path of a file"),
        ("certificate to None", lambda w: w.result.certificate.save(None), "not the path of a file; pass"),
        ("saved with other rows", lambda w: w.result.save(w.saved / "new", w.X[:, :2]), "2 columns, the model has 3"),
        ("loaded from None", lambda w: pb.PruneResult.load(None), "None is not the path of a folder; pass"),
        ("loaded from a number", lambda w: pb.PruneResult.load(5), "5 is not the path of a folder; pass"),
        ("compression of None", lambda w: pb.CompressResult.load(None), "None is not the path of a fold"),
        ("guarded of None", lambda w: pb.load_scorer(None), "None is not the path of a folder; pass"),
        (
            "a float as UBJSON",
            lambda w: ubjson.write_ubjson({"a": 0.5}),
            "float is not written as UBJSON; dicts, lists",
        ),
        (
            "a set as JSON",
            lambda w: write.write_document(_odd_document(w), "json"),
            "set is not written as JSON; dicts, lists",
        ),
        ("rows of another model", lambda w: w.result.region.contains(w.X[:, :2]), "2 columns"),
        ("nothing contained", lambda w: w.result.region.contains(None), "X is missing"),
        ("coverage of no rows", lambda w: w.result.region.coverage(w.X[:0]), "has no rows"),
        (
            "confidence of two",
            lambda w: w.result.region.coverage(w.X, confidence=2),
            "confidence must be a number strictly between 0 and 1, got 2",
        ),
        ("two rows explained", lambda w: w.result.region.explain(w.X[:2]), "one row, got 2"),
        ("recalibrated beyond one", lambda w: w.result.region.with_alpha(1.5), _LEVEL),
        ("labels too short", lambda w: w.result.evaluate(w.X, w.y[:3]), "200 rows and y 3"),
        (
            "labels of another kind",
            lambda w: w.result.evaluate(w.X, ["yes"] * 200),
            "y holds 'yes', a label the model does not have; its predict returns 0, 1",
        ),
        ("labels counted from one", lambda w: w.result.evaluate(w.X, w.y + 1), "y holds 2, a"),
        ("labels that are dicts", lambda w: w.result.evaluate(w.X, [{}] * 200), "y holds {}"),
        (
            "labels of other lengths",
            lambda w: w.result.evaluate(w.X, [[1], [1, 2]]),
            "y is not a list of labels .*pass one label for each row",
        ),
        ("margins of text", lambda w: w.margins("abc"), "must be an array of numbers .*raw scores"),
        ("margins of text in a list", lambda w: w.margins(["a", "b", "c"]), "must be an array of num"),
        ("margins ragged", lambda w: w.margins([[1.0], [1.0, 2.0], [3.0]]), "must be an array of num"),
        ("margins NaN", lambda w: w.margins([1.0, np.nan, 1.0]), "a NaN in row 1; every row needs a margin"),
        ("margins None", lambda w: w.margins([1.0, 1.0, None]), "a NaN in row 2; every row needs a margin"),
        ("alpha of fresh rows", lambda w: pb.recalibrate(w.result.region, w.X, alpha="x"), rf"alpha {_LEVEL} 'x'"),
        (
            "a path recalibrated",
            lambda w: pb.recalibrate("region.json", w.X),
            "recalibrate needs a region, got a str; pass result.region",
        ),
        (
            "a path monitored",
            lambda w: pb.RegionMonitor("region.json"),
            "RegionMonitor needs a region, got a str; pass result.region, or Region.load",
        ),
        (
            "probabilities of gaps",
            lambda w: predict_probabilities(w.result.original, w.with_cell(np.nan)),
            "own predict refuses this table",
        ),
        ("evaluated on no rows", lambda w: w.result.evaluate(w.X[:0]), "X has no rows"),
        ("evaluated on other rows", lambda w: w.result.evaluate(w.X[:, :2]), "2 columns"),
        ("verified in no time", lambda w: w.verify(time_limit=0), "time_limit must be a positive number of seconds"),
        ("verified in less than no time", lambda w: w.verify(time_limit=-1.0), "time_limit must be .*, got -1.0"),
        ("verified in text", lambda w: w.verify(time_limit="9"), "time_limit must be .*, got '9'"),
        ("verified by nobody", lambda w: w.verify(n_jobs=0), "n_jobs must be a positive integer or -1, got 0"),
        ("an empty sweep", lambda w: pb.sweep(w.model, w.X, alphas=[]), "alphas is empty"),
        ("a sweep of one number", lambda w: pb.sweep(w.model, w.X, alphas=5), "list of num"),
        ("a sweep beyond one", lambda w: pb.sweep(w.model, w.X, alphas=[2]), _LEVEL),
        (
            "fidelity above one",
            lambda w: pb.select_alpha(w.model, w.X, w.X, w.X, 1.5),
            "target_fidelity must be a number strictly between 0 and 1, got 1.5",
        ),
        (
            "unknown rule",
            lambda w: pb.select_alpha(w.model, w.X, w.X, w.X, 0.9, rule="x"),
            "rule must be 'confidence' or 'empirical', got 'x'",
        ),
        (
            "everything held out",
            lambda w: pb.PineClassifier(calibration_size=2).fit(w.X, w.y),
            "calibration_size must be a number strictly between 0 and 1, got 2",
        ),
        ("one class", lambda w: pb.PineClassifier().fit(w.X, np.zeros(200)), "one class only"),
    ],
    pb.RegionError: [
        ("indifference too large", {"indifference": 0.9}, "no guarantee. The largest indifference that fits is"),
        ("domain against the data", {"domain": pb.Domain(lower={0: 1e9})}, "rows lie outside the region"),
    ],
    pb.PineBoostError: [("indifference with alpha 0", {"alpha": 0, "indifference": 0.1}, "alpha=0|No indifference")],
    pb.UnsupportedModelError: [
        ("no model", lambda w: w.prune_with(None), "NoneType is not a model.*accepted: xgb"),
        ("a class", lambda w: w.prune_with(type(w.model)), "not a model|not fitted"),
        ("no trees", lambda w: w.prune_with(_linear(w)), "LogisticRegression of .* is not supp"),
        ("no classes", lambda w: w.prune_with(w.regressor), "pass threshold="),
        ("a pickle", lambda w: w.prune_with(w.saved / "model.pkl"), "would run code from"),
        ("no model to simplify", lambda w: pb.simplify(object()), "object is not a model"),
        ("a pickle to simplify", lambda w: pb.simplify((w.saved / "model.pkl").read_bytes()), "trust_pickle"),
        ("empty bytes", lambda w: w.prune_with(b""), "not a readable model"),
        ("an image", lambda w: w.prune_with(b"\x89PNG\r\n"), "not a readable model"),
        ("CatBoost's own format", lambda w: w.prune_with(b"CBM1" + w.catboost_file), "format='json'"),
        ("CatBoost with CTR", lambda w: w.prune_with(w.catboost_with_statistics), "one_hot_max_size"),
        ("no tree ensemble", lambda w: pb.PineClassifier(_linear(w)).fit(w.X, w.y), "is not s"),
    ],
    pb.MalformedModelError: [
        ("half an XGBoost file", lambda w: w.prune_with(w.xgboost_file[:-200]), "truncated"),
        ("half a LightGBM file", lambda w: w.prune_with(w.lightgbm_file[:900]), "truncated"),
        ("half a CatBoost file", lambda w: w.prune_with(w.catboost_file[:-40]), "is not JSON.*save_model"),
        ("another JSON", lambda w: w.prune_with(b'{"a": 1}'), "keys are missing.*learner.*version"),
        ("region of nothing", lambda w: pb.Region.from_json("{}"), "'format' is null"),
        ("region of bytes", lambda w: pb.Region.from_json(b"\xff"), "is not JSON"),
        (
            "certificate for region",
            lambda w: pb.Region.load(w.saved / "certificate.json"),
            "'format' is 'pine_boost certificate'",
        ),
    ],
    pb.CertificateMismatch: [
        (
            "region for certificate",
            lambda w: pb.Certificate.load(w.saved / "region.json"),
            "'format' is 'pine_boost region'",
        ),
        ("certificate a number", lambda w: pb.Certificate.from_json(5), "text or bytes, got int"),
        ("another original", lambda w: w.verify(original=w.named), "original model is not"),
        ("another pruned model", lambda w: w.verify(pruned=w.model), "pruned model is not"),
        ("another region", lambda w: w.verify(region=w.result.region.with_alpha(0.5)), "region is not the one"),
    ],
    pb.OutputError: [
        (
            "saved with a lock",
            lambda w: w.with_lock().save(w.saved / "new"),
            "GradientBoostingClassifier cannot be pickled .TypeError.*Take out of it what no file can",
        ),
        (
            "guarded with a lock",
            lambda w: pb.GuardedModel(w.with_lock()).save(w.saved / "new"),
            "cannot be pickled .TypeError.*Take out of it what no file can hold",
        ),
    ],
}


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
