"""Which models may be given leaf values of their own.

In comes a parsed model; out goes whether it may, or a refusal that says what to use instead.
"""

from __future__ import annotations

from pine_boost.errors import UnsupportedModelError
from pine_boost.model.forest import Model


def has_free_leaves(model: Model) -> bool:
    """Whether leaves are terms of a sum that may take any value, not votes or shares."""
    return model.forest.value.shape[1] == 1 and model.forest.free_intercept


def require_free_leaves(model: Model) -> None:
    """Refuse leaf values chosen anew where they would break what the model is."""
    if not has_free_leaves(model):
        raise UnsupportedModelError(
            f"reweight='leaf' and unit='leaf' need a sum of leaf values that may take any value; "
            f"the leaves of this {model.kind} are votes or shares of classes. Use reweight='tree' "
            "with unit='round' or 'tree'."
        )
