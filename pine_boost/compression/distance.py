"""What is measured of a smaller model: beside counts, how far from its decision the original changes its class.

An attack, a local search from rows of X_fit within their plausible region, finds such inputs. That is not a bound:
there may be others farther away. What is proved holds for every input and is reported beside the statistic. Let f and g
be the sides of the original and the smaller model. On a changed input g is at most its rounding error, so for every
weight w >= 0: f <= (f - w g) + w * (rounding of g). The first part is at most the sum over trees of its largest leaf
value. Which trees are compared makes the distance tight, never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from pine_boost.budget import SHARES, Budget, OutOfTime
from pine_boost.certificate.tree_matching import require_same_reading, same_splits
from pine_boost.compression.fixed_sequence import lower_bound
from pine_boost.compression.goal import count_beyond, native_probabilities
from pine_boost.compression.path import Task
from pine_boost.errors import CertificateMismatch
from pine_boost.model import exact
from pine_boost.model.forest import BoolArray, FloatArray, Forest, Int32Array, IntArray, Model
from pine_boost.model.routing import route
from pine_boost.model.rules import SplitKind
from pine_boost.model.shape import Shape, margins
from pine_boost.proof.problem import questions_of
from pine_boost.region.scores.fit_score import fit_score
from pine_boost.tables.rows import AnyRows

_N_STARTS = 200
_N_ROUNDS = 80
_PLAUSIBLE = 0.95  # quantile of the scores of X_fit within which an input is plausible
_MOST_CELLS = 40_000_000  # rows x trees in all: a second or two
_MOST_FIT_ROWS = 20_000
_ROWS_PER_SECOND = 1_000  # of limited time: fitting the score cannot be interrupted
_LEAST_SECONDS = 0.5
_DIGITS = 6  # significant ones that are kept, rounded up
_WEIGHT_UNIT = 8  # weights are multiples of 1 / _WEIGHT_UNIT
_WEIGHTS = tuple(range(17))  # 0 gives the largest margin that the original can have
_MOST_PAIRS = 2_000_000  # pairs of leaves
_MOST_SUMS = 100_000_000  # pairs of leaves x questions x weights: a second


def attack(task: Task, smaller: Shape | None, fit: AnyRows, seed: int, budget: Budget) -> dict[str, Any]:
    """Climb from rows of X_fit for changed inputs far from the original's decision; the fields of a record about it.

    Nothing is tried for models without classes, without a smaller one, after Ctrl-C, or without time.
    """
    said: dict[str, Any] = {"attack_starts": 0, "attack_distance": None, "attack_row": ()}
    if smaller is None or not task.goal.keeps_class or budget.is_over or budget.is_interrupted:
        return said
    n_most = _MOST_FIT_ROWS
    if budget.is_limited:
        budget = budget.share(SHARES["attack"])
        if budget.remaining < _LEAST_SECONDS:
            return said
        n_most = int(min(n_most, _ROWS_PER_SECOND * budget.remaining))
    random = np.random.default_rng([seed, 3])
    some = fit.take(np.sort(random.permutation(fit.n_rows)[:n_most]))
    forest = task.goal.forest
    score = fit_score("chow-liu", forest, some, n_bins=4, random_state=seed)
    trees = route(forest, score.space)

    def compare(states: Int32Array) -> tuple[FloatArray, BoolArray]:
        """Distance of the original from its decision, and whether the class changes."""
        leaves = trees.leaves(states)
        before, after = (margins(shape, forest, leaves) for shape in (task.original, smaller))
        classes = forest.decision.classes
        return forest.decision.distance(before), classes(before) != classes(after)

    def height(states: Int32Array) -> FloatArray:
        """The distance where the class changes; below 0, nearer is higher, where it does not."""
        distance, changed = compare(states)
        return np.where(changed, distance, -distance)

    states = score.space.states(some)
    fit_scores = score.tables.score(states)
    limit = np.quantile(fit_scores, _PLAUSIBLE)
    inside = np.flatnonzero(fit_scores <= limit)
    distance, _ = compare(states[inside])
    starts = inside[np.argsort(distance, kind="stable")[:_N_STARTS]]
    points = states[starts].copy()
    best = height(points)
    n_rounds = int(min(_N_ROUNDS, _MOST_CELLS // (len(points) * trees.n_trees) + 1))
    for _ in range(n_rounds):
        if budget.is_over:
            break
        moved = _moved(points, states, random)
        found = np.where(score.tables.score(moved) <= limit, height(moved), -np.inf)
        better = found > best
        points[better], best[better] = moved[better], found[better]
    top = int(np.argmax(best))
    said["attack_starts"] = len(starts)
    if best[top] > 0:
        row = score.space.representative(points[top : top + 1])[0].tolist()
        said |= {"attack_distance": float(best[top]), "attack_row": tuple(None if x != x else x for x in row)}
    return said


def _moved(points: Int32Array, seen: Int32Array, random: np.random.Generator) -> Int32Array:
    """One feature of each point takes the state it has in some row of X_fit."""
    moved = points.copy()
    every = np.arange(len(points))
    feature = random.integers(0, points.shape[1], len(points))
    moved[every, feature] = seen[random.integers(0, len(seen), len(points)), feature]
    return moved


def measure(
    before: Model,
    after: Model,
    X_val: Any,
    changed: BoolArray,
    losses: Sequence[float],
    confidence: float,
    compared: Sequence[int],
    check: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """The fields of a record that follow from both models and X_val.

    ``losses`` are the mean ones, if any. ``compared`` names the original's tree for each tree of the smaller model that
    splits; no distance is proved without it. When ``check`` raises `OutOfTime`, what is missing is left out.
    """
    n_changed = int(changed.sum())
    found: dict[str, Any] = {"n_changed": n_changed, "bound": lower_bound(n_changed, len(changed), confidence)}
    for name, model in (("before", before), ("after", after)):
        found |= {f"trees_{name}": model.forest.n_trees, f"leaves_{name}": model.forest.n_leaves}
    found["loss_before"], found["loss_after"] = losses or (None, None)
    found |= {"probability_shift": {}, "proved_trees": ()}
    found |= {"proved_distance": None, "proved_largest": None, "proved_rows": 0}
    if before is after:
        return found
    try:
        old, new = (native_probabilities(model, X_val, check) for model in (before, after))
        if old is not None and new is not None:
            moved = np.abs(new - old).max(axis=1)
            found["probability_shift"] = {"mean": float(moved.mean()), "maximum": float(moved.max())}
        proved = prove_distance(before.forest, after.forest, compared) if before.forest.decides and compared else None
        if proved is not None:
            found["proved_rows"] = count_beyond(before, X_val, proved[0], check)
            found |= {"proved_distance": proved[0], "proved_largest": proved[1], "proved_trees": tuple(compared)}
    except OutOfTime:
        pass
    return found


def prove_distance(original: Forest, smaller: Forest, compared: Sequence[int]) -> tuple[float, float] | None:
    """Distance beyond which no input changes its class, and how far from its decision the original can be at most.

    Both are rounded up; None where nothing is proved, or only what is true of any model.
    """
    found = exact_distance(original, smaller, compared)
    if found is None:
        return None
    distance, largest = map(rounded_up, found)
    return (float(distance), float(largest)) if distance < largest else None


def rounded_up(number: Fraction) -> Fraction:
    """A float of few digits that is no smaller, as a fraction; 0 for negative numbers."""
    context = Context(prec=_DIGITS, rounding=ROUND_CEILING)
    up = context.divide(Decimal(max(number, Fraction(0)).numerator), Decimal(number.denominator))
    return Fraction(float(up if Fraction(float(up)) >= number else up.next_plus(context)))


def exact_distance(original: Forest, smaller: Forest, compared: Sequence[int]) -> tuple[Fraction, Fraction] | None:
    """The smallest distance that one of the weights proves, and the largest that the original can have.

    None for models without classes or that do not read inputs alike, if it would take too long, or if ``compared``
    does not name a tree of the original for each tree of the smaller model that splits, in ascending order.
    """
    try:
        require_same_reading(original, smaller)
    except CertificateMismatch:
        return None
    if len(original.decision.cuts) != len(smaller.decision.cuts):
        return None
    questions = questions_of(original)
    is_ascending = all(before < after for before, after in pairwise((-1, *compared, original.n_trees)))
    if not questions or not is_ascending or np.count_nonzero(np.diff(smaller.tree_offset) > 1) != len(compared):
        return None
    pairs = _leaf_pairs(original, smaller, compared)
    if pairs is None or len(pairs[0]) * len(questions) * len(_WEIGHTS) > _MOST_SUMS:
        return None
    our_leaves, their_leaves, starts = pairs
    scale = min(exact.finest_scale(original), exact.finest_scale(smaller))
    ours = exact.to_units(original.leaf_vectors(), scale)
    theirs = exact.to_units(smaller.leaf_vectors(), scale)
    constants = smaller.tree_offset[:-1][np.diff(smaller.tree_offset) == 1]
    ours_fixed = exact.to_units(original.intercept, scale)
    theirs_fixed = exact.to_units(smaller.intercept, scale) + theirs[constants].sum(axis=0)
    theirs = np.concatenate([theirs, np.zeros((1, theirs.shape[1]), dtype=np.int64)])
    rounding_ours, rounding_theirs = _rounding(original, smaller, scale)
    distances, reaches = [], []
    for question in questions:
        f, g = question.side(ours)[our_leaves], question.side(theirs)[their_leaves]
        cuts = (question.cut_side(original.decision), question.cut_side(smaller.decision))
        tried = []
        for weight in _WEIGHTS:
            # |f| and |g| are below 2**50 (finest_scale): no product leaves int64
            largest = np.maximum.reduceat(_WEIGHT_UNIT * f - weight * g, starts)
            total = sum(int(one) for one in largest)
            total += _WEIGHT_UNIT * question.side_of(ours_fixed)
            total -= weight * question.side_of(theirs_fixed)
            share = Fraction(weight, _WEIGHT_UNIT)
            real = Fraction(total, _WEIGHT_UNIT) / Fraction(2) ** scale
            tried.append(real - cuts[0] + rounding_ours + share * (cuts[1] + rounding_theirs))
        distances.append(min(tried))
        reaches.append(tried[0])
    least = Fraction(original.decision.guard)  # nearer to the cut, the original's class is not certain
    return max(least, *distances), max(reaches)


def _rounding(original: Forest, smaller: Forest, scale: int) -> tuple[Fraction, Fraction]:
    """How far the native side of each model may be from the integers, as a margin.

    Leaves and intercepts are off by half a unit each, native sums by `exact.summation_band`, and a gap between two
    outputs by twice both. On a changed input the smaller model's side is at most its guard.
    """
    n_sums = 1 if original.n_outputs == 1 else 2
    ours, theirs = (
        n_sums * (Fraction(forest.n_trees + 1, 2) / Fraction(2) ** scale + Fraction(exact.summation_band(forest)))
        for forest in (original, smaller)
    )
    return ours, theirs + Fraction(smaller.decision.guard)


def _leaf_pairs(
    original: Forest, smaller: Forest, compared: Sequence[int]
) -> tuple[IntArray, IntArray, IntArray] | None:
    """Pairs of leaves, one of each model, that one input may reach, and where each tree of the original begins.

    A tree without a partner is paired with an extra leaf after the smaller model's last node. None if there are too
    many pairs. Pairs of trees are walked from their roots: at equal splits both go down together, otherwise one of them
    goes down both ways. Every pair that an input can reach is found, and possibly more.
    """
    nothing = smaller.n_nodes
    kind = np.append(smaller.kind, SplitKind.LEAF)
    tree = np.arange(original.n_trees)
    a, b = original.tree_offset[:-1], np.full(original.n_trees, nothing)
    b[list(compared)] = smaller.tree_offset[:-1][np.diff(smaller.tree_offset) > 1]
    found: list[tuple[IntArray, IntArray, IntArray]] = []
    n_found = 0
    while len(tree):
        ours_end, theirs_end = original.kind[a] == SplitKind.LEAF, kind[b] == SplitKind.LEAF
        ended = ours_end & theirs_end
        found.append((tree[ended], a[ended], b[ended]))
        n_found += int(ended.sum())
        if n_found + len(tree) > _MOST_PAIRS:
            return None
        together = np.zeros(len(tree), dtype=bool)
        inside = np.flatnonzero(~ours_end & ~theirs_end)
        together[inside] = same_splits(original, a[inside], smaller, b[inside])
        ours_only = ~ours_end & ~together
        theirs_only = ours_end & ~theirs_end
        steps = [
            (
                tree[chosen],
                original_side[a[chosen]] if ours_go else a[chosen],
                smaller_side[b[chosen]] if theirs_go else b[chosen],
            )
            for chosen, ours_go, theirs_go in (
                (together, True, True),
                (ours_only, True, False),
                (theirs_only, False, True),
            )
            for original_side, smaller_side in ((original.left, smaller.left), (original.right, smaller.right))
        ]
        tree, a, b = (np.concatenate(parts) for parts in zip(*steps, strict=True))
    tree, a, b = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(tree, kind="stable")
    starts = np.searchsorted(tree[order], np.arange(original.n_trees))
    return a[order], b[order], starts
