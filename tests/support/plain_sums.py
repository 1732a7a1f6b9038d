"""The library's own sum of a random forest: no link, the cuts of its decision."""

import numpy as np

from pine_boost.kernels.flat_forest import Link, NativeSum
from pine_boost.model.forest import Forest
from pine_boost.model.rules import Tie
from pine_boost.scoring.native_sum import leaf_nodes


def plain_sum(forest: Forest, link: Link = Link.IDENTITY) -> NativeSum:
    return NativeSum(
        value=forest.value[leaf_nodes(forest)].astype(forest.arithmetic),
        intercept=forest.intercept.astype(forest.arithmetic),
        link=link,
        divisor=1.0,
        slope=1.0,
        cuts=np.array(forest.decision.cuts),
        wins_ties=forest.decision.tie is Tie.HIGHEST,
    )
