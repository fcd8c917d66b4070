"""The view: the same for all who know the same, complete, in the client's zone where that has a gateway, without addresses of brokers."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coordinator.runtime.answers.gateway_plan import CoordinatorPlace
from coordinator.runtime.ports import KafkaBroker
from gateway.view.model import NO_LEADER, Address, Gateway, RelayIds, distinct
from gateway.view.view import View, view_of

RACKS = ("a", "b", "c", "")
LISTENER = "PLAINTEXT"
FIRST_GATEWAY = 1_000


def gateway(node_id: int, rack: str = "", incarnation: str = "0", listener: str = LISTENER, relays: str = "0-63") -> Gateway:
    """Return a gateway whose addresses tell who it is."""
    return Gateway(node_id, rack, incarnation, {listener: Address(f"gateway-{node_id}", 9292, 10_000)}, RelayIds(relays))


def broker(broker_id: int, rack: str = "") -> KafkaBroker:
    """Return a broker whose host no client may see."""
    return KafkaBroker(broker_id, rack, f"broker-{broker_id}", 9092)


BROKERS = st.lists(st.builds(broker, st.integers(0, 20), st.sampled_from(RACKS)), max_size=8, unique_by=lambda one: one.broker_id)
GATEWAYS = st.lists(
    st.builds(gateway, st.integers(FIRST_GATEWAY, FIRST_GATEWAY + 20), st.sampled_from(RACKS), st.sampled_from("012")), max_size=8
)
PLACES = st.lists(
    st.builds(lambda number, node: CoordinatorPlace(coordinator_id=number, node_id=node), st.integers(0, 11), st.integers(-1, 3)),
    max_size=8,
    unique_by=lambda one: one.coordinator_id,
)
ZONES = st.sampled_from((*RACKS, "nowhere", None))
TOPIC = bytes(range(16))


def leaders(view: View, partitions: int = 40) -> list[int]:
    """Return the leaders of partitions of many coordinators, known and unknown ones."""
    return [view.leader(TOPIC, partition, partition % 14 if partition % 3 else None) for partition in range(partitions)]


@given(BROKERS, GATEWAYS, PLACES, ZONES, st.randoms(use_true_random=False))
def test_who_knows_the_same_gives_the_same_answers(
    brokers: list[KafkaBroker], gateways: list[Gateway], places: list[CoordinatorPlace], zone: str | None, rng: object
) -> None:
    # Of two processes with one id and one incarnation any may be seen: such gateways do not start.
    gateways = list({(one.node_id, one.incarnation): one for one in gateways}.values())
    first = view_of(brokers, gateways, places, listener=LISTENER, zone=zone)
    for one in (brokers, gateways, places):
        rng.shuffle(one)  # type: ignore[attr-defined]
    second = view_of(brokers, gateways, places, listener=LISTENER, zone=zone)
    assert list(first.nodes.values()) == list(second.nodes.values())
    assert leaders(first) == leaders(second)


@given(BROKERS, GATEWAYS, PLACES, ZONES)
def test_all_gateways_and_brokers_are_nodes_at_addresses_of_gateways(
    brokers: list[KafkaBroker], gateways: list[Gateway], places: list[CoordinatorPlace], zone: str | None
) -> None:
    view = view_of(brokers, gateways, places, listener=LISTENER, zone=zone)
    live = {one.node_id: one for one in distinct(gateways)}
    relayed = {one.broker_id for one in brokers} if live else set()
    assert set(view.nodes) == live.keys() | relayed
    assert all(node.host.startswith("gateway-") for node in view.nodes.values())
    assert len({(node.host, node.port) for node in view.nodes.values()}) == len(view.nodes)
    for one in brokers:
        if one.broker_id in view.nodes:
            node = view.nodes[one.broker_id]
            assert (node.rack, node.port) == (one.rack, 10_000 + one.broker_id)


@given(BROKERS, GATEWAYS, PLACES, ZONES)
def test_a_zone_with_gateways_is_served_by_them_and_any_other_by_all(
    brokers: list[KafkaBroker], gateways: list[Gateway], places: list[CoordinatorPlace], zone: str | None
) -> None:
    view = view_of(brokers, gateways, places, listener=LISTENER, zone=zone)
    live = distinct(gateways)
    near = {one.node_id for one in live if one.rack == zone} or {one.node_id for one in live}
    assert set(view.gateways) == near
    if not live:
        assert set(leaders(view)) == {NO_LEADER}
        return
    assert set(leaders(view)) <= near
    hosts = {view.nodes[one].host for one in near}
    assert {view.nodes[one.broker_id].host for one in brokers if one.broker_id in view.nodes} <= hosts


@given(BROKERS, st.integers(2, 6), PLACES, st.integers(0, 5))
def test_a_gateway_that_dies_takes_nothing_along(brokers: list[KafkaBroker], count: int, places: list[CoordinatorPlace], dead: int) -> None:
    gateways = [gateway(FIRST_GATEWAY + number, "a") for number in range(count)]
    left = [one for place, one in enumerate(gateways) if place != dead % count]
    view = view_of(brokers, left, places, listener=LISTENER, zone="a")
    assert {one.broker_id for one in brokers} <= set(view.nodes)
    assert set(leaders(view)) <= {one.node_id for one in left}


def test_brokers_move_only_from_a_gateway_that_dies() -> None:
    gateways = [gateway(FIRST_GATEWAY + number, "a") for number in range(5)]
    brokers = [broker(number) for number in range(40)]
    before = view_of(brokers, gateways, [], listener=LISTENER, zone="a")
    after = view_of(brokers, gateways[1:], [], listener=LISTENER, zone="a")
    moved = [one for one in range(40) if before.nodes[one].host != after.nodes[one].host]
    assert moved
    assert all(before.nodes[one].host == f"gateway-{FIRST_GATEWAY}" for one in moved)


def test_coordinators_led_by_one_node_share_gateways() -> None:
    """A file of a gateway then needs a commit at one node."""
    gateways = [gateway(FIRST_GATEWAY + number, "a") for number in range(3)]
    places = [CoordinatorPlace(coordinator_id=number, node_id=number // 4) for number in range(12)]
    view = view_of([], gateways, places, listener=LISTENER, zone="a")
    led = {(view.leader(TOPIC, partition, partition % 12), partition % 12 // 4) for partition in range(600)}
    assert len(led) == 3
    assert Counter(gateway_id for gateway_id, _ in led) == {one.node_id: 1 for one in gateways}


def test_partitions_of_a_coordinator_are_spread_over_its_gateways() -> None:
    gateways = [gateway(FIRST_GATEWAY + number, "a") for number in range(4)]
    view = view_of([], gateways, [CoordinatorPlace(coordinator_id=0, node_id=1)], listener=LISTENER, zone="a")
    shares = Counter(view.leader(TOPIC, partition, 0) for partition in range(1_000))
    assert len(shares) == 4
    assert min(shares.values()) > 150


def test_gateways_without_the_listener_are_not_seen() -> None:
    gateways = [gateway(1001), gateway(1002, listener="SASL_SSL")]
    assert set(view_of([broker(1)], gateways, [], listener="SASL_SSL", zone="").nodes) == {1, 1002}
    assert set(view_of([broker(1)], gateways, [], listener="OTHER", zone="").nodes) == set()


def test_a_broker_without_a_relay_port_is_not_seen_and_one_elsewhere_relays_what_the_zone_cannot() -> None:
    near, far = gateway(1001, "a", relays="1-2"), gateway(1002, "b", relays="1-3")
    view = view_of([broker(2), broker(3), broker(4)], [near, far], [], listener=LISTENER, zone="a")
    assert {node_id: node.host for node_id, node in view.nodes.items()} == {
        2: "gateway-1001",
        3: "gateway-1002",
        1001: "gateway-1001",
        1002: "gateway-1002",
    }


def test_of_two_with_one_id_the_later_counts() -> None:
    old, new = gateway(1001, "a", "01"), gateway(1001, "b", "02")
    assert distinct([new, old]) == (new,) == distinct([old, new])
