"""Questions to the coordinator of a group of Kafka, over connections of our own: who is in it, and what the members tell each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from cli.outcome import Exit, Failed

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from coordinator.adapters.kafka.member.coordinator import GroupCoordinator, GroupRefused

RETRY_S: Final = 0.2
CLIENT_ID: Final = "diskless-cli"

Found = TypeVar("Found")


async def ask_group(
    kafka: KafkaPlace,
    group_id: str,
    timeout_s: float,
    ask: Callable[[GroupCoordinator], Awaitable[Found]],
    explain: Callable[[GroupRefused], str],
) -> Found:
    """Return what `ask` finds, asked again while the group rebalances or moves; `explain` says why it cannot be used. Raises `Failed`."""
    from cli.kafka.cluster import kafka_errors
    from coordinator.adapters.kafka.brokers import describe_brokers
    from coordinator.adapters.kafka.link import BrokerLink, BrokerLost, FindPlace, in_turns
    from coordinator.adapters.kafka.member.coordinator import GroupCoordinator, GroupRefused, GroupTrouble
    from coordinator.security.client_security import ClientSecurity

    await asyncio.to_thread(kafka.check)
    properties = {**kafka.properties, "bootstrap.servers": kafka.bootstrap_servers, "client.id": CLIENT_ID}
    with kafka_errors():  # raised for security that connections of our own do not know, too
        brokers = await asyncio.to_thread(describe_brokers, properties, timeout_s)
    security = ClientSecurity(properties)

    def connect(find: FindPlace) -> BrokerLink:
        return BrokerLink(find, security, CLIENT_ID, logs_in=True)

    coordinator = GroupCoordinator(group_id, connect, in_turns([(one.host, one.port) for one in brokers]))
    why = "no answer in time"
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    return await ask(coordinator)
                except (GroupTrouble, BrokerLost) as error:
                    why = str(error)
                coordinator.drop(why)
                await asyncio.sleep(RETRY_S)
    except TimeoutError as error:
        raise Failed(f"group {group_id} cannot be read: {why}", Exit.UNAVAILABLE) from error
    except GroupRefused as refused:
        raise Failed(explain(refused)) from refused
    finally:
        coordinator.drop("the command has its answer")
