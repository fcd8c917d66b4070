"""What doctor says of gateways and of the clients that write through them."""

from __future__ import annotations

from typing import Any

import pytest

from cli.doctor.diagnosis import Health
from cli.doctor.gateways import BATCHES_MIN, CLIENTS_MAX, TINY_BYTES, diagnose_gateways
from cli.looks.gateways import GatewayLook, Labels
from gateway.view.model import Address, Gateway, RelayIds


def gateway(node_id: int, **other: Any) -> Gateway:
    told: dict[str, Any] = {"version": "1", "store": "s3://records", "relays": RelayIds("0-63"), **other}
    return Gateway(
        node_id=node_id, rack="", incarnation=f"{node_id}", listeners={"A": Address("h", 1, 2)}, http=f"http://h:{node_id}", **told
    )


def look(node_id: int = 1001, clients: dict[str, tuple[float, float]] | None = None, **other: Any) -> GatewayLook:
    told = {name: other.pop(name) for name in ("version", "store", "relays") if name in other}
    batches: dict[Labels, float] = {(("client_id", one),): count for one, (count, _) in (clients or {}).items()}
    sizes: dict[Labels, float] = {(("client_id", one),): size for one, (_, size) in (clients or {}).items()}
    metrics = {"produce_client_batches_total": batches, "produce_client_bytes_total": sizes}
    return GatewayLook(gateway=gateway(node_id, **told), metrics=metrics, **{"is_ready": True, **other})


N = float(BATCHES_MIN)
CASES = [
    ([], 0, [(Health.OK, "there are no gateways, and no shadows")]),
    ([], 3, [(Health.ERROR, "no gateway is alive, and 3 diskless topics")]),
    ([look(), look(1002)], 3, [(Health.OK, "2 gateways serve clients, and are alike")]),
    ([look(), look(1002, version="2")], 0, [(Health.WARNING, "differ in version: 1 at 1001; 2 at 1002")]),
    ([look(), look(1002), look(1003, store="s3://x")], 0, [(Health.WARNING, "object store: s3://records at 1001, 1002; s3://x at 1003")]),
    ([look(), look(1002, relays=RelayIds("0-9"))], 0, [(Health.WARNING, "differ in gateway.relay.brokers")]),
    ([look(is_ready=False, ready={"member": False})], 0, [(Health.ERROR, "gateway 1001 is not ready (member: False)")]),
    ([look(is_ready=None, problem="http://h:1 does not answer")], 0, [(Health.WARNING, "gateway 1001: http://h:1 does not answer")]),
    ([look(clients={"app": (N, N * TINY_BYTES)})], 0, [(Health.OK, "1 gateways")]),
    ([look(clients={"app": (N - 1, N)})], 0, [(Health.OK, "1 gateways")]),
    ([look(clients={"app": (N, N * 500)})], 0, [(Health.WARNING, "client.id app wrote 1000 batches of 500 bytes")]),
    (
        [look(clients={"app": (N / 2, N * 10)}), look(1002, clients={"app": (N / 2, N * 30)})],
        0,
        [(Health.WARNING, "wrote 1000 batches of 40 bytes")],
    ),
]


@pytest.mark.parametrize(("looks", "shadows", "says"), CASES)
def test_each_fault_of_gateways_is_told_with_a_remedy(looks: list[GatewayLook], shadows: int, says: list[tuple[Health, str]]) -> None:
    found = diagnose_gateways(looks, shadows)
    assert [one.health for one in found] == [health for health, _ in says]
    assert all(text in one.finding for one, (_, text) in zip(found, says, strict=True)), found
    assert all(bool(one.remedy) == (one.health is not Health.OK) for one in found)


def test_the_clients_with_most_batches_are_named_and_the_others_counted() -> None:
    clients = {f"app-{number}": (N + number, N) for number in range(CLIENTS_MAX + 2)}
    found = diagnose_gateways([look(clients=clients)], 0)
    assert len(found) == CLIENTS_MAX + 1
    assert f"client.id app-{CLIENTS_MAX + 1} wrote" in found[0].finding
    assert "2 more client ids" in found[-1].finding
    assert "batch.size" in found[0].remedy
    assert "linger.ms" in found[0].remedy
