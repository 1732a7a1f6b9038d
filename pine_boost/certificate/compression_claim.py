"""The sentences of `compress_booster`: a statistic about future inputs, never worded like a proof.

In come the numbers of a record; out goes the one sentence that belongs to its status. VALIDATED
speaks of future inputs, MEASURED only of the rows at hand, NOT_VALIDATED promises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from pine_boost.model.digits import decimals_down, exactly, percent_down, percent_up, rounded_down, rounded_up

VALIDATED, MEASURED, NOT_VALIDATED = "VALIDATED", "MEASURED", "NOT_VALIDATED"


def kept_answer(keeps_class: bool, tolerance: float | None, thresholds: Sequence[float] = ()) -> str:
    """What a future input keeps, in words; the thresholds are the user's own."""
    if not keeps_class:
        assert tolerance is not None
        return f"a raw value within {rounded_up(tolerance)} of the original's"
    kept = f"the class{by_thresholds(thresholds)} that the original gives it"
    if tolerance is None:
        return kept
    return f"{kept}, and every probability within {rounded_up(tolerance)}"


def by_thresholds(thresholds: Sequence[float]) -> str:
    """Which classes are meant where they are not those of the native ``predict``."""
    if not thresholds:
        return ""
    return f" by the threshold(s) {', '.join(map(exactly, thresholds))}"


def compression_claim(
    status: str, kept: str, n_val: int, n_changed: int, fidelity: float, confidence: float, overlap: float = 0.0
) -> str:
    """The sentence of a record.

    Parameters
    ----------
    status : str
    kept : str
        Of `kept_answer`.
    n_val, n_changed : int
        Validation rows, and those of them that changed.
    fidelity, confidence : float
        What was asked for.
    overlap : float
        Share of the validation rows that X_fit holds too, where this is no evident overlap.
    """
    if status == VALIDATED:
        note = f" ({percent_up(overlap)} of them occur in X_fit too)" if overlap > 0 else ""
        return (
            f"With confidence {rounded_down(confidence)} over the draw of the {n_val} validation "
            f"rows{note}, a future input that comes independently from the same source gets "
            f"{kept} with "
            f"probability at least {rounded_down(fidelity)}. This is a statistic, not a proof."
        )
    if status == MEASURED:
        return (
            f"{n_val - n_changed} of the {n_val} validation rows get {kept}. As rows of X_val were "
            "found in X_fit, this is a measurement on these rows and promises nothing about "
            "future inputs."
        )
    return (
        f"No smaller model reached {rounded_down(fidelity)} at confidence "
        f"{rounded_down(confidence)} on the {n_val} "
        "validation rows: the original is returned and nothing is promised about any other."
    )


def bound_in_words(status: str, bound: float, n_changed: int, n_val: int, confidence: float) -> str:
    """Rows that changed; where they were unseen, the bound too: four decimals, never rounded up."""
    counted = f"{n_changed} of {n_val} validation rows changed"
    if status != VALIDATED:
        return counted
    return (
        f"{counted}; taken alone, that puts the share that is kept at {decimals_down(bound)} or "
        f"more with confidence {rounded_down(confidence)}"
    )


def lossless_in_words(leaves_before: int, leaves_lossless: int) -> str:
    """The part that went before anything was tested, as it changes no margin."""
    if leaves_lossless == leaves_before:
        return "Lossless part: none was found."
    return (
        f"Lossless part: {leaves_before - leaves_lossless} of the {leaves_before} leaves went "
        "without changing any margin of the original."
    )


def attack_claim(distance: float | None, n_tried: int) -> str:
    """What an attack found, or did not find; never a bound."""
    if distance is None:
        return (
            f"An attack from {n_tried} rows of X_fit found no plausible input whose class "
            "changes; that none exists is not shown."
        )
    return (
        f"An attack from {n_tried} rows of X_fit found a plausible input whose class changes at "
        f"the distance {distance:.4g} from the original's decision (in margin); farther ones may "
        "exist."
    )


def distance_claim(distance: float, largest: float, n_beyond: int, n_val: int) -> str:
    """What is proved for every input, and how many rows it is about; numbers are rounded up."""
    return (
        f"Proved, for every input: where the original is farther than {distance!r} from its "
        f"decision (in margin), the class is kept. So far are {n_beyond} of the {n_val} validation "
        f"rows, and no input is farther than {largest!r}."
    )


def statistic_offer(fidelity: float, confidence: float, kept: str) -> str:
    """What a compression would promise, as a line of a survey; ``kept`` is "class" or "value"."""
    return (
        f"a statistic: {percent_down(fidelity, 1)} of future inputs keep their {kept} "
        f"(confidence {percent_down(confidence, 0)})"
    )
