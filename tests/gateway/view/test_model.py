"""What gateways tell each other, and the places of brokers in relay ports."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.view.model import Address, BadMember, Gateway, RelayIds

NAMES = st.text(min_size=1, max_size=20)
ADDRESSES = st.builds(Address, NAMES, st.integers(1, 65_535), st.integers(1, 65_535))


@given(st.integers(0, 2**31 - 1), st.text(max_size=20), NAMES, st.dictionaries(NAMES, ADDRESSES, max_size=3), NAMES)
def test_what_a_gateway_tells_is_read_back(node_id: int, rack: str, incarnation: str, listeners: dict[str, Address], version: str) -> None:
    told = Gateway(node_id, rack, incarnation, listeners, RelayIds("0-7,100-101"), version, f"s3://{rack}", f"http://{version}")
    assert Gateway.decode(told.encode()) == told


JSON = st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3))


@given(st.binary(max_size=40) | JSON.map(lambda one: json.dumps(one).encode()))
def test_what_is_no_gateway_is_refused(data: bytes) -> None:
    with pytest.raises(BadMember):
        Gateway.decode(data)


@pytest.mark.parametrize(
    "told",
    [
        {"node_id": 2**31},
        {"node_id": -1},
        {"node_id": float("inf")},
        {"node_id": "7"},
        {"listeners": {"P": ["a", 65_536, 9100]}},
        {"listeners": {"P": ["a", 9092, -1]}},
        {"listeners": {"P": ["a", 9092]}},
        {"listeners": []},
    ],
)
def test_numbers_that_no_answer_could_carry_are_refused(told: dict[str, object]) -> None:
    good = json.loads(Gateway(1001, "", "", {"P": Address("a", 9092, 9100)}, RelayIds("0-7")).encode())
    assert Gateway.decode(json.dumps(good).encode()).node_id == 1001
    with pytest.raises(BadMember):
        Gateway.decode(json.dumps(good | told).encode())


def test_what_never_ends_is_refused() -> None:
    with pytest.raises(BadMember):
        Gateway.decode(b"[" * 100_000)


def test_each_broker_has_one_place_whatever_others_there_are() -> None:
    ids = RelayIds("3-5,0-1,100-101")
    assert [ids.place(one) for one in (3, 4, 5, 0, 1, 100, 101)] == list(range(7))
    assert [ids.place(one) for one in (2, 6, 99, 102, -1)] == [None] * 5
    assert ids.count == 7


@pytest.mark.parametrize("text", ["", "a", "5-3", "-1", "1-", "0-5,5", "0,,1", "1-2-3"])
def test_ranges_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no range"):
        RelayIds(text)
