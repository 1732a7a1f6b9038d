"""The numerical constants and bounds that proofs rest on, each with the inequality that justifies it.

How far the sums of one library may be off is bounded in its reader, and sums of a scorer in `proof.exits`. Beyond that
no other module contains a tolerance that a claim depends on: everything not bounded is compared as integers.
Tolerances of heuristics, whose results are checked afterwards, have a section of their own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.forest import FloatArray, Forest, IntArray, spread
from pine_boost.model.rules import SplitKind

# Unit roundoff: |fl(a + b) - (a + b)| <= u * |fl(a + b)| for round to nearest, no overflow.
UNIT_ROUNDOFF: dict[type, float] = {np.float32: 2.0**-24, np.float64: 2.0**-53}
# Integers up to 2**PRECISION are exact in the type, and multiples of 2**-q below 2**(PRECISION-q).
PRECISION: dict[type, int] = {np.float32: 24, np.float64: 53}

# or-tools#5293: CP-SAT 9.15 can give a wrong INFEASIBLE when the terms of a linear row exceed 2**31.
# Every row we add keeps sum(|coefficient|) + |bound| below this.
ROW_LIMIT = 2**31 - 1
# Integer margins of the original stay below this: with multipliers of up to 2**11 (box proofs weight
# rows by 256 times at most 2**3) every product and sum of them stays below 2**62 in int64.
SUM_LIMIT = 2**50
# Rows of int64 are added only if the sum of their largest entries stays below this.
WORD_LIMIT = 2**62
# Box proofs tabulate sums in int32, shifted until all entries together stay below this. Rounding up
# after the shift decreases the magnitude of negative sums and increases others by one unit per entry:
# sums lie strictly between -TABLE_LIMIT and TABLE_LIMIT + number of trees + 1, and none overflows.
TABLE_LIMIT = 2**30
# The value of an empty set of leaves in these tables: below every sum of entries by the line above.
# It enters maxima only, never sums: a box holds a row of states, which reaches a leaf of every tree.
EMPTY_SET = -TABLE_LIMIT

# The largest |cost| of one bin, pair of bins or leaf of a score; larger ones raise.
COST_LIMIT = 2**31
# The cost of a bin that no input can be in. It exceeds every single cost, which is how it is
# recognised. Its size never makes a lower bound of a score too large: a minimum is always taken over a
# set that includes the costs of possible bins. It need not exceed sums of costs either; that would only
# make bounds tighter (in a solver row it does exceed them: ROW_LIMIT < 2**40). Sums fit into int64:
# every feature adds it at most once, so n features, p pairs and t trees stay below
# n * ABSENT + (n + p + t) * COST_LIMIT < 2**63 for n < 2**22 and p + t < 2**29.
ABSENT = 2**40

# XGBoost's label is float32 sigmoid(margin) > 0.5, true iff margin > 0x1.8p-24 (measured by
# bisection over float32 bit patterns). The cut of binary:logistic.
XGBOOST_LOGISTIC_CUT = 1.5 * 2.0**-24
# float32 softmax: classes whose margins differ by <= 1.5 * 2**-24 can tie (480k rows each for
# K = 2..16); four times that, rounded up to a power of two.
SOFTMAX_GUARD_FLOAT32 = 2.0**-22
# float64 softmax: ties were seen for raw gaps <= 1.4e-16; this is a power of two well above.
SOFTMAX_GUARD_FLOAT64 = 2.0**-48
# LightGBM's label is float64 sigmoid(raw) > 0.5, true iff raw > 0x1.8p-53 for sigmoid:1.
LIGHTGBM_BINARY_CUT = 1.5 * 2.0**-53

# LightGBM reads "sigmoid:0.7" with its own decimal parser (digit by digit, a few roundings), the
# score is multiplied by it and, for random forests, divided by the number of rounds: together
# fewer than 16 roundings of relative size u; doubled to allow for libm.
LIGHTGBM_SCALE_ERROR = 32 * UNIT_ROUNDOFF[np.float64]
# The guard of a LightGBM model also bounds the exported model, whose scores may be somewhat larger
# (ln 32 / k for sigmoids); the exporter checks that they are not larger than that.
LIGHTGBM_HEADROOM = 32.0
# exp(-k * raw) overflows in float64 beyond 709.78: all probabilities are 0, the lowest class wins.
LARGEST_EXPONENT = 700.0

# Averages in scikit-learn: sums of multiples of 2**-q below 2**(AVERAGED_BITS - q) are exact, and
# two different sums stay different after division by n: they differ by 2**-q >= 4u * total, so the
# quotients differ by 4u * total / n, while each is rounded by at most u * total / n.
AVERAGED_BITS = 51

# A native probability p1 / (p1 + p2) of two classes against the link of their margins' gap g, with
# odds o = exp(-g) <= 1, p = 1 / (1 + o) and u = 2**-24: expf errs by 4 ulp = 8u at most (see
# LOGF_ULPS), m - max by u * g, the divisions by the sum by u, each for two classes: o errs by
# (16 + 2 + g) u o, so p by o / (1 + o)**2 times (18 + g) u <= 18u / 4 + g exp(-g) u < 5u. The
# sigmoid's sums and quotient, 1 - p, or the caller's p1 + p2 and quotient add 3u: 8u, doubled.
LINK_ERROR = 1e-6  # >= 16 * 2**-24
# A calibrated probability p(x) = sigmoid(x) of a score in a type with roundoff u (temperature
# scaling computes in the type of the scores, sigmoids in float64): x errs by 4u |x| at most, and
# |x| p (1 - p) < 1/4, so p by u + the few u of exp, sum and quotient: 8u at most. Two that differ
# by more than 16u are in the order of their exact values: rounding can break the order of a monotone
# calibrator only within this distance, where every float is tested. Float64 leaves room for
# |a s| + |b| up to 2**10 in x = a s + b, which errs by 2u times that, and p by a fourth of it.
CALIBRATION_BLUR: dict[type, float] = {np.float32: 2.0**-20, np.float64: 2.0**-42}
# XGBoost keeps category codes in float32: from here on a code is unseen, regardless of the trees.
XGBOOST_MAX_CATEGORY = 2**24

# LightGBM treats |x| <= kZeroThreshold, a float32, as 0.0 before any comparison.
LIGHTGBM_ZERO = float(np.float32(1e-35))

# The largest float32: larger inputs are infinite where they are compared as float32.
FLOAT32_MAX = float(np.finfo(np.float32).max)

# A float32 sum whose magnitudes add up to less than this never overflows, in any order and at any
# step: each of n additions errs by a factor of 1 + u at most, so every partial sum stays below
# 2**127 (1 + u)**n <= 2**127 e**(n u) < 1.7 * 2**127 < FLOAT32_MAX for n <= 2**23.
LARGEST_SUM_FLOAT32 = 2.0**127

# The logit of XGBoost's base_score without XGBoost and without libm: float64 log rounded to float32
# was off by one float in 11 of 1500 cases, and logf is documented to stay within 3 ulp; 4 ulp
# bound both.
LOGF_ULPS = 4
# XGBoost clips a base_score of 0 or 1; between this and 1 minus this, no version clips.
XGBOOST_CLIPPED = 2e-6

# Two computations of one binomial bound, perhaps by different versions of scipy, agree within this;
# the counts behind it are compared exactly.
SAME_BOUND = 1e-12
# Error bound of scipy's binomial distribution function: the largest difference from a 60-digit
# computation was 8e-15 for up to 100 000 rows. A level that is split in two gives this up.
BINOMIAL_ERROR = 1e-12
# Relative error bound of the probability with which the paired test for accuracy accepts: three values
# of gammaln, below 2e8 for 10 million rows, err by a few ulp (2**-53 * 2e8 < 3e-8) before exp.
ACCEPTANCE_ERROR = 1e-6
# E-values from native probabilities that differ in their last digits agree within this.
SAME_E_VALUE = 1e-6

# The natural-log tables of a plausibility score are rounded to integers at this many units per nat.
SCORE_SCALE = 10_000

# A pruned margin stays at least one grid unit away from every cut, and 2**-MAX_GRID exceeds every cut
# and guard above, so a positive integer margin is class 1 natively and a negative one class 0.
MAX_GRID: dict[type, int] = {np.float32: 20, np.float64: 40}

# Tolerances of heuristics, from here to WHOLE_NUMBER_NOISE: every result that depends on them is
# proved, tested on rows or compared with the native library before it is used.
#
# The linear program of the search. Columns are scaled to max |entry| = 1. If its optimum is smaller
# than this, no weights survive rounding to the float32 grid of 24 bits, so the set of trees counts
# as too small (a proof never relies on this: `proof.bound` decides it).
SMALLEST_VALUE = 1e-7
# A dual gain (p A)_m below this, or a row violated by less, is numerical noise of the linear program.
PROGRAM_NOISE = 1e-9
# Points closer to the cut than NARROW times the median count as narrow; their rows are scaled up by
# at most 1 / NARROWEST, because more would be numerical noise.
NARROW = 0.01
NARROWEST = 1e-4
# Weights closer than this to integer ratios are treated as such; every row is checked again.
RATIO_NOISE = 1e-6
# Leaves of a split whose values differ by less than this share of the largest range count as equal.
SAME_LEAVES = 1e-7
# Share of a margin: a row closer to violation than this is included from the beginning next time.
TIGHT_ROW = 1e-6
# Share of the weight of all rows: keeps leaves without rows near 0 in a least-squares fit.
RIDGE = 1e-6
# Step of the logarithm of a scale: probabilities cannot distinguish such scales.
SCALE_STEP = 1e-7
# Intercepts of a compressed model: sums of row weights lose far less than this, and the rounding of
# leaf values closes any gap that is narrower than this share of the largest sum.
SUM_OF_WEIGHTS_NOISE = 1e-6
NARROW_GAP = 1e-6
# Steps of a Pipeline, applied to all rows and again to a few: matrix products round differently for
# different numbers of rows; random noise and batch statistics differ by far more than this.
SAME_PREPARED = 1e-4
# Multipliers of a cut are rounded to integers of this many bits: with at most 2**12 rows the sum
# of their errors, half a unit each, is below 2**-20 of the largest, far below CUT_SLACK.
MULTIPLIER_BITS = 32
# The slack that excluded columns get where possible, so that rounding the multipliers does not
# make their entries positive. A heuristic: exact integers decide.
CUT_SLACK = 1e-3
# Bits of the largest multiplier that a certificate records; a cut that needs more is dropped.
LONGEST_MULTIPLIER = 2000

# CP-SAT returns its bound on a sum of Booleans, an integer, as a float: a value this much below an
# integer still is that integer (the float errs by far less for sums below 2**20).
WHOLE_NUMBER_NOISE = 1e-6


def probability_guard(probability: float, float_type: type[np.float32] | type[np.float64]) -> float:
    """Margin distance within which a rounded sigmoid may land on either side of a threshold.

    The computed p has relative error <= 8u (exp, add, divide, each a few ulp), and the user's
    threshold may itself be rounded to the type: |dp| <= 9u p. As dm = dp / (p (1 - p)), the
    margin is blurred by at most 9u / (1 - p); symmetric in p for the complement.
    """
    unit = UNIT_ROUNDOFF[float_type]
    return 16 * unit / min(probability, 1 - probability)


def summation_band(forest: Forest) -> float:
    """Bound on |native margin - exact sum of the leaves|, for every input.

    Sequential addition errs by at most u * sum_k |partial_k| (each step by u * |its result|), and
    |partial_k| <= |b| + sum_{i <= k} max|leaf_i|; the factor 1 + 2**-10 covers the rounding
    inside the partial sums themselves (n * u < 2**-10 for n < 2**14) and of this computation.
    """
    if is_exact(forest):
        return 0.0
    unit = UNIT_ROUNDOFF[forest.arithmetic]
    largest = largest_leaf(forest)
    bands = []
    for output in range(forest.n_outputs):
        reached = largest[:, output]
        partials = abs(float(forest.intercept[output])) + np.cumsum(reached[reached > 0])
        bands.append(unit * float(partials.sum()) * (1 + 2.0**-10))
    return max(bands) + forest.slack


def off_rounding(distance: FloatArray, forest: Forest) -> FloatArray:
    """Lower distances to the decision so far that no rounding of a native margin matters.

    A limit taken from the rows lies exactly on inputs: all those of one cell of leaves. Computed in
    float64 they reach it; their native margins may miss it by `summation_band`, twice that where
    two sums are compared, and our own sum by as much again. So a limit is lowered by twice that,
    or by half of itself if it is tiny. The map is increasing, and positive where the distance is.
    """
    blur = 2 * (1 if forest.n_outputs == 1 else 2) * summation_band(forest)
    return np.maximum(distance - blur, distance / 2)


def certain_distance(forest: Forest) -> float:
    """Return the distance to the decision from which any float64 sum of the leaves decides as natively.

    The native sum lies within `summation_band` of the exact one, a float64 sum in any order
    within n u (|b| + sum of max|leaf|) (1 + 2**-10): n additions of partial sums of at most that
    size; the rule behind the margin blurs by ``guard``. A gap between two outputs moves by twice
    as much. 0 with ``guard`` 0 if both sums are exact: then the signs are equal except at the cut.
    """
    total = float((np.abs(forest.intercept) + largest_leaf(forest).sum(axis=0)).max())
    rounding = (forest.n_trees + 1) * UNIT_ROUNDOFF[np.float64] * total * (1 + 2.0**-10)
    off = 0.0 if is_exact(forest) else summation_band(forest) + rounding
    return (1 if forest.n_outputs == 1 else 2) * off + forest.decision.guard


def folding_band(before: Forest, after: Forest, moved: float, folded: float) -> float:
    """Bound |native margin before - native margin after| when constants are moved into leaves.

    Each native margin is within `summation_band` of the exact sum of its own leaves. The exact
    sums differ by the rounding of the leaves, at most ``moved`` (the largest difference of a
    leaf from its exact value, added over the trees), and by the rounding of the constants' own
    sum: n float64 additions err by at most n * 2**-53 times the sum of the magnitudes ``folded``,
    doubled for the rounding of ``moved`` itself, whose terms are no larger than the leaves.
    """
    largest = float(largest_leaf(after).sum()) + folded
    rounding = 2 * (before.n_trees + 2) * UNIT_ROUNDOFF[np.float64] * largest
    total = summation_band(before) + summation_band(after) + moved + rounding
    return total * (1 + 2.0**-20)


def to_units(value: FloatArray, grid: int) -> IntArray:
    """Round values to integer multiples of ``2**-grid``; the error is at most half a unit.

    Scaling by a power of two is exact, so this one rounding is the only one.
    """
    return np.asarray(np.rint(np.ldexp(value, grid)), dtype=np.int64)


def whole_numbers(values: FloatArray) -> npt.NDArray[Any]:
    """Multiply floats by one common power of two and return them as Python integers, exactly."""
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
    shifts = np.where(mantissa == 0, 0, exponent - int(exponent.min(initial=0)))
    return np.asarray(whole << shifts.astype(object), dtype=object)


def is_exact(forest: Forest) -> bool:
    """Return whether every partial sum of the native model is exact, in any order.

    True when all leaves and intercepts are multiples of one 2**-q and the largest possible sum
    stays below 2**(precision - q): for example pure votes of a forest, or a model that we exported.
    """
    if forest.slack:
        return False
    numbers = np.concatenate([forest.value.ravel(), forest.intercept])
    grid = dyadic_exponent(numbers)
    if grid is None:
        return False
    total = np.abs(forest.intercept) + largest_leaf(forest).sum(axis=0)
    return bool(total.max() * 2.0**grid < 2.0 ** PRECISION[forest.arithmetic])


def dyadic_exponent(numbers: np.ndarray) -> int | None:
    """Return the smallest q >= 0 such that every number is a multiple of 2**-q; None above q = 60."""
    mantissa, exponent = np.frexp(numbers[numbers != 0])
    if len(mantissa) == 0:
        return 0
    digits = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    trailing = np.log2((digits & -digits).astype(np.float64)).astype(np.int64)
    needed = int(np.max(53 - trailing - exponent))
    return None if needed > 60 else max(needed, 0)


def largest_leaf(forest: Forest, value: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
    """Return the largest |leaf| of each tree and output, (n_trees, n_outputs).

    ``value`` (n_nodes, width) replaces the forest's own leaf values: floats or grid units of a
    smaller model, whose leaves may be inner nodes of this one.
    """
    if value is None:
        value = np.where((forest.kind == SplitKind.LEAF)[:, None], forest.value, 0.0)
    magnitude = np.abs(spread(forest, value))
    return np.asarray(np.maximum.reduceat(magnitude, forest.tree_offset[:-1], axis=0))


def original_scale(forest: Forest) -> tuple[int, bool]:
    """Return the exponent s that scales the original's leaves to integers, and whether that is exact.

    The largest margin (or gap of two) and the cut, times 2**s, stay below `SUM_LIMIT`. If it fits,
    s is the smallest exponent that makes all leaves integers, and nothing is rounded.
    """
    largest = finest_scale(forest)
    leaves = forest.value[forest.kind == SplitKind.LEAF]
    needed = dyadic_exponent(np.concatenate([leaves.ravel(), forest.intercept]))
    if needed is not None and needed <= largest:
        return needed, True
    return largest, False


def finest_scale(forest: Forest) -> int:
    """Return the largest exponent s at which margins, gaps and cuts times 2**s stay below `SUM_LIMIT`."""
    n_sums = 1 if forest.n_outputs == 1 else 2  # a gap is the difference of two sums
    cut = max((abs(cut) for cut in forest.decision.cuts), default=0.0)
    constant = float(np.abs(forest.intercept).max())
    total = n_sums * (float(largest_leaf(forest).sum(axis=0).max()) + constant) + cut
    return integer_scale(total, SUM_LIMIT)


def integer_scale(row_sum: float, limit: int = ROW_LIMIT // 4) -> int:
    """Return the largest exponent s with ``row_sum * 2**s <= limit``, at most 60."""
    if row_sum <= 0:
        return 0
    return min(math.floor(math.log2(limit / row_sum)), 60)
