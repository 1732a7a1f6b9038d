"""What to try when little was removed: the two or three steps that fit the reason."""

from __future__ import annotations

from pine_boost.certificate.certificate import Certificate
from pine_boost.options import as_call, as_command, as_flag, as_keyword

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
    if c.optimal:
        reason = f"every {c.unit} is proved to be needed"
    elif c.status != "CERTIFIED":
        reason = c.reason.rstrip(".") or "nothing smaller was proved"
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
