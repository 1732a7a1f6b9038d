"""Every sentence that promises something, in one place: true as it stands, never stronger than what was shown.

Every other module that prints a promise takes the sentence from here. Nothing is proved or measured here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pine_boost.budget import StopReason
from pine_boost.model.digits import exactly, percent_down, percent_up, rest_of, rounded_down, rounded_up
from pine_boost.model.exact import LINK_ERROR, certain_distance
from pine_boost.model.links import VOTES, Output, compares_probabilities, output_of
from pine_boost.options import WORTH, as_call, as_command, as_flag, as_keyword, counted, plural
from pine_boost.parsers.traits import SAVED_KIND
from pine_boost.region.conformal import Coverage, conformal_rank, coverage_floor

if TYPE_CHECKING:
    from pine_boost.certificate.certificate import Certificate
    from pine_boost.compression.record import Segment
    from pine_boost.model.forest import Forest, Model

CONFIDENCE = 0.95

# -- certificates: the same class, proved ------------------------------------------------------


def claim_of(certificate: Certificate) -> str:
    """What a CERTIFIED certificate claims; `verify` makes it again and compares.

    The part about decisions is a proof. The part about future inputs is split conformal's: a
    probability over the draw of the calibration rows and of the input together; for the region
    at hand it is known with some confidence only.
    """
    c = certificate
    permitted = " that the given domain permits" if c.narrowed else ""
    where = f"every possible input{permitted}" if speaks_of_everything(c) else f"every input in the region{permitted}"
    claim = f"On {where}, the pruned model {_same(c)}{exception_of(c)}."
    if not speaks_of_everything(c):
        claim += f" {region_in_words(c)} {coverage_of(c)}"
    return claim


def region_in_words(certificate: Certificate) -> str:
    """Which inputs the region holds."""
    c = certificate
    plausible = "The region holds the inputs that are plausible by the calibrated score"
    if c.delta is None:
        return f"{plausible}."
    distance = rounded_up(c.delta)
    if c.sureness:
        return f"{plausible} and on which the original {c.sureness} (a margin of {distance} or more)."
    return f"{plausible}; inputs closer than {distance} to the decision boundary (in margin) are not in the region."


def sureness_of(forest: Forest, delta: float | None) -> str:
    """From which probability on an input is at least delta away from the decision, in words.

    Empty where there is no delta, the user has thresholds of their own, the objective has no plain
    link, or so far away that the library cannot tell its probabilities from 1 (float32 says 1.0 from
    16.7 on). The number is rounded up, so that the words are about no input outside the region.
    """
    if delta is None or forest.decision.thresholds:
        return ""
    if forest.value.shape[1] > 1 and forest.objective != VOTES:
        sure = _rounded(delta / forest.n_trees + LINK_ERROR)  # a forest: the sum of the trees' probabilities
        return f"gives its class at least {sure} more probability than any other class" if sure <= 1 else ""
    if output_of(forest) not in (Output.SIGMOID, Output.SOFTMAX):
        return ""
    farthest = max((abs(cut) for cut in forest.decision.cuts), default=0.0)
    sure = _rounded(1 / (1 + math.exp(-forest.slope * (delta + farthest))) + LINK_ERROR)
    if sure > 1:
        return ""
    if forest.n_outputs == 1:
        return f"gives its class a probability of at least {sure}"
    return f"prefers its class to any other with odds of at least {sure} : {1 - sure:.4g}"


def _rounded(probability: float) -> float:
    """Four decimals, rounded up; above 1 where the probability is."""
    return math.ceil(probability * 10_000) / 10_000


def speaks_of_everything(certificate: Certificate) -> bool:
    """Whether the claim is about every input there is (that the domain permits)."""
    return certificate.alpha == 0 or (certificate.tau is None and certificate.delta is None)


def unused_alpha(certificate: Certificate) -> list[str]:
    """Says that alpha was not used, where the calibration rows are too few for it."""
    c = certificate
    if speaks_of_everything(c) and c.alpha > 0 and 0 < c.n_cal < conformal_rank(c.n_cal, c.alpha):
        return [
            f"alpha={exactly(c.alpha)} was not used: {c.n_cal} calibration rows are too few for it, so the region is "
            "the whole input space."
        ]
    return []


def exception_of(certificate: Certificate) -> str:
    """The inputs next to the decision that the claim leaves out; empty where there are none."""
    c = certificate
    if c.undecided <= 0 or c.undecided_exists is False:
        return ""
    cause = "where rounding decides the original's class"
    if c.native_band < c.undecided:
        cause += f" (within {rounded_up(c.native_band, 3)}) or the proof's integers are too coarse"
    known = "such inputs exist" if c.undecided_exists else "whether such inputs exist is open"
    return (
        f"; this leaves out inputs whose margin is within {rounded_up(c.undecided, 3)} of the decision "
        f"boundary, {cause} ({known})"
    )


def coverage_of(certificate: Certificate) -> str:
    """How many future inputs the region holds; empty where the claim is about all."""
    c = certificate
    if speaks_of_everything(c):
        return ""
    if c.overlap_evident:
        return (
            f"How many future inputs fall in the region is not promised: {c.overlap:.1%} of the "
            "calibration rows were found among the fit rows."
        )
    note = f" ({c.overlap:.2%} of them were found among the fit rows)" if c.overlap > 0 else ""
    floor = coverage_floor(c.n_cal, c.alpha, CONFIDENCE)
    return (
        f"A future input that is exchangeable with the {c.n_cal} calibration rows{note}, that is, drawn from the same "
        f"source in the same way, falls in the region with probability at least {rounded_down(rest_of(c.alpha))} "
        f"(alpha = {exactly(c.alpha)}), over the draw of these rows and of the input. Given these calibration rows, at "
        f"least {percent_down(floor)} of independent future inputs fall in the region ({CONFIDENCE:.0%} confidence)."
    )


def headline_of(certificate: Certificate) -> str:
    """The claim in one or two short sentences with one number; weaker than the claim, never stronger."""
    c = certificate
    if c.status != "CERTIFIED":
        return "No smaller model was proved: the original is returned, and nothing is promised about any other model."
    if c.grid < 0:
        if c.optimal:
            return f"{bound_of(c)} The original model is returned{without_twins(c)}."
        found = "No smaller model was found that keeps every decision"
        if c.leaves_after < c.leaves_before:
            found = f"No {c.unit} was found that can be removed with every decision kept"
        return f"{found}: the original is returned{without_twins(c)}."
    where = "every possible input" if speaks_of_everything(c) else "every input in the certified region"
    where += " that your domain permits" if c.narrowed else ""
    left_out = ", except inputs too close to the decision boundary to tell" if exception_of(c) else ""
    text = f"The smaller model makes the same decision on {where}{left_out}."
    if speaks_of_everything(c):
        return text
    if c.overlap_evident:
        return f"{text} How many future inputs fall in the region is not promised."
    share = rounded_down(100 * rest_of(c.alpha))
    return f"{text} A future input like your calibration rows falls in the region with probability at least {share}%."


def without_twins(certificate: Certificate) -> str:
    """Which leaves were removed although every tree is kept; empty where none was."""
    c = certificate
    if c.grid >= 0 or c.leaves_after == c.leaves_before:
        return ""
    gone = c.leaves_before - c.leaves_after
    return f" without {gone} of its {c.leaves_before} leaves; every margin is the same, bit for bit"


def reason_of(stopped: StopReason) -> str:
    """Why there is no certificate."""
    why = {
        StopReason.TIME: "The time limit ran out",
        StopReason.INTERRUPTED: "The search was interrupted",
        StopReason.MEMORY: "The memory ran out",
        StopReason.UNSOLVED: "No solver finished the linear program of the weights",
    }
    return f"{why.get(stopped, str(stopped))} before a smaller model was proved."


def kept_reason(certificate: Certificate) -> str:
    """Why a certified model is the original; empty where it is a smaller one."""
    if certificate.grid >= 0:
        return ""
    if without_twins(certificate):
        return headline_of(certificate)
    return "No smaller model that keeps every decision was found; the original is returned."


def unsearched_reason(is_late: bool) -> str:
    """Why nothing was searched for."""
    what = "The time limit ran out" if is_late else "The call was interrupted"
    return f"{what} before the search began: the original is returned, and no probability is promised."


def bound_of(certificate: Certificate) -> str:
    """What was proved about the number of units."""
    c = certificate
    if c.unit == "leaf":
        return "No lower bound on the number of leaves was proved."
    rows = " and the decided rows of X_fit" if c.bound is not None and c.bound.outside else ""
    form = f"the original's {plural(c.unit)}, {'with new leaf values' if c.reweight == 'leaf' else 'reweighted'}"
    if c.optimal:
        return f"No model of this form ({form}) keeps the certified decisions{rows} with fewer {plural(c.unit)}."
    return (
        f"Any model of this form ({form}) that keeps the certified decisions{rows} needs at least "
        f"{counted(c.lower_bound, c.unit)}."
    )


def proof_of(certificate: Certificate) -> str:
    """What kind of statement the claim is; empty where nothing had to be proved."""
    if certificate.status != "CERTIFIED" or certificate.grid < 0:
        return ""
    proof = "a proof, not a measurement: solvers searched all inputs"
    if not coverage_of(certificate):
        return f"This is {proof} and found none on which the two models differ."
    return (
        f"The part about decisions is {proof} in the region and found none on which the two models differ. The part "
        "about future inputs is a probability."
    )


def choice_of(
    share: float, kept: Sequence[tuple[float, int]], why: StopReason = StopReason.EFFORT, unit: str = "unit"
) -> str:
    """How the share of alpha for inputs near the decision boundary was chosen; promises nothing."""
    if why is StopReason.INTERRUPTED:
        return "Choosing a share of alpha for inputs near the decision boundary was interrupted: they get none."
    if len(kept) < 2:
        return "There was no time to choose a share of alpha for inputs near the decision boundary: they get none."
    tried = ", ".join(f"{tried:g}: {units}" for tried, units in kept)
    if why is StopReason.NOT_WORTH_IT:
        return (
            f"With {share:g} of alpha for inputs near the decision boundary the smallest proved model saved less than "
            f"{WORTH:.0%}, which is not worth leaving them out: the original is the better choice and is returned, and "
            "its region leaves out none of them."
        )
    return (
        f"Inputs near the decision boundary get {share:g} of alpha, chosen from X_fit alone by short searches; "
        f"{plural(unit)} kept for each share: {tried}."
    )


def share_of(certificate: Certificate) -> str:
    """How the share for inputs near the decision boundary was chosen, or what the user's own share did not buy."""
    c = certificate
    saved = c.units_before - c.units_kept
    if c.choice or c.delta is None or c.grid < 0 or saved >= WORTH * c.units_before:
        return c.choice
    return (
        f"With an indifference of {c.indifference:g}, {saved} of {counted(c.units_before, c.unit)} could be removed: "
        f"less than {WORTH:.0%}, which is not worth leaving out inputs near the decision boundary. The original is the "
        "better choice."
    )


def serving_of(certificate: Certificate) -> str:
    """What the pruned model's own margin says of the original's class; empty where unknown."""
    c = certificate
    if c.status != "CERTIFIED" or c.grid < 0 or c.delta is None:
        return ""  # without indifference the claim itself can be checked without the original
    if c.serving is None:
        return (
            "No margin was proved beyond which the pruned model's class is the original's: only the "
            "original can tell whether an input lies in the region."
        )
    s = c.serving
    permitted = " that the given domain permits" if c.narrowed else ""
    text = (
        f"On every plausible input{permitted} on which the pruned model is at least {rounded_up(s.distance)} away from "
        f"its own decision, it {_same(c)}, however undecided the original is: proved, and checkable without the "
        "original."
    )
    if s.n_cal:
        share = Coverage.of(s.n_cal, s.n_inside, CONFIDENCE)
        text += (
            f" Measured: {s.n_inside} of the {s.n_cal} calibration rows are such inputs ({share.share:.1%}; of fresh "
            f"rows like them {percent_down(share.low, 1)} to {percent_up(share.high, 1)} with {CONFIDENCE:.0%} "
            "confidence, but tau was calibrated on these very rows)."
        )
    return text


def rests_on(certificate: Certificate, *, tables: bool = False) -> tuple[str, ...]:
    """What a verification from the files takes on trust.

    ``tables``: X_fit and X_cal were given, and region, tau and overlap were recomputed.
    """
    c, listed = certificate, []
    if not speaks_of_everything(c):
        if not tables:
            listed += [
                f"that the region was fitted on X_fit ({c.n_fit} rows)",
                f"that its calibration scores are those of X_cal ({c.n_cal} rows), which alpha and tau rest on",
                f"that {c.overlap:.2%} of the calibration rows are among the fit rows",
            ]
        listed.append("that neither the model nor anything else was fitted on X_cal")
        if c.choice:
            listed.append(
                f"that the share of alpha for inputs near the decision boundary ({c.boundary_share:g}) was chosen "
                "without X_cal"
            )
        listed.append("that future inputs are exchangeable with X_cal")
    if c.narrowed:
        listed.append("that every input is one that the domain permits")
    outside = 0 if c.bound is None else c.bound.outside
    if outside and not tables:
        listed.append(
            f"that {outside} of the points that the lower bound rests on, those outside the region, are rows of X_fit"
        )
    if c.serving is not None and not tables:
        listed.append(f"that {c.serving.n_inside} of {c.serving.n_cal} calibration rows pass the serving margin")
    listed.append(f"how the result was made: {', '.join(HOW_IT_WAS_MADE)} and the methods that the proofs name")
    return tuple(listed)


# fields of a certificate that say how the result was made and that nobody could find again
HOW_IT_WAS_MADE = (
    *("objective", "choice", "fitted_with", "probability_shift"),
    *("model_name", "files", "versions", "timings", "date"),
)


def _same(certificate: Certificate) -> str:
    if not certificate.thresholds:
        return "predicts the same class as the original"
    each = "each of " if len(certificate.thresholds) > 1 else ""
    return f"falls on the same side of {each}{_named(certificate.thresholds)} as the original"


def nothing_to_prove(is_trimmed: bool) -> str:
    """What `verify` says where the original was kept, perhaps without splits that change nothing."""
    if not is_trimmed:
        return "Both models are the same; there is nothing to prove."
    return (
        "The pruned model is the original without splits that make no difference to any input: every margin is the "
        "same, bit for bit."
    )


_LITTLE = 0.05


def next_steps(certificate: Certificate, *, as_flags: bool = False) -> tuple[str, ...]:
    """Why so little was removed, then what to try; empty if at least 5 % of the units are removed.

    ``as_flags`` names options and calls as the command line does.
    """
    c = certificate
    option = as_flag if as_flags else as_keyword
    call = (as_command if as_flags else as_call)("compress_booster", ("X_fit", "X_val"), {"fidelity": 0.99})
    compress = f"{call}: a much smaller model with a statistical promise instead of a proof"
    if 1 - c.units_kept / c.units_before >= _LITTLE:
        return ()
    if c.optimal and c.units_kept < c.units_before:
        reason = f"{c.units_kept} of {counted(c.units_before, c.unit)} are proved to be needed"
    elif c.optimal:
        reason = f"every {c.unit} is proved to be needed"
    elif c.status != "CERTIFIED":
        reason = f"{c.reason[0].lower()}{c.reason[1:].rstrip('.')}" if c.reason else "nothing smaller was proved"
    elif c.unit == "leaf":
        reason = "nothing smaller was found"
    else:
        reason = f"nothing smaller was found; {c.lower_bound} of {c.units_before} {c.unit}s are "
        reason += "proved to be needed"
    if c.status != "CERTIFIED" and c.alpha > 0 and c.n_cal == 0:  # there was no search
        steps = [f"a larger {option('time_limit')}, or a sample of the rows of {option('X_fit')}", compress]
        return (f"Little was removed: {reason}. To try:", *steps)
    steps = []
    if c.status != "CERTIFIED" and "time limit" in c.reason:
        steps.append(f"a larger {option('time_limit')}, or {option('objective', 'l1')}, which is faster")
    if c.optimal and c.unit == "round" and c.trees_before > c.units_before:
        steps.append(f"{option('unit', 'tree')}: drop single trees of a round")
    if c.indifference == 0 and not c.choice:
        steps.append(
            f"{option('indifference', 'auto')}: leave out inputs near the decision boundary, for the same alpha"
        )
    elif c.alpha < 0.2:
        steps.append(f"a larger {option('alpha')}: a smaller region needs fewer trees")
    steps.append(compress)
    return (f"Little was removed: {reason}. To try:", *steps[:3])


# Benchmark models of default size (python -m benchmarks.large, alpha 0.1): how many there are, how many of them lost
# any tree, and the median and the range of what indifference="auto" removed, in percent. A test compares these figures
# with benchmarks/results.
AT_DEFAULT_SIZE = {"models": 38, "smaller": 8, "median_auto": 28, "least_auto": 0, "most_auto": 97}
LARGE_ROUNDS, LARGE_TREES = 70, 12  # rounds, and mean leaves per tree, from which on a model counts as large
_STRICT = 0.1  # the alpha of these figures; a smaller one removes no more


def expectation_of(n_rounds: int, n_leaves: int, n_trees: int, alpha: float, indifference: float | str) -> str:
    """What to expect of a search before it begins; empty where a model of this size is worth pruning."""
    per_tree = n_leaves / n_trees
    if n_rounds < LARGE_ROUNDS or per_tree < LARGE_TREES or alpha > _STRICT:
        return ""
    figures = AT_DEFAULT_SIZE
    size = f"{n_trees} trees with {per_tree:.0f} leaves each on average: of {figures['models']} benchmark "
    better = (
        "accelerate_booster (on the command line: accelerate) or compress_booster (compress) will probably serve you "
        "better."
    )
    if not indifference:
        none = figures["models"] - figures["smaller"]
        return f"{size}models of this size, {none} lost no tree at alpha=0.1: expect about 0%. {better}"
    return (
        f"{size}models of this size, half lost at most {figures['median_auto']}% of their trees (alpha=0.1, "
        f"indifference='auto'; {figures['least_auto']}% to {figures['most_auto']}%). If little is removed, {better}"
    )


# -- regions that were calibrated again ---------------------------------------------------------


def covered_claim(needed: int, certified: int, n_rows: int, alpha: float) -> str:
    """Where the tau that alpha needs is not beyond the certified one."""
    return (
        f"tau is {needed} on {n_rows} fresh rows and certified up to {certified}: the certificate covers the smaller "
        f"region, and a new input falls in it with probability at least {rounded_down(rest_of(alpha))}."
    )


def beyond_claim(needed: int | None, certified: int, n_rows: int, alpha: float, supported: float) -> str:
    """Where it is beyond, or infinite (None); ``supported`` is the alpha of the certified tau."""
    return (
        f"alpha={exactly(alpha)} needs tau {'infinite' if needed is None else needed} on {n_rows} fresh rows, and the "
        f"certificate proves up to {certified}: inside that it still holds, but a new input falls there with "
        f"probability at least {rounded_down(rest_of(supported), 4)} only (over the draw of these rows too). For "
        f"{rounded_down(rest_of(alpha))} run the search again with these rows: prune_booster(original, X_fit, "
        f"X_cal=X_new, alpha={exactly(alpha)}), with X_fit from today too."
    )


# -- models with layers around the ensemble, guarded models, lossless simplification ------------


SAVED_MODEL = (
    "the live model that the file of the original was saved from; the library itself loads that file with different "
    "last digits"
)


def saved_remarks(original: Model) -> tuple[str, ...]:
    """What to know if the original was given as a file that its library does not load as what it saved."""
    return (f"This is about {SAVED_MODEL}.",) if original.kind == SAVED_KIND else ()


def layers_remark(kinds: Sequence[str], inner: str, decides: bool) -> str:
    """What a statement about the ensemble inside says of the model around it."""
    listed = " around a ".join([*kinds, inner])
    classes = ", and classes at the threshold that follows from the layers" if decides else ""
    return (
        f"This is about the {inner} inside ({listed}): about rows as the first steps prepare them{classes}. That the "
        "first steps of both models are the same is not proved."
    )


BEFORE_CALIBRATION = (
    "Probabilities and how far they moved are those of the ensemble inside, before the calibrator; after it they may "
    "move farther."
)


def region_guard_claim(certificate: Certificate) -> str:
    """What follows on every input when inputs outside a certified region go to the original."""
    return (
        f"On every input, the guarded model {_same(certificate)}{exception_of(certificate)}. Outside the region the "
        "original answers itself."
    )


def serving_guard_claim(certificate: Certificate) -> str:
    """What follows on every input when a proved margin of the pruned model is part of the guard."""
    assert certificate.serving is not None
    return (
        f"On every input, the guarded model {_same(certificate)}: proved where an input is plausible and the pruned "
        f"model at least {rounded_up(certificate.serving.distance)} away from its own decision boundary; elsewhere the "
        "original answers itself."
    )


def margin_guard_claim(fidelity: float, confidence: float, n_val: int, thresholds: Sequence[float] = ()) -> str:
    """What a test on X_val says when inputs near the pruned model's decision go to the original."""
    return (
        f"With confidence {rounded_down(confidence)} over the draw of the {n_val} validation rows, the guarded model "
        "gives a future input that comes from the same source the class of the original"
        f"{at_thresholds(thresholds)} with probability at least {rounded_down(fidelity)}. This is a statistic, not a "
        "proof."
    )


def margins_claim(exact: bool, bound: float) -> str:
    """What `simplify` promises for every input; ``bound`` where constants moved into leaves."""
    if exact:
        return "The native margin of every input is the same, bit for bit."
    return f"The native margin of every input moves by at most {rounded_up(bound, 3)}, its own rounding."


# -- compressions: a statistic about future inputs, never worded like a proof -------------------

# VALIDATED and NON_INFERIOR speak of future inputs, the one of kept answers, the other of a loss; MEASURED speaks only
# of the rows at hand, NOT_VALIDATED promises nothing
_SHOWN_SEGMENTS = 5
VALIDATED, MEASURED, NOT_VALIDATED = "VALIDATED", "MEASURED", "NOT_VALIDATED"
NON_INFERIOR = "NON_INFERIOR"


def kept_answer(
    keeps_class: bool, tolerance: float | None, thresholds: Sequence[float] = (), *, exact: bool = True
) -> str:
    """What a future input keeps, in words; without ``exact`` the user's own numbers are not repeated."""
    within = "" if tolerance is None else f"within {rounded_up(tolerance) if exact else 'your tolerance'}"
    if not keeps_class:
        assert tolerance is not None
        return f"a raw value {within} of the original's"
    kept = f"the class that the original gives it{at_thresholds(thresholds, exact=exact)}"
    return f"{kept}, and every probability {within}{'' if exact else ','}" if within else kept


def at_thresholds(thresholds: Sequence[float], *, exact: bool = True) -> str:
    """Which classes are meant where they are not those of the native ``predict``."""
    if not thresholds:
        return ""
    return f" at {_named(thresholds)}" if exact else f" at your {_thresholds(thresholds)}"


def _named(thresholds: Sequence[float]) -> str:
    return f"the {_thresholds(thresholds)} {', '.join(map(exactly, thresholds))}"


def _thresholds(thresholds: Sequence[float]) -> str:
    return "threshold" if len(thresholds) == 1 else plural("threshold")


def short_statistic(*sentences: str) -> str:
    """Promises about future inputs, of one number each, and what they are."""
    return " ".join([*sentences, "This is a statistic, not a proof: an unlucky sample of rows can mislead it."])


def share_promise(kept: str, fidelity: float) -> str:
    """How likely a future input keeps its answer."""
    return f"A future input like your validation rows gets {kept} with probability at least {_percent(fidelity)}."


def _percent(share: float) -> str:
    """A share in percent, rounded down."""
    return f"{rounded_down(100 - 100 * rest_of(share))}%"


@dataclass(frozen=True)
class Statement:
    """The numbers of a test on validation rows, of which all sentences about it are made.

    Attributes
    ----------
    status : str
    fidelity, confidence : float
        What was asked for; no fidelity where only a loss was.
    tolerance : float or None
    keeps_class : bool
    thresholds : sequence of float
        The user's own.
    n_val, n_changed : int
        Validation rows, and those of them that changed.
    bound : float
        Exact lower bound on the share that is kept.
    overlap : float
        Share of the validation rows that X_fit holds too, where this is no evident overlap.
    segments : sequence of Segment
    max_loss : float or None
        How much of ``loss`` was permitted; None where nothing was asked about a loss.
    loss, loss_range, loss_before, loss_after
        As in a `CompressionRecord`.
    """

    status: str
    fidelity: float | None
    confidence: float
    tolerance: float | None
    keeps_class: bool
    thresholds: Sequence[float]
    n_val: int
    n_changed: int
    bound: float
    overlap: float
    segments: Sequence[Segment] = ()
    max_loss: float | None = None
    loss: str = "error"
    loss_range: float | None = None
    loss_before: float | None = None
    loss_after: float | None = None

    @classmethod
    def of_scorer(cls, status: str, tested: Mapping[str, Any], forest: Forest) -> Statement:
        """The statement of a scorer, from the numbers in its manifest."""
        names = ("fidelity", "confidence", "tolerance", "n_val", "n_changed", "bound", "overlap")
        numbers = {name: tested[name] for name in names}
        return cls(status=status, keeps_class=forest.decides, thresholds=forest.decision.thresholds, **numbers)

    @property
    def kept(self) -> str:
        """What a future input keeps."""
        return kept_answer(self.keeps_class, self.tolerance, self.thresholds)

    def claim(self) -> str:
        """The sentences that may be said: of the loss, then of the answers."""
        parts = [] if self.max_loss is None else [self._claim_of_loss(self.max_loss)]
        if self.fidelity is not None and not (parts and self.status == NOT_VALIDATED):
            parts.append(self._claim_of_answers(rounded_down(self.fidelity)))
        return " ".join(parts)

    def _claim_of_answers(self, fidelity: str) -> str:
        if self.status in (VALIDATED, NON_INFERIOR):
            return (
                f"{self._draw()}{overlap_in_words(self.overlap)}, a future input that comes independently from the "
                f"same source gets {self.kept} with probability at least {fidelity}. This is a statistic, not a proof."
            )
        if self.status == MEASURED:
            return f"{self.n_val - self.n_changed} of the {self.n_val} validation rows get {self.kept}. {_MEASUREMENT}"
        return (
            f"No smaller model reached {fidelity} at confidence {rounded_down(self.confidence)} on the {self.n_val} "
            "validation rows: the original is returned and nothing is promised about any other model."
        )

    def _claim_of_loss(self, max_loss: float) -> str:
        subject, limit = loss_in_words(self.loss, self.loss_range), self._limit(max_loss)
        if self.status == NON_INFERIOR:
            return (
                f"{self._draw()} and their labels{overlap_in_words(self.overlap)}, {subject} on future inputs that "
                f"come independently from the same source is at most {limit}. This is a statistic, not a proof, and "
                "says nothing about single answers."
            )
        if self.status == MEASURED and (losses := self._losses()) is not None:
            old, new = losses
            return f"On the {self.n_val} validation rows, {subject} is {new:.4f} (original: {old:.4f}). {_MEASUREMENT}"
        return (
            f"The {self.n_val} validation rows did not show for any smaller model, at confidence "
            f"{rounded_down(self.confidence)}, that {subject} is at most {limit}: the original is returned and nothing "
            "is promised about any other model."
        )

    def _draw(self) -> str:
        return f"With confidence {rounded_down(self.confidence)} over the draw of the {self.n_val} validation rows"

    def _limit(self, max_loss: float) -> str:
        return f"{rounded_up(max_loss)} {'below' if self.loss == 'error' else 'above'} the original's"

    def _losses(self) -> tuple[float, float] | None:
        """The mean loss of both models on the validation rows; for the share of errors, the accuracy."""
        if self.loss_before is None or self.loss_after is None:
            return None
        if self.loss == "error":
            return 1 - self.loss_before, 1 - self.loss_after
        return self.loss_before, self.loss_after

    def promise(self, claim: str) -> str:
        """What a summary prints: if rows that were unseen show it, short sentences with one number each."""
        if self.status not in (VALIDATED, NON_INFERIOR):
            return claim
        sentences = []
        if self.max_loss is not None:
            subject = loss_in_words(self.loss)
            if self.loss == "squared":
                subject = "the squared error, scaled and cut off by your loss_range,"
            limit = self._limit(self.max_loss)
            sentences.append(f"On future inputs like your validation rows, {subject} is at most {limit}.")
        if self.fidelity is not None:
            kept = kept_answer(self.keeps_class, self.tolerance, self.thresholds, exact=False)
            sentences.append(share_promise(kept, self.fidelity))
        return short_statistic(*sentences)

    def losses(self) -> list[str]:
        """The mean loss of both models on the validation rows, in words; nothing without labels."""
        if (losses := self._losses()) is None:
            return []
        subject = loss_in_words(self.loss, self.loss_range)
        start = f"{subject[0].upper()}{subject[1:]} on the {self.n_val} validation rows"
        return [f"{start}: {losses[0]:.4f} before, {losses[1]:.4f} after."]

    def evidence(self) -> list[str]:
        """What the validation rows showed; nothing where nothing passed."""
        if self.status == NOT_VALIDATED:
            return []
        kept = kept_in_short(self.keeps_class, self.tolerance)
        counted = bound_in_words(self.status, self.bound, self.n_changed, self.n_val, self.confidence, kept)
        unseen = self.confidence if self.status == VALIDATED else None
        return [f"{counted}.", *segments_in_words(self.segments, unseen)]


_MEASUREMENT = (
    "As rows of X_val were found in X_fit, this is a measurement on these rows and promises nothing about future "
    "inputs."
)


def overlap_in_words(overlap: float) -> str:
    """Validation rows that X_fit holds too, in parentheses; empty without any."""
    return f" ({percent_up(overlap)} of them occur in X_fit too)" if overlap > 0 else ""


def loss_in_words(loss: str, loss_range: float | None = None) -> str:
    """What a loss measures, as the subject of a sentence."""
    return {
        "error": "accuracy",
        "brier": "the Brier score (half the squared error of the probabilities)",
        "squared": f"the squared error of the raw value, divided by the square of {loss_range!r} and cut off at 1,",
        "costs": "the mean cost",
    }[loss]


def kept_in_short(keeps_class: bool, tolerance: float | None) -> str:
    """What an input keeps, for a sentence that follows the promise."""
    if not keeps_class:
        return "raw value within your tolerance"
    return "class" if tolerance is None else "class, and every probability within your tolerance"


def bound_in_words(status: str, bound: float, n_changed: int, n_val: int, confidence: float, kept: str) -> str:
    """Rows that changed; where they were unseen, the bound too: four decimals, never rounded up."""
    changed = f"{n_changed} of {n_val} validation rows changed"
    if status != VALIDATED:
        return changed
    return (
        f"{changed}; on its own this shows, with {_percent(confidence)} confidence, that at least "
        f"{percent_down(bound)} of inputs like these keep their {kept}"
    )


def segments_in_words(segments: Sequence[Segment], confidence: float | None) -> list[str]:
    """A line each for those with the lowest bounds, and where the others are; none without any.

    Without ``confidence``, where rows were seen before, there is no bound to speak of.
    """
    lowest = sorted(segments, key=lambda segment: segment.bound)[:_SHOWN_SEGMENTS]
    lines = []
    for segment in lowest:
        line = f"Segment {segment.name}: {segment.n_changed} of {segment.n_rows} rows changed"
        if confidence is not None:
            line += (
                f", at least {percent_down(segment.bound)} kept (on its own, with {_percent(confidence)} confidence)"
            )
        lines.append(f"{line}.")
    if len(segments) > len(lowest):
        others = len(segments) - len(lowest)
        lines.append(f"{others} more with higher bounds are in the record (compression.json).")
    return lines


def sql_claim(distance: float) -> str:
    """What a SELECT gives, by the distance to the decision up to which it gives nothing."""
    engine = "on an engine with IEEE doubles and 64-bit integers"
    if distance == 0:
        return f"Written by pine_boost. The class is that of the model's own predict on every input, {engine}."
    return (
        f"Written by pine_boost. The class is never another than that of the model's own predict, {engine};\n"
        f"it is NULL on inputs at most {rounded_up(distance, 3)} from the decision boundary in margin, where rounding "
        "decides."
    )


def comparison_claim(
    reached: bool, n_changed: int, n_rows: int, bound: float, fidelity: float, confidence: float
) -> str:
    """What rows say about two models; the condition is part of it."""
    counted = f"{n_changed} of {n_rows} rows changed their decision."
    if fidelity == 1:
        met = "REACHED" if reached else "NOT REACHED"
        return f"{met}: {counted} Other inputs may change theirs: this is a measurement, not a proof."
    kept = f"at least {percent_down(bound)} of such inputs keep theirs (confidence {rounded_down(confidence)})"
    condition = "if these rows are a random sample of them and played no part in making either model"
    if reached:
        return f"REACHED: {counted} {kept[0].upper()}{kept[1:]}, {condition}; the target is {exactly(fidelity)}."
    return f"NOT REACHED: {counted} Only {kept}, {condition}; the target is {exactly(fidelity)}."


def comparison_promise(reached: bool, fidelity: float) -> str:
    """What a summary prints of a comparison, with one number; the figures stand above it."""
    met = "REACHED" if reached else "NOT REACHED"
    if fidelity == 1:
        rows = "every row keeps its decision" if reached else "not every row keeps its decision"
        return f"{met}: {rows}. Other inputs may change theirs: this is a measurement, not a proof."
    kept = f"at least {rounded_down(100 - 100 * rest_of(fidelity))}% of inputs like these keep their decision"
    if not reached:
        return f"{met}: these rows do not show that {kept}."
    condition = "if these rows are a random sample of them and played no part in making either model"
    return short_statistic(f"{met}: {kept}, {condition}.")


def lossless_in_words(leaves_before: int, leaves_lossless: int) -> str:
    """The part that was removed before anything was tested, as it changes no margin."""
    if leaves_lossless == leaves_before:
        return "No lossless simplification was possible."
    return f"{leaves_before - leaves_lossless} of the {leaves_before} leaves were removed without changing any margin."


def attack_claim(distance: float | None, n_tried: int) -> str:
    """What an attack found, or did not find; never a bound."""
    if distance is None:
        return (
            f"A local search from {n_tried} rows of X_fit found no plausible input that changes class; that none "
            "exists is not shown."
        )
    return (
        f"A local search from {n_tried} rows of X_fit found an input that changes class although the original's margin "
        f"is {distance:.4g} away from its decision boundary; there may be others farther away."
    )


def distance_claim(distance: float, largest: float, n_beyond: int, n_val: int) -> str:
    """What is proved for every input, and how many rows it is about; numbers are rounded up."""
    return (
        f"Proved for every input: where the original's margin is more than {distance!r} away from its decision "
        f"boundary, the class is kept. This holds for {n_beyond} of the {n_val} validation rows; no input is farther "
        f"away than {largest!r}."
    )


# -- accelerated scorers ------------------------------------------------------------------------


def scorer_claim(forest: Forest, *, is_unordered: bool, is_inside: bool = False, tolerance: float | None = None) -> str:
    """What a proved scorer claims.

    ``is_unordered``: the library adds trees in no fixed order; ``is_inside``: the thresholds follow from layers around
    the ensemble.
    """
    if tolerance is not None:
        return (
            f"On every input that the library accepts, the scorer's raw value is within {rounded_up(tolerance)} "
            "of the model's."
        )
    if not forest.decides:
        return "On every input that the library accepts, the scorer's value is that of the model's own predict."
    claim = f"On every input that the library accepts, the scorer gives the {_native_class(forest, is_inside)}."
    if is_unordered:
        claim += (
            " scikit-learn adds trees in no fixed order with n_jobs above 1; where two classes are within "
            f"{rounded_up(max(certain_distance(forest), 5e-324))} of each other (in summed shares), the class is "
            "that of n_jobs=1."
        )
    return claim


def _native_class(forest: Forest, is_inside: bool) -> str:
    """The class of the native ``predict``, or the one that the native score gives at the thresholds."""
    thresholds = forest.decision.thresholds
    if not thresholds:
        return "class that the model's own predict gives"
    score = "probability" if compares_probabilities(forest) else "raw value"
    whose = f"the {score} of the ensemble inside" if is_inside else f"the model's own {score}"
    return f"{'class' if len(thresholds) == 1 else 'score band'} that {whose} gives{at_thresholds(thresholds)}"


# -- lines of a survey --------------------------------------------------------------------------


def lossless_offer() -> str:
    """What `simplify` promises."""
    return "lossless: the same margin on every input"


def scorer_offer(tolerance: float | None) -> str:
    """What a proved scorer promises; it needs no data."""
    if tolerance is None:
        return "accelerated: the same class on every input, proved"
    return f"accelerated: a raw value within {rounded_up(tolerance)} of the model's on every input, proved"


def proved_offer(alpha: float, indifference: float | str) -> str:
    """What a certificate would promise."""
    share = f"{rounded_down(100 * rest_of(alpha))}%"
    where = "every input" if alpha == 0 else f"every input of a region that holds {share} of future inputs"
    return f"proved: the same class on {where}" + (", except near the decision boundary" if indifference else "")


def statistic_offer(fidelity: float, confidence: float, kept: str) -> str:
    """What a compression would promise; ``kept`` is "class" or "value"."""
    return (
        f"a statistic: {percent_down(fidelity, 1)} of future inputs keep their {kept} "
        f"(confidence {percent_down(confidence, 0)})"
    )


def tested_scorer_claim(statement: Statement, proved: str, *, is_smaller: bool) -> str:
    """What is claimed of a scorer that was tested on validation rows.

    ``proved`` is the sentence of the proved scorer; ``is_smaller``: a smaller model was tested, not earlier exits.
    """
    if statement.status != NOT_VALIDATED or is_smaller:
        return statement.claim()
    assert statement.fidelity is not None
    return (
        f"No early exits reached {rounded_down(statement.fidelity)} at confidence "
        f"{rounded_down(statement.confidence)} on the {statement.n_val} validation rows: this is the proved scorer. "
        f"{proved}"
    )
