"""What members tell each other survives the way through the group, and hostile bytes raise one error."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.assignor.group import GroupAssignment
from coordinator.core.assignor.member import AssignorRules, GroupMember
from coordinator.core.assignor.userdata import UnreadableUserdata, decode_duties, decode_member, encode_duties, encode_member

NUMBERS = st.integers(0, 2**31 - 1)
SETS = st.frozensets(NUMBERS, max_size=9)
PAIRS = st.dictionaries(NUMBERS, NUMBERS, max_size=9)
PARTITIONS = st.integers(0, 65_534)
MAPS = st.dictionaries(PARTITIONS, NUMBERS, max_size=9)
MEMBERS = st.builds(
    GroupMember,
    node_id=NUMBERS,
    rack=st.text(max_size=9),
    started_ms=st.integers(0, 2**62),
    leads=PAIRS,
    led_ms=PAIRS,
    follows=PAIRS,
    claims=SETS,
    refuses=SETS,
    only=st.none() | SETS,
    drains=st.booleans(),
    rules=st.builds(AssignorRules, standbys=NUMBERS, leader_racks=st.lists(st.text(max_size=9), max_size=3).map(tuple)),
)


@given(MEMBERS)
def test_a_member_is_read_as_it_was_told(member: GroupMember) -> None:
    assert decode_member(encode_member(member)) == member


@given(SETS, SETS, MAPS, st.dictionaries(PARTITIONS, st.lists(NUMBERS, min_size=1, max_size=4).map(tuple), max_size=9))
def test_duties_are_read_as_they_were_given(
    leads: frozenset[int], follows: frozenset[int], leaders: dict[int, int], followers: dict[int, tuple[int, ...]]
) -> None:
    assignment = GroupAssignment(leads, follows, leaders, followers)
    assert decode_duties(leads, encode_duties(assignment)) == assignment


@given(MEMBERS, st.data())
def test_damaged_bytes_are_read_or_refused(member: GroupMember, data: st.DataObject) -> None:
    told = bytearray(encode_member(member))
    at = data.draw(st.integers(0, len(told) - 1))
    told[at] = data.draw(st.integers(0, 255))
    for damaged in (bytes(told), bytes(told[:at]), bytes(told) + b"x", data.draw(st.binary(max_size=60))):
        for decode in (decode_member, partial(decode_duties, frozenset())):
            try:
                decode(damaged)
            except UnreadableUserdata:
                continue


def test_another_version_is_named() -> None:
    told = b"\x02" + encode_member(GroupMember(node_id=1))[1:]
    with pytest.raises(UnreadableUserdata, match="version 2 of what members tell; this node knows 1"):
        decode_member(told)


def test_what_a_thousand_partitions_and_fifty_nodes_tell_fits_in_one_record() -> None:
    led, followed = dict.fromkeys(range(20), 2**31 - 1), dict.fromkeys(range(40), 2**31 - 1)
    told = encode_member(GroupMember(node_id=1, rack="europe-west4-a", leads=led, follows=followed))
    followers = {partition: (partition % 50, 7) for partition in range(1000)}
    duties = encode_duties(GroupAssignment(frozenset(), frozenset(range(40)), dict.fromkeys(range(1000), 49), followers))
    assert 50 * (len(told) + len(duties)) < 500_000
