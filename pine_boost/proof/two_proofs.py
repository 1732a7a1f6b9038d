"""The two opinions on a candidate: every question answered, then answered again another way.

In come the Oracle, a pruned model and the effort; out go proofs, or counterexamples that a method
found. Nothing is kept here and no row is added: what follows from an answer is the run's business.
"""

from __future__ import annotations

from pine_boost.model.forest import PrunedForest
from pine_boost.proof.boxes.search import prove_boxes
from pine_boost.search.oracle import Answer, Oracle, Proof
from pine_boost.search.outcome import Effort

_LARGEST_TABLE = 10**8  # leaves times states, in bytes: boxes of more would take seconds to set up
_MORE_BOXES = 20  # where the score has trees of its own CP-SAT needs seconds, boxes do not


def first_opinion(
    oracle: Oracle, pruned: PrunedForest, effort: Effort, deadline: float
) -> list[Proof]:
    """CP-SAT on every question; boxes before it where they find sooner what CP-SAT would."""
    if oracle.has_score_trees:
        found = [p for p in _boxes(oracle, pruned, effort, deadline) if p.states is not None]
        if found:
            return found
    questions = list(oracle.game.questions)
    return oracle.prove(pruned, questions, oracle.first, deadline, effort.proof_effort)


def second_opinion(
    oracle: Oracle, pruned: PrunedForest, effort: Effort, deadline: float
) -> list[Proof]:
    """Boxes where a short run of them is enough, else CP-SAT in its other settings."""
    boxes = _boxes(oracle, pruned, effort, deadline)
    answers = [proof for proof in boxes if proof.answer is not Answer.UNKNOWN]
    answered = {proof.question for proof in answers}
    open_questions = [q for q in oracle.game.questions if q not in answered]
    second = oracle.prove(pruned, open_questions, oracle.second, deadline, effort.proof_effort)
    return answers + second


def _boxes(oracle: Oracle, pruned: PrunedForest, effort: Effort, deadline: float) -> list[Proof]:
    """What a short run of boxes says of every question; nothing where the effort allows none."""
    game = oracle.game
    most = effort.box_limit * (_MORE_BOXES if oracle.has_score_trees else 1)
    if game.trees.n_leaves * int(game.space.n_states.sum()) > _LARGEST_TABLE:
        most = 0
    return [
        prove_boxes(game, pruned, question, max_boxes=most, deadline=deadline)
        for question in (game.questions if most else ())
    ]
