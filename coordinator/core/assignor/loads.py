"""How much each node has, the least first, without sorting all nodes for every question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_GOLDEN, _MIX_1, _MIX_2, _64_BITS = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 2**64 - 1


def weight(partition: int, node_id: int) -> int:
    """Return a number that breaks ties: the same one on every node, another order of nodes for each partition (rendezvous hashing)."""
    mixed = ((partition + 7) * _GOLDEN ^ (node_id + 13) * _MIX_1) & _64_BITS
    return (mixed ^ mixed >> 29) * _MIX_2 >> 20 & 0xFFFFFFFF


class NodeLoads:
    """Counts per node."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self.of = dict.fromkeys(nodes, 0)
        self._levels: dict[int, list[int]] = {0: list(self.of)}

    def add(self, node_id: int, number: int = 1) -> None:
        """Count `number` more of a node."""
        before = self.of[node_id]
        level = self._levels[before]
        level.remove(node_id)
        if not level:
            del self._levels[before]
        self.of[node_id] = before + number
        self._levels.setdefault(before + number, []).append(node_id)

    def levels(self, turn: int) -> Iterator[list[int]]:
        """Yield the nodes, those with the least together first. `turn` rotates equal ones, so that ties fall on many."""
        for count in sorted(self._levels):
            level = self._levels[count]
            first = turn % len(level)
            yield level[first:] + level[:first]
