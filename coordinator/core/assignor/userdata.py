"""What members tell each other through the group, as bytes: of themselves when they join, of their duties when they are assigned.

Brokers keep all of a group in one record (1 MB by default), hence binary. The first byte is the version of the form.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from coordinator.core.assignor.group import GroupAssignment
from coordinator.core.assignor.member import AssignorRules, GroupMember

VERSION: Final = 1
_MOST: Final = 2**31 - 1
_HEAD: Final = struct.Struct(">Biq?iH")
_SIZE: Final = struct.Struct(">H")
_COUNT: Final = struct.Struct(">i")
_NONE: Final = -1
_MAP_HEAD: Final = struct.Struct(">HH")
_NOBODY: Final = 0xFFFF


class UnreadableUserdata(Exception):
    """Bytes that no member of this version wrote; the text says what is wrong."""


def encode_member(member: GroupMember) -> bytes:
    """Return what a member tells of itself; times and entries behind clipped to 31 bits. Of the rules it tells those that are settings."""
    rules = member.rules
    only = [_COUNT.pack(_NONE)] if member.only is None else [_numbers(member.only)]
    return b"".join(
        (
            _HEAD.pack(VERSION, member.node_id, member.started_ms, member.drains, rules.standbys, len(rules.leader_racks)),
            *map(_text, (member.rack, *rules.leader_racks)),
            _numbers(number for pair in sorted(member.leads.items()) for number in pair),
            _clipped(member.led_ms),
            _clipped(member.follows),
            _numbers(member.claims),
            _numbers(member.refuses),
            *only,
        )
    )


def decode_member(data: bytes) -> GroupMember:
    """Read what a member tells of itself. Raises `UnreadableUserdata`."""
    reader = _Reader(data)
    version, node_id, started_ms, drains, standbys, racks = reader.take(_HEAD)
    if version != VERSION:
        raise UnreadableUserdata(f"version {version} of what members tell; this node knows {VERSION}")
    rack = reader.text()
    rules = AssignorRules(standbys=standbys, leader_racks=tuple(reader.text() for _ in range(racks)))
    member = GroupMember(
        node_id=node_id,
        rack=rack,
        started_ms=started_ms,
        leads=reader.pairs(),
        led_ms=reader.pairs(),
        follows=reader.pairs(),
        claims=frozenset(reader.numbers() or ()),
        refuses=frozenset(reader.numbers() or ()),
        only=None if (only := reader.numbers()) is None else frozenset(only),
        drains=bool(drains),
        rules=rules,
    )
    reader.end()
    return member


def encode_duties(assignment: GroupAssignment) -> bytes:
    """Return what Kafka's own form of an assignment has no place for: all but the partitions that the member leads."""
    return bytes((VERSION,)) + _numbers(assignment.follows) + _map(assignment)


def decode_duties(leads: frozenset[int], data: bytes) -> GroupAssignment:
    """Read the assignment of a member that leads these partitions. Raises `UnreadableUserdata`."""
    reader = _Reader(data)
    if reader.raw(1) != bytes((VERSION,)):
        raise UnreadableUserdata(f"another version of duties than {VERSION}")
    follows = frozenset(reader.numbers() or ())
    assignment = GroupAssignment(leads, follows, *reader.map())
    reader.end()
    return assignment


def _map(assignment: GroupAssignment) -> bytes:
    """The nodes of each partition, in 16 bits each by their places in a list: it goes to every member, all in one record of the brokers."""
    leaders, followers = assignment.leaders, assignment.followers
    nodes = sorted({*leaders.values(), *(node_id for row in followers.values() for node_id in row)})
    places = {node_id: place for place, node_id in enumerate(nodes)}
    width = 1 + max(map(len, followers.values()), default=0)
    partitions = sorted({*leaders, *followers})
    cells: list[int] = []
    for partition in partitions:
        row = [places[leaders[partition]] if partition in leaders else _NOBODY, *(places[one] for one in followers.get(partition, ()))]
        cells += (partition, *row, *[_NOBODY] * (width - len(row)))
    return _numbers(nodes) + struct.pack(f">{len(cells) + 2}H", len(partitions), width, *cells)


def _clipped(amounts: Mapping[int, int]) -> bytes:
    """An amount of each partition."""
    return _numbers(number for partition, amount in sorted(amounts.items()) for number in (partition, min(amount, _MOST)))


def _numbers(numbers: Iterable[int]) -> bytes:
    """Numbers of 32 bits behind their count."""
    listed = sorted(numbers) if isinstance(numbers, frozenset) else list(numbers)
    return struct.pack(f">{len(listed) + 1}i", len(listed), *listed)


def _text(text: str) -> bytes:
    """A text behind its size, cut where the size ends."""
    encoded = text.encode()[:65_535]
    return _SIZE.pack(len(encoded)) + encoded


class _Reader:
    """Takes one thing after the other. Every method raises `UnreadableUserdata` for bytes that are not there."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def raw(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise UnreadableUserdata(f"{len(self._data)} bytes end too early")
        self._at += size
        return taken

    def take(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.raw(form.size))

    def text(self) -> str:
        (size,) = self.take(_SIZE)
        return self.raw(size).decode(errors="replace")

    def numbers(self) -> tuple[int, ...] | None:
        (count,) = self.take(_COUNT)
        if count == _NONE:
            return None
        if count < 0:
            raise UnreadableUserdata(f"a count of {count}")
        size = 4 * count
        if size > len(self._data):
            raise UnreadableUserdata(f"{count} numbers in {len(self._data)} bytes")
        return struct.unpack(f">{count}i", self.raw(size))

    def pairs(self) -> dict[int, int]:
        numbers = self.numbers() or ()
        if len(numbers) % 2:
            raise UnreadableUserdata(f"{len(numbers)} numbers are no pairs")
        return dict(zip(numbers[::2], numbers[1::2], strict=True))

    def map(self) -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
        """The leader and the followers of each partition."""
        nodes = self.numbers() or ()
        count, width = self.take(_MAP_HEAD)
        if not width:
            raise UnreadableUserdata("rows without a leader")
        row = struct.Struct(f">{width + 1}H")
        leaders, followers = {}, {}
        for partition, *places in row.iter_unpack(self.raw(count * row.size)):
            if any(place >= len(nodes) and place != _NOBODY for place in places):
                raise UnreadableUserdata(f"a node that is not among {len(nodes)}")
            leader, *others = (None if place == _NOBODY else nodes[place] for place in places)
            if leader is not None:
                leaders[partition] = leader
            if any(one is not None for one in others):
                followers[partition] = tuple(one for one in others if one is not None)
        return leaders, followers

    def end(self) -> None:
        if self._at != len(self._data):
            raise UnreadableUserdata(f"{len(self._data) - self._at} bytes too many")
