"""Options: checked once, the same for every caller; numbers of numpy are numbers."""

import inspect
import os
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest

from pine_boost import PineClassifier
from pine_boost.options import (
    REQUIRED,
    TABLE,
    AccelerateOptions,
    CompressOptions,
    Options,
    as_call,
    as_command,
    is_real,
    is_whole,
    option_of,
    worker_count,
)
from tests.support.parameters import CALLS, parameters_of, public_call, section_of

OURS = {field.name: field.default for field in fields(Options)}


@pytest.mark.parametrize("call", CALLS)
def test_signatures_and_docstrings_are_those_of_the_table(call):
    for name, default in parameters_of(call).items():
        expected = option_of(call, name).default
        assert default is inspect.Parameter.empty if expected is REQUIRED else default == expected, name
    # python -m tests.support.parameters writes the sections
    assert section_of(call).rstrip() in public_call(call).__doc__


def test_prune_booster_and_sweep_have_the_options():
    # rows, which of them are used up, how a file is read: no options
    tables = {"model", "X_fit", "X_cal", "spent", "trust_pickle"}
    assert set(parameters_of("prune_booster")) - tables == set(OURS)
    assert set(parameters_of("sweep")) - tables - {"alphas"} == set(OURS) - {"alpha"}
    tables = {"model", "X_fit", "X_val", "y_val", "spent", "trust_pickle"}
    assert set(parameters_of("compress_booster")) - tables == {field.name for field in fields(CompressOptions)}


def test_every_text_is_a_sentence_or_more_and_every_default_passes_its_check():
    for option in TABLE.values():
        call = option.key.rpartition(".")[0]
        assert option.help(call).endswith((".", ")."))
        assert "{" not in option.documentation(call).split("\n", 1)[1]
        if option.has_default:
            option.require(option.default)
    for kind in (Options, CompressOptions, AccelerateOptions):
        kind()


def test_a_call_is_written_for_python_and_for_the_command_line():
    options = {"alpha": 0.1, "indifference": "auto", "threshold": (0.3, 0.7), "spent": "survey"}
    asked = ("prune_booster", ("X_fit", "X_cal"), options)
    assert as_call(*asked) == (
        "pine_boost.prune_booster(model, X_fit, X_cal, alpha=0.1, indifference='auto', threshold=(0.3, 0.7), "
        "spent=survey)"
    )
    assert as_command(*asked) == (
        "pine-boost prune MODEL --fit FIT --cal CAL --alpha 0.1 --indifference auto --threshold 0.3 --threshold 0.7 "
        "--spent SURVEY.json"
    )
    assert as_command("simplify") == "pine-boost simplify MODEL -o SMALLER"


def test_the_classifier_passes_on_every_option():
    classifier = PineClassifier(alpha=0.2, region_score="leaf-support", unit="tree", n_jobs=-1)
    passed = classifier._options(seed=7)
    assert set(passed) == set(OURS) - {"allow_overlap"}  # it splits the rows itself
    assert (passed["alpha"], passed["score"], passed["unit"]) == (0.2, "leaf-support", "tree")
    assert (passed["n_jobs"], passed["random_state"]) == (-1, 7)


def test_numbers_of_numpy_are_accepted_and_bools_are_none():
    Options(alpha=np.float32(0.25), n_bins=np.int64(3), time_limit=np.float64(1), n_jobs=np.int8(1))
    assert is_real(Fraction(1, 3))
    assert is_whole(np.uint8(1))
    for value in (True, np.bool_(True), "1", None, 1j):
        assert not is_real(value)
        assert not is_whole(value)


def test_minus_one_is_every_core_this_process_may_use():
    assert worker_count(-1) == len(os.sched_getaffinity(0))
    assert Options(n_jobs=-1).n_workers == worker_count(-1)
    assert Options(n_jobs=3).n_workers == 3


@pytest.mark.parametrize(
    ("given", "with_free_leaves", "with_votes"),
    [
        ({}, "leaf", "tree"),
        ({"unit": "tree"}, "leaf", "tree"),
        ({"objective": "l1"}, "tree", "tree"),
        ({"reweight": "tree"}, "tree", "tree"),
        ({"objective": "l1", "reweight": "leaf"}, "leaf", "leaf"),
        ({"unit": "leaf"}, "leaf", "leaf"),
    ],
)
def test_leaf_values_are_chosen_where_they_are_free(given, with_free_leaves, with_votes):
    options = Options(**given)
    assert options.reweight_of(True) == with_free_leaves
    assert options.reweight_of(False) == with_votes
