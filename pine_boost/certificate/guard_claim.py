"""The sentences of a guarded model: the pruned one where its promise holds, the original elsewhere.

In come a certificate, or the outcome of a test on X_val; out goes the one sentence that may be
said. A statistic is never worded like a proof.
"""

from __future__ import annotations

from pine_boost.certificate.certificate import Certificate


def region_guard_claim(certificate: Certificate) -> str:
    """What follows on every input when inputs outside a certified region go to the original."""
    same = "predicts the same class as the original"
    if certificate.thresholds:
        listed = ", ".join(f"{threshold:g}" for threshold in certificate.thresholds)
        same = f"falls on the same side of the threshold(s) {listed} as the original"
    claim = f"On every input, the guarded model {same}"
    if certificate.undecided > 0 and certificate.undecided_exists is not False:
        claim += (
            f"; left out are inputs of the region whose margin is within "
            f"{certificate.undecided:.3g} of the decision boundary, where rounding decides the "
            "original's class"
        )
    return claim + "."


def margin_guard_claim(fidelity: float, confidence: float, n_val: int) -> str:
    """What a test on X_val says when inputs near the pruned model's decision go to the original."""
    return (
        f"With confidence {confidence:g} over the draw of the {n_val} validation rows, the guarded "
        f"model gives a future input that comes from the same source the class of the original "
        f"with probability at least {fidelity:g}. This is a statistic, not a proof."
    )
