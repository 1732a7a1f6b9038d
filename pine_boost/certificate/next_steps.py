"""What to try when little was removed: the two or three steps that fit the reason.

In comes a certificate; out go sentences with the option to change, none where enough was removed.
Advice, not promises; what was measured decides which of them are given.
"""

from __future__ import annotations

from pine_boost.certificate.certificate import Certificate

_LITTLE = 0.05
_COMPRESS = (
    "compress_booster(model, X_fit, X_val, fidelity=0.99): a much smaller model with a statistical "
    "promise in place of the proof"
)


def next_steps(certificate: Certificate) -> tuple[str, ...]:
    """Why so little was removed, then what to do about it; empty from 5 % of the units on."""
    c = certificate
    if 1 - c.units_kept / c.units_before >= _LITTLE:
        return ()
    if c.optimal:
        reason = f"every {c.unit} is proved to be needed for what is certified"
    elif c.status != "CERTIFIED":
        reason = c.reason.rstrip(".") or "nothing smaller was proved"
    elif c.unit == "leaf":
        reason = "nothing smaller was found"
    else:
        reason = f"nothing smaller was found; {c.lower_bound} of {c.units_before} {c.unit}s are "
        reason += "proved to be needed"
    if c.status != "CERTIFIED" and c.alpha > 0 and c.n_cal == 0:  # there was no search
        steps = ["a larger time_limit, or a sample of the rows of X_fit", _COMPRESS]
        return (f"Little was removed: {reason}. To try:", *steps)
    steps = []
    if c.status != "CERTIFIED" and "time limit" in c.reason:
        steps.append("a larger time_limit, or objective='l1', which is faster")
    if c.optimal and c.unit == "round" and c.trees_before > c.units_before:
        steps.append("unit='tree': single trees of a round may go")
    if c.indifference == 0 and not c.choice:
        steps.append("indifference='auto': toss-ups of the original may be given up under the same alpha")
    elif c.alpha < 0.2:
        steps.append("a larger alpha: a smaller region asks for fewer trees")
    steps.append(_COMPRESS)
    return (f"Little was removed: {reason}. To try:", *steps[:3])
