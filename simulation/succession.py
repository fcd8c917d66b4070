"""One node of a settled cluster dies at the end of a run: what it led goes to nodes that were warm, and none is led cold.

succession = Succession(judge=..., processes=..., random=...)
succession.begin()
while left := succession.left(): ...  # some virtual time later
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from simulation.judge import Judge
from simulation.process import SimulatedProcess


class Succession:
    """See the module's text."""

    def __init__(self, *, judge: Judge, processes: Mapping[int, SimulatedProcess], rng: random.Random) -> None:
        self._judge = judge
        self._processes = processes
        self._rng = rng
        self._epochs: dict[int, int] = {}
        """Of the terms that ended so."""
        self._heirs: dict[int, frozenset[int]] = {}
        """By metadata partition that the dead node led: the nodes that were warm. One that refused to lead then may lead later."""
        self._others: frozenset[int] = frozenset()
        """The nodes that were there when it died; one that comes back brings what it has on its disk."""

    def begin(self) -> None:
        """Kill a node that leads something, if there is one with a warm standby for all of it."""
        wills = {node_id: self._will_of(process) for node_id, process in self._processes.items()}
        mortal = [node_id for node_id, will in wills.items() if will and all(map(self._can_go_on, will, will.values()))]
        if mortal:
            dead = self._rng.choice(mortal)
            well = {node_id for node_id, process in self._processes.items() if process.node is not None and process.is_well}
            self._others = frozenset(well - {dead})
            self._heirs = wills[dead]
            self._epochs = self._terms_of(dead)
            self._processes[dead].kill()

    def _will_of(self, process: SimulatedProcess) -> dict[int, frozenset[int]]:
        led = [] if process.node is None else process.node.replicas.led()
        others = [
            (one.node_id, one.node) for one in self._processes.values() if one is not process and one.node is not None and one.is_well
        ]
        return {
            partition: frozenset(
                node_id for node_id, node in others if (replica := node.replicas.get(partition)) is not None and replica.is_warm
            )
            for partition in led
        }

    def _can_go_on(self, partition: int, heirs: frozenset[int]) -> bool:
        """Whether one of the heirs does not refuse to lead a partition."""
        nodes = (self._processes[node_id].node for node_id in heirs)
        return any(node is not None and not node.standing.refusals.includes(partition) for node in nodes)

    def _terms_of(self, node_id: int) -> dict[int, int]:
        """The epochs in which a process leads, by metadata partition."""
        node = self._processes[node_id].node
        followed = () if node is None else node.replicas.followed()
        return {one.partition: one.view.fence.epoch for one in followed if one.view is not None and one.view.is_leading}

    def left(self) -> list[int]:
        """The partitions that nobody leads yet; one that goes to a node that was not warm breaks a rule. It may move on from there."""
        epochs = {node_id: self._terms_of(node_id) for node_id in self._processes}
        leaders = {partition: node_id for node_id, terms in epochs.items() for partition in terms}
        for partition, heirs in self._heirs.items():
            leader = leaders.get(partition)
            if leader is None or leader not in self._others - heirs or not self._can_go_on(partition, heirs):
                continue  # clocks are compared anew when a node dies: those may refuse now that did not before
            if epochs[leader][partition] == self._epochs[partition] + 1:
                text = f"node {leader} leads partition {partition} after one death, warm were {sorted(heirs)}"
                self._judge.broken("no cold leader after one death of a settled group", text)
        return sorted(self._heirs.keys() - leaders.keys())
