"""The conclusions of `diskless doctor` about gateways, and about clients that write through them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from cli.doctor.diagnosis import Diagnosis, Health
from coordinator.printable import quoted

if TYPE_CHECKING:
    from cli.looks.gateways import GatewayLook
    from gateway.view.model import Gateway

CHECK: Final = "gateways"
TINY_BYTES: Final = 8 * 1024
BATCHES_MIN: Final = 1_000
"""Fewer batches of a client say nothing of how it writes."""
CLIENTS_MAX: Final = 5


def diagnose_gateways(looks: Sequence[GatewayLook], shadows: int) -> list[Diagnosis]:
    """None alive though topics have shadows, differences, those that do not answer or are not ready, and clients with tiny batches."""
    if not looks:
        if shadows:
            finding = f"no gateway is alive, and {shadows} diskless topics have a shadow: Kafka clients cannot reach them"
            remedy = "start one with `diskless gateway run`; if some run, name their group with --gateway-group"
            return [Diagnosis(health=Health.ERROR, check=CHECK, finding=finding, remedy=remedy)]
        return [Diagnosis(health=Health.OK, check=CHECK, finding="there are no gateways, and no shadows")]
    gateways = [one.gateway for one in looks]
    found = [
        *_differences(gateways, "version", lambda one: one.version, "upgrade one after the other until all have the newer one"),
        *_differences(gateways, "object store", lambda one: one.store, "give all of them the object.store.url that the nodes have"),
        *_differences(
            gateways, "gateway.relay.brokers", lambda one: one.relays.text, "give all of them the same ranges: a client sees brokers by all"
        ),
        *(diagnosis for one in looks if (diagnosis := _state(one)) is not None),
        *_tiny_batches(looks),
    ]
    return found or [Diagnosis(health=Health.OK, check=CHECK, finding=f"{len(looks)} gateways serve clients, and are alike")]


def _differences(gateways: Sequence[Gateway], what: str, of: Callable[[Gateway], str], remedy: str) -> list[Diagnosis]:
    having: dict[str, list[str]] = {}
    for one in gateways:
        having.setdefault(of(one), []).append(str(one.node_id))
    if len(having) < 2:
        return []
    told = "; ".join(f"{value or 'none'} at {', '.join(ids)}" for value, ids in sorted(having.items()))
    return [Diagnosis(health=Health.WARNING, check=CHECK, finding=f"gateways differ in {what}: {told}", remedy=remedy)]


def _state(look: GatewayLook) -> Diagnosis | None:
    name = f"gateway {look.gateway.node_id}"
    if look.is_ready is False:
        detail = ", ".join(f"{key}: {value}" for key, value in look.ready.items())
        remedy = "its log says what it waits for: brokers, the coordinators, the group of gateways"
        return Diagnosis(health=Health.ERROR, check=CHECK, finding=f"{name} is not ready ({detail or 'no details'})", remedy=remedy)
    if look.problem:
        remedy = "its work cannot be judged from here: see the network, http.listener, and --gateway-token-file"
        return Diagnosis(health=Health.WARNING, check=CHECK, finding=f"{name}: {look.problem}", remedy=remedy)
    return None


def _tiny_batches(looks: Sequence[GatewayLook]) -> list[Diagnosis]:
    """Clients by id, of all gateways together, whose batches are tiny; those with the most batches first."""
    batches: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for look in looks:
        for counts, name in ((batches, "produce_client_batches_total"), (sizes, "produce_client_bytes_total")):
            for client, value in look.by(name, "client_id").items():
                counts[client] = counts.get(client, 0.0) + value
    tiny = [one for one, count in batches.items() if count >= BATCHES_MIN and sizes.get(one, 0.0) < count * TINY_BYTES]
    worst = sorted(tiny, key=lambda one: -batches[one])
    found = [
        Diagnosis(
            health=Health.WARNING,
            check=CHECK,
            finding=f"clients with client.id {quoted(one)} wrote {batches[one]:.0f} batches of"
            f" {sizes.get(one, 0.0) / batches[one]:.0f} bytes on average",
            remedy="each batch costs the same at gateways, coordinators and readers: set batch.size to 1 MB and linger.ms to 50 or more,"
            " and do not flush after each record (docs/gateway-tuning.md)",
        )
        for one in worst[:CLIENTS_MAX]
    ]
    if len(worst) > CLIENTS_MAX:
        text = f"{len(worst) - CLIENTS_MAX} more client ids write tiny batches"
        found.append(Diagnosis(health=Health.WARNING, check=CHECK, finding=text, remedy=found[0].remedy))
    return found
