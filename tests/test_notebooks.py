"""Results in notebooks: every one has HTML and a readable text, and progress is one updating line."""

import dataclasses

import nbclient
import nbformat
import numpy as np
import pytest

import pine_boost
from pine_boost.committee import CommitteeResult
from pine_boost.fleet import FleetResult
from pine_boost.installation import Installation
from pine_boost.notebooks import table_html, text_html
from pine_boost.parity import ModelComparison
from pine_boost.pipelines.unwrapping import WrappedResult
from pine_boost.scoring.scorer_verification import ScorerVerification
from tests.support.html_tags import Page

RESULTS = [
    *(pine_boost.PruneResult, pine_boost.CompressResult, pine_boost.AccelerateResult, pine_boost.SimplifyResult),
    *(pine_boost.SweepResult, pine_boost.AlphaSelection, pine_boost.Survey, pine_boost.Evaluation),
    *(pine_boost.Verification, pine_boost.CompressionVerification, ScorerVerification, FleetResult),
    *(CommitteeResult, WrappedResult, ModelComparison, Installation),
]


def text_of(page):
    parser = Page(page)
    assert parser.open == []
    return parser.text


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_every_result_has_html_and_a_text_of_its_own(kind):
    assert dataclasses.is_dataclass(kind)
    assert hasattr(kind, "_repr_html_")
    assert kind.__str__ is not object.__str__


def test_text_becomes_paragraphs_lists_and_an_exact_statement_on_demand():
    page = text_html("A <b>: 1 -> 2\nplain\n- first\n  second\nend\n- last", "exact & long")
    assert text_of(page) == "A <b>: 1 -> 2plainfirstsecondendlastThe exact statementexact & long"
    assert page.count("<ul>") == page.count("</ul>") == 2
    assert "<details>" not in text_html("A\nexact", "exact")


def test_tables_escape_and_align():
    page = table_html(("n", "what"), [(1, "a <b>\nc")], "below")
    assert text_of(page) == "nwhat1a <b>cbelow"
    assert "text-align:right" in page


def test_results_show_their_summary(capsys):
    from sklearn import ensemble

    X = np.random.default_rng(0).normal(size=(400, 3))
    model = ensemble.GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0)
    model.fit(X[:200], X[:200, 0] + X[:200, 1] > 0)
    pruned = pine_boost.prune_booster(model, X[:200], X[200:], alpha=0.3, objective="l1")
    simplified = pine_boost.simplify(model)
    accelerated = pine_boost.accelerate_booster(model)
    for result in (pruned, simplified, accelerated):
        assert result.summary().splitlines()[0] in text_of(result._repr_html_())
    assert pruned.claim in text_of(pruned._repr_html_())
    assert repr(simplified).startswith("<SimplifyResult ")
    assert len(repr(simplified)) < 200
    found = pine_boost.survey(model, X[:200], X[200:], time_limit=3)
    assert repr(found) == str(found)
    assert "promise" in str(found).splitlines()[0]
    assert "estimates" in text_of(found._repr_html_())
    assert "same class" in text_of(pruned.evaluate(X)._repr_html_())


def test_a_cell_shows_one_progress_line_that_is_updated():
    """A real kernel: steps of a search replace one line of output, also between two steps."""
    code = (
        "import time\nfrom pine_boost.progress import Progress\nfrom pine_boost.budget import Step\n"
        "with Progress(time_limit=60) as progress:\n"
        "    progress.say('fitting the region')\n"
        "    progress(Step(1, 'rows', 30, 50, 0.1, 'round', 30, 30, 1))\n"
        "    progress(Step(2, 'proved', 12, 60, 0.2, 'round', 12, 12, 1))\n"
        "    progress._started -= 7\n"
        "    time.sleep(0.8)\n"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, kernel_name="python3", timeout=60).execute()
    (output,) = book.cells[0].outputs
    assert output.data["text/plain"] in (
        "7 of 60 s: 30 -> 12 rounds, at least 1 needed",
        "8 of 60 s: 30 -> 12 rounds, at least 1 needed",
    )
