"""Produce gateways: which brokers of a rack should take the produce requests for the partitions of a coordinator.

The fewer coordinators a WAL file touches, the fewer commits it needs. So for each coordinator and rack
`max(1, n_brokers / n_coordinators / n_racks)` brokers are gateways (KIP-1164, "Reducing multi-DC commit operations"), and
coordinators led by one node share gateways, because one request then commits for all of them. Each rack is planned alone:
pairs of group and broker are taken in the order of a hash of the pair, so that most pairs stay when a broker or a coordinator
comes or goes (decision 022 has the figures).
Invariant: the plan depends on the set of brokers and coordinators only; within a rack no broker is gateway of two
coordinators more than another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple


class Broker(NamedTuple):
    """A broker, or anything else that takes produce requests and uploads files. No rack is a rack too."""

    broker_id: int
    rack: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorPlace:
    """A coordinator and the node that leads it (-1: none); `broker_id` is the broker that runs in the same place, if any."""

    coordinator_id: int
    node_id: int
    broker_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlan:
    """The gateways of each coordinator: sorted broker ids by (coordinator id, rack)."""

    gateways: Mapping[tuple[int, str], tuple[int, ...]]
    racks: tuple[str, ...]
    gateways_per_rack: int

    def gateways_of(self, coordinator_id: int, rack: str | None = None) -> tuple[int, ...]:
        """The gateways of a coordinator in a rack; those of all racks when the rack is not given or has no broker."""
        racks = (rack,) if rack in self.racks and rack is not None else self.racks
        return tuple(sorted(broker for one in racks for broker in self.gateways.get((coordinator_id, one), ())))


def plan_gateways(brokers: Iterable[Broker], coordinators: Iterable[CoordinatorPlace]) -> GatewayPlan:
    """Choose the gateways of every coordinator in every rack that has a broker. Ids must be distinct."""
    by_id = {broker.broker_id: broker for broker in brokers}
    places = {place.coordinator_id: place for place in coordinators}
    racks = tuple(sorted({broker.rack for broker in by_id.values()}))
    if not by_id or not places:
        return GatewayPlan(gateways={}, racks=racks, gateways_per_rack=0)
    per_rack = max(1, len(by_id) // len(places) // len(racks))
    gateways: dict[tuple[int, str], tuple[int, ...]] = {}
    for rack in racks:
        members = sorted(broker.broker_id for broker in by_id.values() if broker.rack == rack)
        chosen = _RackPlan(members, [places[i] for i in sorted(places)], per_rack).chosen
        gateways.update(((coordinator_id, rack), tuple(sorted(ids))) for coordinator_id, ids in chosen.items())
    return GatewayPlan(gateways=gateways, racks=racks, gateways_per_rack=per_rack)


class _RackPlan:
    """The gateways in one rack. A broker has room for the average number of coordinators, some for one more."""

    def __init__(self, brokers: Sequence[int], coordinators: Sequence[CoordinatorPlace], copies: int) -> None:
        copies = min(copies, len(brokers))
        self.chosen: dict[int, set[int]] = {place.coordinator_id: set() for place in coordinators}
        self._brokers = brokers
        self._served: dict[int, set[int]] = {broker: set() for broker in brokers}
        self._room, self._extras = divmod(len(coordinators) * copies, len(brokers))
        self._homes = {place.coordinator_id: place.broker_id for place in coordinators}
        groups: dict[int, list[int]] = {}
        for place in coordinators:
            # A coordinator without a leader is a group of its own.
            groups.setdefault(place.node_id if place.node_id >= 0 else -1 - place.coordinator_id, []).append(place.coordinator_id)
        for _ in range(copies):
            pieces = [piece for members in groups.values() for piece in self._pieces(members)]
            while pieces:
                pieces = [half for piece in self._place_whole(pieces) for half in _halves(piece)]

    def _pieces(self, members: Sequence[int]) -> list[tuple[int, ...]]:
        """Cut a group into what one broker can take: powers of two, so that one broker more or less rarely changes the cuts."""
        size = len(members) if len(members) <= self._room + (self._extras > 0) else 1 << max(0, self._room.bit_length() - 1)
        return [tuple(members[start : start + size]) for start in range(0, len(members), size)]

    def _place_whole(self, pieces: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Give each piece to one broker that has room for all of it; returns those for which there is none, to be cut.

        The room for one more than the average is given away last, which moves less when a broker leaves, and to the places of
        leaders first, where the commits for one coordinator need no network.
        """
        left = set(pieces)
        homes = set(self._homes.values())
        pairs = sorted((_hash(piece, broker), piece, broker) for piece in pieces for broker in self._brokers)
        for homes_first, room_of in ((False, self._room_left), (True, self._free)):
            pairs.sort(key=lambda pair: (self._homes[pair[1][0]] != pair[2], homes_first and pair[2] not in homes))
            for _, piece, broker in pairs:
                if piece in left and room_of(broker) >= len(piece) and not self._served[broker].intersection(piece):
                    left.remove(piece)
                    for member in piece:
                        self._take(member, broker)
        for piece in sorted(left):
            if len(piece) == 1:
                left.remove(piece)
                self._take_by_exchange(piece[0])
        return sorted(left)

    def _take_by_exchange(self, coordinator: int) -> None:
        """Where only brokers that serve this coordinator have room: one of them takes over from a broker that does not.

        There is always one: a broker without room serves at least as many as one with room, and not this coordinator,
        so it serves some coordinator that the other does not.
        """
        with_room = next(broker for broker in self._brokers if self._free(broker) > 0)
        for full in self._brokers:
            movable = self._served[full] - self._served[with_room]
            if coordinator not in self._served[full] and movable:
                moved = min(movable)
                self._served[full].remove(moved)
                self.chosen[moved].remove(full)
                self._served[full].add(coordinator)
                self.chosen[coordinator].add(full)
                self._take(moved, with_room)
                return
        raise AssertionError(f"no gateway left for coordinator {coordinator} among brokers {self._brokers}")

    def _room_left(self, broker: int) -> int:
        return self._room - len(self._served[broker])

    def _free(self, broker: int) -> int:
        served = len(self._served[broker])
        return self._room + (self._extras > 0) - served if served <= self._room else 0

    def _take(self, coordinator: int, broker: int) -> None:
        if len(self._served[broker]) == self._room:
            self._extras -= 1
        self._served[broker].add(coordinator)
        self.chosen[coordinator].add(broker)


def _halves(piece: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    middle = len(piece) // 2
    return piece[:middle], piece[middle:]


def _hash(piece: tuple[int, ...], broker: int) -> bytes:
    return blake2b(f"{piece[0]}/{broker}".encode(), digest_size=8).digest()
