"""The sentences of a region that was calibrated anew: what an old certificate still covers.

In come the taus and the fresh rows' number; out go sentences. Nothing is calibrated here.
"""

from __future__ import annotations

from pine_boost.model.digits import exactly, rest_of, rounded_down


def covered_claim(needed: int, certified: int, n_rows: int, alpha: float) -> str:
    """Where the tau that alpha needs is not beyond the certified one."""
    return (
        f"tau {needed} on {n_rows} fresh rows, certified up to {certified}: the "
        f"certificate covers the smaller region, and a new input lies in it with probability "
        f"at least {rounded_down(rest_of(alpha))}."
    )


def beyond_claim(needed: int | None, certified: int, n_rows: int, alpha: float, supported: float) -> str:
    """Where it is beyond, or infinite (None); ``supported`` is the alpha of the certified tau."""
    words = "infinite" if needed is None else str(needed)
    return (
        f"alpha={exactly(alpha)} needs tau {words} on {n_rows} fresh rows, the certificate "
        "proves up "
        f"to {certified}: inside that it still holds, but a new input lies there with probability "
        f"at least {rounded_down(rest_of(supported), 4)} only (over the draw of these rows too). "
        f"For {rounded_down(rest_of(alpha))} "
        f"run the search again with these rows: prune_booster(original, X_fit, X_cal=X_new, "
        f"alpha={exactly(alpha)}), X_fit from today too."
    )
