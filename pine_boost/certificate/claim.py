"""Every sentence of the promise, once; each true as it stands, none stronger than what was proved.

In comes a certificate (or the numbers of one); out go sentences. Proves nothing and measures
nothing: whoever shows a promise takes its words from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pine_boost.budget import StopReason
from pine_boost.certificate.compression_claim import by_thresholds
from pine_boost.certificate.sureness import words_of
from pine_boost.model.digits import exactly, percent_down, percent_up, rest_of, rounded_down, rounded_up
from pine_boost.region.conformal import Coverage, coverage_floor

if TYPE_CHECKING:
    from pine_boost.certificate.certificate import Certificate

CONFIDENCE = 0.95


def claim_of(certificate: Certificate) -> str:
    """What a CERTIFIED certificate claims; `verify` makes it again and compares.

    The part about decisions is a proof. The part about future inputs is split conformal's: a
    probability over the draw of the calibration rows and of the input together; for the region
    at hand it is known with some confidence only.
    """
    where = "every possible input" if speaks_of_everything(certificate) else ("every input of the calibrated region")
    if certificate.narrowed:
        where += " that the given domain permits"
    if certificate.delta is not None and certificate.sureness > 0:
        permitted = " that the given domain permits and" if certificate.narrowed else ""
        where = (
            f"every plausible input{permitted} on which the original is at least "
            f"{words_of(certificate.sureness)} sure of its class (the calibrated region: at least "
            f"{rounded_up(certificate.delta)} away from its decision)"
        )
    claim = f"On {where}, the pruned model {_same(certificate)}"
    if certificate.delta is not None and certificate.sureness == 0:
        distance = rounded_up(certificate.delta)
        claim += f"; inputs closer than {distance} to the decision are not in the region"
    claim += exception_of(certificate) + "."
    coverage = coverage_of(certificate)
    return f"{claim} {coverage}" if coverage else claim


def speaks_of_everything(certificate: Certificate) -> bool:
    """Whether the claim is about every input there is (that the domain permits)."""
    return certificate.alpha == 0 or (certificate.tau is None and certificate.delta is None)


def exception_of(certificate: Certificate) -> str:
    """The inputs next to the decision that the claim leaves out; empty where there are none."""
    c = certificate
    if c.undecided <= 0 or c.undecided_exists is False:
        return ""
    if c.native_band >= c.undecided:
        cause = "there rounding decides the original's class"
    else:
        cause = (
            "there rounding decides the original's class (within "
            f"{rounded_up(c.native_band, 3)}) or the "
            "proof's integers are too coarse"
        )
    known = "such inputs exist" if c.undecided_exists else "whether such inputs exist is open"
    return (
        f"; left out are inputs whose margin is within {rounded_up(c.undecided, 3)} of the "
        "decision "
        f"boundary: {cause}; {known}"
    )


def coverage_of(certificate: Certificate) -> str:
    """How many future inputs the region holds; empty where the claim is about all."""
    c = certificate
    if speaks_of_everything(c):
        return ""
    if c.overlap_evident:
        return (
            f"How many future inputs lie in the region is not promised: {c.overlap:.1%} of the "
            "calibration rows were found among the fit rows."
        )
    floor = coverage_floor(c.n_cal, c.alpha, CONFIDENCE)
    note = ""
    if c.overlap > 0:
        note = f" ({c.overlap:.2%} of the calibration rows were found among the fit rows)"
    return (
        f"A future input that is exchangeable with the {c.n_cal} calibration rows lies in the "
        f"region with probability at least {rounded_down(rest_of(c.alpha))} (alpha = "
        f"{exactly(c.alpha)}), over the draw of these rows and of the input{note}; for these "
        f"very rows, with {CONFIDENCE:.0%} confidence "
        f"at least {rounded_down(floor, 4)} of independent future inputs lie in it."
    )


def headline_of(certificate: Certificate) -> str:
    """The claim in one sentence for people who decide; weaker than the claim, never stronger."""
    c = certificate
    if c.status != "CERTIFIED":
        return (
            "No smaller model was proved, so the original model is returned unchanged and nothing "
            "is promised about any other."
        )
    if c.grid < 0:
        if c.optimal:
            return f"{bound_of(c)} The original model is returned{without_twins(c)}."
        found = "No smaller model was found that keeps every decision"
        if c.leaves_after < c.leaves_before:
            found = f"No {c.unit} was found that can go with every decision kept"
        return f"{found}: the original is returned{without_twins(c)}."
    lost = 1 - c.trees_after / c.trees_before
    if c.unit == "leaf":
        lost = 1 - c.leaves_after / c.leaves_before
    text = f"The model lost {lost:.0%} of its {'leaves' if c.unit == 'leaf' else 'trees'} and "
    text += "still makes "
    everywhere = (
        "every possible input" if speaks_of_everything(c) else ("every input of the region it is certified for")
    )
    permitted = " that your domain permits" if c.narrowed else ""
    text += f"the same decision on {everywhere}{permitted}"
    if exception_of(c):
        text += f", inputs within {rounded_up(c.undecided, 2)} of the decision boundary aside"
    if speaks_of_everything(c):
        return text + "."
    if c.overlap_evident:
        return text + "; how many future inputs lie in it is not promised."
    return (
        f"{text}; a future input like your calibration data lies in it with probability at least "
        f"{rounded_down(100 * rest_of(c.alpha))} %."
    )


def without_twins(certificate: Certificate) -> str:
    """Which leaves are gone although every tree stays; empty where none is."""
    c = certificate
    if c.grid >= 0 or c.leaves_after == c.leaves_before:
        return ""
    gone = c.leaves_before - c.leaves_after
    return (
        f" without {gone} of its {c.leaves_before} leaves, which no input can tell from the rest: "
        "every margin is bit for bit the same"
    )


def reason_of(stopped: StopReason, is_smaller: bool, is_proved: bool) -> str:
    """Why the original is returned; empty where a smaller model was proved."""
    if is_smaller:
        return ""
    if not is_proved:
        why = {
            StopReason.TIME: "The time limit ran out",
            StopReason.INTERRUPTED: "The search was interrupted",
            StopReason.MEMORY: "The memory ran out",
            StopReason.UNSOLVED: "No solver ended with the linear program of the weights",
        }
        return f"{why.get(stopped, str(stopped))} before a smaller model was proved."
    return "No smaller model that keeps every decision was found; the original is returned."


def bound_of(certificate: Certificate) -> str:
    """What was proved about the number of units."""
    c = certificate
    if c.unit == "leaf":
        return "How few leaves would do was not proved."
    rows = " and the decided rows of X_fit" if c.bound is not None and c.bound.outside else ""
    form = f"the original's {c.unit}s, reweighted"
    if c.reweight == "leaf":
        form = f"the original's {c.unit}s, their leaf values chosen anew"
    if c.optimal:
        return f"No model of this form ({form}) keeps the certified decisions{rows} with fewer."
    return (
        f"Any model of this form ({form}) that keeps the certified decisions{rows} needs at least "
        f"{c.lower_bound} of them."
    )


def proof_of(certificate: Certificate) -> str:
    """What kind of statement the claim is; empty where nothing had to be proved."""
    if certificate.status != "CERTIFIED" or certificate.grid < 0:
        return ""
    return (
        "The part about decisions is a proof, not a measurement: solvers searched all inputs of "
        "the region and found none on which the two models differ. The part about future inputs "
        "is a probability."
        if coverage_of(certificate)
        else "This is a proof, not a measurement: solvers searched all inputs and found none on "
        "which the two models differ."
    )


def choice_of(share: float, kept: Sequence[tuple[float, int]], interrupted: bool) -> str:
    """How the share of alpha for toss-ups was chosen; nothing is promised by it."""
    if interrupted:
        return "Trying shares of alpha for toss-ups was interrupted: they get none."
    if len(kept) < 2:
        return "There was no time to try shares of alpha for toss-ups: they get none."
    tried = ", ".join(f"{units} at {tried:g}" for tried, units in kept)
    return (
        f"Toss-ups get {share:g} of alpha, chosen from X_fit alone by short searches; units that "
        f"these kept at each share: {tried}."
    )


def serving_of(certificate: Certificate) -> str:
    """What the pruned model's own margin says of the original's class; empty where unknown."""
    c = certificate
    if c.status != "CERTIFIED" or c.grid < 0 or c.delta is None:
        return ""  # without toss-ups the claim itself is checkable without the original
    if c.serving is None:
        return (
            "No margin of the pruned model was proved from which on it tells the original's class "
            "by itself: whether an input lies in the region only the original can tell."
        )
    s = c.serving
    permitted = " that the given domain permits" if c.narrowed else ""
    text = (
        f"On every plausible input{permitted} on which the pruned model itself is at least "
        f"{rounded_up(s.distance)} away from its decision, it {_same(c)}, however undecided "
        "that one is: proved, and checkable without the original."
    )
    if s.n_cal:
        share = Coverage.of(s.n_cal, s.n_inside, CONFIDENCE)
        text += (
            f" Measured: {s.n_inside} of the {s.n_cal} calibration rows are such inputs "
            f"({share.share:.1%}; of fresh rows like them {percent_down(share.low, 1)} to "
            f"{percent_up(share.high, 1)} with "
            f"{CONFIDENCE:.0%} confidence, but tau was calibrated on these very rows)."
        )
    return text


def rests_on(certificate: Certificate, *, tables: bool = False) -> tuple[str, ...]:
    """What a verification from the files takes on the certificate's word.

    ``tables``: X_fit and X_cal were at hand, and region, tau and overlap were computed anew.
    """
    listed: list[str] = []
    if not speaks_of_everything(certificate):
        if not tables:
            listed += [
                f"that the region was fitted on X_fit ({certificate.n_fit} rows)",
                f"that its calibration scores are those of X_cal ({certificate.n_cal} rows), which "
                "alpha and tau rest on",
                f"that {certificate.overlap:.2%} of the calibration rows are among the fit rows",
            ]
        listed.append("that neither the model nor anything else was fitted on X_cal")
        if certificate.choice:
            listed.append(f"that the share of alpha for toss-ups ({certificate.toss_ups:g}) was chosen without X_cal")
        listed.append("that future inputs are exchangeable with X_cal")
    if certificate.narrowed:
        listed.append("that every input is one that the domain permits")
    outside = 0 if certificate.bound is None else certificate.bound.outside
    if outside and not tables:
        listed.append(
            f"that {outside} of the points that the lower bound rests on, those outside the region, are rows of X_fit"
        )
    if certificate.serving is not None and not tables:
        s = certificate.serving
        listed.append(f"that {s.n_inside} of {s.n_cal} calibration rows pass the serving margin")
    listed.append("objective, probability_shift, versions, timings and date")
    return tuple(listed)


def _same(certificate: Certificate) -> str:
    if not certificate.thresholds:
        return "predicts the same class as the original"
    listed = ", ".join(exactly(threshold) for threshold in certificate.thresholds)
    return f"falls on the same side of the threshold(s) {listed} as the original"


def layers_remark(kinds: Sequence[str], inner: str, decides: bool) -> str:
    """What a statement about the ensemble inside says of the model around it."""
    listed = " around a ".join([*kinds, inner])
    classes = ", and classes at the threshold that follows from the layers" if decides else ""
    return (
        f"This is about the {inner} inside ({listed}): about rows as the first steps prepare them"
        f"{classes}. That the first steps of both models are the same is not proved."
    )


# of a result about an ensemble with a calibrator around it
BEFORE_CALIBRATION = (
    "Probabilities and how far they moved are those of the ensemble inside, before the calibrator; "
    "after it they may move farther."
)


def region_guard_claim(certificate: Certificate) -> str:
    """What follows on every input when inputs outside a certified region go to the original."""
    return (
        f"On every input, the guarded model {_same(certificate)}{exception_of(certificate)}. "
        "Outside the region the original answers itself."
    )


def serving_guard_claim(certificate: Certificate) -> str:
    """What follows on every input when a proved margin of the pruned model is part of the guard."""
    assert certificate.serving is not None
    return (
        f"On every input, the guarded model {_same(certificate)}: proved where an input is "
        f"plausible and the pruned model at least {rounded_up(certificate.serving.distance)} away "
        "from its own decision; elsewhere the original answers itself."
    )


def margin_guard_claim(fidelity: float, confidence: float, n_val: int, thresholds: Sequence[float] = ()) -> str:
    """What a test on X_val says when inputs near the pruned model's decision go to the original."""
    return (
        f"With confidence {rounded_down(confidence)} over the draw of the {n_val} validation "
        "rows, the guarded "
        f"model gives a future input that comes from the same source the class"
        f"{by_thresholds(thresholds)} of the original with probability at least "
        f"{rounded_down(fidelity)}. This is a statistic, not a proof."
    )


def lossless_offer() -> str:
    """What `simplify` promises, as a line of a survey."""
    return "lossless: the same margin on every input"


def proved_offer(alpha: float, indifference: float | str) -> str:
    """What a certificate would promise, as a line of a survey."""
    share = f"{rounded_down(100 * rest_of(alpha))}%"
    where = "every input" if alpha == 0 else f"the region of {share} of future inputs"
    return f"proved: the same class on {where}" + (", toss-ups aside" if indifference else "")
