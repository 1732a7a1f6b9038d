"""Small XGBoost models of every objective and booster that the tests share, and their margins."""

import json

import numpy as np
import xgboost

from pine_boost.parsers.xgboost.read import major_minor
from tests.support.grids import integer_margins

BOOSTERS = {
    "logistic": {"objective": "binary:logistic"},
    "logistic_base": {"objective": "binary:logistic", "base_score": 0.123},
    "logitraw": {"objective": "binary:logitraw"},
    "hinge": {"objective": "binary:hinge"},
    "softmax": {"objective": "multi:softmax", "n_classes": 3},
    "softprob": {"objective": "multi:softprob", "n_classes": 4},
    "two_outputs": {"objective": "multi:softprob", "num_class": 2},
    "parallel": {"objective": "multi:softprob", "n_classes": 3, "num_parallel_tree": 2, "subsample": 0.7},
    "dart": {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.4},
    "dart_multi": {"objective": "multi:softmax", "n_classes": 3, "booster": "dart", "rate_drop": 0.4},
    "exact_pruned": {"objective": "binary:logistic", "tree_method": "exact", "gamma": 2.0},
    "lossguide": {"objective": "binary:logistic", "grow_policy": "lossguide", "max_leaves": 9},
    "stumps": {"objective": "binary:logistic", "gamma": 1e9},
}


# before 3.3, inplace_predict (which wrappers use) adds the leaves of dart in another way than Booster.predict
INPLACE_DART_DIFFERS = major_minor(xgboost) < (3, 3)
# from 3.3 on, a table is refused that declares a category unknown to the model
REFUSES_NEW_CATEGORIES = major_minor(xgboost) >= (3, 3)
# the versions that moved the weights of dropout to another place of the file
WEIGHT_PLACES = [(1, 7), (3, 3), (3, 4)]


def move_weights(root, since):
    """Put the weights of dropout where the versions from this one on write them, in the parsed file of a model."""
    learner = root["learner"]
    section = learner["gradient_booster"]
    gbtree = section.get("gbtree", section)
    model = gbtree["model"]
    (weights,) = [place.pop("weight_drop") for place in (section, model) if "weight_drop" in place]
    if since < (3, 3):
        learner["gradient_booster"] = {"name": "dart", "gbtree": gbtree, "weight_drop": weights}
    else:
        learner["gradient_booster"] = gbtree
        (gbtree if since < (3, 4) else model)["weight_drop"] = weights


def edit_trees(source, change):
    """The file of a Booster, or of such a file, after ``change`` was applied to the list of its trees."""
    root = json.loads(source if isinstance(source, bytes) else source.save_raw("json"))
    section = root["learner"]["gradient_booster"]
    change(section.get("gbtree", section)["model"]["trees"])
    return json.dumps(root).encode()


def leaves_of(tree):
    """The nodes of a tree of such a file that are leaves."""
    return [node for node, child in enumerate(tree["left_children"]) if child < 0]


_ERRORS = ("squarederror", "squaredlogerror", "pseudohubererror", "absoluteerror", "quantileerror")
OBJECTIVES_OF_VALUES = [
    *(f"reg:{loss}" for loss in (*_ERRORS, "logistic", "gamma", "tweedie")),
    *("count:poisson", "survival:cox", "survival:aft"),
    *(f"rank:{loss}" for loss in ("pairwise", "ndcg", "map")),
]


def make_rows(n_rows=500, n_features=5, seed=0):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_rows, n_features)).round(2)
    rows[random.random(rows.shape) < 0.1] = np.nan
    return rows


def make_labels(rows, n_classes, seed=1):
    noise = np.random.default_rng(seed).normal(size=len(rows)) * 0.5
    score = np.nan_to_num(rows[:, 0]) + np.nan_to_num(rows[:, 1]) ** 2 + noise
    return np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def train(rounds=12, n_classes=2, rows=None, **parameters):
    rows = make_rows() if rows is None else rows
    parameters = {"max_depth": 4, "nthread": 1, "seed": 3, **parameters}
    if n_classes > 2:
        parameters["num_class"] = n_classes
    data = xgboost.DMatrix(rows, make_labels(rows, n_classes), nthread=1)
    return xgboost.train(parameters, data, rounds)


def early_stopped(n_classes=2):
    """A classifier that uses fewer rounds than it has, and its rows."""
    rows = make_rows()
    labels = make_labels(rows, n_classes)
    classifier = xgboost.XGBClassifier(
        n_estimators=60, max_depth=5, n_jobs=1, early_stopping_rounds=5, learning_rate=0.9
    ).fit(rows[:250], labels[:250], eval_set=[(rows[250:], labels[250:])], verbose=False)
    assert classifier.best_iteration + 1 < classifier.get_booster().num_boosted_rounds()
    return classifier, rows


def booster_margins(booster, rows):
    data = xgboost.DMatrix(rows, nthread=1, feature_names=booster.feature_names, feature_types=booster.feature_types)
    margins = booster.predict(data, output_margin=True)
    return margins.reshape(len(rows), -1)


def categorical_booster(max_cat_to_onehot, rounds=8):
    random = np.random.default_rng(5)
    rows = make_rows(600, 3)
    rows[:, 1] = random.integers(0, 12, len(rows))
    rows[:, 2] = random.integers(0, 3, len(rows))
    rows[random.random(rows.shape) < 0.05] = np.nan
    labels = (np.isin(rows[:, 1], [1, 4, 5, 11]) ^ (rows[:, 2] == 1) ^ (rows[:, 0] > 0)).astype(int)
    data = xgboost.DMatrix(
        rows,
        labels,
        nthread=1,
        feature_names=["x", "c", "d"],
        feature_types=["float", "c", "c"],
        enable_categorical=True,
    )
    parameters = {
        "objective": "binary:logistic",
        "max_depth": 4,
        "nthread": 1,
        "tree_method": "hist",
        "max_cat_to_onehot": max_cat_to_onehot,
    }
    return xgboost.train(parameters, data, rounds), rows


def some_weights(forest, seed=4):
    """Drop about half of the trees, scale the others, one of them negatively."""
    random = np.random.default_rng(seed)
    weights = np.where(random.random(forest.n_trees) < 0.5, 0.0, random.uniform(0.3, 2.5, forest.n_trees))
    weights[-1] = -0.75
    return weights


def expected_margins(pruned, rows):
    """The integers of a pruned forest as the float32 margins that a Booster returns."""
    return np.ldexp(integer_margins(pruned, rows).astype(np.float64), -pruned.grid).astype(np.float32)


def check_margins(pruned, exported, rows, step):
    """The exact margins in batch, in place, and of every so many rows one by one."""
    expected = expected_margins(pruned, rows)
    np.testing.assert_array_equal(booster_margins(exported, rows), expected)
    inplace = exported.inplace_predict(rows, predict_type="margin").reshape(len(rows), -1)
    np.testing.assert_array_equal(inplace, expected)
    for i in range(0, len(rows), step):
        single = booster_margins(exported, rows[i : i + 1])
        np.testing.assert_array_equal(single, expected[i : i + 1])
