"""Load scorers of every kind. A file that was replaced or damaged, or that belongs to another pair of models, raises.

Pickles are loaded only if they are trusted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pine_boost.scoring.fast_scorer import FastScorer
from pine_boost.scoring.scorer_folder import read_manifest, read_parts

if TYPE_CHECKING:
    from pine_boost.serving.guarded import GuardedModel


def load_scorer(
    folder: str | os.PathLike[str], *, n_jobs: int = 1, backend: str = "kernel", trust_pickle: bool = False
) -> FastScorer | GuardedModel:
    """Read a scorer that `AccelerateResult.save` or `GuardedModel.save` wrote; its files must belong together.

    An accelerated scorer needs numpy and no training library.

    Parameters
    ----------
    folder : path
    n_jobs : int
        Threads for batches of several thousand rows; -1 for all cores.
    backend : {"kernel", "native"}
        What evaluates both models of a guarded model (see `GuardedModel`); an accelerated scorer is the kernel.
    trust_pickle : bool
        Load pickles (scikit-learn models behind a guard, the steps of a Pipeline). Unpickling runs code from the
        file: only for folders you made.

    Returns
    -------
    FastScorer or GuardedModel

    Raises
    ------
    CertificateMismatch
        A file is not the one that the manifest or the certificate names.
    MalformedModelError
        The arrays do not form trees with exits.
    InvalidInputError
        No scorer folder, or a pickle that is not trusted.
    UnsupportedModelError
        A model file is not supported, or its library fails to load it.

    Examples
    --------
    >>> import tempfile, numpy as np, pine_boost
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = GradientBoostingClassifier(n_estimators=5).fit(X, X[:, 0] > 0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = pine_boost.accelerate_booster(model).save(folder + "/scorer")
    ...     scorer = pine_boost.load_scorer(place)
    >>> bool((scorer.predict(X) == model.predict(X)).all())
    True
    """
    if "guard" not in read_manifest(folder):
        return FastScorer(read_parts(folder, trust_pickle=trust_pickle)[0], n_jobs)
    from pine_boost.native.child_process import try_in_child
    from pine_boost.serving.guarded import GuardedModel
    from pine_boost.serving.guards import read_guarded

    parts = read_guarded(folder, trust_pickle=trust_pickle)
    for model in (parts.original, parts.pruned) if backend == "native" else ():
        try_in_child(model)
    return GuardedModel(parts, backend=backend, n_jobs=n_jobs)
