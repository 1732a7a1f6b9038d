"""The region over boxes: which boxes hold no point of it.

In come the region's tables and ranges of positions per feature; out goes, per box, the cheapest
score and whether domain knowledge leaves a point. Lower bounds only: a box that is a single point
is scored exactly, a larger one may be kept in vain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pine_boost.model.exact import ABSENT
from pine_boost.model.forest import IntArray
from pine_boost.region.score_tables import RegionTables


@dataclass(frozen=True, eq=False)
class _Link:
    """An edge of the score's tree: ``cost[bin of parent, bin of child]``."""

    child: int
    parent: int
    cost: IntArray


class BoxRegion:
    """Lower bounds of the score and emptiness by domain knowledge, for many boxes at once.

    Boxes are arrays ``low`` and ``high`` of shape (n_features, n_boxes): inclusive positions in
    ``order[feature]``, the list of states that are worth looking at.
    """

    def __init__(self, region: RegionTables, order: list[IntArray]) -> None:
        self.region = region
        self.score = region.score if region.tau is not None else None
        self._counts: dict[int, IntArray] = {}
        self._links: list[_Link] = []
        self._roots: list[int] = []
        self._extra: list[Any] = []
        if self.score is not None:
            self._orient(order)
        self._pairs = []
        for pair in region.forbidden:
            free = ~pair.forbidden[np.ix_(order[pair.first], order[pair.second])]
            table = np.zeros((free.shape[0] + 1, free.shape[1] + 1), dtype=np.int64)
            table[1:, 1:] = free.cumsum(axis=0).cumsum(axis=1)
            self._pairs.append((pair.first, pair.second, table))
        self._clauses = [
            [(j, np.concatenate([[0], np.cumsum(literal[order[j]])])) for j, literal in clause]
            for clause in region.at_least_one
        ]

    def _orient(self, order: list[IntArray]) -> None:
        """Root the pair tables: a spanning forest is summed exactly, further pairs one by one."""
        score = self.score
        assert score is not None
        used = {j for j, cost in enumerate(score.unary) if cost.any()}
        used |= {j for pair in score.pairs for j in (pair.first, pair.second)}
        for j in sorted(used):
            member = score.bins[j][order[j]][:, None] == np.arange(len(score.unary[j]))
            self._counts[j] = np.concatenate([np.zeros_like(member[:1]), member]).cumsum(axis=0).T
        left = list(score.pairs)
        reached: set[int] = set()
        downward: list[_Link] = []
        for root in sorted(used):
            if root in reached:
                continue
            reached.add(root)
            self._roots.append(root)
            queue = [root]
            while queue:
                feature = queue.pop(0)
                for pair in [p for p in left if feature in (p.first, p.second)]:
                    other = pair.second if pair.first == feature else pair.first
                    if other in reached:
                        continue
                    reached.add(other)
                    left.remove(pair)
                    cost = pair.cost if pair.first == feature else pair.cost.T
                    downward.append(_Link(other, feature, cost.astype(np.int64)))
                    queue.append(other)
        self._links = downward[::-1]
        self._extra = left

    def cheapest(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> IntArray:
        """Least score of the bins of every box, without the trees' part."""
        n_boxes = low.shape[1]
        total = np.zeros(n_boxes, dtype=np.int64)
        if self.score is None:
            return total
        below: dict[int, IntArray] = {}
        for j, counts in self._counts.items():
            present = counts.take(high[j] + 1, axis=1) > counts.take(low[j], axis=1)
            below[j] = np.where(present, self.score.unary[j][:, None], ABSENT)
        for pair in self._extra:
            first, second = below[pair.first] < ABSENT, below[pair.second] < ABSENT
            cell = np.where(first[:, None] & second[None], pair.cost[:, :, None], ABSENT)
            total += cell.min(axis=(0, 1))
        for link in self._links:
            message = (below[link.child][None] + link.cost[:, :, None]).min(axis=1)
            below[link.parent] = below[link.parent] + message
        for root in self._roots:
            total += below[root].min(axis=0)
        return total

    def impossible(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
        """Boxes without a permitted point; None where there is no domain knowledge."""
        if not self._pairs and not self._clauses:
            return None
        empty = np.zeros(low.shape[1], dtype=bool)
        for first, second, table in self._pairs:
            a, b, c, d = low[first], high[first] + 1, low[second], high[second] + 1
            empty |= table[b, d] - table[a, d] - table[b, c] + table[a, c] == 0
        for clause in self._clauses:
            is_met = np.zeros(low.shape[1], dtype=bool)
            for j, counts in clause:
                is_met |= counts[high[j] + 1] > counts[low[j]]
            empty |= ~is_met
        return empty
