"""Region files: equal after the round trip, refused when anything in them is off."""

import copy
import json
import os
from dataclasses import replace

import numpy as np
import pytest

from pine_boost.errors import InvalidInputError, MalformedModelError, PineBoostError
from pine_boost.options import SCORE_NAMES
from pine_boost.region import Condition, Domain, Region, fit_region
from tests.support.forests import MANNER_NAMES, MANNERS, random_forest, random_rows


def _region(manner=MANNERS[0], score="chow-liu", **options):
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 8, 3, 4, manner=manner, categorical=(1,))
    X = random_rows(rng, forest, 600)
    domain = Domain(ordinal=[(2, 3)], forbidden=[(Condition(0, lower=1.0), Condition(2, lower=1.0))])
    X[:, 2:] = np.sort(rng.integers(0, 2, size=(600, 2)), axis=1)[:, ::-1]
    X[(X[:, 0] >= 1.0), 2:] = 0.0
    region = fit_region(forest, X[:300], X[300:], alpha=0.1, score=score, domain=domain, **options)
    return region, forest, X


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("manner", MANNERS, ids=MANNER_NAMES)
def test_round_trip(manner, score, tmp_path):
    region, forest, X = _region(manner, score, indifference=0.02)
    path = tmp_path / "region.json"
    region.save(path)
    again = Region.load(path)
    assert again == region
    assert hash(again) == hash(region)
    assert again.fingerprint() == region.fingerprint()
    assert np.array_equal(again.score(X), region.score(X))
    assert np.array_equal(again.contains(X, model=forest), region.contains(X, model=forest))
    assert again.with_alpha(0.3) == region.with_alpha(0.3)
    assert again != region.with_alpha(0.3)
    assert Region.from_json(region.to_json()) == region
    assert Region.from_json(path.read_bytes()) == region
    assert again.explain(X[0], model=forest) == region.explain(X[0], model=forest)
    if score != "chow-liu":
        trees, copied = region.score_tables.trees.trees, again.score_tables.trees.trees
        for name in trees.__dataclass_fields__:
            assert np.array_equal(getattr(trees, name), getattr(copied, name)), name


def test_round_trip_without_score_and_with_infinite_edges():
    rng = np.random.default_rng(1)
    forest = random_forest(rng, 3, 2, 2, manner=MANNERS[2])
    threshold = forest.threshold.copy()
    threshold[0], threshold[forest.tree_offset[1]] = np.inf, -np.inf
    region = fit_region(replace(forest, threshold=threshold, missing_value=-1.0), alpha=0)
    text = json.dumps(region.to_json(), allow_nan=False)
    assert '"inf"' in text
    assert Region.from_json(text) == region


def test_a_clause_of_states_is_read_back_and_each_wrong_literal_is_refused():
    region = _region()[0]
    literals = tuple((feature, np.arange(region.space.n_states[feature]) == 0) for feature in (0, 2))
    region = replace(region, tables=replace(region.tables, at_least_one=(literals,)))
    good = region.to_json()
    assert Region.from_json(copy.deepcopy(good)) == region
    for wrong in (0, [0], [0, "0"], [9, "0"], [0, good["domain"]["at_least_one"][0][0][1], 0]):
        good["domain"]["at_least_one"] = [[wrong]]
        with pytest.raises(MalformedModelError, match="at_least_one"):
            Region.from_json(good)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    region, _, _ = _region()
    path = tmp_path / "region.json"
    region.save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        region.with_alpha(0.5).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_are_no_region(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be read"):
        Region.load(tmp_path / "absent.json")
    for text in ("", "{", "[]", "3", '{"a": NaN}', "[" * 100_000, '{"format": "other"}'):
        with pytest.raises(MalformedModelError):
            Region.from_json(text)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MalformedModelError, match="Invalid region file: it is not JSON"):
        Region.load(tmp_path / "binary")


def test_another_version_is_refused():
    document = _region()[0].to_json()
    document["format_version"] = 4
    with pytest.raises(MalformedModelError, match="'format_version' is 4, this release reads only 1"):
        Region.from_json(document)


def test_unwritable_categories_are_refused():
    region, _, _ = _region()
    schema = replace(region.schema, feature_categories=(((1, 2), "x"), None, None, None))
    with pytest.raises(InvalidInputError, match="cannot be written to JSON"):
        replace(region, schema=schema).to_json()


def _places(document):
    """Every container of a document with every key, of lists only the first and the last."""
    keys = list(document) if isinstance(document, dict) else sorted({0, len(document) - 1})
    for key in keys if document else ():
        yield document, key
        if isinstance(document[key], (dict, list)):
            yield from _places(document[key])


def test_junk_at_any_place_is_refused_or_leaves_a_region_that_answers():
    region, forest, X = _region(score="leaf-support", indifference=0.02)
    good = region.to_json()
    n_places = n_refused = 0
    for parent, key in _places(good):
        n_places += 1
        right = parent[key]
        for junk in (None, -7, 10**6, 10**30, 1.5, "x", "00000", [], {}, True, [[0]], 1e400):
            parent[key] = junk
            try:
                read = Region.from_json(good)
                read.score(X[:20])
                read.contains(X[:20], model=forest)
            except PineBoostError:
                n_refused += 1
        if isinstance(parent, dict):
            del parent[key]
            with pytest.raises(MalformedModelError):
                Region.from_json(good)
        parent[key] = right
    assert Region.from_json(good) == region
    assert n_refused > 5 * n_places


def test_a_huge_number_of_states_is_refused_before_memory_is_spent():
    good = _region()[0].to_json()
    for axis in good["space"]["axes"]:
        right, axis["n_states"] = axis["n_states"], 2**61
        with pytest.raises(MalformedModelError, match="n_states' is 2305843009213693952"):
            Region.from_json(good)
        axis["n_states"] = right


def test_trees_that_are_no_trees_are_refused():
    good = _region(score="leaf-support")[0].to_json()
    cases = {
        "cycle": lambda t: t["left"].__setitem__(0, 0),
        "outside": lambda t: t["left"].__setitem__(0, len(t["left"]) + 5),
        "one child": lambda t: t["right"].__setitem__(0, -1),
        "two parents": lambda t: t["left"].__setitem__(0, t["right"][0]),
        "other tree": lambda t: t["left"].__setitem__(0, t["root"][1]),
        "roots": lambda t: t["root"].reverse(),
        "costs": lambda t: t["cost"].append(1),
        "specials": lambda t: t.__setitem__("special_left", t["special_left"] + "1"),
    }
    for damage in cases.values():
        document = copy.deepcopy(good)
        damage(document["score"]["trees"])
        with pytest.raises(MalformedModelError):
            Region.from_json(document)
