"""Choose alpha on held-out rows, as in the paper: the largest one whose pruned model reaches a fidelity on X_sel.

X_sel must have been used for nothing else, or the statement about future inputs is void.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pine_boost.compression.fixed_sequence import lower_bound
from pine_boost.errors import InvalidInputError
from pine_boost.native.predict import asked_in_chunks, original_bytes, predict_classes
from pine_boost.notebooks import table_html
from pine_boost.options import require_one_of, require_share
from pine_boost.parsers import read_model
from pine_boost.pipelines.unwrapping import Wrapper, unwrap
from pine_boost.result import PruneResult
from pine_boost.sweeping import SweepResult, read_alphas, sweep
from pine_boost.tables.overlap import check_overlap, count_overlap, hashes_of, refuse_spent
from pine_boost.tables.rows import MemoryRows, open_rows
from pine_boost.tables.schema import schema_of

# The grid of the paper's study; fixed before any data are seen, as Bonferroni requires.
ALPHAS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
RULES = ("confidence", "empirical")
_HEADS = ("alpha", "trees", "mismatches", "fidelity", "risk at most", "accepted")


@dataclass(frozen=True)
class TestedAlpha:
    """The result for one alpha of the grid on the selection rows.

    Attributes
    ----------
    alpha : float
    certified : bool
    trees : int
    mismatches : int
        Rows of X_sel on which the two native models differ.
    fidelity : float
        Share of rows of X_sel with the same class.
    risk_bound : float
        Upper confidence bound of the probability of a mismatch, Bonferroni-corrected.
    accepted : bool
    """

    alpha: float
    certified: bool
    trees: int
    mismatches: int
    fidelity: float
    risk_bound: float
    accepted: bool


@dataclass(frozen=True, eq=False, repr=False)
class AlphaSelection:
    """The chosen alpha, or the fallback to the original.

    With ``rule="confidence"``: with probability at least ``1 - delta`` over the draw of X_sel, a
    future input gets the class of the original with probability at least ``target_fidelity``
    (the original itself always does). With ``rule="empirical"`` the target was reached on X_sel
    and nothing is guaranteed. The certificate of the chosen result holds either way, but its
    coverage statement is about an alpha fixed beforehand.

    Attributes
    ----------
    alpha : float or None
        None if no candidate reached the target; then the original is kept.
    model : object or bytes
        The chosen native model; the original if there is none.
    result : PruneResult or None
    candidates : tuple of TestedAlpha
        Ascending in alpha.
    target_fidelity, delta : float
    rule : str
    n_sel : int
    sweep : SweepResult
    """

    alpha: float | None
    model: Any
    result: PruneResult | None
    candidates: tuple[TestedAlpha, ...]
    target_fidelity: float
    rule: str
    delta: float
    n_sel: int
    sweep: SweepResult

    def _repr_html_(self) -> str:
        return table_html(_HEADS, [_cells(candidate) for candidate in self.candidates], self._chosen())

    def __repr__(self) -> str:
        return f"<AlphaSelection alpha={self.alpha!r}, {self.rule} rule, {self.n_sel} rows>"

    def __str__(self) -> str:
        lines = [self._chosen(), "  ".join(_HEADS)]
        for candidate in self.candidates:
            alpha, *figures, accepted = _cells(candidate)
            aligned = [cell.rjust(len(head)) for head, cell in zip(_HEADS[1:], figures, strict=False)]
            note = "" if candidate.certified else " (not certified in time)"
            lines.append("  ".join([alpha.ljust(len(_HEADS[0])), *aligned, accepted + note]))
        return "\n".join(lines)

    def _chosen(self) -> str:
        chosen = "the original" if self.alpha is None else f"alpha = {self.alpha:g}"
        target = f"target fidelity {self.target_fidelity:g}"
        return f"chosen: {chosen} ({self.rule} rule, {target}, {self.n_sel} selection rows)"


def _cells(c: TestedAlpha) -> tuple[str, ...]:
    """What stands under `_HEADS`."""
    shares = (f"{c.fidelity:.2%}", f"{c.risk_bound:.2%}")
    return (f"{c.alpha:g}", str(c.trees), str(c.mismatches), *shares, "yes" if c.accepted else "no")


def select_alpha(
    model: Any,
    X_fit: Any,
    X_cal: Any,
    X_sel: Any,
    target_fidelity: float,
    *,
    rule: str = "confidence",
    delta: float = 0.05,
    alphas: Iterable[float] = ALPHAS,
    **options: Any,
) -> AlphaSelection:
    """Choose the largest alpha of a grid whose pruned model is faithful enough on X_sel.

    Parameters
    ----------
    model, X_fit, X_cal
        As in `prune_booster`.
    X_sel : table
        Rows like the future ones that nothing else has seen. All tables may be larger than memory
        (Parquet files or folders, pyarrow Datasets, Dask DataFrames).
    target_fidelity : float
        In (0, 1): the share of inputs that must keep their class.
    rule : {"confidence", "empirical"}
        ``"confidence"``: the Clopper-Pearson upper bound of the mismatch risk at level
        ``delta / len(alphas)`` is at most ``1 - target_fidelity``. ``"empirical"``: the fidelity
        observed on X_sel reaches the target; no promise.
    delta : float
        Failure probability of the confidence rule.
    alphas : iterable of float
        The candidates, fixed before looking at X_sel.
    **options
        Of `sweep`: score, n_bins, indifference, objective, unit, threshold, domain, time_limit,
        n_jobs, random_state, callback, spent (whose rows are refused as X_sel, too).

    Returns
    -------
    AlphaSelection

    Raises
    ------
    InvalidInputError
        A target or delta outside (0, 1), an unknown rule, X_sel without rows or with rows that the
        survey ``spent`` looked at.

    Examples
    --------
    >>> import pine_boost
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> booster = HistGradientBoostingClassifier(max_iter=10, max_depth=2).fit(X[:250], y[:250])
    >>> chosen = pine_boost.select_alpha(
    ...     booster, X[:250], X[250:400], X[400:], 0.9, alphas=[0.2, 0.6])
    >>> chosen.alpha
    0.6
    """
    for value, name in ((target_fidelity, "target_fidelity"), (delta, "delta")):
        require_share(value, name)
    require_one_of(rule, "rule", RULES)
    grid = read_alphas(alphas)
    outer = unwrap(model, options.get("threshold"))
    selected = _selection_rows(outer, X_fit, X_cal, X_sel, options)
    swept = sweep(model, X_fit, X_cal, alphas=grid, **options)
    original = swept.results[0].original
    before = asked_in_chunks(predict_classes, original, selected)
    level = delta / len(grid)
    candidates = tuple(_candidate(result, before, selected, target_fidelity, rule, level) for result in swept)
    chosen = max((c.alpha for c in candidates if c.accepted), default=None)
    result = None if chosen is None else swept[chosen]
    if result is not None:
        native = result.model
    elif outer.layers:
        native = model
    else:
        native = original.native if original.native is not None else original_bytes(original)
    return AlphaSelection(
        chosen, native, result, candidates, float(target_fidelity), rule, float(delta), len(before), swept
    )


def upper_risk_bound(mismatches: int, n_rows: int, level: float) -> float:
    """Return the one-sided Clopper-Pearson upper bound of a binomial risk, exact for every n."""
    return 1.0 - lower_bound(mismatches, n_rows, 1 - level)


def _candidate(result: PruneResult, before: Any, X_sel: Any, target: float, rule: str, level: float) -> TestedAlpha:
    after = asked_in_chunks(predict_classes, result.pruned, X_sel)
    mismatches = int(np.count_nonzero(after != before))
    n_rows = len(before)
    bound = upper_risk_bound(mismatches, n_rows, level)
    observed = (n_rows - mismatches) / n_rows >= target
    reached = observed if rule == "empirical" else bound <= 1 - target
    certified = result.status == "CERTIFIED"
    return TestedAlpha(
        alpha=result.certificate.alpha,
        certified=certified,
        trees=result.certificate.trees_after,
        mismatches=mismatches,
        fidelity=1 - mismatches / n_rows,
        risk_bound=bound,
        accepted=bool(reached and certified),
    )


def _selection_rows(outer: Wrapper, X_fit: Any, X_cal: Any, X_sel: Any, options: Mapping[str, Any]) -> Any:
    """Return X_sel for the native ensembles, after checking that it fits, has rows and was not used before.

    A table larger than memory is returned as rows in chunks.
    """
    schema = schema_of(read_model(outer.inner, threshold=outer.threshold).forest)
    X_sel = outer.rows(X_sel)
    allow_overlap = bool(options.get("allow_overlap", False))
    selection = open_rows(X_sel, schema, "X_sel")
    if selection.n_rows == 0:
        raise InvalidInputError("X_sel has no rows; selecting alpha needs held-out rows.")
    held_out = hashes_of(selection)
    refuse_spent(options.get("spent"), held_out, "X_sel")
    for table, name in ((X_fit, "X_fit"), (X_cal, "X_cal")):
        if table is not None:
            seen = hashes_of(open_rows(outer.rows(table), schema, name))
            check_overlap(count_overlap(seen, held_out), name, "X_sel", allow_overlap, stacklevel=4)
    return X_sel if isinstance(selection, MemoryRows) else selection
