"""The sentences about models without what no input can tell from the rest: the same margins.

In come the numbers of a result; out go sentences. Nothing is proved here.
"""

from __future__ import annotations

from pine_boost.model.digits import rounded_up


def margins_claim(exact: bool, bound: float) -> str:
    """What `simplify` promises of every input; ``bound`` where constants moved into leaves."""
    if exact:
        return "The native margin of every input is bit for bit the same."
    return (
        "The native margin of every input is the same within the rounding band: it moves "
        f"by at most {rounded_up(bound, 3)}."
    )


def nothing_to_prove(is_trimmed: bool) -> str:
    """What `verify` says where the original was kept, perhaps without twins."""
    if not is_trimmed:
        return "Both models are the same; there is nothing to prove."
    return (
        "The pruned model is the original without splits that no input can tell from the rest: "
        "every margin is the same, bit for bit."
    )
